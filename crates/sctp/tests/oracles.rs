//! Tests of our SCTP against that of Chromium, of str0m and of Firefox (usrsctp), and of
//! each of those against itself, so that a failure shows whose fault it is.

use std::time::{Duration, Instant};

use glassline_sctp::{Reliability, SendOptions};
use glassline_sim::{Conditions, Loss, Rng, Simulation};

use crate::exchange::{Flow, exchange, pump};
use crate::network::{A, B, Pair};
use crate::peers::{Dcsctp, Happened, Ours, Peer, SctpProto, Setup, Usrsctp};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Make {
    Ours,
    Dcsctp,
    SctpProto,
    Usrsctp,
}

impl Make {
    fn build(self, setup: Setup, seed: u8, now: Instant) -> Box<dyn Peer> {
        match self {
            Self::Ours => Box::new(Ours::new(setup, seed, now)),
            Self::Dcsctp => Box::new(Dcsctp::new(setup, seed, now)),
            Self::SctpProto => Box::new(SctpProto::new(setup)),
            Self::Usrsctp => Box::new(Usrsctp::new(setup, seed, now)),
        }
    }
}

const MIXED: [[Make; 2]; 5] = [
    [Make::Ours, Make::Ours],
    [Make::Ours, Make::Dcsctp],
    [Make::Dcsctp, Make::Ours],
    [Make::Ours, Make::SctpProto],
    [Make::SctpProto, Make::Ours],
];

/// Returns those pairs, and those with usrsctp, which needs a C compiler and Debian's
/// libusrsctp-dev. Where they are missing, the pairs are reported and left out; on a build
/// server that is a failure.
fn mixed() -> Vec<[Make; 2]> {
    let mut all = MIXED.to_vec();
    let Some(reason) = Usrsctp::absence() else {
        all.extend([[Make::Ours, Make::Usrsctp], [Make::Usrsctp, Make::Ours]]);
        return all;
    };
    let is_set =
        |name: &str| std::env::var(name).is_ok_and(|value| value == "true" || value == "1");
    let without = std::env::var_os("GLASSLINE_TEST_NO_PEERS").is_some();
    assert!(without || !is_set("CI"), "usrsctp: {reason}");
    println!("skipped usrsctp: {reason}; `cargo xtask test` installs it");
    all
}

/// 20 ms there and back, 2 % lost, 2 % held back by up to 5 ms.
fn rough() -> Conditions {
    Conditions {
        reorder: 0.02,
        reorder_delay: Duration::from_millis(5),
        ..Conditions::delayed(Duration::from_millis(10)).with_loss(Loss::Random(0.02))
    }
}

/// Connects the first of the two to the second.
fn connect(makes: [Make; 2], setup: Setup, conditions: Conditions, seed: u64) -> Pair {
    println!("{makes:?} seed {seed}");
    let mut pair = Pair::new(conditions, seed, |now| {
        [makes[A].build(setup, 1, now), makes[B].build(setup, 2, now)]
    });
    let now = pair.now();
    pair.end(A).connect(now);
    pair.establish();
    pair
}

/// `count` messages each way at once.
fn flows(count: usize, largest: usize, options: SendOptions, seed: u64) -> [Flow; 2] {
    let rng = Rng::new(seed);
    [0, 1].map(|end| Flow::new(count, largest, 5, options, &mut rng.fork(end)))
}

/// Returns how long `count` messages may take: usrsctp, which waits for time-outs of a
/// second, needs 0.4 s for each of its own where 5 % are lost.
fn time_limit(count: usize) -> Duration {
    Duration::from_secs(60) + Duration::from_secs(1) * count as u32
}

/// Whether a pair is wanted: `SCTP_WITH` selects one pair of a long run by its names:
/// `ours,dcsctp`.
fn is_wanted(makes: [Make; 2]) -> bool {
    let wanted = std::env::var("SCTP_WITH").ok();
    let name = format!("{:?},{:?}", makes[A], makes[B]).to_lowercase();
    wanted.is_none_or(|wanted| wanted == name)
}

/// Returns the number of messages; `SCTP_MESSAGES` sets it for a long run: 10⁶ in a release
/// build.
fn messages() -> usize {
    let wanted = std::env::var("SCTP_MESSAGES").ok();
    wanted.and_then(|it| it.parse().ok()).unwrap_or(600)
}

fn reliable(unordered: bool) -> SendOptions {
    SendOptions {
        unordered,
        ..SendOptions::default()
    }
}

#[test]
fn every_message_arrives_once_whole_and_in_order() {
    // More than can be in flight: dcsctp 0.1.16 silently discards everything that comes,
    // even what fills a gap, once nine tenths of its window wait for the gap.
    let setup = Setup {
        window: 128 << 20,
        ..Setup::default()
    };
    let all = (1..).zip(mixed());
    for (seed, makes) in all.filter(|(_, makes)| is_wanted(*makes)) {
        let lossy = rough().with_loss(Loss::Random(0.05));
        let mut pair = connect(makes, setup, lossy, seed);
        pair.network.set_duplicates(0.02);
        let count = messages();
        let mut flows = flows(count, 60_000, reliable(false), seed);
        exchange(&mut pair, &mut flows, time_limit(count));
        for end in [A, B].into_iter().filter(|&end| makes[end] == Make::Ours) {
            let resent = pair.end(end).figures().resent;
            assert!(resent > 0, "5 % were lost and nothing was sent again");
            assert_eq!(pair.end(end).buffered(0), 0);
        }
    }
}

#[test]
fn unordered_messages_all_arrive() {
    for (seed, makes) in (11..).zip(mixed()) {
        let mut pair = connect(makes, Setup::default(), rough(), seed);
        pair.network.set_duplicates(0.02);
        let mut flows = flows(400, 30_000, reliable(true), seed);
        exchange(&mut pair, &mut flows, time_limit(400));
    }
}

/// A failure that a seed does not reproduce cannot be examined.
#[test]
fn a_seed_repeats_a_run_whoever_the_other_is() {
    // sctp-proto draws its random numbers itself.
    let repeatable = |makes: &[Make; 2]| !makes.contains(&Make::SctpProto);
    for makes in mixed().into_iter().filter(repeatable) {
        let run = || {
            let mut pair = connect(makes, Setup::default(), rough(), 18);
            let mut flows = flows(100, 30_000, reliable(true), 18);
            exchange(&mut pair, &mut flows, time_limit(100));
            *pair.network.trace()
        };
        assert_eq!(run(), run(), "{makes:?}");
    }
}

#[test]
fn the_handshake_survives_a_bad_path_from_either_end() {
    let bad = Conditions::delayed(Duration::from_millis(30)).with_loss(Loss::Random(0.3));
    let mut all = MIXED.repeat(4);
    all.extend(mixed()[MIXED.len()..].repeat(4));
    for (seed, makes) in (21..).zip(all) {
        let mut pair = connect(makes, Setup::default(), bad.clone(), seed);
        let mut flows = flows(3, 3000, reliable(false), seed);
        exchange(&mut pair, &mut flows, Duration::from_secs(300));
    }
}

#[test]
fn both_ends_connecting_at_once_make_one_association() {
    for (seed, makes) in (41..).zip([[Make::Ours, Make::Ours], [Make::Ours, Make::Dcsctp]]) {
        let mut pair = Pair::new(rough(), seed, |now| {
            [A, B].map(|end| makes[end].build(Setup::default(), end as u8 + 1, now))
        });
        let now = pair.now();
        pair.end(A).connect(now);
        pair.end(B).connect(now);
        pair.establish();
        let mut flows = flows(50, 10_000, reliable(false), seed);
        exchange(&mut pair, &mut flows, Duration::from_secs(60));
    }
}

#[test]
fn interleaving_and_zero_checksum_are_agreed_on_and_used() {
    for interleaving in [false, true] {
        for zero_checksum in [false, true] {
            for makes in &MIXED[..3] {
                let setup = Setup {
                    interleaving,
                    zero_checksum,
                    ..Setup::default()
                };
                let mut pair = connect(*makes, setup, rough(), 51);
                let mut flows = flows(150, 60_000, reliable(false), 51);
                exchange(&mut pair, &mut flows, Duration::from_secs(300));
                for end in [A, B] {
                    let figures = pair.end(end).figures();
                    assert_eq!(figures.interleaving, interleaving, "{makes:?} {end}");
                    assert_eq!(figures.zero_checksum, zero_checksum, "{makes:?} {end}");
                }
            }
        }
    }
}

/// Checks that abandoned messages are gone, that what arrives is whole, once and in order,
/// and that the association goes on.
fn gives_up(reliability: Reliability, makes: [Make; 2], unordered: bool, seed: u64) {
    let setup = Setup {
        interleaving: seed.is_multiple_of(2),
        ..Setup::default()
    };
    let mut pair = connect(makes, setup, rough(), seed);
    let options = SendOptions {
        unordered,
        reliability,
    };
    let rng = Rng::new(seed);
    let mut flows = [0, 1].map(|end| Flow::new(300, 5000, 5, options, &mut rng.fork(end)));
    let sent = pump(&mut pair, &mut flows, Duration::from_secs(300), |flows| {
        flows.iter().all(Flow::is_sent)
    });
    assert!(sent, "not all was taken");
    pump(&mut pair, &mut flows, Duration::from_secs(60), |_| false);
    let received = flows.each_ref().map(|flow| flow.received);
    println!("{received:?} of 300 came by {reliability:?}");
    for end in [A, B] {
        // Reno's window is a few packets here, and most messages wait too long for it.
        let least = if makes[end] == Make::Ours { 200 } else { 50 };
        assert!(received[end] > least, "{received:?} of 300 came");
    }
}

#[test]
fn messages_are_given_up_after_their_retransmissions_or_time() {
    let limited = Reliability::Limited { retransmissions: 0 };
    let timed = Reliability::Timed {
        lifetime: Duration::from_millis(150),
    };
    for (index, &makes) in MIXED.iter().enumerate() {
        let seed = 61 + index as u64;
        gives_up(limited, makes, false, seed);
        gives_up(limited, makes, true, seed + 10);
        // str0m's implementation counts a lifetime from its next poll, which is as good.
        gives_up(timed, makes, false, seed + 20);
    }
}

#[test]
fn a_reset_stream_begins_anew() {
    for (seed, makes) in (91..).zip(&MIXED[..3]) {
        let mut pair = connect(*makes, Setup::default(), rough(), seed);
        for round in 0..5 {
            let mut flows = flows(40, 4000, reliable(false), seed + round);
            exchange(&mut pair, &mut flows, Duration::from_secs(60));
            let now = pair.now();
            for stream in 0..5 {
                pair.end(A).reset(stream, now);
                pair.end(B).reset(stream, now);
            }
            assert_both_reset(&mut pair);
        }
    }
}

/// Checks that each end reports the reset of its own five streams and of the other's.
#[track_caller]
fn assert_both_reset(pair: &mut Pair) {
    let mut reported = [[[false; 2]; 5]; 2];
    let all = pair.run_until(Duration::from_secs(60), |pair| {
        for (reported, end) in reported.iter_mut().zip(&mut pair.ends) {
            while let Some(happened) = end.happened.pop_front() {
                let (streams, half) = match happened {
                    Happened::PeerReset(streams) => (streams, 0),
                    Happened::Reset(streams) => (streams, 1),
                    other => panic!("{other:?}"),
                };
                for stream in streams {
                    reported[usize::from(stream)][half] = true;
                }
            }
        }
        reported == [[[true; 2]; 5]; 2]
    });
    assert!(all, "{reported:?}");
}

#[test]
fn an_orderly_end_comes_after_everything_sent() {
    // dcsctp forgets what waits as soon as nothing is in flight, which one SACK for a whole
    // batch causes; so ours ends the association.
    for (seed, makes) in (101..).zip(&MIXED[..2]) {
        let mut pair = connect(*makes, Setup::default(), rough(), seed);
        let mut flows = [
            Flow::new(50, 20_000, 5, reliable(false), &mut Rng::new(seed)),
            Flow::new(0, 20_000, 5, reliable(false), &mut Rng::new(seed)),
        ];
        let sent = pump(&mut pair, &mut flows, Duration::from_secs(60), |flows| {
            flows.iter().all(Flow::is_sent)
        });
        assert!(sent);
        let now = pair.now();
        pair.end(A).shutdown(now);
        let mut messages = flows[A].received;
        let mut closed = [false; 2];
        pair.run_until(Duration::from_secs(60), |pair| {
            for end in [A, B] {
                while let Some(happened) = pair.ends[end].happened.pop_front() {
                    match happened {
                        Happened::Message { .. } => messages += 1,
                        Happened::Closed(_) => closed[end] = true,
                        other => panic!("{other:?}"),
                    }
                }
            }
            closed == [true; 2]
        });
        assert_eq!((messages, closed), (50, [true; 2]), "{makes:?}");
    }
}

#[test]
fn the_harness_passes_for_the_other_makes_among_themselves() {
    for (seed, makes) in (111..).zip([
        [Make::Dcsctp, Make::Dcsctp],
        [Make::SctpProto, Make::SctpProto],
        [Make::Dcsctp, Make::SctpProto],
    ]) {
        let mut pair = connect(makes, Setup::default(), rough(), seed);
        pair.network.set_duplicates(0.02);
        let mut flows = flows(200, 30_000, reliable(false), seed);
        exchange(&mut pair, &mut flows, Duration::from_secs(60));
    }
}
