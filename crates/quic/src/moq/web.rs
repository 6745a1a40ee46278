//! WebTransport over HTTP/3 (draft-ietf-webtrans-http3), as far as a browser needs it for MoQ:
//! one session per connection.
//!
//! ```text
//! SETTINGS on a control stream ─► CONNECT on a bidirectional one ─► 200
//! each later stream begins with its kind and the session's number
//! ```

use std::collections::VecDeque;
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use bytes::Bytes;
use parking_lot::Mutex;
use tokio::sync::Notify;
use tokio::task::{AbortHandle, JoinSet};
use web_transport_proto as proto;
use web_transport_proto::{ConnectRequest, ConnectResponse, Frame, StreamUni, VarInt};

use super::capsules::read_close;
use super::error::Error;

/// Time that a browser has from the handshake to its CONNECT.
const HANDSHAKE_TIMEOUT: Duration = Duration::from_secs(10);

/// ALPN protocol of HTTP/3 (RFC 9114 §3.1).
pub(super) const ALPN: &[u8] = b"h3";

/// The page of a browser that requests a WebTransport session, or a program that acts like one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Page {
    /// Value of `Origin`: scheme, host and port of the page; `None` for a program.
    pub origin: Option<String>,
    /// Host and port of the server that the request names.
    pub host: String,
}

/// Control streams, which must stay open as long as the HTTP/3 connection (RFC 9114 §6.2.1).
struct ControlStreams {
    _ours: noq::SendStream,
    _theirs: noq::RecvStream,
}

/// A WebTransport session that the peer has requested, and that is not answered yet.
pub(super) struct Request {
    connection: noq::Connection,
    control: ControlStreams,
    send: noq::SendStream,
    recv: noq::RecvStream,
    request: ConnectRequest,
}

impl Request {
    /// Waits for the peer's request.
    ///
    /// # Errors
    /// [`HandshakeError`] if the request is not WebTransport, or comes too late.
    pub(super) async fn accept(connection: noq::Connection) -> Result<Self, HandshakeError> {
        let asked = async {
            let control = exchange_settings(&connection).await?;
            let (send, mut recv) = connection.accept_bi().await?;
            let request = ConnectRequest::read(&mut recv).await?;
            Ok::<_, HandshakeError>((control, send, recv, request))
        };
        let (control, send, recv, request) = tokio::time::timeout(HANDSHAKE_TIMEOUT, asked)
            .await
            .map_err(|_| HandshakeError::Slow)??;
        Ok(Self {
            connection,
            control,
            send,
            recv,
            request,
        })
    }

    /// Returns path and query of the request's URL.
    pub(super) fn target(&self) -> String {
        let url = &self.request.url;
        match url.query() {
            Some(query) => format!("{}?{query}", url.path()),
            None => url.path().to_owned(),
        }
    }

    /// Returns the value of `Origin`, which browsers send with the page's site
    /// (draft-ietf-webtrans-http3 §3.3), and the host and port that the request names.
    pub(super) fn page(&self) -> Page {
        let origin = self.request.headers.get("origin");
        let origin = origin.map(|it| it.to_str().unwrap_or("?").to_owned());
        let url = &self.request.url;
        // Without a user's name, which has no place in a request (RFC 9114 §4.3.1) and may look like
        // a host.
        let host = url.host_str().unwrap_or_default();
        let host = match url.port() {
            Some(port) => format!("{host}:{port}"),
            None => host.to_owned(),
        };
        Page { origin, host }
    }

    /// Returns the protocols that the peer supports, the preferred one first.
    pub(super) fn protocols(&self) -> &[String] {
        &self.request.protocols
    }

    /// Accepts the request, for `protocol`.
    pub(super) async fn accept_with(mut self, protocol: &str) -> Result<Web, HandshakeError> {
        let response = ConnectResponse::OK.with_protocol(protocol);
        response.write(&mut self.send).await?;
        Web::start(&self.connection, self.control, self.send, self.recv)
    }

    /// Refuses the request with an HTTP status.
    pub(super) async fn refuse(mut self, status: u16) {
        let Ok(status) = proto::http::StatusCode::from_u16(status) else {
            return;
        };
        if ConnectResponse::new(status)
            .write(&mut self.send)
            .await
            .is_ok()
        {
            let _ = self.send.finish();
            let _ = tokio::time::timeout(HANDSHAKE_TIMEOUT, self.send.stopped()).await;
        }
    }
}

/// An established WebTransport session.
pub(super) struct Web {
    uni_header: Vec<u8>,
    bi_header: Vec<u8>,
    datagram_header: Vec<u8>,
    unis: Arc<Inbox<noq::RecvStream>>,
    bis: Arc<Inbox<(noq::SendStream, noq::RecvStream)>>,
    /// The stream on which the session is closed; `None` once it was.
    send: Mutex<Option<noq::SendStream>>,
    close_reason: Arc<OnceLock<(u32, String)>>,
    _control: ControlStreams,
    tasks: [AbortHandle; 3],
}

impl Web {
    /// Requests a session at `url`.
    ///
    /// # Errors
    /// [`HandshakeError`] if the server refuses, or does not support WebTransport.
    pub(super) async fn connect(
        connection: &noq::Connection,
        url: url::Url,
        protocols: impl IntoIterator<Item = String>,
    ) -> Result<(Self, String), HandshakeError> {
        let asked = async {
            let control = exchange_settings(connection).await?;
            let (mut send, mut recv) = connection.open_bi().await?;
            let request = ConnectRequest::new(url).with_protocols(protocols);
            request.write(&mut send).await?;
            let response = ConnectResponse::read(&mut recv).await?;
            Ok::<_, HandshakeError>((control, send, recv, request, response))
        };
        let (control, send, recv, request, response) =
            tokio::time::timeout(HANDSHAKE_TIMEOUT, asked)
                .await
                .map_err(|_| HandshakeError::Slow)??;
        if !response.status.is_success() {
            return Err(HandshakeError::Refused(response.status.as_u16()));
        }
        let offered = |protocol: &String| request.protocols.contains(protocol);
        let protocol = response.protocol.filter(offered);
        let protocol = protocol.ok_or(HandshakeError::NoProtocol)?;
        Ok((Self::start(connection, control, send, recv)?, protocol))
    }

    fn start(
        connection: &noq::Connection,
        control: ControlStreams,
        send: noq::SendStream,
        recv: noq::RecvStream,
    ) -> Result<Self, HandshakeError> {
        let number = noq::VarInt::from(send.id()).into_inner();
        let session = VarInt::from_u64(number).map_err(|_| HandshakeError::NoSession)?;
        let (mut uni_header, mut bi_header) = (Vec::new(), Vec::new());
        let mut datagram_header = Vec::new();
        StreamUni::WEBTRANSPORT.encode(&mut uni_header);
        session.encode(&mut uni_header);
        Frame::WEBTRANSPORT.encode(&mut bi_header);
        session.encode(&mut bi_header);
        session.encode(&mut datagram_header);
        let (unis, bis) = (Arc::<Inbox<_>>::default(), Arc::<Inbox<_>>::default());
        let close_reason = Arc::<OnceLock<_>>::default();
        let tasks = [
            tokio::spawn(sort_unis(connection.clone(), session, Arc::clone(&unis))),
            tokio::spawn(sort_bis(connection.clone(), session, Arc::clone(&bis))),
            tokio::spawn(receive_close(
                connection.clone(),
                recv,
                Arc::clone(&close_reason),
            )),
        ];
        Ok(Self {
            uni_header,
            bi_header,
            datagram_header,
            unis,
            bis,
            send: Mutex::new(Some(send)),
            close_reason,
            _control: control,
            tasks: tasks.map(|task| task.abort_handle()),
        })
    }

    pub(super) fn uni_header(&self) -> &[u8] {
        &self.uni_header
    }

    pub(super) fn bi_header(&self) -> &[u8] {
        &self.bi_header
    }

    pub(super) fn datagram_header(&self) -> &[u8] {
        &self.datagram_header
    }

    /// Returns the payload of a datagram, if it belongs to this session.
    pub(super) fn strip(&self, mut datagram: Bytes) -> Option<Bytes> {
        let is_ours = datagram.starts_with(&self.datagram_header);
        is_ours.then(|| datagram.split_off(self.datagram_header.len()))
    }

    pub(super) async fn accept_uni(
        &self,
        connection: &noq::Connection,
    ) -> Result<noq::RecvStream, Error> {
        self.unis.next(connection).await
    }

    pub(super) async fn accept_bi(
        &self,
        connection: &noq::Connection,
    ) -> Result<(noq::SendStream, noq::RecvStream), Error> {
        self.bis.next(connection).await
    }

    /// Returns code and reason with which the peer closed the session.
    pub(super) fn close_reason(&self) -> Option<(u32, String)> {
        self.close_reason.get().cloned()
    }

    /// Tells the peer that the session has ended, then closes the connection.
    pub(super) fn close(&self, connection: &noq::Connection, code: u32, reason: &str) {
        let send = self.send.lock().take();
        let Some(mut send) = send else { return };
        let (connection, reason) = (connection.clone(), reason.to_owned());
        tokio::spawn(async move {
            let capsule = proto::Capsule::CloseWebTransportSession {
                code,
                reason: reason.clone(),
            };
            let farewell = async {
                let mut bytes = Vec::new();
                capsule_frame(&capsule, &mut bytes);
                if send.write_all(&bytes).await.is_ok() && send.finish().is_ok() {
                    let _ = send.stopped().await;
                }
            };
            let _ = tokio::time::timeout(Duration::from_secs(1), farewell).await;
            let code = noq::VarInt::from_u64(proto::error_to_http3(code));
            connection.close(code.unwrap_or_default(), reason.as_bytes());
        });
    }
}

impl Drop for Web {
    fn drop(&mut self) {
        for task in &self.tasks {
            task.abort();
        }
    }
}

/// Writes a capsule as on the CONNECT stream: within a DATA frame (RFC 9297 §3.1).
fn capsule_frame(capsule: &proto::Capsule, out: &mut Vec<u8>) {
    let mut body = Vec::new();
    capsule.encode(&mut body);
    Frame::DATA.encode(out);
    VarInt::from_u32(u32::try_from(body.len()).unwrap_or(u32::MAX)).encode(out);
    out.extend_from_slice(&body);
}

/// Streams that wait to be accepted. QUIC's limit on streams bounds their number.
#[derive(Debug)]
struct Inbox<T> {
    waiting: Mutex<VecDeque<T>>,
    changed: Notify,
}

impl<T> Default for Inbox<T> {
    fn default() -> Self {
        Self {
            waiting: Mutex::default(),
            changed: Notify::new(),
        }
    }
}

impl<T> Inbox<T> {
    fn put(&self, stream: T) {
        self.waiting.lock().push_back(stream);
        self.changed.notify_waiters();
    }

    async fn next(&self, connection: &noq::Connection) -> Result<T, Error> {
        loop {
            // The notification is created first, so that no stream is missed in between.
            let changed = self.changed.notified();
            if let Some(stream) = self.waiting.lock().pop_front() {
                return Ok(stream);
            }
            tokio::select! {
                () = changed => {}
                error = connection.closed() => return Err(error.into()),
            }
        }
    }
}

async fn exchange_settings(connection: &noq::Connection) -> Result<ControlStreams, HandshakeError> {
    let mut ours = proto::Settings::default();
    ours.enable_webtransport(1);
    let mut send = connection.open_uni().await?;
    ours.write(&mut send).await?;
    let mut recv = connection.accept_uni().await?;
    let theirs = proto::Settings::read(&mut recv).await?;
    if theirs.supports_webtransport() == 0 {
        return Err(HandshakeError::NoWebTransport);
    }
    Ok(ControlStreams {
        _ours: send,
        _theirs: recv,
    })
}

/// Sorts the peer's unidirectional streams by their kind. The tasks that read the streams end with
/// this one.
async fn sort_unis(
    connection: noq::Connection,
    session: VarInt,
    unis: Arc<Inbox<noq::RecvStream>>,
) {
    let mut streams = JoinSet::new();
    loop {
        let stream = tokio::select! {
            stream = connection.accept_uni() => stream,
            Some(_) = streams.join_next() => continue,
        };
        let Ok(stream) = stream else { return };
        streams.spawn(sort_uni(stream, session, Arc::clone(&unis)));
    }
}

async fn sort_uni(mut stream: noq::RecvStream, session: VarInt, unis: Arc<Inbox<noq::RecvStream>>) {
    let Ok(kind) = VarInt::read(&mut stream).await else {
        return;
    };
    if StreamUni(kind) != StreamUni::WEBTRANSPORT {
        // QPACK's streams must not be stopped (RFC 9204 §4.2). Their contents do not matter, since
        // no dynamic table is allowed.
        let _ = tokio::io::copy(&mut stream, &mut tokio::io::sink()).await;
        return;
    }
    let belongs = VarInt::read(&mut stream).await;
    if belongs.is_ok_and(|it| it == session) {
        unis.put(stream);
    }
}

/// Sorts the peer's bidirectional streams. The tasks that read the streams end with this one.
async fn sort_bis(
    connection: noq::Connection,
    session: VarInt,
    bis: Arc<Inbox<(noq::SendStream, noq::RecvStream)>>,
) {
    let mut streams = JoinSet::new();
    loop {
        let stream = tokio::select! {
            stream = connection.accept_bi() => stream,
            Some(_) = streams.join_next() => continue,
        };
        let Ok((send, mut recv)) = stream else { return };
        let bis = Arc::clone(&bis);
        streams.spawn(async move {
            // Any other stream is a second request; it ends when its streams are dropped.
            let is_ours = VarInt::read(&mut recv)
                .await
                .is_ok_and(|kind| Frame(kind) == Frame::WEBTRANSPORT)
                && VarInt::read(&mut recv).await.is_ok_and(|it| it == session);
            if is_ours {
                bis.put((send, recv));
            }
        });
    }
}

/// Closes the connection when the peer closes the session.
async fn receive_close(
    connection: noq::Connection,
    recv: noq::RecvStream,
    close_reason: Arc<OnceLock<(u32, String)>>,
) {
    let close = read_close(recv).await;
    let (code, reason) = close.map_or_else(Default::default, |it| (it.code, it.reason));
    let wire = noq::VarInt::from_u64(proto::error_to_http3(code)).unwrap_or_default();
    let _ = close_reason.set((code, reason));
    connection.close(wire, b"");
}

/// The reason why no WebTransport session was established.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum HandshakeError {
    /// The connection ended before.
    #[error(transparent)]
    Connection(#[from] noq::ConnectionError),
    /// The HTTP/3 settings cannot be read.
    #[error("HTTP/3 settings: {0}")]
    Settings(#[from] proto::SettingsError),
    /// The CONNECT request or its response cannot be read or written.
    #[error("HTTP/3 CONNECT: {0}")]
    Connect(#[from] proto::ConnectError),
    /// The peer supports HTTP/3, but not WebTransport.
    #[error("the peer supports HTTP/3, but not WebTransport")]
    NoWebTransport,
    /// No protocol is supported by both ends.
    #[error("no version of MoQ is supported by both ends")]
    NoProtocol,
    /// The server answered with this HTTP status.
    #[error("the server answered HTTP status {0}")]
    Refused(u16),
    /// The peer did not answer in time.
    #[error("the peer did not answer within {} s", HANDSHAKE_TIMEOUT.as_secs())]
    Slow,
    /// The stream number is too high for a session.
    #[error("the stream number is too high for a session")]
    NoSession,
}
