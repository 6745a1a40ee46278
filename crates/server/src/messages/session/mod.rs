//! The data channels of one session: what waits for its peer, and what the peer says.
//!
//! ```text
//!  Inbox ─► deliver ─► ChannelQueue ─► pump ─► Channels ─► datagrams
//!  MessageBroker ◄────────── handle_events ◄──────────────────── Channels
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

mod queues;

use std::sync::Arc;
use std::time::{Duration, Instant};

use glassline_sctp as sctp;
use sctp::channel::{ChannelId, Channels, ClosedBy, Event, Limits, Message};

use super::{Bounds, DataCounters, DataStats, MessageBroker, Posted, Side, What};
use crate::runtime::{SessionId, TokenBucket};
use queues::{ChannelQueues, Unsendable};

/// How often what passes is shown: all shards share one board.
const SHOWN: Duration = Duration::from_secs(1);

/// Bytes of labels and protocols that a peer may make us keep.
const NAMES_BYTES_MAX: usize = 4 << 10;

/// What a viewer that may only read can send before it is told so by silence.
const READER_MESSAGE_BYTES: usize = 16 << 10;

/// The data half of a session, as the shard has it.
#[derive(Debug)]
pub(crate) struct Messages {
    side: Side,
    /// What it says is passed on.
    speaks: bool,
    broker: Arc<MessageBroker>,
    /// The association stands.
    is_up: bool,
    /// The number that is due, once one has come.
    expected: Option<u64>,
    queues: ChannelQueues,
    allowance: TokenBucket,
    /// How it stood when it was shown last, and when that was.
    shown: Option<(Instant, DataStats)>,
    created: Instant,
}

impl Messages {
    /// For a session on one `side`; what it says is passed on if it `speaks`.
    pub(crate) fn new(
        session: SessionId,
        side: Side,
        speaks: bool,
        broker: Arc<MessageBroker>,
        bounds: Bounds,
        now: Instant,
    ) -> Self {
        Self {
            side,
            speaks,
            broker,
            is_up: false,
            expected: None,
            queues: ChannelQueues::new(session, bounds),
            allowance: {
                // A second's worth at once.
                let per_s = f64::from(bounds.messages_per_s);
                TokenBucket::new(per_s, per_s)
            },
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

    pub(crate) fn broker(&self) -> &Arc<MessageBroker> {
        &self.broker
    }

    /// It is the one that publishes.
    fn is_publishing(&self) -> bool {
        self.broker.is_publisher(&self.queues.session)
    }

    /// How it stands, to be shown now.
    pub(crate) fn show(&mut self, now: Instant) -> DataStats {
        let standing = self.queues.standing();
        self.shown = Some((now, standing));
        standing
    }

    /// When what is shown may be renewed; `None` while it is right.
    pub(crate) fn shown_again_at(&self) -> Option<Instant> {
        match self.shown {
            Some((_, shown)) if shown == self.queues.standing() => None,
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
                } => self.queues.on_opened(channel, channels, now),
                Event::Message { channel, message } => {
                    self.on_message(channel, message, now, counters);
                }
                Event::Closed { channel, by } => self.on_closed(channel, by, now),
                Event::Refused { stream, why } => {
                    counters.channel_faults.add(1);
                    tracing::info!(session = %self.queues.session, stream, %why, "data channel refused");
                }
                Event::Ended(reason) => {
                    self.is_up = false;
                    self.queues.clear();
                    tracing::info!(session = %self.queues.session, %reason, "data channels ended");
                }
                _ => {}
            }
        }
    }

    fn on_message(
        &mut self,
        channel: ChannelId,
        message: Message,
        now: Instant,
        counters: &DataCounters,
    ) {
        self.queues.tally.messages_received += 1;
        self.queues.tally.bytes_received += message.data.len() as u64;
        counters.messages_received.add(1);
        counters
            .message_bytes_received
            .add(message.data.len() as u64);
        let Some(queue) = self.queues.of(channel) else {
            return self.queues.drop_one(&counters.messages_dropped_no_channel);
        };
        let may = match self.side {
            Side::Publisher => self.is_publishing(),
            Side::Viewers => self.speaks,
            Side::First | Side::Second => true,
        };
        if !may {
            return self.queues.drop_one(&counters.messages_dropped_not_allowed);
        }
        if self.side != Side::Publisher && !self.allowance.take(now) {
            return self.queues.drop_one(&counters.messages_dropped_too_fast);
        }
        let channel = Arc::clone(&queue.init);
        let what = What::Message { channel, message };
        let is_heard = self.broker.post(self.side.other(), what, now);
        if self.side != Side::Publisher && !is_heard {
            self.queues.drop_one(&counters.messages_dropped_no_channel);
        }
    }

    fn on_closed(&mut self, channel: ChannelId, by: ClosedBy, now: Instant) {
        let Some(queue) = self.queues.remove(channel) else {
            return;
        };
        if by != ClosedBy::Peer {
            return;
        }
        match self.side {
            Side::Publisher => {
                self.broker
                    .post(Side::Viewers, What::Closed(queue.init), now);
            }
            Side::Viewers => self.queues.decline(&queue.init.label),
            Side::First | Side::Second => {}
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
            self.queues.break_promises(channels, now, counters);
        }
        match &posted.what {
            What::Message { channel, message } => {
                let limit = channels.peer_max_message_size();
                if limit.is_some_and(|limit| message.data.len() as u64 > limit) {
                    return self.queues.drop_one(&counters.messages_dropped_too_large);
                }
                let may_open = self.side == Side::Viewers;
                match self.queues.place_for(channel, channels, now, may_open) {
                    Ok(place) => self.queues.push(place, posted, channels, now, counters),
                    Err(Unsendable::Closing) => {
                        self.queues.drop_one(&counters.messages_dropped_slow);
                    }
                    Err(Unsendable::NoChannel) => {
                        self.queues.drop_one(&counters.messages_dropped_no_channel);
                    }
                }
            }
            What::Closed(init) => {
                self.queues.close_like(init, channels, now, counters);
            }
            What::TakenOver => {}
        }
    }

    /// Hands the association what it has room for, channels in turn; whether that was
    /// anything.
    pub(crate) fn pump(
        &mut self,
        channels: &mut Channels,
        now: Instant,
        counters: &DataCounters,
    ) -> bool {
        self.queues.pump(channels, now, counters)
    }

    /// When something in a queue will have waited too long.
    pub(crate) fn deadline(&self) -> Option<Instant> {
        self.queues.deadline()
    }
}

#[cfg(test)]
mod tests;
