//! A QUIC connection as moq-net polls it, raw or with WebTransport on it.
//!
//! Each clone of a [`Session`] waits for one thing of a kind at a time and keeps that
//! wait between polls; streams need no such memory, since noq remembers who waits for
//! a stream by the stream.

use std::future::Future;
use std::net::SocketAddr;
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::task::{Context, Poll, ready};
use std::time::Duration;

use bytes::Bytes;
use glassline_media::Bitrate;
use web_transport_proto::{error_from_http3, error_to_http3};
use web_transport_trait::{Stats, poll};

use super::pulse::Pulse;
use super::web::Web;
use crate::{Observation, Observed};

type Wait<T> = Option<Pin<Box<dyn Future<Output = Result<T, Error>> + Send + Sync>>>;

/// The connection of one MoQ session.
pub(super) struct Session {
    link: Arc<Link>,
    accept_uni: Wait<noq::RecvStream>,
    accept_bi: Wait<(noq::SendStream, noq::RecvStream)>,
    open_uni: Wait<noq::SendStream>,
    open_bi: Wait<(noq::SendStream, noq::RecvStream)>,
    datagram: Wait<Bytes>,
    closed: Wait<()>,
}

/// What the clones of a [`Session`] share.
pub(super) struct Link {
    pub(super) connection: noq::Connection,
    /// `None` on raw QUIC.
    web: Option<Web>,
    protocol: String,
    observed: Observed,
    pub(super) pulse: Pulse,
    pub(super) queue: Queue,
}

/// Bytes of frames that applications handed over, counted for the backlog.
#[derive(Debug, Default)]
pub(super) struct Queue {
    /// Into the send queue.
    pub(super) written: AtomicU64,
    /// Out of it again, unsent.
    given_up: AtomicU64,
    /// Out of it to QUIC or for being late, when it was last looked at.
    left: AtomicU64,
}

impl Queue {
    /// Bytes that wait, when so many left the queue on the other side.
    pub(super) fn waiting(&self, left: u64) -> u64 {
        self.left.store(left, Ordering::Relaxed);
        let gone = left + self.given_up.load(Ordering::Relaxed);
        self.written.load(Ordering::Relaxed).saturating_sub(gone)
    }

    /// Whatever waited is gone.
    pub(super) fn give_up(&self) {
        let waiting = self.waiting(self.left.load(Ordering::Relaxed));
        self.given_up.fetch_add(waiting, Ordering::Relaxed);
    }
}

impl Session {
    pub(super) fn new(
        connection: noq::Connection,
        web: Option<Web>,
        protocol: String,
        observed: Observed,
    ) -> Self {
        Self::over(Arc::new(Link {
            pulse: Pulse::default(),
            queue: Queue::default(),
            connection,
            web,
            protocol,
            observed,
        }))
    }

    fn over(link: Arc<Link>) -> Self {
        Self {
            link,
            accept_uni: None,
            accept_bi: None,
            open_uni: None,
            open_bi: None,
            datagram: None,
            closed: None,
        }
    }

    pub(super) fn link(&self) -> Arc<Link> {
        Arc::clone(&self.link)
    }

    fn send(&self, stream: noq::SendStream) -> SendStream {
        SendStream {
            stream,
            is_web: self.link.web.is_some(),
            stopped: None,
            is_over: false,
        }
    }

    fn recv(&self, stream: noq::RecvStream) -> RecvStream {
        RecvStream {
            stream,
            is_web: self.link.web.is_some(),
        }
    }
}

impl Clone for Session {
    fn clone(&self) -> Self {
        Self::over(self.link())
    }
}

impl Link {
    async fn accept_uni(&self) -> Result<noq::RecvStream, Error> {
        match &self.web {
            Some(web) => web.accept_uni(&self.connection).await,
            None => Ok(self.connection.accept_uni().await?),
        }
    }

    async fn accept_bi(&self) -> Result<(noq::SendStream, noq::RecvStream), Error> {
        match &self.web {
            Some(web) => web.accept_bi(&self.connection).await,
            None => Ok(self.connection.accept_bi().await?),
        }
    }

    async fn open_uni(&self) -> Result<noq::SendStream, Error> {
        let mut stream = self.connection.open_uni().await?;
        if let Some(web) = &self.web {
            write_first(&mut stream, web.uni_header()).await?;
        }
        Ok(stream)
    }

    async fn open_bi(&self) -> Result<(noq::SendStream, noq::RecvStream), Error> {
        let (mut send, recv) = self.connection.open_bi().await?;
        if let Some(web) = &self.web {
            write_first(&mut send, web.bi_header()).await?;
        }
        Ok((send, recv))
    }

    /// The next datagram that is not ours.
    async fn datagram(&self) -> Result<Bytes, Error> {
        loop {
            let mut datagram = self.connection.read_datagram().await?;
            if let Some(web) = &self.web {
                match web.strip(datagram) {
                    Some(inner) => datagram = inner,
                    // Of no session that there is.
                    None => continue,
                }
            }
            if !self.pulse.take(&datagram) {
                return Ok(datagram);
            }
        }
    }

    /// Sends a datagram if there is room for it; lost ones are not missed.
    pub(super) fn send_datagram(&self, payload: &[u8]) -> Result<(), Error> {
        let header = self.web.as_ref().map_or(&[][..], Web::datagram_header);
        let whole = Bytes::from([header, payload].concat());
        match self.connection.send_datagram(whole) {
            Ok(()) | Err(noq::SendDatagramError::TooLarge) => Ok(()),
            Err(noq::SendDatagramError::ConnectionLost(error)) => Err(error.into()),
            Err(_) => Err(Error::NoDatagrams),
        }
    }

    pub(super) fn observed(&self) -> &Observed {
        &self.observed
    }

    pub(super) fn peer(&self) -> SocketAddr {
        let path = self.connection.path(noq::PathId::ZERO);
        let address = path.and_then(|path| path.remote_address().ok());
        address.unwrap_or_else(|| SocketAddr::from(([0, 0, 0, 0], 0)))
    }

    fn datagram_bytes_max(&self) -> usize {
        let header = self
            .web
            .as_ref()
            .map_or(0, |web| web.datagram_header().len());
        let max = self.connection.max_datagram_size();
        max.map_or(0, |max| max.saturating_sub(header))
    }

    pub(super) fn close(&self, code: u32, reason: &str) {
        match &self.web {
            Some(web) => web.close(&self.connection, code, reason),
            None => self.connection.close(code.into(), reason.as_bytes()),
        }
    }

    /// Why the connection ended, in the words of whoever ended it.
    fn end(&self, error: noq::ConnectionError) -> Error {
        match self.web.as_ref().and_then(Web::told) {
            Some((code, reason)) => Error::Closed { code, reason },
            None => Error::of(error, self.web.is_some()),
        }
    }
}

/// The header decides to whom the stream belongs; it must not wait behind the media of
/// more urgent streams.
async fn write_first(stream: &mut noq::SendStream, header: &[u8]) -> Result<(), Error> {
    let _ = stream.set_priority(i32::MAX);
    stream
        .write_all(header)
        .await
        .map_err(|error| match error {
            noq::WriteError::ConnectionLost(error) => error.into(),
            _ => Error::Gone,
        })?;
    let _ = stream.set_priority(0);
    Ok(())
}

/// Polls what is waited for, and begins to wait if nothing is.
fn poll_wait<T, F>(
    wait: &mut Wait<T>,
    cx: &mut Context<'_>,
    begin: impl FnOnce() -> F,
) -> Poll<Result<T, Error>>
where
    F: Future<Output = Result<T, Error>> + Send + Sync + 'static,
{
    let waiting = wait.get_or_insert_with(|| Box::pin(begin()));
    let done = ready!(waiting.as_mut().poll(cx));
    *wait = None;
    Poll::Ready(done)
}

impl poll::Session for Session {
    type SendStream = SendStream;
    type RecvStream = RecvStream;
    type Error = Error;

    fn poll_accept_uni(&mut self, cx: &mut Context<'_>) -> Poll<Result<RecvStream, Error>> {
        let link = &self.link;
        let stream = ready!(poll_wait(&mut self.accept_uni, cx, || {
            let link = Arc::clone(link);
            async move { link.accept_uni().await }
        }))?;
        Poll::Ready(Ok(self.recv(stream)))
    }

    fn poll_accept_bi(
        &mut self,
        cx: &mut Context<'_>,
    ) -> Poll<Result<(SendStream, RecvStream), Error>> {
        let link = &self.link;
        let (send, recv) = ready!(poll_wait(&mut self.accept_bi, cx, || {
            let link = Arc::clone(link);
            async move { link.accept_bi().await }
        }))?;
        Poll::Ready(Ok((self.send(send), self.recv(recv))))
    }

    fn poll_open_uni(&mut self, cx: &mut Context<'_>) -> Poll<Result<SendStream, Error>> {
        let link = &self.link;
        let stream = ready!(poll_wait(&mut self.open_uni, cx, || {
            let link = Arc::clone(link);
            async move { link.open_uni().await }
        }))?;
        Poll::Ready(Ok(self.send(stream)))
    }

    fn poll_open_bi(
        &mut self,
        cx: &mut Context<'_>,
    ) -> Poll<Result<(SendStream, RecvStream), Error>> {
        let link = &self.link;
        let (send, recv) = ready!(poll_wait(&mut self.open_bi, cx, || {
            let link = Arc::clone(link);
            async move { link.open_bi().await }
        }))?;
        Poll::Ready(Ok((self.send(send), self.recv(recv))))
    }

    fn poll_send_datagram(
        &mut self,
        _: &mut Context<'_>,
        payload: &[u8],
    ) -> Poll<Result<(), Error>> {
        // noq lets the oldest waiting datagram go when there is no room: waiting would
        // only make them later.
        Poll::Ready(self.link.send_datagram(payload))
    }

    fn poll_recv_datagram(&mut self, cx: &mut Context<'_>) -> Poll<Result<Bytes, Error>> {
        let link = &self.link;
        poll_wait(&mut self.datagram, cx, || {
            let link = Arc::clone(link);
            async move { link.datagram().await }
        })
    }

    fn max_datagram_size(&self) -> usize {
        self.link.datagram_bytes_max()
    }

    fn protocol(&self) -> Option<&str> {
        Some(&self.link.protocol)
    }

    fn close(&mut self, code: u32, reason: &str) {
        self.link.close(code, reason);
    }

    fn poll_closed(&mut self, cx: &mut Context<'_>) -> Poll<Error> {
        let link = &self.link;
        let ended = poll_wait(&mut self.closed, cx, || {
            let link = Arc::clone(link);
            async move {
                let error = link.connection.closed().await;
                Err(link.end(error))
            }
        });
        ended.map(|ended| ended.err().unwrap_or(Error::Gone))
    }

    fn stats(&self) -> impl Stats {
        Figures {
            quic: self.link.connection.stats(),
            seen: self.link.observed.get(),
        }
    }
}

/// What moq-net asks of the connection. The rate it tells applications is what our
/// controller believes the path to deliver, never the window over the round trip.
struct Figures {
    quic: noq::ConnectionStats,
    seen: Observation,
}

impl Stats for Figures {
    fn bytes_sent(&self) -> Option<u64> {
        Some(self.quic.udp_tx.bytes)
    }

    fn bytes_received(&self) -> Option<u64> {
        Some(self.quic.udp_rx.bytes)
    }

    fn bytes_lost(&self) -> Option<u64> {
        Some(self.quic.lost_bytes)
    }

    fn packets_sent(&self) -> Option<u64> {
        Some(self.quic.sent_packets)
    }

    fn packets_received(&self) -> Option<u64> {
        Some(self.quic.udp_rx.datagrams)
    }

    fn packets_lost(&self) -> Option<u64> {
        Some(self.quic.lost_packets)
    }

    #[expect(
        clippy::misnamed_getters,
        reason = "moq-net asks for the smoothed one by this name"
    )]
    fn rtt(&self) -> Option<Duration> {
        self.seen.smoothed_rtt
    }

    fn estimated_send_rate(&self) -> Option<u64> {
        self.seen.deliverable_rate.map(Bitrate::bps)
    }
}

/// A stream that we write.
pub(super) struct SendStream {
    stream: noq::SendStream,
    is_web: bool,
    stopped: Option<Pin<Box<noq::Stopped>>>,
    /// Finished or reset.
    is_over: bool,
}

impl SendStream {
    fn code(&self, code: u32) -> noq::VarInt {
        wire_code(code, self.is_web)
    }
}

impl Drop for SendStream {
    fn drop(&mut self) {
        // noq would finish it, and half a group would pass for a whole one.
        if !self.is_over {
            let _ = self.stream.reset(self.code(0));
        }
    }
}

impl poll::SendStream for SendStream {
    type Error = Error;

    fn poll_write(&mut self, cx: &mut Context<'_>, bytes: &[u8]) -> Poll<Result<usize, Error>> {
        let written = ready!(Pin::new(&mut self.stream).poll_write(cx, bytes));
        Poll::Ready(written.map_err(|error| match error {
            noq::WriteError::Stopped(code) => Error::stream(code, self.is_web),
            noq::WriteError::ConnectionLost(error) => Error::of(error, self.is_web),
            _ => Error::Gone,
        }))
    }

    fn set_priority(&mut self, order: u8) {
        let _ = self.stream.set_priority(order.into());
    }

    fn finish(&mut self) -> Result<(), Error> {
        self.is_over = true;
        self.stream.finish().map_err(|_| Error::Gone)
    }

    fn reset(&mut self, code: u32) {
        self.is_over = true;
        let _ = self.stream.reset(self.code(code));
    }

    fn poll_closed(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), Error>> {
        let stream = &self.stream;
        let stopped = self
            .stopped
            .get_or_insert_with(|| Box::pin(stream.stopped()));
        let how = ready!(stopped.as_mut().poll(cx));
        self.stopped = None;
        Poll::Ready(match how {
            Ok(None) => Ok(()),
            Ok(Some(code)) => Err(Error::stream(code, self.is_web)),
            Err(noq::StoppedError::ConnectionLost(error)) => Err(Error::of(error, self.is_web)),
            Err(_) => Err(Error::Gone),
        })
    }
}

/// A stream that the peer writes.
pub(super) struct RecvStream {
    stream: noq::RecvStream,
    is_web: bool,
}

impl RecvStream {
    fn error(&self, error: noq::ReadError) -> Error {
        match error {
            noq::ReadError::Reset(code) => Error::stream(code, self.is_web),
            noq::ReadError::ConnectionLost(error) => Error::of(error, self.is_web),
            _ => Error::Gone,
        }
    }
}

impl poll::RecvStream for RecvStream {
    type Error = Error;

    fn poll_read(
        &mut self,
        cx: &mut Context<'_>,
        to: &mut [u8],
    ) -> Poll<Result<Option<usize>, Error>> {
        if to.is_empty() {
            return Poll::Ready(Ok(Some(0)));
        }
        let read = ready!(self.stream.poll_read(cx, to));
        Poll::Ready(match read {
            Ok(0) => Ok(None),
            Ok(bytes) => Ok(Some(bytes)),
            Err(error) => Err(self.error(error)),
        })
    }

    fn poll_read_chunk(
        &mut self,
        cx: &mut Context<'_>,
        max: usize,
    ) -> Poll<Result<Option<Bytes>, Error>> {
        if max == 0 {
            return Poll::Ready(Ok(Some(Bytes::new())));
        }
        let read = ready!(pin!(self.stream.read_chunk(max)).poll(cx));
        Poll::Ready(read.map_err(|error| self.error(error)))
    }

    fn stop(&mut self, code: u32) {
        let _ = self.stream.stop(wire_code(code, self.is_web));
    }

    fn poll_closed(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), Error>> {
        let how = ready!(pin!(self.stream.received_reset()).poll(cx));
        Poll::Ready(match how {
            Ok(None) => Ok(()),
            Ok(Some(code)) => Err(Error::stream(code, self.is_web)),
            Err(noq::ResetError::ConnectionLost(error)) => Err(Error::of(error, self.is_web)),
            Err(_) => Err(Error::Gone),
        })
    }
}

/// WebTransport's codes lie within those of HTTP/3 (draft-ietf-webtrans-http3 §4.4).
fn wire_code(code: u32, is_web: bool) -> noq::VarInt {
    if is_web {
        noq::VarInt::from_u64(error_to_http3(code)).unwrap_or_default()
    } else {
        code.into()
    }
}

fn code_of(wire: noq::VarInt, is_web: bool) -> Option<u32> {
    if is_web {
        error_from_http3(wire.into_inner())
    } else {
        u32::try_from(wire.into_inner()).ok()
    }
}

/// Why a connection or one of its streams does no more.
#[derive(Clone, Debug, thiserror::Error)]
pub(super) enum Error {
    /// The network, or QUIC itself.
    #[error(transparent)]
    Connection(#[from] noq::ConnectionError),
    /// The peer closed it.
    #[error("closed by the other end: {reason} (code {code})")]
    Closed { code: u32, reason: String },
    /// The peer gave the stream up.
    #[error("the other end gave the stream up (code {0:?})")]
    Stream(Option<u32>),
    /// The peer takes no datagrams.
    #[error("the other end takes no datagrams")]
    NoDatagrams,
    /// Used after its end.
    #[error("the stream has ended")]
    Gone,
}

impl Error {
    fn of(error: noq::ConnectionError, is_web: bool) -> Self {
        if let noq::ConnectionError::ApplicationClosed(close) = &error
            && let Some(code) = code_of(close.error_code, is_web)
        {
            let reason = String::from_utf8_lossy(&close.reason).into_owned();
            return Self::Closed { code, reason };
        }
        Self::Connection(error)
    }

    fn stream(code: noq::VarInt, is_web: bool) -> Self {
        Self::Stream(code_of(code, is_web))
    }
}

impl web_transport_trait::Error for Error {
    fn session_error(&self) -> Option<(u32, String)> {
        match self {
            Self::Closed { code, reason } => Some((*code, reason.clone())),
            _ => None,
        }
    }

    fn stream_error(&self) -> Option<u32> {
        match self {
            Self::Stream(code) => *code,
            _ => None,
        }
    }
}
