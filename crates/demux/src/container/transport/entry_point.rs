//! Recognizes frames at which a decoder can start, by their first bytes.

use glassline_media::annexb::{START_CODE, find_start_code};

use super::tables::Coding;

/// Bytes of a frame that are examined; headers are shorter.
const PROBE_BYTES_MAX: usize = 4096;

/// Examines a frame until its type is known.
#[derive(Debug)]
pub(super) struct Probe {
    coding: Coding,
    start: Vec<u8>,
}

impl Probe {
    pub(super) fn new(coding: Coding) -> Self {
        Self {
            coding,
            start: Vec::new(),
        }
    }

    /// Examines the next bytes of the frame; `None` while its type is unknown.
    pub(super) fn push(&mut self, bytes: &[u8]) -> Option<bool> {
        let room = PROBE_BYTES_MAX - self.start.len();
        self.start.extend(&bytes[..bytes.len().min(room)]);
        let full = self.start.len() == PROBE_BYTES_MAX;
        self.verdict().or(full.then_some(false))
    }

    fn verdict(&self) -> Option<bool> {
        if !matches!(
            self.coding,
            Coding::Mpeg | Coding::Mpeg4 | Coding::H264 | Coding::H265
        ) {
            return Some(false);
        }
        let mut rest = &self.start[..];
        let mut has_sequence = false;
        while let Some(at) = find_start_code(rest) {
            rest = &rest[at + START_CODE.len()..];
            // The code and the two bytes behind it must have arrived.
            let [code, first, second, ..] = *rest else {
                return None;
            };
            let decided = match self.coding {
                Coding::Mpeg => {
                    has_sequence |= code == 0xb3;
                    (code == 0x00).then_some(has_sequence && second >> 3 & 7 == 1)
                }
                Coding::Mpeg4 => (code == 0xb6).then_some(first >> 6 == 0),
                Coding::H264 => {
                    has_sequence |= code & 0x1f == 7;
                    match code & 0x1f {
                        5 => Some(true),
                        1 | 2 => Some(has_sequence && is_intra_slice(first)),
                        _ => None,
                    }
                }
                _ => match code >> 1 & 0x3f {
                    kind @ 0..=31 => Some((16..=23).contains(&kind)),
                    _ => None,
                },
            };
            if decided.is_some() {
                return decided;
            }
        }
        None
    }
}

/// Returns whether an H.264 slice header (7.3.3) begins with macroblock 0 and slice type 7,
/// which means that the whole frame consists of I slices.
fn is_intra_slice(first: u8) -> bool {
    // ue(0), then ue(7) = 0001000.
    first == 0b1000_1000
}

#[cfg(test)]
mod tests {
    use super::*;

    fn verdict(coding: Coding, bytes: &[u8]) -> Option<bool> {
        let mut probe = Probe::new(coding);
        let mut decided = None;
        for byte in bytes {
            decided = decided.or(probe.push(&[*byte]));
        }
        decided
    }

    #[test]
    fn keyframes_are_told_by_their_first_bytes() {
        for (coding, bytes, expected) in [
            (
                Coding::H264,
                b"\0\0\x01\x09\xf0\0\0\x01\x65\x88\x84".as_slice(),
                Some(true),
            ),
            (
                Coding::H264,
                b"\0\0\x01\x09\xf0\0\0\x01\x41\x9a\x20",
                Some(false),
            ),
            (
                Coding::H264,
                b"\0\0\x01\x67\x64\0\0\0\x01\x41\x88\x20",
                Some(true),
            ),
            (Coding::H264, b"\0\0\x01\x41\x88\x20", Some(false)),
            (
                Coding::H265,
                b"\0\0\x01\x40\x01\x0c\0\0\x01\x2a\x01\xaf",
                Some(true),
            ),
            (Coding::H265, b"\0\0\x01\x02\x01\xd0", Some(false)),
            (
                Coding::Mpeg,
                b"\0\0\x01\xb3\x04\0\0\0\x01\0\x00\x0f\xff",
                Some(true),
            ),
            (Coding::Mpeg, b"\0\0\x01\0\x00\x57\xff", Some(false)),
            (Coding::Mpeg4, b"\0\0\x01\xb6\x10\x60", Some(true)),
            (Coding::Mpeg4, b"\0\0\x01\xb6\x51\x60", Some(false)),
            (Coding::OtherVideo, b"\0", Some(false)),
            (Coding::H264, b"\0\0\x01\x09\xf0", None),
        ] {
            assert_eq!(verdict(coding, bytes), expected, "{coding:?} {bytes:?}");
        }
        assert_eq!(verdict(Coding::H264, &[1; PROBE_BYTES_MAX]), Some(false));
    }
}
