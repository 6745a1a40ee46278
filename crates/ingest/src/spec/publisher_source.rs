use std::fmt;

use glassline_hub::{Ladder, Transcode};

use super::stream_policy::{LADDER, TRANSCODE, transcode};
use super::{Away, SpecError};

/// A stream that clients publish.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct PublisherSource {
    /// The media that receivers get before somebody publishes, and after.
    pub away: Away,
    /// The viewers for whom video is transcoded that browsers cannot show; `None` for the server's
    /// choice.
    pub transcode: Option<Transcode>,
    /// The lower layers that are encoded while somebody needs them; `None` for the server's choice.
    pub ladder: Option<Ladder>,
}

/// Options of streams that clients publish.
pub(super) const OPTIONS: [&str; 6] = [
    "fallback",
    "placeholder",
    "after_s",
    "silent_s",
    TRANSCODE,
    LADDER,
];

impl PublisherSource {
    /// Takes an option. Returns false if there is none of this name.
    pub(super) fn take(&mut self, key: &str, value: &str) -> Result<bool, SpecError> {
        match key {
            TRANSCODE => self.transcode = Some(transcode(value)?),
            LADDER => self.ladder = Some(Ladder::parse(value)?),
            _ => return self.away.take(key, value),
        }
        Ok(true)
    }
}

/// Writes the options behind the word for such a stream.
impl fmt::Display for PublisherSource {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut separator = '?';
        if let Some(choice) = self.transcode {
            write!(f, "{separator}{TRANSCODE}={choice}")?;
            separator = '&';
        }
        if let Some(ladder) = self.ladder {
            write!(f, "{separator}{LADDER}={ladder}")?;
            separator = '&';
        }
        self.away.write(f, separator)
    }
}
