//! What a webhook says: a status, and perhaps the rights in JSON.

use std::time::{Duration, SystemTime};

use axum::http::header::CONTENT_TYPE;
use axum::http::{Response, StatusCode};
use glassline_rooms as rooms;
use glassline_runtime::is_deceptive;
use serde::Deserialize;
use serde_json::{Map, Value};

use super::super::{Pattern, StreamRights, stream_rights};
use super::Question;

/// Most patterns of one right.
const PATTERNS_MAX: usize = 64;

/// Most characters of a user's name.
const USER_CHARS_MAX: usize = 64;

/// Longest time that an answer may give; longer is as good as forever.
const TTL_S_MAX: f64 = (1 << 30) as f64;

/// The rights that an answer gives.
#[derive(Clone, Debug, PartialEq)]
pub(in crate::auth) struct Allowed {
    pub(in crate::auth) rights: StreamRights,
    /// Whom the answer names, in at most 64 visible characters.
    pub(in crate::auth) user: Option<String>,
    /// Time until the rights end; `None` if they have no end.
    pub(in crate::auth) left: Option<Duration>,
}

/// The decision of the webhook.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Decision {
    Allowed(Allowed),
    /// Status 401: other credentials may be right.
    Wrong,
    /// Status 403, or rights to other streams than the client asked for.
    Refused,
}

/// The reason why an answer decides nothing.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub(super) enum AnswerError {
    #[error("status {0}, which is neither 2xx, 401 nor 403; redirects are not followed")]
    Status(StatusCode),
    #[error("the answer says that it is JSON, and cannot be read: {0}")]
    Json(String),
    #[error("the answer has more than {PATTERNS_MAX} patterns in a list")]
    Many,
    #[error("the end of the rights is no time")]
    End,
}

#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
struct Body {
    #[serde(default)]
    user: Option<String>,
    #[serde(default)]
    read: Option<Vec<Pattern>>,
    #[serde(default)]
    publish: Option<Vec<Pattern>>,
    #[serde(default)]
    ptz: Option<Vec<Pattern>>,
    #[serde(default)]
    playback: Option<Vec<Pattern>>,
    #[serde(default)]
    record: Option<Vec<Pattern>>,
    #[serde(default)]
    export: Option<Vec<Pattern>>,
    #[serde(default)]
    call: Option<Vec<Pattern>>,
    #[serde(default)]
    ttl_s: Option<f64>,
    #[serde(default)]
    until: Option<f64>,
}

/// Reads the answer to `question`, which arrived at the time `now`.
///
/// # Errors
/// Returns [`AnswerError`] if it decides nothing.
pub(super) fn decide<B: AsRef<[u8]>>(
    question: &Question,
    answer: &Response<B>,
    now: SystemTime,
) -> Result<Decision, AnswerError> {
    match answer.status() {
        StatusCode::UNAUTHORIZED => return Ok(Decision::Wrong),
        StatusCode::FORBIDDEN => return Ok(Decision::Refused),
        status if status.is_success() => {}
        status => return Err(AnswerError::Status(status)),
    }
    let kind = answer.headers().get(CONTENT_TYPE);
    let kind = kind.and_then(|it| it.to_str().ok()).unwrap_or_default();
    let is_json = kind.to_ascii_lowercase().starts_with("application/json");
    let text = answer.body().as_ref();
    let body = match is_json && !text.is_empty() {
        true => Body::read(text).map_err(|it| AnswerError::Json(it.to_string()))?,
        false => Body::default(),
    };
    let left = body.left(now)?;
    let user = body.user.as_deref().map(shown);
    let rights = body.rights(question)?;
    let allowed = Allowed { rights, user, left };
    let is_over = left.is_some_and(|it| it.is_zero());
    Ok(match !is_over && allowed.covers(question) {
        true => Decision::Allowed(allowed),
        false => Decision::Refused,
    })
}

impl Body {
    /// Reads an object. Without this detour, a list would do as well.
    fn read(text: &[u8]) -> Result<Self, serde_json::Error> {
        let object: Map<String, Value> = serde_json::from_slice(text)?;
        serde_json::from_value(Value::Object(object))
    }

    /// Returns the rights in the body, or else those to what was asked for.
    fn rights(self, question: &Question) -> Result<StreamRights, AnswerError> {
        let lists = [
            &self.read,
            &self.publish,
            &self.call,
            &self.ptz,
            &self.playback,
            &self.record,
            &self.export,
        ];
        if lists.iter().all(|it| it.is_none()) {
            return Ok(asked_for(question));
        }
        let is_long =
            |list: &&Option<Vec<_>>| list.as_ref().is_some_and(|it| it.len() > PATTERNS_MAX);
        if lists.iter().any(is_long) {
            return Err(AnswerError::Many);
        }
        let call = self.call.unwrap_or_default();
        let call = call.iter().filter_map(|it| voices(&it.to_string()));
        let call: Vec<_> = call.collect();
        let of_both = |own: Option<Vec<Pattern>>| {
            let own = own.unwrap_or_default().into_iter();
            own.chain(call.clone()).collect()
        };
        Ok(StreamRights {
            read: of_both(self.read),
            publish: of_both(self.publish),
            ptz: self.ptz.unwrap_or_default(),
            playback: self.playback.unwrap_or_default(),
            record: self.record.unwrap_or_default(),
            export: self.export.unwrap_or_default(),
        })
    }

    fn left(&self, now: SystemTime) -> Result<Option<Duration>, AnswerError> {
        let ttl = match self.ttl_s {
            None => None,
            Some(ttl) if ttl >= 0.0 => Some(Duration::from_secs_f64(ttl.min(TTL_S_MAX))),
            Some(_) => return Err(AnswerError::End),
        };
        let until = match self.until {
            None => None,
            Some(until) if until >= 0.0 => {
                let since = now.duration_since(SystemTime::UNIX_EPOCH);
                let left = until - since.unwrap_or_default().as_secs_f64();
                Some(Duration::from_secs_f64(left.clamp(0.0, TTL_S_MAX)))
            }
            Some(_) => return Err(AnswerError::End),
        };
        Ok(ttl.into_iter().chain(until).min())
    }
}

impl Allowed {
    /// Returns whether these are rights to what was asked for. Without the name of a stream or room,
    /// any list will do.
    fn covers(&self, question: &Question) -> bool {
        let named = question.name.as_ref();
        let Some(name) = named.filter(|_| !question.is_folder) else {
            return true;
        };
        stream_rights::grants_access(&self.rights.lists(), question.action, name)
    }
}

/// Returns the rights to what was asked for, and nothing else.
fn asked_for(question: &Question) -> StreamRights {
    let mut rights = StreamRights::default();
    let Some(name) = &question.name else {
        return rights;
    };
    let below = question.is_folder.then(|| format!("{name}/*"));
    let names = || [name].into_iter().chain(below.as_ref());
    match rights.list_mut(question.action) {
        Some(list) => list.extend(names().filter_map(|it| Pattern::parse(it).ok())),
        None => {
            rights.read = voices(name).into_iter().collect();
            rights.publish.clone_from(&rights.read);
        }
    }
    rights
}

/// Returns the pattern of the voices in rooms; `None` if they would have too long a name.
fn voices(rooms: &str) -> Option<Pattern> {
    Pattern::parse(&rooms::voices_of(rooms)).ok()
}

/// Returns a name as people are shown it.
fn shown(name: &str) -> String {
    let visible = name.chars().filter(|it| !is_deceptive(*it));
    visible.take(USER_CHARS_MAX).collect()
}

/// Reads `bytes` as the body of an answer, for the fuzz target `rights_answer`. The first byte chooses
/// the question.
///
/// # Panics
/// An answer gives what its question does not allow it to give.
#[cfg(any(test, fuzzing))]
pub fn fuzz_answer(bytes: &[u8]) {
    use super::{Action, Credential};
    use crate::auth::{Listener, Requester};

    let Some((&choice, body)) = bytes.split_first() else {
        return;
    };
    let question = Question {
        by: Requester::direct([192, 0, 2, 1].into(), Listener::Http),
        action: Action::ALL[usize::from(choice & 7) % Action::ALL.len()],
        protocol: "http",
        name: (choice & 8 == 0).then(|| "cam".to_owned()),
        is_folder: false,
        credential: Credential::Nothing,
        query: None,
        user_agent: None,
    };
    let answer = Response::builder().header(CONTENT_TYPE, "application/json");
    let answer = answer.body(body).expect("a plain answer");
    let now = SystemTime::UNIX_EPOCH + Duration::from_secs(1_900_000_000);
    if let Ok(Decision::Allowed(allowed)) = decide(&question, &answer, now) {
        assert!(allowed.covers(&question));
        assert!(allowed.left != Some(Duration::ZERO));
        assert!(allowed.rights.read.len() <= 2 * PATTERNS_MAX);
    }
}

#[cfg(test)]
mod tests {
    use super::super::{Action, Credential};
    use super::*;
    use crate::auth::{Listener, Requester};

    const NOW: u64 = 1_900_000_000;

    fn question(action: Action, name: Option<&str>) -> Question {
        Question {
            by: Requester::direct([192, 0, 2, 1].into(), Listener::Http),
            action,
            protocol: "http",
            name: name.map(str::to_owned),
            is_folder: false,
            credential: Credential::Nothing,
            query: None,
            user_agent: None,
        }
    }

    fn ask(
        question: &Question,
        status: u16,
        kind: &str,
        body: &str,
    ) -> Result<Decision, AnswerError> {
        let answer = Response::builder()
            .status(status)
            .header(CONTENT_TYPE, kind);
        let answer = answer.body(body.as_bytes().to_vec()).expect("an answer");
        decide(
            question,
            &answer,
            SystemTime::UNIX_EPOCH + Duration::from_secs(NOW),
        )
    }

    fn json(question: &Question, body: &str) -> Result<Decision, AnswerError> {
        ask(question, 200, "application/json; charset=utf-8", body)
    }

    fn allowed(decision: Result<Decision, AnswerError>) -> Allowed {
        match decision {
            Ok(Decision::Allowed(allowed)) => allowed,
            other => panic!("{other:?}"),
        }
    }

    fn texts(patterns: &[Pattern]) -> Vec<String> {
        patterns.iter().map(ToString::to_string).collect()
    }

    #[test]
    fn a_status_gives_what_was_asked_for_and_nothing_else() {
        let read = question(Action::Read, Some("cam"));
        for (status, kind) in [
            (200, "text/plain"),
            (204, "text/html"),
            (200, "application/json"),
        ] {
            let body = if kind == "application/json" { "" } else { "OK" };
            let given = allowed(ask(&read, status, kind, body));
            assert_eq!(texts(&given.rights.read), ["cam"]);
            assert!(given.rights.publish.is_empty() && given.left.is_none());
        }
        let call = allowed(ask(&question(Action::Call, Some("team")), 204, "", ""));
        assert_eq!(texts(&call.rights.read), ["call~team~*"]);
        assert_eq!(call.rights.read, call.rights.publish);
        let none = allowed(ask(&question(Action::Read, None), 200, "", ""));
        assert!(none.rights.read.is_empty() && none.rights.publish.is_empty());
    }

    #[test]
    fn a_folder_gives_what_is_below_and_lists_need_not_have_it() {
        let folder = Question {
            protocol: "moq",
            is_folder: true,
            ..question(Action::Read, Some("office"))
        };
        let given = allowed(ask(&folder, 204, "", ""));
        assert_eq!(texts(&given.rights.read), ["office", "office/*"]);
        let given = allowed(json(&folder, r#"{"read": ["office/desk"]}"#));
        assert_eq!(texts(&given.rights.read), ["office/desk"]);
    }

    #[test]
    fn only_401_and_403_are_decisions_to_refuse() {
        let read = question(Action::Read, Some("cam"));
        assert_eq!(ask(&read, 401, "", ""), Ok(Decision::Wrong));
        assert_eq!(ask(&read, 403, "", ""), Ok(Decision::Refused));
        for status in [301, 307, 400, 404, 429, 500, 503] {
            let answer = ask(&read, status, "application/json", "{}");
            assert!(matches!(answer, Err(AnswerError::Status(_))), "{status}");
        }
    }

    #[test]
    fn a_body_narrows_the_rights_and_ends_them() {
        let read = question(Action::Read, Some("cam1"));
        let body = r#"{"user": "Ann", "read": ["cam*"], "publish": ["desk"], "ttl_s": 60}"#;
        let given = allowed(json(&read, body));
        assert_eq!(texts(&given.rights.read), ["cam*"]);
        assert_eq!(texts(&given.rights.publish), ["desk"]);
        assert_eq!(given.user.as_deref(), Some("Ann"));
        assert_eq!(given.left, Some(Duration::from_secs(60)));
        let body = format!(r#"{{"ttl_s": 60, "until": {}}}"#, NOW + 5);
        assert_eq!(
            allowed(json(&read, &body)).left,
            Some(Duration::from_secs(5))
        );
        for refused in [
            r#"{"read": ["hall"]}"#,
            r#"{"read": []}"#,
            r#"{"publish": ["cam1"]}"#,
            r#"{"ttl_s": 0}"#,
            r#"{"until": 1000}"#,
        ] {
            assert_eq!(json(&read, refused), Ok(Decision::Refused), "{refused}");
        }
        let past = question(Action::Playback, Some("cam1"));
        let body = r#"{"read": ["**"], "export": ["**"]}"#;
        assert_eq!(json(&past, body), Ok(Decision::Refused));
        let given = allowed(json(&past, r#"{"playback": ["cam*"]}"#));
        assert_eq!(texts(&given.rights.playback), ["cam*"]);
        assert!(given.rights.read.is_empty());
        let given = allowed(ask(&past, 204, "", ""));
        assert_eq!(texts(&given.rights.playback), ["cam1"]);
        let call = question(Action::Call, Some("team"));
        assert_eq!(
            texts(&allowed(json(&call, r#"{"call": ["te*"]}"#)).rights.read),
            ["call~te*"]
        );
        assert_eq!(json(&call, r#"{"call": ["other"]}"#), Ok(Decision::Refused));
    }

    #[test]
    fn json_that_is_not_understood_decides_nothing() {
        let read = question(Action::Read, Some("cam"));
        for broken in [
            "false",
            "{",
            "[]",
            r#"{"allowed": false}"#,
            r#"{"read": "cam"}"#,
            r#"{"read": ["a*b"]}"#,
            r#"{"ttl_s": -1}"#,
            r#"{"until": -1}"#,
        ] {
            assert!(json(&read, broken).is_err(), "{broken}");
        }
        let many = format!(r#"{{"read": [{}"cam"]}}"#, r#""x","#.repeat(64));
        assert_eq!(json(&read, &many), Err(AnswerError::Many));
    }

    #[test]
    fn answers_of_random_bytes_give_no_more_than_they_may() {
        let pieces = [
            "{",
            "}",
            "\"read\":",
            "[\"cam\"]",
            "[\"*\"]",
            ",",
            "\"ttl_s\":",
            "0",
            "1e300",
            "-0.0",
            "\"until\":",
            "1900000001",
            "\"call\":",
            "null",
            "\"user\":\"\\u0000a\"",
        ];
        let mut state = 7_u64;
        for _ in 0..20_000 {
            let mut bytes = Vec::new();
            state = state
                .wrapping_mul(6_364_136_223_846_793_005)
                .wrapping_add(1);
            bytes.push((state >> 40) as u8);
            let mut left = state;
            for _ in 0..(state >> 60) {
                bytes.extend(pieces[(left % 15) as usize].as_bytes());
                left /= 15;
            }
            fuzz_answer(&bytes);
        }
    }
}
