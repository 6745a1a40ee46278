use std::path::PathBuf;
use std::time::Duration;

use schemars::JsonSchema;
use serde::de::{Deserializer, Error as _};
use serde::{Deserialize, Serialize};

use super::super::Secret;
use super::Action;
use crate::outbound::WebUrl;

/// Bounds of `deadline_ms`, in milliseconds: below, a busy webhook misses it; above, players give
/// up first.
const DEADLINE_MS: std::ops::RangeInclusive<u64> = 100..=10_000;

/// Longest time for which an answer is used again, in seconds.
const CACHE_S_MAX: u64 = 3600;

/// A service that is asked who may read, publish and join rooms.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Webhook {
    /// URL for questions as JSON by POST: `https://`, or a service of this machine.
    pub url: WebUrl,
    /// Secret for the header `X-Glassline-Signature`: `sha256=` and the HMAC-SHA-256 of the body in
    /// hexadecimal.
    #[serde(default)]
    pub secret: Option<Secret>,
    /// PEM file with the root certificates of `url`. Null takes Mozilla's.
    #[serde(default)]
    pub roots: Option<PathBuf>,
    /// Whether `url` may be `http://` at another machine, with passwords in plain text.
    #[serde(default)]
    pub allow_plain: bool,
    /// Milliseconds until the answer must be there, 100 to 10,000; later, the client is refused.
    #[serde(default = "two_seconds")]
    pub deadline_ms: u64,
    /// Seconds for which an answer is used again, up to 3,600; a refusal at most 5.
    #[serde(default = "half_a_minute")]
    pub cache_s: u64,
    /// Actions that the webhook decides about, `read`, `publish` and `call` by default; the others go on as without it.
    #[serde(default = "usual_actions")]
    pub actions: Vec<Action>,
    /// Whether the webhook is asked about clients without password, token and query, which
    /// otherwise are asked for a password.
    #[serde(default)]
    pub ask_anonymous: bool,
}

const fn two_seconds() -> u64 {
    2000
}

const fn half_a_minute() -> u64 {
    30
}

/// Returns the actions that every webhook knows. One that allows whatever it does not know would let every
/// reader move cameras, and see what was recorded.
fn usual_actions() -> Vec<Action> {
    vec![Action::Read, Action::Publish, Action::Call]
}

impl Webhook {
    /// Creates the settings of a webhook at `url`, with the defaults of a configuration.
    pub fn at(url: WebUrl) -> Self {
        Self {
            url,
            secret: None,
            roots: None,
            allow_plain: false,
            deadline_ms: two_seconds(),
            cache_s: half_a_minute(),
            actions: usual_actions(),
            ask_anonymous: false,
        }
    }

    /// Returns whether `other` asks the same service about the same.
    pub(in crate::auth) fn asks_the_same(&self, other: &Self) -> bool {
        self.url == other.url
            && self.actions == other.actions
            && self.ask_anonymous == other.ask_anonymous
    }

    pub(super) const fn deadline(&self) -> Duration {
        Duration::from_millis(self.deadline_ms)
    }

    pub(super) const fn cached(&self) -> Duration {
        Duration::from_secs(self.cache_s)
    }

    fn check(&self) -> Result<(), WebhookError> {
        if !self.allow_plain && !self.url.is_protected() {
            return Err(WebhookError::Plain);
        }
        if !DEADLINE_MS.contains(&self.deadline_ms) {
            return Err(WebhookError::Deadline);
        }
        if self.cache_s > CACHE_S_MAX {
            return Err(WebhookError::Cache);
        }
        let has = |action| self.actions.contains(&action);
        if self.actions.is_empty() {
            return Err(WebhookError::NoAction);
        }
        match (has(Action::Read), has(Action::Publish), has(Action::Call)) {
            (true, true, true) | (.., false) => Ok(()),
            _ => Err(WebhookError::CallAlone),
        }
    }
}

/// Reads the section, whose keys have to fit together.
pub(in crate::auth) fn checked<'de, D: Deserializer<'de>>(
    from: D,
) -> Result<Option<Webhook>, D::Error> {
    let webhook = Option::<Webhook>::deserialize(from)?;
    if let Some(webhook) = &webhook {
        webhook.check().map_err(D::Error::custom)?;
    }
    Ok(webhook)
}

/// A key of the section has a value that it cannot have.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
enum WebhookError {
    #[error(
        "passwords would pass the network unencrypted: use https:// for `url`, or set \
         `allow_plain: true` if that network is yours alone"
    )]
    Plain,
    #[error("`deadline_ms` is 100 to 10000")]
    Deadline,
    #[error("`cache_s` is at most {CACHE_S_MAX}")]
    Cache,
    #[error(
        "`actions` is empty: list some of [read, publish, call, ptz, playback, record, export], or remove the section"
    )]
    NoAction,
    #[error("`actions` has `call` alone: who joins a room reads and publishes, so list them, too")]
    CallAlone,
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: &str) -> Result<Webhook, String> {
        let webhook: Webhook = serde_json::from_str(text).map_err(|it| it.to_string())?;
        webhook.check().map_err(|it| it.to_string())?;
        Ok(webhook)
    }

    #[test]
    fn a_url_suffices_and_passwords_stay_off_open_networks() {
        let local = read(r#"{"url": "http://127.0.0.1:9000/may"}"#).expect("this machine");
        assert_eq!(local, Webhook::at(local.url.clone()));
        read(r#"{"url": "https://id.example/may"}"#).expect("encrypted");
        let plain = r#"{"url": "http://id.example/may""#;
        let refused = read(&format!("{plain}}}")).expect_err("unencrypted");
        assert!(refused.contains("allow_plain"), "{refused}");
        read(&format!(r#"{plain}, "allow_plain": true}}"#)).expect("as told");
    }

    #[test]
    fn values_out_of_range_name_the_range() {
        for (key, named) in [
            (r#""deadline_ms": 99"#, "100"),
            (r#""deadline_ms": 10001"#, "10000"),
            (r#""cache_s": 3601"#, "3600"),
            (r#""actions": []"#, "publish"),
            (r#""actions": ["call", "read"]"#, "joins a room"),
            (r#""action": ["read"]"#, "actions"),
        ] {
            let text = format!(r#"{{"url": "https://id.example/", {key}}}"#);
            let refused = read(&text).expect_err(key);
            assert!(refused.contains(named), "{refused}");
        }
    }
}
