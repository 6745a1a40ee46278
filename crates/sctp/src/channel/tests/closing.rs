//! Tests of how channels close, one by one and with their association.

use super::*;

#[test]
fn a_channel_closes_at_both_ends_and_its_stream_serves_again() {
    let mut world = World::connected();
    for round in 0..4 {
        let (closer, other) = if round % 2 == 0 { (A, B) } else { (B, A) };
        let ours = world.open(A, labelled("again"));
        world.pass(100);
        world.opened(A, false);
        let theirs = world.opened(B, true);
        let ids = [ours, theirs];
        assert_eq!(
            world.ends[B].channels.info(theirs).expect("open").stream,
            Some(0)
        );
        world.send(closer, ids[closer], Message::text("last words"));
        world.close(closer, ids[closer]);
        let now = world.now();
        let late = world.ends[closer]
            .channels
            .send(ids[closer], Message::text("later"), now);
        assert_eq!(late, Err(SendError::Closing));
        world.pass(300);
        let channel = ids[other];
        let message = Message::text("last words");
        assert_eq!(world.next(other), Some(Event::Message { channel, message }));
        let by = ClosedBy::Peer;
        assert_eq!(world.next(other), Some(Event::Closed { channel, by }));
        let (channel, by) = (ids[closer], ClosedBy::Us);
        assert_eq!(world.next(closer), Some(Event::Closed { channel, by }));
        assert_eq!(
            world.ends[A].channels.iter().count() + world.ends[B].channels.iter().count(),
            0
        );
    }
}

#[test]
fn closing_at_both_ends_at_once_closes_once() {
    let mut world = World::connected();
    let channels = [A, B].map(|end| world.open(end, negotiated(3)));
    world.pass(50);
    for end in [A, B] {
        world.opened(end, false);
        world.close(end, channels[end]);
    }
    world.pass(500);
    for end in [A, B] {
        let (channel, by) = (channels[end], ClosedBy::Us);
        assert_eq!(world.next(end), Some(Event::Closed { channel, by }));
        assert_eq!(world.next(end), None);
    }
}

#[test]
fn many_channels_open_and_close_on_a_lossy_path() {
    for seed in 1..=5 {
        let conditions =
            Conditions::delayed(Duration::from_millis(10)).with_loss(Loss::Random(0.1));
        let mut world = World::over(conditions, seed);
        let mut rng = Rng::new(seed);
        let mut open: [Vec<ChannelId>; 2] = Default::default();
        for _ in 0..120 {
            let end = rng.below(2) as usize;
            if rng.chance(0.5) && !open[end].is_empty() {
                let at = rng.below(open[end].len() as u64) as usize;
                let channel = open[end].swap_remove(at);
                world.close(end, channel);
            } else {
                open[end].push(world.open(end, labelled("one of many")));
            }
            world.pass(rng.below(60));
        }
        for end in [A, B] {
            for channel in std::mem::take(&mut open[end]) {
                world.close(end, channel);
            }
        }
        world.pass(20_000);
        for end in [A, B] {
            assert_eq!(world.ends[end].channels.iter().count(), 0, "seed {seed}");
            let of = |wanted: fn(&Event) -> bool| {
                let events = world.ends[end].events.iter();
                events.filter(|event| wanted(event)).count()
            };
            let refused = of(|event| matches!(event, Event::Refused { .. }));
            let closed = of(|event| matches!(event, Event::Closed { .. }));
            let opened = of(|event| matches!(event, Event::Opened { .. }));
            assert_eq!(refused, 0, "seed {seed}");
            // A channel that is closed before the association is established was never
            // open.
            assert!(closed >= opened && opened > 20, "seed {seed}");
        }
    }
}

#[test]
fn what_has_no_place_is_named_and_its_stream_reset() {
    type Forgery = (u16, u32, &'static [u8], Refusal);
    const OPEN: &[u8] = &[3, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0];
    let forgeries: [Forgery; 6] = [
        (40, ppid::STRING, b"to nobody", Refusal::NoChannel),
        (40, ppid::CONTROL, &[2], Refusal::NoChannel),
        (41, ppid::CONTROL, OPEN, Refusal::Parity),
        (0, ppid::CONTROL, OPEN, Refusal::InUse),
        (40, ppid::CONTROL, &[3, 9], Refusal::Malformed),
        (0, 99, b"what is that?", Refusal::PayloadProtocol),
    ];
    for (stream, ppid, data, why) in forgeries {
        let mut world = World::connected();
        let channel = world.open(A, Init::default());
        world.pass(50);
        world.opened(A, false);
        world.opened(B, true);
        world.forge(A, stream, ppid, data);
        world.pass(300);
        assert_eq!(world.next(B), Some(Event::Refused { stream, why }));
        let goes_on = stream != 0 || why == Refusal::PayloadProtocol;
        if !goes_on {
            let by = ClosedBy::Fault;
            assert!(matches!(world.next(B), Some(Event::Closed { by: it, .. }) if it == by));
            let by = ClosedBy::Peer;
            assert_eq!(world.next(A), Some(Event::Closed { channel, by }));
        }
        assert_eq!(world.next(B), None);
        assert_eq!(world.next(A), None);
        assert_eq!(world.ends[A].channels.info(channel).is_some(), goes_on);
    }
}

#[test]
fn the_end_of_the_association_closes_all_channels_first() {
    let mut world = World::connected();
    let channel = world.open(A, Init::default());
    world.pass(50);
    world.opened(A, false);
    let theirs = world.opened(B, true);
    let now = world.now();
    world.ends[A].channels.abort(now);
    world.pass(50);
    let by = ClosedBy::Association;
    assert_eq!(world.next(A), Some(Event::Closed { channel, by }));
    assert_eq!(world.next(A), Some(Event::Ended(CloseReason::Aborted)));
    let channel = theirs;
    assert_eq!(world.next(B), Some(Event::Closed { channel, by }));
    assert!(matches!(
        world.next(B),
        Some(Event::Ended(CloseReason::AbortedByPeer { .. }))
    ));
    let now = world.now();
    let late = world.ends[A].channels.open(Init::default(), now);
    assert_eq!(late, Err(OpenError::Closed));
}

#[test]
fn an_end_with_something_to_say_to_nobody_gives_up() {
    let mut world = World::connected();
    let channel = world.open(A, Init::default());
    world.pass(100);
    world.send(A, channel, Message::text("hello?"));
    world.ends[B].channels.abort(world.network.now());
    let deaf = Conditions::default().with_loss(Loss::Random(1.0));
    world.network.set_conditions(&deaf);
    world.expect_within(Duration::from_secs(120), "A gives up", |world| {
        world.ends[A].channels.poll_timeout().is_none()
    });
    let gone = Event::Ended(CloseReason::PeerUnreachable);
    assert_eq!(world.ends[A].events.back(), Some(&gone));
}
