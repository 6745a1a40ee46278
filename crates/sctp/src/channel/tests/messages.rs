//! Tests of messages: their sizes, their parts, and the bytes that wait.

use super::*;

#[test]
fn a_message_above_the_peers_limit_is_refused_by_name() {
    let mut world = World::connected();
    let channel = world.open(A, Init::default());
    let now = world.now();
    let end = &mut world.ends[A].channels;
    let send = |end: &mut Channels, size: usize| {
        let message = Message::binary(vec![0; size]);
        end.send(channel, message, now)
    };
    assert_eq!(send(end, 65536), Ok(()));
    let error = send(end, 65537).expect_err("above 64 KiB, which holds where none is stated");
    assert_eq!(
        error.to_string(),
        "the message has 65537 bytes; the peer accepts 65536 (its max-message-size): send it in parts"
    );
    end.set_peer_max_message_size(Some(100));
    let limit = 100;
    assert_eq!(
        send(end, 101),
        Err(SendError::TooLarge { size: 101, limit })
    );
    end.set_peer_max_message_size(Some(0));
    assert_eq!(send(end, 200_000), Ok(()));
    end.set_peer_max_message_size(None);
    assert!(send(end, 65537).is_err());
}

#[test]
fn empty_messages_arrive_empty() {
    let mut world = World::connected();
    let ours = world.open(A, Init::default());
    world.pass(50);
    world.opened(A, false);
    let channel = world.opened(B, true);
    for message in [Message::text(""), Message::binary(Vec::new())] {
        world.send(A, ours, message.clone());
        world.pass(50);
        assert_eq!(world.next(B), Some(Event::Message { channel, message }));
    }
    let info = world.ends[B].channels.info(channel).expect("open");
    assert_eq!((info.messages_received, info.bytes_received), (2, 0));
}

#[test]
fn parts_of_old_browsers_become_one_message() {
    let mut world = World::connected();
    world.open(A, Init::default());
    world.pass(50);
    world.opened(A, false);
    let channel = world.opened(B, true);
    world.forge(A, 0, ppid::STRING_PARTIAL, b"one, ");
    world.forge(A, 0, ppid::STRING_PARTIAL, b"two, ");
    world.forge(A, 0, ppid::STRING, b"three");
    world.forge(A, 0, ppid::BINARY_PARTIAL, b"\x01");
    world.forge(A, 0, ppid::BINARY, b"\x02");
    world.pass(50);
    let message = Message::text("one, two, three");
    assert_eq!(world.next(B), Some(Event::Message { channel, message }));
    let message = Message::binary(&[1, 2][..]);
    assert_eq!(world.next(B), Some(Event::Message { channel, message }));
    assert_eq!(world.ends[B].channels.parts, 0);
}

#[test]
fn parts_without_end_close_the_channel() {
    let limits = Limits {
        parts_max: 2500,
        ..Limits::default()
    };
    let conditions = Conditions::default();
    let config = Config::default();
    let mut world = World::with([Limits::default(), limits], &config, conditions, 1);
    world.open(A, Init::default());
    world.pass(50);
    for _ in 0..3 {
        world.forge(A, 0, ppid::BINARY_PARTIAL, &[0; 1000]);
    }
    world.pass(300);
    let why = Refusal::PartsTooLarge;
    let refused = Event::Refused { stream: 0, why };
    assert!(
        world.ends[B].events.contains(&refused),
        "{:?}",
        world.ends[B].events
    );
    assert_eq!(world.ends[B].channels.parts, 0);
    let closed = |event: &Event| matches!(event, Event::Closed { .. });
    assert!(world.ends[A].events.iter().any(closed));
    assert!(world.ends[B].events.iter().any(closed));
}

#[test]
fn buffered_bytes_are_told_and_their_low_mark_is_an_event() {
    let mut world = World::new();
    let channel = world.open(A, Init::default());
    world.ends[A].channels.set_buffered_low(channel, 100_000);
    world.ends[A].channels.set_peer_max_message_size(Some(0));
    world.ends[A].keeps_buffered_low = true;
    world.pass(100);
    world.ends[A].events.clear();
    for _ in 0..20 {
        world.send(A, channel, Message::binary(vec![0; 200_000]));
    }
    assert_eq!(world.ends[A].channels.buffered_amount(channel), 4_000_000);
    world.pass(10_000);
    assert_eq!(world.ends[A].channels.buffered_amount(channel), 0);
    assert_eq!(world.next(A), Some(Event::BufferedLow { channel }));
    assert_eq!(world.next(A), None);
}

#[test]
fn a_full_send_buffer_is_an_error_that_passes() {
    let config = Config {
        send_buffer_max: 300_000,
        ..Config::default()
    };
    let conditions = Conditions::delayed(Duration::from_millis(10));
    let mut world = World::with([Limits::default(); 2], &config, conditions, 1);
    let channel = world.open(A, Init::default());
    world.ends[A].channels.set_peer_max_message_size(Some(0));
    world.pass(100);
    let now = world.now();
    let message = Message::binary(vec![0; 100_000]);
    let mut taken = 0;
    let error = loop {
        match world.ends[A].channels.send(channel, message.clone(), now) {
            Ok(()) => taken += 1,
            Err(error) => break error,
        }
    };
    assert!(matches!(
        error,
        SendError::Association(crate::SendError::BufferFull { .. })
    ));
    assert!((2..=3).contains(&taken));
    // A channel without room for its OPEN sends it later.
    let second = world.open(A, labelled("second"));
    assert_eq!(
        world.ends[A]
            .channels
            .send(second, Message::text("hi"), now),
        Err(SendError::NotOpen)
    );
    world.pass(1000);
    world.send(A, second, Message::text("hi"));
    world.send(A, channel, message);
    world.pass(1000);
    let last = world.ends[B].events.iter().rev();
    let texts = last.filter(
        |event| matches!(event, Event::Message { message, .. } if message.as_text() == Some("hi")),
    );
    assert_eq!(texts.count(), 1);
}

#[test]
fn a_message_that_is_not_taken_stays_in_the_association() {
    let mut world = World::connected();
    let channel = world.open(A, Init::default());
    world.ends[A].channels.set_peer_max_message_size(Some(0));
    world.pass(50);
    for _ in 0..10 {
        world.send(A, channel, Message::binary(vec![0; 100_000]));
    }
    world.ends[B].reads = false;
    world.pass(5000);
    let report = world.ends[B].channels.report();
    println!("{report:#?}");
    assert_eq!(report.unread, 1_000_000);
    assert!(report.own_window < report.own_window_limit);
}
