//! A viewer over WebRTC: its socket and its session.

mod connection;
mod socket;

use std::os::fd::RawFd;
use std::time::Instant;

use glassline_media::{Kind, WallClock};
use glassline_net::ReceiveBatch;
use glassline_webrtc::{Event, Received, ReceiverIndex, Session};
use url::Url;

pub(super) use connection::Connection;
use socket::Arrival;
pub(super) use socket::MediaSocket;

use super::capture::SenderClock;
use super::counts::Counts;
use super::frame_reports::FrameReports;
use super::job::Answered;
use super::misconduct::{self, Act, Misconduct};
use super::{Conduct, State};

/// Socket and session of a viewer while it is connected.
pub(super) struct MediaTransport {
    socket: MediaSocket,
    session: Session,
    location: Option<Url>,
    wall: WallClock,
    misconduct: Misconduct,
    begun: bool,
    /// Frames that are to be reported, for viewers that report.
    pub(super) reports: Option<FrameReports>,
}

/// Buffers that all viewers of a thread share.
pub(super) struct Buffers<'a> {
    pub(super) batch: &'a mut ReceiveBatch,
    pub(super) control: &'a mut Vec<u8>,
    pub(super) stream: &'a mut [u8],
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
        let (location, clock) = (answered.answer.location, answered.clock);
        let reports = location.as_ref().zip(clock);
        let reports = reports.map(|(location, clock)| FrameReports::begin(location, clock, now));
        let mut transport = Self {
            socket: answered.socket,
            session: answered.session,
            location,
            wall,
            misconduct: Misconduct::new(conduct),
            begun: false,
            reports,
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
        self.socket.descriptor()
    }

    /// Reads the datagrams that wait at the socket.
    pub(super) fn receive(&mut self, buffers: &mut Buffers<'_>, counts: &mut Counts) {
        if self.misconduct.is_stalled() {
            return;
        }
        let mut any = false;
        loop {
            let (session, wall) = (&mut self.session, self.wall);
            let reports = &mut self.reports;
            let read = self
                .socket
                .receive(buffers.batch, buffers.stream, |mut arrival| {
                    any = true;
                    take(session, wall, &mut arrival, counts, reports.as_mut());
                });
            match read {
                Ok(true) => {}
                Ok(false) => break,
                Err(error) => {
                    counts.end(format!("cannot receive: {error}"));
                    return;
                }
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
        let report = self.reports.as_ref().and_then(FrameReports::deadline);
        let misconduct = self.misconduct.deadline();
        let deadlines = [session, counts.deadline(), misconduct, report];
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
            if !self.socket.send(buffers.control, destination) {
                counts.unsent += 1;
            }
        }
        counts.nacked = self.session.nacked();
    }

    fn send_garbage(&mut self) {
        if let Some(server) = self.session.peer() {
            // It does not matter whether garbage arrives.
            self.socket.send(&misconduct::peer_garbage(), server);
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

/// Hands what arrived to the session, and counts it.
fn take(
    session: &mut Session,
    wall: WallClock,
    arrival: &mut Arrival<'_>,
    counts: &mut Counts,
    mut reports: Option<&mut FrameReports>,
) {
    if arrival.is_truncated {
        *counts.dropped.entry("truncated").or_default() += 1;
        return;
    }
    let (arrived, now) = (arrival.arrived, arrival.now);
    let mut rebuilt = Vec::new();
    for bytes in arrival.bytes.chunks_mut(arrival.segment) {
        let len = bytes.len();
        let received = session.handle_datagram(now, arrival.source, arrival.destination, bytes);
        let received = match received {
            Ok(received) => received,
            Err(reason) => {
                *counts.dropped.entry(reason.label()).or_default() += 1;
                continue;
            }
        };
        if matches!(received, Received::Rtp { .. } | Received::Counted { .. }) {
            // Media may come in the batch that ends the handshake.
            attend(session, now, counts);
        }
        counts.take(arrived, &received, len);
        note_frame(
            session,
            wall,
            &received,
            arrived,
            counts,
            reports.as_deref_mut(),
        );
        while let Some(received) = session.poll_rebuilt(now, &mut rebuilt) {
            // Its bytes came as those of FEC packets.
            counts.take(arrived, &received, 0);
            note_frame(
                session,
                wall,
                &received,
                arrived,
                counts,
                reports.as_deref_mut(),
            );
        }
    }
}

/// Records the delay of a frame whose last packet is `received`, and reports the frame.
fn note_frame(
    session: &Session,
    wall: WallClock,
    received: &Received<'_>,
    arrived: Instant,
    counts: &mut Counts,
    reports: Option<&mut FrameReports>,
) {
    let (receiver, header) = match received {
        Received::Rtp {
            receiver, packet, ..
        } => (*receiver, packet.header),
        Received::Counted {
            receiver, header, ..
        } => (*receiver, *header),
        _ => return,
    };
    if header.marker {
        let timestamp = header.timestamp;
        note_delay(session, wall, receiver, timestamp, arrived, counts);
        let is_video = session.receivers().get(receiver.0);
        let is_video = is_video.is_some_and(|it| it.kind == Kind::Video);
        if let Some(reports) = reports.filter(|_| is_video) {
            reports.note(timestamp, arrived);
        }
    }
}

/// Records the delay of a frame whose last packet, of this receiver and with this timestamp, arrived
/// at `arrived`.
fn note_delay(
    session: &Session,
    wall: WallClock,
    receiver: ReceiverIndex,
    timestamp: u32,
    arrived: Instant,
    counts: &mut Counts,
) {
    let Some(receiver) = session.receivers().get(receiver.0) else {
        return;
    };
    if let (Kind::Video, Some(report)) = (receiver.kind, receiver.sender_time()) {
        let clock = SenderClock {
            ntp: report.ntp,
            rtp_timestamp: report.rtp_timestamp,
            rate: receiver.clock_rate(),
        };
        match clock.since(timestamp, wall, arrived) {
            Some(delay) => counts.record_delay(delay),
            None => {
                let other = counts.dropped.entry("delay on another calendar");
                *other.or_default() += 1;
            }
        }
    }
}
