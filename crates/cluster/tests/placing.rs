//! Where pulls and viewers go in a cluster that grows, is flooded, or loses a node.

use std::time::Duration;

use glassline_cluster::{Access, Node, Policy, StreamName};
use glassline_cluster_sim::World;
use glassline_cluster_sim::chaos::{source_name, stream_name};
use glassline_sim::Rng;

use crate::{seconds, start};

/// Six nodes with places for two children and many viewers; node 0 has the publisher.
fn six(seed: u64) -> (World, StreamName) {
    let mut world = World::new(seed, 6, 6);
    world.configure(|config| {
        config.children_max = 2;
        config.viewers_per_stream = 100;
    });
    world.start_all();
    world.watch_pulls();
    world.run_until(seconds(8));
    let name = stream_name(0);
    world.publish(0, &name, Policy::Refuse);
    world.run_until(seconds(9));
    (world, name)
}

/// Viewers come to all nodes in turn, who cannot be redirected.
fn fill(world: &mut World, name: &StreamName, viewers: usize, apart: Duration) {
    for viewer in 0..viewers {
        world.view(viewer % 6, name, Access::Here);
        let next = world.elapsed() + apart;
        world.run_until(next);
    }
}

/// Nodes that a stream has passed before it reached each node that pulls it.
fn depths(world: &World, name: &StreamName) -> Vec<usize> {
    let nodes = (0..6).filter_map(|index| world.node(index));
    nodes
        .filter_map(|node| Some(node.pulled(name)?.2.len()))
        .collect()
}

#[test]
fn a_tree_is_no_deeper_than_its_places_need() {
    for seed in 0..30 {
        for apart in [0, 30, 700] {
            let (mut world, name) = six(seed);
            fill(&mut world, &name, 200, Duration::from_millis(apart));
            let end = world.elapsed() + seconds(5);
            world.run_until(end);
            let depths = depths(&world, &name);
            assert_eq!(depths.len(), 5, "seed {seed}, {apart} ms apart");
            assert!(
                depths.iter().all(|depth| *depth <= 2),
                "seed {seed}, {apart} ms apart: {depths:?}"
            );
        }
    }
}

#[test]
fn the_owner_is_pulled_from_while_it_has_places() {
    let (mut world, name) = six(1);
    world.configure(|config| config.children_max = 32);
    for index in 0..6 {
        world.crash(index);
    }
    world.start_all();
    let begin = world.elapsed() + seconds(8);
    world.run_until(begin);
    world.publish(0, &name, Policy::Replace);
    fill(&mut world, &name, 6, seconds(1));
    assert_eq!(depths(&world, &name), [1; 5]);
}

/// Returns the longest silence at a node that pulled through `relay` when that was killed.
fn gap_without(world: &mut World, relay: usize, name: &StreamName) -> Option<Duration> {
    let below: Vec<usize> = (0..6)
        .filter(|index| world.parent(*index, name) == Some(relay))
        .collect();
    world.crash(relay);
    let begin = world.now();
    let mut longest = None;
    let mut waiting = below;
    while world.now() - begin < seconds(10) && !waiting.is_empty() {
        let next = world.elapsed() + Duration::from_millis(10);
        world.run_until(next);
        waiting.retain(|index| {
            let flows = world.flows(*index, name);
            if flows {
                longest = Some(world.now() - begin);
            }
            !flows
        });
    }
    assert_eq!(waiting, Vec::<usize>::new(), "without the stream for 10 s");
    longest
}

#[test]
fn viewers_behind_a_relay_that_is_killed_wait_less_than_a_second() {
    let mut gaps = Vec::new();
    for seed in 0..40 {
        let (mut world, name) = six(seed);
        fill(&mut world, &name, 12, Duration::from_millis(350));
        let end = world.elapsed() + seconds(3);
        world.run_until(end);
        let relay = (1..6).find(|it| (1..6).any(|other| world.parent(other, &name) == Some(*it)));
        let relay = relay.expect("somebody pulls through another node");
        gaps.extend(gap_without(&mut world, relay, &name));
    }
    gaps.sort();
    let (median, longest) = (gaps[gaps.len() / 2], gaps[gaps.len() - 1]);
    assert!(median < seconds(1), "median {median:?} of {gaps:?}");
    assert!(longest < Duration::from_millis(2_500), "{gaps:?}");
}

#[test]
fn an_owner_that_stands_still_for_a_second_keeps_all_its_pulls() {
    for seed in 0..20 {
        let (mut world, name) = six(seed);
        fill(&mut world, &name, 12, Duration::from_millis(350));
        let end = world.elapsed() + seconds(3);
        world.run_until(end);
        let pulls = |world: &World| -> Vec<_> {
            let nodes = (1..6).filter_map(|index| world.node(index));
            nodes.map(|it| it.pulled(&name).map(|it| it.0)).collect()
        };
        let before = pulls(&world);
        world.pause(0, seconds(1));
        let end = world.elapsed() + seconds(5);
        world.run_until(end);
        assert_eq!(pulls(&world), before, "seed {seed}");
    }
}

/// Three nodes that take six viewers of a stream each, with a publisher at node 0.
fn three(seed: u64) -> (World, StreamName) {
    let mut world = World::new(seed, 3, 3);
    world.configure(|config| config.viewers_per_stream = 6);
    start(&mut world);
    let name = stream_name(0);
    world.publish(0, &name, Policy::Refuse);
    world.run_until(seconds(9));
    (world, name)
}

#[test]
fn a_burst_of_viewers_stays_within_the_limit_of_each_node() {
    for apart in [0, 1, 350] {
        for first in [Some(0), Some(1), None] {
            let (mut world, name) = three(apart + 5);
            for viewer in 0..20 {
                let node = first.unwrap_or(viewer % 3);
                world.view(node, &name, Access::Http);
                let next = world.elapsed() + Duration::from_millis(apart);
                world.run_until(next);
                let each = world.viewers();
                let all = each.iter().sum::<u32>();
                let is_within = each.iter().all(|it| *it <= 6);
                assert!(
                    is_within || all > 18,
                    "{each:?}, first {first:?}, {apart} ms apart"
                );
            }
            let end = world.elapsed() + seconds(3);
            world.run_until(end);
            let each = world.viewers();
            assert_eq!(each.iter().sum::<u32>(), 20, "{each:?}");
            let is_spread = each.iter().all(|it| (6..=8).contains(it));
            assert!(is_spread, "{each:?}, first {first:?}, {apart} ms apart");
        }
    }
}

#[test]
fn a_place_of_a_viewer_who_does_not_come_is_free_again() {
    let (mut world, name) = three(3);
    world.act_at(0, |node, now| {
        (0..6).for_each(|_| node.expect_viewer(now, &name));
    });
    world.view(0, &name, Access::Http);
    world.run_until(seconds(10));
    assert_eq!(world.decisions.redirected, 1, "all places are kept");
    world.run_until(seconds(25));
    world.view(0, &name, Access::Http);
    world.run_until(seconds(26));
    assert_eq!(world.decisions.redirected, 1);
}

#[test]
fn a_busy_node_is_sent_no_viewers_and_no_pulls() {
    let (mut world, name) = three(3);
    let busy = glassline_cluster::record::Load {
        headroom: 100,
        busy: 95,
        ..glassline_cluster::record::Load::default()
    };
    world.view(1, &name, Access::Here);
    world.run_until(seconds(12));
    for index in [0, 1] {
        world.act_at(index, |node, _| node.set_load(busy));
    }
    world.run_until(seconds(40));
    world.view(0, &name, Access::Http);
    world.run_until(seconds(42));
    let each = world.viewers();
    assert_eq!(each, [0, 1, 1], "node 2 has nothing to do");
}

/// A store that comes back empty must not change who is connected to a camera, in whatever order
/// the nodes find it.
#[test]
fn an_empty_store_changes_no_owner() {
    for seed in 0..60 {
        let mut world = World::new(seed, 3, 3);
        let sources: Vec<_> = (0..4).map(source_name).collect();
        for name in &sources {
            for index in 0..3 {
                // Each server knows of no other that has the source, too.
                world.configure_source(name, &[index]);
            }
        }
        world.start_all();
        let published = stream_name(0);
        world.run_until(seconds(10));
        let publisher = world.publish(1, &published, Policy::Refuse).expect("up");
        world.run_until(seconds(15));
        let before: Vec<_> = sources.iter().map(|name| world.dialled(name)).collect();
        assert!(before.iter().all(|it| it.len() == 1), "{before:?}");
        let mut rng = Rng::new(seed);
        for index in 0..3 {
            let time = seconds(3) + Duration::from_millis(rng.below(9_000));
            world.cut_from_engine(index, time);
        }
        world.memory.delete_everything();
        let mut wanted = None;
        while world.elapsed() < seconds(75) {
            let next = world.elapsed() + Duration::from_millis(50);
            world.run_until(next);
            let now: Vec<_> = sources.iter().map(|name| world.dialled(name)).collect();
            assert_eq!(now, before, "seed {seed}, {:?}", world.elapsed());
            if wanted.is_none() && world.elapsed() > seconds(28) {
                // Another encoder of the same name comes after the store is back.
                wanted = world.publish(2, &published, Policy::Refuse);
            }
        }
        assert!(world.is_admitted(publisher), "seed {seed}");
        assert!(
            wanted.is_none_or(|it| !world.is_admitted(it)),
            "seed {seed}"
        );
        for name in &sources {
            let key = glassline_cluster::Key::Stream(name.clone());
            assert!(world.memory.value(&key).is_some(), "seed {seed}: {name}");
        }
    }
}

#[test]
fn a_dead_node_leaves_the_store_and_the_list() {
    let (mut world, _) = three(4);
    world.crash(2);
    let end = world.elapsed() + seconds(10);
    world.run_until(end);
    let listed = |world: &World| {
        let node = world.node(0).expect("it runs");
        node.peers().filter(|it| it.is_dead).count() + node.known_nodes().count()
    };
    assert_eq!(listed(&world), 1 + 3);
    let end = world.elapsed() + seconds(90);
    world.run_until(end);
    assert_eq!(listed(&world), 2);
    world.start(2);
    let end = world.elapsed() + seconds(5);
    world.run_until(end);
    assert_eq!(listed(&world), 3, "it is back");
}

#[test]
fn a_node_that_leaves_is_in_nobodys_list() {
    let (mut world, _) = three(4);
    world.act_at(2, Node::leave);
    let end = world.elapsed() + seconds(1);
    world.run_until(end);
    assert!(world.node(2).is_some_and(Node::holds_nothing));
    world.crash(2);
    let end = world.elapsed() + seconds(8);
    world.run_until(end);
    let node = world.node(0).expect("it runs");
    assert_eq!(node.known_nodes().count(), 2);
    assert_eq!(node.peers().count(), 1);
}

#[test]
fn nodes_of_other_regions_are_heard_with_their_clocks() {
    let mut world = World::new(4, 4, 2);
    world.set_clock(3, 90_000);
    world.start_all();
    world.run_until(seconds(20));
    let seen = |world: &World| -> Vec<(String, bool, i64)> {
        let peers = world.node(0).expect("it runs").peers();
        peers
            .map(|it| {
                let ahead = (it.ahead_ms.unwrap_or(0) + 500) / 1_000;
                (it.node.to_string(), it.is_dead, ahead)
            })
            .collect()
    };
    let row = |name: &str, is_dead, ahead| (name.to_owned(), is_dead, ahead);
    let all = [
        row("node-0001", false, 0),
        row("node-0002", false, 0),
        row("node-0003", false, 90),
    ];
    assert_eq!(seen(&world), all);
    world.crash(2);
    world.run_until(seconds(65));
    assert_eq!(seen(&world)[1], row("node-0002", true, 0));
}

#[test]
fn a_claim_over_a_dead_node_counts_as_a_takeover() {
    let (mut world, name) = three(4);
    assert_eq!(world.node(1).map(Node::takeovers), Some(0));
    world.crash(0);
    world.publish(1, &name, Policy::Refuse);
    let end = world.elapsed() + seconds(3);
    world.run_until(end);
    assert_eq!(world.node(1).map(Node::takeovers), Some(1));
}
