//! The size of a layer's latest keyframe: receivers join a bounded number of packets.

use glassline_media::MediaUnit;

/// Size of a keyframe.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct KeyframeSize {
    /// RTP packets of the frame.
    pub packets: usize,
    /// Payload bytes of those packets.
    pub bytes: usize,
}

/// Measures the latest keyframe among units in their order.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct KeyframeMeter {
    size: Option<KeyframeSize>,
    /// Whether the latest unit belongs to a keyframe.
    is_in_keyframe: bool,
}

impl KeyframeMeter {
    /// Notes the next unit, which is a frame or a part of one.
    pub(crate) fn note(&mut self, unit: &MediaUnit) {
        if unit.first {
            self.is_in_keyframe = unit.keyframe;
            if unit.keyframe {
                self.size = Some(KeyframeSize::default());
            }
        }
        if let Some(size) = self.size.as_mut().filter(|_| self.is_in_keyframe) {
            size.packets += unit.packet_count();
            size.bytes += unit.payload_bytes();
        }
    }

    /// Returns the size of the latest keyframe, as far as it has arrived; `None` before the first
    /// one.
    pub(crate) const fn size(&self) -> Option<KeyframeSize> {
        self.size
    }
}

#[cfg(test)]
mod tests {
    use std::time::Instant;

    use glassline_media::{MediaTime, Stamps, TrackIndex, UnitBuilder};

    use super::*;

    fn unit(packets: usize, keyframe: bool) -> MediaUnit {
        let mut builder = UnitBuilder::default();
        for _ in 0..packets {
            builder.push(&[7; 100]);
        }
        let stamps = Stamps::arrived(Instant::now());
        let built = builder.build(TrackIndex(0), MediaTime::ZERO, keyframe, stamps);
        built.expect("packets")
    }

    #[test]
    fn the_size_of_a_keyframe_is_that_of_all_its_parts() {
        let size = |packets| KeyframeSize {
            packets,
            bytes: packets * 100,
        };
        let mut meter = KeyframeMeter::default();
        meter.note(&unit(3, false));
        assert_eq!(meter.size(), None);
        for (packets, keyframe) in [(7, true), (40, false), (9, true), (3, false)] {
            meter.note(&unit(packets, keyframe));
        }
        assert_eq!(meter.size(), Some(size(9)), "the latest one");
        // The rest of a frame that arrives in parts.
        let mut rest = unit(2, true);
        rest.first = false;
        meter.note(&rest);
        assert_eq!(meter.size(), Some(size(9)), "the rest of another frame");
        meter.note(&unit(9, true));
        meter.note(&rest);
        assert_eq!(meter.size(), Some(size(11)));
    }
}
