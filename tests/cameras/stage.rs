//! Cases that run at the same time, beside the other tests.

use std::collections::BTreeMap;
use std::panic;
use std::sync::{Condvar, Mutex, MutexGuard, Once, PoisonError};
use std::thread;

use libtest_mimic::{Arguments, Failed};

use super::row::Row;
use super::scene::{Case, Shown};

/// Cases that play at a time: each waits for most of its time.
const AT_A_TIME: usize = 32;

/// The cases that were asked for. They begin together when the first test wants its result.
pub(crate) struct Stage {
    begun: Once,
    waiting: Mutex<Vec<Case>>,
    shown: Mutex<BTreeMap<String, Result<Shown, String>>>,
    changed: Condvar,
    count: usize,
}

impl Stage {
    pub(crate) fn of(cases: &[Case], arguments: &Arguments) -> Stage {
        let mut wanted: Vec<Case> = cases.to_vec();
        wanted.retain(|it| is_wanted(&it.name(), arguments));
        // The longest begin first.
        wanted.sort_by_key(|it| it.row.seconds);
        Stage {
            begun: Once::new(),
            count: wanted.len(),
            waiting: Mutex::new(wanted),
            shown: Mutex::default(),
            changed: Condvar::new(),
        }
    }

    /// Waits until `case` has been played.
    pub(crate) fn result(&'static self, case: Case) -> Result<(), Failed> {
        self.begun.call_once(|| {
            for _ in 0..AT_A_TIME.min(self.count) {
                thread::spawn(|| self.work());
            }
        });
        let name = case.name();
        let mut shown = self.lock();
        loop {
            match shown.get(&name) {
                Some(Ok(it)) if it.faults.is_empty() => return Ok(()),
                Some(Ok(it)) => return Err(failed(case, &it.faults.join("\n"))),
                Some(Err(reason)) => return Err(failed(case, reason)),
                None => {
                    let woken = self.changed.wait(shown);
                    shown = woken.unwrap_or_else(PoisonError::into_inner);
                }
            }
        }
    }

    fn work(&self) {
        let next = || {
            let mut waiting = self.waiting.lock().unwrap_or_else(PoisonError::into_inner);
            waiting.pop()
        };
        while let Some(case) = next() {
            let played = panic::catch_unwind(|| case.play());
            let played = played.unwrap_or_else(|_| Err("the case panicked".to_owned()));
            let mut shown = self.lock();
            shown.insert(case.name(), played);
            if shown.len() == self.count {
                print(&shown);
            }
            self.changed.notify_all();
        }
    }

    fn lock(&self) -> MutexGuard<'_, BTreeMap<String, Result<Shown, String>>> {
        self.shown.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Returns a failure of `case` that says what its camera does.
pub(super) fn failed(case: Case, reason: &str) -> Failed {
    let Row {
        maker,
        reports,
        does,
        ..
    } = case.row;
    format!("{maker} ({reports}): {does}\n{reason}").into()
}

/// Whether the command line asks for the test `name`.
fn is_wanted(name: &str, arguments: &Arguments) -> bool {
    let is_of = |filter: &String| match arguments.exact {
        true => name == filter,
        false => name.contains(filter.as_str()),
    };
    arguments.filter.as_ref().is_none_or(is_of) && !arguments.skip.iter().any(is_of)
}

fn print(shown: &BTreeMap<String, Result<Shown, String>>) {
    println!("frames/s  connections  longest freeze  state");
    for (name, result) in shown {
        match result {
            Err(reason) => println!("{name}: {reason}"),
            Ok(it) => println!(
                "{:>10.1}  {:>11}  {:>11} ms  {:<40} {} {}",
                it.rate,
                it.connections,
                it.gap.as_millis(),
                it.state,
                if it.faults.is_empty() { "ok " } else { "NO " },
                name,
            ),
        }
    }
}
