//! A player's session: the tracks that it has set up, and its position in the stream.

use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;
use std::time::{Duration, Instant};

use glassline_egress::rtsp::{
    Budget, Cursor, Opened, Playing, Ring, StreamReader, TrackTransport, TrackTransports,
    TransportKind,
};
use glassline_events::failures::{ClientRole, ConnectionFailure};
use glassline_hub::{Stream, ViewerToken};
use glassline_media::TrackIndex;
use glassline_rtsp::range::Range;
use glassline_rtsp::server::{Answer, SelectedTransport};
use glassline_runtime::Key;

use super::counters::Counters;
use super::failures;
use super::reception::{Departure, Observed, Reception};
use super::recorded::Recorded;

/// The session of a client that plays: its stream, tracks and position.
#[derive(Debug)]
pub(super) struct PlaySession {
    /// The reader of the stream on this thread.
    pub(super) reader: Key,
    pub(super) stream: Arc<Stream>,
    pub(super) transports: TrackTransports,
    /// Time at which the player gets its next chunk of datagrams; `None` if the latest chunk was
    /// the last.
    pub(super) paced_until: Option<Instant>,
    /// The file of the media folder, or the past of a stream, that the session plays.
    pub(super) recorded: Option<Recorded>,
    /// The position in the stream while the session plays.
    pub(super) cursor: Option<Cursor>,
    has_logged_skip: bool,
    /// Counts the player among the stream's viewers while it plays.
    viewer: Option<ViewerToken>,
    /// Bytes sent to the player, media and responses.
    pub(super) bytes: u64,
    skipped_before: SkipCounts,
    /// Entry at which the player rested, if it had got everything before.
    left_at: Option<u64>,
    pub(super) reception: Reception,
}

/// How often a player skipped to a keyframe, and how much it missed.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct SkipCounts {
    pub(super) skips: u32,
    /// Number of frames and packets of audio that the player missed.
    pub(super) entries: u64,
}

impl PlaySession {
    pub(super) fn new(reader: Key, stream: Arc<Stream>) -> Self {
        Self {
            reader,
            stream,
            transports: TrackTransports::default(),
            paced_until: None,
            recorded: None,
            cursor: None,
            has_logged_skip: false,
            viewer: None,
            bytes: 0,
            skipped_before: SkipCounts::default(),
            left_at: None,
            reception: Reception::default(),
        }
    }

    pub(super) fn is(&self, kind: TransportKind) -> bool {
        self.transports.kind() == Some(kind)
    }

    pub(super) fn is_playing(&self) -> bool {
        self.cursor.is_some()
    }

    /// Returns the name of the stream or file.
    pub(super) fn name(&self) -> &str {
        match &self.recorded {
            Some(recorded) => recorded.name(),
            None => self.stream.name().as_str(),
        }
    }

    /// Returns whether a track may be set up with this transport: all tracks have the same kind.
    pub(super) fn accepts(&self, transport: SelectedTransport) -> bool {
        let requested = match transport {
            SelectedTransport::Interleaved { .. } => TransportKind::Interleaved,
            SelectedTransport::Udp { .. } => TransportKind::Udp,
            SelectedTransport::Multicast => TransportKind::Multicast,
        };
        self.transports.kind().is_none_or(|kind| kind == requested)
    }

    /// Drops a track and returns its transport.
    pub(super) fn forget(&mut self, track: TrackIndex) -> Option<TrackTransport> {
        let transport = self.transports.remove(track);
        if let Some(cursor) = &mut self.cursor {
            cursor.keep(self.transports.set_up());
        }
        transport
    }

    /// Takes a packet that the client sent for a track; returns false if the packet is SRTP that
    /// the client's keys do not open.
    pub(super) fn take(
        &mut self,
        track: TrackIndex,
        control: bool,
        bytes: &[u8],
        counters: &Counters,
    ) -> bool {
        let transport = self.transports.get_mut(track);
        let srtp = transport.and_then(TrackTransport::srtp_mut);
        // Players send no media: an empty datagram opens a path through a NAT.
        if !control {
            return true;
        }
        let Some(srtp) = srtp else {
            self.reception.note_control(bytes);
            return true;
        };
        // Of SRTCP the header and the first SSRC are in clear, so that its blocks count unread.
        match srtp.open_control(bytes) {
            Opened::Authentic => {
                counters.srtcp_opened.add(1);
                self.reception.note_control(bytes);
            }
            Opened::Unknown => self.reception.note_control(bytes),
            Opened::Refused => {
                counters.srtcp_refused.add(1);
                return false;
            }
        }
        true
    }

    /// Plays the stream from its newest keyframe on, or continues after a pause.
    pub(super) fn play(&mut self, reader: &StreamReader, now: Instant) -> Answer {
        let tracks = self.transports.set_up();
        let is_multicast = self.is(TransportKind::Multicast);
        let is_resting = self.cursor.is_none();
        let cursor = self.cursor.get_or_insert_with(|| match is_multicast {
            // A client of a group gets what the group gets next, without a past.
            true => Cursor::begin_at(reader.ring.end(), tracks, now),
            false => {
                let is_anchored = tracks.contains(reader.ring.anchor());
                Cursor::begin(&reader.ring, tracks, is_anchored, now)
            }
        });
        if is_resting {
            self.reception.begin(cursor.position(), now);
        }
        let starts = reader.starts(&self.transports, cursor);
        if cursor.is_waiting() && (is_multicast || reader.ring.lacks_recent_keyframe(now)) {
            reader.stream().request_keyframe();
        }
        self.count_viewer();
        self.transports.set_playing(true);
        Answer::Playing {
            range: Some(Range::LIVE),
            scale: None,
            speed: None,
            starts,
        }
    }

    /// Plays from entry `position` of the stream on. A stream that `continues` after a rest goes on where the
    /// player left it.
    pub(super) fn play_from(&mut self, position: u64, continues: Option<&Ring>, now: Instant) {
        let tracks = self.transports.set_up();
        let kept = |ring: &Ring| self.left_at.filter(|left| *left >= ring.first());
        let cursor = match continues.and_then(kept) {
            Some(left) => Cursor::continue_at(left, tracks, now),
            None => Cursor::begin_at(position, tracks, now),
        };
        let position = cursor.position();
        self.cursor = Some(cursor);
        self.reception.begin(position, now);
        self.count_viewer();
    }

    fn count_viewer(&mut self) {
        let stream = &self.stream;
        self.viewer.get_or_insert_with(|| stream.add_viewer());
    }

    /// Stops the stream; the session stays.
    pub(super) fn rest(&mut self) {
        self.skipped_before = self.skipped();
        if let Some(cursor) = self.cursor.take() {
            self.left_at = (!cursor.is_waiting()).then(|| cursor.position());
        }
        self.viewer = None;
        self.transports.set_playing(false);
    }

    /// Returns the parts of the session that a connection writes the stream from, if the tracks go
    /// within the connection.
    pub(super) fn playing<'a>(
        &'a mut self,
        reader: &'a mut StreamReader,
        budget: &'a Budget,
    ) -> Option<Playing<'a>> {
        if !self.is(TransportKind::Interleaved) {
            return None;
        }
        Some(Playing {
            ring: &mut reader.ring,
            cursor: self.cursor.as_mut()?,
            transports: &mut self.transports,
            budget,
        })
    }

    /// Returns how far the player is behind the stream; 0 for a multicast group.
    pub(super) fn lag(&self, reader: Option<&StreamReader>, now: Instant) -> Duration {
        match (&self.cursor, reader) {
            (Some(cursor), Some(reader)) if !self.is(TransportKind::Multicast) => {
                cursor.lag(&reader.ring, now)
            }
            _ => Duration::ZERO,
        }
    }

    /// Returns all skips of the session.
    pub(super) fn skipped(&self) -> SkipCounts {
        let before = self.skipped_before;
        let cursor = self.cursor.as_ref();
        SkipCounts {
            skips: before.skips + cursor.map_or(0, Cursor::skips),
            entries: before.entries + cursor.map_or(0, Cursor::skipped),
        }
    }

    /// Returns whether a skip is the first of the session. Only that one is logged, because a
    /// client on a bad link skips again and again; the API has the count.
    pub(super) fn note_skip(&mut self) -> bool {
        !std::mem::replace(&mut self.has_logged_skip, true)
    }
    /// Notes that the network says that the port at `destination` is closed. A player may play
    /// without a port for reports.
    pub(super) fn note_refused(&mut self, destination: SocketAddr, now: Instant) {
        if self
            .transports
            .addresses()
            .any(|it| it.media == destination)
        {
            self.reception.note_refused(now);
        }
    }

    /// Returns the failure that the session's state or end means for a client at `from`; `None` if the
    /// session does not play, or if the client may have got media.
    pub(super) fn failure(
        &self,
        departure: Departure,
        from: IpAddr,
        now: Instant,
    ) -> Option<ConnectionFailure> {
        let cursor = self.cursor.as_ref()?;
        let seen = Observed {
            departure,
            by_udp: self.transports.addresses().next().map(|it| it.media),
            is_multicast: self.is(TransportKind::Multicast),
            position: cursor.position(),
            packets: cursor.packets(),
            state: self.stream.state(),
        };
        let explained = self.reception.explain(&seen, now)?;
        let role = ClientRole::Viewer;
        Some(failures::failure(self.name(), role, explained, from))
    }
}
