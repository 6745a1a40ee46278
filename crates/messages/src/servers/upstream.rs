//! The server that a stream is pulled from, as the publisher of the broker here.

use std::sync::Arc;
use std::time::Instant;

use glassline_hub::{StreamName, Wake};
use glassline_quic::moq::{MessageReceiver, MessageRefusal, MessageSender, MessageStreamError};
use glassline_runtime::{SessionId, TaskWaker};
use parking_lot::Mutex;

use super::incoming::{self, Incoming, IncomingContent, IncomingError};
use super::outgoing::Outgoing;
use super::sequence::Sequence;
use super::{DataPolicy, MessageLinks};
use crate::{Inbox, MessageBroker, Order, Publication, Side};

/// The claim under which a server publishes a stream: another one is another publisher.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PublisherClaim {
    /// The epoch of the stream's ownership in the cluster.
    pub epoch: u64,
    /// The number of the server's process, which a restart changes.
    pub process: u64,
}

/// The place of a broker's publisher, for the publisher of a stream that is pulled.
#[derive(Debug)]
pub struct PulledPublisher {
    broker: Arc<MessageBroker>,
    publication: Publication,
    /// The claim of the latest publisher's server, by which another publisher is known.
    claim: Mutex<Option<PublisherClaim>>,
}

impl PulledPublisher {
    /// Wakes `watcher` when somebody here needs the messages, for as long as it is held.
    pub fn watch(&self, watcher: &Arc<dyn Wake>) {
        self.broker.watch_viewers(watcher);
    }

    /// Returns whether anybody here needs the messages.
    pub fn is_needed(&self) -> bool {
        self.broker.has_receiver(Side::Viewers)
    }

    /// Notes the claim under which the stream is published from now on. The publisher
    /// there replaces one of another claim, and one of this server.
    pub fn follow(&self, claim: PublisherClaim, now: Instant) {
        let before = self.claim.lock().replace(claim);
        if before != Some(claim) || self.broker.has_no_publisher() {
            self.publication.begin(now);
        }
    }

    /// Returns whether no session of this server is the publisher.
    fn is_current(&self, now: Instant) -> bool {
        if self.broker.has_no_publisher() {
            self.publication.begin(now);
        }
        self.publication.is_current()
    }
}

/// The messages of a stream that is pulled, for as long as it is: it outlives each source.
#[derive(Debug)]
pub struct Upstream {
    links: Arc<MessageLinks>,
    publisher: Arc<PulledPublisher>,
    sequence: Sequence,
    /// Messages that are missing before the next one that is passed on.
    missed: u64,
    /// The messages that viewers here send; `None` while nobody needs messages.
    inbox: Option<Arc<Inbox>>,
    arrival: Arc<TaskWaker>,
}

impl Upstream {
    /// Creates the state for the stream `name`. No message passes yet.
    pub fn new(links: &Arc<MessageLinks>, name: &StreamName) -> Self {
        let broker = links.broker(name);
        // No session has this identifier.
        let session = SessionId::new(&format!("pulled {name}"));
        let publisher = PulledPublisher {
            publication: Publication::new(Arc::clone(&broker), session),
            broker,
            claim: Mutex::default(),
        };
        Self {
            links: Arc::clone(links),
            publisher: Arc::new(publisher),
            sequence: Sequence::default(),
            missed: 0,
            inbox: None,
            arrival: Arc::default(),
        }
    }

    /// Returns the place of the stream's publisher here.
    pub const fn publisher(&self) -> &Arc<PulledPublisher> {
        &self.publisher
    }

    /// Lets what viewers send find no receiver, because it goes nowhere.
    pub fn rest(&mut self) {
        self.inbox = None;
    }

    /// Lets what viewers send wait for [`run`](Self::run).
    pub fn begin(&mut self) {
        self.inbox();
    }

    fn inbox(&mut self) -> Arc<Inbox> {
        let inbox = self.inbox.get_or_insert_with(|| {
            let waker = Arc::clone(&self.arrival) as Arc<dyn Wake>;
            self.publisher.broker.subscribe(Side::Publisher, waker)
        });
        Arc::clone(inbox)
    }

    /// Passes messages on until the other server ends that, and returns why. A server that sends
    /// something invalid is told so. Nothing is lost here if this is dropped and called again, but the
    /// stream cannot be used again.
    pub async fn run(
        &mut self,
        mut sender: MessageSender,
        mut receiver: MessageReceiver,
    ) -> MessageStreamError {
        let (inbox, arrival) = (self.inbox(), Arc::clone(&self.arrival));
        let (publisher, links) = (Arc::clone(&self.publisher), Arc::clone(&self.links));
        let is_current = || publisher.is_current(Instant::now());
        let outgoing = Outgoing {
            inbox: &inbox,
            arrival: &arrival,
            links: &links,
        };
        let ended = tokio::select! {
            ended = outgoing.send_all(&mut sender, is_current) => ended.into(),
            ended = self.receive_all(&mut receiver) => ended,
        };
        match ended {
            IncomingError::Stream(ended) => ended,
            IncomingError::Record(error) => {
                tracing::warn!(%error, "messages of another server cannot be read");
                sender.refuse(MessageRefusal::Invalid);
                MessageRefusal::Invalid.into()
            }
        }
    }

    async fn receive_all(&mut self, from: &mut MessageReceiver) -> IncomingError {
        loop {
            let Some(DataPolicy { bounds, .. }) = self.links.policy() else {
                return MessageStreamError::from(MessageRefusal::Off).into();
            };
            match incoming::receive(from, bounds.message_bytes).await {
                Ok(incoming) => self.pass_on(incoming, Instant::now()),
                Err(error) => return error,
            }
        }
    }

    /// Passes a message of the publisher to the viewers here, unless it came before or another session is
    /// the publisher here.
    pub(super) fn pass_on(&mut self, incoming: Incoming, now: Instant) {
        let counters = &self.links.counters;
        let Some(missed) = self.sequence.take(incoming.first) else {
            return counters.repeated.add(1);
        };
        self.missed = self.missed.saturating_add(missed);
        let content = match incoming.content {
            IncomingContent::Posted(content) => content,
            IncomingContent::TooLarge => return counters.dropped_too_large.add(1),
            IncomingContent::LeftOut => return,
        };
        if content.is_message() {
            counters.received.add(1);
            counters.received_bytes.add(content.message_bytes() as u64);
        }
        if !self.publisher.is_current(now) {
            return counters.dropped_not_allowed.add(1);
        }
        let order = Order {
            sender: None,
            first: Some(incoming.first),
            missed: std::mem::take(&mut self.missed),
        };
        let broker = &self.publisher.broker;
        broker.pass_on(Side::Viewers, order, content, incoming.at);
    }
}
