//! Tests of the first seconds of a bulk transfer: how soon it fills the path, and what that
//! costs a flow that was there before.

use glassline_congestion::Algorithm;

use super::throughput::{link, trace};
use super::*;

/// Returns the rate of user data in each of the first `count` seconds, in Mbit/s.
fn seconds(config: &Config, conditions: Conditions, seed: u64, count: usize) -> Vec<f64> {
    let mut world = World::new(config, conditions, seed).connected();
    world.a.bulk = Some((64 * 1024, 4 << 20));
    world.b.keeps = false;
    let traced = std::env::var("SCTP_TRACE").is_ok();
    let mut rates = Vec::new();
    for _ in 0..count {
        world.b.measure();
        for step in 0..20 {
            if traced {
                trace(&world, step);
            }
            world.run_for(MS * 50);
        }
        rates.push(world.b.received as f64 * 8e-6);
    }
    rates
}

/// Returns what a flow under `rival` carries in the ten seconds from when ours begins, in
/// Mbit/s, after ten seconds alone.
fn neighbour(config: &Config, rival: Algorithm, conditions: Conditions, seed: u64) -> f64 {
    let theirs = Config {
        congestion: rival,
        ..config.clone()
    };
    let mut world = World::new(config, conditions, seed).connected();
    world.add_rivals(&theirs);
    for side in [&mut world.a, &mut world.b] {
        side.keeps = false;
    }
    for side in world.rivals.as_deref_mut().expect("there") {
        side.keeps = false;
    }
    world.rivals.as_deref_mut().expect("there")[0].bulk = Some((16 * 1024, 4 << 20));
    world.run_for(MS * 10_000);
    world.a.bulk = Some((16 * 1024, 4 << 20));
    world.rivals.as_deref_mut().expect("there")[1].measure();
    world.run_for(MS * 10_000);
    world.rivals.as_deref().expect("there")[1].received as f64 * 8e-7
}

/// Prints the first eight seconds for the seeds in `SCTP_SEEDS`: `SCTP_SEEDS=1,2 cargo test
/// --release -p glassline-sctp --lib beginnings -- --nocapture`. `SCTP_CELL=100/0.01` is one
/// cell alone, `SCTP_BESIDE` has the cells beside others. Does nothing otherwise.
#[test]
fn matrix_of_beginnings() {
    let Ok(seeds) = std::env::var("SCTP_SEEDS") else {
        return;
    };
    let seeds: Vec<u64> = seeds.split(',').filter_map(|it| it.parse().ok()).collect();
    let config = Config::default();
    for (mbps, round_trip) in [(1000, 20), (1000, 100), (50, 20), (50, 100)] {
        for loss in [0.0, 0.001, 0.01] {
            let cell = format!("{mbps}/{round_trip}/{loss}");
            if std::env::var("SCTP_CELL").is_ok_and(|wanted| wanted != cell) {
                continue;
            }
            let trip = MS * round_trip;
            for &seed in &seeds {
                let rates = seconds(&config, link(mbps, trip, trip, loss), seed, 8);
                let mean = rates.iter().sum::<f64>() / 8.0;
                println!("{cell} seed {seed}: mean {mean:.0} of {rates:.0?}");
            }
        }
    }
    if std::env::var("SCTP_BESIDE").is_err() {
        return;
    }
    for rival in [Algorithm::Cubic, Algorithm::Rfc9260Reno] {
        for (mbps, round_trip) in [(10, 20), (50, 20), (10, 100), (50, 100), (200, 20)] {
            for &seed in &seeds {
                let trip = MS * round_trip;
                let kept = neighbour(&config, rival, link(mbps, trip, trip, 0.0), seed);
                println!("{rival} of {mbps} Mbit/s, {round_trip} ms, seed {seed}: {kept:.2} kept");
            }
        }
    }
}

#[test]
fn a_beginning_leaves_a_flow_under_cubic_its_share() {
    let path = link(10, MS * 20, MS * 20, 0.0);
    let kept = neighbour(&Config::default(), Algorithm::Cubic, path, 21);
    assert!(kept > 2.0, "{kept} of 10 Mbit/s");
}
