//! A server that pulls a stream, as a viewer of the broker here.

use std::sync::Arc;
use std::time::Instant;

use glassline_hub::{StreamName, Wake};
use glassline_quic::moq::{MessageReceiver, MessageRefusal, MessageSender, MessageStreamError};
use glassline_runtime::{TaskWaker, TokenBucket};

use super::incoming::{self, Incoming, IncomingContent, IncomingError};
use super::outgoing::Outgoing;
use super::sequence::Sequence;
use super::{DataPolicy, MessageLinks};
use crate::sender::Sender;
use crate::{Bounds, Inbox, MessageBroker, Order, PostedContent, Side};

/// Number of viewers that may send as often as a viewer may, at one server at the same time.
const VIEWERS_AT_FULL_RATE: u32 = 20;

/// Bytes of messages a second that viewers of one server may send to the publisher, unless one message may
/// be larger.
const BYTES_PER_S: u32 = 4 << 20;

/// Passes the messages of one stream to another server, and those of its viewers to the publisher.
#[derive(Debug)]
pub struct Downstream {
    links: Arc<MessageLinks>,
    broker: Arc<MessageBroker>,
    inbox: Arc<Inbox>,
    arrival: Arc<TaskWaker>,
    /// The viewers of the other server together.
    sender: Arc<Sender>,
}

/// The rates at which the viewers of one server may send.
#[derive(Debug)]
pub(super) struct ServerRates {
    messages: TokenBucket,
    bytes: TokenBucket,
}

impl ServerRates {
    pub(super) fn new(bounds: &Bounds) -> Self {
        let messages = bounds.messages_per_s.saturating_mul(VIEWERS_AT_FULL_RATE);
        let message_bytes = u32::try_from(bounds.message_bytes).unwrap_or(u32::MAX);
        let bytes = f64::from(BYTES_PER_S.max(message_bytes));
        Self {
            messages: TokenBucket::new(messages.into(), messages.into()),
            bytes: TokenBucket::new(bytes, bytes),
        }
    }

    fn take(&mut self, bytes: usize, now: Instant) -> bool {
        let bytes = f64::from(u32::try_from(bytes).unwrap_or(u32::MAX));
        self.messages.take(now) && self.bytes.take_many(bytes, now)
    }
}

impl Downstream {
    /// Subscribes to the messages of the stream `name`, from now on.
    pub fn new(links: &Arc<MessageLinks>, name: &StreamName) -> Self {
        let (broker, arrival) = (links.broker(name), Arc::<TaskWaker>::default());
        let waker = Arc::clone(&arrival) as Arc<dyn Wake>;
        Self {
            links: Arc::clone(links),
            inbox: broker.subscribe(Side::Viewers, waker),
            broker,
            arrival,
            sender: Arc::default(),
        }
    }

    /// Passes messages on until the other server ends that, and returns why. A server that sends
    /// something invalid is told so.
    pub async fn run(self, mut sender: MessageSender, mut receiver: MessageReceiver) -> String {
        let outgoing = Outgoing {
            inbox: &self.inbox,
            arrival: &self.arrival,
            links: &self.links,
        };
        let ended = tokio::select! {
            ended = outgoing.send_all(&mut sender, || true) => ended.into(),
            ended = self.receive_all(&mut receiver) => ended,
        };
        match &ended {
            IncomingError::Record(_) => sender.refuse(MessageRefusal::Invalid),
            IncomingError::Stream(MessageStreamError::Refused(why)) => sender.refuse(*why),
            IncomingError::Stream(_) => {}
        }
        ended.to_string()
    }

    async fn receive_all(&self, from: &mut MessageReceiver) -> IncomingError {
        let Some(DataPolicy { bounds, .. }) = self.links.policy() else {
            return MessageStreamError::from(MessageRefusal::Off).into();
        };
        let (mut rates, mut sequence) = (ServerRates::new(&bounds), Sequence::default());
        let mut missed = 0;
        loop {
            let incoming = match incoming::receive(from, bounds.message_bytes).await {
                Ok(incoming) => incoming,
                Err(error) => return error,
            };
            // One stream repeats nothing.
            missed += sequence.take(incoming.first).unwrap_or(0);
            self.pass_on(incoming, &mut missed, &mut rates);
        }
    }

    /// Passes a viewer's message to the publisher, if viewers may send and their server does not send too
    /// much.
    pub(super) fn pass_on(&self, incoming: Incoming, missed: &mut u64, rates: &mut ServerRates) {
        let (counters, now) = (&self.links.counters, Instant::now());
        let content = match incoming.content {
            IncomingContent::Posted(content @ PostedContent::Message { .. }) => content,
            IncomingContent::TooLarge => return counters.dropped_too_large.add(1),
            // Viewers close no channels of a publisher.
            IncomingContent::Posted(_) | IncomingContent::LeftOut => return,
        };
        counters.received.add(1);
        counters.received_bytes.add(content.message_bytes() as u64);
        let viewers_send = self.links.policy().is_some_and(|it| it.viewers_send);
        if !viewers_send {
            return counters.dropped_not_allowed.add(1);
        }
        if !rates.take(content.bytes(), now) {
            return counters.dropped_too_fast.add(1);
        }
        // Messages of all viewers get numbers here: the publisher's server is the one that orders them.
        let order = Order {
            sender: Some(Arc::clone(&self.sender)),
            first: None,
            missed: std::mem::take(missed),
        };
        if !self
            .broker
            .pass_on(Side::Publisher, order, content, incoming.at)
        {
            counters.dropped_no_channel.add(1);
        }
    }
}
