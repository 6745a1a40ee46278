//! RTSP clients of one stream, served as a worker serves them.

use std::io::{self, IoSlice, Write};
use std::sync::Arc;
use std::time::{Duration, Instant};

use glassline_media::{MediaUnit, Track, TrackIndex, VideoParameters};

use connection_writer::{ConnectionWriter, Playing, WriteOutcome};
use counters::Sent;
use cursor::{Budget, Cursor};
use framing::HeaderTemplate;
use numbers::NumberKeys;
use ring::{Bounds, Ring};
use transport::{Channels, TrackTransport, TrackTransports};

// The server's own files, which are not part of its interface.
#[path = "../../crates/server/src/egress/rtsp/connection_writer.rs"]
#[expect(dead_code, reason = "the server uses more of it")]
mod connection_writer;
#[path = "../../crates/server/src/egress/rtsp/counters.rs"]
#[expect(dead_code, unreachable_pub, reason = "the server uses more of it")]
mod counters;
#[path = "../../crates/server/src/egress/rtsp/cursor.rs"]
#[expect(dead_code, reason = "the server uses more of it")]
mod cursor;
#[path = "../../crates/server/src/egress/rtsp/framing.rs"]
#[expect(dead_code, reason = "the server uses more of it")]
#[cfg_attr(test, expect(unused_imports, reason = "its tests run in the server"))]
mod framing;
#[path = "../../crates/server/src/egress/rtsp/numbers.rs"]
#[expect(dead_code, reason = "the server uses more of it")]
#[cfg_attr(test, expect(unused_imports, reason = "its tests run in the server"))]
mod numbers;
#[path = "../../crates/server/src/egress/rtsp/ring.rs"]
#[expect(dead_code, reason = "the server uses more of it")]
mod ring;
#[path = "../../crates/server/src/egress/rtsp/srtp.rs"]
#[expect(dead_code, reason = "the server uses more of it")]
mod srtp;
#[path = "../../crates/server/src/egress/rtsp/transport.rs"]
#[expect(dead_code, reason = "the server uses more of it")]
mod transport;

/// Path under which the server's files look for multicast groups, of which there are none here.
mod groups {
    /// Membership of a client in a multicast group.
    #[derive(Debug)]
    pub(crate) struct MulticastMembership;

    impl MulticastMembership {
        /// Counts whether the client plays.
        pub(crate) fn set_playing(&mut self, _plays: bool) {}
    }
}

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
