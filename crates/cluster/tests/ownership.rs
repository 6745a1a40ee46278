//! Scenarios with a wanted outcome, and random runs.

use std::time::Duration;

use glassline_cluster::record::StreamRecord;
use glassline_cluster::{Access, Key, Policy};
use glassline_cluster_sim::chaos::{self, room_name, source_name, stream_name};
use glassline_cluster_sim::{Excuses, World};

use crate::{seconds, start};

/// Seeds of the random runs: `GLASSLINE_CLUSTER_SEEDS=10000` runs as many.
fn seeds() -> std::ops::Range<u64> {
    let wanted = std::env::var("GLASSLINE_CLUSTER_SEEDS").ok();
    let first = std::env::var("GLASSLINE_CLUSTER_SEED").ok();
    let parse = |text: String| text.parse::<u64>().ok();
    match first.and_then(parse) {
        Some(first) => first..first + 1,
        None => 0..wanted.and_then(parse).unwrap_or(200),
    }
}

fn running(count: usize) -> World {
    let mut world = World::new(7, count, count);
    start(&mut world);
    world
}

#[test]
fn every_seed_comes_to_rest() {
    let mut bad = Vec::new();
    for seed in seeds() {
        let outcome = chaos::run(seed);
        if !outcome.broken.is_empty() {
            bad.push(format!("seed {seed}: {:#?}", outcome.broken));
        }
    }
    assert!(
        bad.is_empty(),
        "{} bad seeds\n{}",
        bad.len(),
        bad.iter().take(3).cloned().collect::<Vec<_>>().join("\n")
    );
}

#[test]
fn two_publishers_race_and_one_wins() {
    let mut world = running(3);
    let names: Vec<_> = (0..50).map(stream_name).collect();
    let pairs: Vec<_> = names
        .iter()
        .map(|name| {
            let one = world.publish(0, name, Policy::Refuse).expect("up");
            (one, world.publish(1, name, Policy::Refuse).expect("up"))
        })
        .collect();
    world.run_until(seconds(10));
    for (one, other) in pairs {
        let admitted = [one, other].map(|it| world.is_admitted(it));
        assert!(admitted[0] != admitted[1], "{admitted:?}");
    }
    let broken = world.history.contradictions(Excuses::default());
    assert_eq!(broken, Vec::<String>::new());
}

/// The second node may read the first one's record, and ask, before the first one has heard that its
/// write was done.
#[test]
fn the_loser_of_a_race_does_not_send_the_winner_away() {
    let mut world = running(3);
    for (number, micros) in (0..3_000).step_by(3).enumerate() {
        let name = stream_name(number);
        world.publish(0, &name, Policy::Refuse).expect("up");
        let apart = world.elapsed() + Duration::from_micros(micros);
        world.run_until(apart);
        world.publish(1, &name, Policy::Refuse).expect("up");
        let next = world.elapsed() + Duration::from_millis(20);
        world.run_until(next);
    }
    let end = world.elapsed() + seconds(2);
    world.run_until(end);
    let (admitted, _, refused) = world.history.counts();
    let superseded = world.history.superseded_count();
    assert_eq!((admitted, refused, superseded), (1_000, 1_000, 0));
}

#[test]
fn a_publisher_comes_back_at_another_node_after_a_kill() {
    let mut world = running(3);
    let name = stream_name(0);
    world.publish(0, &name, Policy::Refuse);
    world.run_until(seconds(9));
    world.view(2, &name, Access::Here);
    world.run_until(seconds(10));
    world.crash(0);
    let again = world.publish(1, &name, Policy::Refuse).expect("up");
    world.run_until(Duration::from_millis(11_500));
    assert!(world.is_admitted(again));
    world.run_until(Duration::from_millis(12_500));
    let pulled = world.node(2).and_then(|it| Some(it.pulled(&name)?.1.epoch));
    assert_eq!(pulled, world.node(1).and_then(|it| it.owned_epoch(&name)));
    assert!(pulled.is_some());
}

#[test]
fn a_camera_is_taken_over_within_five_seconds_and_dialled_once() {
    let mut world = World::new(3, 3, 3);
    let name = source_name(0);
    world.configure_source(&name, &[0, 1, 2]);
    world.start_all();
    world.run_until(seconds(12));
    let dialled = world.dialled(&name);
    assert_eq!(dialled.len(), 1, "{dialled:?}");
    world.crash(dialled[0]);
    world.run_until(seconds(17));
    let next = world.dialled(&name);
    assert!(next.len() == 1 && next != dialled, "{next:?}");
    world.run_until(seconds(60));
    assert_eq!(
        world.history.longest_double_dial(world.now()),
        Duration::ZERO
    );
}

#[test]
fn all_participants_of_a_room_meet_at_one_node_and_again_at_another_when_it_dies() {
    let mut world = running(4);
    let name = room_name(0);
    for index in [0, 1, 2, 3, 1, 2] {
        world.enter_room(index, &name);
    }
    world.run_until(seconds(10));
    let first = world.room_at(&name);
    assert_eq!(first.len(), 1, "{first:?}");
    assert_eq!(world.participants(first[0], &name), 6);
    world.crash(first[0]);
    world.run_until(seconds(20));
    let next = world.room_at(&name);
    assert!(next.len() == 1 && next != first, "{next:?}");
    assert_eq!(world.participants(next[0], &name), 6);
    // The last one closes the door: the name is free for everybody.
    world.leave_room(next[0], &name);
    world.run_until(seconds(21));
    let key = Key::Stream(name.clone());
    assert!(world.memory.value(&key).is_none());
}

#[test]
fn a_room_of_a_node_that_died_before_another_came_is_opened_there() {
    let mut world = World::new(3, 2, 3);
    let name = room_name(0);
    world.start(0);
    world.run_until(seconds(5));
    world.enter_room(0, &name);
    world.run_until(seconds(6));
    assert_eq!(world.room_at(&name), [0]);
    world.crash(0);
    world.start(1);
    // Nobody is asked before every node that lives has had the time to be heard.
    world.run_until(seconds(15));
    world.enter_room(1, &name);
    world.run_until(seconds(20));
    assert_eq!(world.room_at(&name), [1]);
}

#[test]
fn a_room_is_opened_elsewhere_when_its_participants_notice_the_loss_of_its_node() {
    let mut opened_after = Vec::new();
    for ms in (0..1_000).step_by(100) {
        let mut world = running(3);
        let name = room_name(0);
        world.enter_room(0, &name);
        world.run_until(seconds(10) + Duration::from_millis(ms));
        assert_eq!(world.room_at(&name), [0]);
        let killed = world.elapsed();
        world.crash(0);
        // Clients notice a silence of 2 s.
        world.run_until(killed + seconds(2));
        world.enter_room(1, &name);
        while world.room_at(&name).is_empty() && world.elapsed() < killed + seconds(10) {
            let next = world.elapsed() + Duration::from_millis(10);
            world.run_until(next);
        }
        opened_after.push(world.elapsed() - killed);
    }
    let longest = opened_after.iter().max().copied();
    assert!(longest < Some(seconds(3)), "{opened_after:?}");
}

#[test]
fn a_room_stays_at_a_node_that_lives_and_whose_beats_are_missing() {
    let mut world = running(3);
    let name = room_name(0);
    world.enter_room(0, &name);
    world.run_until(seconds(10));
    // It answers the other nodes, and is heard by nobody through the engine.
    world.cut_from_engine(0, seconds(3));
    world.run_until(seconds(12) + Duration::from_millis(500));
    world.enter_room(1, &name);
    world.run_until(seconds(20));
    assert_eq!(world.room_at(&name), [0]);
    assert_eq!(world.participants(0, &name), 2);
}

#[test]
fn two_halves_of_a_room_that_began_without_the_engine_become_one() {
    let mut world = running(2);
    let name = room_name(0);
    (0..2).for_each(|node| world.cut_from_engine(node, seconds(10)));
    (0..2).for_each(|node| world.enter_room(node, &name));
    world.run_until(seconds(12));
    assert_eq!(world.room_at(&name), [0, 1], "served where they came");
    world.run_until(seconds(60));
    assert_eq!(world.room_at(&name).len(), 1);
    assert_eq!(world.unrest_of_room(&name), None);
}

#[test]
fn an_outage_of_the_engine_takes_nothing_over() {
    let mut world = World::new(5, 3, 3);
    let name = source_name(0);
    world.configure_source(&name, &[0, 1, 2]);
    world.start_all();
    let publisher = world
        .publish(0, &stream_name(0), Policy::Refuse)
        .expect("up");
    world.run_until(seconds(15));
    let dialled = world.dialled(&name);
    (0..3).for_each(|node| world.cut_from_engine(node, seconds(30)));
    world.run_until(seconds(20));
    let during = world
        .publish(1, &stream_name(1), Policy::Refuse)
        .expect("up");
    world.run_until(seconds(21));
    assert!(world.is_admitted(during), "served by its node");
    world.run_until(seconds(90));
    assert_eq!(world.dialled(&name), dialled);
    assert!(world.is_admitted(publisher) && world.is_admitted(during));
    assert!(
        world
            .node(1)
            .is_some_and(|it| it.announced(&stream_name(1)))
    );
    assert_eq!(world.history.superseded_count(), 0);
}

#[test]
fn a_deleted_bucket_is_written_back_within_35_seconds() {
    let mut world = running(3);
    for index in 0..30 {
        world.publish(index % 3, &stream_name(index), Policy::Refuse);
    }
    world.run_until(seconds(60));
    world.memory.delete_everything();
    world.run_until(seconds(95));
    for index in 0..30 {
        let key = Key::Stream(stream_name(index));
        assert!(world.memory.value(&key).is_some(), "{key}");
    }
    assert_eq!(world.history.superseded_count(), 0);
}

#[test]
fn a_damaged_record_is_written_back() {
    let mut world = running(3);
    let key = |index| Key::Stream(stream_name(index));
    for index in 0..30 {
        world.publish(index % 3, &stream_name(index), Policy::Refuse);
    }
    world.run_until(seconds(60));
    for index in 0..32 {
        let now = world.now();
        world.memory.put(now, &key(index), "no record".into());
    }
    let rival = world
        .publish(1, &stream_name(0), Policy::Refuse)
        .expect("up");
    let free = world
        .publish(1, &stream_name(30), Policy::Refuse)
        .expect("up");
    world.run_until(seconds(95));
    assert!(!world.is_admitted(rival) && world.is_admitted(free));
    for index in 0..31 {
        let entry = world.memory.value(&key(index)).expect("a value");
        StreamRecord::parse(&entry.value).unwrap_or_else(|error| panic!("{index}: {error}"));
    }
    assert_eq!(world.history.superseded_count(), 0);
}

#[test]
fn a_stopped_owner_finds_itself_superseded() {
    let mut world = running(3);
    let name = stream_name(0);
    let first = world.publish(0, &name, Policy::Refuse).expect("up");
    world.run_until(seconds(10));
    world.pause(0, seconds(12));
    let second = world.publish(1, &name, Policy::Refuse).expect("up");
    world.run_until(seconds(24));
    assert!(world.is_admitted(second) && !world.is_admitted(first));
    assert_eq!(world.history.superseded_count(), 1);
}

#[test]
fn two_nodes_that_cannot_reach_each_other_pull_through_a_third() {
    let mut world = running(3);
    let name = stream_name(0);
    let publisher = world.publish(0, &name, Policy::Refuse).expect("up");
    world.run_until(seconds(10));
    world.set_cut(0, 1, true);
    world.view(1, &name, Access::Here);
    world.run_until(seconds(20));
    let path = world.node(1).and_then(|it| Some(it.pulled(&name)?.2.len()));
    assert_eq!(path, Some(2), "through node 2");
    assert!(world.is_admitted(publisher));
}

#[test]
fn a_drained_node_hands_its_camera_over_and_can_serve_again() {
    let mut world = World::new(9, 3, 3);
    let name = source_name(0);
    world.configure_source(&name, &[0, 1, 2]);
    world.start_all();
    world.run_until(seconds(12));
    let first = world.dialled(&name)[0];
    let until = world.now() + seconds(30);
    world.act_at(first, |node, now| node.drain(now, until));
    world.run_until(seconds(14));
    let next = world.dialled(&name);
    assert!(next.len() == 1 && next[0] != first, "{next:?}");
    world.act_at(first, |node, now| {
        node.undrain(now);
        assert!(!node.is_draining());
    });
    assert!(
        world
            .publish(first, &stream_name(0), Policy::Refuse)
            .is_some()
    );
    world.run_until(seconds(16));
    assert_eq!(world.history.counts().0, 1);
}

/// Each request and each answer of a publisher's claim is once the last thing of its process.
#[test]
fn a_crash_at_every_step_leaves_a_name_that_can_be_claimed() {
    for steps in 1..40 {
        let mut world = running(3);
        let name = stream_name(0);
        world.crash_after(0, steps);
        world.publish(0, &name, Policy::Refuse);
        world.run_until(seconds(12));
        world.crash(0);
        let next = world.publish(1, &name, Policy::Refuse).expect("up");
        world.run_until(Duration::from_millis(13_500));
        assert!(world.is_admitted(next), "after {steps} steps");
    }
}

/// A cluster of three whose nodes take five viewers of a stream each, with a publisher at node 0.
fn of_five_viewers_each(
    change: impl Fn(&mut glassline_cluster::Config),
) -> (World, glassline_cluster::StreamName) {
    let mut world = World::new(11, 3, 3);
    world.configure(|config| {
        config.viewers_per_stream = 5;
        change(config);
    });
    start(&mut world);
    let name = stream_name(0);
    world.publish(0, &name, Policy::Refuse);
    world.run_until(seconds(9));
    (world, name)
}

fn viewers(world: &World, name: &glassline_cluster::StreamName) -> [u32; 3] {
    [0, 1, 2].map(|index| world.node(index).map_or(0, |node| node.viewers(name)))
}

/// Lets viewers come to a node, half a second apart.
fn come(
    world: &mut World,
    index: usize,
    name: &glassline_cluster::StreamName,
    access: Access,
    count: u32,
) {
    for _ in 0..count {
        world.view(index, name, access);
        world.run_until(world.elapsed() + Duration::from_millis(500));
    }
}

#[test]
fn viewers_fill_the_node_that_has_the_stream_before_another_one_pulls() {
    let (mut world, name) = of_five_viewers_each(|_| {});
    come(&mut world, 1, &name, Access::Https, 5);
    assert_eq!(viewers(&world, &name), [5, 0, 0]);
    assert!(
        world
            .node(1)
            .is_some_and(|node| node.pulled(&name).is_none())
    );
    come(&mut world, 1, &name, Access::Https, 5);
    assert_eq!(viewers(&world, &name), [5, 5, 0]);
    assert!(
        world
            .node(1)
            .is_some_and(|node| node.pulled(&name).is_some())
    );
    come(&mut world, 1, &name, Access::Https, 5);
    let all = viewers(&world, &name);
    assert_eq!(all.iter().sum::<u32>(), 15, "{all:?}");
    assert_eq!(world.decisions.not_found + world.decisions.unavailable, 0);
}

#[test]
fn viewers_that_cannot_follow_are_served_by_a_pull() {
    for access in [Access::Rtsp, Access::Rtsps, Access::Here] {
        let (mut world, name) = of_five_viewers_each(|_| {});
        come(&mut world, 1, &name, access, 8);
        assert_eq!(viewers(&world, &name), [0, 8, 0], "{access:?}");
        assert_eq!(world.decisions.redirected, 0, "{access:?}");
    }
    let (mut world, name) = of_five_viewers_each(|config| {
        config.record.http = Some("http://plain:8889".to_owned());
    });
    come(&mut world, 1, &name, Access::Https, 2);
    assert_eq!(viewers(&world, &name), [0, 2, 0]);
    let (mut world, name) = of_five_viewers_each(|config| config.record.http = None);
    come(&mut world, 1, &name, Access::Http, 2);
    assert_eq!(viewers(&world, &name), [0, 2, 0]);
}

#[test]
fn viewers_that_the_server_counts_take_room() {
    let (mut world, name) = of_five_viewers_each(|_| {});
    come(&mut world, 0, &name, Access::Here, 1);
    world.act_at(0, |node, now| node.set_viewers(now, &name, 5));
    come(&mut world, 1, &name, Access::Http, 1);
    assert_eq!(viewers(&world, &name), [5, 1, 0]);
    world.act_at(0, |node, now| node.set_viewers(now, &name, 4));
    world.run_until(world.elapsed() + seconds(5));
    come(&mut world, 2, &name, Access::Http, 1);
    assert_eq!(world.decisions.redirected, 1);
}

#[test]
fn a_server_without_room_sends_viewers_to_another_one() {
    let (mut world, name) = of_five_viewers_each(|_| {});
    let full = glassline_cluster::record::Load::default();
    world.act_at(0, |node, _| node.set_load(full));
    come(&mut world, 0, &name, Access::Http, 3);
    assert_eq!(viewers(&world, &name)[0], 0);
    assert_eq!(world.decisions.redirected, 3);
    // Nowhere else to go: refusing it is for the server to decide.
    come(&mut world, 0, &name, Access::Here, 1);
    assert_eq!(viewers(&world, &name)[0], 1);
}
