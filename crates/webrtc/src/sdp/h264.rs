use std::fmt;

/// `profile_idc`, constraint flags and `level_idc`, as SDP's `profile-level-id`
/// writes them (RFC 6184 §8.1).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ProfileLevelId(pub [u8; 3]);

/// A set of coding tools of H.264 (RFC 6184 §8.1, table 5).
///
/// Several triples of `profile_idc` and flags mean the same profile.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Profile {
    /// Baseline without the error resilience tools that nobody decodes.
    ConstrainedBaseline,
    /// Baseline.
    Baseline,
    /// Main.
    Main,
    /// Extended.
    Extended,
    /// High without interlacing and B pictures.
    ConstrainedHigh,
    /// High without interlacing.
    ProgressiveHigh,
    /// High.
    High,
    /// Any other, by `profile_idc` and flags: high bit depths, 4:2:2, 4:4:4, intra-only.
    Other(u8, u8),
}

impl ProfileLevelId {
    /// What holds where an offer does not say it: Baseline at level 1 (RFC 6184 §8.1).
    pub const ABSENT: Self = Self([66, 0, 10]);

    /// Reads six hex digits.
    pub fn parse(digits: &str) -> Option<Self> {
        if digits.len() != 6 || !digits.bytes().all(|digit| digit.is_ascii_hexdigit()) {
            return None;
        }
        let [_, bytes @ ..] = u32::from_str_radix(digits, 16).ok()?.to_be_bytes();
        Some(Self(bytes))
    }

    /// The profile; a flag pattern outside table 5 counts as its `profile_idc`'s plain one.
    pub const fn profile(self) -> Profile {
        let [idc, flags, _] = self.0;
        let (set0, set1) = (flags & 0x80 != 0, flags & 0x40 != 0);
        match idc {
            66 if set1 => Profile::ConstrainedBaseline,
            66 => Profile::Baseline,
            77 if set0 => Profile::ConstrainedBaseline,
            77 => Profile::Main,
            88 if set0 && set1 => Profile::ConstrainedBaseline,
            88 if set0 => Profile::Baseline,
            88 => Profile::Extended,
            100 if flags & 0x0c == 0x0c => Profile::ConstrainedHigh,
            100 if flags & 0x0c == 0x08 => Profile::ProgressiveHigh,
            100 => Profile::High,
            _ => Profile::Other(idc, flags),
        }
    }

    /// Level in tenths, 31 for level 3.1; level 1b is 10 with a flag and counts as that.
    pub const fn level(self) -> u8 {
        self.0[2]
    }
}

impl fmt::Display for ProfileLevelId {
    /// Six hex digits in lower case.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let [idc, flags, level] = self.0;
        write!(f, "{idc:02x}{flags:02x}{level:02x}")
    }
}

impl Profile {
    /// A decoder of this profile decodes every stream of `stream`'s profile
    /// (H.264 Annex A.2).
    pub fn decodes(self, stream: Self) -> bool {
        use Profile::{
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

    /// How well a decoder that offers `self` suits a stream of this profile, 0 best;
    /// `None` where the stream's profile is not known.
    ///
    /// Past the profiles that must decode it comes what decodes it in practice:
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

    fn profile(digits: &str) -> Profile {
        ProfileLevelId::parse(digits).expect("six digits").profile()
    }

    /// RFC 6184 §8.1, table 5.
    #[test]
    fn triples_of_one_profile_are_equal() {
        for digits in ["42e01f", "42c01e", "424020", "4d801f", "58c01f", "42f00b"] {
            assert_eq!(profile(digits), Profile::ConstrainedBaseline, "{digits}");
        }
        for digits in ["42001f", "42a028", "58801f"] {
            assert_eq!(profile(digits), Profile::Baseline, "{digits}");
        }
        assert_eq!(profile("4d0029"), Profile::Main);
        assert_eq!(profile("4d4029"), Profile::Main);
        assert_eq!(profile("640028"), Profile::High);
        assert_eq!(profile("640c1f"), Profile::ConstrainedHigh);
        assert_eq!(profile("f4001f"), Profile::Other(0xf4, 0));
    }

    #[test]
    fn six_hex_digits_and_nothing_else() {
        assert_eq!(
            ProfileLevelId::parse("42E01F").map(|id| id.to_string()),
            Some("42e01f".to_owned())
        );
        for wrong in ["", "42e01", "42e01f0", "+2e01f", "42e01g", "42é01"] {
            assert_eq!(ProfileLevelId::parse(wrong), None, "{wrong}");
        }
    }

    #[test]
    fn ranks_prefer_equal_then_superset_then_common() {
        let order = |stream: Profile, offered: [Profile; 3]| {
            let mut offered = offered;
            offered.sort_by_key(|it| it.rank_for(Some(stream)));
            offered
        };
        use Profile::{Baseline, ConstrainedBaseline, High, Main};
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
