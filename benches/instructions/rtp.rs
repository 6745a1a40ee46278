//! A camera's H.264 packets, which are depacketized into frames.

use std::time::Instant;

use glassline_media::{
    MediaTime, MediaUnit, Stamps, Track, TrackIndex, UnitBuilder, VideoParameters,
};
use glassline_rtp::h264;
use glassline_rtp::payload::Depacketizer;

use crate::lab::PAYLOAD_BYTES;

/// A depacketizer and the packets of one frame, which are pushed repeatedly.
pub(crate) struct Depacketizing {
    depacketizer: Depacketizer,
    frame: MediaUnit,
    sequence: u64,
    timestamp: u32,
}

impl Depacketizing {
    /// A track whose frames have one slice of about `frame_bytes` bytes.
    pub(crate) fn new(frame_bytes: usize) -> Result<Self, String> {
        let track = Track::h264(VideoParameters::default());
        let depacketizer = Depacketizer::new(&track).map_err(|error| error.to_string())?;
        Ok(Self {
            depacketizer,
            frame: frame(frame_bytes),
            sequence: 1,
            timestamp: 0,
        })
    }

    /// Pushes the packets of one frame; returns the bytes of the frame that comes out.
    pub(crate) fn push_frame(&mut self) -> u64 {
        self.timestamp = self.timestamp.wrapping_add(3000);
        let count = self.frame.packet_count();
        let mut bytes = 0;
        for (place, payload) in self.frame.payloads().enumerate() {
            let marker = place + 1 == count;
            self.depacketizer
                .push(self.sequence, self.timestamp, marker, payload);
            self.sequence += 1;
            while let Some(unit) = self.depacketizer.poll() {
                bytes += unit.data.len();
            }
        }
        assert!(bytes > 0, "a whole frame comes out");
        bytes as u64
    }
}

/// A keyframe of one slice, cut into packets of equal size.
pub(crate) fn frame(bytes: usize) -> MediaUnit {
    let mut slice = vec![0x5a; bytes - 2 * bytes / PAYLOAD_BYTES];
    (slice[0], slice[1]) = (0x65, 0x88);
    let mut builder = UnitBuilder::with_capacity(bytes);
    h264::packetize(
        std::iter::once(slice.as_slice()),
        PAYLOAD_BYTES,
        &mut builder,
    );
    let unit = builder.build(
        TrackIndex(0),
        MediaTime::ZERO,
        true,
        Stamps::arrived(Instant::now()),
    );
    unit.expect("a slice has packets")
}
