//! The section `webrtc.data`: data channels next to the streams.

use std::str::FromStr;
use std::time::Duration;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use glassline_messages::Bounds;

use super::parts;

/// Data channels next to the streams, between publishers of messages and viewers.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct Data {
    /// Rights of viewers: `off` (no data channels), `read` (messages of the publisher) or `write`
    /// (also messages to the publisher).
    pub viewers: DataAccess,
    /// Largest message in KiB.
    #[serde(deserialize_with = "parts::message_kib")]
    #[schemars(range(min = 1, max = 16384))]
    pub message_kib: usize,
    /// Most KiB of messages that wait for one peer; one may always wait.
    #[serde(deserialize_with = "parts::positive")]
    #[schemars(range(min = 1))]
    pub queue_kib: usize,
    /// Longest wait of a message for a peer, in ms.
    #[serde(deserialize_with = "parts::positive")]
    #[schemars(range(min = 1))]
    pub queue_ms: u64,
    /// Most channels that a peer may open.
    #[serde(deserialize_with = "parts::channels")]
    #[schemars(range(min = 1, max = 256))]
    pub channels: usize,
    /// Most messages a second from one viewer.
    #[serde(deserialize_with = "parts::positive")]
    #[schemars(range(min = 1))]
    pub viewer_messages_per_s: u32,
}

/// The rights of viewers on data channels.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(try_from = "String", into = "&'static str")]
#[schemars(with = "String")]
pub enum DataAccess {
    /// There are no data channels.
    #[default]
    Off,
    /// Viewers receive messages of the publisher.
    Read,
    /// Viewers also send messages to the publisher.
    Write,
}

impl DataAccess {
    /// Returns the value as it appears in the file.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Off => "off",
            Self::Read => "read",
            Self::Write => "write",
        }
    }
}

impl FromStr for DataAccess {
    type Err = DataAccessError;

    fn from_str(text: &str) -> Result<Self, DataAccessError> {
        let all = [Self::Off, Self::Read, Self::Write];
        let found = all.into_iter().find(|it| it.as_str() == text);
        found.ok_or_else(|| DataAccessError(text.to_owned()))
    }
}

impl TryFrom<String> for DataAccess {
    type Error = DataAccessError;

    fn try_from(text: String) -> Result<Self, DataAccessError> {
        text.parse()
    }
}

impl From<DataAccess> for &'static str {
    fn from(access: DataAccess) -> Self {
        access.as_str()
    }
}

/// A text is not a [`DataAccess`].
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("'{0}' is not one of off, read, write")]
pub struct DataAccessError(String);

impl Data {
    /// Returns the limits of one session's data channels; `None` if data channels are turned off.
    pub fn bounds(&self) -> Option<Bounds> {
        let message_bytes = self.message_kib << 10;
        (self.viewers != DataAccess::Off).then_some(Bounds {
            message_bytes,
            queue_bytes: self.queue_kib.saturating_mul(1 << 10).max(message_bytes),
            queue_age: Duration::from_millis(self.queue_ms),
            channels: self.channels,
            messages_per_s: self.viewer_messages_per_s,
        })
    }
}

impl Default for Data {
    fn default() -> Self {
        Self {
            viewers: DataAccess::default(),
            // The size that browsers accept and send.
            message_kib: 256,
            queue_kib: 1024,
            // A command or position that is older than this is useless.
            queue_ms: 2000,
            channels: 16,
            viewer_messages_per_s: 100,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn data_is_off_unless_said_otherwise_and_its_bounds_are_checked() {
        assert_eq!(Data::default().bounds(), None);
        let read = |text: &str| serde_saphyr::from_str::<Data>(text);
        let data = read("{viewers: write, message_kib: 64, queue_kib: 1}").expect("valid");
        let bounds = data.bounds().expect("on");
        assert_eq!((bounds.message_bytes, bounds.queue_bytes), (65536, 65536));
        for (text, wanted) in [
            ("viewers: all", "'all' is not one of off, read, write"),
            ("message_kib: 0", "1 to 16384"),
            ("message_kib: 16385", "1 to 16384"),
            ("channels: 257", "1 to 256"),
            ("queue_ms: 0", "at least 1"),
        ] {
            let refused = read(text).expect_err(text).to_string();
            assert!(refused.contains(wanted), "{refused}");
        }
    }
}
