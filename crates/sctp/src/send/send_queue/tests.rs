use super::*;

fn message(len: usize) -> QueuedMessage {
    QueuedMessage {
        data: Bytes::from(vec![7; len]),
        ppid: 53,
        unordered: false,
        limits: RetransmitLimits::default(),
    }
}

const ROOM: FragmentRoom = FragmentRoom {
    packet: 100,
    peer: 1 << 20,
};

/// Returns the streams of the next fragments of up to 100 bytes.
fn order(streams: &mut SendQueue, count: usize) -> Vec<u16> {
    order_within(ROOM, streams, count)
}

fn order_within(room: FragmentRoom, streams: &mut SendQueue, count: usize) -> Vec<u16> {
    let mut order = Vec::new();
    #[expect(clippy::disallowed_methods, reason = "virtual time begins anywhere")]
    let now = Instant::now();
    for _ in 0..count {
        let Some(fragment) = streams.peek(room, now, &mut 0) else {
            break;
        };
        streams.take(&fragment, 0);
        order.push(fragment.stream);
    }
    order
}

#[test]
fn without_interleaving_messages_take_turns_whole() {
    let mut streams = SendQueue::default();
    for stream in [1, 2] {
        streams.push(stream, message(250));
        streams.push(stream, message(250));
    }
    assert_eq!(
        order(&mut streams, 20),
        [1, 1, 1, 2, 2, 2, 1, 1, 1, 2, 2, 2]
    );
    assert!(streams.is_empty());
    assert_eq!(streams.buffered_total(), 0);
}

#[test]
fn interleaved_chunks_follow_the_priorities() {
    let mut streams = SendQueue::default();
    streams.set_interleaving(true);
    streams.set_priority(1, 512);
    streams.set_priority(2, 128);
    for stream in [1, 2] {
        streams.push(stream, message(100_000));
    }
    let order = order(&mut streams, 500);
    let first = order.iter().filter(|&&stream| stream == 1).count();
    assert!((398..=402).contains(&first), "four of five: {first}");
}

#[test]
fn no_more_is_begun_than_the_peer_can_hold() {
    let mut streams = SendQueue::default();
    streams.set_interleaving(true);
    for stream in [1, 2, 3] {
        streams.push(stream, message(300));
    }
    // A message of one packet delays no other.
    streams.push(4, message(100));
    let room = FragmentRoom { peer: 700, ..ROOM };
    assert_eq!(
        order_within(room, &mut streams, 20),
        [1, 2, 4, 1, 2, 1, 3, 3, 2, 3]
    );
    assert_eq!((streams.begun_bytes, streams.buffered_total()), (0, 0));
}

#[test]
fn a_stream_that_was_silent_does_not_catch_up() {
    let mut streams = SendQueue::default();
    streams.set_interleaving(true);
    streams.push(1, message(100_000));
    streams.push(3, message(100_000));
    order(&mut streams, 200);
    streams.push(2, message(100_000));
    let order = order(&mut streams, 30);
    let second = order.iter().filter(|&&stream| stream == 2).count();
    assert!((9..=11).contains(&second), "a third: {second}");
}

#[test]
fn the_threshold_is_told_once_it_is_reached() {
    let mut streams = SendQueue::default();
    streams.set_low(4, 150);
    streams.push(4, message(350));
    order(&mut streams, 1);
    assert!(!streams.has_low());
    order(&mut streams, 1);
    assert_eq!(streams.take_low().collect::<Vec<_>>(), [4]);
    order(&mut streams, 2);
    assert!(!streams.has_low());
}

#[test]
fn streams_that_were_only_reset_leave_no_state() {
    let mut queue = SendQueue::default();
    for stream in 0..1_000 {
        queue.set_resetting(stream, true);
        assert!(queue.is_resetting(stream));
        queue.restart(stream);
    }
    queue.set_priority(70, 512);
    queue.set_low(70, 9);
    queue.set_resetting(70, true);
    queue.close(70);
    assert!(queue.is_used(70), "it is being reset");
    queue.restart(70);
    // Those of low numbers are in a table.
    let states = queue.streams.iter_mut().filter(|it| it.0 >= 64).count();
    assert_eq!((queue.stream_states(), states), (0, 0));
}
