//! Media in datagrams: one pair of ports for all clients of a thread.
//!
//! ```text
//! Ring entry ─ datagrams, laid out once ─► a Transmit for each client ─► sendmmsg
//!                                           (UDP_SEGMENT: a run is one message)
//! ```
//!
//! The same bytes go to every client, so that a client costs its share of a system
//! call and what the kernel does. Packets go to the peer of the RTSP connection and
//! nowhere else, whatever a client asks for.

use std::collections::HashMap;
use std::io;
use std::net::{IpAddr, SocketAddr};
use std::os::fd::AsRawFd;
use std::time::{Duration, Instant};

use glassline_net::{Multicast, Options, ReceiveBatch, SendError, Transmit, UdpSocket};
use mio::unix::SourceFd;
use mio::{Interest, Registry, Token};

use super::connection_writer::Sent;
use super::cursor::{Budget, Cursor, Verdict};
use super::framing::Datagrams;
use super::ring::Ring;
use super::srtp::TrackSrtps;
use crate::rtsp::counters::Counters;
use crate::runtime::Key;

/// Send buffer to ask for: what waits in it is beyond our budgets.
const SEND_BUFFER_BYTES: usize = 2 << 20;

/// Receive buffer to ask for: reports of a few thousand clients at once.
const RECEIVE_BUFFER_BYTES: usize = 1 << 20;

/// Bytes for one client at a time: a receiver with the system's usual buffer holds
/// four times as much, and gets a large keyframe or its past in pieces.
const BYTES_PER_CHUNK: usize = 48 << 10;

/// A client's chunks are this far apart.
const CHUNK_INTERVAL: Duration = Duration::from_millis(4);

/// Messages handed to the kernel at once.
const MESSAGES_PER_CALL: usize = 32;

/// Attempts at a pair of ports that the system chooses.
const ATTEMPTS: usize = 64;

/// Ports of RTP and RTCP of a client, or ours.
pub(crate) type Ports = (u16, u16);

/// A thread's sockets.
#[derive(Debug)]
pub(crate) struct Udp {
    media: UdpSocket,
    control: UdpSocket,
    /// The kernel takes no more for now.
    is_full: bool,
    /// Where reports come from.
    by_address: HashMap<SocketAddr, (Key, usize)>,
    /// Empty between calls, kept for its room.
    messages: Vec<Message>,
}

/// An entry for a client.
#[derive(Clone, Debug)]
struct Message {
    client: Key,
    entry: u64,
    to: SocketAddr,
    from: Option<IpAddr>,
    is_report: bool,
    /// Made for this client alone, and once: if the kernel does not take it now it waits.
    sealed: Option<Datagrams>,
}

/// Where a track of a client goes.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Target {
    pub(crate) media: SocketAddr,
    pub(crate) control: SocketAddr,
}

/// A datagram from a client.
#[derive(Debug)]
pub(crate) struct Arrived<'a> {
    pub(crate) client: Key,
    pub(crate) track: usize,
    /// It came to the port for RTCP.
    pub(crate) is_control: bool,
    pub(crate) bytes: &'a [u8],
}

/// Whose turn it is.
#[derive(Debug)]
pub(crate) struct Recipient<'a> {
    pub(crate) client: Key,
    /// Which of our addresses it connected to; `None` leaves it to the routes.
    pub(crate) from: Option<IpAddr>,
    pub(crate) targets: &'a [Option<Target>],
    pub(crate) seals: &'a mut TrackSrtps,
    pub(crate) place: &'a mut Cursor,
    /// Set to when it gets the next chunk, if this one was not all.
    pub(crate) paced_until: &'a mut Option<Instant>,
    /// Sent to it so far.
    pub(crate) bytes: &'a mut u64,
}

impl Udp {
    /// Opens an even port and the one above it (RFC 3550 §11): `first` and the next,
    /// or any if it is 0.
    pub(crate) fn bind(ip: IpAddr, first: u16, multicast: Option<Multicast>) -> io::Result<Self> {
        let options = Options {
            send_buffer: Some(SEND_BUFFER_BYTES),
            receive_buffer: Some(RECEIVE_BUFFER_BYTES),
            multicast,
            ..Options::default()
        };
        let open = |port| {
            UdpSocket::bind(SocketAddr::new(ip, port), &options)
                .map_err(|error| io::Error::other(error.to_string()))
        };
        let mut attempts = if first == 0 { ATTEMPTS } else { 1 };
        loop {
            attempts -= 1;
            let media = open(first)?;
            let port = media.local_addr().port();
            let pair = if port.is_multiple_of(2) {
                open(port + 1).map(|control| (media, control))
            } else {
                open(port - 1).map(|lower| (lower, media))
            };
            match pair {
                Ok((media, control)) => {
                    return Ok(Self {
                        media,
                        control,
                        is_full: false,
                        by_address: HashMap::new(),
                        messages: Vec::new(),
                    });
                }
                Err(error) if attempts == 0 => return Err(error),
                Err(_) => {}
            }
        }
    }

    /// Waits for both sockets, as the events `media` and `control`.
    pub(crate) fn register(
        &self,
        registry: &Registry,
        media: Token,
        control: Token,
    ) -> io::Result<()> {
        let interest = Interest::READABLE | Interest::WRITABLE;
        registry.register(&mut SourceFd(&self.media.as_raw_fd()), media, interest)?;
        let control_fd = self.control.as_raw_fd();
        registry.register(&mut SourceFd(&control_fd), control, Interest::READABLE)
    }

    pub(crate) fn ports(&self) -> Ports {
        let port = |socket: &UdpSocket| socket.local_addr().port();
        (port(&self.media), port(&self.control))
    }

    /// What comes from `target` is of this client's track from now on.
    pub(crate) fn learn(&mut self, target: &Target, client: Key, track: usize) {
        for address in [target.media, target.control] {
            self.by_address.insert(address, (client, track));
        }
    }

    pub(crate) fn forget(&mut self, target: &Target, client: Key) {
        for address in [target.media, target.control] {
            let owner = self.by_address.get(&address);
            if owner.is_some_and(|(owner, _)| *owner == client) {
                self.by_address.remove(&address);
            }
        }
    }

    /// Drains both sockets; `take` gets what came from clients.
    pub(crate) fn receive(&mut self, batch: &mut ReceiveBatch, mut take: impl FnMut(Arrived<'_>)) {
        for (socket, is_control) in [(&self.control, true), (&self.media, false)] {
            // An error is an ICMP answer to an earlier datagram.
            while let Ok(count @ 1..) = socket.receive_batch(batch) {
                for datagram in batch.iter_mut() {
                    if let Some((client, track)) = self.by_address.get(&datagram.source) {
                        take(Arrived {
                            client: *client,
                            track: *track,
                            is_control,
                            bytes: datagram.bytes,
                        });
                    }
                }
                if count < batch.capacity() {
                    break;
                }
            }
        }
    }

    /// Sends one report, if the kernel takes it now.
    pub(crate) fn send_report(&self, packet: &[u8], target: &Target, from: Option<IpAddr>) {
        let transmit = Transmit::new(packet, target.control).from(from);
        // The next one is two seconds away.
        let _ = self.control.send_batch(&[transmit]);
    }

    /// The kernel has room again.
    pub(crate) fn unblock(&mut self) {
        self.is_full = false;
    }

    pub(crate) fn is_full(&self) -> bool {
        self.is_full
    }

    /// Plans what a client gets now, and moves its place behind it. False if it will not
    /// catch up.
    pub(crate) fn plan(
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
            targets,
            seals,
            place,
            paced_until,
            bytes: total,
        } = recipient;
        match place.judge(ring, budget, now) {
            Verdict::Steady => {}
            Verdict::Skipped(entries) => {
                sent.skipped += entries;
                sent.skips += 1;
            }
            Verdict::Hopeless => return false,
        }
        let mut bytes = 0;
        let mut number = place.cursor().max(ring.first());
        while let Some(entry) = ring.get(number) {
            if bytes >= BYTES_PER_CHUNK {
                *paced_until = Some(now + CHUNK_INTERVAL);
                break;
            }
            let target = targets.get(entry.track()).copied().flatten();
            if let Some(target) = target
                && place.takes(entry)
            {
                let is_report = entry.is_report();
                let seal = seals.get_mut(entry.track()).and_then(Option::as_mut);
                let sealed = seal.map(|seal| entry.seal_datagrams(seal));
                if sealed.is_none() {
                    ring.prepare_datagrams(number);
                }
                let shared = ring.get(number).and_then(|entry| entry.datagrams());
                bytes += sealed.as_ref().or(shared).map_or(0, Datagrams::len);
                self.messages.push(Message {
                    client,
                    entry: number,
                    to: if is_report {
                        target.control
                    } else {
                        target.media
                    },
                    from,
                    is_report,
                    sealed,
                });
            }
            number += 1;
        }
        place.advance(number, ring);
        *total += bytes as u64;
        true
    }

    /// Enough is planned for a call.
    pub(crate) fn is_ripe(&self) -> bool {
        self.messages.len() >= MESSAGES_PER_CALL
    }

    /// Sends what is planned. Clients whose part the kernel did not take go to `left`,
    /// with the entry to begin again at; what was sealed for them waits here instead.
    pub(crate) fn flush(
        &mut self,
        ring: &Ring,
        counters: &Counters,
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
            // Of each client the earliest counts.
            let shared = stopped.into_iter().rev().filter(|it| it.sealed.is_none());
            left.extend(shared.map(|message| (message.client, message.entry)));
        }
        messages.clear();
        messages.append(&mut kept);
        self.messages = messages;
    }

    /// The messages that the kernel did not take for now.
    fn flush_kind<'a>(
        &mut self,
        messages: impl Iterator<Item = &'a Message>,
        is_report: bool,
        ring: &Ring,
        counters: &Counters,
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
        let socket = if is_report {
            &self.control
        } else {
            &self.media
        };
        let mut at = 0;
        let mut refusals = 0;
        while at < transmits.len() {
            let result = socket.send_batch(&transmits[at..]);
            let calls = (result.transmits + 1).div_ceil(MESSAGES_PER_CALL);
            sent.calls += calls as u64;
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
                // About an earlier datagram to anyone: this one was not tried.
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
