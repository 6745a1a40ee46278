//! The dialling end of a data-channel test: asks a server for a test, and runs it.

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use glassline_client::impairment::{Impairment, ImpairmentProxy};
use glassline_client::relay::{Connection, GatherError, gather};
use glassline_client::trust::Trust;
use glassline_client::viewers::{local_addresses, wildcard};
use glassline_media::WallClock;
use glassline_net::{BindError, Options as SocketOptions, UdpSocket};
use glassline_webrtc::{Certificate, DialConfig, Secrets, Session, turn};
use serde::{Deserialize, Serialize};
use thiserror::Error;
use url::Url;

use super::control::Sample;
use super::end::{End, EndError, Side, data_config};
use super::plan::Plan;
use super::report::{Findings, Report};

/// Body of a client's request.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Request {
    /// Test that is asked for.
    pub plan: Plan,
    /// Text of the SDP offer.
    pub sdp: String,
}

/// Body of the server's answer.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Response {
    /// Text of the SDP answer.
    pub sdp: String,
}

/// Server to dial, and the path to it.
#[derive(Clone, Debug)]
pub struct Dial {
    /// URL that `bench data serve` printed.
    pub url: Url,
    /// Certificates that are accepted.
    pub trust: Trust,
    /// Impairment between the ends.
    pub impairment: Option<Impairment>,
    /// TURN servers, and whether the path must go through one.
    pub relays: Relays,
    /// Name of the run in charts.
    pub label: String,
}

/// TURN servers of the dialling end.
#[derive(Clone, Debug)]
pub struct Relays {
    /// TURN servers, tried in order; the first that gives an allocation is used.
    pub servers: Vec<turn::Server>,
    /// Credentials for all servers.
    pub credentials: turn::Credentials,
    /// Whether only relayed candidates are offered.
    pub only: bool,
}

impl Relays {
    /// No TURN servers: every path is direct.
    pub const NONE: Self = Self {
        servers: Vec::new(),
        credentials: turn::Credentials {
            username: String::new(),
            password: String::new(),
        },
        only: false,
    };
}

/// Error of a test at the dialling end.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum DialError {
    /// The plan cannot be run; a flag is wrong.
    #[error("{0}")]
    Plan(String),
    /// The URL's host cannot be resolved, or there is no route to it.
    #[error("cannot reach {0}: {1}")]
    Unreachable(Url, String),
    /// The server refused the test, or is no `bench data serve`.
    #[error("{url} answers {status}: {detail}")]
    Refused {
        /// URL of the server.
        url: Url,
        /// HTTP status code of the refusal.
        status: u16,
        /// The server's reason for the refusal.
        detail: String,
    },
    /// The UDP socket could not be opened.
    #[error(transparent)]
    Socket(#[from] BindError),
    /// A relay is required, and no TURN server gave one.
    #[error(transparent)]
    Relay(#[from] GatherError),
    /// The session's key could not be made, or a thread could not be started.
    #[error("cannot start: {0}")]
    Start(String),
    /// The server's answer cannot be used.
    #[error("the answer of {0} cannot be used: {1}")]
    Answer(Url, String),
    /// The test did not reach its end.
    #[error(transparent)]
    End(#[from] EndError),
}

impl From<String> for DialError {
    fn from(error: String) -> Self {
        Self::Plan(error)
    }
}

/// Socket options of both ends.
pub(super) fn socket_options(plan: &Plan) -> SocketOptions {
    SocketOptions {
        receive_buffer: plan.udp_buffer,
        send_buffer: plan.udp_buffer,
        segmentation: !plan.no_offload,
        coalescing: !plan.no_offload,
        ..SocketOptions::default()
    }
}

pub(super) fn wall() -> WallClock {
    let unix = SystemTime::now().duration_since(UNIX_EPOCH);
    WallClock::new(Instant::now(), unix.unwrap_or_default())
}

/// Runs a test against the server at `dial.url`; blocks until it is over, or `stop`. `watch` gets
/// the client's sample and the server's latest one after each interval.
///
/// # Errors See [`DialError`].
pub fn measure(
    dial: &Dial,
    plan: &Plan,
    stop: &AtomicBool,
    mut watch: impl FnMut(&Sample, Option<&Sample>) + Send,
) -> Result<Report, DialError> {
    plan.check()?;
    let started = crate::timestamp::now();
    let data = data_config(plan)?;
    let unreachable = |why: String| DialError::Unreachable(dial.url.clone(), why);
    let server = dial
        .url
        .socket_addrs(|| None)
        .ok()
        .and_then(|all| all.into_iter().next())
        .ok_or_else(|| unreachable("the host has no address".to_owned()))?;
    let ips = local_addresses(server).map_err(|error| unreachable(error.to_string()))?;
    let socket = UdpSocket::bind(wildcard(server), &socket_options(plan))?;
    let port = socket.local_addr().port();
    let local: Vec<SocketAddr> = ips.iter().map(|ip| SocketAddr::new(*ip, port)).collect();
    let (relays, connection) = relays(dial, &socket, local[0])?;
    let certificate =
        Certificate::generate().map_err(|error| DialError::Start(error.to_string()))?;
    let secrets = Secrets::expand(&rand::random());
    let config = DialConfig {
        local: match dial.relays.only {
            true => Vec::new(),
            false => local.clone(),
        },
        turn_allocations: relays,
        data: Some(data),
        ..DialConfig::new(Arc::new(certificate), secrets, wall())
    };
    let (mut session, offer) = Session::dial(config, Instant::now());
    let mut answer = post(dial, plan, offer)?;
    let unusable = |why: String| DialError::Answer(dial.url.clone(), why);
    let between = match &dial.impairment {
        None => None,
        Some(impairment) => {
            let (at, rewritten) = ImpairmentProxy::splice_into_answer(&answer, impairment)
                .ok_or_else(|| unusable("it has no candidate to impair".to_owned()))??;
            answer = rewritten;
            Some(at)
        }
    };
    session
        .set_answer(&answer, Instant::now())
        .map_err(|error| unusable(error.to_string()))?;
    let end = End::new(
        Side::Client,
        plan.clone(),
        session,
        socket,
        local[0],
        connection,
    );
    // The end has a thread of its own, so that the thread's processor time is that of the end
    // alone.
    let outcome = std::thread::scope(|scope| {
        let thread = std::thread::Builder::new().name("data client".to_owned());
        let thread = thread.spawn_scoped(scope, || end.run(stop, &mut watch));
        let thread = thread.map_err(|error| DialError::Start(error.to_string()))?;
        let outcome = thread.join().expect("an end's thread does not panic");
        Ok::<_, DialError>(outcome?)
    })?;
    drop(between);
    Ok(Report::new(Findings {
        label: dial.label.clone(),
        started,
        plan: plan.clone(),
        impairment: dial.impairment.as_ref().map(ToString::to_string),
        client: outcome.own,
        server: outcome.peer,
        path: outcome.path,
        cipher: outcome.cipher,
        zero_checksum: outcome.zero_checksum,
    }))
}

/// Time that each TURN server may take.
const RELAY_PATIENCE: Duration = Duration::from_secs(4);

/// Allocates a relay, if there are TURN servers. Without a relay a direct path may still work.
fn relays(
    dial: &Dial,
    socket: &UdpSocket,
    local: SocketAddr,
) -> Result<(Vec<turn::Allocation>, Option<Connection>), DialError> {
    let Relays {
        servers,
        credentials,
        only,
    } = &dial.relays;
    if servers.is_empty() && !only {
        return Ok((Vec::new(), None));
    }
    match gather(
        servers,
        credentials,
        socket,
        local,
        dial.trust,
        RELAY_PATIENCE,
    ) {
        Ok(gathered) => Ok((vec![gathered.relay], gathered.connection)),
        Err(error) if *only => Err(error.into()),
        Err(error) => {
            tracing::warn!(%error, "no TURN server gave a relay; only direct paths are tried");
            Ok((Vec::new(), None))
        }
    }
}

/// Largest answer that is read, in bytes; answers have a few kilobytes.
const BODY_BYTES_MAX: u64 = 256 << 10;

fn post(dial: &Dial, plan: &Plan, sdp: String) -> Result<String, DialError> {
    let request = Request {
        plan: plan.clone(),
        sdp,
    };
    let unreachable =
        |error: ureq::Error| DialError::Unreachable(dial.url.clone(), error.to_string());
    let config = ureq::Agent::config_builder()
        .http_status_as_error(false)
        .max_redirects(0)
        .timeout_global(Some(Duration::from_secs(15)))
        .build();
    let agent = glassline_client::agent::agent(config, dial.trust);
    let body = serde_json::to_string(&request).expect("plain data");
    let mut response = agent
        .post(dial.url.as_str())
        .header("content-type", "application/json")
        .send(body)
        .map_err(unreachable)?;
    let status = response.status().as_u16();
    let text = response
        .body_mut()
        .with_config()
        .limit(BODY_BYTES_MAX)
        .read_to_string()
        .map_err(unreachable)?;
    if status != 200 {
        return Err(DialError::Refused {
            url: dial.url.clone(),
            status,
            detail: text.chars().take(300).collect(),
        });
    }
    let response: Response = serde_json::from_str(&text)
        .map_err(|error| DialError::Answer(dial.url.clone(), error.to_string()))?;
    Ok(response.sdp)
}
