//! Copies the tracks of a stream into those of a broadcast.

use std::sync::Arc;
use std::time::Instant;

use bytes::Bytes;
use glassline_hub::Stream;
use glassline_media::{MediaUnit, TrackIndex, TrackLayer};
use glassline_quic::moq::Broadcast;
use glassline_runtime::Counter;

/// Copies one layer of a track of the stream to a track of the broadcast: its coded frames, by reference.
pub(super) struct TrackRemuxer {
    /// Index of the track in the broadcast.
    pub(super) place: TrackIndex,
    /// Layer in the stream.
    pub(super) of: TrackLayer,
    pub(super) is_audio: bool,
    /// Number of the next unit to copy.
    pub(super) next: u64,
    /// When a session last read the track.
    pub(super) read_at: Option<Instant>,
}

impl TrackRemuxer {
    /// Starts at the newest keyframe, and at the newest audio.
    pub(super) fn begin(
        &mut self,
        stream: &Arc<Stream>,
        broadcast: &mut Broadcast,
        left_out: &Counter,
    ) {
        if self.is_audio {
            return;
        }
        let units = stream.since_keyframe(self.of);
        if units.is_empty() {
            // The keyframe has left the ring, and the reader cannot begin without one.
            stream.request_keyframe_of(self.of);
        }
        for unit in &units {
            self.write(unit, broadcast, left_out);
        }
    }

    pub(super) fn write(
        &mut self,
        unit: &MediaUnit,
        broadcast: &mut Broadcast,
        left_out: &Counter,
    ) {
        if unit.index < self.next {
            return;
        }
        self.next = unit.index + 1;
        let pieces: Vec<Bytes> = match unit.coded_frame() {
            Some(frame) => frame.shared_pieces().collect(),
            // Only voices are forwarded, and a packet of Opus is a frame of it (RFC 7587 §4.2).
            None => unit.payloads().map(Bytes::copy_from_slice).collect(),
        };
        let keyframe = unit.keyframe || self.is_audio;
        if let Err(error) = broadcast.write_pieces(self.place, unit.time, keyframe, &pieces) {
            tracing::debug!(%error, "frame not sent over QUIC");
            left_out.add(1);
        }
    }
}
