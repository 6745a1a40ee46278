//! A viewer over WebRTC: its socket and its session.

use std::net::{IpAddr, SocketAddr};
use std::os::fd::{AsRawFd, RawFd};
use std::time::Instant;

use glassline_media::{Kind, WallClock};
use glassline_net::{Datagram, ReceiveBatch, UdpSocket};
use glassline_webrtc::{Event, Received, ReceiverIndex, Session};
use url::Url;

use super::capture::{self, Clock};
use super::counts::Counts;
use super::job::Answered;
use super::misconduct::{self, Act, Misconduct};
use super::{Conduct, State};

/// Socket and session of a viewer while it is connected.
pub(super) struct MediaTransport {
    socket: UdpSocket,
    local: Vec<SocketAddr>,
    session: Session,
    location: Option<Url>,
    wall: WallClock,
    misconduct: Misconduct,
    begun: bool,
}

/// Buffers that all viewers of a thread share.
pub(super) struct Buffers<'a> {
    pub(super) batch: &'a mut ReceiveBatch,
    pub(super) control: &'a mut Vec<u8>,
}

impl MediaTransport {
    /// Takes the server's answer and begins to connect.
    pub(super) fn begin(
        answered: Answered,
        conduct: Conduct,
        wall: WallClock,
        now: Instant,
        buffers: &mut Buffers<'_>,
        counts: &mut Counts,
    ) -> Self {
        let url = answered.url;
        let mut transport = Self {
            socket: answered.socket,
            local: answered.local,
            session: answered.session,
            location: answered.answer.location,
            wall,
            misconduct: Misconduct::new(conduct),
            begun: false,
        };
        let accepted = transport.session.set_answer(&answered.answer.sdp, now);
        transport.drain(now, buffers, counts);
        if let Err(reason) = accepted {
            counts.state = State::Ended;
            counts.failure = Some(format!("{url} sent an unusable answer: {reason}"));
        }
        transport
    }

    /// Descriptor to wait for.
    pub(super) fn descriptor(&self) -> RawFd {
        self.socket.as_raw_fd()
    }

    /// Reads the datagrams that wait at the socket.
    pub(super) fn receive(&mut self, buffers: &mut Buffers<'_>, counts: &mut Counts) {
        if self.misconduct.is_stalled() {
            return;
        }
        let mut any = false;
        loop {
            match self.socket.receive_batch(buffers.batch) {
                Ok(0) => break,
                Ok(_) => {}
                Err(error) => {
                    counts.end(format!("cannot receive: {error}"));
                    return;
                }
            }
            any = true;
            let clock = Clock::read();
            for mut datagram in buffers.batch.iter_mut() {
                self.take(&mut datagram, &clock, counts);
            }
            // The batch was not full, so the socket is empty.
            if buffers.batch.len() < buffers.batch.capacity() {
                break;
            }
        }
        if any {
            let now = Instant::now();
            self.ask_for_keyframe(now, counts);
            self.drain(now, buffers, counts);
            if !self.begun && counts.state == State::Playing {
                self.begun = true;
                self.misconduct.begin(now);
            }
        }
    }

    fn take(&mut self, datagram: &mut Datagram<'_>, clock: &Clock, counts: &mut Counts) {
        if datagram.truncated {
            *counts.dropped.entry("truncated").or_default() += 1;
            return;
        }
        let destination = self.arrived_at(datagram.destination);
        let arrived = clock.instant(datagram.arrived);
        let size = match datagram.segment {
            Some(size) => usize::from(size),
            None => datagram.bytes.len().max(1),
        };
        for bytes in datagram.bytes.chunks_mut(size) {
            let len = bytes.len();
            let received =
                self.session
                    .handle_datagram(clock.now, datagram.source, destination, bytes);
            let received = match received {
                Ok(received) => received,
                Err(reason) => {
                    *counts.dropped.entry(reason.label()).or_default() += 1;
                    continue;
                }
            };
            if matches!(received, Received::Rtp { .. } | Received::Counted { .. }) {
                // Media may come in the batch that ends the handshake.
                attend(&mut self.session, clock.now, counts);
            }
            counts.take(arrived, &received, len);
            let (receiver, header) = match &received {
                Received::Rtp {
                    receiver, packet, ..
                } => (*receiver, packet.header),
                Received::Counted {
                    receiver, header, ..
                } => (*receiver, *header),
                _ => continue,
            };
            if header.marker {
                self.note_delay(receiver, header.timestamp, arrived, counts);
            }
        }
    }

    /// Records the delay of a frame whose last packet arrived at `arrived`.
    fn note_delay(
        &self,
        receiver: ReceiverIndex,
        timestamp: u32,
        arrived: Instant,
        counts: &mut Counts,
    ) {
        let Some(receiver) = self.session.receivers().get(receiver.0) else {
            return;
        };
        if let (Kind::Video, Some(report)) = (receiver.kind, receiver.sender_time()) {
            let known = (report.ntp, report.rtp_timestamp);
            let rate = receiver.clock_rate();
            match capture::since(known, rate, timestamp, self.wall, arrived) {
                Some(delay) => counts.record_delay(delay),
                None => {
                    let other = counts.dropped.entry("delay on another calendar");
                    *other.or_default() += 1;
                }
            }
        }
    }

    /// Handles timers; call it at [`MediaTransport::poll_timeout`] or later.
    pub(super) fn handle_timeout(
        &mut self,
        now: Instant,
        buffers: &mut Buffers<'_>,
        counts: &mut Counts,
    ) {
        match self.misconduct.due(now) {
            // Over datagrams a slow reader is one that loses, which no sender notices.
            Act::Nothing | Act::Read => {}
            Act::Stall => return,
            Act::Vanish => return counts.end("vanished, as its conduct demands".to_owned()),
            Act::Garbage => self.send_garbage(),
        }
        if self.misconduct.is_stalled() {
            return;
        }
        counts.expire(now);
        self.ask_for_keyframe(now, counts);
        self.session.handle_timeout(now);
        self.drain(now, buffers, counts);
    }

    /// When to call [`MediaTransport::handle_timeout`].
    pub(super) fn poll_timeout(&mut self, counts: &Counts) -> Option<Instant> {
        if self.misconduct.is_stalled() {
            return None;
        }
        let session = self.session.poll_timeout();
        let deadlines = [session, counts.deadline(), self.misconduct.deadline()];
        deadlines.into_iter().flatten().min()
    }

    /// Leaves with a farewell; returns the URL to DELETE, if the server gave one.
    pub(super) fn leave(
        mut self,
        now: Instant,
        buffers: &mut Buffers<'_>,
        counts: &mut Counts,
    ) -> Option<Url> {
        if self.misconduct.is_stalled() {
            return None;
        }
        self.session.close(now);
        self.drain(now, buffers, counts);
        self.location
    }

    /// The candidate address that a datagram was sent to.
    fn arrived_at(&self, ip: Option<IpAddr>) -> SocketAddr {
        let port = self.socket.local_addr().port();
        ip.map_or(self.local[0], |ip| SocketAddr::new(ip, port))
    }

    /// Requests a keyframe, as a player does whose decoder lost its reference.
    fn ask_for_keyframe(&mut self, now: Instant, counts: &mut Counts) {
        if let Some(receiver) = counts.take_keyframe_wanted() {
            self.session.request_keyframe(ReceiverIndex(receiver), now);
        }
        for index in 0..self.session.receivers().len() {
            // Where nothing is taken apart, packets given up are all there is to know.
            let is_video = self.session.receivers()[index].kind == Kind::Video;
            let receiver = ReceiverIndex(index);
            if is_video && self.session.take_given_up(receiver) > 0 {
                self.session.request_keyframe(receiver, now);
            }
        }
    }

    /// Handles events first, because they decide; then sends what they and the session have
    /// to send.
    fn drain(&mut self, now: Instant, buffers: &mut Buffers<'_>, counts: &mut Counts) {
        attend(&mut self.session, now, counts);
        while let Some(destination) = self.session.poll_transmit(buffers.control) {
            if let Err(error) = self.socket.send(buffers.control, destination.socket) {
                // Checks go to every candidate, the unreachable ones too.
                tracing::trace!(%error, %destination, "datagram not sent");
                counts.unsent += 1;
            }
        }
        counts.nacked = self.session.nacked();
    }

    fn send_garbage(&self) {
        if let Some(server) = self.session.peer() {
            // It does not matter whether garbage arrives.
            let _ = self.socket.send(&misconduct::peer_garbage(), server.socket);
        }
    }
}

/// Handles the events of a session: a viewer counts from the end of the handshake on.
fn attend(session: &mut Session, now: Instant, counts: &mut Counts) {
    while let Some(event) = session.poll_event() {
        match event {
            Event::Connected { profile } => {
                counts.connect(now, profile.map(glassline_webrtc::srtp::Profile::name));
                for receiver in session.receivers() {
                    let (kind, codec) = (receiver.kind, receiver.codec());
                    counts.expect(kind, Some(codec), receiver.clock_rate());
                }
            }
            Event::Closed(reason) => counts.end(reason.to_string()),
            _ => {}
        }
    }
}
