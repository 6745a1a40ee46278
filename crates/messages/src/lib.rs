//! Messages on data channels next to a stream's media, between the publisher of messages and the
//! viewers.
//!
//! ```text
//!  publisher's session ─► MessageBroker::post(Viewers) ───► Inbox of each shard with viewers
//!  a viewer's session ──► MessageBroker::post(Publisher) ─► Inbox of the publisher's shard
//! ```
//!
//! Two participants of a room have a broker of their own. A message that one sends in the session
//! in which it hears the other arrives in the session in which the other hears it.
//!
//! Where the publisher is at another server of the cluster, `servers` is the publisher's side here,
//! and the viewers' side there.
//!
//! A message is stored once for all receivers. A shard takes it out of its inbox in the next turn
//! of its loop; each session then queues the messages that it has not sent yet (`session`). The
//! hub is not involved: messages have no timeline, no keyframes, and no past that a new viewer
//! could begin with.

// This crate is outside the sans-IO cores: tasks between servers read the clock.
#![expect(
    clippy::disallowed_methods,
    reason = "the shell reads the clock for the cores"
)]

mod counters;
mod inbox;
mod policy;
mod publication;
mod sender;
mod servers;
mod session;
mod stats;

use std::collections::HashMap;
use std::collections::hash_map::RandomState;
use std::hash::BuildHasher;
use std::sync::{Arc, Weak};
use std::time::{Duration, Instant};

use glassline_hub::{StreamName, Wake};
use glassline_sctp::channel::{Init, Message};
use parking_lot::Mutex;

pub use counters::DataCounters;
use sender::Sender;

pub use inbox::Inbox;
pub use policy::DataPolicy;
pub use publication::Publication;
#[cfg(any(test, fuzzing))]
pub use servers::fuzz_record;
pub use servers::{
    Downstream, MessageLinks, PublisherClaim, PulledPublisher, ServerCounters, Upstream,
};
pub use session::{Association, Messages};
pub use stats::DataStats;
pub(crate) use stats::MessageCounts;

use glassline_runtime::SessionId;

/// Bytes that are counted for a message in addition to its content, so that empty messages have a
/// cost.
pub(crate) const MESSAGE_OVERHEAD_BYTES: usize = 128;

/// Widest gap in the numbers of what is posted.
const GAP_MAX: u64 = u32::MAX as u64;

/// The two sides of a broker.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Side {
    /// The publisher of messages next to a stream; there is one at a time.
    Publisher,
    /// The viewers of the stream.
    Viewers,
    /// One of two participants of a room, in the session in which it hears the other.
    First,
    /// The other one of the two participants.
    Second,
}

impl Side {
    /// Returns the side that messages from this side go to.
    pub(crate) const fn other(self) -> Self {
        match self {
            Self::Publisher => Self::Viewers,
            Self::Viewers => Self::Publisher,
            Self::First => Self::Second,
            Self::Second => Self::First,
        }
    }
}

/// Limits of one session's data channels.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Bounds {
    /// Largest message in bytes; `a=max-message-size` tells each side.
    pub message_bytes: usize,
    /// Most bytes of messages that wait for one session; one message may always wait.
    pub queue_bytes: usize,
    /// Longest time that a message may wait.
    pub queue_age: Duration,
    /// Most channels that a peer may open; the server opens as many to the peer at most.
    pub channels: usize,
    /// Most messages a second from a viewer to the publisher, or from one participant to another.
    pub messages_per_s: u32,
}

impl Bounds {
    /// Limits between two participants of a room. They exchange stage measurements, about 20
    /// messages of up to 1,000 bytes a second, and 16 messages a second to compare clocks.
    pub const PAIR: Self = Self {
        message_bytes: 2 << 10,
        queue_bytes: 64 << 10,
        queue_age: Duration::from_secs(2),
        channels: 2,
        messages_per_s: 100,
    };
}

/// A message or event on its way from one side to the other.
#[derive(Debug)]
pub struct Posted {
    /// Consecutive number of everything posted to this side: a gap means that something was missed.
    pub(crate) number: u64,
    /// The number that the content got first.
    pub(crate) first: FirstNumber,
    /// The message or event.
    pub(crate) content: PostedContent,
    /// The sender of a message to a publisher; `None` for messages and events that come from one side alone.
    pub(crate) sender: Option<Arc<Sender>>,
    /// Time at which it was posted.
    pub(crate) at: Instant,
}

/// The number of a message at the broker that it was posted to first, on whichever server of a cluster.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct FirstNumber {
    /// Random number of that broker.
    pub(crate) broker: u64,
    /// Number of the message there.
    pub(crate) number: u64,
}

/// The origin of a message, and its place among those of its publisher.
#[derive(Clone, Debug, Default)]
pub(crate) struct Order {
    /// The sender, where several share what may wait for the receiver.
    pub(crate) sender: Option<Arc<Sender>>,
    /// The number that another server gave the message; `None` has it numbered here.
    pub(crate) first: Option<FirstNumber>,
    /// Number of messages before it that never came here, which leaves a gap in the numbers.
    pub(crate) missed: u64,
}

/// The content of a [`Posted`].
#[derive(Debug)]
pub(crate) enum PostedContent {
    /// A message of a publisher or a viewer.
    Message {
        /// The parameters of the channel that the message came on.
        channel: Arc<Init>,
        /// The message; its bytes are shared.
        message: Message,
    },
    /// The publisher closed this channel.
    Closed(Arc<Init>),
    /// Another session is the publisher now.
    TakenOver,
}

impl PostedContent {
    /// Returns whether this is a message.
    pub(crate) const fn is_message(&self) -> bool {
        matches!(self, Self::Message { .. })
    }

    /// Returns the bytes of the message; 0 for other events.
    pub(crate) fn message_bytes(&self) -> usize {
        match self {
            Self::Message { message, .. } => message.data.len(),
            Self::Closed(_) | Self::TakenOver => 0,
        }
    }

    /// Returns the bytes that are counted for this content.
    pub(crate) fn bytes(&self) -> usize {
        MESSAGE_OVERHEAD_BYTES + self.message_bytes()
    }
}

/// The brokers of all streams that have data channels.
#[derive(Debug, Default)]
pub struct MessageBrokers {
    by_stream: Mutex<HashMap<StreamName, Weak<MessageBroker>>>,
}

impl MessageBrokers {
    /// Returns the broker of `stream`, which exists for as long as somebody holds it.
    pub fn of(&self, stream: &StreamName) -> Arc<MessageBroker> {
        let mut by_stream = self.by_stream.lock();
        if let Some(broker) = by_stream.get(stream).and_then(Weak::upgrade) {
            return broker;
        }
        by_stream.retain(|_, broker| broker.strong_count() > 0);
        let broker = Arc::new(MessageBroker::default());
        by_stream.insert(stream.clone(), Arc::downgrade(&broker));
        broker
    }
}

/// Passes messages between the publisher and the viewers of one stream, or between two
/// participants.
#[derive(Debug)]
pub struct MessageBroker {
    /// Random number, by which other servers tell this broker from others.
    id: u64,
    to_publisher: Mutex<SideInboxes>,
    to_viewers: Mutex<SideInboxes>,
    publisher: Mutex<Option<SessionId>>,
    /// Is woken when somebody subscribes to what is posted to viewers.
    watcher: Mutex<Option<Weak<dyn Wake>>>,
}

impl Default for MessageBroker {
    fn default() -> Self {
        Self {
            // The keys of the state are random.
            id: RandomState::new().hash_one(0),
            to_publisher: Mutex::default(),
            to_viewers: Mutex::default(),
            publisher: Mutex::default(),
            watcher: Mutex::default(),
        }
    }
}

/// The inboxes of one side.
#[derive(Debug, Default)]
struct SideInboxes {
    posted: u64,
    inboxes: Vec<Weak<Inbox>>,
}

impl MessageBroker {
    /// Returns an inbox for everything that is posted `to` one side from now on. `wake` is called
    /// when something is in it, for as long as the inbox is held.
    pub fn subscribe(&self, to: Side, wake: Arc<dyn Wake>) -> Arc<Inbox> {
        let inbox = Arc::new(Inbox::new(wake));
        let mut side_inboxes = self.side_inboxes(to).lock();
        side_inboxes
            .inboxes
            .retain(|inbox| inbox.strong_count() > 0);
        side_inboxes.inboxes.push(Arc::downgrade(&inbox));
        drop(side_inboxes);
        let watcher = match to {
            Side::Viewers => self.watcher.lock().as_ref().and_then(Weak::upgrade),
            _ => None,
        };
        if let Some(watcher) = watcher {
            watcher.wake();
        }
        inbox
    }

    /// Wakes `watcher`, for as long as it is held, when somebody subscribes to what is posted to
    /// viewers. There is one watcher at a time.
    pub(crate) fn watch_viewers(&self, watcher: &Arc<dyn Wake>) {
        *self.watcher.lock() = Some(Arc::downgrade(watcher));
    }

    /// Returns whether anybody is subscribed to what is posted `to` one side.
    pub(crate) fn has_receiver(&self, to: Side) -> bool {
        let side_inboxes = self.side_inboxes(to).lock();
        let mut inboxes = side_inboxes.inboxes.iter();
        inboxes.any(|inbox| inbox.strong_count() > 0)
    }

    /// Posts `content` to all inboxes of one side. Returns false if there is none.
    pub(crate) fn post(&self, to: Side, content: PostedContent, at: Instant) -> bool {
        self.pass_on(to, Order::default(), content, at)
    }

    /// Posts `content` of another server to all inboxes of one side. Returns false if there is no inbox.
    pub(crate) fn pass_on(
        &self,
        to: Side,
        order: Order,
        content: PostedContent,
        at: Instant,
    ) -> bool {
        // The lock is held until the end, so that the order in the inboxes is that of the numbers.
        let mut side_inboxes = self.side_inboxes(to).lock();
        // However wide, a gap is one; the numbers must not end.
        let number = side_inboxes.posted + order.missed.min(GAP_MAX);
        side_inboxes.posted = number + 1;
        let own = FirstNumber {
            broker: self.id,
            number,
        };
        let posted = Arc::new(Posted {
            number,
            first: order.first.unwrap_or(own),
            content,
            sender: order.sender,
            at,
        });
        let mut has_receiver = false;
        for inbox in side_inboxes.inboxes.iter().filter_map(Weak::upgrade) {
            inbox.push(&posted);
            has_receiver = true;
        }
        has_receiver
    }

    /// Makes `session` the publisher in place of any other.
    pub fn take_over(&self, session: &SessionId, now: Instant) {
        let former = self.publisher.lock().replace(session.clone());
        if former.is_some_and(|former| former != *session) {
            self.post(Side::Publisher, PostedContent::TakenOver, now);
        }
    }

    /// Returns whether no session is the publisher.
    pub(crate) fn has_no_publisher(&self) -> bool {
        self.publisher.lock().is_none()
    }

    /// Returns whether `session` is the publisher.
    pub(crate) fn is_publisher(&self, session: &SessionId) -> bool {
        self.publisher.lock().as_ref() == Some(session)
    }

    /// Ends the role of `session` as the publisher, if it has it.
    pub fn leave(&self, session: &SessionId) {
        let mut publisher = self.publisher.lock();
        if publisher.as_ref() == Some(session) {
            *publisher = None;
        }
    }

    fn side_inboxes(&self, to: Side) -> &Mutex<SideInboxes> {
        match to {
            Side::Publisher | Side::First => &self.to_publisher,
            Side::Viewers | Side::Second => &self.to_viewers,
        }
    }
}

#[cfg(test)]
mod tests;
