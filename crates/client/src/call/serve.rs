//! The end that is called: an HTTP server for offers, and its page.

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, Sender, channel};

use axum::Router;
use axum::extract::{ConnectInfo, State};
use axum::http::{HeaderMap, StatusCode, header};
use axum::response::{IntoResponse as _, Response};
use axum::routing::get;
use thiserror::Error;

use super::{AnswerError, Config, MediaTransport, answer};
use crate::http::{Ends, Listening, Refusal, asset, blocking, is_of_type};

/// Path of offers and of the page.
pub const PATH: &str = "/call";

/// Error: the server cannot listen.
#[derive(Debug, Error)]
#[error("cannot listen at {address}: {reason}")]
pub struct ServeError {
    address: SocketAddr,
    reason: String,
}

/// Accepts calls, one at a time, until it is dropped.
#[derive(Debug)]
pub struct Server {
    calls: Receiver<Incoming>,
    listening: Listening,
}

/// A call that was answered and is to be started.
#[derive(Debug)]
pub struct Incoming {
    /// Address of the caller.
    pub peer: SocketAddr,
    /// Transport to start the call with.
    pub transport: MediaTransport,
    /// Keeps this end busy: no other call is answered until this is dropped.
    pub slot: Slot,
}

/// The only call that there can be at a time.
#[derive(Debug)]
pub struct Slot(Arc<AtomicBool>);

impl Slot {
    fn take(busy: &Arc<AtomicBool>) -> Option<Self> {
        let was_busy = busy.swap(true, Ordering::Relaxed);
        (!was_busy).then(|| Self(Arc::clone(busy)))
    }
}

impl Drop for Slot {
    fn drop(&mut self) {
        self.0.store(false, Ordering::Relaxed);
    }
}

/// Data that the request handlers share.
struct App {
    config: Config,
    busy: Arc<AtomicBool>,
    calls: Sender<Incoming>,
}

impl Server {
    /// Listens at `address`; calls are answered with `config`.
    ///
    /// # Errors
    /// If the address is taken or not ours, or the system refuses a thread.
    pub fn start(address: SocketAddr, config: Config) -> Result<Self, ServeError> {
        let failed = |reason: String| ServeError { address, reason };
        let (sender, calls) = channel();
        let app = Arc::new(App {
            config,
            busy: Arc::default(),
            calls: sender,
        });
        let routes = Router::new()
            .route(PATH, get(page).post(offer))
            .route("/call.js", get(script))
            .with_state(app);
        let listening = Listening::start(address, "call http", routes)
            .map_err(|error| failed(error.to_string()))?;
        Ok(Self { calls, listening })
    }

    /// Address at which the server listens.
    pub const fn address(&self) -> SocketAddr {
        self.listening.address()
    }

    /// URL that the other end dials.
    pub fn url(&self) -> String {
        format!("http://{}{PATH}", self.address())
    }

    /// Returns the next call, if there is one.
    pub fn poll(&self) -> Option<Incoming> {
        self.calls.try_recv().ok()
    }
}

async fn page() -> Response {
    let body = include_str!("../../assets/call.html");
    asset("text/html; charset=utf-8", body)
}

async fn script() -> Response {
    let body = include_str!("../../assets/call.js");
    asset("text/javascript; charset=utf-8", body)
}

const SDP: &str = "application/sdp";

/// `POST /call`: takes an offer and returns an answer, as WHIP and WHEP do.
async fn offer(
    State(app): State<Arc<App>>,
    ConnectInfo(ends): ConnectInfo<Ends>,
    headers: HeaderMap,
    body: String,
) -> Response {
    // Pages of other origins may not post this type without a CORS preflight, which is
    // never granted: otherwise any page could listen to the microphone.
    if !is_of_type(&headers, SDP) {
        let text = "post an SDP offer as application/sdp\n";
        return (StatusCode::UNSUPPORTED_MEDIA_TYPE, text).into_response();
    }
    match blocking(move || app.answer(ends, &body)).await {
        Ok(sdp) => {
            let headers = [(header::CONTENT_TYPE, SDP)];
            (StatusCode::CREATED, headers, sdp).into_response()
        }
        Err(refused) => refused,
    }
}

impl App {
    fn answer(&self, ends: Ends, offer: &str) -> Result<String, Refusal> {
        let slot = Slot::take(&self.busy).ok_or_else(|| {
            let text = "another call is in progress here: try again later".to_owned();
            (StatusCode::SERVICE_UNAVAILABLE, text)
        })?;
        let (transport, sdp) = answer(offer, ends.local, &self.config).map_err(|error| {
            let status = match error {
                AnswerError::Offer(_) => StatusCode::BAD_REQUEST,
                _ => StatusCode::INTERNAL_SERVER_ERROR,
            };
            (status, error.to_string())
        })?;
        let incoming = Incoming {
            peer: ends.peer,
            transport,
            slot,
        };
        self.calls.send(incoming).map_err(|_| {
            let text = "this end is shutting down and takes no more calls".to_owned();
            (StatusCode::SERVICE_UNAVAILABLE, text)
        })?;
        Ok(sdp)
    }
}
