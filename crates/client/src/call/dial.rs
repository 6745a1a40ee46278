//! Dials another end of a call, and offers the session to that end.

use std::net::SocketAddr;

use glassline_net::BindError;
use glassline_trust::Trust;
use glassline_webrtc::SetAnswerError;
use thiserror::Error;
use url::Url;

use super::{CallError, Config, Dialling, MediaTransport, Stamps};
use crate::impairment::{Impairment, ImpairmentProxy};
use crate::whep;

/// Whom to call, and how.
#[derive(Clone, Debug)]
pub struct Dial {
    /// URL that `glassline call listen` printed, or a WHEP URL of a server's stream, whose
    /// audio is then played.
    pub url: Url,
    /// Which certificates are accepted.
    pub trust: Trust,
    /// Bearer token, sent as `Authorization: Bearer`.
    pub token: Option<String>,
    /// Impairment of the path between the ends.
    pub impairment: Option<Impairment>,
}

/// A call that was accepted.
#[derive(Debug)]
pub struct Dialled {
    /// Transport to start the call with.
    pub transport: MediaTransport,
    /// URL of the session; `None` if its farewell alone ends it.
    pub location: Option<Url>,
    /// Impairment proxy between the ends; keep it while the call lasts.
    pub between: Option<ImpairmentProxy>,
    /// URLs at other servers of the cluster that take the same offer.
    pub alternates: Vec<Url>,
}

/// The reason why a call was not established.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum DialError {
    /// The URL's host cannot be resolved.
    #[error("cannot reach {0}: its host cannot be resolved")]
    Unresolved(Url),
    /// There is no socket or no route.
    #[error(transparent)]
    Call(#[from] CallError),
    /// The other end cannot be reached, or refuses.
    #[error(transparent)]
    Refused(#[from] whep::Error),
    /// The answer is unusable.
    #[error("the answer of {url} is unusable: {source}")]
    Answer {
        /// URL of the end that answered.
        url: Box<Url>,
        /// The fault of the answer.
        source: SetAnswerError,
    },
    /// The answer has no candidate that can be impaired.
    #[error("the answer of {0} has no UDP candidate, so the path cannot be impaired")]
    NoCandidate(Url),
    /// The impairment proxy has no socket.
    #[error(transparent)]
    Relay(#[from] BindError),
}

/// Calls, and returns when the call is accepted.
///
/// # Errors
/// [`DialError`] says why the call was not established.
pub fn dial(dial: &Dial, config: &Config) -> Result<Dialled, DialError> {
    let untold = is_stream(&dial.url).then(|| untold(config));
    connect(
        dial,
        &dial.url,
        Dialling::new,
        untold.as_ref().unwrap_or(config),
    )
}

/// Whether the URL is `…/STREAM/whep`, a server's stream, which has no use for stamps.
fn is_stream(url: &Url) -> bool {
    url.path().trim_end_matches('/').ends_with("/whep")
}

/// A copy of the configuration without data channels for stamps.
fn untold(config: &Config) -> Config {
    Config {
        stamps: Stamps::Off,
        ..config.clone()
    }
}

/// Makes an offer with `prepare`, and posts it to `at`.
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
    let transport = dialling
        .answered(&sdp)
        .map_err(|source| DialError::Answer {
            url: Box::new(url()),
            source,
        })?;
    Ok(Dialled {
        transport,
        location: answer.location,
        between,
        alternates: answer.alternates,
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
