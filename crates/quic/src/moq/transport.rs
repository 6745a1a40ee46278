//! A QUIC connection as moq-net polls it, raw or within WebTransport.
//!
//! Each clone of a [`Session`] waits for one event of each kind at a time, and stores the
//! future between polls. Streams need no such future, since noq stores the waker of each stream
//! itself.

use std::future::Future;
use std::net::SocketAddr;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::task::{Context, Poll, ready};
use std::time::Duration;

use bytes::Bytes;
use glassline_media::Bitrate;
use web_transport_trait::{Stats, poll};

use super::control_datagrams::ControlDatagrams;
use super::error::Error;
use super::message_stream::{AcceptedStream, StreamsBesideMoq};
use super::stream::{RecvStream, SendStream};
use super::web::Web;
use crate::{CongestionMonitor, CongestionStats};

type Wait<T> = Option<Pin<Box<dyn Future<Output = Result<T, Error>> + Send + Sync>>>;

/// The connection of one MoQ session.
pub(super) struct Session {
    link: Arc<Link>,
    accept_uni: Wait<noq::RecvStream>,
    accept_bi: Wait<AcceptedStream>,
    open_uni: Wait<noq::SendStream>,
    open_bi: Wait<(noq::SendStream, noq::RecvStream)>,
    datagram: Wait<Bytes>,
    closed: Wait<()>,
}

/// State that the clones of a [`Session`] share.
pub(super) struct Link {
    pub(super) connection: noq::Connection,
    /// The WebTransport session; `None` on raw QUIC.
    web: Option<Web>,
    protocol: String,
    monitor: CongestionMonitor,
    pub(super) control: ControlDatagrams,
    pub(super) queue: Queue,
    /// Streams beside MoQ that the peer opens, a server of the same cluster.
    pub(super) beside: StreamsBesideMoq,
}

/// Bytes of frames in the send queue, counted for the backlog.
#[derive(Debug, Default)]
pub(super) struct Queue {
    /// Bytes that entered the send queue.
    pub(super) written: AtomicU64,
    /// Bytes that were dropped from the send queue by `Broadcast::abort_group`.
    dropped: AtomicU64,
    /// Bytes that had left the queue, to QUIC or for being late, at the last look.
    left: AtomicU64,
}

impl Queue {
    /// Returns the bytes that wait. `left`: bytes that have left the queue so far, to QUIC or
    /// for being late.
    pub(super) fn waiting(&self, left: u64) -> u64 {
        self.left.store(left, Ordering::Relaxed);
        let gone = left + self.dropped.load(Ordering::Relaxed);
        self.written.load(Ordering::Relaxed).saturating_sub(gone)
    }

    /// Counts all waiting bytes as dropped.
    pub(super) fn drop_waiting(&self) {
        let waiting = self.waiting(self.left.load(Ordering::Relaxed));
        self.dropped.fetch_add(waiting, Ordering::Relaxed);
    }
}

impl Session {
    pub(super) fn new(
        connection: noq::Connection,
        web: Option<Web>,
        protocol: String,
        monitor: CongestionMonitor,
    ) -> Self {
        Self::over(Arc::new(Link {
            control: ControlDatagrams::default(),
            queue: Queue::default(),
            beside: StreamsBesideMoq::default(),
            connection,
            web,
            protocol,
            monitor,
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
        SendStream::new(stream, self.link.web.is_some())
    }

    fn recv(&self, stream: noq::RecvStream) -> RecvStream {
        RecvStream::new(stream, self.link.web.is_some())
    }

    fn accepted(&self, stream: AcceptedStream) -> (SendStream, RecvStream) {
        let AcceptedStream {
            send,
            receive,
            first,
        } = stream;
        let receive = RecvStream::begun(receive, self.link.web.is_some(), first);
        (self.send(send), receive)
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

    /// Returns the next stream of MoQ; others are handled elsewhere.
    async fn accept_bi(&self) -> Result<AcceptedStream, Error> {
        if let Some(web) = &self.web {
            let (send, receive) = web.accept_bi(&self.connection).await?;
            return Ok(AcceptedStream {
                send,
                receive,
                first: None,
            });
        }
        loop {
            let (send, receive) = self.connection.accept_bi().await?;
            if let Some(accepted) = self.beside.take(send, receive).await {
                return Ok(accepted);
            }
        }
    }

    pub(super) async fn open_uni(&self) -> Result<noq::SendStream, Error> {
        let mut stream = self.connection.open_uni().await?;
        if let Some(web) = &self.web {
            write_first(&mut stream, web.uni_header()).await?;
        }
        Ok(stream)
    }

    pub(super) async fn open_bi(&self) -> Result<(noq::SendStream, noq::RecvStream), Error> {
        let (mut send, recv) = self.connection.open_bi().await?;
        if let Some(web) = &self.web {
            write_first(&mut send, web.bi_header()).await?;
        }
        Ok((send, recv))
    }

    /// Returns the next datagram of MoQ; our own ones are handled here.
    async fn datagram(&self) -> Result<Bytes, Error> {
        loop {
            let mut datagram = self.connection.read_datagram().await?;
            if let Some(web) = &self.web {
                match web.strip(datagram) {
                    Some(inner) => datagram = inner,
                    // The datagram belongs to no known session.
                    None => continue,
                }
            }
            match self.control.handle(&datagram) {
                (false, _) => return Ok(datagram),
                (true, None) => {}
                (true, Some(answer)) => self.send_datagram(&answer)?,
            }
        }
    }

    /// Sends a datagram if there is room for it. Lost datagrams do no harm.
    pub(super) fn send_datagram(&self, payload: &[u8]) -> Result<(), Error> {
        let header = self.web.as_ref().map_or(&[][..], Web::datagram_header);
        let whole = Bytes::from([header, payload].concat());
        match self.connection.send_datagram(whole) {
            Ok(()) | Err(noq::SendDatagramError::TooLarge) => Ok(()),
            Err(noq::SendDatagramError::ConnectionLost(error)) => Err(error.into()),
            Err(_) => Err(Error::NoDatagrams),
        }
    }

    pub(super) fn monitor(&self) -> &CongestionMonitor {
        &self.monitor
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

    /// Returns why the connection ended, with the peer's reason if it sent one.
    fn end(&self, error: noq::ConnectionError) -> Error {
        match self.web.as_ref().and_then(Web::close_reason) {
            Some((code, reason)) => Error::Closed { code, reason },
            None => Error::of(error, self.web.is_some()),
        }
    }
}

/// Writes the header of a stream, which says which session it belongs to. The header must not
/// wait behind media of streams with a higher priority.
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

/// Polls the pending future, and creates it if there is none.
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
        let stream = ready!(poll_wait(&mut self.accept_bi, cx, || {
            let link = Arc::clone(link);
            async move { link.accept_bi().await }
        }))?;
        Poll::Ready(Ok(self.accepted(stream)))
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
        // noq drops the oldest queued datagram when there is no room; waiting would only delay
        // them.
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
            seen: self.link.monitor.get(),
        }
    }
}

/// Statistics that moq-net asks for. The rate that it shows to applications is what our
/// controller believes the path to deliver, never the window divided by the round trip.
struct Figures {
    quic: noq::ConnectionStats,
    seen: CongestionStats,
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
