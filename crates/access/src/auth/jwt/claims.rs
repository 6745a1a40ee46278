//! What a token claims, once its signature is verified (RFC 7519 §4).

use std::time::{Duration, SystemTime};

use glassline_rooms as rooms;
use glassline_runtime::is_deceptive;
use serde::Deserialize;
use serde_json::{Map, Value};

use super::compact::object;
use super::{Rules, TokenError};
use crate::auth::{Pattern, Role, StreamRights};

/// Most patterns of one right.
const PATTERNS_MAX: usize = 64;

/// Most characters of a subject.
const SUBJECT_CHARS_MAX: usize = 64;

/// Latest time that a token may state: the year 9999, as calendars have it.
const SECONDS_MAX: f64 = 253_402_300_799.0;

/// The rights of a token and the time of their end.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(in crate::auth) struct Grant {
    pub(in crate::auth) rights: StreamRights,
    /// The role of the holder on the admin port.
    pub(in crate::auth) role: Option<Role>,
    /// Whom the token names, in at most 64 visible characters.
    pub(in crate::auth) subject: Option<String>,
    /// End of the rights, the leeway included.
    pub(in crate::auth) until: SystemTime,
}

#[derive(Debug, Deserialize)]
struct Claims {
    #[serde(default)]
    exp: Option<f64>,
    #[serde(default)]
    nbf: Option<f64>,
    #[serde(default)]
    iss: Option<String>,
    #[serde(default)]
    aud: Option<OneOrMore>,
    #[serde(default)]
    sub: Option<Value>,
    #[serde(flatten)]
    others: Map<String, Value>,
}

/// A text, or a list of texts.
#[derive(Debug, Deserialize)]
#[serde(untagged)]
enum OneOrMore {
    One(String),
    More(Vec<String>),
}

/// The claim with the rights.
#[derive(Debug, Default, Deserialize)]
struct Rights {
    #[serde(default)]
    read: Option<OneOrMore>,
    #[serde(default)]
    publish: Option<OneOrMore>,
    #[serde(default)]
    ptz: Option<OneOrMore>,
    #[serde(default)]
    playback: Option<OneOrMore>,
    #[serde(default)]
    record: Option<OneOrMore>,
    #[serde(default)]
    export: Option<OneOrMore>,
    #[serde(default)]
    call: Option<OneOrMore>,
    #[serde(default)]
    admin: Option<Role>,
}

impl Grant {
    /// Reads claims, and checks them by `rules` at the time `now`.
    ///
    /// # Errors
    /// Returns [`TokenError`] with the claim that is missing or wrong.
    pub(super) fn of(claims: &[u8], rules: &Rules, now: SystemTime) -> Result<Self, TokenError> {
        let mut claims = object::<Claims>(claims)?;
        let until = time(claims.exp.ok_or(TokenError::NoExpiry)?)? + rules.leeway;
        if until <= now {
            return Err(TokenError::Expired);
        }
        let begins = claims.nbf.map(time).transpose()?;
        if begins.is_some_and(|begins| begins > now + rules.leeway) {
            return Err(TokenError::TooEarly);
        }
        if rules.issuer.is_some() && claims.iss != rules.issuer {
            return Err(TokenError::Issuer);
        }
        if let Some(audience) = &rules.audience
            && !claims.aud.is_some_and(|it| it.has(audience))
        {
            return Err(TokenError::Audience);
        }
        let rights = match claims.others.remove(&rules.claim) {
            Some(rights @ Value::Object(_)) => {
                serde_json::from_value(rights).map_err(|_| TokenError::Rights)?
            }
            Some(_) => return Err(TokenError::Rights),
            None => Rights::default(),
        };
        let call = patterns(rights.call, rooms::voices_of)?;
        let streams = |list| patterns(list, str::to_owned);
        let of_both = |own: Vec<Pattern>| own.into_iter().chain(call.clone()).collect();
        Ok(Self {
            rights: StreamRights {
                read: of_both(streams(rights.read)?),
                publish: of_both(streams(rights.publish)?),
                ptz: streams(rights.ptz)?,
                playback: streams(rights.playback)?,
                record: streams(rights.record)?,
                export: streams(rights.export)?,
            },
            role: rights.admin,
            subject: claims.sub.as_ref().and_then(Value::as_str).map(shown),
            until,
        })
    }
}

impl OneOrMore {
    fn has(&self, text: &str) -> bool {
        match self {
            Self::One(one) => one == text,
            Self::More(all) => all.iter().any(|it| it == text),
        }
    }
}

/// Returns the patterns of a right; `name` makes a pattern of streams of what the token has.
fn patterns(
    list: Option<OneOrMore>,
    name: impl Fn(&str) -> String,
) -> Result<Vec<Pattern>, TokenError> {
    let list = match list {
        None => return Ok(Vec::new()),
        Some(OneOrMore::One(one)) => vec![one],
        Some(OneOrMore::More(more)) => more,
    };
    if list.len() > PATTERNS_MAX {
        return Err(TokenError::Rights);
    }
    let pattern = |text: &String| {
        // The name of a room is checked before it is made a pattern that would match nothing.
        let _ = Pattern::parse(text)?;
        Pattern::parse(&name(text))
    };
    let patterns = list.iter().map(pattern).collect::<Result<_, _>>();
    patterns.map_err(|_| TokenError::Rights)
}

/// Returns a subject as people are shown it.
fn shown(subject: &str) -> String {
    let visible = subject.chars().filter(|it| !is_deceptive(*it));
    visible.take(SUBJECT_CHARS_MAX).collect()
}

/// Returns the time of a `NumericDate` (RFC 7519 §2), whose seconds may have a fraction.
fn time(seconds: f64) -> Result<SystemTime, TokenError> {
    if !(0.0..=SECONDS_MAX).contains(&seconds) {
        return Err(TokenError::Malformed);
    }
    Ok(SystemTime::UNIX_EPOCH + Duration::from_secs_f64(seconds))
}
