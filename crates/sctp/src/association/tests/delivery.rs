use super::*;
use glassline_sim::{Case, Loss};

/// Sends `count` messages each way, of random sizes on random streams, and checks that
/// each arrives once, whole, and in order where that was promised.
fn exchange(case: &Case<Conditions, u32>, interleaving: bool) {
    let config = Config {
        interleaving,
        ..Config::default()
    };
    let count = case.expected;
    let mut rng = Rng::new(case.seed ^ 0x5eed);
    let mut world = World::new(&config, case.path.clone(), case.seed).connected();
    let mut sent = [0u32; 2];
    let mut sizes: [Vec<usize>; 2] = [Vec::new(), Vec::new()];
    let mut got = [vec![0u8; count as usize], vec![0u8; count as usize]];
    let mut last: [std::collections::BTreeMap<u16, u32>; 2] = Default::default();
    let mut done = [0u32; 2];
    let finished = world.run_until(Duration::from_secs(100_000), |world| {
        let now = world.now();
        for (index, side) in [&mut world.a, &mut world.b].into_iter().enumerate() {
            while sent[index] < count && side.association.sender.occupied() < 400_000 {
                let number = sent[index];
                let len = match rng.below(10) {
                    0 => 4 + rng.below(60_000) as usize,
                    1..=3 => 4 + rng.below(4_000) as usize,
                    _ => 4 + rng.below(300) as usize,
                };
                let stream = rng.below(6) as u16;
                let options = SendOptions {
                    unordered: stream >= 4,
                    ..SendOptions::default()
                };
                side.association
                    .send(stream, 53, numbered(number, len), options, now)
                    .expect("room");
                sizes[index].push(len);
                sent[index] += 1;
            }
        }
        for (index, side) in [&mut world.b, &mut world.a].into_iter().enumerate() {
            while let Some((_, stream, data)) = side.messages.pop_front() {
                let number = number_of(&data);
                assert_eq!(data.len(), sizes[index][number as usize], "whole");
                assert!(data[4..].iter().all(|&byte| byte == (number % 251) as u8));
                got[index][number as usize] += 1;
                assert_eq!(got[index][number as usize], 1, "once");
                if stream < 4
                    && let Some(before) = last[index].insert(stream, number)
                {
                    assert!(before < number, "in order");
                }
                done[index] += 1;
            }
        }
        let settle = |side: &Side| side.association.sender.is_drained();
        let all = done == [count; 2];
        all && settle(&world.a) && settle(&world.b)
    });
    let reports = [world.a.association.report(), world.b.association.report()];
    assert!(finished, "{case}: {done:?} of {count}, {reports:#?}");
    for report in reports {
        assert_eq!((report.unassembled, report.unread), (0, 0));
    }
}

/// Returns the number of messages; `SCTP_MESSAGES` sets it for a long run: 10⁶ in a release
/// build.
fn messages() -> u32 {
    let wanted = std::env::var("SCTP_MESSAGES").ok();
    wanted.and_then(|it| it.parse().ok()).unwrap_or(5_000)
}

fn rough() -> Conditions {
    Conditions {
        loss: Loss::Random(0.05),
        jitter: MS * 3,
        reorder: 0.05,
        reorder_delay: MS * 7,
        ..Conditions::limited(glassline_media_rate(50), MS * 10, MS * 40)
    }
}

fn glassline_media_rate(mbps: u64) -> glassline_media::Bitrate {
    glassline_media::Bitrate::from_bps(mbps * 1_000_000)
}

#[test]
fn everything_arrives_once_whole_and_in_order() {
    for (seed, interleaving) in [(1, true), (2, false)] {
        let case = Case {
            description: "a path without faults",
            path: Conditions::delayed(MS * 10),
            seed,
            expected: messages(),
        };
        exchange(&case, interleaving);
    }
}

#[test]
fn also_when_packets_are_lost_and_overtaken() {
    for (seed, interleaving) in [(3, true), (4, false)] {
        let case = Case {
            description: "5 % lost, 5 % overtaken, 3 ms of jitter",
            path: rough(),
            seed,
            expected: messages(),
        };
        exchange(&case, interleaving);
    }
}
