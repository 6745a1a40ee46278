//! Which tests run beside each other on this machine.

use std::sync::{PoisonError, RwLock};

use libtest_mimic::Failed;

use crate::peers::Test;

/// Modules whose tests may run two at a time, because these tests have files, ports and programs
/// of their own and deadlines of many seconds. Every other test observes levels, losses or delays
/// in real time and has the machine alone.
const SHARING: &[&str] = &[
    "acme",
    "aiortc",
    "api",
    "channels",
    "cluster",
    "dashboard",
    "descriptors",
    "doctor",
    "files",
    "firefox",
    "firewalls",
    "https",
    "logging",
    "messages",
    "moq",
    "packages",
    "publish",
    "publish_page",
    "rtsp",
    "rtsp_players",
    "rtsp_publishers",
    "rtsp_viewers",
    "service",
    "signalling",
    "snapshots",
    "traces",
    "whip",
];

/// Lock of the machine: shared by the tests of [`SHARING`], exclusive for every other test.
static MACHINE: RwLock<()> = RwLock::new(());

/// Runs `test` as soon as the lock of the machine is free for it.
pub(crate) fn run(test: Test) -> Result<(), Failed> {
    let module = test.name.split("::").next().unwrap_or_default();
    if SHARING.contains(&module) {
        let _shared = MACHINE.read().unwrap_or_else(PoisonError::into_inner);
        (test.run)()
    } else {
        let _alone = MACHINE.write().unwrap_or_else(PoisonError::into_inner);
        (test.run)()
    }
}
