//! Driver of the fuzz target `webtransport`: the client's end of a QUIC connection, on which anything
//! may be sent.
//!
//! ```text
//! input ─► HostileClient: SETTINGS, CONNECT, SETUP of MoQ, as they should be or not
//!      └─► streams, capsules, datagrams, messages ─ QUIC on loopback ─► the server under test
//! ```
//!
//! The client answers the requests of the server, too: a stream that the server opens is one of the
//! streams that the input writes to. QUIC itself is left to noq at both ends.

mod input;
mod request;
#[cfg(test)]
mod tests;

use std::net::SocketAddr;

use bytes::Bytes;
use glassline_congestion::Algorithm;
use glassline_trust::Trust;
use web_transport_proto::{self as proto, Frame, StreamUni, VarInt};

use super::control_datagrams;
use super::web::ALPN;
use crate::CongestionControl;
use crate::endpoint::{ClientEndpoint, Limits};
use input::Input;
pub use request::SentRequest;

/// Most operations of one input.
const STEPS_MAX: usize = 100;
/// Most streams that the client keeps.
const STREAMS_MAX: usize = 64;
/// Turns of the runtime without a datagram after which both ends wait for each other.
const QUIET_TURNS: usize = 6;
/// Most turns for one operation, for servers that never stop sending.
const TURNS_MAX: usize = 200;

/// A client that sends what an input says.
pub struct HostileClient<'a> {
    input: Input<'a>,
    steps: usize,
    // The endpoint's task ends with it.
    _endpoint: ClientEndpoint,
    connection: noq::Connection,
    request: Option<SentRequest>,
    /// The stream of the CONNECT request; `None` once it was reset or finished.
    connect: Option<noq::SendStream>,
    /// Streams that are open for writing, the server's requests among them.
    streams: Vec<noq::SendStream>,
    /// Streams of the server, which are read and forgotten.
    readers: Vec<noq::RecvStream>,
}

impl<'a> HostileClient<'a> {
    /// Connects to `server`, and sends the first messages. The first byte of `input` says which of
    /// them are as they should be: bits 1 SETTINGS, 2 the CONNECT request, 4 the SETUP of MoQ, 8 the
    /// streams of QPACK. Must be called within a tokio runtime of one thread, whose turns it counts.
    ///
    /// # Panics
    /// The QUIC handshake fails.
    pub async fn connect(server: SocketAddr, input: &'a [u8]) -> Self {
        let mut input = Input(input);
        let options = input.byte();
        let endpoint = ClientEndpoint::new().expect("a socket");
        let congestion = CongestionControl::new(Algorithm::Cubic);
        let protocols = vec![ALPN.to_vec()];
        let connection = endpoint
            .dial(
                server,
                "localhost",
                &Trust::Anyone,
                protocols,
                congestion,
                Limits::Client,
            )
            .await
            .expect("a server that completes the handshake");
        let mut client = Self {
            input,
            steps: 0,
            _endpoint: endpoint,
            connection,
            request: None,
            connect: None,
            streams: Vec::new(),
            readers: Vec::new(),
        };
        if options & 1 != 0 {
            client.send_settings().await;
        }
        if options & 2 != 0 {
            client.send_request(server).await;
        }
        if options & 4 != 0 {
            client.send_setup().await;
        }
        if options & 8 != 0 {
            for kind in [StreamUni::QPACK_ENCODER, StreamUni::QPACK_DECODER] {
                client.open_uni(&[&varint(kind.0.into_inner())]).await;
            }
        }
        client.settle().await;
        client
    }

    /// Performs the next operation of the input, and waits until both ends have nothing to send.
    /// Returns whether there was one.
    pub async fn step(&mut self) -> bool {
        if self.input.is_empty() || self.steps == STEPS_MAX || self.is_closed() {
            return false;
        }
        self.steps += 1;
        self.act().await;
        self.settle().await;
        true
    }

    /// Returns the CONNECT request, if one was sent that names what it asks for.
    pub const fn request(&self) -> Option<&SentRequest> {
        self.request.as_ref()
    }

    /// Returns whether the server has closed the connection.
    pub fn is_closed(&self) -> bool {
        self.connection.close_reason().is_some()
    }

    /// Returns the bytes of the datagrams that the server has sent and been sent.
    pub fn bytes(&self) -> (u64, u64) {
        let stats = self.connection.stats();
        (stats.udp_rx.bytes, stats.udp_tx.bytes)
    }

    /// Closes the connection.
    pub async fn close(mut self) {
        self.connection.close(0u32.into(), b"");
        self.settle().await;
    }

    async fn act(&mut self) {
        match self.input.byte() % 13 {
            0 => {
                let piece = self.input.piece();
                self.open_uni(&[piece]).await;
            }
            1 => {
                let (head, piece) = (self.uni_header(), self.input.piece());
                self.open_uni(&[&head, piece]).await;
            }
            2 => {
                let piece = self.input.piece();
                self.open_bi(&[piece]).await;
            }
            3 => {
                let (head, piece) = (self.bi_header(), self.input.piece());
                self.open_bi(&[&head, piece]).await;
            }
            4 => {
                // A request of MoQ: its kind, its length, and what it says.
                let (head, kind) = (self.bi_header(), [self.input.byte() % 8]);
                let message = message(self.input.piece());
                self.open_bi(&[&head, &kind, &message]).await;
            }
            5 => {
                // A group of MoQ: its header, and its frames.
                let head = [self.uni_header(), vec![0]].concat();
                let (header, frames) = (message(self.input.piece()), self.input.piece());
                self.open_uni(&[&head, &header, frames]).await;
            }
            6 => {
                let at = self.input.byte();
                let piece = self.input.piece();
                self.write(at, piece).await;
            }
            7 => {
                let (at, kind) = (self.input.byte(), self.input.byte());
                let message = message(self.input.piece());
                match kind & 0x80 {
                    0 => self.write(at, &message).await,
                    _ => self.write(at, &[&[kind & 7], &message[..]].concat()).await,
                }
            }
            8 => self.end_stream(),
            9 => {
                let (kind, piece) = (self.input.byte(), self.input.piece());
                self.send_datagram(kind, piece);
            }
            10 => {
                let (kind, piece) = (self.input.byte(), self.input.piece());
                self.send_capsule(kind, piece).await;
            }
            11 => {
                let piece = self.input.piece();
                self.write_connect(piece).await;
            }
            _ => {
                // Much of the same.
                let (at, times) = (self.input.byte(), self.input.byte());
                let piece = self.input.piece().repeat(usize::from(times));
                self.write(at, &piece).await;
            }
        }
    }

    async fn send_settings(&mut self) {
        let mut settings = proto::Settings::default();
        settings.enable_webtransport(1);
        let mut bytes = Vec::new();
        settings.encode(&mut bytes);
        self.open_uni(&[&bytes]).await;
    }

    async fn send_request(&mut self, server: SocketAddr) {
        let request = SentRequest::read(&mut self.input, server);
        let frame = request.frame();
        self.request = Some(request);
        if let Some(Ok((mut send, recv))) = at_once(self.connection.open_bi()).await {
            let _ = at_once(send.write_all(&frame)).await;
            self.connect = Some(send);
            self.readers.push(recv);
        }
    }

    /// Sends the message with which a session of MoQ begins, with the role that the input says.
    async fn send_setup(&mut self) {
        let role: &[u8] = match self.input.byte() % 3 {
            0 => &[0],
            1 => &[1, 3, 1, 1],
            _ => &[1, 3, 1, 2],
        };
        let head = [self.uni_header(), vec![1], message(role)].concat();
        self.open_uni(&[&head]).await;
        if let Some(mut stream) = self.streams.pop() {
            let _ = stream.finish();
        }
    }

    async fn open_uni(&mut self, pieces: &[&[u8]]) {
        if let Some(Ok(stream)) = at_once(self.connection.open_uni()).await {
            self.add(stream, pieces).await;
        }
    }

    async fn open_bi(&mut self, pieces: &[&[u8]]) {
        if let Some(Ok((send, recv))) = at_once(self.connection.open_bi()).await {
            if self.connect.is_none() {
                // The server takes the first one for the CONNECT request.
                self.connect = Some(send);
                self.write_connect(&pieces.concat()).await;
            } else {
                self.add(send, pieces).await;
            }
            self.readers.push(recv);
        }
    }

    async fn add(&mut self, mut stream: noq::SendStream, pieces: &[&[u8]]) {
        let _ = at_once(stream.write_all(&pieces.concat())).await;
        if self.streams.len() == STREAMS_MAX {
            let _ = self.streams.remove(0).finish();
        }
        self.streams.push(stream);
    }

    async fn write(&mut self, at: u8, bytes: &[u8]) {
        let count = self.streams.len();
        // The newest stream is number 0.
        let stream = self
            .streams
            .get_mut(count.wrapping_sub(1 + usize::from(at)));
        if let Some(stream) = stream {
            let _ = at_once(stream.write_all(bytes)).await;
        }
    }

    async fn write_connect(&mut self, bytes: &[u8]) {
        if let Some(stream) = &mut self.connect {
            let _ = at_once(stream.write_all(bytes)).await;
        }
    }

    fn end_stream(&mut self) {
        let (at, how) = (usize::from(self.input.byte()), self.input.byte());
        let code = noq::VarInt::from_u32(u32::from(how) << (how & 0x0f));
        let stream = match at {
            0xff => self.connect.take(),
            _ => {
                let at = self.streams.len().checked_sub(1 + at);
                at.map(|at| self.streams.remove(at))
            }
        };
        match (how % 3, stream) {
            (0, Some(mut stream)) => drop(stream.finish()),
            (1, Some(mut stream)) => drop(stream.reset(code)),
            _ => {
                if let Some(mut reader) = self.readers.pop() {
                    let _ = reader.stop(code);
                }
            }
        }
    }

    fn send_datagram(&self, kind: u8, piece: &[u8]) {
        let session = varint(0);
        let ours = control_datagrams::keyframe_request();
        let (mark, _) = ours.split_at(ours.len().min(9));
        let parts: &[&[u8]] = match kind % 4 {
            0 => &[piece],
            1 => &[&session, piece],
            2 => &[&session, mark, piece],
            _ => &[&session, &ours],
        };
        let _ = self.connection.send_datagram(Bytes::from(parts.concat()));
    }

    /// Sends a capsule, in one DATA frame or in a frame for each of its halves.
    async fn send_capsule(&mut self, kind: u8, piece: &[u8]) {
        let kinds: [u64; 4] = [0x2843, 0x2843, 0x17, 0x190b_4d3d];
        let mut capsule = varint(kinds[usize::from(kind & 3)]);
        // A length that is right, too short or too long.
        let length = match kind >> 6 {
            0 | 1 => piece.len() as u64,
            2 => (piece.len() / 2) as u64,
            _ => u64::from(kind) << (kind & 0x1f),
        };
        capsule.extend(varint(length));
        capsule.extend_from_slice(piece);
        let (first, second) = match kind & 4 {
            0 => (&capsule[..], &[][..]),
            _ => capsule.split_at(capsule.len() / 2),
        };
        let mut frames = Vec::new();
        for payload in [first, second] {
            Frame::DATA.encode(&mut frames);
            frames.extend(message(payload));
        }
        self.write_connect(&frames).await;
    }

    fn uni_header(&self) -> Vec<u8> {
        self.header(StreamUni::WEBTRANSPORT.0)
    }

    fn bi_header(&self) -> Vec<u8> {
        self.header(Frame::WEBTRANSPORT.0)
    }

    /// Head of a stream: its kind, and the session's number, which is that of the CONNECT stream.
    fn header(&self, kind: VarInt) -> Vec<u8> {
        let id = self.connect.as_ref().map(noq::SendStream::id);
        let id = id.map_or(0, |id| noq::VarInt::from(id).into_inner());
        [varint(kind.into_inner()), varint(id)].concat()
    }

    /// Lets both ends work until neither sends.
    async fn settle(&mut self) {
        let (mut quiet, mut seen) = (0, 0);
        for _ in 0..TURNS_MAX {
            tokio::task::yield_now().await;
            self.read().await;
            let stats = self.connection.stats();
            let sent_and_received = stats.udp_tx.datagrams + stats.udp_rx.datagrams;
            quiet = if sent_and_received == seen {
                quiet + 1
            } else {
                0
            };
            seen = sent_and_received;
            if quiet == QUIET_TURNS {
                return;
            }
        }
    }

    /// Takes what the server has sent.
    async fn read(&mut self) {
        while let Some(Ok((send, recv))) = at_once(self.connection.accept_bi()).await {
            self.add(send, &[]).await;
            self.readers.push(recv);
        }
        while let Some(Ok(recv)) = at_once(self.connection.accept_uni()).await {
            self.readers.push(recv);
        }
        let mut open = Vec::new();
        for mut reader in std::mem::take(&mut self.readers) {
            let is_over = loop {
                match at_once(reader.read_chunk(64 << 10)).await {
                    Some(Ok(Some(_))) => {}
                    Some(_) => break true,
                    None => break false,
                }
            };
            if !is_over {
                open.push(reader);
            }
        }
        self.readers = open;
        while let Some(Ok(_)) = at_once(self.connection.read_datagram()).await {}
    }
}

/// Returns what `future` has at once; `None` if it would have to wait.
async fn at_once<T>(future: impl Future<Output = T>) -> Option<T> {
    tokio::select! {
        biased;
        done = future => Some(done),
        () = std::future::ready(()) => None,
    }
}

/// Encodes a variable-length integer (RFC 9000 §16), without the bits that it has no room for.
fn varint(value: u64) -> Vec<u8> {
    let mut out = Vec::new();
    let value = VarInt::from_u64(value & ((1 << 62) - 1));
    value.unwrap_or_default().encode(&mut out);
    out
}

/// Puts the length of `body` in front of it.
fn message(body: &[u8]) -> Vec<u8> {
    [varint(body.len() as u64), body.to_vec()].concat()
}
