//! Viewers spread again after nodes have been restarted, and stay where they are otherwise.

use std::time::Duration;

use glassline_cluster::record::Load;
use glassline_cluster::{Policy, StreamName};
use glassline_cluster_sim::World;
use glassline_cluster_sim::chaos::stream_name;

use crate::seconds;

fn run_for(world: &mut World, time: Duration) {
    let end = world.elapsed() + time;
    world.run_until(end);
}

/// Nodes with `crowd` viewers of one stream, which came to all of them in turn.
fn gathered(
    seed: u64,
    nodes: usize,
    crowd: usize,
    is_behind_a_balancer: bool,
) -> (World, StreamName) {
    let mut world = World::new(seed, nodes, nodes);
    world.crowd.is_behind_a_balancer = is_behind_a_balancer;
    world.start_all();
    world.watch_pulls();
    run_for(&mut world, seconds(30));
    let name = stream_name(0);
    world.publish(0, &name, Policy::Refuse);
    run_for(&mut world, seconds(1));
    for viewer in 0..crowd {
        world.join_crowd(viewer % nodes, &name);
        run_for(&mut world, Duration::from_millis(10));
    }
    run_for(&mut world, seconds(3));
    (world, name)
}

/// Drains a node, ends its process, and starts it again. A publisher of the node goes to the next one.
fn restart(world: &mut World, index: usize, name: &StreamName) {
    let has_publisher = world.has_publisher(index);
    world.act_at(index, |node, moment| {
        node.drain(moment, moment.at + seconds(10));
    });
    run_for(world, seconds(2));
    world.send_crowd_away(index);
    run_for(world, seconds(9));
    world.crash(index);
    world.lost_crowd_returns();
    if has_publisher {
        let next = (index + 1) % world.viewers().len();
        world.publish(next, name, Policy::Replace);
    }
    run_for(world, seconds(2));
    world.start(index);
    run_for(world, seconds(2));
}

fn is_even(viewers: &[u32]) -> bool {
    let mean = f64::from(viewers.iter().sum::<u32>()) / viewers.len() as f64;
    viewers.iter().all(|it| f64::from(*it) <= 2.0 * mean)
}

#[test]
fn half_a_minute_after_a_rolling_restart_no_node_has_more_than_twice_the_mean() {
    for seed in 0..12 {
        for nodes in [3, 6] {
            for is_behind_a_balancer in [true, false] {
                let (mut world, name) = gathered(seed, nodes, 300, is_behind_a_balancer);
                for index in 0..nodes {
                    restart(&mut world, index, &name);
                }
                let before = world.viewers();
                run_for(&mut world, seconds(30));
                let viewers = world.viewers();
                let told = format!(
                    "seed {seed}, balancer {is_behind_a_balancer}: {before:?}, then {viewers:?}"
                );
                assert_eq!(viewers.iter().sum::<u32>(), 300, "{told}");
                assert!(is_even(&viewers), "{told}");
                assert!(world.crowd.most_moves() <= 1, "{told}");
                let moved = world.crowd.moved;
                run_for(&mut world, seconds(300));
                assert_eq!(world.crowd.moved, moved, "{told}: at rest");
            }
        }
    }
}

#[test]
fn a_cluster_at_rest_moves_nobody_however_its_viewers_are_spread() {
    for is_behind_a_balancer in [true, false] {
        let (mut world, name) = gathered(1, 3, 30, is_behind_a_balancer);
        for _ in 0..200 {
            world.join_crowd(0, &name);
        }
        run_for(&mut world, seconds(300));
        assert!(!is_even(&world.viewers()), "{:?}", world.viewers());
        assert_eq!(world.crowd.moved, 0);
    }
}

#[test]
fn viewers_who_came_after_the_node_that_is_new_stay() {
    let (mut world, name) = gathered(2, 3, 30, true);
    world.crash(2);
    world.lost_crowd_returns();
    run_for(&mut world, seconds(10));
    world.start(2);
    run_for(&mut world, seconds(3));
    let before = world.viewers();
    for _ in 0..200 {
        world.join_crowd(0, &name);
    }
    run_for(&mut world, seconds(60));
    // Those who were there before may move, and the others may not.
    assert!(world.crowd.moved <= before[0], "{}", world.crowd.moved);
}

/// Node 2 of three comes back in a state that `spoil` makes; all viewers are at the others.
fn comes_back(seed: u64, spoil: impl Fn(&mut World)) -> World {
    let (mut world, name) = gathered(seed, 3, 0, false);
    world.crash(2);
    run_for(&mut world, seconds(10));
    for _ in 0..120 {
        world.join_crowd(0, &name);
    }
    run_for(&mut world, seconds(5));
    world.start(2);
    run_for(&mut world, seconds(1));
    spoil(&mut world);
    run_for(&mut world, seconds(40));
    world
}

#[test]
fn a_node_that_is_new_is_sent_viewers_unless_it_is_full_busy_or_leaves() {
    let set = |world: &mut World, load: Load| {
        world.act_at(2, |node, _| node.set_load(load));
    };
    let free = Load {
        headroom: 100_000,
        ..Load::default()
    };
    for seed in 0..5 {
        let whole = comes_back(seed, |_| {});
        assert!(whole.viewers()[2] >= 20, "{:?}", whole.viewers());
        let full = comes_back(seed, |world| set(world, Load::default()));
        assert_eq!(full.viewers()[2], 0, "full");
        let busy = comes_back(seed, |world| set(world, Load { busy: 95, ..free }));
        assert_eq!(busy.viewers()[2], 0, "busy");
        let leaving = comes_back(seed, |world| {
            world.act_at(2, |node, moment| {
                node.drain(moment, moment.at + seconds(100));
            });
        });
        assert_eq!(leaving.viewers()[2], 0, "it drains");
        assert_eq!(leaving.crowd.moved, 0, "nobody moves while a node drains");
    }
}

#[test]
fn a_node_of_another_region_is_sent_nobody() {
    let mut world = World::new(3, 3, 2);
    world.start_all();
    run_for(&mut world, seconds(30));
    let name = stream_name(0);
    world.publish(0, &name, Policy::Refuse);
    world.crash(2);
    run_for(&mut world, seconds(1));
    for _ in 0..100 {
        world.join_crowd(0, &name);
    }
    run_for(&mut world, seconds(10));
    world.start(2);
    run_for(&mut world, seconds(60));
    assert_eq!(world.viewers(), [100, 0, 0]);
}

#[test]
fn an_operator_may_turn_the_moves_off() {
    let (mut world, name) = gathered(4, 3, 0, false);
    world.crash(2);
    world.crash(0);
    world.configure(|config| config.rebalances = false);
    world.start(0);
    run_for(&mut world, seconds(10));
    world.publish(0, &name, Policy::Replace);
    for _ in 0..100 {
        world.join_crowd(0, &name);
    }
    run_for(&mut world, seconds(10));
    world.start(2);
    run_for(&mut world, seconds(60));
    assert_eq!(world.crowd.moved, 0);
}
