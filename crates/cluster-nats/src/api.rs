//! The JetStream API, as far as buckets of records need it: requests and answers in JSON.

use async_nats::HeaderMap;
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use bytes::Bytes;
use glassline_cluster::engine::CallError;
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

/// Error codes of JetStream that are told apart (`server/errors.json` of nats-server).
pub(crate) mod code {
    /// Less servers that could keep a copy than wanted.
    pub(crate) const NO_SUITABLE_PEERS: u32 = 10_005;
    /// The servers elect a leader, or JetStream starts.
    pub(crate) const UNAVAILABLE: u32 = 10_008;
    /// The key has no value.
    pub(crate) const NO_MESSAGE: u32 = 10_037;
    /// JetStream is not on for the account.
    pub(crate) const NOT_FOR_ACCOUNT: u32 = 10_039;
    /// JetStream is not on.
    pub(crate) const NOT_ENABLED: u32 = 10_076;
    /// A stream of this name is there with other settings.
    pub(crate) const NAME_IN_USE: u32 = 10_058;
    /// There is no such stream.
    pub(crate) const NO_STREAM: u32 = 10_059;
    /// The key has another version.
    pub(crate) const WRONG_VERSION: u32 = 10_071;
    /// A server alone keeps one copy.
    pub(crate) const REPLICAS_WITHOUT_CLUSTER: u32 = 10_074;
    /// Another write of the key is on its way.
    pub(crate) const WRITE_UNDER_WAY: u32 = 10_164;
}

/// Error of JetStream.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize, derive_more::Display)]
#[display("{description} (JetStream code {err_code})")]
pub(crate) struct ApiError {
    /// Kind as in HTTP.
    #[serde(default)]
    pub(crate) code: u32,
    #[serde(default)]
    pub(crate) err_code: u32,
    #[serde(default)]
    pub(crate) description: String,
}

impl ApiError {
    /// Returns what the error says of a write.
    pub(crate) fn of_a_write(&self) -> CallError {
        match (self.err_code, self.code) {
            (code::WRONG_VERSION | code::WRITE_UNDER_WAY, _) => CallError::Conflict,
            // The server that says so may not be the one that has the write.
            (code::UNAVAILABLE, _) | (_, 408 | 503) => CallError::Unknown,
            _ => CallError::Refused(self.to_string()),
        }
    }

    /// Returns what the error says of a read.
    pub(crate) fn of_a_read(&self) -> CallError {
        match (self.err_code, self.code) {
            (code::UNAVAILABLE, _) | (_, 408 | 503) => CallError::Unknown,
            _ => CallError::Refused(self.to_string()),
        }
    }
}

/// An answer that is neither the error nor the type that was asked for.
#[derive(Debug)]
pub(crate) enum AnswerError {
    Api(ApiError),
    NotReadable(String),
}

/// Reads an answer of the API: `T`, or the error that stands in its place.
pub(crate) fn read<T: DeserializeOwned>(payload: &[u8]) -> Result<T, AnswerError> {
    #[derive(Deserialize)]
    struct Failed {
        error: Option<ApiError>,
    }
    let unreadable = |error: serde_json::Error| AnswerError::NotReadable(error.to_string());
    let failed: Failed = serde_json::from_slice(payload).map_err(unreadable)?;
    match failed.error {
        Some(error) => Err(AnswerError::Api(error)),
        None => serde_json::from_slice(payload).map_err(unreadable),
    }
}

/// Answer to a publication that was stored.
#[derive(Debug, Deserialize)]
pub(crate) struct Stored {
    pub(crate) seq: u64,
}

/// Request for the last message of a subject.
#[derive(Debug, Serialize)]
pub(crate) struct LastOf<'a> {
    pub(crate) last_by_subj: &'a str,
}

/// Answer to [`LastOf`].
#[derive(Debug, Deserialize)]
pub(crate) struct Found {
    pub(crate) message: StoredMessage,
}

/// A message as it is stored; headers and data in base64.
#[derive(Debug, Deserialize)]
pub(crate) struct StoredMessage {
    pub(crate) seq: u64,
    #[serde(default)]
    hdrs: String,
    #[serde(default)]
    data: String,
}

impl StoredMessage {
    /// Returns the value; `None` if the message marks a deletion.
    pub(crate) fn value(&self) -> Result<Option<Bytes>, String> {
        let decode = |text: &str| STANDARD.decode(text).map_err(|error| error.to_string());
        if marks_deletion(&parse_message_headers(&decode(&self.hdrs)?)) {
            return Ok(None);
        }
        Ok(Some(decode(&self.data)?.into()))
    }
}

/// Whether headers of a stored message mark a deletion: by a client (ADR-8) or by the server, which
/// names the reason (ADR-43).
fn marks_deletion(headers: &[(String, String)]) -> bool {
    headers.iter().any(|(name, value)| is_mark(name, value))
}

/// Whether headers of a message that arrived mark a deletion.
pub(crate) fn is_deletion(headers: Option<&HeaderMap>) -> bool {
    headers.is_some_and(|headers| {
        let mut all = headers.iter();
        all.any(|(name, values)| values.iter().any(|it| is_mark(name.as_ref(), it.as_str())))
    })
}

fn is_mark(name: &str, value: &str) -> bool {
    match name {
        "KV-Operation" => matches!(value, "DEL" | "PURGE"),
        "Nats-Marker-Reason" => true,
        _ => false,
    }
}

/// Parses the header block of a stored message: a line `NATS/1.0`, lines `Name: value`, and an
/// empty line. Lines without a colon are left out, and so is everything of another protocol.
pub fn parse_message_headers(block: &[u8]) -> Vec<(String, String)> {
    let text = String::from_utf8_lossy(block);
    let mut lines = text.split("\r\n");
    if !lines.next().is_some_and(|line| line.starts_with("NATS/1.")) {
        return Vec::new();
    }
    let fields = lines.take_while(|line| !line.is_empty());
    let fields = fields.filter_map(|line| line.split_once(':'));
    fields
        .map(|(name, value)| (name.trim().to_owned(), value.trim().to_owned()))
        .collect()
}

/// Request for a consumer that pushes the last message of each subject, and all that follow.
#[derive(Debug, Serialize)]
pub(crate) struct CreateConsumer<'a> {
    pub(crate) stream_name: &'a str,
    pub(crate) config: ConsumerConfig<'a>,
}

#[derive(Debug, Serialize)]
pub(crate) struct ConsumerConfig<'a> {
    pub(crate) name: &'a str,
    pub(crate) description: &'a str,
    pub(crate) deliver_subject: &'a str,
    pub(crate) deliver_policy: &'static str,
    pub(crate) ack_policy: &'static str,
    pub(crate) replay_policy: &'static str,
    pub(crate) filter_subject: &'a str,
    pub(crate) flow_control: bool,
    pub(crate) idle_heartbeat: u64,
    pub(crate) inactive_threshold: u64,
    pub(crate) num_replicas: u8,
    pub(crate) mem_storage: bool,
    pub(crate) max_deliver: i8,
}

/// Answer to [`CreateConsumer`].
#[derive(Debug, Deserialize)]
pub(crate) struct ConsumerInfo {
    /// Messages that are to come at once.
    #[serde(default)]
    pub(crate) num_pending: u64,
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn an_error_in_place_of_an_answer_is_told() {
        let text = br#"{"type":"x","error":{"code":400,"err_code":10071,"description":"wrong last sequence: 3"}}"#;
        let Err(AnswerError::Api(error)) = read::<Stored>(text) else {
            panic!("it is an error");
        };
        assert_eq!(error.of_a_write(), CallError::Conflict);
        assert!(error.to_string().contains("10071"));
        let stored: Stored = read(br#"{"stream":"KV_a","seq":7}"#).expect("stored");
        assert_eq!(stored.seq, 7);
        for wrong in [&b"{}"[..], b"[]", b"", b"{\"seq\":\"a\"}"] {
            let read = read::<Stored>(wrong);
            assert!(
                matches!(read, Err(AnswerError::NotReadable(_))),
                "{wrong:?}"
            );
        }
    }

    #[test]
    fn a_write_that_may_have_been_applied_is_no_conflict() {
        let error = |code, err_code| ApiError {
            code,
            err_code,
            description: "x".to_owned(),
        };
        assert_eq!(error(400, 10_164).of_a_write(), CallError::Conflict);
        assert_eq!(error(503, 10_008).of_a_write(), CallError::Unknown);
        assert_eq!(error(503, 1).of_a_write(), CallError::Unknown);
        assert!(matches!(
            error(400, 10_054).of_a_write(),
            CallError::Refused(_)
        ));
    }

    #[test]
    fn a_deleted_record_has_no_value() {
        let message = |headers: &str, data: &str| StoredMessage {
            seq: 1,
            hdrs: STANDARD.encode(headers),
            data: STANDARD.encode(data),
        };
        let value = message("", "v").value().expect("a value");
        assert_eq!(value.as_deref(), Some(&b"v"[..]));
        for mark in [
            "KV-Operation: DEL",
            "KV-Operation:PURGE",
            "Nats-Marker-Reason: MaxAge",
        ] {
            let marked = message(&format!("NATS/1.0\r\nA: b\r\n{mark}\r\n\r\n"), "");
            assert_eq!(marked.value(), Ok(None), "{mark}");
        }
        let other = message("NATS/1.0\r\nKV-Operation: PUT\r\n\r\n", "");
        assert_eq!(other.value(), Ok(Some(Bytes::new())));
        let broken = StoredMessage {
            seq: 1,
            hdrs: "*".to_owned(),
            data: String::new(),
        };
        assert!(broken.value().is_err());
    }

    proptest! {
        #[test]
        fn no_header_block_panics(block in proptest::collection::vec(any::<u8>(), 0..100)) {
            let mut all = b"NATS/1.0\r\n".to_vec();
            all.extend(&block);
            let _ = parse_message_headers(&all);
            let _ = parse_message_headers(&block);
        }
    }
}
