//! The keys of the issuer, read again in the background.
//!
//! ```text
//! start ─► load ─┐        every refresh_s, or when a token names an unknown key (≥ 10 s apart)
//!                ▼        │
//!             KeySet ◄── read ── file, or one GET at a time within 10 s and 256 KiB
//!                └─ without a success for stale_s: no keys, tokens are answered 503
//! ```

use std::io;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, Instant};

use axum::http::header::{self, HeaderValue};
use axum::http::{Request, StatusCode};
use bytes::Bytes;
use glassline_runtime::{Counter, small_file};
use http_body_util::Empty;
use parking_lot::Mutex;
use tokio::sync::{Notify, watch};

use super::keys::KeySet;
use super::{Algorithm, Jwt, KeysError};
use crate::outbound::{Bounds, BoxError, ClientError, HttpClient, WebUrl};

/// Shortest time between two readings that tokens with unknown keys cause.
const UNKNOWN_KEY_PAUSE: Duration = Duration::from_secs(10);

/// Time after which keys that could not be read are tried again.
const FAILURE_PAUSE: Duration = Duration::from_secs(15);

/// Longest time that a login waits for newer keys.
const WAIT_MAX: Duration = Duration::from_secs(5);

/// Most that one reading may take.
const BOUNDS: Bounds = Bounds {
    time: Duration::from_secs(10),
    body_bytes: 256 << 10,
};

/// The keys that tokens are verified with.
#[derive(Debug)]
pub struct KeyRing {
    origin: Origin,
    algorithms: Vec<Algorithm>,
    refresh: Duration,
    stale: Duration,
    state: Mutex<State>,
    /// Tells the task that newer keys are wanted.
    wanted: Notify,
    /// Counts finished readings.
    readings: watch::Sender<u64>,
    counters: KeyCounters,
}

/// Readings of keys since the server started.
#[derive(Debug, Default)]
pub struct KeyCounters {
    /// Readings that gave keys.
    pub read: Counter,
    /// Readings that failed.
    pub failed: Counter,
}

#[derive(Debug)]
enum Origin {
    /// The keys are in the configuration.
    Fixed,
    Pem(PathBuf),
    SetFile(PathBuf),
    Url(WebUrl, Option<PathBuf>),
}

#[derive(Debug)]
struct State {
    keys: Arc<KeySet>,
    /// Time of the latest reading that gave keys; `None` before the first.
    read: Option<Instant>,
    /// Time of the latest reading that a token with an unknown key caused.
    asked: Option<Instant>,
    /// Whether that reading is not finished: other tokens wait for it, too.
    is_pending: bool,
    /// Whether the log has said that the keys cannot be read.
    is_logged: bool,
}

/// The reason why keys cannot be read.
#[derive(Debug, thiserror::Error)]
pub enum KeyRingError {
    /// A file of `auth.jwt` cannot be read.
    #[error("{}: {source}; `auth.jwt` names this file", path.display())]
    File {
        /// File that the configuration names.
        path: PathBuf,
        /// The error that the system returned.
        source: io::Error,
    },
    /// The document that was read has no usable key.
    #[error("{origin}: {source}")]
    Keys {
        /// File or URL of the keys.
        origin: String,
        /// The reason why there is no key.
        source: KeysError,
    },
    /// The URL does not answer as it should.
    #[error("{url}: {reason}")]
    Fetch {
        /// URL of the keys.
        url: String,
        /// Description of the problem for people.
        reason: String,
    },
    /// There is no client for HTTPS.
    #[error("`auth.jwt.jwks_roots`: {0}")]
    Client(#[from] ClientError),
    /// There is no client for the webhook.
    #[error("`auth.webhook.roots`: {0}")]
    Webhook(#[source] ClientError),
}

impl KeyRing {
    /// Creates the ring of a configuration. Only a secret is there at once.
    pub(super) fn new(jwt: &Jwt) -> Self {
        let origin = match (&jwt.public_key, &jwt.jwks_file, &jwt.jwks_url) {
            (Some(path), ..) => Origin::Pem(path.clone()),
            (_, Some(path), _) => Origin::SetFile(path.clone()),
            (.., Some(url)) => Origin::Url(url.clone(), jwt.jwks_roots.clone()),
            _ => Origin::Fixed,
        };
        let secret = jwt.secret.as_ref();
        let keys = secret.map_or_else(KeySet::default, |secret| {
            KeySet::of_secret(secret.reveal(), &jwt.algorithms)
        });
        Self {
            origin,
            algorithms: jwt.algorithms.clone(),
            refresh: jwt.refresh(),
            stale: jwt.stale(),
            state: Mutex::new(State {
                keys: Arc::new(keys),
                read: None,
                asked: None,
                is_pending: false,
                is_logged: false,
            }),
            wanted: Notify::new(),
            readings: watch::Sender::new(0),
            counters: KeyCounters::default(),
        }
    }

    /// Returns the counts of readings.
    pub const fn counters(&self) -> &KeyCounters {
        &self.counters
    }

    /// Returns the number of keys in use, and the time since they were read; `None` for keys of the
    /// configuration itself.
    pub fn age(&self, now: Instant) -> (usize, Option<Duration>) {
        let read = self.state.lock().read;
        let age = read.map(|read| now.saturating_duration_since(read));
        (self.keys(now).len(), age)
    }

    /// Returns the keys to verify with: none if they could not be read for too long.
    pub(super) fn keys(&self, now: Instant) -> Arc<KeySet> {
        let state = self.state.lock();
        let age = state.read.map(|it| now.saturating_duration_since(it));
        match age.is_some_and(|age| age > self.stale) {
            true => Arc::default(),
            false => Arc::clone(&state.keys),
        }
    }

    /// Waits for newer keys, which a token with an unknown key may be signed with. Returns false at
    /// once if the keys cannot change, or were read for such a token a short time ago.
    pub(in crate::auth) async fn renewed(&self, now: Instant) -> bool {
        let mut readings = self.readings.subscribe();
        readings.mark_unchanged();
        if !self.want(now) {
            return false;
        }
        let changed = tokio::time::timeout(WAIT_MAX, readings.changed());
        changed.await.is_ok_and(|it| it.is_ok())
    }

    fn want(&self, now: Instant) -> bool {
        if matches!(self.origin, Origin::Fixed) {
            return false;
        }
        let mut state = self.state.lock();
        if state.is_pending {
            return true;
        }
        let is_early = |asked: Instant| now.saturating_duration_since(asked) < UNKNOWN_KEY_PAUSE;
        if state.asked.is_some_and(is_early) {
            return false;
        }
        state.asked = Some(now);
        state.is_pending = true;
        drop(state);
        self.wanted.notify_one();
        true
    }

    /// Reads the keys for the first time. A URL that does not answer is no error: it may come later
    /// than this server after a power failure.
    ///
    /// # Errors
    /// Returns [`KeyRingError`] if a file cannot be used.
    pub async fn load(&self) -> Result<(), KeyRingError> {
        if matches!(self.origin, Origin::Fixed) {
            return Ok(());
        }
        match self.read_once().await {
            Err(error @ KeyRingError::Fetch { .. }) => {
                tracing::warn!(%error, "keys of tokens not read: tokens are refused until they are");
                self.state.lock().is_logged = true;
                Ok(())
            }
            read => read,
        }
    }

    /// Reads the keys again and again, until `stopped` becomes true.
    pub async fn keep_fresh(&self, mut stopped: watch::Receiver<bool>) {
        if matches!(self.origin, Origin::Fixed) {
            return;
        }
        let has_keys = self.state.lock().read.is_some();
        let mut pause = if has_keys {
            self.refresh
        } else {
            FAILURE_PAUSE
        };
        loop {
            tokio::select! {
                () = tokio::time::sleep(pause) => {}
                () = self.wanted.notified() => {}
                _ = stopped.wait_for(|stop| *stop) => return,
            }
            let read = self.read_once().await;
            pause = match read {
                Ok(()) => self.refresh,
                Err(_) => FAILURE_PAUSE.min(self.refresh),
            };
            self.log(read);
        }
    }

    /// Writes a line when the keys cannot be read for the first time, and when they can again.
    fn log(&self, read: Result<(), KeyRingError>) {
        let mut state = self.state.lock();
        let was_logged = std::mem::replace(&mut state.is_logged, read.is_err());
        drop(state);
        match read {
            Ok(()) if was_logged => tracing::info!("keys of tokens are read again"),
            Err(error) if !was_logged => {
                let kept_s = self.stale.as_secs();
                tracing::warn!(%error, kept_s, "keys of tokens not read: the last ones stay in use for auth.jwt.stale_s");
            }
            _ => {}
        }
    }

    async fn read_once(&self) -> Result<(), KeyRingError> {
        let read = self.read().await;
        match &read {
            Ok(_) => self.counters.read.add(1),
            Err(_) => self.counters.failed.add(1),
        }
        let mut state = self.state.lock();
        state.is_pending = false;
        let done = read.map(|keys| {
            state.keys = Arc::new(keys);
            state.read = Some(Instant::now());
        });
        drop(state);
        self.readings.send_modify(|readings| *readings += 1);
        done
    }

    async fn read(&self) -> Result<KeySet, KeyRingError> {
        let (origin, text, is_pem) = match &self.origin {
            Origin::Fixed => return Ok(KeySet::default()),
            Origin::Pem(path) => (
                path.display().to_string(),
                of_file(path.clone()).await?,
                true,
            ),
            Origin::SetFile(path) => (
                path.display().to_string(),
                of_file(path.clone()).await?,
                false,
            ),
            Origin::Url(url, roots) => {
                let client = HttpClient::new(roots.as_deref())?;
                let fetched = fetch(&client, url).await;
                let fetched = fetched.map_err(|error| KeyRingError::Fetch {
                    url: url.to_string(),
                    reason: error.to_string(),
                });
                (url.to_string(), fetched?, false)
            }
        };
        let keys = match is_pem {
            true => KeySet::of_pem(&text, &self.algorithms),
            false => KeySet::of_jwks(&text, &self.algorithms),
        };
        keys.map_err(|source| match &self.origin {
            // A provider may be half started, so this is no reason not to start.
            Origin::Url(..) => KeyRingError::Fetch {
                url: origin,
                reason: source.to_string(),
            },
            _ => KeyRingError::Keys { origin, source },
        })
    }
}

/// Reads a file on a thread that may block.
async fn of_file(path: PathBuf) -> Result<Vec<u8>, KeyRingError> {
    let read = path.clone();
    let read = move || small_file::read(&read, BOUNDS.body_bytes as u64);
    let read = tokio::task::spawn_blocking(read).await;
    let read = read.unwrap_or_else(|error| Err(io::Error::other(error)));
    read.map_err(|source| KeyRingError::File { path, source })
}

async fn fetch(client: &HttpClient, url: &WebUrl) -> Result<Vec<u8>, BoxError> {
    let accepted = HeaderValue::from_static("application/jwk-set+json, application/json");
    let request = Request::get(url.as_str()).header(header::ACCEPT, accepted);
    let request = request.body(Empty::<Bytes>::new())?;
    let response = client.fetch(request, BOUNDS).await?;
    if response.status() != StatusCode::OK {
        let status = response.status();
        return Err(format!("status {status} instead of keys; redirects are not followed").into());
    }
    Ok(response.into_body().to_vec())
}
