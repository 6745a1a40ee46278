use std::net::{IpAddr, SocketAddr};
use std::time::Instant;

use glassline_media::Kind;
use glassline_net::{ReceiveBatch, UdpSocket};
use glassline_webrtc::{Event, Session};
use url::Url;

use super::counts::Counts;
use super::signalling::Dialled;
use super::{Id, State, Viewer};

/// One viewer: its socket, its session and its counts.
pub(super) struct Peer {
    id: Id,
    url: Url,
    /// The deadline that is set for it.
    pub(super) armed: Option<Instant>,
    line: Option<Line>,
    counts: Counts,
}

/// What a viewer has while it is connected.
struct Line {
    socket: UdpSocket,
    local: Vec<SocketAddr>,
    session: Session,
    location: Option<Url>,
}

impl Line {
    /// The candidate that a datagram was sent to.
    fn arrived_at(&self, ip: Option<IpAddr>) -> SocketAddr {
        let port = self.socket.local_addr().port();
        ip.map_or(self.local[0], |ip| SocketAddr::new(ip, port))
    }
}

impl Peer {
    pub(super) fn signalling(id: Id, url: Url) -> Self {
        Self {
            id,
            url,
            armed: None,
            line: None,
            counts: Counts::default(),
        }
    }

    pub(super) fn fail(&mut self, reason: String) {
        self.counts.state = State::Ended;
        self.counts.failure.get_or_insert(reason);
        self.line = None;
    }

    /// The answer is here: connect.
    pub(super) fn begin(&mut self, dialled: Dialled, now: Instant, scratch: &mut Vec<u8>) {
        self.counts.started = Some(dialled.started);
        self.counts.state = State::Connecting;
        let mut line = Line {
            socket: dialled.socket,
            local: dialled.local,
            session: dialled.session,
            location: dialled.answer.location,
        };
        let accepted = line.session.set_answer(&dialled.answer.sdp, now);
        let reason = accepted.err().map(|error| error.to_string());
        self.line = Some(line);
        self.drain(now, scratch);
        if let Some(reason) = reason {
            self.counts.state = State::Ended;
            self.counts.failure = Some(format!(
                "{} answered what we cannot use: {reason}",
                self.url
            ));
        }
    }

    /// Takes what waits in the socket.
    pub(super) fn receive(&mut self, batch: &mut ReceiveBatch, scratch: &mut Vec<u8>) {
        let Some(line) = &mut self.line else { return };
        let mut now = Instant::now();
        let mut any = false;
        loop {
            match line.socket.receive_batch(batch) {
                Ok(0) => break,
                Ok(_) => {}
                Err(error) => {
                    self.fail(format!("cannot receive: {error}"));
                    return;
                }
            }
            any = true;
            for datagram in batch.iter_mut() {
                if datagram.truncated {
                    *self.counts.dropped.entry("truncated").or_default() += 1;
                    continue;
                }
                let destination = line.arrived_at(datagram.destination);
                let bytes = datagram.bytes.len();
                let received =
                    line.session
                        .handle_datagram(now, datagram.source, destination, datagram.bytes);
                match received {
                    Ok(received) => self.counts.take(now, &received, bytes),
                    Err(reason) => *self.counts.dropped.entry(reason.label()).or_default() += 1,
                }
            }
            now = Instant::now();
        }
        if any {
            self.ask_for_keyframe(now);
            self.drain(now, scratch);
        }
    }

    pub(super) fn handle_timeout(&mut self, now: Instant, scratch: &mut Vec<u8>) {
        self.counts.expire(now);
        self.ask_for_keyframe(now);
        if let Some(line) = &mut self.line {
            line.session.handle_timeout(now);
            self.drain(now, scratch);
        }
    }

    pub(super) fn poll_timeout(&mut self) -> Option<Instant> {
        let session = self.line.as_mut()?.session.poll_timeout();
        [session, self.counts.deadline()]
            .into_iter()
            .flatten()
            .min()
    }

    /// Says goodbye; the URL to DELETE, if the server gave one.
    pub(super) fn leave(&mut self, now: Instant, scratch: &mut Vec<u8>) -> Option<Url> {
        self.line.as_mut()?.session.close(now);
        self.drain(now, scratch);
        self.line.take()?.location
    }

    /// As a player does whose decoder lost its reference.
    fn ask_for_keyframe(&mut self, now: Instant) {
        let Some(line) = &mut self.line else { return };
        if let Some(receiver) = self.counts.take_keyframe_wanted() {
            line.session.request_keyframe(receiver, now);
        }
        for index in 0..line.session.receivers().len() {
            // Where nothing is taken apart, packets given up are all there is to know.
            if line.session.receiver_mut(index).is_some_and(|receiver| {
                receiver.kind == Kind::Video && receiver.take_given_up() > 0
            }) {
                line.session.request_keyframe(index, now);
            }
        }
    }

    /// Events first, because they decide; then what they and the session have
    /// to send.
    fn drain(&mut self, now: Instant, scratch: &mut Vec<u8>) {
        let Some(line) = &mut self.line else { return };
        while let Some(event) = line.session.poll_event() {
            match event {
                Event::Connected { profile } => {
                    self.counts.connect(now, profile.name());
                    for receiver in line.session.receivers() {
                        self.counts.expect(receiver.kind, receiver.codec());
                    }
                }
                Event::Closed(reason) => {
                    self.counts.state = State::Ended;
                    self.counts.failure.get_or_insert(reason.to_string());
                }
                _ => {}
            }
        }
        while let Some(destination) = line.session.poll_transmit(scratch) {
            if let Err(error) = line.socket.send(scratch, destination) {
                // Checks go to every candidate, the unreachable ones too.
                tracing::trace!(%error, %destination, "datagram not sent");
                self.counts.unsent += 1;
            }
        }
    }

    pub(super) fn snapshot(&self) -> Viewer {
        self.counts.snapshot(self.id, self.url.clone())
    }
}
