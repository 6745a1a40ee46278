//! The layers that a server encodes of a source with a single encoding, as the configuration has them.

use std::fmt;

use glassline_media::Bitrate;

/// Most rungs of a ladder: each is encoded on its own.
const RUNGS_MAX: usize = 3;

/// Heights of rungs, in rows: OpenH264 encodes no smaller pictures well, and no larger ones.
const HEIGHT_MIN: u16 = 48;
const HEIGHT_MAX: u16 = 1080;

/// Bitrates of rungs, in kbit/s.
const KBPS_MIN: u64 = 50;
const KBPS_MAX: u64 = 12_000;

/// Bitrates that are usual for a height, in rows and kbit/s: those between lie on straight lines.
const USUAL_KBPS: [(u64, u64); 9] = [
    (48, 60),
    (90, 80),
    (180, 150),
    (270, 300),
    (360, 500),
    (480, 900),
    (540, 1_200),
    (720, 2_000),
    (1_080, 4_500),
];

/// The lower layers that are encoded while somebody needs them, the largest first.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Ladder {
    rungs: [Option<LadderRung>; RUNGS_MAX],
}

/// One layer of a ladder.
#[derive(Clone, Copy, Debug, PartialEq, Eq, derive_more::Display)]
#[display("{height}p:{}k", self.rate.bps() / 1_000)]
pub struct LadderRung {
    /// Rows of the picture.
    pub height: u16,
    /// Bitrate of the encoder.
    pub rate: Bitrate,
}

/// The reason why a text is no ladder.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum LadderError {
    /// A rung is not written as one.
    #[error(
        "'{0}' is no layer of a ladder: write its height and perhaps its bitrate, like 360p or 360p:500k, \
         or `off` for no ladder"
    )]
    Rung(String),
    /// A rung is too small or too large.
    #[error(
        "{0}p is no height of a ladder's layer: heights are even, from {HEIGHT_MIN}p to {HEIGHT_MAX}p"
    )]
    Height(u64),
    /// The bitrate of a rung is too low or too high.
    #[error("{0}k is no bitrate of a ladder's layer: bitrates are {KBPS_MIN}k to {KBPS_MAX}k")]
    Rate(u64),
    /// There are too many rungs.
    #[error("a ladder has at most {RUNGS_MAX} layers, not {0}")]
    Many(usize),
    /// Two rungs have one height, or a smaller one has a higher bitrate.
    #[error(
        "the ladder's layer {lower} is no step below {upper}: a lower height needs a lower bitrate"
    )]
    Order {
        /// The rung with the larger height.
        upper: LadderRung,
        /// The rung that follows.
        lower: LadderRung,
    },
}

impl Ladder {
    /// The ladder without layers.
    pub const OFF: Self = Self {
        rungs: [None; RUNGS_MAX],
    };

    /// The word for a ladder without layers.
    const OFF_WORD: &str = "off";

    /// Reads layers that commas separate, like `720p,360p:500k`, or `off`.
    ///
    /// # Errors
    /// Returns [`LadderError`] with the first fault.
    pub fn parse(text: &str) -> Result<Self, LadderError> {
        if text == Self::OFF_WORD {
            return Ok(Self::OFF);
        }
        let rungs: Result<Vec<_>, _> = text.split(',').map(LadderRung::parse).collect();
        let mut rungs = rungs?;
        rungs.sort_by_key(|it| std::cmp::Reverse(it.height));
        if rungs.len() > RUNGS_MAX {
            return Err(LadderError::Many(rungs.len()));
        }
        for pair in rungs.windows(2) {
            if pair[0].height == pair[1].height || pair[0].rate <= pair[1].rate {
                let (upper, lower) = (pair[0], pair[1]);
                return Err(LadderError::Order { upper, lower });
            }
        }
        let mut ladder = Self::OFF;
        for (place, rung) in ladder.rungs.iter_mut().zip(rungs) {
            *place = Some(rung);
        }
        Ok(ladder)
    }

    /// Returns whether the ladder has no layers.
    pub fn is_off(&self) -> bool {
        *self == Self::OFF
    }

    /// Returns the layers, the largest first.
    pub fn rungs(&self) -> impl Iterator<Item = LadderRung> + '_ {
        self.rungs.iter().copied().flatten()
    }
}

impl fmt::Display for Ladder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.is_off() {
            return f.write_str(Self::OFF_WORD);
        }
        for (place, rung) in self.rungs().enumerate() {
            let separator = if place > 0 { "," } else { "" };
            write!(f, "{separator}{rung}")?;
        }
        Ok(())
    }
}

impl LadderRung {
    fn parse(text: &str) -> Result<Self, LadderError> {
        let text = text.trim();
        let wrong = || LadderError::Rung(text.chars().take(40).collect());
        let (height, rate) = match text.split_once(':') {
            Some((height, rate)) => (height, Some(rate)),
            None => (text, None),
        };
        let number = |text: Option<&str>| {
            let digits = text.filter(|it| it.bytes().all(|byte| byte.is_ascii_digit()));
            digits?.parse::<u64>().ok()
        };
        let height = number(height.strip_suffix('p')).ok_or_else(wrong)?;
        let kbps = match rate {
            Some(rate) => Some(number(rate.strip_suffix('k')).ok_or_else(wrong)?),
            None => None,
        };
        let rows = u16::try_from(height)
            .ok()
            .filter(|rows| (HEIGHT_MIN..=HEIGHT_MAX).contains(rows) && rows.is_multiple_of(2));
        let rows = rows.ok_or(LadderError::Height(height))?;
        let kbps = kbps.unwrap_or_else(|| usual_kbps(height));
        if !(KBPS_MIN..=KBPS_MAX).contains(&kbps) {
            return Err(LadderError::Rate(kbps));
        }
        Ok(Self {
            height: rows,
            rate: Bitrate::from_bps(kbps * 1_000),
        })
    }
}

/// Returns the bitrate that is usual for a height within those that a ladder has.
fn usual_kbps(height: u64) -> u64 {
    let pairs = USUAL_KBPS.windows(2);
    let mut around = pairs.filter(|pair| height <= pair[1].0);
    around
        .next()
        .map_or(USUAL_KBPS[USUAL_KBPS.len() - 1].1, |pair| {
            let [(low, from), (high, to)] = [pair[0], pair[1]];
            from + (to - from) * height.saturating_sub(low) / (high - low)
        })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_ladder_is_read_as_it_is_written_and_sorted() {
        for (text, written) in [
            ("off", "off"),
            ("360p", "360p:500k"),
            ("360p,720p", "720p:2000k,360p:500k"),
            ("540p, 180p:90k", "540p:1200k,180p:90k"),
            ("1080p,600p,90p", "1080p:4500k,600p:1466k,90p:80k"),
        ] {
            let ladder = Ladder::parse(text).expect(text);
            assert_eq!(ladder.to_string(), written);
            assert_eq!(Ladder::parse(written), Ok(ladder), "{written}");
            assert_eq!(ladder.is_off(), text == "off");
        }
        assert_eq!(Ladder::default(), Ladder::OFF);
    }

    #[test]
    fn what_is_no_ladder_is_refused_with_the_reason() {
        for (text, reason) in [
            ("", "'' is no layer of a ladder"),
            ("on", "'on' is no layer of a ladder"),
            ("360", "like 360p or 360p:500k"),
            ("+360p", "'+360p' is no layer"),
            ("360p:500", "'360p:500' is no layer"),
            ("361p", "heights are even"),
            ("46p", "from 48p to 1080p"),
            ("1082p", "1082p is no height"),
            ("360p:49k", "bitrates are 50k to 12000k"),
            ("360p:12001k", "12001k is no bitrate"),
            ("720p,540p,360p,180p", "at most 3 layers, not 4"),
            ("360p,360p:400k", "is no step below"),
            ("720p:500k,360p", "360p:500k is no step below 720p:500k"),
        ] {
            let refused = Ladder::parse(text).expect_err(text).to_string();
            assert!(refused.contains(reason), "{text}: {refused}");
        }
    }
}
