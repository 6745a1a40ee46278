use std::sync::atomic::{AtomicUsize, Ordering};

use super::inbox::{INBOX_BYTES_MAX, INBOX_MESSAGES_MAX};
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
            assert!(inbox.bytes() <= INBOX_BYTES_MAX);
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
    assert_eq!(brokers.by_stream.lock().len(), 2, "cam, and the latest");
}

#[test]
fn what_is_taken_one_by_one_comes_with_the_number_of_those_dropped_before() {
    let broker = MessageBroker::default();
    let inbox = broker.subscribe(Side::Viewers, Arc::new(WakeCounter::default()));
    for _ in 0..INBOX_MESSAGES_MAX + 5 {
        broker.post(Side::Viewers, message(1), Instant::now());
    }
    let (posted, dropped) = inbox.take_one();
    assert_eq!((posted.map(|it| it.number), dropped), (Some(5), 5));
    let (posted, dropped) = inbox.take_one();
    assert_eq!((posted.map(|it| it.number), dropped), (Some(6), 0));
    while inbox.take_one().0.is_some() {}
    assert_eq!(inbox.bytes(), 0);
}

#[test]
fn whoever_watches_is_woken_by_the_first_who_subscribes_as_a_viewer() {
    let broker = MessageBroker::default();
    let wakes = Arc::new(WakeCounter::default());
    let watcher = Arc::clone(&wakes) as Arc<dyn Wake>;
    broker.watch_viewers(&watcher);
    let subscribe = |side| broker.subscribe(side, Arc::new(WakeCounter::default()));
    let _publisher = subscribe(Side::Publisher);
    assert!(!broker.has_receiver(Side::Viewers));
    assert_eq!(wakes.0.load(Ordering::Relaxed), 0);
    let viewer = subscribe(Side::Viewers);
    assert!(broker.has_receiver(Side::Viewers));
    assert_eq!(wakes.0.load(Ordering::Relaxed), 1);
    drop(viewer);
    assert!(!broker.has_receiver(Side::Viewers));
}
