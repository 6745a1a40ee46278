use std::fmt;

use aws_lc_rs::hmac;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use super::super::{Access, Pattern, Requester};

/// Hash of a question under a key of this run: it tells nothing of the password in it.
pub(super) type QuestionKey = [u8; 32];

/// The action that a client wants to take.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum Action {
    /// To read a stream.
    Read,
    /// To publish a stream, or to talk at a camera.
    Publish,
    /// To join a room, to speak and to hear the others.
    Call,
    /// To move the camera of a stream.
    Ptz,
    /// To watch what was recorded of a stream.
    Playback,
    /// To start, stop or mark the recording of a stream.
    Record,
    /// To export what was recorded of a stream as a file.
    Export,
}

impl Action {
    /// Every action that a webhook may decide about.
    pub const ALL: [Self; 7] = [
        Self::Read,
        Self::Publish,
        Self::Call,
        Self::Ptz,
        Self::Playback,
        Self::Record,
        Self::Export,
    ];

    /// Returns the name in questions, and of the list of streams.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Read => "read",
            Self::Publish => "publish",
            Self::Call => "call",
            Self::Ptz => "ptz",
            Self::Playback => "playback",
            Self::Record => "record",
            Self::Export => "export",
        }
    }

    /// Returns whether operators may do this to every stream.
    pub const fn is_of_operators(self) -> bool {
        match self {
            Self::Read | Self::Publish | Self::Call => false,
            Self::Ptz | Self::Playback | Self::Record | Self::Export => true,
        }
    }
}

impl From<Access> for Action {
    fn from(access: Access) -> Self {
        match access {
            Access::Read => Self::Read,
            Access::Publish => Self::Publish,
            Access::Past => Self::Playback,
        }
    }
}

/// The credentials that a client shows, as it shows them.
#[derive(Clone, PartialEq, Eq, derive_more::Debug)]
pub enum Credential {
    /// The client shows none.
    #[debug("nothing")]
    Nothing,
    /// The client shows a name and a password.
    #[debug("a password")]
    Password {
        /// Name of the user.
        user: String,
        /// Password in plain text.
        password: String,
    },
    /// The client shows a token, in a header or in the query.
    #[debug("a token")]
    Token(String),
}

/// A question about a client's rights.
#[derive(Clone, PartialEq, Eq)]
pub struct Question {
    /// The client that asks for the right.
    pub by: Requester,
    /// The action that the client wants to take.
    pub action: Action,
    /// Name of the protocol: `whep`, `whip`, `talk`, `call`, `http`, `rtsp` or `moq`.
    pub protocol: &'static str,
    /// Stream, room of a call, or folder of a session over MoQ; `None` if the client names none.
    pub name: Option<String>,
    /// Whether the name is that of a folder, whose streams the client names later.
    pub is_folder: bool,
    /// The credential that the client shows.
    pub credential: Credential,
    /// Query of the URL as the client sent it.
    pub query: Option<String>,
    /// `User-Agent` of the client.
    pub user_agent: Option<String>,
}

impl fmt::Debug for Question {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // The query may have a token.
        f.debug_struct("Question")
            .field("action", &self.action)
            .field("protocol", &self.protocol)
            .field("name", &self.name)
            .field("credential", &self.credential)
            .finish_non_exhaustive()
    }
}

impl Question {
    /// Returns whether the client shows something that it can be told from others by.
    pub(super) fn shows_something(&self) -> bool {
        let has_query = self.query.as_ref().is_some_and(|it| !it.is_empty());
        self.credential != Credential::Nothing || has_query
    }

    /// Returns whether the name could be one. A `*` would make an answer for one name a right to
    /// others.
    pub(super) fn has_possible_name(&self) -> bool {
        let is_possible = |name: &String| !name.contains('*') && Pattern::parse(name).is_ok();
        self.name.as_ref().is_none_or(is_possible)
    }

    /// Returns the password or token, if the client shows one.
    pub(in crate::auth) fn secret(&self) -> Option<&str> {
        match &self.credential {
            Credential::Nothing => None,
            Credential::Password { password, .. } => Some(password),
            Credential::Token(token) => Some(token),
        }
    }

    /// Returns the name of the user, if the client shows one.
    pub(in crate::auth) fn user(&self) -> Option<&str> {
        match &self.credential {
            Credential::Password { user, .. } => Some(user),
            _ => None,
        }
    }

    fn fields(&self) -> [Option<&str>; 8] {
        let (user, password, token) = match &self.credential {
            Credential::Nothing => (None, None, None),
            Credential::Password { user, password } => (Some(&**user), Some(&**password), None),
            Credential::Token(token) => (None, None, Some(&**token)),
        };
        [
            Some(self.action.as_str()),
            Some(self.protocol),
            self.name.as_deref(),
            user,
            password,
            token,
            self.query.as_deref(),
            self.user_agent.as_deref(),
        ]
    }

    /// Returns the hash of everything that the webhook would see.
    pub(super) fn key(&self, key: &hmac::Key) -> QuestionKey {
        let mut mac = hmac::Context::with_key(key);
        mac.update(self.by.address().to_canonical().to_string().as_bytes());
        for field in self.fields() {
            // The length stands in front, so that no part of a field can pass as part of the next.
            let length = field.map_or(u64::MAX, |it| it.len() as u64);
            mac.update(&length.to_be_bytes());
            mac.update(field.unwrap_or_default().as_bytes());
        }
        let tag = mac.sign();
        tag.as_ref().try_into().expect("SHA-256 has 32 bytes")
    }

    /// Returns the body of the request; `id` is the name of the question in logs.
    pub(super) fn body(&self, id: &str) -> Vec<u8> {
        let [
            action,
            protocol,
            name,
            user,
            password,
            token,
            query,
            user_agent,
        ] = self.fields();
        let (stream, room) = match self.action {
            Action::Call => (None, name),
            _ => (name, None),
        };
        let body: Value = json!({
            "id": id,
            "action": action,
            "protocol": protocol,
            "stream": stream,
            "room": room,
            "user": user,
            "password": password,
            "token": token,
            "query": query,
            "address": self.by.address().to_canonical(),
            "user_agent": user_agent,
        });
        body.to_string().into_bytes()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::auth::Listener;

    fn question() -> Question {
        Question {
            by: Requester::direct([192, 0, 2, 1].into(), Listener::Http),
            action: Action::Read,
            protocol: "whep",
            name: Some("cam".to_owned()),
            is_folder: false,
            credential: Credential::Password {
                user: "ann".to_owned(),
                password: "s3cret-word".to_owned(),
            },
            query: None,
            user_agent: None,
        }
    }

    #[test]
    fn different_questions_have_different_keys() {
        let key = hmac::Key::new(hmac::HMAC_SHA256, &[1; 32]);
        let mut others = vec![question(); 8];
        others[0].by = Requester::direct([192, 0, 2, 2].into(), Listener::Http);
        others[1].action = Action::Publish;
        others[2].protocol = "rtsp";
        others[3].name = None;
        others[4].credential = Credential::Token("anns3cret-word".to_owned());
        others[5].credential = Credential::Password {
            user: "anns".to_owned(),
            password: "3cret-word".to_owned(),
        };
        others[6].query = Some(String::new());
        others[7].user_agent = Some("player".to_owned());
        let mut keys: Vec<_> = others.iter().map(|it| it.key(&key)).collect();
        keys.push(question().key(&key));
        assert_eq!(question().key(&key), question().key(&key));
        keys.sort_unstable();
        keys.dedup();
        assert_eq!(keys.len(), 9);
    }

    #[test]
    fn the_body_has_what_the_client_shows_and_debug_output_has_not() {
        let body: Value = serde_json::from_slice(&question().body("7")).expect("JSON");
        assert_eq!(body["stream"], "cam");
        assert_eq!(body["password"], "s3cret-word");
        assert_eq!(body["address"], "192.0.2.1");
        assert_eq!(body["room"], Value::Null);
        let shown = format!("{:?}", question());
        assert!(!shown.contains("s3cret"), "{shown}");
    }

    #[test]
    fn a_name_that_stands_for_others_is_no_name() {
        let named = |name: &str| Question {
            name: Some(name.to_owned()),
            ..question()
        };
        assert!(named("cam").has_possible_name());
        for name in ["*", "cam*", "", "/cam", "a\nb", &"a".repeat(300)] {
            assert!(!named(name).has_possible_name(), "{name}");
        }
    }
}
