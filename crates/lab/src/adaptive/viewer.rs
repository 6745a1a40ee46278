//! The receiving end: a real session, and a browser's assembly of frames behind it.

use std::time::{Duration, Instant};

use glassline_webrtc::{Dropped, Received, ReceiverIndex, Session};

use super::connection::{SERVER, VIEWER};
use super::decoder::Decoder;
use super::frame_tag::FrameTag;
use super::ledger::Ledger;

/// Time without a decoded frame after which a browser requests a keyframe (libwebrtc's
/// `kMaxWaitForFrame`), and the one before the first frame (`kMaxWaitForKeyFrame`).
const WAIT_FOR_FRAME: Duration = Duration::from_secs(3);
const WAIT_FOR_KEYFRAME: Duration = Duration::from_millis(200);

/// A viewer of the stream, as a browser receives it.
#[derive(Debug)]
pub(super) struct ViewerEnd {
    pub(super) session: Session,
    decoder: Decoder,
    start: Instant,
    /// Time of the latest decoded frame, or of the latest request for a keyframe.
    patience_from: Instant,
    has_begun: bool,
    receiver: Option<ReceiverIndex>,
}

impl ViewerEnd {
    /// Returns a viewer whose session is connected. `start`: start of the run; `now`: time of the join.
    pub(super) fn new(session: Session, start: Instant, now: Instant) -> Self {
        Self {
            session,
            decoder: Decoder::default(),
            start,
            patience_from: now,
            has_begun: false,
            receiver: None,
        }
    }

    /// Takes a datagram of the server; media and padding if `is_media`.
    pub(super) fn receive(
        &mut self,
        now: Instant,
        datagram: &mut [u8],
        is_media: bool,
        ledger: &mut Ledger,
    ) {
        let bytes = datagram.len() as u64;
        let received = self.session.handle_datagram(now, SERVER, VIEWER, datagram);
        match received {
            // An empty retransmission: padding.
            Ok(Received::Consumed) if is_media => {
                ledger.received_bytes += bytes;
                ledger.wasted_bytes += bytes;
            }
            Ok(Received::Rtp {
                receiver,
                sequence,
                packet,
                ..
            }) => {
                self.receiver = Some(receiver);
                ledger.received_bytes += bytes;
                let tag = FrameTag::read(packet.payload);
                if tag.is_none() {
                    ledger.wasted_bytes += bytes;
                }
                self.decoder.take(sequence, tag);
                self.decode(now, ledger);
            }
            Err(Dropped::Duplicate) => {
                ledger.received_bytes += bytes;
                ledger.wasted_bytes += bytes;
            }
            Ok(_) | Err(_) => {}
        }
    }

    fn decode(&mut self, now: Instant, ledger: &mut Ledger) {
        while let Some(decoded) = self.decoder.poll() {
            ledger.show(decoded, now - self.start);
            self.patience_from = now;
            self.has_begun = true;
        }
        ledger.abandoned = self.decoder.abandoned;
    }

    /// Does what is due: reports, requests for packets and keyframes.
    pub(super) fn handle_timeout(&mut self, now: Instant) {
        self.session.handle_timeout(now);
        if let Some(receiver) = self.receiver
            && (self.session.take_given_up(receiver) > 0 || self.is_impatient(now))
        {
            self.patience_from = now;
            self.session.request_keyframe(receiver, now);
        }
        while self.session.poll_event().is_some() {}
    }

    /// Returns whether a browser would ask for a keyframe, because it has shown nothing for long.
    fn is_impatient(&self, now: Instant) -> bool {
        self.decoder.is_stuck() && self.patience_ends() <= now
    }

    fn patience_ends(&self) -> Instant {
        self.patience_from
            + match self.has_begun {
                true => WAIT_FOR_FRAME,
                false => WAIT_FOR_KEYFRAME,
            }
    }

    /// Returns when [`handle_timeout`](Self::handle_timeout) is due.
    pub(super) fn due(&mut self) -> Option<Instant> {
        let patience = self.decoder.is_stuck().then(|| self.patience_ends());
        [self.session.poll_timeout(), patience]
            .into_iter()
            .flatten()
            .min()
    }
}
