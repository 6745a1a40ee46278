/// The place of a frame among the temporal layers of its encoding. The default is that of every frame of
/// an encoding without such layers.
///
/// A receiver that leaves out the layers above one still decodes the rest, at a lower frame rate.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Temporal {
    /// Temporal layer of the frame, at most [`LAYER_MAX`](Self::LAYER_MAX); 0 is the lowest.
    pub layer: u8,
    /// Highest layer to which the frame refers: a decoder needs all frames up to that layer.
    pub needs: u8,
    /// Highest layer of which all later frames can be decoded by a receiver that decodes this frame,
    /// although it left out earlier frames of that layer. 0 for a frame that is no switching point.
    pub opens: u8,
    /// True if no other frame refers to this one.
    pub discardable: bool,
}

impl Temporal {
    /// Highest temporal layer that the dependency descriptor can name.
    pub const LAYER_MAX: u8 = 7;

    /// Returns the place in 10 bits, of which [`from_bits`](Self::from_bits) makes it again.
    pub const fn bits(self) -> u16 {
        let numbers = [self.layer, self.needs, self.opens];
        (self.discardable as u16) << 9
            | (numbers[2] as u16 & 7) << 6
            | (numbers[1] as u16 & 7) << 3
            | (numbers[0] as u16 & 7)
    }

    /// Returns the place that `bits` stand for; the upper six have no meaning.
    pub const fn from_bits(bits: u16) -> Self {
        Self {
            layer: (bits & 7) as u8,
            needs: (bits >> 3 & 7) as u8,
            opens: (bits >> 6 & 7) as u8,
            discardable: bits >> 9 & 1 == 1,
        }
    }

    /// Returns the place of a unit that consists of this frame and `other`, of another spatial layer.
    #[must_use]
    pub fn with(self, other: Self) -> Self {
        Self {
            layer: self.layer.max(other.layer),
            needs: self.needs.max(other.needs),
            opens: self.opens.min(other.opens),
            discardable: self.discardable && other.discardable,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ten_bits_hold_every_place() {
        for bits in 0..1 << 10 {
            assert_eq!(Temporal::from_bits(bits).bits(), bits);
        }
        assert_eq!(Temporal::default().bits(), 0);
        assert_eq!(Temporal::from_bits(0xfc00), Temporal::default());
    }

    #[test]
    fn a_unit_needs_what_one_of_its_frames_needs() {
        let frame = |needs, opens, discardable| Temporal {
            layer: 2,
            needs,
            opens,
            discardable,
        };
        let unit = frame(0, 2, true).with(frame(1, 7, true));
        assert_eq!(unit, frame(1, 2, true));
        assert!(!unit.with(frame(0, 0, false)).discardable);
    }
}
