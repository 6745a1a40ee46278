//! The end that calls.

use std::net::SocketAddr;

use glassline_net::BindError;
use glassline_webrtc::SetAnswerError;
use thiserror::Error;
use url::Url;

use super::{CallError, Config, Dialling, Line, Stamps};
use crate::impairment::{Impairment, ImpairmentProxy};
use crate::trust::Trust;
use crate::whep;

/// Whom to call, and how.
#[derive(Clone, Debug)]
pub struct Dial {
    /// What `glassline call listen` printed, or a stream of a server by WHEP, which then
    /// is heard.
    pub url: Url,
    /// Whose certificates are taken.
    pub trust: Trust,
    /// Goes out as `Authorization: Bearer`.
    pub token: Option<String>,
    /// What shall stand between the ends.
    pub impairment: Option<Impairment>,
}

/// A call that was taken.
#[derive(Debug)]
pub struct Dialled {
    /// What to start it with.
    pub line: Line,
    /// Where the session is left; `None` where that is done by its farewell alone.
    pub location: Option<Url>,
    /// What stands between the ends; keep it for as long as the call goes on.
    pub between: Option<ImpairmentProxy>,
}

/// Why nobody was reached.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum DialError {
    /// The URL's host cannot be resolved.
    #[error("cannot reach {0}: its host cannot be resolved")]
    Unresolved(Url),
    /// No socket, no route.
    #[error(transparent)]
    Call(#[from] CallError),
    /// Nobody there, or not for us.
    #[error(transparent)]
    Refused(#[from] whep::Error),
    /// The answer is of no use.
    #[error("the answer of {url} cannot be used: {source}")]
    Answer {
        /// Whose.
        url: Box<Url>,
        /// What is wrong with it.
        source: SetAnswerError,
    },
    /// Nothing can be put between the ends.
    #[error("the answer of {0} has no candidate to impair")]
    NoCandidate(Url),
    /// The relay has no socket.
    #[error(transparent)]
    Relay(#[from] BindError),
}

/// Calls, and returns when the call is taken.
///
/// # Errors
/// [`DialError`].
pub fn dial(dial: &Dial, config: &Config) -> Result<Dialled, DialError> {
    let untold = is_stream(&dial.url).then(|| untold(config));
    connect(
        dial,
        &dial.url,
        Dialling::new,
        untold.as_ref().unwrap_or(config),
    )
}

/// `…/STREAM/whep`: a server's, which has no use for stamps.
fn is_stream(url: &Url) -> bool {
    url.path().trim_end_matches('/').ends_with("/whep")
}

/// The same without channels for stamps.
fn untold(config: &Config) -> Config {
    Config {
        stamps: Stamps::Off,
        ..config.clone()
    }
}

/// Makes an offer by `prepare`, and posts it to `at`.
pub(super) fn connect(
    dial: &Dial,
    at: &Url,
    prepare: impl FnOnce(SocketAddr, &Config) -> Result<Dialling, CallError>,
    config: &Config,
) -> Result<Dialled, DialError> {
    let url = || at.clone();
    let addresses = at.socket_addrs(|| None).ok();
    let server = addresses.and_then(|all| all.into_iter().next());
    let server = server.ok_or_else(|| DialError::Unresolved(url()))?;
    let dialling = prepare(server, config)?;
    let token = dial.token.as_deref();
    let answer = whep::post_offer(at, dialling.offer(), token, dial.trust)?;
    let mut sdp = answer.sdp;
    let mut between = None;
    if let Some(impairment) = &dial.impairment {
        let (proxy, rewritten) = ImpairmentProxy::splice_into_answer(&sdp, impairment)
            .ok_or_else(|| DialError::NoCandidate(url()))??;
        sdp = rewritten;
        between = Some(proxy);
    }
    let line = dialling
        .answered(&sdp)
        .map_err(|source| DialError::Answer {
            url: Box::new(url()),
            source,
        })?;
    Ok(Dialled {
        line,
        location: answer.location,
        between,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_stream_is_offered_no_channels_for_stamps() {
        let url = |text: &str| text.parse().expect("a URL");
        assert!(is_stream(&url("http://10.0.0.1:8889/demo/whep")));
        assert!(!is_stream(&url("http://10.0.0.1:8891/call")));
        let server = ([127, 0, 0, 1], 9).into();
        let has_data = |config: &Config| {
            let dialling = Dialling::new(server, config).expect("a socket");
            dialling.offer().contains("m=application")
        };
        let config = Config::default();
        assert!(has_data(&config));
        assert!(!has_data(&untold(&config)));
    }
}
