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
//! A message is stored once for all receivers. A shard takes it out of its inbox in the next turn
//! of its loop; each session then queues the messages that it has not sent yet ([`session`]). The
//! hub is not involved: messages have no timeline, no keyframes, and no past that a new viewer
//! could begin with.

mod counters;
mod publication;
mod session;
mod stats;

use std::collections::{HashMap, VecDeque};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::time::{Duration, Instant};

use glassline_hub::{StreamName, Wake};
use glassline_sctp::channel::{Init, Message};

pub(crate) use counters::DataCounters;
pub(crate) use publication::Publication;
pub(crate) use session::{Association, Messages};
pub(crate) use stats::{DataStats, MessageCounts};

use crate::runtime::SessionId;

/// Most messages that wait for a shard's next turn. Turns are a millisecond or two apart. A shard
/// that stands still for longer finds out how many messages it missed.
const INBOX_MESSAGES_MAX: usize = 4096;
/// Most bytes of messages that wait for a shard's next turn.
const INBOX_BYTES_MAX: usize = 8 << 20;

/// Bytes that are counted for a message in addition to its content, so that empty messages have a
/// cost.
pub(crate) const MESSAGE_OVERHEAD_BYTES: usize = 128;

/// The two sides of a broker.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Side {
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
pub(crate) struct Bounds {
    /// Largest message in bytes; `a=max-message-size` tells each side.
    pub(crate) message_bytes: usize,
    /// Most bytes of messages that wait for one session; one message may always wait.
    pub(crate) queue_bytes: usize,
    /// Longest time that a message may wait.
    pub(crate) queue_age: Duration,
    /// Most channels that a peer may open; the server opens as many to the peer at most.
    pub(crate) channels: usize,
    /// Most messages a second from a viewer to the publisher, or from one participant to another.
    pub(crate) messages_per_s: u32,
}

impl Bounds {
    /// Limits between two participants of a room. They exchange stage measurements, about 20
    /// messages of up to 1,000 bytes a second, and 16 messages a second to compare clocks.
    pub(crate) const PAIR: Self = Self {
        message_bytes: 2 << 10,
        queue_bytes: 64 << 10,
        queue_age: Duration::from_secs(2),
        channels: 2,
        messages_per_s: 100,
    };
}

/// A message or event on its way from one side to the other.
#[derive(Debug)]
pub(crate) struct Posted {
    /// Consecutive number of everything posted to this side: a gap means that something was missed.
    pub(crate) number: u64,
    /// The message or event.
    pub(crate) content: PostedContent,
    /// Time at which it was posted.
    pub(crate) at: Instant,
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
    /// Returns the bytes that are counted for this content.
    pub(crate) fn bytes(&self) -> usize {
        MESSAGE_OVERHEAD_BYTES
            + match self {
                Self::Message { message, .. } => message.data.len(),
                Self::Closed(_) | Self::TakenOver => 0,
            }
    }
}

/// The brokers of all streams that have data channels.
#[derive(Debug, Default)]
pub(crate) struct MessageBrokers {
    by_stream: Mutex<HashMap<StreamName, Weak<MessageBroker>>>,
}

impl MessageBrokers {
    /// Returns the broker of `stream`, which exists for as long as somebody holds it.
    pub(crate) fn of(&self, stream: &StreamName) -> Arc<MessageBroker> {
        let mut by_stream = lock(&self.by_stream);
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
#[derive(Debug, Default)]
pub(crate) struct MessageBroker {
    to_publisher: Mutex<SideInboxes>,
    to_viewers: Mutex<SideInboxes>,
    publisher: Mutex<Option<SessionId>>,
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
    pub(crate) fn subscribe(&self, to: Side, wake: Arc<dyn Wake>) -> Arc<Inbox> {
        let inbox = Arc::new(Inbox {
            queue: Mutex::default(),
            wake,
        });
        let mut side_inboxes = lock(self.side_inboxes(to));
        side_inboxes
            .inboxes
            .retain(|inbox| inbox.strong_count() > 0);
        side_inboxes.inboxes.push(Arc::downgrade(&inbox));
        inbox
    }

    /// Posts `content` to all inboxes of one side. Returns false if there is none.
    pub(crate) fn post(&self, to: Side, content: PostedContent, at: Instant) -> bool {
        // The lock is held until the end, so that the order in the inboxes is that of the numbers.
        let mut side_inboxes = lock(self.side_inboxes(to));
        let number = side_inboxes.posted;
        side_inboxes.posted += 1;
        let posted = Arc::new(Posted {
            number,
            content,
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
    pub(crate) fn take_over(&self, session: &SessionId, now: Instant) {
        let former = lock(&self.publisher).replace(session.clone());
        if former.is_some_and(|former| former != *session) {
            self.post(Side::Publisher, PostedContent::TakenOver, now);
        }
    }

    /// Returns whether `session` is the publisher.
    pub(crate) fn is_publisher(&self, session: &SessionId) -> bool {
        lock(&self.publisher).as_ref() == Some(session)
    }

    /// Ends the role of `session` as the publisher, if it has it.
    pub(crate) fn leave(&self, session: &SessionId) {
        let mut publisher = lock(&self.publisher);
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

/// The messages that wait for one shard.
pub(crate) struct Inbox {
    queue: Mutex<Queue>,
    wake: Arc<dyn Wake>,
}

impl std::fmt::Debug for Inbox {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let queue = lock(&self.queue);
        f.debug_struct("Inbox")
            .field("messages", &queue.posted.len())
            .field("bytes", &queue.bytes)
            .finish_non_exhaustive()
    }
}

#[derive(Debug, Default)]
struct Queue {
    posted: VecDeque<Arc<Posted>>,
    bytes: usize,
}

impl Inbox {
    /// Takes everything out, in order. A message that was dropped leaves a gap in the numbers.
    pub(crate) fn take(&self, out: &mut Vec<Arc<Posted>>) {
        let mut queue = lock(&self.queue);
        queue.bytes = 0;
        out.extend(queue.posted.drain(..));
    }

    fn push(&self, posted: &Arc<Posted>) {
        let mut queue = lock(&self.queue);
        queue.bytes += posted.content.bytes();
        queue.posted.push_back(Arc::clone(posted));
        while queue.posted.len() > INBOX_MESSAGES_MAX
            || queue.bytes > INBOX_BYTES_MAX && queue.posted.len() > 1
        {
            let Some(oldest) = queue.posted.pop_front() else {
                break;
            };
            queue.bytes -= oldest.content.bytes();
        }
        drop(queue);
        self.wake.wake();
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    // The data behind these locks is consistent after every line, so a poisoned lock is no problem.
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicUsize, Ordering};

    use super::*;

    #[derive(Default)]
    struct WakeCounter(AtomicUsize);

    impl Wake for WakeCounter {
        fn wake(&self) {
            self.0.fetch_add(1, Ordering::Relaxed);
        }
    }

    fn message(bytes: usize) -> PostedContent {
        PostedContent::Message {
            channel: Arc::default(),
            message: Message::binary(vec![0; bytes]),
        }
    }

    #[test]
    fn everybody_on_a_side_gets_the_same_bytes_and_is_woken() {
        let broker = MessageBroker::default();
        let wakes = Arc::new(WakeCounter::default());
        let wake = || Arc::clone(&wakes) as Arc<dyn Wake>;
        let [first, second] = [(); 2].map(|()| broker.subscribe(Side::Viewers, wake()));
        let publisher = broker.subscribe(Side::Publisher, wake());
        broker.post(Side::Viewers, message(10), Instant::now());
        let taken = [&first, &second, &publisher].map(|inbox| {
            let mut out = Vec::new();
            inbox.take(&mut out);
            out
        });
        assert_eq!(taken.each_ref().map(Vec::len), [1, 1, 0]);
        assert!(Arc::ptr_eq(&taken[0][0], &taken[1][0]));
        assert_eq!(wakes.0.load(Ordering::Relaxed), 2);
        drop(publisher);
        assert!(!broker.post(Side::Publisher, message(10), Instant::now()));
        drop(second);
        broker.post(Side::Viewers, message(10), Instant::now());
        assert_eq!(
            wakes.0.load(Ordering::Relaxed),
            3,
            "one has unsubscribed by letting go"
        );
    }

    #[test]
    fn of_two_participants_each_gets_what_the_other_says() {
        let broker = MessageBroker::default();
        let wake = || Arc::new(WakeCounter::default()) as Arc<dyn Wake>;
        let [first, second] = [Side::First, Side::Second].map(|it| broker.subscribe(it, wake()));
        let taken = |inbox: &Inbox| {
            let mut out = Vec::new();
            inbox.take(&mut out);
            out.len()
        };
        assert!(broker.post(Side::First.other(), message(10), Instant::now()));
        assert_eq!([taken(&first), taken(&second)], [0, 1]);
        assert!(broker.post(Side::Second.other(), message(10), Instant::now()));
        assert_eq!([taken(&first), taken(&second)], [1, 0]);
    }

    #[test]
    fn a_shard_that_stands_still_costs_bounded_memory_and_can_tell() {
        let broker = MessageBroker::default();
        let inbox = broker.subscribe(Side::Viewers, Arc::new(WakeCounter::default()));
        for bytes in [1 << 20, 0] {
            for _ in 0..2 * INBOX_MESSAGES_MAX {
                broker.post(Side::Viewers, message(bytes), Instant::now());
                assert!(lock(&inbox.queue).bytes <= INBOX_BYTES_MAX);
            }
            let mut out = Vec::new();
            inbox.take(&mut out);
            assert!(out.len() <= INBOX_MESSAGES_MAX);
            assert!(out[0].number > 0, "the first are missing");
            let numbers = out.windows(2).map(|pair| pair[1].number - pair[0].number);
            assert!(numbers.into_iter().all(|step| step == 1));
        }
    }

    #[test]
    fn the_latest_publisher_is_the_one_and_the_former_is_told() {
        let broker = MessageBroker::default();
        let inbox = broker.subscribe(Side::Publisher, Arc::new(WakeCounter::default()));
        let [first, second] = ["a", "b"].map(SessionId::new);
        let now = Instant::now();
        broker.take_over(&first, now);
        broker.take_over(&first, now);
        let mut out = Vec::new();
        inbox.take(&mut out);
        assert!(out.is_empty());
        broker.take_over(&second, now);
        assert!(!broker.is_publisher(&first) && broker.is_publisher(&second));
        inbox.take(&mut out);
        assert!(matches!(out[0].content, PostedContent::TakenOver));
        broker.leave(&first);
        assert!(broker.is_publisher(&second), "not the former's to end");
        broker.leave(&second);
        assert!(!broker.is_publisher(&second));
    }

    #[test]
    fn a_stream_has_one_broker_while_somebody_holds_it() {
        let brokers = MessageBrokers::default();
        let name = |text: &str| StreamName::parse(text).expect("a good name");
        let first = brokers.of(&name("cam"));
        assert!(Arc::ptr_eq(&first, &brokers.of(&name("cam"))));
        assert!(!Arc::ptr_eq(&first, &brokers.of(&name("hall"))));
        drop(brokers.of(&name("yard")));
        drop(brokers.of(&name("roof")));
        assert_eq!(lock(&brokers.by_stream).len(), 2, "cam, and the latest");
    }
}
