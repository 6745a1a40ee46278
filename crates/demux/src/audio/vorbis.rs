//! Parses the headers of a Vorbis stream, as far as the duration of packets depends on them
//! (Vorbis I specification, §4.2 and §4.3).

/// Fields of the identification header, and the block sizes of the setup header's modes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Headers {
    pub(crate) channels: u8,
    pub(crate) rate: u32,
    /// Block size of each mode, in samples.
    modes: Vec<u16>,
}

pub(crate) const IDENTIFICATION: &[u8] = b"\x01vorbis";
pub(crate) const COMMENTS: &[u8] = b"\x03vorbis";
pub(crate) const SETUP: &[u8] = b"\x05vorbis";

impl Headers {
    pub(crate) fn parse(identification: &[u8], setup: &[u8]) -> Result<Self, &'static str> {
        let damaged = "the Vorbis identification header is damaged";
        let rest = identification.strip_prefix(IDENTIFICATION).ok_or(damaged)?;
        let &[0, 0, 0, 0, channels, r0, r1, r2, r3, ..] = rest else {
            return Err(damaged);
        };
        let rate = u32::from_le_bytes([r0, r1, r2, r3]);
        let sizes = *rest.get(21).ok_or(damaged)?;
        let (short, long) = (sizes & 15, sizes >> 4);
        if channels == 0 || rate == 0 || rate > 768_000 || !(6..=13).contains(&short) {
            return Err(damaged);
        }
        if !(short..=13).contains(&long) {
            return Err(damaged);
        }
        let setup = setup
            .strip_prefix(SETUP)
            .ok_or("the Vorbis setup header is missing")?;
        let flags = mode_flags(setup).ok_or("the Vorbis setup header is damaged")?;
        let size = |long_block: bool| 1u16 << if long_block { long } else { short };
        Ok(Self {
            channels,
            rate,
            modes: flags.into_iter().map(size).collect(),
        })
    }

    /// Returns the block size of a packet in samples; `None` if the packet is not audio.
    pub(crate) fn block(&self, packet: &[u8]) -> Option<u16> {
        let first = *packet.first()?;
        let mode_bits = usize::BITS - (self.modes.len() - 1).leading_zeros();
        let mode = first >> 1 & ((1u16 << mode_bits) - 1) as u8;
        let audio = first & 1 == 0;
        self.modes.get(usize::from(mode)).copied().filter(|_| audio)
    }
}

/// Counts the samples of successive packets.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Counter {
    last_block: Option<u16>,
}

impl Counter {
    /// Returns the samples that a decoder outputs for this packet: a quarter of its block and
    /// of the block before, and none for the first packet (§4.3.8).
    pub(crate) fn samples(&mut self, headers: &Headers, packet: &[u8]) -> u32 {
        let Some(block) = headers.block(packet) else {
            return 0;
        };
        let before = self.last_block.replace(block);
        before.map_or(0, |before| u32::from(before) / 4 + u32::from(block) / 4)
    }
}

/// Bits of a mode: block flag, window type, transform type, mapping.
const MODE_BITS: usize = 41;

/// Returns the block flag of each mode.
///
/// The modes are the last part of the setup header, and only a whole decoder can parse what
/// precedes them, so they are read from the end. Both types of a mode are zero, and the number
/// of modes precedes the first one.
fn mode_flags(setup: &[u8]) -> Option<Vec<bool>> {
    let bit = |at: usize| setup[at / 8] >> (at % 8) & 1 == 1;
    let number = |from: usize, count: usize| {
        let bits = (from..from + count).rev();
        bits.fold(0u32, |value, at| value << 1 | u32::from(bit(at)))
    };
    let framing = (0..setup.len() * 8).rev().find(|&at| bit(at))?;
    let mut at = framing;
    let mut flags = Vec::new();
    let mut found = None;
    while flags.len() < 64 {
        at = match at.checked_sub(MODE_BITS) {
            Some(start) if start >= 6 => start,
            _ => break,
        };
        let zero = number(at + 1, 16) == 0 && number(at + 17, 16) == 0;
        if !zero || number(at + 33, 8) > 63 {
            break;
        }
        flags.push(bit(at));
        if number(at - 6, 6) as usize + 1 == flags.len() {
            found = Some(flags.len());
        }
    }
    flags.truncate(found?);
    flags.reverse();
    Some(flags)
}

/// Splits the three headers that Matroska and MP4 store behind each other: their number minus
/// one, the lengths of all but the last in units of 255, then the headers.
pub(crate) fn split_headers(laced: &[u8]) -> Option<[&[u8]; 3]> {
    let (&count, mut rest) = laced.split_first()?;
    if count != 2 {
        return None;
    }
    let mut lengths = [0; 2];
    for length in &mut lengths {
        loop {
            let (&more, after) = rest.split_first()?;
            rest = after;
            *length += usize::from(more);
            if more < 255 {
                break;
            }
        }
    }
    let (first, rest) = rest.split_at_checked(lengths[0])?;
    let (second, third) = rest.split_at_checked(lengths[1])?;
    Some([first, second, third])
}

#[cfg(test)]
mod tests {
    use super::*;

    fn identification() -> Vec<u8> {
        let mut header = IDENTIFICATION.to_vec();
        header.extend([0, 0, 0, 0, 2, 0x44, 0xac, 0, 0]);
        header.extend([0; 12]);
        header.extend([0xb8, 1]);
        header
    }

    fn push(bits: &mut Vec<bool>, count: usize, value: usize) {
        bits.extend((0..count).map(|bit| value >> bit & 1 == 1));
    }

    /// Filler, the number of modes, modes with these block flags, the framing bit.
    fn setup(flags: &[bool], padding: usize) -> Vec<u8> {
        setup_behind(vec![true; 53], flags, padding)
    }

    fn setup_behind(mut bits: Vec<bool>, flags: &[bool], padding: usize) -> Vec<u8> {
        push(&mut bits, 6, flags.len() - 1);
        for (number, &flag) in flags.iter().enumerate() {
            push(&mut bits, 1, flag.into());
            push(&mut bits, 32, 0);
            push(&mut bits, 8, number);
        }
        bits.push(true);
        let mut header = SETUP.to_vec();
        header.extend(bits.chunks(8).map(|byte| {
            let bits = byte.iter().enumerate();
            bits.fold(0, |sum, (at, &bit)| sum | u8::from(bit) << at)
        }));
        header.extend(vec![0; padding]);
        header
    }

    #[test]
    fn modes_are_read_from_the_end() {
        for flags in [
            vec![false, true],
            vec![true],
            vec![false, true, true, false, true],
        ] {
            for padding in [0, 1, 3] {
                let headers =
                    Headers::parse(&identification(), &setup(&flags, padding)).expect("good");
                let sizes = flags.iter().map(|&flag| if flag { 2048 } else { 256 });
                assert_eq!(headers.modes, sizes.collect::<Vec<u16>>());
                assert_eq!((headers.channels, headers.rate), (2, 44_100));
            }
        }
        assert!(Headers::parse(&identification(), b"\x05vorbis").is_err());
        assert!(Headers::parse(&identification()[..20], &setup(&[true], 0)).is_err());
    }

    #[test]
    fn a_mode_with_another_window_or_transform_is_none() {
        let flags = [false, true];
        for (window, transform) in [(1, 0), (0, 1), (0x8000, 0), (0, 0x8000)] {
            // What precedes the modes looks like one more of them, except for its types: three
            // modes less one, a block flag, the types, and the low bits of a mapping whose
            // upper ones are the number of modes.
            let mut before = vec![true; 11];
            push(&mut before, 6, 2);
            push(&mut before, 1, 1);
            push(&mut before, 16, window);
            push(&mut before, 16, transform);
            push(&mut before, 2, 0);
            let headers = Headers::parse(&identification(), &setup_behind(before, &flags, 0));
            assert_eq!(headers.expect("good").modes, [256, 2048]);
        }
    }

    #[test]
    fn packets_overlap_by_half_a_block() {
        let headers = Headers::parse(&identification(), &setup(&[false, true], 0)).expect("good");
        let mut counter = Counter::default();
        let samples =
            [0b10, 0b10, 0b00, 0b00, 0b01].map(|first| counter.samples(&headers, &[first]));
        assert_eq!(samples, [0, 1024, 576, 128, 0]);
    }

    #[test]
    fn laced_headers_come_apart() {
        let mut laced = vec![2, 3, 255, 1];
        laced.extend(b"abc");
        laced.extend([7; 256]);
        laced.extend(b"rest");
        let [first, second, third] = split_headers(&laced).expect("three");
        assert_eq!(
            (first, second.len(), third),
            (b"abc".as_slice(), 256, b"rest".as_slice())
        );
        assert_eq!(split_headers(&laced[..100]), None);
        assert_eq!(split_headers(&[2, 255]), None);
        assert_eq!(split_headers(&[]), None);
    }
}
