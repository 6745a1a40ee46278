//! Which tests run beside each other on this machine.

use std::sync::{Mutex, PoisonError, RwLock};
use std::time::{Duration, Instant};

use libtest_mimic::Failed;

use crate::peers::Test;

/// Modules and tests that may run beside others, because they have files, ports and programs of
/// their own and deadlines of many seconds. Every other test observes levels, losses or delays in
/// real time and has the machine alone.
const SHARING: &[&str] = &[
    "absent",
    "acme",
    "aiortc",
    "api",
    "browser::a_page_that_does_not_connect_shows_the_servers_reason_and_tries_again",
    "browser::a_read_token_in_the_address_opens_the_player",
    "browser::an_unknown_stream_is_waited_for",
    "browser::index_leads_to_the_player",
    "call::who_calls_nobody_or_a_busy_end_is_told",
    "channels",
    "churn",
    "cluster",
    "cluster_redirect",
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
    "pion",
    "publish",
    "publish_page",
    "restarts",
    "rooms::who_may_not_or_finds_no_place_is_told",
    "rtsp",
    "rtsp_players",
    "rtsp_publishers",
    "rtsp_viewers",
    "service",
    "signalling",
    "snapshots",
    "talk",
    "traces",
    "transcoding::decodes_what_ffmpeg_decodes",
    "transcoding::every_framing_is_transcoded_and_players_get_the_original",
    "transcoding::the_page_says_why_there_is_no_audio",
    "whip",
    "whip_servers",
];

/// Lock of the machine: shared by those of [`SHARING`], exclusive for every other test.
static MACHINE: RwLock<()> = RwLock::new(());

/// Time that each test took so far, without what it waited for [`MACHINE`].
static TAKEN: Mutex<Vec<(&str, Duration)>> = Mutex::new(Vec::new());

/// Runs `test` as soon as the lock of the machine is free for it.
pub(crate) fn run(test: Test) -> Result<(), Failed> {
    if shares(test.name) {
        let _shared = MACHINE.read().unwrap_or_else(PoisonError::into_inner);
        timed(test)
    } else {
        let _alone = MACHINE.write().unwrap_or_else(PoisonError::into_inner);
        timed(test)
    }
}

fn shares(name: &str) -> bool {
    let module = name.split("::").next().unwrap_or_default();
    SHARING.contains(&module) || SHARING.contains(&name)
}

fn timed(test: Test) -> Result<(), Failed> {
    let begin = Instant::now();
    let result = (test.run)();
    let mut taken = TAKEN.lock().unwrap_or_else(PoisonError::into_inner);
    taken.push((test.name, begin.elapsed()));
    result
}

/// Prints the ten tests that took longest, since all of them together have to stay short. Prints
/// nothing after a run of fewer tests.
pub(crate) fn print_longest() {
    let mut taken = TAKEN.lock().unwrap_or_else(PoisonError::into_inner);
    if taken.len() < 50 {
        return;
    }
    taken.sort_by_key(|&(_, duration)| std::cmp::Reverse(duration));
    let alone = taken.iter().filter(|(name, _)| !shares(name));
    let alone: Duration = alone.map(|&(_, duration)| duration).sum();
    println!("tests that had the machine alone took {alone:.0?}; the longest of all:");
    for (name, duration) in taken.iter().take(10) {
        println!("  {duration:5.1?}  {name}");
    }
}
