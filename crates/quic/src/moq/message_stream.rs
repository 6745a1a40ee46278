//! QUIC streams beside MoQ that carry the messages beside a stream of media, between servers of one
//! cluster.
//!
//! ```text
//! edge                                                       server that has the stream, or pulls it
//! MessageOpener::open ─ bidirectional stream: type, version, name ─► MessageRequests ─ accept
//!   MessageSender ─────────────── records ─────────────────────────► MessageReceiver
//!   MessageReceiver ◄──────────── records ────────────────────────── MessageSender
//! ```
//!
//! MoQ's tracks begin with what was sent last and leave groups out that are late. Messages begin with
//! the moment of the request, and the sender alone decides which ones are left out. A stream is
//! opened by the server that pulls, with the first viewer that can get messages, so that a pull without
//! such viewers has no such stream.
//!
//! A server takes such streams from servers of its cluster only. The type is a number that no request
//! of MoQ has. This file knows nothing of the records.

use std::sync::OnceLock;
use std::time::{Duration, Instant};

use bytes::Bytes;
use parking_lot::Mutex;
use tokio::sync::mpsc;

use super::request_stream::{self, RequestStream, RequestStreams};
use super::urgency::Urgency;

/// Version of the streams and of the records on them, which the catalog states.
pub const MESSAGES_VERSION: u8 = 1;

/// First bytes of a stream of messages; the version follows. MoQ would read them as the number of a
/// request (a variable-length integer of eight bytes, RFC 9000 §16) that does not exist.
const TYPE: [u8; 7] = *b"\xffmessag";

/// Longest name of a stream of media, in bytes.
const NAME_BYTES_MAX: usize = 1024;

/// Time that a server has for the name of the stream of media after it opened a stream of messages.
const OPENING_MAX: Duration = Duration::from_secs(3);

/// Most requests that wait for this server.
const WAITING: usize = 64;

/// Priorities of messages among the streams of a connection: before all media, and behind. Those of
/// MoQ are 0 to 255.
const BEFORE_MEDIA: i32 = 256;
const BEHIND_MEDIA: i32 = -1;

/// The reason why no messages pass, or no more.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum MessageStreamError {
    /// The other server refuses.
    #[error(transparent)]
    Refused(#[from] MessageRefusal),
    /// The other server ended the stream, or the session is over.
    #[error("the other server ended the messages")]
    Ended,
}

/// The reason why a server passes no messages of a stream.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum MessageRefusal {
    /// There is no such stream.
    #[error("the server has no such stream")]
    NotFound,
    /// Data channels are turned off there.
    #[error("data channels are turned off there (webrtc.data.viewers)")]
    Off,
    /// The server knows another version of the records.
    #[error("the server knows another version of messages: use servers of one version")]
    Version,
    /// The record that was sent is invalid.
    #[error("the server cannot read the messages that were sent")]
    Invalid,
}

impl MessageRefusal {
    const ALL: [Self; 4] = [Self::NotFound, Self::Off, Self::Version, Self::Invalid];

    const fn code(self) -> u32 {
        match self {
            Self::NotFound => 1,
            Self::Off => 2,
            Self::Version => 3,
            Self::Invalid => 4,
        }
    }

    fn of(code: noq::VarInt) -> MessageStreamError {
        let meant = |it: &Self| u64::from(it.code()) == code.into_inner();
        let found = Self::ALL.into_iter().find(meant);
        found.map_or(MessageStreamError::Ended, MessageStreamError::Refused)
    }
}

/// The streams beside MoQ that the peer of a connection opens: of messages, and of requests of HTTP.
#[derive(Debug, Default)]
pub(super) struct StreamsBesideMoq(OnceLock<Takers>);

/// The queues of streams that carry no MoQ, for messages and for requests.
#[derive(Clone, Debug)]
struct Takers {
    messages: mpsc::Sender<MessageRequest>,
    requests: mpsc::Sender<RequestStream>,
}

impl StreamsBesideMoq {
    /// Begins to take streams beside MoQ, because the peer is a server of the same cluster.
    pub(super) fn listen(&self) -> (MessageRequests, RequestStreams) {
        let (messages, of_messages) = mpsc::channel(WAITING);
        let (requests, of_requests) = mpsc::channel(request_stream::WAITING);
        let _ = self.0.set(Takers { messages, requests });
        (MessageRequests(of_messages), RequestStreams(of_requests))
    }

    /// Takes a stream that the peer opened, if it is one beside MoQ; otherwise returns the stream with
    /// the byte that was read. Returns `None` for a stream that ended before its first byte, too.
    pub(super) async fn take(
        &self,
        send: noq::SendStream,
        mut receive: noq::RecvStream,
    ) -> Option<AcceptedStream> {
        let Some(to) = self.0.get() else {
            return Some(AcceptedStream {
                send,
                receive,
                first: None,
            });
        };
        let mut first = [0; 1];
        receive.read_exact(&mut first).await.ok()?;
        if first[0] != TYPE[0] {
            return Some(AcceptedStream {
                send,
                receive,
                first: Some(first[0]),
            });
        }
        let to = to.clone();
        // The header may come later, and other streams must not wait for it.
        tokio::spawn(async move {
            let _ = tokio::time::timeout(OPENING_MAX, to.take(send, receive)).await;
        });
        None
    }
}

/// A bidirectional stream of MoQ that the peer opened.
pub(super) struct AcceptedStream {
    pub(super) send: noq::SendStream,
    pub(super) receive: noq::RecvStream,
    /// First byte of `receive`, if it was read.
    pub(super) first: Option<u8>,
}

impl Takers {
    /// Hands a stream on whose first byte was read. `None` if nobody takes it: it has another header, or
    /// the session is over.
    async fn take(self, send: noq::SendStream, mut receive: noq::RecvStream) -> Option<()> {
        let mut rest = [0; TYPE.len() - 1 + 1];
        receive.read_exact(&mut rest).await.ok()?;
        let [kind @ .., version] = rest;
        if kind == request_stream::TYPE[1..] && version == request_stream::VERSION {
            let stream = RequestStream::new(send, receive);
            return self.requests.send(stream).await.ok();
        }
        if kind != TYPE[1..] {
            return None;
        }
        let request = MessageStream::new(send, receive).requested(version).await?;
        self.messages.send(request).await.ok()
    }
}

/// Requests of another server for messages.
#[derive(derive_more::Debug)]
#[debug("MessageRequests {{ .. }}")]
pub struct MessageRequests(mpsc::Receiver<MessageRequest>);

impl MessageRequests {
    /// Returns the next request; `None` once the session is over.
    pub async fn next(&mut self) -> Option<MessageRequest> {
        self.0.recv().await
    }
}

/// Another server's request for the messages of a stream. The request is refused when this value is
/// dropped.
#[derive(derive_more::Debug)]
#[debug("MessageRequest {{ name: {name:?}, .. }}")]
pub struct MessageRequest {
    name: String,
    stream: MessageStream,
}

impl MessageRequest {
    /// Returns the name of the stream of media.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Begins to exchange records.
    pub fn accept(self) -> (MessageSender, MessageReceiver) {
        self.stream.split()
    }

    /// Refuses the request.
    pub fn refuse(self, why: MessageRefusal) {
        self.stream.refuse(why);
    }
}

/// Returns the header of a stream of messages beside the stream `name`.
pub(super) fn header(name: &str) -> Bytes {
    let length = u16::try_from(name.len()).unwrap_or(u16::MAX);
    let mut header = TYPE.to_vec();
    header.push(MESSAGES_VERSION);
    header.extend_from_slice(&length.to_be_bytes());
    header.extend_from_slice(name.as_bytes());
    header.into()
}

/// Both directions of a stream of messages.
pub(super) struct MessageStream {
    send: noq::SendStream,
    receive: noq::RecvStream,
}

impl MessageStream {
    pub(super) fn new(send: noq::SendStream, receive: noq::RecvStream) -> Self {
        let _ = send.set_priority(BEFORE_MEDIA);
        Self { send, receive }
    }

    pub(super) fn split(self) -> (MessageSender, MessageReceiver) {
        let sender = MessageSender {
            stream: self.send,
            urgency: Urgency::new(Instant::now()),
        };
        (sender, MessageReceiver(self.receive))
    }

    fn refuse(mut self, why: MessageRefusal) {
        let _ = self.send.reset(why.code().into());
        let _ = self.receive.stop(why.code().into());
    }

    /// Reads the rest of the header behind its version. Returns `None` if there is no such header.
    async fn requested(mut self, version: u8) -> Option<MessageRequest> {
        if version != MESSAGES_VERSION {
            self.refuse(MessageRefusal::Version);
            return None;
        }
        let mut length = [0; 2];
        self.receive.read_exact(&mut length).await.ok()?;
        let length = usize::from(u16::from_be_bytes(length));
        if length > NAME_BYTES_MAX {
            self.refuse(MessageRefusal::NotFound);
            return None;
        }
        let mut name = vec![0; length];
        self.receive.read_exact(&mut name).await.ok()?;
        match String::from_utf8(name) {
            Ok(name) => Some(MessageRequest { name, stream: self }),
            Err(_) => {
                self.refuse(MessageRefusal::NotFound);
                None
            }
        }
    }
}

/// Sends records to another server. The stream is finished when this value is dropped.
#[derive(Debug)]
pub struct MessageSender {
    stream: noq::SendStream,
    urgency: Urgency,
}

impl MessageSender {
    /// Writes the bytes of `pieces` in order, as soon as the other server takes them. Small messages go
    /// before the media of the connection, bulk behind.
    ///
    /// # Errors
    /// [`MessageStreamError`] if the other server refuses the stream or has ended it.
    pub async fn write(&mut self, pieces: &mut [Bytes]) -> Result<(), MessageStreamError> {
        let bytes = pieces.iter().map(Bytes::len).sum();
        if let Some(is_urgent) = self.urgency.count(bytes, Instant::now()) {
            // The priority is that of all bytes of the stream that wait, so their order stays.
            let priority = if is_urgent {
                BEFORE_MEDIA
            } else {
                BEHIND_MEDIA
            };
            let _ = self.stream.set_priority(priority);
        }
        let written = self.stream.write_all_chunks(pieces).await;
        written.map_err(|error| match error {
            noq::WriteError::Stopped(code) => MessageRefusal::of(code),
            _ => MessageStreamError::Ended,
        })
    }

    /// Ends the stream, because the other server sent something invalid.
    pub fn refuse(mut self, why: MessageRefusal) {
        let _ = self.stream.reset(why.code().into());
    }
}

/// Receives records of another server. The other server is told to stop when this value is dropped.
#[derive(Debug)]
pub struct MessageReceiver(noq::RecvStream);

impl MessageReceiver {
    /// Fills `to`. Returns false if the stream ends before its first byte.
    ///
    /// # Errors
    /// [`MessageStreamError`] if the other server refuses the stream, or has ended it within `to`.
    pub async fn fill(&mut self, to: &mut [u8]) -> Result<bool, MessageStreamError> {
        use noq::ReadExactError::{FinishedEarly, ReadError};
        match self.0.read_exact(to).await {
            Ok(()) => Ok(true),
            Err(FinishedEarly(0)) => Ok(false),
            Err(ReadError(noq::ReadError::Reset(code))) => Err(MessageRefusal::of(code)),
            Err(_) => Err(MessageStreamError::Ended),
        }
    }

    /// Returns what has come next, of at most `max` bytes.
    ///
    /// # Errors
    /// [`MessageStreamError`] if the other server refuses the stream or has ended it.
    pub async fn chunk(&mut self, max: usize) -> Result<Bytes, MessageStreamError> {
        match self.0.read_chunk(max).await {
            Ok(Some(chunk)) => Ok(chunk),
            Err(noq::ReadError::Reset(code)) => Err(MessageRefusal::of(code)),
            _ => Err(MessageStreamError::Ended),
        }
    }
}

/// The requests of a session, until somebody takes them.
#[derive(Debug)]
pub(super) struct Untaken<T>(Mutex<Option<T>>);

impl<T> Default for Untaken<T> {
    fn default() -> Self {
        Self(Mutex::new(None))
    }
}

impl<T> Untaken<T> {
    pub(super) fn put(&self, requests: T) {
        *self.0.lock() = Some(requests);
    }

    pub(super) fn take(&self) -> Option<T> {
        self.0.lock().take()
    }
}
