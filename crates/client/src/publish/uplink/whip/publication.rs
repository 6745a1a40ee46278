//! The publisher's end of a WebRTC session without sockets: packets and what limits them, feedback.

use std::time::{Duration, Instant};

use glassline_congestion::{Algorithm, Reception, ReportedRate};
use glassline_media::{Bitrate, PAYLOAD_BYTES_MAX};
use glassline_webrtc::{CloseReason, Event, Session};

use super::carrier::SessionCarrier;
use crate::publish::dispatch::Path;
use crate::publish::uplink::outgoing::Outgoing;
use crate::publish::uplink::{Feedback, Settings};

/// The session of a publisher, and what is under way in it.
#[derive(Debug)]
pub(super) struct Publication {
    pub(super) session: Session,
    pub(super) outgoing: Outgoing,
    /// The rate by receiver reports, for a server that takes no transport-wide feedback.
    reported: Option<ReportedRate>,
    /// The reason why the session is over.
    pub(super) ended: Option<CloseReason>,
    /// Whether the server asked for a keyframe.
    pub(super) keyframe_wanted: bool,
    /// Round-trip time by the latest receiver report.
    pub(super) round_trip: Option<Duration>,
    /// When a datagram of the server was accepted last.
    pub(super) heard: Option<Instant>,
    /// Whether the uplink is done with the session.
    pub(super) is_finished: bool,
    algorithm: Algorithm,
    /// Bitrate of the video at the beginning.
    start: Bitrate,
}

impl Publication {
    pub(super) fn new(session: Session, settings: &Settings) -> Self {
        Self {
            session,
            outgoing: Outgoing::repaired(),
            reported: None,
            ended: None,
            keyframe_wanted: false,
            round_trip: None,
            heard: None,
            is_finished: false,
            algorithm: settings.algorithm,
            start: settings.bitrate_start,
        }
    }

    /// Handles the session's events: a NACK is answered at once, by datagrams to `transmit`. Returns
    /// whether the session has just been connected.
    pub(super) fn attend(&mut self, now: Instant, transmit: &mut dyn FnMut(&[u8])) -> bool {
        let mut is_connected = false;
        while let Some(event) = self.session.poll_event() {
            match event {
                Event::Connected { .. } => {
                    is_connected = true;
                    self.choose_feedback(now);
                }
                Event::Nack { sender, lost, .. } => {
                    let (outgoing, mut carrier) = self.carrier(&mut *transmit);
                    outgoing.send_again(&mut carrier, sender.0, &lost, now);
                }
                Event::KeyframeRequest { .. } => self.keyframe_wanted = true,
                Event::ReceiverReport {
                    rtt,
                    sender,
                    fraction_lost,
                    ..
                } => {
                    self.round_trip = rtt.or(self.round_trip);
                    // The first track has most of the packets.
                    if let Some(reported) = &mut self.reported
                        && sender.0 == 0
                    {
                        let lost = f64::from(fraction_lost) / 256.0;
                        let round_trip = rtt;
                        reported.on_report(now, Reception { lost, round_trip });
                    }
                }
                Event::Closed(reason) => self.ended = Some(reason),
                _ => {}
            }
        }
        is_connected
    }

    /// Follows transport-wide feedback, or the receiver reports of a server that refuses it.
    fn choose_feedback(&mut self, now: Instant) {
        if self.session.enable_congestion_control(self.algorithm, now) {
            return;
        }
        tracing::warn!(
            "the WHIP server takes no transport-wide feedback (TWCC): the bitrate follows its receiver \
             reports, which are slower"
        );
        let mtu = PAYLOAD_BYTES_MAX as u64;
        self.reported = Some(ReportedRate::new(self.start, mtu));
    }

    /// Sends what may leave, by datagrams to `transmit`.
    pub(super) fn send(&mut self, now: Instant, transmit: &mut dyn FnMut(&[u8])) {
        if let Some(reported) = &mut self.reported {
            reported.handle_timeout(now);
        }
        let (outgoing, mut carrier) = self.carrier(transmit);
        outgoing.send(&mut carrier, now);
    }

    /// Returns when the session or the next packet is due.
    pub(super) fn poll_timeout(&mut self, now: Instant) -> Option<Instant> {
        let session = self.session.poll_timeout();
        let (outgoing, mut carrier) = self.carrier(|_: &[u8]| {});
        let due = outgoing.due(&mut carrier, now);
        [session, due].into_iter().flatten().min()
    }

    /// Returns the queue, and the session as its carrier, which hands datagrams to `transmit`.
    fn carrier<F: FnMut(&[u8])>(&mut self, transmit: F) -> (&mut Outgoing, SessionCarrier<'_, F>) {
        let carrier = SessionCarrier {
            session: &mut self.session,
            reported: self.reported.as_mut(),
            transmit,
        };
        (&mut self.outgoing, carrier)
    }

    /// Returns what tells this end about the path.
    pub(super) const fn feedback(&self) -> Feedback {
        match self.reported {
            Some(_) => Feedback::ReceiverReports,
            None => Feedback::TransportWide,
        }
    }

    /// Returns the measurements of the path.
    pub(super) fn path(&self) -> Path {
        let report = self.session.path_report();
        let senders = self.session.senders().iter();
        let reported = self.reported.as_ref().and_then(ReportedRate::deliverable);
        Path {
            backlog_bytes: self.outgoing.waiting_bytes()
                + report.as_ref().map_or(0, |it| it.in_flight),
            written_bytes_total: senders.map(|it| it.counts().payload_bytes).sum(),
            deliverable: report.as_ref().and_then(|it| it.deliverable).or(reported),
            app_limited: match &self.reported {
                // What was not tested is not believed to be carried.
                Some(_) => false,
                None => report.as_ref().is_none_or(|it| it.app_limited),
            },
            policed: report.as_ref().is_some_and(|it| it.policed),
        }
    }
}
