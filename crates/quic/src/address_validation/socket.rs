//! The socket of a server, whose datagrams are judged before noq sees them.

use std::io::{self, IoSliceMut};
use std::net::{IpAddr, SocketAddr};
use std::num::NonZeroUsize;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, Waker, ready};
use std::time::{Instant, SystemTime};

use noq::udp::{RecvMeta, Transmit};
use noq::{AsyncUdpSocket, UdpSender};
use noq_proto::crypto::CryptoError;

use super::initial::InitialHeader;
use super::{
    AddressValidationCounters, AddressValidator, NewcomerRates, Now, RetryWriter, TokenKey, Verdict,
};

/// A socket that keeps back what strangers send too much of.
#[derive(Debug)]
pub(crate) struct ValidatedSocket {
    inner: Box<dyn AsyncUdpSocket>,
    validator: AddressValidator,
    answers: Answers,
}

impl ValidatedSocket {
    /// Judges what comes to `inner` by `rates`. `nonce` is a random number.
    ///
    /// # Errors
    /// The cryptographic library has no AES-GCM.
    pub(crate) fn new(
        inner: Box<dyn AsyncUdpSocket>,
        rates: Box<dyn NewcomerRates>,
        key: Arc<TokenKey>,
        nonce: u128,
        counters: Arc<AddressValidationCounters>,
    ) -> Result<Self, CryptoError> {
        let answers = Answers {
            sender: inner.create_sender(),
            writer: RetryWriter::new(Arc::clone(&key), nonce)?,
            waiting: Vec::new(),
            packet_bytes: 0,
            to: None,
            counters,
        };
        Ok(Self {
            inner,
            validator: AddressValidator { rates, key },
            answers,
        })
    }

    /// Moves the datagrams that pass to the front of `received`, and returns how many bytes they
    /// have. The datagrams stand back to back, each but the last of `meta.stride` bytes.
    fn keep(&mut self, received: &mut [u8], meta: &RecvMeta) -> usize {
        let mut kept = 0;
        let mut begin = 0;
        while begin < received.len() {
            let end = received.len().min(begin + meta.stride.max(1));
            match self.validator.judge(&received[begin..end], meta.addr, now) {
                Verdict::Pass => {
                    if kept < begin {
                        received.copy_within(begin..end, kept);
                    }
                    kept += end - begin;
                }
                Verdict::Retry(initial) => {
                    let to = ReturnPath {
                        client: meta.addr,
                        local: meta.dst_ip,
                    };
                    self.answers.retry(&initial, to, now().system);
                }
                Verdict::Drop => self.answers.counters.count_dropped(1),
            }
            begin = end;
        }
        kept
    }
}

impl AsyncUdpSocket for ValidatedSocket {
    fn create_sender(&self) -> Pin<Box<dyn UdpSender>> {
        self.inner.create_sender()
    }

    fn poll_recv(
        &mut self,
        context: &mut Context<'_>,
        buffers: &mut [IoSliceMut<'_>],
        metas: &mut [RecvMeta],
    ) -> Poll<io::Result<usize>> {
        let count = ready!(self.inner.poll_recv(context, buffers, metas))?;
        for (buffer, meta) in buffers.iter_mut().zip(metas.iter_mut()).take(count) {
            meta.len = self.keep(&mut buffer[..meta.len], meta);
        }
        self.answers.send();
        Poll::Ready(Ok(count))
    }

    fn local_addr(&self) -> io::Result<SocketAddr> {
        self.inner.local_addr()
    }

    fn max_receive_segments(&self) -> NonZeroUsize {
        self.inner.max_receive_segments()
    }

    fn may_fragment(&self) -> bool {
        self.inner.may_fragment()
    }
}

#[expect(
    clippy::disallowed_methods,
    reason = "this is where packets come from the network"
)]
fn now() -> Now {
    Now {
        instant: Instant::now(),
        system: SystemTime::now(),
    }
}

/// The way back to a client.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct ReturnPath {
    client: SocketAddr,
    /// Address of the server that the client's packet came to.
    local: Option<IpAddr>,
}

/// Retry packets that wait for the end of a batch, or for another receiver.
#[derive(Debug)]
struct Answers {
    sender: Pin<Box<dyn UdpSender>>,
    writer: RetryWriter,
    /// Packets of `packet_bytes` each, back to back.
    waiting: Vec<u8>,
    packet_bytes: usize,
    to: Option<ReturnPath>,
    counters: Arc<AddressValidationCounters>,
}

impl Answers {
    /// Answers `initial` by a Retry packet, together with others to the same client.
    fn retry(&mut self, initial: &InitialHeader<'_>, to: ReturnPath, now: SystemTime) {
        let is_full = self.packets() >= self.sender.max_transmit_segments().get();
        if self.to != Some(to) || is_full {
            self.send();
            self.to = Some(to);
        }
        let Ok(packet) = self.writer.write(initial, to.client, now) else {
            return self.counters.count_dropped(1);
        };
        if packet.len() == self.packet_bytes || self.waiting.is_empty() {
            self.packet_bytes = packet.len();
            return self.waiting.extend_from_slice(packet);
        }
        // A client with connection IDs of several lengths.
        let packet = packet.to_vec();
        self.send();
        self.packet_bytes = packet.len();
        self.waiting = packet;
    }

    fn packets(&self) -> usize {
        self.waiting
            .len()
            .checked_div(self.packet_bytes)
            .unwrap_or(0)
    }

    /// Sends what waits. What the socket does not take at once is dropped: the client asks again.
    fn send(&mut self) {
        let packets = self.packets();
        let (Some(ReturnPath { client, local }), 1..) = (self.to, packets) else {
            return;
        };
        let transmit = Transmit {
            destination: client,
            ecn: None,
            contents: &self.waiting,
            segment_size: (packets > 1).then_some(self.packet_bytes),
            src_ip: local,
        };
        let mut context = Context::from_waker(Waker::noop());
        match self.sender.as_mut().poll_send(&transmit, &mut context) {
            Poll::Ready(Ok(())) => self.counters.count_retried(packets as u64),
            Poll::Ready(Err(_)) | Poll::Pending => self.counters.count_dropped(packets as u64),
        }
        self.waiting.clear();
    }
}
