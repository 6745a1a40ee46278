use std::fmt;

/// `profile_idc`, constraint flags and `level_idc`, as in SDP's `profile-level-id` (RFC 6184
/// §8.1).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ProfileLevelId(pub [u8; 3]);

/// An H.264 profile (RFC 6184 §8.1, table 5).
///
/// Several combinations of `profile_idc` and flags stand for the same profile.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum H264Profile {
    /// Constrained Baseline: Baseline without the error resilience tools, which no decoder
    /// implements.
    ConstrainedBaseline,
    /// Baseline profile (`profile_idc` 66).
    Baseline,
    /// Main profile (`profile_idc` 77).
    Main,
    /// Extended profile (`profile_idc` 88).
    Extended,
    /// High without interlacing and B pictures.
    ConstrainedHigh,
    /// Progressive High: High without interlacing.
    ProgressiveHigh,
    /// High profile (`profile_idc` 100).
    High,
    /// Any other, by `profile_idc` and flags: high bit depths, 4:2:2, 4:4:4, intra-only.
    Other(u8, u8),
}

impl ProfileLevelId {
    /// Value if an offer does not state it: Baseline at level 1 (RFC 6184 §8.1).
    pub const ABSENT: Self = Self([66, 0, 10]);

    /// Parses six hexadecimal digits, or the seven that FFmpeg's WHIP muxer writes for
    /// Constrained Baseline: its own flag of nine bits stands where the constraint flags belong.
    pub fn parse(digits: &str) -> Option<Self> {
        if !digits.bytes().all(|digit| digit.is_ascii_hexdigit()) {
            return None;
        }
        if digits.len() == 7 {
            let byte = |range| u8::from_str_radix(digits.get(range)?, 16).ok();
            let flags = match digits.get(2..5)? {
                "200" => CONSTRAINED,
                _ => 0,
            };
            return Some(Self([byte(0..2)?, flags, byte(5..7)?]));
        }
        if digits.len() != 6 {
            return None;
        }
        let [_, bytes @ ..] = u32::from_str_radix(digits, 16).ok()?.to_be_bytes();
        Some(Self(bytes))
    }

    /// Returns the profile. A combination of flags outside of table 5 counts as the plain
    /// profile of its `profile_idc`.
    pub const fn profile(self) -> H264Profile {
        let [idc, flags, _] = self.0;
        let (set0, set1) = (flags & 0x80 != 0, flags & 0x40 != 0);
        match idc {
            66 if set1 => H264Profile::ConstrainedBaseline,
            66 => H264Profile::Baseline,
            77 if set0 => H264Profile::ConstrainedBaseline,
            77 => H264Profile::Main,
            88 if set0 && set1 => H264Profile::ConstrainedBaseline,
            88 if set0 => H264Profile::Baseline,
            88 => H264Profile::Extended,
            100 if flags & 0x0c == 0x0c => H264Profile::ConstrainedHigh,
            100 if flags & 0x0c == 0x08 => H264Profile::ProgressiveHigh,
            100 => H264Profile::High,
            _ => H264Profile::Other(idc, flags),
        }
    }

    /// Returns the level in tenths, 31 for level 3.1. Level 1b is 10 with a flag, and counts as
    /// 10.
    pub const fn level(self) -> u8 {
        self.0[2]
    }
}

impl fmt::Display for ProfileLevelId {
    /// Writes six hexadecimal digits in lower case.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let [idc, flags, level] = self.0;
        write!(f, "{idc:02x}{flags:02x}{level:02x}")
    }
}

/// `constraint_set1_flag`, which FFmpeg's profiles have as bit 9.
const CONSTRAINED: u8 = 0x40;

impl H264Profile {
    /// Returns whether a decoder of this profile decodes every stream of profile `stream`
    /// (H.264 Annex A.2).
    pub fn decodes(self, stream: Self) -> bool {
        use H264Profile::{
            Baseline, ConstrainedBaseline, ConstrainedHigh, Extended, High, Main, Other,
            ProgressiveHigh,
        };
        match stream {
            _ if self == stream => true,
            ConstrainedBaseline => !matches!(self, Other(..)),
            Baseline => self == Extended,
            Main => self == High,
            ConstrainedHigh => matches!(self, ProgressiveHigh | High),
            ProgressiveHigh => self == High,
            Extended | High | Other(..) => false,
        }
    }

    /// Ranks how well a decoder that offers `self` suits a stream of this profile; 0 is best.
    /// `None`: the profile of the stream is not known.
    ///
    /// Behind the profiles that must decode the stream come those that decode it in practice:
    /// browsers offer Constrained Baseline and decode High all the same.
    pub(super) fn rank_for(self, stream: Option<Self>) -> u8 {
        match stream {
            Some(stream) if self == stream => 0,
            Some(stream) if self.decodes(stream) => 1 + self.rarity(),
            _ => 10 + self.rarity(),
        }
    }

    const fn rarity(self) -> u8 {
        match self {
            Self::ConstrainedBaseline => 0,
            Self::Baseline => 1,
            Self::Main => 2,
            Self::High => 3,
            Self::ConstrainedHigh | Self::ProgressiveHigh => 4,
            Self::Extended => 5,
            Self::Other(..) => 6,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn profile(digits: &str) -> H264Profile {
        ProfileLevelId::parse(digits).expect("six digits").profile()
    }

    /// RFC 6184 §8.1, table 5.
    #[test]
    fn triples_of_one_profile_are_equal() {
        for digits in ["42e01f", "42c01e", "424020", "4d801f", "58c01f", "42f00b"] {
            assert_eq!(
                profile(digits),
                H264Profile::ConstrainedBaseline,
                "{digits}"
            );
        }
        for digits in ["42001f", "42a028", "58801f"] {
            assert_eq!(profile(digits), H264Profile::Baseline, "{digits}");
        }
        assert_eq!(profile("4d0029"), H264Profile::Main);
        assert_eq!(profile("4d4029"), H264Profile::Main);
        assert_eq!(profile("640028"), H264Profile::High);
        assert_eq!(profile("640c1f"), H264Profile::ConstrainedHigh);
        assert_eq!(profile("f4001f"), H264Profile::Other(0xf4, 0));
    }

    #[test]
    fn seven_digits_of_ffmpeg_are_profile_and_level() {
        let id = ProfileLevelId::parse("422001f").expect("seven digits");
        assert_eq!(id.profile(), H264Profile::ConstrainedBaseline);
        assert_eq!((id.level(), id.to_string().as_str()), (31, "42401f"));
        let main = ProfileLevelId::parse("4d00028").expect("seven digits");
        assert_eq!((main.profile(), main.level()), (H264Profile::Main, 40));
    }

    #[test]
    fn six_or_seven_hex_digits_and_nothing_else() {
        assert_eq!(
            ProfileLevelId::parse("42E01F").map(|id| id.to_string()),
            Some("42e01f".to_owned())
        );
        for wrong in ["", "42e01", "42e01f00", "+2e01f", "42e01g", "42é01"] {
            assert_eq!(ProfileLevelId::parse(wrong), None, "{wrong}");
        }
    }

    #[test]
    fn ranks_prefer_equal_then_superset_then_common() {
        let order = |stream: H264Profile, offered: [H264Profile; 3]| {
            let mut offered = offered;
            offered.sort_by_key(|it| it.rank_for(Some(stream)));
            offered
        };
        use H264Profile::{Baseline, ConstrainedBaseline, High, Main};
        assert_eq!(
            order(ConstrainedBaseline, [High, Baseline, ConstrainedBaseline]),
            [ConstrainedBaseline, Baseline, High]
        );
        assert_eq!(
            order(Main, [ConstrainedBaseline, High, Baseline]),
            [High, ConstrainedBaseline, Baseline]
        );
        assert_eq!(
            order(High, [Main, Baseline, ConstrainedBaseline]),
            [ConstrainedBaseline, Baseline, Main]
        );
    }
}
