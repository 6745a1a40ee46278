//! What a player has set up, and how far it has come in its stream.

use std::sync::Arc;
use std::time::{Duration, Instant};

use glassline_hub::{Stream, ViewerToken};
use glassline_rtsp::range::Range;
use glassline_rtsp::server::{Answer, Way};

use super::counters::Counters;
use super::file_playback::FilePlayback;
use crate::egress::rtsp::{
    Budget, Cursor, Opened, Playing, StreamReader, TrackTransport, TrackTransports, TransportKind,
};
use crate::runtime::Key;

/// A player's session.
#[derive(Debug)]
pub(super) struct PlaySession {
    /// The reader of the stream on this thread.
    pub(super) reader: Key,
    pub(super) stream: Arc<Stream>,
    pub(super) transports: TrackTransports,
    /// When the player gets its next chunk of datagrams, after one that was not all.
    pub(super) paced_until: Option<Instant>,
    /// The file of the media folder that the session plays, if it plays one.
    pub(super) file: Option<FilePlayback>,
    /// The position in the stream while the session plays.
    pub(super) cursor: Option<Cursor>,
    has_logged_skip: bool,
    /// Counts the player among the stream's viewers while it plays.
    viewer: Option<ViewerToken>,
    /// Bytes sent to the player, media and responses.
    pub(super) bytes: u64,
    skipped_before: Skipped,
}

/// How often a player skipped to a keyframe, and what it missed by that.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Skipped {
    pub(super) skips: u32,
    /// Frames and packets of audio.
    pub(super) entries: u64,
}

impl PlaySession {
    pub(super) fn new(reader: Key, stream: Arc<Stream>) -> Self {
        Self {
            reader,
            stream,
            transports: TrackTransports::default(),
            paced_until: None,
            file: None,
            cursor: None,
            has_logged_skip: false,
            viewer: None,
            bytes: 0,
            skipped_before: Skipped::default(),
        }
    }

    pub(super) fn is(&self, kind: TransportKind) -> bool {
        self.transports.kind() == Some(kind)
    }

    pub(super) fn is_playing(&self) -> bool {
        self.cursor.is_some()
    }

    /// Whether a track may be set up in this way: all tracks go the same way.
    pub(super) fn accepts(&self, way: Way) -> bool {
        let asked = match way {
            Way::Interleaved { .. } => TransportKind::Interleaved,
            Way::Udp { .. } => TransportKind::Udp,
            Way::Multicast => TransportKind::Multicast,
        };
        self.transports.kind().is_none_or(|kind| kind == asked)
    }

    /// Drops a track; how it went.
    pub(super) fn forget(&mut self, track: usize) -> Option<TrackTransport> {
        let transport = self.transports.remove(track);
        if let Some(cursor) = &mut self.cursor {
            cursor.keep(self.transports.set_up());
        }
        transport
    }

    /// Takes what the client says of a track that it gets; false if the packet is not
    /// what the client sealed.
    pub(super) fn take(
        &mut self,
        track: usize,
        control: bool,
        bytes: &[u8],
        counters: &Counters,
    ) -> bool {
        let transport = self.transports.get_mut(track);
        let srtp = transport.and_then(TrackTransport::srtp_mut);
        // Players send no media: an empty datagram opens a way through a NAT.
        let Some(srtp) = srtp.filter(|_| control) else {
            return true;
        };
        match srtp.open_control(bytes) {
            Opened::Authentic => counters.srtcp_opened.add(1),
            Opened::Unknown => {}
            Opened::Refused => {
                counters.srtcp_refused.add(1);
                return false;
            }
        }
        true
    }

    /// Plays the stream from its newest keyframe on, or goes on with it.
    pub(super) fn play(&mut self, reader: &StreamReader, now: Instant) -> Answer {
        let tracks = self.transports.set_up();
        let is_multicast = self.is(TransportKind::Multicast);
        let cursor = self.cursor.get_or_insert_with(|| match is_multicast {
            // What the group gets next; nobody gets the past.
            true => Cursor::begin_at(reader.ring.end(), tracks, now),
            false => {
                let is_anchored = tracks.contains(reader.ring.anchor());
                Cursor::begin(&reader.ring, tracks, is_anchored, now)
            }
        });
        let starts = reader.starts(&self.transports, cursor);
        if cursor.is_waiting() && (is_multicast || reader.ring.keyframe().is_none()) {
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

    /// Plays from entry `position` of the stream on.
    pub(super) fn play_from(&mut self, position: u64, now: Instant) {
        let tracks = self.transports.set_up();
        self.cursor = Some(Cursor::begin_at(position, tracks, now));
        self.count_viewer();
    }

    fn count_viewer(&mut self) {
        let stream = &self.stream;
        self.viewer.get_or_insert_with(|| stream.viewer());
    }

    /// Stops the stream; the session stays.
    pub(super) fn rest(&mut self) {
        self.skipped_before = self.skipped();
        self.cursor = None;
        self.viewer = None;
        self.transports.set_playing(false);
    }

    /// What a connection writes of the stream, while the tracks go within it.
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

    /// How far behind the stream the player is; what a group gets is never behind.
    pub(super) fn lag(&self, reader: Option<&StreamReader>, now: Instant) -> Duration {
        match (&self.cursor, reader) {
            (Some(cursor), Some(reader)) if !self.is(TransportKind::Multicast) => {
                cursor.lag(&reader.ring, now)
            }
            _ => Duration::ZERO,
        }
    }

    /// All skips of the session.
    pub(super) fn skipped(&self) -> Skipped {
        let before = self.skipped_before;
        let cursor = self.cursor.as_ref();
        Skipped {
            skips: before.skips + cursor.map_or(0, Cursor::skips),
            entries: before.entries + cursor.map_or(0, Cursor::skipped),
        }
    }

    /// Whether a skip is the first of the session. Only that is logged: a client on a bad
    /// link skips again and again, and the API counts.
    pub(super) fn note_skip(&mut self) -> bool {
        !std::mem::replace(&mut self.has_logged_skip, true)
    }
}
