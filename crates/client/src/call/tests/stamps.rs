//! Tests of the records that the ends of a call exchange, and of records about duplicates.

use std::collections::HashMap;

use super::*;

/// Both ends are here, so what the far one sent can be held against what it stamped.
#[test]
fn what_the_far_end_tells_is_placed_within_its_bar_and_only_who_asks_is_told() {
    let tells = Config {
        redundancy: true,
        ..light()
    };
    let asks = Config {
        stamps: Stamps::Exchange,
        ..tells.clone()
    };
    let [near, far] = transports(&tells);
    let mut near = End::start("asks", near, &asks, QUIET);
    let mut far = End::start("tells", far, &tells, QUIET);
    // Records wait four seconds for answers.
    let until = Instant::now() + PATIENCE;
    while near.records.remote.len() < 600 {
        assert!(Instant::now() < until, "{:?}", near.call.figures());
        near.drain();
        far.drain();
        std::thread::sleep(Duration::from_millis(50));
    }
    near.end().expect("no trouble");
    far.wait_until("the other hung up", |call| call.ended().is_some());
    far.end().expect("no trouble");
    assert!(far.records.remote.is_empty());
    let report = near.call.figures().far.expect("it has the channels");
    assert!(report.is_there && !report.is_requested, "{report:?}");
    assert_eq!((report.refused, report.unconverted), (0, 0), "{report:?}");
    let clock = report.clock.expect("it answered");
    assert!(clock.error < Duration::from_millis(500), "{clock:?}");
    let truth = &far.records;
    let spoken: HashMap<_, _> = truth.sent.iter().map(|it| (it.timestamp, it)).collect();
    let heard: HashMap<_, _> = truth.played.iter().map(|it| (it.timestamp, it)).collect();
    let mut compared = [0; 3];
    for told in &near.records.remote {
        let (kind, here, there) = match told.record {
            Record::Sent(ssrc, it) => {
                assert_eq!(Some(ssrc), far.call.ssrc());
                let truth = spoken[&it.timestamp];
                assert_eq!(it.signal, truth.signal);
                (0, it.captured, truth.captured)
            }
            Record::Played(it) => {
                let truth = heard[&it.timestamp];
                assert_eq!((it.decode, it.sequence), (truth.decode, truth.sequence));
                (1, it.played, truth.played)
            }
            Record::Duplicate(it) => {
                // Where the machine stood still, packets are late, too.
                assert!(
                    matches!(it.why, DuplicateReason::Redundant | DuplicateReason::Late),
                    "{it:?}"
                );
                compared[2] += usize::from(it.why == DuplicateReason::Redundant);
                continue;
            }
            _ => continue,
        };
        let off = here.max(there) - here.min(there);
        assert!(off <= told.error, "{off:?} off, {:?} told", told.error);
        compared[kind] += 1;
    }
    println!("{compared:?} records, {clock:?}");
    assert!(compared.iter().all(|it| *it > 50), "{compared:?}");
}

#[test]
fn without_channels_at_the_other_end_there_is_a_call_and_nothing_is_told() {
    let asks = Config {
        stamps: Stamps::Exchange,
        ..light()
    };
    let without = Config {
        stamps: Stamps::Off,
        ..light()
    };
    let loopback = ([127, 0, 0, 1], 9).into();
    let dialling = Dialling::new(loopback, &asks).expect("loopback");
    let (called, answer) = answer(dialling.offer(), loopback, &without).expect("our own offer");
    let near = dialling.answered(&answer).expect("our own answer");
    let mut near = End::start("alone", near, &asks, QUIET);
    let mut far = End::start("without", called, &without, QUIET);
    near.wait_until("it hears", |call| {
        let listening = call.figures().listening;
        listening.is_some_and(|it| !it.streams.is_empty())
    });
    near.end().expect("no trouble");
    far.end().expect("no trouble");
    assert_eq!(near.call.figures().far, None);
    assert!(near.records.remote.is_empty());
}

#[test]
fn nonsense_of_the_far_end_is_named_and_the_call_goes_on() {
    let config = light();
    let [near, far] = transports(&config);
    let mut near = End::start("sane", near, &config, QUIET);
    let mut far = End::start("strange", far, &config, QUIET);
    far.wait_until("its channels are open", |call| {
        call.figures().far.is_some_and(|it| it.is_there)
    });
    {
        let mut transport = far.call.shared.transport();
        let channels = transport.session.channels_mut().expect("agreed");
        let ids: Vec<_> = channels.iter().map(|(id, _)| id).collect();
        for id in ids {
            let nonsense = glassline_sctp::channel::Message::text("nonsense");
            channels.send(id, nonsense, Instant::now()).expect("open");
        }
    }
    near.wait_until("it came", |call| {
        call.figures().far.is_some_and(|it| it.refused == 2)
    });
    let heard = |call: &Call| {
        let listening = call.figures().listening;
        let streams = listening.map(|it| it.streams).unwrap_or_default();
        streams.first().map_or(0, |it| it.jitter.counts.packets)
    };
    let before = heard(&near.call);
    near.wait_until("it goes on", |call| heard(call) > before + 20);
    let report = near.call.figures().far.expect("it has the channels");
    let text = report.refusal.expect("kept").to_string();
    assert!(text.starts_with("the other end's "), "{text}");
    near.end().expect("no trouble");
    far.end().expect("no trouble");
}

#[test]
fn a_packet_that_the_network_made_two_of_is_a_row_of_the_first() {
    let config = light();
    let [near, far] = transports(&config);
    let mut near = End::start("twice", near, &config, QUIET);
    let mut far = End::start("twice-far", far, &config, QUIET);
    far.wait_until("it hears", |call| {
        let listening = call.figures().listening;
        listening.is_some_and(|it| !it.streams.is_empty())
    });
    const TIMESTAMP: u32 = 77;
    {
        let mut transport = near.call.shared.transport();
        let mut out = [0; 256];
        let sealed = transport.session.seal(
            glassline_webrtc::SenderIndex(0),
            TIMESTAMP,
            false,
            &[0; 20],
            Instant::now(),
            &mut out,
        );
        let datagram = &out[..sealed.expect("connected").len];
        let peer = transport.session.peer().expect("connected").socket;
        for _ in 0..2 {
            transport.socket.send(datagram, peer).expect("loopback");
        }
    }
    let until = Instant::now() + PATIENCE;
    let copy = loop {
        far.drain();
        let again = &far.records.duplicates;
        if let Some(copy) = again.iter().find(|it| it.timestamp == TIMESTAMP) {
            break *copy;
        }
        assert!(Instant::now() < until, "{:?}", far.call.figures());
        std::thread::sleep(Duration::from_millis(5));
    };
    assert_eq!(
        (Some(copy.ssrc), copy.why),
        (near.call.ssrc(), DuplicateReason::Duplicate)
    );
    near.end().expect("no trouble");
    far.end().expect("no trouble");
}
