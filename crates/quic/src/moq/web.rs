//! WebTransport over HTTP/3 on a connection of ours (draft-ietf-webtrans-http3), as far
//! as a browser that speaks MoQ needs it: one session a connection.
//!
//! ```text
//! SETTINGS on a control stream ─► CONNECT on a bidirectional one ─► 200
//! each later stream begins with its kind and the session's number
//! ```

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::Duration;

use bytes::Bytes;
use tokio::sync::Notify;
use tokio::task::AbortHandle;
use web_transport_proto as proto;
use web_transport_proto::{ConnectRequest, ConnectResponse, Frame, StreamUni, VarInt};

use super::error::Error;

/// How long a browser may take from the handshake to its CONNECT.
const PATIENCE: Duration = Duration::from_secs(10);

/// The word in TLS for HTTP/3 (RFC 9114 §3.1).
pub(super) const ALPN: &[u8] = b"h3";

/// A session that the peer asked for and that is not answered yet.
pub(super) struct Request {
    connection: noq::Connection,
    control: (noq::SendStream, noq::RecvStream),
    send: noq::SendStream,
    recv: noq::RecvStream,
    request: ConnectRequest,
}

impl Request {
    /// Waits for it.
    ///
    /// # Errors
    /// Whatever is no WebTransport, or too slow.
    pub(super) async fn accept(connection: noq::Connection) -> Result<Self, HandshakeError> {
        let asked = async {
            let control = exchange_settings(&connection).await?;
            let (send, mut recv) = connection.accept_bi().await?;
            let request = ConnectRequest::read(&mut recv).await?;
            Ok::<_, HandshakeError>((control, send, recv, request))
        };
        let (control, send, recv, request) = tokio::time::timeout(PATIENCE, asked)
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

    /// Path and query of its URL.
    pub(super) fn target(&self) -> String {
        let url = &self.request.url;
        match url.query() {
            Some(query) => format!("{}?{query}", url.path()),
            None => url.path().to_owned(),
        }
    }

    /// The protocols that it speaks, dearest first.
    pub(super) fn protocols(&self) -> &[String] {
        &self.request.protocols
    }

    /// Grants it, for `protocol`.
    pub(super) async fn accept_with(mut self, protocol: &str) -> Result<Web, HandshakeError> {
        let response = ConnectResponse::OK.with_protocol(protocol);
        response.write(&mut self.send).await?;
        Web::start(&self.connection, self.control, self.send, self.recv)
    }

    /// Answers with an HTTP status that is no success.
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
            let _ = tokio::time::timeout(PATIENCE, self.send.stopped()).await;
        }
    }
}

/// A session that was granted.
pub(super) struct Web {
    uni_header: Vec<u8>,
    bi_header: Vec<u8>,
    datagram_header: Vec<u8>,
    unis: Arc<Inbox<noq::RecvStream>>,
    bis: Arc<Inbox<(noq::SendStream, noq::RecvStream)>>,
    /// Where the session is closed from; taken by whoever does.
    send: Mutex<Option<noq::SendStream>>,
    told: Arc<OnceLock<(u32, String)>>,
    /// HTTP/3 ends with its control streams (RFC 9114 §6.2.1).
    _control: (noq::SendStream, noq::RecvStream),
    tasks: [AbortHandle; 3],
}

impl Web {
    /// Asks for a session at `url`.
    ///
    /// # Errors
    /// What the server says, or that it is no such server.
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
        let (control, send, recv, request, response) = tokio::time::timeout(PATIENCE, asked)
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
        control: (noq::SendStream, noq::RecvStream),
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
        let told = Arc::<OnceLock<_>>::default();
        let tasks = [
            tokio::spawn(sort_unis(connection.clone(), session, Arc::clone(&unis))),
            tokio::spawn(sort_bis(connection.clone(), session, Arc::clone(&bis))),
            tokio::spawn(heed_close(connection.clone(), recv, Arc::clone(&told))),
        ];
        Ok(Self {
            uni_header,
            bi_header,
            datagram_header,
            unis,
            bis,
            send: Mutex::new(Some(send)),
            told,
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

    /// The payload of a datagram of this session.
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

    /// How the peer said that it closed the session.
    pub(super) fn told(&self) -> Option<(u32, String)> {
        self.told.get().cloned()
    }

    /// Says that the session is over, then ends the connection.
    pub(super) fn close(&self, connection: &noq::Connection, code: u32, reason: &str) {
        let send = self
            .send
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .take();
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

/// A capsule as it stands on the CONNECT stream: within a DATA frame (RFC 9297 §3.1).
fn capsule_frame(capsule: &proto::Capsule, out: &mut Vec<u8>) {
    let mut body = Vec::new();
    capsule.encode(&mut body);
    Frame::DATA.encode(out);
    VarInt::from_u32(u32::try_from(body.len()).unwrap_or(u32::MAX)).encode(out);
    out.extend_from_slice(&body);
}

/// Streams that wait to be taken; QUIC's limit on streams bounds them.
#[derive(Debug)]
struct Inbox<T> {
    waiting: Mutex<VecDeque<T>>,
    news: Notify,
}

impl<T> Default for Inbox<T> {
    fn default() -> Self {
        Self {
            waiting: Mutex::default(),
            news: Notify::new(),
        }
    }
}

impl<T> Inbox<T> {
    fn lock(&self) -> MutexGuard<'_, VecDeque<T>> {
        self.waiting.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn put(&self, stream: T) {
        self.lock().push_back(stream);
        self.news.notify_waiters();
    }

    async fn next(&self, connection: &noq::Connection) -> Result<T, Error> {
        loop {
            // Before the look, so that nothing put in between is missed.
            let news = self.news.notified();
            if let Some(stream) = self.lock().pop_front() {
                return Ok(stream);
            }
            tokio::select! {
                () = news => {}
                error = connection.closed() => return Err(error.into()),
            }
        }
    }
}

async fn exchange_settings(
    connection: &noq::Connection,
) -> Result<(noq::SendStream, noq::RecvStream), HandshakeError> {
    let mut ours = proto::Settings::default();
    ours.enable_webtransport(1);
    let mut send = connection.open_uni().await?;
    ours.write(&mut send).await?;
    let mut recv = connection.accept_uni().await?;
    let theirs = proto::Settings::read(&mut recv).await?;
    if theirs.supports_webtransport() == 0 {
        return Err(HandshakeError::NoWebTransport);
    }
    Ok((send, recv))
}

async fn sort_unis(
    connection: noq::Connection,
    session: VarInt,
    unis: Arc<Inbox<noq::RecvStream>>,
) {
    while let Ok(mut stream) = connection.accept_uni().await {
        let unis = Arc::clone(&unis);
        tokio::spawn(async move {
            let Ok(kind) = VarInt::read(&mut stream).await else {
                return;
            };
            if StreamUni(kind) != StreamUni::WEBTRANSPORT {
                // QPACK's streams must not be stopped (RFC 9204 §4.2), and nothing in
                // them is of interest: no dynamic table was allowed.
                let _ = tokio::io::copy(&mut stream, &mut tokio::io::sink()).await;
                return;
            }
            if VarInt::read(&mut stream)
                .await
                .is_ok_and(|it| it == session)
            {
                unis.put(stream);
            }
        });
    }
}

async fn sort_bis(
    connection: noq::Connection,
    session: VarInt,
    bis: Arc<Inbox<(noq::SendStream, noq::RecvStream)>>,
) {
    while let Ok((send, mut recv)) = connection.accept_bi().await {
        let bis = Arc::clone(&bis);
        tokio::spawn(async move {
            // Anything else is a second request, which falls with its streams.
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

/// Ends the connection when the peer ends the session.
async fn heed_close(
    connection: noq::Connection,
    recv: noq::RecvStream,
    told: Arc<OnceLock<(u32, String)>>,
) {
    let mut capsules = proto::Http3CapsuleReader::new(recv);
    let (code, reason) = loop {
        match capsules.read().await {
            Ok(Some(proto::Capsule::CloseWebTransportSession { code, reason })) => {
                break (code, reason);
            }
            Ok(Some(_)) => {}
            Ok(None) | Err(_) => break (0, String::new()),
        }
    };
    let wire = noq::VarInt::from_u64(proto::error_to_http3(code)).unwrap_or_default();
    let _ = told.set((code, reason));
    connection.close(wire, b"");
}

/// Why there is no WebTransport session.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum HandshakeError {
    /// It ended before.
    #[error(transparent)]
    Connection(#[from] noq::ConnectionError),
    /// HTTP/3 settings that cannot be read.
    #[error("HTTP/3 settings: {0}")]
    Settings(#[from] proto::SettingsError),
    /// A CONNECT that cannot be read or written.
    #[error("HTTP/3 CONNECT: {0}")]
    Connect(#[from] proto::ConnectError),
    /// HTTP/3 without it.
    #[error("the other end speaks HTTP/3 without WebTransport")]
    NoWebTransport,
    /// Nothing that both ends speak.
    #[error("no version of MoQ that both ends speak")]
    NoProtocol,
    /// The server said no.
    #[error("the server answered {0}")]
    Refused(u16),
    /// It kept us waiting.
    #[error("no request within {} s", PATIENCE.as_secs())]
    Slow,
    /// A stream number beyond what a session can have.
    #[error("no number for the session")]
    NoSession,
}
