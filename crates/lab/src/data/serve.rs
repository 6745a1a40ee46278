//! The answering end: an HTTP server for offers and the page, and a thread for each test.

use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use axum::Router;
use axum::extract::{ConnectInfo, State};
use axum::http::{HeaderMap, StatusCode, header};
use axum::response::{IntoResponse, Response as HttpResponse};
use axum::routing::get;
use glassline_client::viewers::{local_addresses, wildcard};
use glassline_net::UdpSocket;
use glassline_webrtc::{AcceptConfig, Certificate, Secrets, Session};
use thiserror::Error;

use super::client::{Request, Response, socket_options, wall};
use super::control::Sample;
use super::end::{End, EndError, Side, data_config};
use super::plan::Plan;
use super::report::{Findings, Report};
use glassline_client::http::{Ends, Listening, Refusal, asset, blocking, is_of_type};

/// Path of the page and of offers.
pub const PATH: &str = "/data";

/// Most tests at a time; more would disturb each other.
const TESTS_MAX: usize = 4;
/// Longest time for the last test to end.
const DRAIN_MAX: Duration = Duration::from_secs(3);

/// Error that keeps the server from starting.
#[derive(Debug, Error)]
#[error("cannot serve tests at {address}: {reason}")]
pub struct ServeError {
    address: SocketAddr,
    reason: String,
}

/// Receives what happens in tests; called from the tests' threads.
pub trait Host: Send + Sync + 'static {
    /// Reports that a test begins.
    fn begun(&self, peer: SocketAddr, plan: &Plan);
    /// A sample of a test was taken.
    fn sampled(&self, peer: SocketAddr, sample: &Sample);
    /// A test ended, with the server's report of it.
    fn ended(&self, peer: SocketAddr, report: Result<Report, EndError>);
}

/// A host that ignores everything.
#[derive(Clone, Copy, Debug)]
pub struct Unattended;

impl Host for Unattended {
    fn begun(&self, _: SocketAddr, _: &Plan) {}
    fn sampled(&self, _: SocketAddr, _: &Sample) {}
    fn ended(&self, _: SocketAddr, _: Result<Report, EndError>) {}
}

/// A server of tests, which runs until it is dropped.
#[derive(Debug)]
pub struct Server {
    stop: Arc<AtomicBool>,
    running: Arc<AtomicUsize>,
    listening: Listening,
}

/// State that the HTTP handlers share.
struct App {
    host: Arc<dyn Host>,
    certificate: Arc<Certificate>,
    stop: Arc<AtomicBool>,
    running: Arc<AtomicUsize>,
}

impl Server {
    /// Starts a server at `address`.
    ///
    /// # Errors The address is in use or not one of this machine, or no thread could be started.
    pub fn start(address: SocketAddr, host: Arc<dyn Host>) -> Result<Self, ServeError> {
        let failed = |reason: String| ServeError { address, reason };
        let certificate = Certificate::generate().map_err(|it| failed(it.to_string()))?;
        let (stop, running) = (Arc::new(AtomicBool::new(false)), Arc::default());
        let app = Arc::new(App {
            host,
            certificate: Arc::new(certificate),
            stop: Arc::clone(&stop),
            running: Arc::clone(&running),
        });
        let routes = Router::new()
            .route(PATH, get(page).post(offer))
            .route("/data.js", get(script))
            .with_state(app);
        let listening = Listening::start(address, "data http", routes)
            .map_err(|error| failed(error.to_string()))?;
        Ok(Self {
            stop,
            running,
            listening,
        })
    }

    /// Address that the server listens on.
    pub const fn address(&self) -> SocketAddr {
        self.listening.address()
    }

    /// Returns the URL that clients dial.
    pub fn url(&self) -> String {
        format!("http://{}{PATH}", self.address())
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
        let until = Instant::now() + DRAIN_MAX;
        while self.running.load(Ordering::Relaxed) > 0 && Instant::now() < until {
            std::thread::sleep(Duration::from_millis(5));
        }
    }
}

async fn page() -> HttpResponse {
    let body = include_str!("../../assets/data.html");
    asset("text/html; charset=utf-8", body)
}

async fn script() -> HttpResponse {
    let body = include_str!("../../assets/data.js");
    asset("text/javascript; charset=utf-8", body)
}

/// Answers the offer of a client (`POST /data`).
async fn offer(
    State(app): State<Arc<App>>,
    ConnectInfo(ends): ConnectInfo<Ends>,
    headers: HeaderMap,
    body: String,
) -> HttpResponse {
    // A page of another origin cannot post this content type without a CORS preflight, which is
    // always refused.
    if !is_of_type(&headers, "application/json") {
        let text = "post a plan and an offer as application/json\n";
        return (StatusCode::UNSUPPORTED_MEDIA_TYPE, text).into_response();
    }
    match blocking(move || app.accept(ends, &body)).await {
        Ok(sdp) => {
            let body = serde_json::to_string(&Response { sdp }).expect("plain data");
            ([(header::CONTENT_TYPE, "application/json")], body).into_response()
        }
        Err(refused) => refused,
    }
}

/// Counts a test as long as it runs.
struct Running(Arc<AtomicUsize>);

impl Running {
    fn one_more(running: &Arc<AtomicUsize>) -> Option<Self> {
        let before = running.fetch_add(1, Ordering::Relaxed);
        let one = Self(Arc::clone(running));
        (before < TESTS_MAX).then_some(one)
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }
}

impl App {
    /// Makes a session for an offer and starts its thread; returns the SDP answer.
    fn accept(&self, ends: Ends, body: &str) -> Result<String, Refusal> {
        let bad = |reason: String| (StatusCode::BAD_REQUEST, reason);
        let ours = |reason: String| (StatusCode::INTERNAL_SERVER_ERROR, reason);
        let request: Request = serde_json::from_str(body).map_err(|it| bad(it.to_string()))?;
        let plan = request.plan;
        plan.check().map_err(bad)?;
        let data = data_config(&plan).map_err(bad)?;
        let running = Running::one_more(&self.running).ok_or_else(|| {
            let text = format!("{TESTS_MAX} tests are running: try again later");
            (StatusCode::SERVICE_UNAVAILABLE, text)
        })?;
        let socket = UdpSocket::bind(wildcard(ends.local), &socket_options(&plan))
            .map_err(|it| ours(it.to_string()))?;
        let port = socket.local_addr().port();
        let reached = ends.local.ip().to_canonical();
        let mut local = vec![SocketAddr::new(reached, port)];
        if reached.is_loopback() {
            // Browsers do not check loopback candidates from their other addresses.
            let more = local_addresses(ends.local).unwrap_or_default();
            let more = more.into_iter().filter(|ip: &IpAddr| *ip != reached);
            local.extend(more.map(|ip| SocketAddr::new(ip, port)));
        }
        let secrets = Secrets::expand(&rand::random());
        let config = AcceptConfig {
            local: local.iter().copied().map(Into::into).collect(),
            data: Some(data),
            ..AcceptConfig::new(Arc::clone(&self.certificate), secrets, wall())
        };
        let (session, answer) = Session::accept(config, &request.sdp, Instant::now())
            .map_err(|it| bad(it.to_string()))?;
        if session.channels().is_none() {
            return Err(bad("the offer has no data channels".to_owned()));
        }
        let end = End::new(Side::Server, plan.clone(), session, socket, local[0], None);
        let (host, stop, peer) = (Arc::clone(&self.host), Arc::clone(&self.stop), ends.peer);
        let thread = std::thread::Builder::new().name("data server".to_owned());
        let thread = thread.spawn(move || {
            let _running = running;
            let started = crate::timestamp::now();
            host.begun(peer, &plan);
            let outcome = end.run(&stop, |sample, _| host.sampled(peer, sample));
            let report = outcome.map(|outcome| {
                Report::new(Findings {
                    label: peer.to_string(),
                    started,
                    plan,
                    impairment: None,
                    client: outcome.peer,
                    server: outcome.own,
                    path: outcome.path,
                    cipher: outcome.cipher,
                    zero_checksum: outcome.zero_checksum,
                })
            });
            host.ended(peer, report);
        });
        thread.map_err(|it| ours(it.to_string()))?;
        Ok(answer)
    }
}
