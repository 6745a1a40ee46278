use std::fmt;
use std::time::Duration;

use thiserror::Error;

mod family;

pub use family::{Family, UnknownFamily};

/// One-way delays of a stream's packets, in the order in which they were sent.
///
/// This is a trace of what happened to a voice call's packets and nothing else: no rate, no
/// queue, no feedback. A [`Link`](crate::Link) makes such delays out of causes; this type
/// replays them. As text, each line has a number of milliseconds or `lost`; empty lines and
/// text after a `#` are ignored.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Delays {
    packets: Vec<Option<Duration>>,
}

/// The reason why a text could not be parsed as a list of delays.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum DelaysError {
    /// A line is neither a delay nor `lost`.
    #[error("line {line}: '{text}' is neither `lost` nor a delay of 0 to 60000 ms")]
    Line {
        /// Number of the line, from 1.
        line: usize,
        /// The beginning of the line.
        text: String,
    },
    /// The list has no packet that arrives.
    #[error("no packet arrives: write one delay in ms per line, or `lost`")]
    Empty,
    /// The list has too many packets.
    #[error("line {line}: more than {max} packets; cut the trace", max = Delays::PACKETS_MAX)]
    TooLong {
        /// Number of the first line too many, from 1.
        line: usize,
    },
}

impl Delays {
    /// Most packets of a list: more than a day of packets 20 ms apart.
    pub const PACKETS_MAX: usize = 5_000_000;

    /// Longest delay: no receiver waits for a packet for more than a minute.
    pub const MAX: Duration = Duration::from_secs(60);

    /// Parses the text of a list.
    ///
    /// # Errors
    /// [`DelaysError`] names the line that is neither a delay nor `lost`.
    pub fn parse(text: &str) -> Result<Self, DelaysError> {
        let mut packets = Vec::new();
        for (index, line) in text.lines().enumerate() {
            let entry = line.split('#').next().unwrap_or_default().trim();
            if entry.is_empty() {
                continue;
            }
            if packets.len() == Self::PACKETS_MAX {
                return Err(DelaysError::TooLong { line: index + 1 });
            }
            packets.push(packet(entry).ok_or_else(|| DelaysError::Line {
                line: index + 1,
                text: entry.chars().take(40).collect(),
            })?);
        }
        Self::new(packets).ok_or(DelaysError::Empty)
    }

    /// Returns a list of delays, with `None` for lost packets; `None` if no packet arrives.
    /// Longer delays are cut at [`Self::MAX`], longer lists at [`Self::PACKETS_MAX`].
    pub fn new(mut packets: Vec<Option<Duration>>) -> Option<Self> {
        packets.truncate(Self::PACKETS_MAX);
        for delay in packets.iter_mut().flatten() {
            *delay = (*delay).min(Self::MAX);
        }
        packets
            .iter()
            .any(Option::is_some)
            .then_some(Self { packets })
    }

    /// Returns the first `count` packets of `family`, `interval` apart, drawn from `seed`.
    ///
    /// # Panics
    /// If `count` is zero.
    pub fn of_family(family: Family, seed: u64, count: usize, interval: Duration) -> Self {
        Self::new(family::draw(family, seed, count, interval)).expect("every packet arrives")
    }

    /// Returns the list with further losses, each packet independently with `probability`.
    #[must_use]
    pub fn losing(mut self, probability: f64, seed: u64) -> Self {
        let mut rng = crate::Rng::new(seed).fork(1);
        let kept = self.packets.first().copied();
        for packet in &mut self.packets {
            if rng.chance(probability) {
                *packet = None;
            }
        }
        // A list in which no packet arrives is not allowed.
        if self.packets.iter().all(Option::is_none)
            && let (Some(first), Some(kept)) = (self.packets.first_mut(), kept)
        {
            *first = kept.or(Some(Duration::ZERO));
        }
        self
    }

    /// Returns each packet's delay; `None` for a lost one.
    pub fn packets(&self) -> &[Option<Duration>] {
        &self.packets
    }
}

/// Formats the list as [`Delays::parse`] reads it.
impl fmt::Display for Delays {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for packet in &self.packets {
            match packet {
                Some(delay) => writeln!(f, "{}", delay.as_secs_f64() * 1e3)?,
                None => writeln!(f, "lost")?,
            }
        }
        Ok(())
    }
}

/// Parses one line: a delay, `Some(None)` for a lost packet, or `None` for neither.
fn packet(entry: &str) -> Option<Option<Duration>> {
    if entry.eq_ignore_ascii_case("lost") {
        return Some(None);
    }
    let ms: f64 = entry.parse().ok()?;
    let range = 0.0..=Delays::MAX.as_secs_f64() * 1e3;
    // Rounded to microseconds, which is what a millisecond with decimals means.
    let micros = (ms * 1e3).round();
    range
        .contains(&ms)
        .then(|| Some(Duration::from_micros(micros as u64)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn a_line_is_a_delay_or_a_loss() {
        let text = "# from the lab\n20\n 20.5 # late\n\nlost\nLOST\n0\n60000\n";
        let delays = Delays::parse(text).expect("a trace");
        let ms = |ms: f64| Some(Duration::from_secs_f64(ms / 1e3));
        let wanted = [ms(20.0), ms(20.5), None, None, ms(0.0), ms(60_000.0)];
        assert_eq!(delays.packets(), wanted);
    }

    #[test]
    fn what_is_no_delay_is_named_with_its_line() {
        for wrong in ["-1", "60001", "NaN", "inf", "20ms", "lost?"] {
            let error = Delays::parse(&format!("20\n{wrong}\n")).expect_err(wrong);
            let text = error.to_string();
            assert!(
                text.starts_with("line 2: ") && text.contains(wrong),
                "{text}"
            );
        }
        assert_eq!(Delays::parse("lost\n# 20\n"), Err(DelaysError::Empty));
    }

    #[test]
    fn losses_are_as_many_as_asked_for_and_never_all() {
        let interval = Duration::from_millis(20);
        let delays = Delays::of_family(Family::Clean, 1, 20_000, interval);
        let lost = delays.clone().losing(0.1, 3);
        let count = lost.packets().iter().filter(|it| it.is_none()).count();
        assert!((1_850..2_150).contains(&count), "{count}");
        assert_eq!(delays.clone().losing(0.0, 3), delays);
        let alone = delays.losing(1.0, 3);
        assert_eq!(alone.packets().iter().flatten().count(), 1);
    }

    proptest! {
        #[test]
        fn a_trace_survives_being_written(
            micros in prop::collection::vec(prop::option::of(0u64..=60_000_000), 1..200)
        ) {
            let packets = micros.into_iter().map(|it| it.map(Duration::from_micros));
            if let Some(delays) = Delays::new(packets.collect()) {
                prop_assert_eq!(Delays::parse(&delays.to_string()), Ok(delays));
            }
        }

        #[test]
        fn any_text_is_a_trace_or_an_error(text in "\\PC{0,200}") {
            let _ = Delays::parse(&text);
        }
    }
}
