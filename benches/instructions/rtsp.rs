//! RTSP clients of one stream, served as a worker serves them.

use std::io::{self, IoSlice, Write};
use std::sync::Arc;
use std::time::{Duration, Instant};

use glassline_egress::rtsp::{
    Bounds, Budget, Channels, ConnectionWriter, Cursor, HeaderTemplate, NumberKeys, Playing, Ring,
    Sent, TrackTransport, TrackTransports, WriteOutcome,
};
use glassline_media::{MediaUnit, Track, TrackIndex, VideoParameters};

const BOUNDS: Bounds = Bounds {
    bytes: 16 << 20,
    span: Duration::from_secs(5),
    lag: Duration::from_secs(1),
};

const BUDGET: Budget = Budget {
    lag: Duration::from_secs(1),
    stall: Duration::from_secs(10),
    skips_in_a_row: 3,
};

/// A connection that accepts everything at once.
struct Wire;

impl Write for Wire {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        Ok(bytes.len())
    }

    fn write_vectored(&mut self, slices: &[IoSlice<'_>]) -> io::Result<usize> {
        Ok(slices.iter().map(|slice| slice.len()).sum())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// One client that plays.
struct Player {
    writer: ConnectionWriter,
    cursor: Cursor,
    transports: TrackTransports,
}

/// All clients of one stream on one thread.
pub(crate) struct Players {
    ring: Ring,
    players: Vec<Player>,
    frame: MediaUnit,
    header: HeaderTemplate,
    now: Instant,
}

impl Players {
    /// `count` clients of a stream whose frames have about `frame_bytes` bytes.
    pub(crate) fn new(count: usize, frame_bytes: usize, now: Instant) -> Self {
        let ring = Ring::new(TrackIndex(0), BOUNDS);
        let track = Track::h264(VideoParameters::default());
        let numbers = NumberKeys::default().track("stream", TrackIndex(0));
        let player = || {
            let mut transports = TrackTransports::default();
            let channels = Channels {
                media: 0,
                control: 1,
            };
            let transport = TrackTransport::Interleaved {
                channels,
                srtp: None,
            };
            transports.set(TrackIndex(0), transport);
            Player {
                writer: ConnectionWriter::default(),
                cursor: Cursor::begin(&ring, transports.set_up(), true, now),
                transports,
            }
        };
        Self {
            players: (0..count).map(|_| player()).collect(),
            ring,
            frame: crate::rtp::frame(frame_bytes),
            header: HeaderTemplate::new(&track, TrackIndex(0), numbers),
            now,
        }
    }

    /// Puts the next frame into the ring, as a worker does when the hub wakes it.
    pub(crate) fn publish(&mut self) {
        self.frame.first_packet += self.frame.packet_count() as u64;
        self.ring
            .push_media(&Arc::new(self.frame.clone()), self.header);
    }

    /// Writes what is in the ring to every client; returns the packets written.
    pub(crate) fn write_frame(&mut self) -> u64 {
        let mut sent = Sent::default();
        for player in &mut self.players {
            let playing = Playing {
                ring: &mut self.ring,
                cursor: &mut player.cursor,
                transports: &mut player.transports,
                budget: &BUDGET,
            };
            let outcome = player
                .writer
                .pump(&mut Wire, Some(playing), self.now, &mut sent);
            assert!(matches!(outcome, WriteOutcome::Empty), "{outcome:?}");
        }
        sent.packets
    }
}
