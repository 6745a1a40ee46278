//! A session's data channels, as far as they touch its datagrams and its life.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::{Duration, Instant};

use super::{Counters, Lent, Viewer};
use crate::egress::webrtc::Route;
use crate::latency::DataView;
use crate::messages::{Exchange, Posted, Side};

/// While the socket is full, what waits for it is not asked for again before.
const RETRY: Duration = Duration::from_millis(1);

impl Viewer {
    /// It publishes messages, and watches nothing.
    pub(in crate::sessions) fn is_publisher(&self) -> bool {
        let messages = self.messages.as_ref();
        messages.is_some_and(|messages| messages.side() == Side::Publisher)
    }

    /// Where its messages pass, and which side it is on.
    pub(in crate::sessions) fn exchange(&self) -> Option<(&Arc<Exchange>, Side)> {
        let messages = self.messages.as_ref()?;
        Some((messages.exchange(), messages.side()))
    }

    /// The keys are there: if it publishes, nobody else does now.
    pub(super) fn begin_publishing(&self, now: Instant) {
        let messages = self.messages.as_ref();
        if let Some(messages) = messages.filter(|it| it.side() == Side::Publisher) {
            messages.begin_publishing(now);
        }
    }

    /// The datagrams that came together were all handed to the session.
    pub(in crate::sessions) fn end_batch(&mut self, now: Instant) {
        self.session.end_batch(now);
    }

    /// Takes what the other side posted; serving it sends that.
    pub(in crate::sessions) fn deliver(
        &mut self,
        posted: &[Arc<Posted>],
        now: Instant,
        counters: &Counters,
    ) {
        let Some(messages) = &mut self.messages else {
            return;
        };
        if messages.side() == Side::Publisher && self.permit.is_none() && !messages.is_publishing()
        {
            tracing::info!(session = %self.id, stream = %self.stream.name(), "publisher of messages replaced");
            self.session.close(now);
            return;
        }
        let Some(channels) = self.session.channels_mut() else {
            return;
        };
        for posted in posted {
            messages.deliver(posted, channels, now, &counters.data);
        }
    }

    /// What the peer said on its channels is passed on; what waits for it is sent.
    pub(super) fn serve_messages(&mut self, now: Instant, lent: &mut Lent<'_>) {
        while let (Some(messages), Some(channels)) =
            (&mut self.messages, self.session.channels_mut())
        {
            messages.handle_events(channels, now, &lent.counters.data);
            let moved =
                !lent.outbox.is_blocked() && messages.pump(channels, now, &lent.counters.data);
            self.transmit_data(now, lent);
            if !moved || lent.outbox.is_blocked() {
                break;
            }
        }
        self.show_messages(now, lent);
    }

    /// Control and records, as long as the socket takes them.
    fn transmit_data(&mut self, now: Instant, lent: &mut Lent<'_>) {
        while !lent.outbox.is_blocked() {
            let Some((destination, segment)) = self.session.poll_transmit_batch(now, lent.control)
            else {
                return;
            };
            if self.muted != Some(destination) {
                let route = self.route(destination);
                lent.outbox.send_segmented(lent.control, segment, route);
            }
        }
        // Checks and handshakes wait behind what the socket did not take.
        self.transmit_control(lent);
    }

    fn route(&self, destination: SocketAddr) -> Route {
        Route {
            destination,
            source: self.source,
        }
    }

    /// When it has to be served, if `due` is when all but its messages want it.
    pub(super) fn messages_deadline(
        &mut self,
        due: Option<Instant>,
        now: Instant,
        blocked: bool,
    ) -> Option<Instant> {
        let messages = self.messages.as_ref();
        let late = messages.and_then(|it| it.deadline());
        let shown = messages.filter(|_| self.joined);
        let shown = shown.and_then(|it| it.shown_again_at());
        let due = [due, late, shown].into_iter().flatten().min();
        match blocked {
            true => due.map(|at| at.max(now + RETRY)),
            false => due,
        }
    }

    /// Shows how its channels stand, once a second at the most.
    fn show_messages(&mut self, now: Instant, lent: &Lent<'_>) {
        let Some(messages) = self.messages.as_mut().filter(|_| self.joined) else {
            return;
        };
        if messages.shown_again_at().is_some_and(|at| at <= now) {
            let view = DataView::of(messages.side(), &messages.show(now));
            lent.board.show_data(self.stream.name(), &self.id, view);
        }
    }
}
