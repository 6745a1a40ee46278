//! What each end of messages between servers passes on, without a network.

use std::sync::Arc;
use std::time::{Duration, Instant};

use glassline_hub::{StreamName, Wake};
use glassline_runtime::{SessionId, TaskWaker};
use glassline_sctp::Reliability;
use glassline_sctp::channel::{Init, Message};

use super::PublisherClaim;
use super::downstream::{Downstream, ServerRates};
use super::incoming::{Incoming, IncomingContent};
use super::upstream::Upstream;
use super::{MessageLinks, outgoing};
use crate::{Bounds, DataPolicy, FirstNumber, Inbox, MessageBroker, Posted, PostedContent, Side};

const BOUNDS: Bounds = Bounds {
    message_bytes: 1000,
    messages_per_s: 2,
    ..Bounds::PAIR
};

fn links(viewers_send: bool) -> Arc<MessageLinks> {
    MessageLinks::new(Some(DataPolicy {
        bounds: BOUNDS,
        viewers_send,
    }))
}

fn name() -> StreamName {
    StreamName::parse("cam").expect("a good name")
}

fn subscribe(broker: &MessageBroker, to: Side) -> Arc<Inbox> {
    broker.subscribe(to, Arc::<TaskWaker>::default() as Arc<dyn Wake>)
}

fn taken(inbox: &Inbox) -> Vec<Arc<Posted>> {
    let mut out = Vec::new();
    inbox.take(&mut out);
    out
}

fn message(reliability: Reliability) -> PostedContent {
    PostedContent::Message {
        channel: Arc::new(Init {
            reliability,
            ..Init::default()
        }),
        message: Message::text("word"),
    }
}

fn incoming(broker: u64, number: u64, content: IncomingContent) -> Incoming {
    Incoming {
        first: FirstNumber { broker, number },
        content,
        at: Instant::now(),
    }
}

fn word(broker: u64, number: u64) -> Incoming {
    let content = IncomingContent::Posted(message(Reliability::Reliable));
    incoming(broker, number, content)
}

/// Returns the claim of one process in an epoch.
fn claim(epoch: u64) -> PublisherClaim {
    PublisherClaim { epoch, process: 1 }
}

#[test]
fn viewers_of_a_pulled_stream_get_each_message_once_and_see_where_one_is_missing() {
    let (links, now) = (links(true), Instant::now());
    let mut upstream = Upstream::new(&links, &name());
    let viewers = subscribe(&links.brokers.of(&name()), Side::Viewers);
    upstream.publisher().follow(claim(0), now);
    upstream.pass_on(word(1, 10), now);
    upstream.pass_on(word(1, 10), now);
    upstream.pass_on(word(1, 11), now);
    // Those that were left out on purpose, or are too large, are no gap; what never came is one.
    upstream.pass_on(incoming(1, 12, IncomingContent::LeftOut), now);
    upstream.pass_on(incoming(1, 13, IncomingContent::TooLarge), now);
    upstream.pass_on(word(1, 14), now);
    upstream.pass_on(incoming(1, 17, IncomingContent::LeftOut), now);
    upstream.pass_on(word(1, 18), now);
    // Another publisher's server.
    upstream.pass_on(word(2, 0), now);
    let posted = taken(&viewers);
    let firsts: Vec<_> = posted
        .iter()
        .map(|it| (it.first.broker, it.first.number))
        .collect();
    assert_eq!(firsts, [(1, 10), (1, 11), (1, 14), (1, 18), (2, 0)]);
    let numbers: Vec<_> = posted.iter().map(|it| it.number).collect();
    assert_eq!(numbers, [0, 1, 2, 5, 6]);
    assert_eq!(links.counters.repeated.get(), 1);
    assert_eq!(links.counters.dropped_too_large.get(), 1);
    // However wide the gap that another server claims.
    upstream.pass_on(word(2, u64::MAX - 1), now);
    upstream.pass_on(word(3, 0), now);
    assert_eq!(taken(&viewers).len(), 2);
}

#[test]
fn the_latest_publisher_counts_whether_here_or_at_the_server_that_is_pulled_from() {
    let (links, now) = (links(true), Instant::now());
    let mut upstream = Upstream::new(&links, &name());
    let broker = links.brokers.of(&name());
    let (viewers, publishers) = (
        subscribe(&broker, Side::Viewers),
        subscribe(&broker, Side::Publisher),
    );
    upstream.publisher().follow(claim(5), now);
    let local = SessionId::new("local");
    broker.take_over(&local, now);
    taken(&publishers);
    upstream.pass_on(word(1, 0), now);
    upstream.publisher().follow(claim(5), now);
    upstream.pass_on(word(1, 1), now);
    assert!(taken(&viewers).is_empty(), "never mixed");
    assert_eq!(links.counters.dropped_not_allowed.get(), 2);
    // A newer claim replaces the session here, which is told.
    upstream.publisher().follow(claim(6), now);
    assert!(!broker.is_publisher(&local));
    let told = taken(&publishers);
    assert!(matches!(told[0].content, PostedContent::TakenOver));
    upstream.pass_on(word(2, 0), now);
    assert_eq!(taken(&viewers).len(), 1);
    // A session here that leaves makes room.
    broker.take_over(&local, now);
    broker.leave(&local);
    upstream.pass_on(word(2, 1), now);
    assert_eq!(taken(&viewers).len(), 1);
}

#[test]
fn a_server_whose_viewers_send_too_much_reaches_the_publisher_in_measure() {
    let links = links(true);
    let downstream = Downstream::new(&links, &name());
    let publisher = subscribe(&links.brokers.of(&name()), Side::Publisher);
    let (mut rates, mut missed) = (ServerRates::new(&BOUNDS), 0);
    let rate = 20 * u64::from(BOUNDS.messages_per_s);
    for number in 0..10 * rate {
        downstream.pass_on(word(9, number), &mut missed, &mut rates);
    }
    let passed = taken(&publisher).len() as u64;
    assert!((rate..10 * rate).contains(&passed), "{passed}");
    let counters = &links.counters;
    assert_eq!(counters.received.get(), 10 * rate);
    assert_eq!(counters.dropped_too_fast.get(), 10 * rate - passed);
    let (mut rates, large) = (ServerRates::new(&BOUNDS), IncomingContent::TooLarge);
    downstream.pass_on(incoming(9, 1000, large), &mut missed, &mut rates);
    assert_eq!(counters.dropped_too_large.get(), 1);
    drop(publisher);
    downstream.pass_on(word(9, 1001), &mut missed, &mut rates);
    assert_eq!(counters.dropped_no_channel.get(), 1);
}

#[test]
fn viewers_of_another_server_may_not_send_what_viewers_here_may_not() {
    let links = links(false);
    let downstream = Downstream::new(&links, &name());
    let publisher = subscribe(&links.brokers.of(&name()), Side::Publisher);
    let mut rates = ServerRates::new(&BOUNDS);
    downstream.pass_on(word(9, 0), &mut 0, &mut rates);
    assert!(taken(&publisher).is_empty());
    assert_eq!(links.counters.dropped_not_allowed.get(), 1);
}

#[test]
fn what_has_waited_too_long_is_not_sent_and_leaves_a_gap_where_channels_are_reliable() {
    let links = links(true);
    let posted = |reliability, age: Duration| Posted {
        number: 3,
        first: FirstNumber {
            broker: 1,
            number: 3,
        },
        content: message(reliability),
        sender: None,
        at: Instant::now() - age,
    };
    let length = |posted: &Posted| {
        let pieces = outgoing::pieces(posted, &links, true).expect("turned on");
        pieces.concat().len()
    };
    let lossy = Reliability::Limited { retransmissions: 0 };
    let late = BOUNDS.queue_age + Duration::from_secs(1);
    assert_eq!(length(&posted(Reliability::Reliable, late)), 0);
    assert_eq!(length(&posted(lossy, late)), super::record::HEADER_BYTES);
    assert_eq!(links.counters.dropped_expired.get(), 2);
    assert!(length(&posted(lossy, Duration::ZERO)) > super::record::HEADER_BYTES);
    assert_eq!(links.counters.sent.get(), 1);
    links.set_policy(None);
    let posted = posted(lossy, Duration::ZERO);
    assert!(outgoing::pieces(&posted, &links, true).is_none());
}
