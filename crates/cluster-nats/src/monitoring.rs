//! The monitoring of nats-server, the one place that tells of `sync_interval`.

use std::time::Duration;

use serde::Deserialize;
use thiserror::Error;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use url::Url;

/// Time for the whole exchange.
const PATIENCE: Duration = Duration::from_secs(3);

/// Most bytes of the answer; a server sends some ten thousand.
const ANSWER_MAX: u64 = 1 << 20;

/// Reasons why `sync_interval` is not known.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum SyncError {
    /// The monitoring address does not answer.
    #[error("the monitoring of NATS does not answer ({0}); correct `monitoring`, or remove it")]
    Unreachable(String),
    /// The answer is no `/varz` of nats-server.
    #[error("what answers is no monitoring of nats-server; it listens where `http` says (8222)")]
    NoServer,
    /// The server has no JetStream.
    #[error("JetStream is off at this server, which can keep no records")]
    NoJetStream,
}

/// Whether the server whose monitoring is at `base` writes each record to disk before it answers.
pub(crate) async fn sync_always(base: &Url) -> Result<bool, SyncError> {
    let unreachable = |error: std::io::Error| SyncError::Unreachable(error.to_string());
    let asking = async {
        let host = base.host_str().ok_or(SyncError::NoServer)?;
        let bare = host.trim_matches(['[', ']']);
        let port = base.port_or_known_default().unwrap_or(8222);
        let mut stream = TcpStream::connect((bare, port))
            .await
            .map_err(unreachable)?;
        let path = base.path().trim_end_matches('/');
        let request = format!("GET {path}/varz HTTP/1.0\r\nHost: {host}:{port}\r\n\r\n");
        let sent = stream.write_all(request.as_bytes()).await;
        sent.map_err(unreachable)?;
        let mut answer = Vec::new();
        let mut bounded = stream.take(ANSWER_MAX);
        let read = bounded.read_to_end(&mut answer).await;
        read.map_err(unreachable)?;
        parse_sync_always(&answer)
    };
    let silence = Err(SyncError::Unreachable("silence".to_owned()));
    tokio::time::timeout(PATIENCE, asking)
        .await
        .unwrap_or(silence)
}

/// Reads an answer to `GET /varz` over HTTP/1.0, with its head: whether `sync_interval` is `always`.
///
/// # Errors
/// Returns [`SyncError`] if the answer is not one of nats-server, or JetStream is off.
pub fn parse_sync_always(answer: &[u8]) -> Result<bool, SyncError> {
    #[derive(Deserialize)]
    struct Varz {
        server_id: String,
        #[serde(default)]
        jetstream: Option<JetStream>,
    }
    #[derive(Deserialize)]
    struct JetStream {
        #[serde(default)]
        config: Option<Config>,
    }
    #[derive(Deserialize)]
    struct Config {
        #[serde(default)]
        sync_always: bool,
    }
    let is_ok = answer.starts_with(b"HTTP/1.") && answer.get(8..13) == Some(b" 200 ");
    let end = answer.windows(4).position(|window| window == b"\r\n\r\n");
    let body = end.filter(|_| is_ok).and_then(|at| answer.get(at + 4..));
    let body = body.ok_or(SyncError::NoServer)?;
    let varz: Varz = serde_json::from_slice(body).map_err(|_| SyncError::NoServer)?;
    if varz.server_id.is_empty() {
        return Err(SyncError::NoServer);
    }
    let config = varz.jetstream.and_then(|it| it.config);
    let config = config.ok_or(SyncError::NoJetStream)?;
    Ok(config.sync_always)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn answer(body: &str) -> Vec<u8> {
        format!("HTTP/1.0 200 OK\r\nContent-Type: application/json\r\n\r\n{body}").into_bytes()
    }

    #[test]
    fn the_setting_is_read() {
        let with = |config: &str| {
            let body = format!("{{\"server_id\":\"NA\",\"jetstream\":{{{config}}}}}");
            parse_sync_always(&answer(&body))
        };
        assert_eq!(with("\"config\":{\"sync_always\":true}"), Ok(true));
        assert_eq!(with("\"config\":{\"sync_interval\":1}"), Ok(false));
        assert_eq!(with(""), Err(SyncError::NoJetStream));
    }

    #[test]
    fn another_server_is_told_apart() {
        for body in ["", "<html>", "{}", "{\"server_id\":\"\"}"] {
            assert_eq!(parse_sync_always(&answer(body)), Err(SyncError::NoServer));
        }
        let other = b"HTTP/1.1 404 Not Found\r\n\r\n{\"server_id\":\"a\"}";
        assert_eq!(parse_sync_always(other), Err(SyncError::NoServer));
    }

    proptest! {
        #[test]
        fn no_answer_panics(rest in proptest::collection::vec(any::<u8>(), 0..200)) {
            let mut all = b"HTTP/1.1 200 OK\r\n\r\n".to_vec();
            all.extend(&rest);
            let _ = parse_sync_always(&all);
            let _ = parse_sync_always(&rest);
        }
    }
}
