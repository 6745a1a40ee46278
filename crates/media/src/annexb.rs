//! The byte stream format of H.264 and H.265 (ITU-T H.264 and H.265, Annex B): NAL units
//! separated by start codes.

/// Start code of three bytes in front of each NAL unit; another zero byte may precede it.
pub const START_CODE: [u8; 3] = [0, 0, 1];

/// Start code of four bytes, which begins an access unit and is allowed in front of every NAL
/// unit (H.264 Annex B, `zero_byte` and `start_code_prefix_one_3bytes`).
pub const LONG_START_CODE: [u8; 4] = [0, 0, 0, 1];

/// Returns the NAL units of an access unit in Annex B form, without start codes and without the
/// zero bytes that may follow a unit (B.1.1). Bytes in front of the first start code and empty
/// units are skipped.
pub fn nals(bytes: &[u8]) -> Nals<'_> {
    let start = find_start_code(bytes).map_or(bytes.len(), |at| at + START_CODE.len());
    Nals {
        rest: bytes.get(start..).unwrap_or_default(),
    }
}

/// Iterator over the NAL units of a byte stream, returned by [`nals`].
#[derive(Clone, Debug)]
pub struct Nals<'a> {
    rest: &'a [u8],
}

impl<'a> Iterator for Nals<'a> {
    type Item = &'a [u8];

    fn next(&mut self) -> Option<&'a [u8]> {
        while !self.rest.is_empty() {
            let (unit, rest) = match find_start_code(self.rest) {
                Some(at) => (&self.rest[..at], &self.rest[at + START_CODE.len()..]),
                None => (self.rest, [].as_slice()),
            };
            self.rest = rest;
            let unit = trim_zeros(unit);
            if !unit.is_empty() {
                return Some(unit);
            }
        }
        None
    }
}

/// Returns the offset of the first `00 00 01`; `None` if there is none.
pub fn find_start_code(bytes: &[u8]) -> Option<usize> {
    // The third byte decides the step: only if it is 0 or 1 can a start code begin before it.
    let mut at = 2;
    while let Some(&third) = bytes.get(at) {
        match third {
            0 => at += 1,
            1 if bytes[at - 1] == 0 && bytes[at - 2] == 0 => return Some(at - 2),
            _ => at += 3,
        }
    }
    None
}

/// Returns `bytes` without the start code of three or four bytes in front of them, if there is one.
pub fn without_start_code(bytes: &[u8]) -> &[u8] {
    match bytes {
        [0, 0, 1, rest @ ..] | [0, 0, 0, 1, rest @ ..] => rest,
        _ => bytes,
    }
}

/// Removes the zero bytes at the end, which belong to no NAL unit (B.1.1).
pub fn trim_zeros(bytes: &[u8]) -> &[u8] {
    let zeros = bytes.iter().rev().take_while(|&&byte| byte == 0).count();
    &bytes[..bytes.len() - zeros]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_start_code_is_found_wherever_it_stands() {
        for at in 0..8 {
            let mut bytes = vec![7; 12];
            bytes[at..at + 3].copy_from_slice(&START_CODE);
            assert_eq!(find_start_code(&bytes), Some(at));
            bytes.truncate(at + 2);
            assert_eq!(find_start_code(&bytes), None, "cut after {at}");
        }
        assert_eq!(find_start_code(&LONG_START_CODE), Some(1));
        for near in [[0, 1, 1, 9], [1, 0, 1, 9], [0, 2, 1, 9], [0, 0, 2, 1]] {
            assert_eq!(find_start_code(&near), None, "{near:?}");
        }
    }

    #[test]
    fn units_come_without_start_codes_trailing_zeros_and_what_precedes_them() {
        let bytes = [
            9, 9, 0, 0, 0, 1, 0x67, 0, 5, 0, 0, 0, 1, 0, 0, 1, 0x68, 0, 0, 1, 0x65, 3, 0,
        ];
        let units: Vec<_> = nals(&bytes).collect();
        assert_eq!(units, [&[0x67, 0, 5][..], &[0x68], &[0x65, 3]]);
        assert_eq!(nals(&[1, 2, 3, 4]).count(), 0, "no start code");
        assert_eq!(nals(&[]).count(), 0);
        assert_eq!(trim_zeros(&[0, 4, 0, 0]), [0, 4]);
        assert_eq!(trim_zeros(&[0, 0]), [0; 0]);
    }

    #[test]
    fn only_a_start_code_in_front_is_removed() {
        assert_eq!(without_start_code(&[0, 0, 1, 7]), [7]);
        assert_eq!(without_start_code(&[0, 0, 0, 1, 7]), [7]);
        for other in [
            &[][..],
            &[0, 0],
            &[0, 1, 7],
            &[7, 0, 0, 1],
            &[0, 0, 0, 0, 1],
        ] {
            assert_eq!(without_start_code(other), other);
        }
    }
}
