use std::fmt;

use glassline_hub::Transcode;

use super::stream_policy::{TRANSCODE, transcode};
use super::{Away, SpecError};

/// A stream that clients publish.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct PublisherSource {
    /// The media that receivers get before somebody publishes, and after.
    pub away: Away,
    /// The viewers for whom video is transcoded that browsers cannot show; `None` for the server's
    /// choice.
    pub transcode: Option<Transcode>,
}

/// Options of streams that clients publish.
pub(super) const OPTIONS: [&str; 5] = ["fallback", "placeholder", "after_s", "silent_s", TRANSCODE];

impl PublisherSource {
    /// Takes an option. Returns false if there is none of this name.
    pub(super) fn take(&mut self, key: &str, value: &str) -> Result<bool, SpecError> {
        if key == TRANSCODE {
            self.transcode = Some(transcode(value)?);
            return Ok(true);
        }
        self.away.take(key, value)
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
        self.away.write(f, separator)
    }
}
