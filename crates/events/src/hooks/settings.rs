use std::path::{Path, PathBuf};
use std::time::Duration;

use glassline_access::auth::{Pattern, Secret};
use glassline_access::outbound::{ClientError, HttpClient, WebUrl};
use schemars::JsonSchema;
use serde::de::{Deserializer, Error as _};
use serde::{Deserialize, Serialize};

use super::event::EventKind;

/// Most hooks. Each has a queue and a task.
const HOOKS_MAX: usize = 32;

/// Longest time that one run of a hook may take, in seconds.
const TIMEOUT_S_MAX: u64 = 300;

/// Most repetitions of a webhook.
const RETRIES_MAX: u32 = 10;

/// A command or a webhook that is told what happens to streams.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Hook {
    /// Events that the hook is told of.
    pub on: Vec<EventKind>,
    /// Patterns of streams whose events are told.
    #[serde(default = "all")]
    pub streams: Vec<Pattern>,
    /// Program by its whole path, with arguments; event and stream name follow them. No shell.
    #[serde(default)]
    pub command: Option<Vec<String>>,
    /// URL that the event is sent to as JSON, by POST.
    #[serde(default)]
    pub url: Option<WebUrl>,
    /// Secret for the header `X-Glassline-Signature`: `sha256=` and the HMAC-SHA-256 of the body in
    /// hexadecimal.
    #[serde(default)]
    pub secret: Option<Secret>,
    /// PEM file with the root certificates of `url`. Null takes Mozilla's.
    #[serde(default)]
    pub roots: Option<PathBuf>,
    /// Seconds that one run may take, 1 to 300; a command is then killed with its children.
    #[serde(default = "ten")]
    pub timeout_s: u64,
    /// Repetitions of a webhook that did not take the event, up to 10, after pauses from 1 s on.
    #[serde(default = "three")]
    pub retries: u32,
}

fn all() -> Vec<Pattern> {
    vec![Pattern::parse("**").expect("a pattern")]
}

const fn ten() -> u64 {
    10
}

const fn three() -> u32 {
    3
}

impl Hook {
    /// Returns the time that one run may take.
    pub(super) const fn timeout(&self) -> Duration {
        Duration::from_secs(self.timeout_s)
    }

    /// Returns whether the hook is told of `kind` of `stream`.
    pub fn wants(&self, kind: EventKind, stream: &str) -> bool {
        self.on.contains(&kind) && self.streams.iter().any(|it| it.matches(stream))
    }

    /// Reads the file of trusted certificates, if one is named.
    ///
    /// # Errors
    /// Returns [`ClientError`] if the file cannot be used.
    pub fn check_roots(&self) -> Result<(), ClientError> {
        match &self.roots {
            Some(roots) => HttpClient::new(Some(roots)).map(drop),
            None => Ok(()),
        }
    }

    fn check(&self) -> Result<(), HookError> {
        match (&self.command, &self.url) {
            (Some(command), None) => match command.first() {
                Some(program) if Path::new(program).is_absolute() => {}
                _ => return Err(HookError::Program),
            },
            (None, Some(_)) => {}
            _ => return Err(HookError::Kind),
        }
        if self.url.is_none() && (self.secret.is_some() || self.roots.is_some()) {
            return Err(HookError::OfUrl);
        }
        let texts = self.command.iter().flatten();
        if texts.into_iter().any(|text| text.contains('\0')) {
            return Err(HookError::Program);
        }
        if self.on.is_empty() {
            return Err(HookError::NoEvent);
        }
        if !(1..=TIMEOUT_S_MAX).contains(&self.timeout_s) {
            return Err(HookError::Timeout);
        }
        match self.retries <= RETRIES_MAX {
            true => Ok(()),
            false => Err(HookError::Retries),
        }
    }
}

/// Reads a list of hooks, whose keys have to fit together.
pub fn checked<'de, D: Deserializer<'de>>(from: D) -> Result<Vec<Hook>, D::Error> {
    let hooks = Vec::<Hook>::deserialize(from)?;
    if hooks.len() > HOOKS_MAX {
        return Err(D::Error::custom(format_args!(
            "more than {HOOKS_MAX} hooks"
        )));
    }
    for hook in &hooks {
        hook.check().map_err(D::Error::custom)?;
    }
    Ok(hooks)
}

/// Keys of a hook do not fit together.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
enum HookError {
    #[error("a hook has either `command` or `url`")]
    Kind,
    #[error(
        "`command` is a list that begins with the whole path of a program, like [/usr/local/bin/tell, loud]"
    )]
    Program,
    #[error("`secret` and `roots` belong to `url`")]
    OfUrl,
    #[error("`on` is empty: list events, like [publish, unpublish]")]
    NoEvent,
    #[error("`timeout_s` is 1 to {TIMEOUT_S_MAX}")]
    Timeout,
    #[error("`retries` is at most {RETRIES_MAX}")]
    Retries,
}
