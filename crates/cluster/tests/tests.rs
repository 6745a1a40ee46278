//! Whole clusters in virtual time: who owns which name, and where viewers and pulls go.

mod balance;
mod ownership;
mod placing;

use std::time::Duration;

use glassline_cluster_sim::World;

fn seconds(count: u64) -> Duration {
    Duration::from_secs(count)
}

/// Starts all nodes, and waits until each has heard the others.
fn start(world: &mut World) {
    world.start_all();
    world.run_until(seconds(8));
}
