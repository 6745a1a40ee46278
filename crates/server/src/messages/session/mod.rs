//! The data channels of one session: what waits for its peer, and what the peer says.
//!
//! ```text
//!  Inbox ─► deliver ─► Outlet: queue of a channel ─► pump ─► Channels ─► datagrams
//!  Exchange ◄────────── handle_events ◄──────────────────── Channels
//! ```
//!
//! Messages are shared; a session's queue holds references. Towards a viewer the channel
//! is its own of the same label, else one that is opened for it with the first message,
//! like the publisher's. Towards the publisher there are only channels that it opened
//! itself: what viewers call theirs makes nothing there. Nor between two participants of
//! a room: what both opened leads from one to the other.
//!
//! Who takes less than comes is not waited for. On a channel with partial reliability the
//! oldest messages fall out; a reliable one keeps its promise or ends: it is closed, so
//! that the peer sees where the gap is, and opened anew when closing is done.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::{Duration, Instant};

use glassline_sctp as sctp;
use sctp::channel::{ChannelId, Channels, ClosedBy, Event, Init, Limits, Message, SendError};
use sctp::{Reliability, SendError as AssociationError};

use super::{Bounds, DataCounters, DataStats, Exchange, Posted, Side, Tally, What};
use crate::runtime::{Counter, SessionId, TokenBucket};

/// Unsent bytes of a channel in the association: enough for some batches of datagrams.
/// The rest stays in the queue, where it can still be dropped.
const HANDED_OVER_BYTES: usize = 64 << 10;

/// How often what passes is shown: all shards share one board.
const SHOWN: Duration = Duration::from_secs(1);

/// Bytes of labels and protocols that a peer may make us keep.
const NAMES_BYTES_MAX: usize = 4 << 10;

/// What a viewer that may only read can send before it is told so by silence.
const READER_MESSAGE_BYTES: usize = 16 << 10;

/// The data half of a session, as the shard has it.
#[derive(Debug)]
pub(crate) struct Messages {
    session: SessionId,
    side: Side,
    /// What it says is passed on.
    speaks: bool,
    exchange: Arc<Exchange>,
    bounds: Bounds,
    /// The association stands.
    is_up: bool,
    /// The number that is due, once one has come.
    expected: Option<u64>,
    outlets: Vec<Outlet>,
    queued_bytes: usize,
    /// Labels of channels that the viewer closed: it does not want them opened again.
    declined: Vec<String>,
    allowance: TokenBucket,
    tally: Tally,
    /// How it stood when it was shown last, and when that was.
    shown: Option<(Instant, DataStats)>,
    created: Instant,
}

/// A channel, and what waits to be sent on it.
#[derive(Debug)]
struct Outlet {
    channel: ChannelId,
    init: Arc<Init>,
    /// We opened it.
    is_ours: bool,
    /// We are closing it, for want of room.
    is_closing: bool,
    queue: VecDeque<Arc<Posted>>,
}

impl Messages {
    /// For a session on one `side`; what it says is passed on if it `speaks`.
    pub(crate) fn new(
        session: SessionId,
        side: Side,
        speaks: bool,
        exchange: Arc<Exchange>,
        bounds: Bounds,
        now: Instant,
    ) -> Self {
        Self {
            session,
            side,
            speaks,
            exchange,
            bounds,
            is_up: false,
            expected: None,
            outlets: Vec::new(),
            queued_bytes: 0,
            declined: Vec::new(),
            allowance: {
                // A second's worth at once.
                let per_s = f64::from(bounds.messages_per_s);
                TokenBucket::new(per_s, per_s)
            },
            tally: Tally::default(),
            shown: None,
            created: now,
        }
    }

    /// How the session's association is to be.
    pub(crate) fn config(speaks: bool, bounds: &Bounds) -> glassline_webrtc::DataConfig {
        let heard = if speaks {
            bounds.message_bytes
        } else {
            bounds.message_bytes.min(READER_MESSAGE_BYTES)
        };
        // Messages are read as they come: a window is for what is under way.
        let window = u32::try_from(2 * heard).unwrap_or(u32::MAX).max(128 << 10);
        glassline_webrtc::DataConfig {
            association: sctp::Config {
                max_message_size: heard,
                receive_window_min: window,
                receive_window_max: window,
                send_buffer_max: (2 * bounds.message_bytes).max(1 << 20),
                ..sctp::Config::default()
            },
            limits: Limits {
                channels_max: 2 * bounds.channels,
                names_max: NAMES_BYTES_MAX,
                parts_max: heard,
            },
            ..glassline_webrtc::DataConfig::default()
        }
    }

    pub(crate) fn side(&self) -> Side {
        self.side
    }

    pub(crate) fn exchange(&self) -> &Arc<Exchange> {
        &self.exchange
    }

    /// It is the one that publishes.
    fn is_publishing(&self) -> bool {
        self.exchange.is_publisher(&self.session)
    }

    pub(crate) fn standing(&self) -> DataStats {
        DataStats {
            channels: self.outlets.len(),
            queued_bytes: self.queued_bytes,
            tally: self.tally,
        }
    }

    /// How it stands, to be shown now.
    pub(crate) fn show(&mut self, now: Instant) -> DataStats {
        let standing = self.standing();
        self.shown = Some((now, standing));
        standing
    }

    /// When what is shown may be renewed; `None` while it is right.
    pub(crate) fn shown_again_at(&self) -> Option<Instant> {
        match self.shown {
            Some((_, shown)) if shown == self.standing() => None,
            Some((at, _)) => Some(at + SHOWN),
            None => Some(self.created),
        }
    }

    /// Takes what the peer did and said.
    pub(crate) fn handle_events(
        &mut self,
        channels: &mut Channels,
        now: Instant,
        counters: &DataCounters,
    ) {
        while let Some(event) = channels.poll_event(now) {
            match event {
                Event::Connected => {
                    self.is_up = true;
                    self.expected = None;
                }
                Event::Opened {
                    channel,
                    by_peer: true,
                } => self.on_opened(channel, channels, now),
                Event::Message { channel, message } => {
                    self.on_message(channel, message, now, counters);
                }
                Event::Closed { channel, by } => self.on_closed(channel, by, now),
                Event::Refused { stream, why } => {
                    counters.channel_faults.add(1);
                    tracing::info!(session = %self.session, stream, %why, "data channel refused");
                }
                Event::Ended(reason) => {
                    self.is_up = false;
                    self.outlets.clear();
                    self.queued_bytes = 0;
                    tracing::info!(session = %self.session, %reason, "data channels ended");
                }
                _ => {}
            }
        }
    }

    fn on_opened(&mut self, channel: ChannelId, channels: &mut Channels, now: Instant) {
        let Some(info) = channels.info(channel) else {
            return;
        };
        let init = Arc::new(info.init.clone());
        let theirs = self.outlets.iter().filter(|it| !it.is_ours).count();
        if theirs >= self.bounds.channels {
            channels.close(channel, now);
            return;
        }
        self.declined.retain(|label| *label != init.label);
        // It says how it wants this label: what waits goes there, and ours goes.
        let mut queue = VecDeque::new();
        let alike = |it: &&mut Outlet| it.is_ours && !it.is_closing && it.init.label == init.label;
        for ours in self.outlets.iter_mut().filter(alike) {
            queue.append(&mut ours.queue);
            ours.is_closing = true;
            channels.close(ours.channel, now);
        }
        self.outlets.push(Outlet {
            channel,
            init,
            is_ours: false,
            is_closing: false,
            queue,
        });
    }

    fn on_message(
        &mut self,
        channel: ChannelId,
        message: Message,
        now: Instant,
        counters: &DataCounters,
    ) {
        self.tally.messages_received += 1;
        self.tally.bytes_received += message.data.len() as u64;
        counters.messages_received.add(1);
        counters
            .message_bytes_received
            .add(message.data.len() as u64);
        let Some(outlet) = self.outlets.iter().find(|it| it.channel == channel) else {
            return self.drop_one(&counters.messages_dropped_no_channel);
        };
        let may = match self.side {
            Side::Publisher => self.is_publishing(),
            Side::Viewers => self.speaks,
            Side::First | Side::Second => true,
        };
        if !may {
            return self.drop_one(&counters.messages_dropped_not_allowed);
        }
        if self.side != Side::Publisher && !self.allowance.take(now) {
            return self.drop_one(&counters.messages_dropped_too_fast);
        }
        let channel = Arc::clone(&outlet.init);
        let what = What::Message { channel, message };
        let is_heard = self.exchange.post(self.side.other(), what, now);
        if self.side != Side::Publisher && !is_heard {
            self.drop_one(&counters.messages_dropped_no_channel);
        }
    }

    fn on_closed(&mut self, channel: ChannelId, by: ClosedBy, now: Instant) {
        let place = self.outlets.iter().position(|it| it.channel == channel);
        let Some(outlet) = place.map(|place| self.outlets.remove(place)) else {
            return;
        };
        self.queued_bytes -= outlet.queued_bytes();
        if by != ClosedBy::Peer {
            return;
        }
        match self.side {
            Side::Publisher => {
                self.exchange
                    .post(Side::Viewers, What::Closed(outlet.init), now);
            }
            Side::Viewers if self.declined.len() < self.bounds.channels => {
                self.declined.push(outlet.init.label.clone());
            }
            Side::Viewers | Side::First | Side::Second => {}
        }
    }

    /// Takes something that the other side posted; [`pump`](Self::pump) sends it.
    pub(crate) fn deliver(
        &mut self,
        posted: &Arc<Posted>,
        channels: &mut Channels,
        now: Instant,
        counters: &DataCounters,
    ) {
        if !self.is_up {
            return;
        }
        let expected = self.expected.replace(posted.number + 1);
        if expected.is_some_and(|expected| posted.number < expected) {
            // Taken by the shard that had the session before.
            self.expected = expected;
            return;
        }
        if expected.is_some_and(|expected| posted.number > expected) {
            self.break_promises(channels, now, counters);
        }
        match &posted.what {
            What::Message { channel, message } => {
                let limit = channels.peer_max_message_size();
                if limit.is_some_and(|limit| message.data.len() as u64 > limit) {
                    return self.drop_one(&counters.messages_dropped_too_large);
                }
                match self.outlet_for(channel, channels, now) {
                    Ok(place) => self.queue(place, posted, channels, now, counters),
                    Err(Unsendable::Closing) => self.drop_one(&counters.messages_dropped_slow),
                    Err(Unsendable::NoChannel) => {
                        self.drop_one(&counters.messages_dropped_no_channel);
                    }
                }
            }
            What::Closed(init) => {
                let closed = |it: &&mut Outlet| it.is_ours && !it.is_closing && *it.init == **init;
                if let Some(outlet) = self.outlets.iter_mut().find(closed) {
                    outlet.is_closing = true;
                    // What waits still goes, as it does where a channel is closed.
                    let queue = std::mem::take(&mut outlet.queue);
                    let channel = outlet.channel;
                    for posted in &queue {
                        self.queued_bytes -= posted.what.bytes();
                        if self.send(channel, posted, channels, now, counters).is_err() {
                            self.drop_one(&counters.messages_dropped_slow);
                        }
                    }
                    channels.close(channel, now);
                }
            }
            What::TakenOver => {}
        }
    }

    /// The channel that messages of a channel like `init` go out on.
    fn outlet_for(
        &mut self,
        init: &Arc<Init>,
        channels: &mut Channels,
        now: Instant,
    ) -> Result<usize, Unsendable> {
        let fits = |it: &Outlet| match it.is_ours {
            true => *it.init == **init,
            false => it.init.label == init.label,
        };
        let places = self.outlets.iter().enumerate().filter(|(_, it)| fits(it));
        // One that stays before one that goes, the peer's before ours.
        let best = places.min_by_key(|(_, it)| (it.is_closing, it.is_ours));
        match best {
            Some((_, outlet)) if outlet.is_closing => return Err(Unsendable::Closing),
            Some((place, _)) => return Ok(place),
            None => {}
        }
        let ours = self.outlets.iter().filter(|it| it.is_ours).count();
        if self.side != Side::Viewers
            || ours >= self.bounds.channels
            || self.declined.contains(&init.label)
        {
            return Err(Unsendable::NoChannel);
        }
        let wanted = Init {
            negotiated: None,
            ..Init::clone(init)
        };
        let opened = channels.open(wanted, now);
        let channel = opened.map_err(|_| Unsendable::NoChannel)?;
        self.outlets.push(Outlet {
            channel,
            init: Arc::clone(init),
            is_ours: true,
            is_closing: false,
            queue: VecDeque::new(),
        });
        Ok(self.outlets.len() - 1)
    }

    /// Appends to a channel's queue, and keeps the bound on all of them.
    fn queue(
        &mut self,
        place: usize,
        posted: &Arc<Posted>,
        channels: &mut Channels,
        now: Instant,
        counters: &DataCounters,
    ) {
        let bytes = posted.what.bytes();
        let bound = self.bounds.queue_bytes;
        while self.queued_bytes + bytes > bound && !self.outlets[place].queue.is_empty() {
            if self.outlets[place].is_reliable() {
                return self.give_up(place, channels, now, counters);
            }
            self.drop_oldest(place, &counters.messages_dropped_slow);
        }
        if self.queued_bytes + bytes > bound && self.queued_bytes > 0 {
            // Other channels have taken the room.
            if self.outlets[place].is_reliable() {
                return self.give_up(place, channels, now, counters);
            }
            return self.drop_one(&counters.messages_dropped_slow);
        }
        self.queued_bytes += bytes;
        self.outlets[place].queue.push_back(Arc::clone(posted));
    }

    /// Hands the association what it has room for, channels in turn; whether that was
    /// anything.
    pub(crate) fn pump(
        &mut self,
        channels: &mut Channels,
        now: Instant,
        counters: &DataCounters,
    ) -> bool {
        let mut moved = false;
        for place in 0..self.outlets.len() {
            self.expire(place, channels, now, counters);
            let channel = self.outlets[place].channel;
            while channels.buffered_amount(channel) < HANDED_OVER_BYTES
                && let Some(posted) = self.outlets[place].queue.front().cloned()
            {
                match self.send(channel, &posted, channels, now, counters) {
                    Ok(()) => moved = true,
                    Err(SendError::TooLarge { .. }) => {
                        self.drop_one(&counters.messages_dropped_too_large);
                    }
                    // There will be room, or the channel's end is about to be heard of.
                    Err(_) => break,
                }
                self.outlets[place].queue.pop_front();
                self.queued_bytes -= posted.what.bytes();
            }
        }
        moved
    }

    /// What has waited too long goes; if that breaks a promise, the channel does.
    fn expire(
        &mut self,
        place: usize,
        channels: &mut Channels,
        now: Instant,
        counters: &DataCounters,
    ) {
        let age = self.outlets[place].age_max(&self.bounds);
        let late = |posted: &Arc<Posted>| now.saturating_duration_since(posted.at) > age;
        while self.outlets[place].queue.front().is_some_and(late) {
            if self.outlets[place].is_reliable() {
                return self.give_up(place, channels, now, counters);
            }
            self.drop_oldest(place, &counters.messages_dropped_expired);
        }
    }

    /// When something in a queue will have waited too long.
    pub(crate) fn deadline(&self) -> Option<Instant> {
        let due = |outlet: &Outlet| {
            let oldest = outlet.queue.front()?;
            oldest.at.checked_add(outlet.age_max(&self.bounds))
        };
        // A little later: at that very moment nothing is too old yet.
        let due = self.outlets.iter().filter_map(due).min();
        due.map(|at| at + Duration::from_millis(1))
    }

    /// Something was missed on the way here: what was promised is broken.
    fn break_promises(&mut self, channels: &mut Channels, now: Instant, counters: &DataCounters) {
        for place in 0..self.outlets.len() {
            let outlet = &self.outlets[place];
            if outlet.is_reliable() && !outlet.is_closing {
                self.give_up(place, channels, now, counters);
            }
        }
    }

    /// Closes a reliable channel whose peer takes too little.
    fn give_up(
        &mut self,
        place: usize,
        channels: &mut Channels,
        now: Instant,
        counters: &DataCounters,
    ) {
        let outlet = &mut self.outlets[place];
        let bytes = outlet.queued_bytes();
        let dropped = std::mem::take(&mut outlet.queue).len() as u64;
        outlet.is_closing = true;
        channels.close(outlet.channel, now);
        self.queued_bytes -= bytes;
        self.tally.dropped += dropped;
        counters.messages_dropped_slow.add(dropped);
        counters.channels_closed_slow.add(1);
        tracing::info!(
            session = %self.session,
            label = outlet.init.label,
            dropped,
            "data channel closed: its peer takes less than is sent, and it was to miss nothing"
        );
    }

    fn send(
        &mut self,
        channel: ChannelId,
        posted: &Posted,
        channels: &mut Channels,
        now: Instant,
        counters: &DataCounters,
    ) -> Result<(), SendError> {
        let What::Message { message, .. } = &posted.what else {
            return Ok(());
        };
        let sent = channels.send(channel, message.clone(), now);
        if let Err(SendError::Association(AssociationError::BufferFull { .. })) = sent {
            return sent;
        }
        if sent.is_ok() {
            self.tally.messages_sent += 1;
            self.tally.bytes_sent += message.data.len() as u64;
            counters.messages_sent.add(1);
            counters.message_bytes_sent.add(message.data.len() as u64);
        }
        sent
    }

    fn drop_oldest(&mut self, place: usize, counter: &Counter) {
        if let Some(oldest) = self.outlets[place].queue.pop_front() {
            self.queued_bytes -= oldest.what.bytes();
            self.drop_one(counter);
        }
    }

    fn drop_one(&mut self, counter: &Counter) {
        self.tally.dropped += 1;
        counter.add(1);
    }
}

/// Why a message is not queued.
#[derive(Clone, Copy, Debug)]
enum Unsendable {
    /// The channel for it is being closed; then another may be opened.
    Closing,
    /// There is none, and there shall be none.
    NoChannel,
}

impl Outlet {
    fn is_reliable(&self) -> bool {
        self.init.reliability == Reliability::Reliable
    }

    fn queued_bytes(&self) -> usize {
        self.queue.iter().map(|posted| posted.what.bytes()).sum()
    }

    /// How long a message may wait.
    fn age_max(&self, bounds: &Bounds) -> Duration {
        match self.init.reliability {
            Reliability::Timed { lifetime } => lifetime.min(bounds.queue_age),
            _ => bounds.queue_age,
        }
    }
}

#[cfg(test)]
mod tests;
