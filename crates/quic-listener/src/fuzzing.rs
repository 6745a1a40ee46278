//! Driver of the fuzz target `webtransport`: a client that may send anything, and the server's own
//! listener, rights and ingest.
//!
//! ```text
//! input ─► HostileClient ─ QUIC on loopback ─► Quic ─► rights ─► session ─► hub
//! ```
//!
//! Server and client share one thread and its tokio runtime, which is made anew for each input.
//! WebTransport's frames are parsed by web-transport-proto, the messages of MoQ by moq-net; both are
//! reached through the crate `quic`, as in the server.

use std::sync::Arc;
use std::time::{Duration, Instant};

use glassline_access::auth::{Auth, Origin, Secret, Sites, Users};
use glassline_config as config;
use glassline_hub::{Hub, Limits, State};
use glassline_quic::moq::fuzzing::{HostileClient, SentRequest};
use glassline_runtime::{Clock, Supervisor};
use tokio::runtime;
use tokio::sync::watch;

use super::{CertificateSource, Quic, Services};

const TOKEN: &str = "show";
const SITE: &str = "https://site.example";

/// Most streams that one session may publish, and one more.
const STREAMS_MAX: usize = 17;

/// Bytes that a server may send to a client without a session, whatever the client sends: its
/// certificate, acknowledgments, and probes for the path's MTU.
const SENT_UNASKED_MAX: u64 = 64 << 10;

/// Time that a session has to end after its connection, in real time.
const END_TIMEOUT: Duration = Duration::from_secs(5);

thread_local! {
    static SUPERVISOR: Arc<Supervisor> = Supervisor::start().expect("a thread");
}

/// Runs what `bytes` describe. The first byte is the server's: bits 1 a token for publishers, 2 a
/// token for readers, 4 a site whose pages may read. The others are the client's.
///
/// # Panics
/// A part of the server panics, or an invariant does not hold: without a credential, a page of
/// another site has no session and publishes nothing; a client without a session is not sent more
/// than it sent; nothing is left when the connection is gone.
pub fn webtransport(bytes: &[u8]) {
    let Some((&options, input)) = bytes.split_first() else {
        return;
    };
    let runtime = runtime::Builder::new_current_thread().enable_all().build();
    let runtime = runtime.expect("a runtime");
    runtime.block_on(run(options, input));
}

async fn run(options: u8, input: &[u8]) {
    let scene = Scene::new(options);
    let mut client = HostileClient::connect(scene.quic.local_addr(), input).await;
    loop {
        scene.check(&client);
        if !client.step().await {
            break;
        }
    }
    scene.check(&client);
    let (received, sent) = client.bytes();
    if scene.quic.shared().counters().accepted() == 0 {
        let most = SENT_UNASKED_MAX + 3 * sent;
        assert!(received <= most, "{received} bytes for {sent}");
    }
    client.close().await;
    scene.end().await;
}

struct Scene {
    hub: Arc<Hub>,
    quic: Quic,
    auth: Auth,
    lists_site: bool,
    /// Held, because its drop stops the listener.
    _stop: watch::Sender<bool>,
}

impl Scene {
    fn new(options: u8) -> Self {
        let token = |bit: u8| {
            let is_set = options & bit != 0;
            is_set.then(|| Secret::new(TOKEN).expect("a token"))
        };
        let auth = Auth {
            publish_token: token(1),
            read_token: token(2),
            ..Auth::default()
        };
        let lists_site = options & 4 != 0;
        let origin = Origin::try_from(SITE.to_owned()).expect("an origin");
        let origins: &[Origin] = if lists_site { &[origin] } else { &[] };
        let sites = Arc::new(Sites::new(origins, &[]));
        let users = Arc::new(Users::new(&auth));
        let hub = Arc::new(Hub::new(Limits::default()));
        let config = config::Quic {
            address: Some(([127, 0, 0, 1], 0).into()),
            clients: 4,
            ..config::Quic::default()
        };
        let (stop, stopped) = watch::channel(false);
        let quic = SUPERVISOR.with(|supervisor| {
            let services = Services {
                hub: Arc::clone(&hub),
                users: Arc::clone(&users),
                sites,
                clock: Clock::start(),
                failures: Arc::default(),
                supervisor: Arc::clone(supervisor),
                cluster: None,
            };
            let source = CertificateSource::new(&config, None, None);
            Quic::start(&config, source, services, &stopped)
        });
        Self {
            hub,
            quic: quic.expect("a free port").expect("an address is given"),
            auth,
            lists_site,
            _stop: stop,
        }
    }

    fn check(&self, client: &HostileClient<'_>) {
        let sessions = self.quic.shared().sessions(Instant::now());
        assert!(sessions.len() <= 1, "one connection has {sessions:?}");
        assert!(self.quic.shared().taken() <= 1);
        assert!(self.hub.streams().len() <= STREAMS_MAX);
        let Some((session, request)) = sessions.first().zip(client.request()) else {
            return;
        };
        let shows_token = shows_token(request);
        let (publisher, reader) = (&self.auth.publish_token, &self.auth.read_token);
        let is_open = reader.is_none() || publisher.is_none();
        assert!(is_open || shows_token, "{request:?} has a session");
        let has_right = shows_token && (publisher.is_some() || reader.is_some());
        let Some(name) = foreign_name(request).filter(|_| !has_right) else {
            return;
        };
        let is_listed = self.lists_site && name == "site.example";
        assert!(is_listed, "{request:?} has a session");
        assert!(
            session.publishes.is_empty(),
            "a page of another site publishes {:?}",
            session.publishes
        );
    }

    /// Waits until nothing is left of the client.
    async fn end(self) {
        let began = Instant::now();
        let is_left = || {
            let mut streams = self.hub.streams().into_iter();
            let is_live = streams.any(|stream| matches!(stream.state(), State::Live { .. }));
            is_live || self.quic.shared().taken() > 0
        };
        while is_left() {
            assert!(
                began.elapsed() < END_TIMEOUT,
                "the session outlives its connection"
            );
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
    }
}

/// Returns whether a request may have shown the token, wherever in its URL.
fn shows_token(request: &SentRequest) -> bool {
    let url = format!("{}{}", request.authority, request.path);
    // What parsers of URLs leave out.
    let url = url.replace(['\t', '\n', '\r'], "");
    let pairs = url::form_urlencoded::parse(url.as_bytes());
    { pairs }.any(|(key, value)| key.contains(TOKEN) || value.contains(TOKEN))
}

/// Returns the name of the site that a request comes from, if that site is neither a program nor this
/// machine.
fn foreign_name(request: &SentRequest) -> Option<String> {
    let origin = url::Url::parse(request.origin.as_deref()?).ok()?;
    let name = origin.domain()?.trim_end_matches('.').to_owned();
    let is_here = name == "localhost" || name.ends_with(".localhost");
    (!is_here).then_some(name)
}
