//! Two sides of a broker in virtual time: each session of the server against a peer's
//! channels, with packets carried by hand.

use std::collections::HashMap;

use bytes::Bytes;
use glassline_sctp::channel::{Init, Kind, Role};
use glassline_sctp::{Association, Reliability};

use super::*;
use crate::{Inbox, Publication};

const BOUNDS: Bounds = Bounds {
    message_bytes: 256 << 10,
    queue_bytes: 512 << 10,
    queue_age: Duration::from_secs(2),
    channels: 4,
    messages_per_s: 10,
};

struct NoWake;

impl glassline_hub::Wake for NoWake {
    fn wake(&self) {}
}

/// A session of the server, with its peer.
struct End {
    messages: Messages,
    _publication: Option<Publication>,
    channels: Channels,
    peer: Channels,
    inbox: Arc<Inbox>,
    heard: Vec<Event>,
    /// Labels of the channels that the peer has or had.
    labels: HashMap<ChannelId, String>,
    /// Whether all packets to the peer are lost.
    is_deaf: bool,
}

struct Scene {
    now: Instant,
    broker: Arc<MessageBroker>,
    counters: DataCounters,
    publisher: End,
    viewers: Vec<End>,
}

fn channels(config: glassline_webrtc::DataConfig, role: Role, seed: u8, now: Instant) -> Channels {
    let secrets = sctp::Secrets::from_random([seed; 40]);
    let association = Association::new(config.association, secrets, now);
    let mut channels = Channels::new(association, role, config.limits);
    channels.set_peer_max_message_size(Some(BOUNDS.message_bytes as u64));
    channels
}

impl End {
    fn new(
        name: &str,
        side: Side,
        may_send: bool,
        broker: &Arc<MessageBroker>,
        now: Instant,
    ) -> Self {
        let id = SessionId::new(name);
        let seed = name.as_bytes()[0];
        let mut peer = channels(
            glassline_webrtc::DataConfig::default(),
            Role::DtlsClient,
            seed,
            now,
        );
        peer.connect(now);
        let config = Messages::config(may_send, &BOUNDS);
        let publication = (side == Side::Publisher).then(|| {
            let publication = Publication::new(Arc::clone(broker), id.clone());
            publication.begin(now);
            publication
        });
        let messages = Messages::new(id, side, may_send, Arc::clone(broker), BOUNDS, now);
        Self {
            messages,
            _publication: publication,
            channels: channels(config, Role::DtlsServer, seed + 100, now),
            peer,
            inbox: broker.subscribe(side, Arc::new(NoWake)),
            heard: Vec::new(),
            labels: HashMap::new(),
            is_deaf: false,
        }
    }

    /// Does everything that can happen at `now`. Returns whether anything happened.
    fn turn(&mut self, now: Instant, counters: &DataCounters) -> bool {
        let mut posted = Vec::new();
        self.inbox.take(&mut posted);
        for posted in &posted {
            self.messages
                .deliver(posted, &mut self.channels, now, counters);
        }
        for end in [&mut self.channels, &mut self.peer] {
            if end.poll_timeout().is_some_and(|at| at <= now) {
                end.handle_timeout(now);
            }
        }
        self.messages
            .handle_events(&mut self.channels, now, counters);
        let mut moved = !posted.is_empty();
        moved |= self.messages.pump(&mut self.channels, now, counters);
        while let Some(event) = self.peer.poll_event(now) {
            if let Event::Opened { channel, .. } = event
                && let Some(info) = self.peer.info(channel)
            {
                self.labels.insert(channel, info.init.label.clone());
            }
            self.heard.push(event);
        }
        let mut packet = vec![0; 1500];
        while let Some(bytes) = self.channels.poll_transmit(now, &mut packet) {
            moved = true;
            if !self.is_deaf {
                let _ = self.peer.handle_packet(&packet[..bytes], now);
            }
        }
        self.peer.end_batch(now);
        while let Some(bytes) = self.peer.poll_transmit(now, &mut packet) {
            moved = true;
            let _ = self.channels.handle_packet(&packet[..bytes], now);
        }
        self.channels.end_batch(now);
        moved
    }

    fn open(&mut self, label: &str, reliability: Reliability, now: Instant) -> ChannelId {
        let init = Init {
            label: label.to_owned(),
            reliability,
            ..Init::default()
        };
        self.peer.open(init, now).expect("room")
    }

    fn say(&mut self, channel: ChannelId, message: Message, now: Instant) {
        self.peer.send(channel, message, now).expect("open");
    }

    /// Returns the messages that came, with the labels of their channels.
    fn got(&self) -> Vec<(String, Message)> {
        let messages = self.heard.iter().filter_map(|event| match event {
            Event::Message { channel, message } => {
                Some((self.labels[channel].clone(), message.clone()))
            }
            _ => None,
        });
        messages.collect()
    }

    fn opened_by_server(&self) -> usize {
        let opened = |event: &&Event| matches!(event, Event::Opened { by_peer: true, .. });
        self.heard.iter().filter(opened).count()
    }
}

impl Scene {
    fn new(viewers: &[(&str, bool)]) -> Self {
        let now = Instant::now();
        let broker = Arc::new(MessageBroker::default());
        let viewers = viewers.iter();
        let mut scene = Self {
            now,
            publisher: End::new("publisher", Side::Publisher, true, &broker, now),
            viewers: viewers
                .map(|(name, may_send)| End::new(name, Side::Viewers, *may_send, &broker, now))
                .collect(),
            broker,
            counters: DataCounters::default(),
        };
        scene.run(Duration::from_millis(500));
        scene
    }

    fn run(&mut self, time: Duration) {
        let end = self.now + time;
        while self.now < end {
            let mut moved = true;
            while moved {
                moved = self.publisher.turn(self.now, &self.counters);
                for viewer in &mut self.viewers {
                    moved |= viewer.turn(self.now, &self.counters);
                }
            }
            self.now += Duration::from_millis(5);
        }
    }

    fn publish(&mut self, channel: ChannelId, message: Message) {
        self.publisher.say(channel, message, self.now);
    }

    /// Publishes a text that has the time to arrive.
    fn tell(&mut self, channel: ChannelId, text: &str) {
        self.publish(channel, Message::text(text));
        self.run(MOMENT);
    }

    /// Opens a channel of the publisher that has the time to arrive.
    fn open(&mut self, label: &str, reliability: Reliability) -> ChannelId {
        let channel = self.publisher.open(label, reliability, self.now);
        self.run(MOMENT);
        channel
    }
}

fn labelled(label: &str, texts: &[&str]) -> Vec<(String, Message)> {
    let texts = texts.iter();
    texts
        .map(|text| (label.to_owned(), Message::text(*text)))
        .collect()
}

const MOMENT: Duration = Duration::from_millis(300);

#[test]
fn what_is_published_reaches_every_viewer_on_a_channel_like_the_publishers() {
    let mut scene = Scene::new(&[("ann", false), ("bob", false)]);
    let now = scene.now;
    let timed = Reliability::Timed {
        lifetime: Duration::from_millis(150),
    };
    let telemetry = scene.publisher.open("telemetry", timed, now);
    let log = scene.publisher.open("log", Reliability::Reliable, now);
    scene.run(MOMENT);
    scene.publish(telemetry, Message::text("speed 3"));
    scene.publish(log, Message::binary(vec![7; 200_000]));
    scene.tell(telemetry, "");
    for viewer in &scene.viewers {
        let got = viewer.got();
        let (mut logged, told): (Vec<_>, Vec<_>) =
            got.into_iter().partition(|(label, _)| label == "log");
        assert_eq!(told, labelled("telemetry", &["speed 3", ""]));
        let logged = logged.pop().expect("one").1;
        assert_eq!((logged.kind, logged.data.len()), (Kind::Binary, 200_000));
        assert!(logged.data.iter().all(|byte| *byte == 7));
        let alike = |(_, info): (ChannelId, &sctp::channel::Info)| {
            (info.init.label.clone(), info.init.reliability)
        };
        let mut there: Vec<_> = viewer.peer.iter().map(alike).collect();
        there.sort_by(|a, b| a.0.cmp(&b.0));
        let wanted = [
            ("log".to_owned(), Reliability::Reliable),
            ("telemetry".to_owned(), timed),
        ];
        assert_eq!(there, wanted);
    }
    assert_eq!(scene.counters.messages_sent.get(), 6);
}

#[test]
fn messages_are_shared_and_not_copied_for_each_viewer() {
    let scene = Scene::new(&[("ann", false), ("bob", false)]);
    let inboxes = scene.viewers.iter().map(|viewer| &viewer.inbox);
    let data = Bytes::from(vec![1; 1000]);
    let content = PostedContent::Message {
        channel: Arc::default(),
        message: Message::binary(data.clone()),
    };
    scene.broker.post(Side::Viewers, content, scene.now);
    let mut posted = Vec::new();
    inboxes.for_each(|inbox| inbox.take(&mut posted));
    for posted in &posted {
        let PostedContent::Message { message, .. } = &posted.content else {
            panic!("a message");
        };
        assert_eq!(message.data.as_ptr(), data.as_ptr());
    }
    assert_eq!(posted.len(), 2);
}

#[test]
fn a_viewers_own_channel_of_the_same_label_is_used_instead() {
    let mut scene = Scene::new(&[("ann", false)]);
    let telemetry = scene.open("telemetry", Reliability::Reliable);
    scene.tell(telemetry, "by the server's");
    let own = Reliability::Limited { retransmissions: 0 };
    let now = scene.now;
    scene.viewers[0].open("telemetry", own, now);
    scene.run(MOMENT);
    scene.tell(telemetry, "by its own");
    let viewer = &scene.viewers[0];
    assert_eq!(
        viewer.got(),
        labelled("telemetry", &["by the server's", "by its own"])
    );
    let left: Vec<_> = viewer.peer.iter().collect();
    assert_eq!(left.len(), 1, "the server's was closed: {left:?}");
    assert_eq!(left[0].1.init.reliability, own);
    assert_eq!(left[0].1.messages_received, 1);
}

#[test]
fn who_joins_later_gets_what_comes_from_then_on() {
    let mut scene = Scene::new(&[("ann", false)]);
    let telemetry = scene.open("telemetry", Reliability::Reliable);
    scene.tell(telemetry, "one");
    let late = End::new("late", Side::Viewers, false, &scene.broker, scene.now);
    scene.viewers.push(late);
    scene.run(MOMENT);
    scene.tell(telemetry, "two");
    assert_eq!(
        scene.viewers[0].got(),
        labelled("telemetry", &["one", "two"])
    );
    assert_eq!(scene.viewers[1].got(), labelled("telemetry", &["two"]));
}

#[test]
fn viewers_that_may_write_reach_channels_that_the_publisher_opened() {
    let mut scene = Scene::new(&[("ann", true), ("eve", false)]);
    let now = scene.now;
    scene.publisher.open("commands", Reliability::Reliable, now);
    let ann = scene.viewers[0].open("commands", Reliability::Reliable, now);
    let eve = scene.viewers[1].open("commands", Reliability::Reliable, now);
    let other = scene.viewers[0].open("nobody-listens", Reliability::Reliable, now);
    scene.run(MOMENT);
    let now = scene.now;
    scene.viewers[0].say(ann, Message::text("forward"), now);
    scene.viewers[0].say(other, Message::text("to nobody"), now);
    scene.viewers[1].say(eve, Message::text("not allowed"), now);
    scene.run(MOMENT);
    assert_eq!(scene.publisher.got(), labelled("commands", &["forward"]));
    assert_eq!(scene.publisher.opened_by_server(), 0);
    assert_eq!(scene.counters.messages_dropped_no_channel.get(), 1);
    assert_eq!(scene.counters.messages_dropped_not_allowed.get(), 1);
    for viewer in &scene.viewers {
        assert!(viewer.got().is_empty(), "what goes up does not come down");
    }
}

#[test]
fn a_viewer_sends_so_many_messages_a_second_at_the_most() {
    let mut scene = Scene::new(&[("ann", true)]);
    let now = scene.now;
    scene.publisher.open("commands", Reliability::Reliable, now);
    let commands = scene.viewers[0].open("commands", Reliability::Reliable, now);
    scene.run(MOMENT);
    let now = scene.now;
    for _ in 0..50 {
        scene.viewers[0].say(commands, Message::text("!"), now);
    }
    scene.run(MOMENT);
    let got = scene.publisher.got().len();
    assert!((10..15).contains(&got), "{got} of 50 at 10 a second");
    let dropped = scene.counters.messages_dropped_too_fast.get();
    assert_eq!(got as u64 + dropped, 50);
    scene.run(Duration::from_secs(1));
    let now = scene.now;
    scene.viewers[0].say(commands, Message::text("again"), now);
    scene.run(MOMENT);
    assert_eq!(scene.publisher.got().len(), got + 1);
}

#[test]
fn a_slow_viewer_loses_its_reliable_channel_and_nobody_else_notices() {
    let mut scene = Scene::new(&[("slow", false), ("ann", false)]);
    let log = scene.open("log", Reliability::Reliable);
    scene.viewers[0].is_deaf = true;
    let mut sent = Vec::new();
    for number in 0..300u32 {
        let mut data = vec![0; 10_000];
        data[..4].copy_from_slice(&number.to_be_bytes());
        let message = Message::binary(data);
        sent.push(("log".to_owned(), message.clone()));
        scene.publish(log, message);
        scene.run(Duration::from_millis(10));
        let waiting = scene.viewers[0].messages.queues.stats().queued_bytes;
        assert!(waiting <= BOUNDS.queue_bytes, "{waiting} bytes wait");
    }
    assert!(scene.viewers[1].got() == sent, "all of it");
    assert_eq!(scene.counters.channels_closed_slow.get(), 1);
    assert!(scene.counters.messages_dropped_slow.get() > 0);
    let retained = scene.viewers[0].channels.report();
    assert!(retained.buffered + retained.unacknowledged <= 1 << 20);
    // The peer gets packets again: the messages that were handed over arrive without a gap, and
    // then the channel closes.
    scene.viewers[0].is_deaf = false;
    scene.run(Duration::from_secs(15));
    let got = scene.viewers[0].got();
    assert!(got == sent[..got.len()], "what came has no gap");
    let closed = |event: &&Event| matches!(event, Event::Closed { .. });
    assert_eq!(scene.viewers[0].heard.iter().filter(closed).count(), 1);
    // The next message opens it anew.
    scene.tell(log, "and now");
    let after = scene.viewers[0].got();
    assert_eq!(after.last(), labelled("log", &["and now"]).first());
    assert_eq!(scene.viewers[0].opened_by_server(), 2);
}

#[test]
fn a_viewer_that_floods_loses_alone() {
    let mut scene = Scene::new(&[("ann", true), ("bob", true), ("eve", true)]);
    let now = scene.now;
    scene.publisher.open("words", Reliability::Reliable, now);
    let open = |viewer: &mut End| viewer.open("words", Reliability::Reliable, now);
    let mut channels: Vec<_> = scene.viewers.iter_mut().map(open).collect();
    scene.run(MOMENT);
    let closed = |end: &End| {
        let closed = |event: &&Event| matches!(event, Event::Closed { .. });
        end.heard.iter().filter(closed).count()
    };
    scene.publisher.is_deaf = true;
    for word in ["one", "two", "three"] {
        for _ in 0..8 {
            let (now, before) = (scene.now, closed(&scene.viewers[0]));
            let much = Message::binary(vec![7; 100_000]);
            scene.viewers[0].say(channels[0], much, now);
            scene.run(MOMENT);
            if closed(&scene.viewers[0]) > before {
                let now = scene.now;
                channels[0] = scene.viewers[0].open("words", Reliability::Reliable, now);
                scene.run(MOMENT);
            }
        }
        for viewer in [1, 2] {
            let now = scene.now;
            scene.viewers[viewer].say(channels[viewer], Message::text(word), now);
        }
        scene.run(MOMENT);
        let waiting = scene.publisher.messages.queues.stats().queued_bytes;
        assert!(waiting <= BOUNDS.queue_bytes, "{waiting} bytes wait");
        scene.publisher.is_deaf = false;
        scene.run(Duration::from_secs(5));
        scene.publisher.is_deaf = true;
    }
    let texts = scene.publisher.got().into_iter();
    let texts = texts.filter(|(_, message)| message.kind == Kind::Text);
    let words = labelled("words", &["one", "one", "two", "two", "three", "three"]);
    assert_eq!(texts.collect::<Vec<_>>(), words);
    assert_eq!(closed(&scene.publisher), 0, "others send on it");
    assert!(closed(&scene.viewers[0]) > 0, "it is told of the gap");
    assert_eq!(
        [closed(&scene.viewers[1]), closed(&scene.viewers[2])],
        [0, 0]
    );
}

#[test]
fn a_slow_viewers_unreliable_channel_skips_what_is_old() {
    let mut scene = Scene::new(&[("slow", false)]);
    let now = scene.now;
    let once = Reliability::Limited { retransmissions: 0 };
    let telemetry = scene.publisher.open("telemetry", once, now);
    scene.run(MOMENT);
    scene.tell(telemetry, "first");
    scene.viewers[0].is_deaf = true;
    for _ in 0..300 {
        scene.publish(telemetry, Message::binary(vec![0; 10_000]));
        scene.run(Duration::from_millis(10));
        let waiting = scene.viewers[0].messages.queues.stats().queued_bytes;
        assert!(waiting <= BOUNDS.queue_bytes, "{waiting} bytes wait");
    }
    let dropped =
        scene.counters.messages_dropped_slow.get() + scene.counters.messages_dropped_expired.get();
    assert!(dropped > 0);
    assert_eq!(scene.counters.channels_closed_slow.get(), 0);
    scene.viewers[0].is_deaf = false;
    scene.run(Duration::from_secs(15));
    scene.tell(telemetry, "last");
    let got = scene.viewers[0].got();
    assert_eq!(got.last(), labelled("telemetry", &["last"]).first());
    assert_eq!(scene.viewers[0].opened_by_server(), 1, "the same channel");
}

#[test]
fn a_message_larger_than_a_viewer_takes_is_left_out_for_it() {
    let mut scene = Scene::new(&[("small", false), ("ann", false)]);
    let viewer = &mut scene.viewers[0];
    viewer.channels.set_peer_max_message_size(Some(1000));
    let log = scene.open("log", Reliability::Reliable);
    scene.publish(log, Message::binary(vec![0; 1001]));
    scene.publish(log, Message::binary(vec![0; 1000]));
    scene.run(MOMENT);
    let lengths = scene.viewers.iter().map(|viewer| {
        let got = viewer.got().into_iter();
        got.map(|(_, it)| it.data.len()).collect::<Vec<_>>()
    });
    assert_eq!(lengths.collect::<Vec<_>>(), [vec![1000], vec![1001, 1000]]);
    assert_eq!(scene.counters.messages_dropped_too_large.get(), 1);
}

#[test]
fn a_channel_closes_with_the_publishers_and_stays_closed_where_a_viewer_closed_it() {
    let mut scene = Scene::new(&[("ann", false), ("bob", false)]);
    let log = scene.open("log", Reliability::Reliable);
    scene.tell(log, "one");
    let bobs = scene.viewers[1].peer.iter().next().expect("one").0;
    let now = scene.now;
    scene.viewers[1].peer.close(bobs, now);
    scene.run(MOMENT);
    scene.tell(log, "two");
    assert_eq!(scene.viewers[0].got(), labelled("log", &["one", "two"]));
    assert_eq!(scene.viewers[1].got(), labelled("log", &["one"]));
    assert_eq!(scene.viewers[1].peer.iter().count(), 0);
    let now = scene.now;
    scene.publish(log, Message::text("three"));
    scene.publisher.peer.close(log, now);
    scene.run(MOMENT);
    assert_eq!(scene.viewers[0].peer.iter().count(), 0, "closed");
    let got = scene.viewers[0].got();
    assert_eq!(got.last().expect("some").1, Message::text("three"));
}

#[test]
fn channels_are_bounded_on_both_sides() {
    let mut scene = Scene::new(&[("ann", true)]);
    let now = scene.now;
    for number in 0..6 {
        let label = format!("up {number}");
        scene.viewers[0].open(&label, Reliability::Reliable, now);
    }
    scene.run(MOMENT);
    assert_eq!(
        scene.viewers[0].messages.queues.stats().channels,
        BOUNDS.channels
    );
    // The publisher uses more labels than a viewer is given channels for: messages of two labels
    // are dropped.
    for number in 0..6 {
        let now = scene.now;
        let label = format!("down {number}");
        let channel = scene.publisher.open(&label, Reliability::Reliable, now);
        scene.run(MOMENT);
        if scene.publisher.peer.info(channel).is_some() {
            scene.publish(channel, Message::text("!"));
        }
        scene.run(MOMENT);
    }
    assert_eq!(scene.publisher.messages.queues.stats().channels, 4);
    assert_eq!(scene.viewers[0].got().len(), 4);
    assert_eq!(scene.viewers[0].messages.queues.stats().channels, 8);
}

#[test]
fn a_session_that_missed_something_on_its_way_closes_what_promised_to_miss_nothing() {
    let mut scene = Scene::new(&[("ann", false)]);
    let log = scene.open("log", Reliability::Reliable);
    scene.tell(log, "one");
    // While it moved between two shards, the session was on neither.
    let elsewhere = scene.broker.subscribe(Side::Viewers, Arc::new(NoWake));
    let inbox = std::mem::replace(&mut scene.viewers[0].inbox, elsewhere);
    scene.publish(log, Message::text("two"));
    scene.publisher.turn(scene.now, &scene.counters);
    scene.publisher.turn(scene.now, &scene.counters);
    scene.viewers[0].inbox.take(&mut Vec::new());
    drop(inbox);
    scene.tell(log, "three");
    assert_eq!(scene.counters.channels_closed_slow.get(), 1);
    scene.tell(log, "four");
    assert_eq!(scene.viewers[0].got(), labelled("log", &["one", "four"]));
}

#[test]
fn a_publisher_that_comes_back_is_heard_on_the_same_channels() {
    let mut scene = Scene::new(&[("ann", false)]);
    let log = scene.open("log", Reliability::Reliable);
    scene.tell(log, "one");
    let again = End::new("again", Side::Publisher, true, &scene.broker, scene.now);
    let mut former = std::mem::replace(&mut scene.publisher, again);
    scene.run(MOMENT);
    let fresh = scene.open("log", Reliability::Reliable);
    former.say(log, Message::text("of the former"), scene.now);
    for _ in 0..3 {
        former.turn(scene.now, &scene.counters);
    }
    scene.tell(fresh, "two");
    assert_eq!(scene.viewers[0].got(), labelled("log", &["one", "two"]));
    assert_eq!(scene.viewers[0].opened_by_server(), 1);
    assert_eq!(scene.counters.messages_dropped_not_allowed.get(), 1);
}

#[test]
fn an_association_that_is_not_established_is_told_once_and_at_its_time() {
    let (now, s) = (Instant::now(), Duration::from_secs);
    let new = || {
        let broker = Arc::new(MessageBroker::default());
        let id = SessionId::new("viewer");
        let mut messages = Messages::new(id, Side::Viewers, false, broker, BOUNDS, now);
        assert_eq!(messages.deadline(), None, "the handshake is not done");
        messages.connected(now + s(5));
        messages
    };
    let mut silent = new();
    assert_eq!(
        silent.deadline(),
        Some(now + s(15)),
        "from the handshake on"
    );
    assert!(!silent.is_overdue(now + s(14)) && silent.is_overdue(now + s(15)));
    silent.set_told();
    assert_eq!(silent.deadline(), None);
    let mut refused = new();
    let (cause, text) = (None, String::new());
    let aborted = sctp::CloseReason::AbortedByPeer { cause, text };
    refused.association.end(&aborted);
    assert!(!refused.is_overdue(now + s(5)) && refused.is_overdue(now + s(6)));
    let mut served = new();
    served.association = super::Association::Established;
    assert_eq!(served.deadline(), None);
    served.association.end(&aborted);
    assert!(!served.is_overdue(now + s(60)), "it was established");
}
