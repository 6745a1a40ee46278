//! The data channels of one session: the messages that wait for its peer, and those that the peer
//! sends.
//!
//! ```text
//!  Inbox ─► deliver ─► ChannelQueue ─► pump ─► Channels ─► datagrams
//!  MessageBroker ◄────────── handle_events ◄──────────────────── Channels
//! ```
//!
//! Messages are shared; a session's queue holds references. For a viewer, a message goes out on the
//! viewer's own channel with the label of the publisher's channel. If the viewer has none, the
//! server opens one like the publisher's with the first message. For the publisher there are only
//! the channels that it opened itself: labels of viewers create nothing there. The same is true
//! between two participants of a room: a channel that both opened connects them.
//!
//! A peer that receives too slowly is not waited for. On a channel with partial reliability the
//! oldest messages are dropped. A reliable channel that would lose a message is closed, so that the
//! peer sees where the gap is, and opened again when closing is done.
//!
//! Viewers share what may wait for the publisher. Where that is full, the viewer with most of it loses messages
//! and its reliable channel, and the publisher's channel stays open for the others.

mod queues;

use std::sync::Arc;
use std::time::{Duration, Instant};

use glassline_runtime::{SessionId, TokenBucket};
use glassline_sctp as sctp;
use sctp::channel::{ChannelId, Channels, ClosedBy, Event, Limits, Message};

use super::sender::Sender;
use super::{Bounds, DataCounters, DataStats, MessageBroker, Order, Posted, PostedContent, Side};
use queues::{ChannelQueues, SendRefusal};

/// Interval at which the statistics are published. All shards share one registry, so this must not
/// be too often.
const SHOWN: Duration = Duration::from_secs(1);

/// Time from the end of the handshake in which SCTP must be established: it takes two round trips, and
/// three lost packets in a row cost 7 s.
const OPENING_MAX: Duration = Duration::from_secs(10);

/// Most bytes of labels and protocols that the server keeps for a peer.
const NAMES_BYTES_MAX: usize = 4 << 10;

/// Largest message of a viewer that may only read, in bytes. Such messages are received and
/// dropped.
const READER_MESSAGE_BYTES: usize = 16 << 10;

/// How far the SCTP association of a session has come.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Association {
    /// The handshake is not done.
    Opening,
    /// Messages can be sent.
    Established,
    /// The association ended before it was established, for this reason.
    Refused(Box<str>),
    /// The association ended after it had been established.
    Ended,
}

impl Association {
    /// Notes the end. One that this end made, or the session's, tells nothing new of an association
    /// that was not established.
    fn end(&mut self, reason: &sctp::CloseReason) {
        use sctp::CloseReason::{Aborted, Disconnected};
        *self = match self {
            Self::Opening if matches!(reason, Aborted | Disconnected) => Self::Opening,
            Self::Opening => Self::Refused(reason.to_string().into()),
            _ => Self::Ended,
        };
    }
}

/// The data channels of one session, as its shard has them.
#[derive(Debug)]
pub struct Messages {
    side: Side,
    /// Whether messages from the peer are passed on.
    may_send: bool,
    broker: Arc<MessageBroker>,
    association: Association,
    /// Number of the next posted message, once one has come.
    expected: Option<u64>,
    queues: ChannelQueues,
    allowance: TokenBucket,
    /// The peer as one of those whose messages wait for a publisher.
    sender: Arc<Sender>,
    /// The statistics that were published last, and when.
    shown: Option<(Instant, DataStats)>,
    created: Instant,
    /// When the session was connected, so that SCTP could begin; `None` before.
    connected: Option<Instant>,
    /// Whether it was told that the association is not established.
    is_told: bool,
}

impl Messages {
    /// Time from the end of the handshake after which a refused association is told of. A client that
    /// leaves at once refuses it, too, just before it closes the session.
    pub const REFUSAL_TOLD: Duration = Duration::from_secs(1);

    /// Creates the channels of a session on `side`. Messages from the peer are passed on if it
    /// `may_send`.
    pub fn new(
        session: SessionId,
        side: Side,
        may_send: bool,
        broker: Arc<MessageBroker>,
        bounds: Bounds,
        now: Instant,
    ) -> Self {
        Self {
            side,
            may_send,
            broker,
            association: Association::Opening,
            expected: None,
            queues: ChannelQueues::new(session, bounds),
            sender: Arc::default(),
            allowance: {
                // A second's worth of messages may come at once.
                let per_s = f64::from(bounds.messages_per_s);
                TokenBucket::new(per_s, per_s)
            },
            shown: None,
            created: now,
            connected: None,
            is_told: false,
        }
    }

    /// Notes that the session is connected, from which on the association is to be established soon.
    pub fn connected(&mut self, now: Instant) {
        self.connected.get_or_insert(now);
    }

    /// Returns the time since the session was connected; zero before.
    pub fn waited(&self, now: Instant) -> Duration {
        let since = self.connected.map(|at| now.saturating_duration_since(at));
        since.unwrap_or_default()
    }

    /// Returns when it is to be told that the association is not established; `None` if it is or was,
    /// if that was told, or before the session is connected.
    fn due(&self) -> Option<Instant> {
        let wait = match self.association {
            Association::Opening => OPENING_MAX,
            Association::Refused(_) => Self::REFUSAL_TOLD,
            Association::Established | Association::Ended => return None,
        };
        self.connected.filter(|_| !self.is_told).map(|at| at + wait)
    }

    /// Returns whether it is to be told now that the association is not established.
    pub fn is_overdue(&self, now: Instant) -> bool {
        self.due().is_some_and(|due| due <= now)
    }

    /// Returns whether it was told that the association is not established.
    pub fn is_told(&self) -> bool {
        self.is_told
    }

    /// Remembers that it was told: once is enough.
    pub fn set_told(&mut self) {
        self.is_told = true;
    }

    /// Returns the configuration of the session's SCTP association.
    pub fn config(may_send: bool, bounds: &Bounds) -> glassline_webrtc::DataConfig {
        let heard = if may_send {
            bounds.message_bytes
        } else {
            bounds.message_bytes.min(READER_MESSAGE_BYTES)
        };
        // Messages are read as they come: the window is only for data under way.
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

    /// Returns whether the SCTP association is or was established, or else how it ended, if it has.
    pub fn association(&self) -> &Association {
        &self.association
    }

    /// Returns the side of the broker that the session is on.
    pub fn side(&self) -> Side {
        self.side
    }

    /// Returns the broker that the session gets its messages from.
    pub fn broker(&self) -> &Arc<MessageBroker> {
        &self.broker
    }

    /// Returns whether the session is the publisher.
    fn is_publishing(&self) -> bool {
        self.broker.is_publisher(&self.queues.session)
    }

    /// Returns the statistics, to be published now.
    pub fn show(&mut self, now: Instant) -> DataStats {
        let stats = self.queues.stats();
        self.shown = Some((now, stats));
        stats
    }

    /// Returns when the statistics may be published again; `None` if they have not changed.
    pub fn shown_again_at(&self) -> Option<Instant> {
        match self.shown {
            Some((_, shown)) if shown == self.queues.stats() => None,
            Some((at, _)) => Some(at + SHOWN),
            None => Some(self.created),
        }
    }

    /// Handles the events of the peer's channels and passes its messages on.
    pub fn handle_events(
        &mut self,
        channels: &mut Channels,
        now: Instant,
        counters: &DataCounters,
    ) {
        while let Some(event) = channels.poll_event(now) {
            match event {
                Event::Connected => {
                    self.association = Association::Established;
                    self.expected = None;
                }
                Event::Opened {
                    channel,
                    by_peer: true,
                } => self.queues.on_opened(channel, channels, now),
                Event::Message { channel, message } => {
                    self.on_message(channel, message, now, counters);
                    if let Some(cut) = self.sender.take_cut() {
                        self.queues.close_cut(&cut, channels, now, counters);
                    }
                }
                Event::Closed { channel, by } => self.on_closed(channel, by, now),
                Event::Refused { stream, why } => {
                    counters.channel_faults.add(1);
                    tracing::info!(session = %self.queues.session, stream, %why, "data channel refused");
                }
                Event::Ended(reason) => {
                    self.association.end(&reason);
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
        self.queues.counts.messages_received += 1;
        self.queues.counts.bytes_received += message.data.len() as u64;
        counters.messages_received.add(1);
        counters
            .message_bytes_received
            .add(message.data.len() as u64);
        let Some(queue) = self.queues.of(channel) else {
            return self.queues.drop_one(&counters.messages_dropped_no_channel);
        };
        let may = match self.side {
            Side::Publisher => self.is_publishing(),
            Side::Viewers => self.may_send,
            Side::First | Side::Second => true,
        };
        if !may {
            return self.queues.drop_one(&counters.messages_dropped_not_allowed);
        }
        if self.side != Side::Publisher && !self.allowance.take(now) {
            return self.queues.drop_one(&counters.messages_dropped_too_fast);
        }
        let channel = Arc::clone(&queue.init);
        let content = PostedContent::Message { channel, message };
        let order = Order {
            sender: (self.side == Side::Viewers).then(|| Arc::clone(&self.sender)),
            ..Order::default()
        };
        let has_receiver = self.broker.pass_on(self.side.other(), order, content, now);
        if self.side != Side::Publisher && !has_receiver {
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
                    .post(Side::Viewers, PostedContent::Closed(queue.init), now);
            }
            Side::Viewers => self.queues.decline(&queue.init.label),
            Side::First | Side::Second => {}
        }
    }

    /// Queues something that the other side posted; [`pump`](Self::pump) sends it.
    pub fn deliver(
        &mut self,
        posted: &Arc<Posted>,
        channels: &mut Channels,
        now: Instant,
        counters: &DataCounters,
    ) {
        if self.association != Association::Established {
            return;
        }
        let expected = self.expected.replace(posted.number + 1);
        if expected.is_some_and(|expected| posted.number < expected) {
            // The shard that owned the session before has delivered it already.
            self.expected = expected;
            return;
        }
        if expected.is_some_and(|expected| posted.number > expected) {
            self.queues.break_promises(channels, now, counters);
        }
        match &posted.content {
            PostedContent::Message { channel, message } => {
                let limit = channels.peer_max_message_size();
                if limit.is_some_and(|limit| message.data.len() as u64 > limit) {
                    return self.queues.drop_one(&counters.messages_dropped_too_large);
                }
                let may_open = self.side == Side::Viewers;
                match self.queues.channel_for(channel, channels, now, may_open) {
                    Ok(index) => self.queues.push(index, posted, channels, now, counters),
                    Err(SendRefusal::Closing) => {
                        self.queues.drop_one(&counters.messages_dropped_slow);
                    }
                    Err(SendRefusal::NoChannel) => {
                        self.queues.drop_one(&counters.messages_dropped_no_channel);
                    }
                }
            }
            PostedContent::Closed(init) => {
                self.queues.close_like(init, channels, now, counters);
            }
            PostedContent::TakenOver => {}
        }
    }

    /// Hands the association the messages that it has room for, the channels in turn. Returns
    /// whether there were any.
    pub fn pump(&mut self, channels: &mut Channels, now: Instant, counters: &DataCounters) -> bool {
        self.queues.pump(channels, now, counters)
    }

    /// Returns when a queued message will have waited too long, or the association.
    pub fn deadline(&self) -> Option<Instant> {
        let due = [self.queues.deadline(), self.due()];
        due.into_iter().flatten().min()
    }
}

#[cfg(test)]
mod tests;
