//! Which tests run beside each other on this machine.

use std::sync::{Mutex, PoisonError, RwLock};
use std::time::{Duration, Instant};

use libtest_mimic::Failed;

use crate::peers::Test;
use crate::process;

/// Module of the tests that observe levels, losses or delays in real time, and have the machine for
/// themselves. All others have files, ports and programs of their own and deadlines of many seconds.
/// `cargo xtask test` runs these tests last and one at a time.
pub(crate) const ALONE: &str = "alone::";

/// Lock of the machine: exclusive for the tests of [`ALONE`], shared by all others.
static MACHINE: RwLock<()> = RwLock::new(());

/// Time that each test took so far, without what it waited for [`MACHINE`].
static TAKEN: Mutex<Vec<(String, Duration)>> = Mutex::new(Vec::new());

/// Runs `test` as soon as the lock of the machine is free for it.
pub(crate) fn run(test: Test) -> Result<(), Failed> {
    if test.name().starts_with(ALONE) {
        let _alone = MACHINE.write().unwrap_or_else(PoisonError::into_inner);
        timed(test)
    } else {
        let _shared = MACHINE.read().unwrap_or_else(PoisonError::into_inner);
        timed(test)
    }
}

/// Runs a part of a test that shares the machine with others.
pub(crate) fn beside<T>(run: impl FnOnce() -> T) -> T {
    let _shared = MACHINE.read().unwrap_or_else(PoisonError::into_inner);
    run()
}

fn timed(test: Test) -> Result<(), Failed> {
    let begin = Instant::now();
    let result = test.run();
    if result.is_ok() {
        drop(process::take_printed());
    }
    let mut taken = TAKEN.lock().unwrap_or_else(PoisonError::into_inner);
    taken.push((test.name(), begin.elapsed()));
    result
}

/// Prints the tests that took longest, since all of them together have to stay short. Prints nothing
/// after a run of fewer tests.
pub(crate) fn print_longest() {
    let mut taken = TAKEN.lock().unwrap_or_else(PoisonError::into_inner);
    if taken.len() < 50 {
        return;
    }
    taken.sort_by_key(|&(_, duration)| std::cmp::Reverse(duration));
    let all: Duration = taken.iter().map(|(_, duration)| *duration).sum();
    println!("all tests one after another would take {all:.0?}; the longest:");
    for (name, duration) in taken.iter().take(20) {
        println!("  {duration:5.1?}  {name}");
    }
}
