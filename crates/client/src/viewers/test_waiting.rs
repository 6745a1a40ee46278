//! Waiting with a loose deadline: machines that test are busy.

use std::time::{Duration, Instant};

use super::{Pool, Viewer};

const PATIENCE: Duration = Duration::from_secs(20);

/// Waits until the viewers of `pool` are `enough`.
pub(super) fn wait_for(pool: &Pool, enough: impl Fn(&[Viewer]) -> bool) -> Vec<Viewer> {
    let deadline = Instant::now() + PATIENCE;
    loop {
        let viewers = pool.snapshot();
        if enough(&viewers) {
            return viewers;
        }
        assert!(Instant::now() < deadline, "not in time: {viewers:#?}");
        std::thread::sleep(Duration::from_millis(10));
    }
}

/// Waits until `what` is `done`.
pub(super) fn wait_until(what: &str, done: impl Fn() -> bool) {
    let deadline = Instant::now() + PATIENCE;
    while !done() {
        assert!(Instant::now() < deadline, "not in time: {what}");
        std::thread::sleep(Duration::from_millis(5));
    }
}
