//! Sends media in datagrams to many clients with one system call.
//!
//! ```text
//! Ring entry ─ datagrams, laid out once ─► a Transmit for each client ─► sendmmsg
//!                                           (UDP_SEGMENT: a run is one message)
//! ```
//!
//! The same bytes go to every client, so a client costs its share of a system call and the kernel's
//! work. Packets go only to the peer address of the RTSP connection, whatever address a client asks
//! for.

use std::net::{IpAddr, SocketAddr};
use std::time::{Duration, Instant};

use glassline_net::{SendError, Transmit};
use glassline_runtime::Key;

use super::counters::SendCounters;
use super::counters::Sent;
use super::cursor::{Budget, Cursor, LagOutcome};
use super::framing::Datagrams;
use super::ring::Ring;
use super::transport::{TrackTransport, TrackTransports};
use super::udp::UdpPair;

/// Bytes sent to one client at a time. A receiver with the system's usual buffer holds four times
/// as much, and gets a large keyframe or the stream's past in chunks. They make 98 Mbit/s.
const BYTES_PER_CHUNK: usize = 48 << 10;

/// Lag of a client for which each chunk has twice as many bytes, so that a stream of a higher
/// bitrate gets through.
const LAG_PER_DOUBLING: Duration = Duration::from_millis(250);

/// Most doublings of a chunk.
const DOUBLINGS_MAX: u32 = 4;

/// Interval between two chunks for one client.
const CHUNK_INTERVAL: Duration = Duration::from_millis(4);

/// Messages handed to the kernel in one call.
const MESSAGES_PER_CALL: usize = 32;

/// The pair of sockets that takes datagrams. On loopback the kernel's sockets never report that
/// they are full, so tests use ones that do.
pub trait DatagramSink {
    /// Hands datagrams to the kernel, from the port of reports or from the port of media, as
    /// [`UdpSocket::send_batch`](glassline_net::UdpSocket::send_batch) does.
    fn send_batch(&self, is_report: bool, transmits: &[Transmit<'_>]) -> glassline_net::Sent;
}

impl DatagramSink for UdpPair {
    fn send_batch(&self, is_report: bool, transmits: &[Transmit<'_>]) -> glassline_net::Sent {
        let socket = if is_report {
            &self.control
        } else {
            &self.media
        };
        socket.send_batch(transmits)
    }
}

/// Plans the datagrams of a thread's clients and hands them to the kernel.
#[derive(Debug)]
pub struct DatagramWriter<S: DatagramSink = UdpPair> {
    /// Sockets that all datagrams leave by.
    pub sockets: S,
    /// Whether the kernel takes no more datagrams for now.
    is_full: bool,
    /// Buffer that is empty between calls and kept for its capacity.
    messages: Vec<Message>,
}

/// A ring entry for one client.
#[derive(Clone, Debug)]
struct Message {
    client: Key,
    entry: u64,
    to: SocketAddr,
    from: Option<IpAddr>,
    is_report: bool,
    /// Datagrams that were sealed for this client alone. They are sealed once: if the kernel does
    /// not take them now, they wait.
    sealed: Option<Datagrams>,
}

/// The client whose datagrams are planned.
#[derive(Debug)]
pub struct Recipient<'a> {
    /// Key of the client on its thread.
    pub client: Key,
    /// The server's address that the client connected to; `None` leaves the choice to the routing
    /// table.
    pub from: Option<IpAddr>,
    /// Addresses and keys of the tracks.
    pub transports: &'a mut TrackTransports,
    /// Place of the client in the ring.
    pub cursor: &'a mut Cursor,
    /// Set to the time of the client's next chunk if this chunk was not the last.
    pub paced_until: &'a mut Option<Instant>,
    /// Sum of bytes sent to the client.
    pub bytes: &'a mut u64,
}

impl<S: DatagramSink> DatagramWriter<S> {
    /// Creates a writer that sends by `sockets`.
    pub fn new(sockets: S) -> Self {
        Self {
            sockets,
            is_full: false,
            messages: Vec::new(),
        }
    }

    /// Drops what was planned and not sent.
    pub fn discard(&mut self) {
        self.messages.clear();
        self.is_full = false;
    }

    /// Notes that the kernel has room again.
    pub fn unblock(&mut self) {
        self.is_full = false;
    }

    /// Returns whether the kernel takes no more datagrams for now.
    pub fn is_full(&self) -> bool {
        self.is_full
    }

    /// Plans what a client gets now, and moves its cursor behind that. Returns false if the client
    /// will not catch up.
    pub fn plan(
        &mut self,
        recipient: Recipient<'_>,
        ring: &mut Ring,
        budget: &Budget,
        now: Instant,
        sent: &mut Sent,
    ) -> bool {
        let Recipient {
            client,
            from,
            transports,
            cursor,
            paced_until,
            bytes: total,
        } = recipient;
        match cursor.check_lag(ring, budget, now) {
            LagOutcome::Steady => {}
            LagOutcome::Skipped(entries) => {
                sent.skipped += entries;
                sent.skips += 1;
            }
            LagOutcome::TooSlow => return false,
        }
        let chunk = chunk_bytes(cursor.lag(ring, now));
        let mut bytes = 0;
        let mut number = cursor.position().max(ring.first());
        while let Some(entry) = ring.get(number) {
            if let Some(TrackTransport::Udp { addresses, srtp }) = transports.get_mut(entry.track())
                && cursor.takes(entry)
            {
                if bytes > 0 && bytes + entry.packet_bytes() > chunk {
                    *paced_until = Some(now + CHUNK_INTERVAL);
                    break;
                }
                let is_report = entry.is_report();
                let sealed = srtp.as_deref_mut().map(|srtp| entry.seal_datagrams(srtp));
                if sealed.is_none() {
                    ring.prepare_datagrams(number);
                }
                let shared = ring.get(number).and_then(|entry| entry.datagrams());
                bytes += sealed.as_ref().or(shared).map_or(0, Datagrams::len);
                self.messages.push(Message {
                    client,
                    entry: number,
                    to: addresses.address_of(is_report),
                    from,
                    is_report,
                    sealed,
                });
            }
            number += 1;
        }
        cursor.advance(number, ring);
        *total += bytes as u64;
        true
    }

    /// Returns whether enough is planned for a system call.
    pub fn is_ripe(&self) -> bool {
        self.messages.len() >= MESSAGES_PER_CALL
    }

    /// Sends the planned datagrams. A client whose datagrams the kernel did not take goes to
    /// `left`, with the number of the entry to begin again at. Datagrams that were sealed for it
    /// wait in the writer instead.
    pub fn flush(
        &mut self,
        ring: &Ring,
        counters: &SendCounters,
        sent: &mut Sent,
        left: &mut Vec<(Key, u64)>,
    ) {
        let mut messages = std::mem::take(&mut self.messages);
        let mut kept = Vec::new();
        for is_report in [false, true] {
            let of_kind = messages.iter().filter(|it| it.is_report == is_report);
            let stopped = self.flush_kind(of_kind, is_report, ring, counters, sent);
            kept.extend(
                stopped
                    .iter()
                    .filter(|it| it.sealed.is_some())
                    .map(|it| (*it).clone()),
            );
            // For each client the earliest entry counts.
            let shared = stopped.into_iter().rev().filter(|it| it.sealed.is_none());
            left.extend(shared.map(|message| (message.client, message.entry)));
        }
        messages.clear();
        messages.append(&mut kept);
        self.messages = messages;
    }

    /// Returns the messages that the kernel did not take for now.
    fn flush_kind<'a>(
        &mut self,
        messages: impl Iterator<Item = &'a Message>,
        is_report: bool,
        ring: &Ring,
        counters: &SendCounters,
        sent: &mut Sent,
    ) -> Vec<&'a Message> {
        let mut owners = Vec::new();
        let mut transmits = Vec::new();
        for message in messages {
            let entry = ring.get(message.entry);
            let shared = || entry.and_then(|entry| entry.datagrams());
            let Some(datagrams) = message.sealed.as_ref().or_else(shared) else {
                continue;
            };
            sent.packets += datagrams.count();
            for (bytes, segment_size) in datagrams.runs() {
                let transmit = Transmit::new(bytes, message.to).from(message.from);
                transmits.push(transmit.segmented(segment_size));
                owners.push(message);
            }
        }
        let mut at = 0;
        let mut refusals = 0;
        while at < transmits.len() {
            let result = self.sockets.send_batch(is_report, &transmits[at..]);
            let tried = result.transmits + usize::from(result.stopped.is_some());
            sent.calls += tried.div_ceil(MESSAGES_PER_CALL) as u64;
            sent.bytes += result.bytes as u64;
            at += result.transmits;
            match result.stopped {
                None => break,
                Some(SendError::WouldBlock | SendError::NoBuffers) => {
                    counters.socket_full.add(1);
                    self.is_full = true;
                    let mut rest = owners.split_off(at);
                    rest.dedup_by_key(|message| (message.client, message.entry));
                    return rest;
                }
                // The error is about an earlier datagram, to any client: this one was not tried.
                Some(SendError::Refused) if refusals < MESSAGES_PER_CALL => {
                    refusals += 1;
                    counters.peer_refused.add(1);
                }
                Some(_) => {
                    counters.unsendable.add(1);
                    at += 1;
                }
            }
        }
        Vec::new()
    }
}

/// Returns how many bytes a client that lags so far gets at a time.
fn chunk_bytes(lag: Duration) -> usize {
    let doublings = lag.as_millis() / LAG_PER_DOUBLING.as_millis();
    BYTES_PER_CHUNK << doublings.min(DOUBLINGS_MAX.into())
}
