//! One connection to one NATS server: requests with their answers, and why connecting failed.

use std::collections::HashMap;
use std::error::Error as StdError;
use std::fmt;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use async_nats::{Client, ConnectErrorKind, ConnectOptions, Event, HeaderMap, Message, ServerInfo};
use bytes::Bytes;
use futures_util::StreamExt;
use glassline_cluster::engine::STORE_TIMEOUT;
use parking_lot::Mutex;
use tokio::sync::{oneshot, watch};
use tokio::task::JoinHandle;

use crate::options::{Login, Options, ServerUrl};

/// Time for one server to accept the connection, TLS and login included.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(3);

/// Interval of pings on a silent connection: a server that stands still is given up after three.
const PING_INTERVAL: Duration = Duration::from_secs(2);

/// Largest file of credentials, certificates or a key.
const FILE_BYTES_MAX: u64 = 16 << 20;

/// Most messages of one subscription that its reader has not taken. Readers never wait.
const SUBSCRIPTION_MAX: usize = 4_096;

/// Most publications that wait for the socket: 2 MiB of the largest records.
const SENDING_MAX: usize = 512;

const SLOW: &str = "messages came faster than this machine reads them, and some were dropped: give \
     it more processor time, or the region fewer nodes";

/// The reason why connecting to a server failed, and what to do. [`fmt::Display`] writes both.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ConnectFailure {
    /// Address of the server.
    pub server: String,
    /// Step of connecting that failed.
    pub kind: FailureKind,
    /// The words of the system or the server.
    pub detail: String,
}

/// The step that failed when a node connected to a NATS server.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum FailureKind {
    /// Nothing listens, or the network drops packets.
    Unreachable,
    /// The name has no address.
    Name,
    /// The server took the connection and did not answer in time.
    Silent,
    /// The server refused the login.
    Login,
    /// A file for the login or for TLS cannot be read.
    File,
    /// The server's certificate is not accepted, or the server speaks no TLS.
    Tls,
    /// The server accepts no client without a certificate of its authority.
    ClientCertificate,
    /// JetStream is off, or the buckets cannot be made.
    Buckets,
}

impl ConnectFailure {
    /// Returns what to do about the failure.
    pub fn remedy(&self) -> &'static str {
        match self.kind {
            FailureKind::Unreachable => "see whether nats-server runs there",
            FailureKind::Name => "correct the name, or see whether DNS answers",
            FailureKind::Silent => "see whether the port is one of NATS for clients (4222)",
            FailureKind::Login => {
                "correct the credentials, which must be of the account for glassline's nodes"
            }
            FailureKind::File => "correct the path or the file",
            FailureKind::Tls => {
                "set `ca` to the authority of the servers, and use a name that the certificate has"
            }
            FailureKind::ClientCertificate => {
                "set `certificate` and `key` to a certificate of the servers' authority"
            }
            FailureKind::Buckets => "see `docs/guides/nats.md` for the settings of NATS",
        }
    }
}

impl fmt::Display for ConnectFailure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { server, detail, .. } = self;
        write!(f, "{server}: {detail}; {}", self.remedy())
    }
}

/// The reason why a request has no answer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum NoAnswer {
    /// The request did not leave.
    NotSent,
    /// No program listens on the subject.
    NobodyListens,
    /// The request left, and nothing came back in time.
    Silence,
}

/// A connection. Requests under way end with [`NoAnswer::Silence`] when it is lost or dropped.
#[derive(Debug)]
pub(crate) struct Connection {
    pub(crate) client: Client,
    pub(crate) info: ServerInfo,
    inbox: String,
    pending: Arc<Pending>,
    lost: watch::Receiver<bool>,
    reader: JoinHandle<()>,
}

impl Drop for Connection {
    fn drop(&mut self) {
        self.reader.abort();
        self.pending.clear();
    }
}

impl Connection {
    /// Connects to `server`. `complaint` is called with each trouble later on, such as a
    /// missing right.
    pub(crate) async fn open(
        options: &Options,
        server: &ServerUrl,
        complaint: impl Fn(String) + Send + Sync + 'static,
    ) -> Result<Self, ConnectFailure> {
        let failed = |kind, detail: String| ConnectFailure {
            server: server.to_string(),
            kind,
            detail,
        };
        let (lose, lost) = watch::channel(false);
        let lose = Arc::new(lose);
        let (at_event, complaint) = (Arc::clone(&lose), Arc::new(complaint));
        let connecting = client_options(options, server)
            .await
            .map_err(|detail| failed(FailureKind::File, detail))?
            .event_callback(move |event| {
                match event {
                    Event::Disconnected | Event::Closed => {
                        at_event.send_replace(true);
                    }
                    Event::ServerError(error) => complaint(format!(
                        "{}; see the rights that docs/guides/nats.md names",
                        generalised(&error.to_string())
                    )),
                    Event::SlowConsumer(_) => complaint(SLOW.to_owned()),
                    _ => {}
                }
                std::future::ready(())
            });
        let client = connecting.connect(server.as_str()).await;
        let client = client.map_err(|error| {
            let (kind, detail) = explain(&error);
            failed(kind, detail)
        })?;
        let inbox = client.new_inbox();
        let replies = client.subscribe(format!("{inbox}.*")).await;
        let mut replies =
            replies.map_err(|error| failed(FailureKind::Unreachable, error.to_string()))?;
        let pending = Arc::new(Pending::default());
        let taken = Arc::clone(&pending);
        let reader = tokio::spawn(async move {
            while let Some(message) = replies.next().await {
                taken.settle(message);
            }
            taken.clear();
            lose.send_replace(true);
        });
        Ok(Self {
            info: client.server_info(),
            client,
            inbox,
            pending,
            lost,
            reader,
        })
    }

    /// Waits until the connection is lost.
    pub(crate) async fn lost(&self) {
        let mut lost = self.lost.clone();
        // An error means that the sender is gone, and with it the connection.
        let _ = lost.wait_for(|is_lost| *is_lost).await;
        self.pending.clear();
    }

    /// Waits until the server has handled everything that was sent before, subscriptions above all: a
    /// message to oneself comes back. A flush of the client ends when the socket has the bytes.
    pub(crate) async fn round_trip(&self) -> Result<(), NoAnswer> {
        let (waiting, answer) = self.pending.add();
        let subject = format!("{}.{}", self.inbox, waiting.number);
        let trip = async {
            let published = self.client.publish(subject, Bytes::new()).await;
            published.map_err(|_| NoAnswer::NotSent)?;
            answer.await.map(drop).map_err(|_| NoAnswer::Silence)
        };
        let trip = tokio::time::timeout(STORE_TIMEOUT, trip).await;
        trip.unwrap_or(Err(NoAnswer::Silence))
    }

    /// Publishes a request and waits at most `within` for the answer.
    pub(crate) async fn request(
        &self,
        subject: String,
        headers: HeaderMap,
        payload: Bytes,
        within: Duration,
    ) -> Result<Message, NoAnswer> {
        if *self.lost.borrow() {
            return Err(NoAnswer::NotSent);
        }
        let (waiting, answer) = self.pending.add();
        let reply = format!("{}.{}", self.inbox, waiting.number);
        let deadline = tokio::time::Instant::now() + within;
        let publishing = async {
            match headers.is_empty() {
                true => {
                    self.client
                        .publish_with_reply(subject, reply, payload)
                        .await
                }
                false => {
                    let client = &self.client;
                    client
                        .publish_with_reply_and_headers(subject, reply, headers, payload)
                        .await
                }
            }
        };
        match tokio::time::timeout_at(deadline, publishing).await {
            Ok(Ok(())) => {}
            Ok(Err(_)) | Err(_) => return Err(NoAnswer::NotSent),
        }
        match tokio::time::timeout_at(deadline, answer).await {
            Ok(Ok(message)) => match message.status.map(|status| status.as_u16()) {
                Some(503) => Err(NoAnswer::NobodyListens),
                _ => Ok(message),
            },
            Ok(Err(_)) | Err(_) => Err(NoAnswer::Silence),
        }
    }
}

/// Requests that wait for their answers.
#[derive(Debug, Default)]
struct Pending {
    next: AtomicU64,
    waiting: Mutex<HashMap<u64, oneshot::Sender<Message>>>,
}

/// A request that waits; dropping it gives its place back.
struct WaitingRequest<'a> {
    pending: &'a Pending,
    number: u64,
}

impl Drop for WaitingRequest<'_> {
    fn drop(&mut self) {
        self.pending.with(|waiting| {
            waiting.remove(&self.number);
        });
    }
}

impl Pending {
    fn with<T>(&self, work: impl FnOnce(&mut HashMap<u64, oneshot::Sender<Message>>) -> T) -> T {
        work(&mut self.waiting.lock())
    }

    fn add(&self) -> (WaitingRequest<'_>, oneshot::Receiver<Message>) {
        let number = self.next.fetch_add(1, Ordering::Relaxed);
        let (sender, receiver) = oneshot::channel();
        self.with(|waiting| waiting.insert(number, sender));
        let pending = self;
        (WaitingRequest { pending, number }, receiver)
    }

    fn settle(&self, message: Message) {
        let number = message.subject.rsplit('.').next();
        let number = number.and_then(|text| text.parse().ok());
        let sender = number.and_then(|number: u64| self.with(|waiting| waiting.remove(&number)));
        if let Some(sender) = sender {
            // The request may have been given up meanwhile.
            let _ = sender.send(message);
        }
    }

    /// Gives up all requests.
    fn clear(&self) {
        self.with(HashMap::clear);
    }
}

/// Shortens the subject that an error of the server quotes to its first two tokens: one missing right
/// is one complaint, whatever streams and answers it concerns.
fn generalised(error: &str) -> String {
    let mut parts = error.splitn(3, '"');
    let (Some(before), Some(subject), Some(after)) = (parts.next(), parts.next(), parts.next())
    else {
        return error.to_owned();
    };
    let tokens: Vec<&str> = subject.splitn(3, '.').take(2).collect();
    format!("{before}\"{}.>\"{after}", tokens.join("."))
}

/// Settings of the client; the text of an error names the file.
async fn client_options(options: &Options, server: &ServerUrl) -> Result<ConnectOptions, String> {
    let name = format!("glassline {}", options.node);
    let mut client = ConnectOptions::new()
        .name(name)
        .connection_timeout(CONNECT_TIMEOUT)
        .ping_interval(PING_INTERVAL)
        .subscription_capacity(SUBSCRIPTION_MAX)
        .client_capacity(SENDING_MAX)
        // The next connection is a new client: what this one holds is not sent late.
        .max_reconnects(1)
        .ignore_discovered_servers();
    client = match &options.login {
        Login::Anonymous => client,
        Login::Token(token) => client.token(token.clone()),
        Login::User { name, password } => client.user_and_password(name.clone(), password.clone()),
        Login::Nkey(seed) => client.nkey(seed.clone()),
        Login::Credentials(path) => {
            check_file(path).await?;
            let read = client.credentials_file(path).await;
            read.map_err(|error| format!("cannot read {}: {error}", path.display()))?
        }
    };
    if let Some(tls) = &options.tls {
        client = client.require_tls(true);
        let files = tls.identity.iter().flat_map(|(one, other)| [one, other]);
        for file in tls.ca.iter().chain(files) {
            check_file(file).await?;
        }
        if let Some(ca) = &tls.ca {
            client = client.add_root_certificates(ca.clone());
        }
        if let Some((certificate, key)) = &tls.identity {
            client = client.add_client_certificate(certificate.clone(), key.clone());
        }
    }
    Ok(client.require_tls(options.tls.is_some() || server.is_tls()))
}

/// Checks that what the client is to read is a file of a reasonable size: the client would wait for the
/// writer of a pipe, and read a device without an end.
async fn check_file(path: &Path) -> Result<(), String> {
    let failed = |why: &dyn fmt::Display| format!("cannot read {}: {why}", path.display());
    let metadata = tokio::fs::metadata(path).await;
    let metadata = metadata.map_err(|error| failed(&error))?;
    if !metadata.is_file() {
        return Err(failed(&"it is no regular file"));
    }
    match metadata.len() > FILE_BYTES_MAX {
        true => Err(failed(&format_args!(
            "it has more than {FILE_BYTES_MAX} bytes"
        ))),
        false => Ok(()),
    }
}

/// Returns what failed, and what the system or the server said of it.
fn explain(error: &async_nats::ConnectError) -> (FailureKind, String) {
    if let Some(tls) = cause::<rustls::Error>(error) {
        return of_tls(tls);
    }
    let said = last_cause(error);
    match error.kind() {
        ConnectErrorKind::AuthorizationViolation => (
            FailureKind::Login,
            "the server refuses the login".to_owned(),
        ),
        ConnectErrorKind::Authentication => (
            FailureKind::Login,
            format!("the key cannot sign the server's challenge: {said}"),
        ),
        ConnectErrorKind::Dns | ConnectErrorKind::ServerParse => {
            (FailureKind::Name, format!("no address is known: {said}"))
        }
        ConnectErrorKind::TimedOut => (
            FailureKind::Silent,
            format!("no answer within {} s", CONNECT_TIMEOUT.as_secs()),
        ),
        ConnectErrorKind::Tls => (FailureKind::Tls, format!("TLS: {said}")),
        _ if said.contains("Authorization") || said.contains("Authentication") => (
            FailureKind::Login,
            format!("the server refuses the login: {said}"),
        ),
        _ => (FailureKind::Unreachable, said),
    }
}

fn of_tls(error: &rustls::Error) -> (FailureKind, String) {
    use rustls::AlertDescription as Alert;
    match error {
        rustls::Error::AlertReceived(
            Alert::CertificateRequired | Alert::BadCertificate | Alert::UnknownCA,
        ) => (
            FailureKind::ClientCertificate,
            "the server does not accept this node's certificate, or wants one".to_owned(),
        ),
        rustls::Error::InvalidMessage(_) => {
            (FailureKind::Tls, "the server speaks no TLS here".to_owned())
        }
        other => (FailureKind::Tls, format!("TLS: {other}")),
    }
}

/// The first error of type `T` among the causes. An error of input and output hides the error within
/// it from `source`.
fn cause<'a, T: StdError + 'static>(error: &'a (dyn StdError + 'static)) -> Option<&'a T> {
    let mut next = Some(error);
    while let Some(error) = next {
        if let Some(found) = error.downcast_ref::<T>() {
            return Some(found);
        }
        let inner = error.downcast_ref::<std::io::Error>();
        next = match inner.and_then(std::io::Error::get_ref) {
            Some(inner) => Some(inner),
            None => error.source(),
        };
    }
    None
}

fn last_cause(error: &(dyn StdError + 'static)) -> String {
    let mut last = error;
    while let Some(source) = last.source() {
        last = source;
    }
    last.to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_failure_names_server_cause_and_remedy() {
        let failure = ConnectFailure {
            server: "nats://a:4222".to_owned(),
            kind: FailureKind::Login,
            detail: "the server refuses the login".to_owned(),
        };
        let text = failure.to_string();
        assert!(
            text.starts_with("nats://a:4222: the server refuses"),
            "{text}"
        );
        assert!(text.contains("correct the credentials"), "{text}");
    }

    #[test]
    fn a_missing_right_is_one_complaint_for_all_streams() {
        let of = |subject: &str| {
            generalised(&format!(
                "Permissions Violation for Publish to \"{subject}\""
            ))
        };
        let wanted = "Permissions Violation for Publish to \"$KV.glassline_streams.>\"";
        assert_eq!(of("$KV.glassline_streams.s.a"), wanted);
        assert_eq!(of("$KV.glassline_streams.s.b=2E"), wanted);
        assert!(of("a").ends_with("\"a.>\""));
        assert_eq!(generalised("stale connection"), "stale connection");
        assert_eq!(generalised("half \"a"), "half \"a");
    }

    #[test]
    fn an_error_of_tls_is_found_within_one_of_input_and_output() {
        let tls = rustls::Error::AlertReceived(rustls::AlertDescription::CertificateRequired);
        let error = async_nats::ConnectError::from(std::io::Error::other(tls));
        assert_eq!(explain(&error).0, FailureKind::ClientCertificate);
        let refused = std::io::Error::from(std::io::ErrorKind::ConnectionRefused);
        let error = async_nats::ConnectError::from(refused);
        assert_eq!(explain(&error).0, FailureKind::Unreachable);
    }

    #[test]
    fn requests_that_are_given_up_leave_nothing() {
        let pending = Pending::default();
        let (request, _answer) = pending.add();
        assert_eq!(pending.with(|waiting| waiting.len()), 1);
        drop(request);
        assert_eq!(pending.with(|waiting| waiting.len()), 0);
    }
}
