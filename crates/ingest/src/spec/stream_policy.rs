use glassline_hub::{Ladder, Transcode};

use super::SpecError;

/// Decisions of a fetched source about its stream, whatever kind the source is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct StreamPolicy {
    /// Whether clients may publish under the stream's name, too.
    pub takes_publishers: bool,
    /// The viewers for whom video is transcoded that browsers cannot show; `None` for the server's
    /// choice.
    pub transcode: Option<Transcode>,
    /// The lower layers that are encoded while somebody needs them; `None` for the server's choice.
    pub ladder: Option<Ladder>,
}

/// Names of the options.
pub(super) const PUBLISHERS: &str = "publishers";
pub(super) const TRANSCODE: &str = "transcode";
pub(super) const LADDER: &str = "ladder";

/// Value with which clients may publish.
const ALLOWED: &str = "allowed";

impl StreamPolicy {
    /// Takes an option. Returns false if there is none of this name.
    pub(super) fn take(&mut self, key: &str, value: &str) -> Result<bool, SpecError> {
        match key {
            PUBLISHERS => self.takes_publishers = takes_publishers(value)?,
            TRANSCODE => self.transcode = Some(transcode(value)?),
            LADDER => self.ladder = Some(Ladder::parse(value)?),
            _ => return Ok(false),
        }
        Ok(true)
    }

    /// Returns the options that differ from the defaults, as they are written.
    pub(super) fn options(self) -> impl Iterator<Item = String> {
        let publishers = self.takes_publishers;
        let publishers = publishers.then(|| format!("{PUBLISHERS}={ALLOWED}"));
        let transcode = self.transcode.map(|who| format!("{TRANSCODE}={who}"));
        let ladder = self.ladder.map(|it| format!("{LADDER}={it}"));
        publishers.into_iter().chain(transcode).chain(ladder)
    }
}

/// Reads whether clients may publish under the name of a source.
fn takes_publishers(text: &str) -> Result<bool, SpecError> {
    match text {
        ALLOWED => Ok(true),
        "refused" => Ok(false),
        _ => Err(SpecError::Value {
            option: PUBLISHERS,
            value: text.to_owned(),
            wanted: "allowed or refused",
        }),
    }
}

/// Reads who gets video transcoded.
pub(super) fn transcode(text: &str) -> Result<Transcode, SpecError> {
    Transcode::parse(text).ok_or_else(|| SpecError::Value {
        option: TRANSCODE,
        value: text.to_owned(),
        wanted: Transcode::WANTED,
    })
}
