//! Which channels the elements of AAC frames hold: a channel configuration (ISO/IEC 14496-3, table
//! 1.19) or a program config element (§4.4.1.1, table 4.2).

use crate::Bits;

/// Most elements with audio in a program. More than eight channels are no program of this module.
const ELEMENTS_MAX: usize = 8;

/// Most channels of a program.
const CHANNELS_MAX: u8 = 8;

/// Where the channels of an element are heard.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Placement {
    /// In front: a single channel in the middle, a pair left and right.
    Front,
    /// At the sides of the listener.
    Side,
    /// Behind the listener: a single channel in the middle, a pair left and right.
    Back,
    /// Low frequencies only, from anywhere.
    LowFrequency,
}

/// One element of a program: a single channel or a pair.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ProgramElement {
    /// Where its channels are heard.
    pub placement: Placement,
    /// Whether it holds two channels, left and right.
    pub is_pair: bool,
    /// Tag of the element in the frames, 0 to 15; `None` if only the order of the elements tells
    /// them apart.
    pub tag: Option<u8>,
}

/// The elements of a program in order, with one to eight channels.
///
/// ```
/// use glassline_media::aac::{Placement, Program};
///
/// let surround = Program::of_configuration(6).expect("5.1");
/// assert_eq!((surround.channels(), surround.elements().len()), (6, 4));
/// assert_eq!(surround.elements()[3].placement, Placement::LowFrequency);
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Program {
    elements: [ProgramElement; ELEMENTS_MAX],
    count: u8,
}

impl Program {
    /// Returns the program that a channel configuration stands for (ISO/IEC 14496-3, table 1.19);
    /// `None` for 0 and for reserved numbers.
    pub fn of_configuration(number: u8) -> Option<Self> {
        // One letter an element: a single channel (c) or a pair (f) in front, a pair at the sides
        // (s) or behind (b), a single channel behind (m), low frequencies (l).
        let elements = match number {
            1 => "c",
            2 => "f",
            3 => "cf",
            4 => "cfm",
            5 => "cfb",
            6 => "cfbl",
            // The standard has the second pair in front; encoders have it at the sides.
            7 | 12 => "cfsbl",
            11 => "cfbml",
            // The last pair is heard from above the front.
            14 => "cfblf",
            _ => return None,
        };
        let mut program = Self::empty();
        for letter in elements.chars() {
            let (placement, is_pair) = match letter {
                'c' => (Placement::Front, false),
                'f' => (Placement::Front, true),
                's' => (Placement::Side, true),
                'b' => (Placement::Back, true),
                'm' => (Placement::Back, false),
                _ => (Placement::LowFrequency, false),
            };
            program.push(placement, is_pair, None)?;
        }
        Some(program)
    }

    /// Returns the usual program of a number of channels, 1 to 8; `None` for other numbers.
    pub fn of_channels(channels: u8) -> Option<Self> {
        Self::of_configuration(match channels {
            7 => 11,
            8 => 12,
            other => other,
        })
    }

    /// Reads a program config element behind its identifier, up to its alignment. `None` if it is
    /// cut off, has no channels or more than eight.
    pub fn parse(bits: &mut Bits<'_>) -> Option<Self> {
        // Tag of the element, object type, sampling rate.
        bits.take(4 + 2 + 4)?;
        let (front, side, back) = (bits.take(4)?, bits.take(4)?, bits.take(4)?);
        let low_frequency = bits.take(2)?;
        let (data, coupling) = (bits.take(3)?, bits.take(4)?);
        for mixdown_bits in [4, 4, 3] {
            if bits.bit()? {
                bits.take(mixdown_bits)?;
            }
        }
        let mut program = Self::empty();
        let placements = [
            (front, Placement::Front),
            (side, Placement::Side),
            (back, Placement::Back),
        ];
        for (count, placement) in placements {
            for _ in 0..count {
                let is_pair = bits.bit()?;
                program.push(placement, is_pair, Some(bits.take(4)? as u8))?;
            }
        }
        for _ in 0..low_frequency {
            let tag = bits.take(4)? as u8;
            program.push(Placement::LowFrequency, false, Some(tag))?;
        }
        bits.take(4 * data)?;
        for _ in 0..coupling {
            bits.take(1 + 4)?;
        }
        (program.count > 0).then_some(program)
    }

    /// Returns the elements in the order of the frames.
    pub fn elements(&self) -> &[ProgramElement] {
        &self.elements[..usize::from(self.count)]
    }

    /// Returns the number of channels, 1 to 8.
    pub fn channels(&self) -> u8 {
        let channels = self.elements().iter().map(|it| 1 + u8::from(it.is_pair));
        channels.sum()
    }

    const fn empty() -> Self {
        let element = ProgramElement {
            placement: Placement::Front,
            is_pair: false,
            tag: None,
        };
        Self {
            elements: [element; ELEMENTS_MAX],
            count: 0,
        }
    }

    /// Appends an element; `None` if the program would have too many channels.
    fn push(&mut self, placement: Placement, is_pair: bool, tag: Option<u8>) -> Option<()> {
        let slot = self.elements.get_mut(usize::from(self.count))?;
        *slot = ProgramElement {
            placement,
            is_pair,
            tag,
        };
        self.count += 1;
        (self.channels() <= CHANNELS_MAX).then_some(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn configurations_have_the_channels_of_table_1_19() {
        let channels = |number| Program::of_configuration(number).map(|it| it.channels());
        let counted: Vec<_> = (0..16).map(channels).collect();
        let expected = [0, 1, 2, 3, 4, 5, 6, 8, 0, 0, 0, 7, 8, 0, 8, 0];
        let expected: Vec<_> = expected.map(|it| (it > 0).then_some(it)).into();
        assert_eq!(counted, expected);
        for channels in 1..=8 {
            let program = Program::of_channels(channels).expect("a usual one");
            assert_eq!(program.channels(), channels);
        }
        assert_eq!(Program::of_channels(9), None);
    }

    /// 7.1 with a pair at the sides and one behind.
    #[test]
    fn a_program_config_element_names_its_elements() {
        let front = [(false, 0), (true, 0)];
        let mut fields = vec![
            (0, 4),
            (1, 2),
            (3, 4),
            (2, 4),
            (1, 4),
            (1, 4),
            (1, 2),
            (0, 3),
            (0, 4),
        ];
        fields.extend([(0, 1); 3]);
        for (is_pair, tag) in front {
            fields.extend([(u32::from(is_pair), 1), (tag, 4)]);
        }
        fields.extend([(1, 1), (1, 4), (1, 1), (2, 4), (0, 4)]);
        let bytes = bytes_of(&fields);
        let program = Program::parse(&mut Bits::new(&bytes)).expect("eight channels");
        assert_eq!(program.channels(), 8);
        let described: Vec<_> = program
            .elements()
            .iter()
            .map(|it| (it.placement, it.tag))
            .collect();
        let expected = [
            (Placement::Front, Some(0)),
            (Placement::Front, Some(0)),
            (Placement::Side, Some(1)),
            (Placement::Back, Some(2)),
            (Placement::LowFrequency, Some(0)),
        ];
        assert_eq!(described, expected);
        for cut in 0..bytes.len() {
            assert_eq!(Program::parse(&mut Bits::new(&bytes[..cut])), None, "{cut}");
        }
    }

    #[test]
    fn programs_of_too_many_channels_and_of_none_are_refused() {
        assert_eq!(Program::parse(&mut Bits::new(&[0; 16])), None);
        assert_eq!(Program::parse(&mut Bits::new(&[0xff; 64])), None);
    }

    /// Writes numbers with their lengths in bits one behind the other.
    fn bytes_of(fields: &[(u32, u32)]) -> Vec<u8> {
        let bits = fields.iter();
        let bits = bits.flat_map(|(value, count)| (0..*count).rev().map(move |at| value >> at & 1));
        let bits: Vec<u32> = bits.collect();
        let byte = |bits: &[u32]| {
            let bits = bits.iter().zip((0..8).rev());
            bits.map(|(bit, at)| (bit << at) as u8).sum()
        };
        bits.chunks(8).map(byte).collect()
    }
}
