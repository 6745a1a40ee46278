//! Tests of how channels open at both ends, and of the limits on them.

use super::*;

#[test]
fn the_peer_learns_all_that_a_channel_was_opened_with() {
    let mut world = World::connected();
    let init = Init {
        label: "zeichen ✓".into(),
        protocol: "chat".into(),
        ordered: false,
        reliability: Reliability::Limited { retransmissions: 3 },
        negotiated: None,
        priority: 512,
    };
    let ours = world.open(A, init.clone());
    assert_eq!(
        world.ends[A].channels.info(ours).expect("open").stream,
        Some(0)
    );
    world.pass(100);
    assert_eq!(world.opened(A, false), ours);
    let theirs = world.opened(B, true);
    let info = world.ends[B].channels.info(theirs).expect("open");
    assert_eq!((&info.init, info.by_peer), (&init, true));
    assert_eq!(info.stream, Some(0));
    world.send(B, theirs, Message::text("servus"));
    world.pass(100);
    let message = Message::text("servus");
    let channel = ours;
    assert_eq!(world.next(A), Some(Event::Message { channel, message }));
}

#[test]
fn messages_follow_the_open_without_waiting_for_its_answer() {
    let mut world = World::new();
    let channel = world.open(A, labelled("early"));
    let now = world.now();
    let early = world.ends[A]
        .channels
        .send(channel, Message::text("too early"), now);
    assert_eq!(early, Err(SendError::NotOpen));
    while world.next(A) != Some(Event::Connected) {
        world.pass(1);
    }
    assert_eq!(world.opened(A, false), channel);
    world.send(A, channel, Message::text("one"));
    // A little more than the one-way delay: the OPEN and the message have arrived, no
    // answer has.
    world.pass(11);
    assert_eq!(world.next(B), Some(Event::Connected));
    let channel = world.opened(B, true);
    let message = Message::text("one");
    assert_eq!(world.next(B), Some(Event::Message { channel, message }));
}

#[test]
fn unordered_messages_stay_behind_the_open_until_it_is_answered() {
    // Half of the packets are very late: messages that may be overtaken are.
    for seed in 1..=8 {
        let conditions = Conditions {
            reorder: 0.5,
            reorder_delay: Duration::from_millis(40),
            ..Conditions::delayed(Duration::from_millis(10))
        };
        let mut world = World::over(conditions, seed);
        let init = Init {
            ordered: false,
            ..labelled("any order")
        };
        let channel = world.open(A, init);
        while world.next(A) != Some(Event::Connected) {
            world.pass(1);
        }
        for number in 0..20 {
            world.send(A, channel, Message::text(number.to_string()));
            world.pass(2);
        }
        world.pass(2000);
        let events: Vec<_> = world.ends[B].events.drain(..).collect();
        assert_eq!(events.len(), 22, "seed {seed}: {events:?}");
        assert!(matches!(events[1], Event::Opened { .. }));
    }
}

#[test]
fn both_ends_open_at_once_on_streams_of_their_own() {
    let mut world = World::new();
    let first = [A, B].map(|end| world.open(end, labelled("first")));
    let second = [A, B].map(|end| world.open(end, labelled("second")));
    world.pass(300);
    for end in [A, B] {
        let stream = |channel| world.ends[end].channels.info(channel).expect("open").stream;
        let parity = end as u16;
        assert_eq!(stream(first[end]), Some(parity));
        assert_eq!(stream(second[end]), Some(parity + 2));
        let opened = |event: &&Event| matches!(event, Event::Opened { .. });
        assert_eq!(world.ends[end].events.iter().filter(opened).count(), 4);
    }
}

#[test]
fn negotiated_channels_need_no_word() {
    let mut world = World::new();
    let channels = [A, B].map(|end| world.open(end, negotiated(7)));
    let now = world.now();
    let again = world.ends[A].channels.open(negotiated(7), now);
    assert_eq!(again, Err(OpenError::InUse { stream: 7 }));
    let last = world.ends[A].channels.open(negotiated(65535), now);
    let last_stream = OpenError::OutOfRange {
        stream: 65535,
        last: 65534,
    };
    assert_eq!(last, Err(last_stream));
    world.pass(200);
    for end in [A, B] {
        assert_eq!(world.next(end), Some(Event::Connected));
        assert_eq!(world.opened(end, false), channels[end]);
        world.send(end, channels[end], Message::binary(vec![end as u8; 3]));
    }
    world.pass(50);
    for end in [A, B] {
        let message = Message::binary(vec![1 - end as u8; 3]);
        let channel = channels[end];
        assert_eq!(world.next(end), Some(Event::Message { channel, message }));
    }
    let sent = world.ends[A].channels.report().data_sent;
    assert_eq!(sent, 3, "no OPEN and no ACK");
}

#[test]
fn a_negotiated_stream_that_the_association_lacks_closes_the_channel() {
    let config = Config {
        streams: 4,
        ..Config::default()
    };
    let conditions = Conditions::default();
    let mut world = World::with([Limits::default(); 2], &config, conditions, 1);
    let channel = world.open(A, negotiated(9));
    world.pass(100);
    assert_eq!(world.next(A), Some(Event::Connected));
    let by = ClosedBy::NoStream;
    assert_eq!(world.next(A), Some(Event::Closed { channel, by }));
    let [even, last] = [0, 1].map(|_| world.open(A, Init::default()));
    let none = world.open(A, Init::default());
    let streams = [even, last].map(|id| world.ends[A].channels.info(id).expect("open").stream);
    assert_eq!(streams, [Some(0), Some(2)]);
    assert_eq!(world.ends[A].channels.info(none), None);
}

#[test]
fn channels_and_names_beyond_the_limits_are_closed() {
    let limits = Limits {
        channels_max: 3,
        names_max: 100,
        ..Limits::default()
    };
    let conditions = Conditions::delayed(Duration::from_millis(5));
    let config = Config::default();
    let mut world = World::with([Limits::default(), limits], &config, conditions, 1);
    for label in ["a", "b", &"c".repeat(99), "d", "e"] {
        world.open(A, labelled(label));
    }
    let now = world.now();
    let long = world.ends[A]
        .channels
        .open(labelled(&"x".repeat(65536)), now);
    assert_eq!(
        long.map_err(|error| error.to_string()),
        Err("the label of a data channel has 65536 bytes; at most 65535 are allowed".into())
    );
    world.pass(500);
    assert_eq!(world.ends[A].channels.iter().count(), 3);
    assert_eq!(world.ends[B].channels.iter().count(), 3);
    let too_many = |event: &&Event| {
        let why = Refusal::TooMany;
        matches!(event, Event::Refused { why: it, .. } if *it == why)
    };
    assert_eq!(world.ends[B].events.iter().filter(too_many).count(), 2);
    let now = world.now();
    let own = world.ends[B].channels.open(Init::default(), now);
    assert_eq!(own, Err(OpenError::TooMany { limit: 3 }));
}

/// A peer may send on any of 65,536 streams, and may open and close a channel on each in turn.
#[test]
fn streams_without_a_channel_leave_nothing_behind() {
    let mut world = World::connected();
    for stream in 100..2_100 {
        world.forge(A, stream, ppid::STRING, b"nobody");
        world.forge(A, stream, ppid::STRING, b"listens");
        if stream % 50 == 0 {
            world.pass(100);
        }
    }
    world.pass(2_000);
    let refused = |event: &&Event| matches!(event, Event::Refused { .. });
    assert_eq!(world.ends[B].events.iter().filter(refused).count(), 4_000);
    for round in 0..10 {
        let channel = world.open(A, labelled("brief"));
        world.pass(100);
        world.send(A, channel, Message::text("last words"));
        world.close(A, channel);
        world.pass(300);
        let states = world.ends[B].channels.association.stream_states();
        assert_eq!(states, [0, 0], "round {round}");
    }
    // Of the channels that are open now, the messages come as ever.
    world.ends[B].events.clear();
    let channel = world.open(A, labelled("lasting"));
    world.pass(100);
    world.send(A, channel, Message::text("heard"));
    world.pass(100);
    world.opened(B, true);
    let is_heard = |event: Option<Event>| matches!(event, Some(Event::Message { .. }));
    assert!(is_heard(world.next(B)));
    assert_eq!(world.ends[B].channels.association.stream_states(), [1, 1]);
}

/// The OPEN is lost, and the messages behind it arrive first: they wait for it in order.
#[test]
fn messages_that_overtake_their_open_come_after_it() {
    for interleaving in [false, true] {
        let config = Config {
            interleaving,
            ..Config::default()
        };
        let conditions = Conditions::delayed(Duration::from_millis(10));
        let mut world = World::with([Limits::default(); 2], &config, conditions, 3);
        world.pass(200);
        world.ends.iter_mut().for_each(|end| end.events.clear());
        let channel = world.open(A, labelled("late"));
        let now = world.now();
        let mut out = [0; 2000];
        world.ends[A].read(now);
        let lost = world.ends[A].channels.poll_transmit(now, &mut out);
        assert!(lost.is_some(), "it carries the OPEN");
        for number in 0..5 {
            world.send(A, channel, Message::text(number.to_string()));
        }
        world.pass(2_000);
        let channel = world.opened(B, true);
        for number in 0..5 {
            let message = Message::text(number.to_string());
            assert_eq!(world.next(B), Some(Event::Message { channel, message }));
        }
    }
}
