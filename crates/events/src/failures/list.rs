//! The list of the latest failures.

use std::collections::HashMap;
#[cfg(test)]
use std::net::IpAddr;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use glassline_hub::CHECK_PREFIX;
use glassline_runtime::{SessionId, SourcePrefix};
use parking_lot::Mutex;

use super::counters::FailureCounters;
use super::record::{ConnectionFailure, FailureRecord, Origin, Stage};
use super::shown::shown;

/// Time for which a failure is kept after it happened last.
const KEPT: Duration = Duration::from_secs(3600);

/// Most entries of all clients together. With the limits on texts below, the list has at most 720 KiB,
/// ends that the server decided on included.
const ENTRIES_MAX: usize = 512;
/// Most entries of one source. Beyond that its oldest entry gives way.
const ENTRIES_PER_SOURCE: usize = 32;
/// Most bytes of each text.
const REASON_BYTES_MAX: usize = 512;
const REMEDY_BYTES_MAX: usize = 384;
const STREAM_BYTES_MAX: usize = 96;
/// Most entries of sources that may be forged, and of sessions that the server ended. Beyond that the
/// oldest of the same kind gives way.
const UNPROVEN_ENTRIES_MAX: usize = 64;
const ENDED_ENTRIES_MAX: usize = 64;
/// Most sessions that are known by an entry.
const SESSIONS_MAX: usize = 4;

/// Shortest interval between two log lines of one entry.
const LOGGED: Duration = Duration::from_secs(60);

/// The connections that failed in the last hour.
#[derive(Debug, Default)]
pub struct Failures {
    /// By the time of the latest failure of each entry, the oldest first.
    entries: Mutex<Vec<FailureRecord>>,
    counters: FailureCounters,
    /// Number of entries that were made so far.
    made: AtomicU64,
}

impl Failures {
    /// Notes a failure and logs it. The client has proven its address. A check that tries a stream of
    /// its own is no client that failed.
    pub fn note(&self, failure: ConnectionFailure, now: Instant) {
        if failure.stream.starts_with(CHECK_PREFIX) {
            return;
        }
        self.counters.note(failure.protocol, failure.stage);
        self.note_of(failure, Origin::Client, now);
    }

    /// Notes a failure, and logs it, of a client whose address anybody may have forged. Such failures
    /// push each other out, and few others.
    pub fn note_unproven(&self, failure: ConnectionFailure, now: Instant) {
        self.counters.note(failure.protocol, failure.stage);
        self.note_of(failure, Origin::UnprovenClient, now);
    }

    /// Notes a session that the server itself ended. Equal ends of a stream are one entry, wherever
    /// its sessions came from. The end is counted and logged where it is decided.
    pub fn note_end(&self, ended: ConnectionFailure, now: Instant) {
        self.enter(ended, Origin::Server, now);
    }

    fn note_of(&self, failure: ConnectionFailure, origin: Origin, now: Instant) {
        let (record, must_log) = self.enter(failure, origin, now);
        if must_log {
            let FailureRecord {
                stream,
                source,
                reason,
                count,
                ..
            } = &record;
            let (role, stage) = (record.role.as_str(), record.stage.as_str());
            let session = record.sessions.last().map(tracing::field::display);
            let protocol = record.protocol.as_str();
            let remedy = record.remedy.as_deref();
            let what = match record.stage {
                Stage::Connected => "was disconnected",
                _ => "did not connect",
            };
            tracing::info!(%stream, %source, protocol, stage, session, count, remedy, "{role} {what}: {reason}");
        }
    }

    /// Enters a failure into the list. Returns its entry, and whether the log shall have a line of
    /// it.
    fn enter(
        &self,
        failure: ConnectionFailure,
        origin: Origin,
        now: Instant,
    ) -> (FailureRecord, bool) {
        let source = SourcePrefix::from(failure.from);
        let stream = shown(&failure.stream, STREAM_BYTES_MAX);
        let reason = shown(&failure.reason, REASON_BYTES_MAX);
        let mut entries = self.entries.lock();
        forget_old(&mut entries, now);
        let is_ended = origin == Origin::Server;
        let is_equal = |it: &FailureRecord| {
            (it.protocol, it.role, it.stage) == (failure.protocol, failure.role, failure.stage)
                && (it.origin == Origin::Server) == is_ended
                && (is_ended || it.source == source)
                && it.stream == stream
                && differ_in_numbers_alone(&it.reason, &reason)
        };
        let (mut record, must_log) = match entries.iter().position(is_equal) {
            Some(place) => {
                let mut record = entries.remove(place);
                record.count += 1;
                record.latest = now;
                record.reason = reason;
                record.source = source;
                if origin == Origin::Client {
                    record.origin = origin;
                }
                let must_log = now.saturating_duration_since(record.logged) >= LOGGED;
                (record, must_log)
            }
            None => {
                match origin {
                    Origin::Server => make_room_of(&mut entries, origin, ENDED_ENTRIES_MAX),
                    Origin::UnprovenClient => {
                        make_room_of(&mut entries, origin, UNPROVEN_ENTRIES_MAX);
                        make_room(&mut entries, source);
                    }
                    Origin::Client => make_room(&mut entries, source),
                }
                let remedy = failure.remedy.as_deref();
                let record = FailureRecord {
                    number: self.made.fetch_add(1, Ordering::Relaxed) + 1,
                    stream,
                    protocol: failure.protocol,
                    role: failure.role,
                    stage: failure.stage,
                    source,
                    origin,
                    reason,
                    remedy: remedy.map(|it| shown(it, REMEDY_BYTES_MAX)),
                    sessions: Vec::new(),
                    count: 1,
                    first: now,
                    latest: now,
                    logged: now,
                };
                (record, true)
            }
        };
        if must_log {
            record.logged = now;
        }
        if let Some(session) = failure.session {
            if record.sessions.len() >= SESSIONS_MAX {
                record.sessions.remove(0);
            }
            record.sessions.push(session);
        }
        entries.push(record.clone());
        (record, must_log)
    }

    /// Returns all entries, the latest first.
    pub fn all(&self, now: Instant) -> Vec<FailureRecord> {
        let mut entries = self.entries.lock();
        forget_old(&mut entries, now);
        entries.iter().rev().cloned().collect()
    }

    /// Returns why the session `id` failed, of the stream or file `stream` if one is given.
    pub fn of_session(&self, id: &SessionId, stream: Option<&str>) -> Option<FailureRecord> {
        let stream = stream.map(|stream| shown(stream, STREAM_BYTES_MAX));
        let entries = self.entries.lock();
        let is_of = |it: &&FailureRecord| {
            stream.as_ref().is_none_or(|stream| it.stream == *stream) && it.sessions.contains(id)
        };
        entries.iter().rev().find(is_of).cloned()
    }

    /// Returns how many connections failed.
    pub fn counters(&self) -> &FailureCounters {
        &self.counters
    }
}

/// Returns whether two reasons are equal but for numbers: a client that tries again and again is told
/// of other ports and counts each time.
fn differ_in_numbers_alone(one: &str, other: &str) -> bool {
    let words = |text| str::split(text, |it: char| it.is_ascii_digit()).filter(|it| !it.is_empty());
    words(one).eq(words(other))
}

fn forget_old(entries: &mut Vec<FailureRecord>, now: Instant) {
    let is_old = |it: &FailureRecord| now.saturating_duration_since(it.latest) > KEPT;
    let old = entries.iter().take_while(|it| is_old(it)).count();
    entries.drain(..old);
    if entries.is_empty() {
        entries.shrink_to_fit();
    }
}

/// Removes the oldest entry of this origin, if one more would exceed their limit `most`.
fn make_room_of(entries: &mut Vec<FailureRecord>, origin: Origin, most: usize) {
    let is_like = |it: &FailureRecord| it.origin == origin;
    let count = entries.iter().filter(|it| is_like(it)).count();
    let oldest = entries.iter().position(is_like);
    if let Some(oldest) = oldest.filter(|_| count >= most) {
        entries.remove(oldest);
    }
}

/// Removes an entry of a client if one more of `source` would exceed a limit: the oldest of the source,
/// or the oldest of the site that has most.
fn make_room(entries: &mut Vec<FailureRecord>, source: SourcePrefix) {
    let is_of_client = |it: &&FailureRecord| it.origin != Origin::Server;
    let is_of_source = |it: &FailureRecord| it.origin != Origin::Server && it.source == source;
    let of_source = entries.iter().filter(|it| is_of_source(it)).count();
    let victim = if of_source >= ENTRIES_PER_SOURCE {
        entries.iter().position(is_of_source)
    } else if entries.iter().filter(is_of_client).count() >= ENTRIES_MAX {
        let fullest = fullest_site(entries.iter().filter(is_of_client), source.site());
        // Where every site has one entry at most, the oldest of all gives way.
        let is_victim = |it: &FailureRecord| fullest.is_none_or(|site| it.source.site() == site);
        let mut places = entries.iter();
        places.position(|it| it.origin != Origin::Server && is_victim(it))
    } else {
        return;
    };
    if let Some(victim) = victim {
        entries.remove(victim);
    }
}

/// Returns the site with the most entries if one more came from `newcomer`; `None` if none has more
/// than one.
///
/// Entries are counted by site here, because a stranger with IPv6 may have thousands of sources.
fn fullest_site<'a>(
    entries: impl Iterator<Item = &'a FailureRecord>,
    newcomer: SourcePrefix,
) -> Option<SourcePrefix> {
    let mut counts = HashMap::from([(newcomer, 1_usize)]);
    let mut fullest = (newcomer, 1);
    for entry in entries {
        let site = entry.source.site();
        let count = counts.entry(site).or_default();
        *count += 1;
        // Of sites with equally many entries, the one that got there first counts as fullest.
        if *count > fullest.1 {
            fullest = (site, *count);
        }
    }
    (fullest.1 > 1).then_some(fullest.0)
}

#[cfg(test)]
mod tests {
    use std::net::Ipv6Addr;

    use super::*;
    use crate::failures::{ClientRole, Protocol};

    fn failure(from: [u8; 4], stream: &str, reason: &str) -> ConnectionFailure {
        ConnectionFailure {
            stream: stream.to_owned(),
            protocol: Protocol::WebRtc,
            role: ClientRole::Viewer,
            stage: Stage::Ice,
            from: IpAddr::from(from),
            session: Some(SessionId::new(&format!("{stream}/{reason}"))),
            reason: reason.to_owned(),
            remedy: None,
        }
    }

    const ONE: [u8; 4] = [192, 0, 2, 1];

    #[test]
    fn equal_failures_of_a_source_are_one_entry_which_is_logged_once_a_minute() {
        let (failures, start) = (Failures::default(), Instant::now());
        let logged = (0..60).filter(|second| {
            let now = start + Duration::from_secs(second * 2);
            failures
                .enter(failure(ONE, "cam", "no checks"), Origin::Client, now)
                .1
        });
        assert_eq!(logged.count(), 2);
        let all = failures.all(start + Duration::from_secs(120));
        let [entry] = &all[..] else { panic!("{all:?}") };
        assert_eq!((entry.count, entry.sessions.len()), (60, SESSIONS_MAX));
        assert_eq!(entry.latest - entry.first, Duration::from_secs(118));
        failures.note(failure(ONE, "cam", "another reason"), start);
        assert_eq!(failures.all(start).len(), 2);
        let rows = failures.counters().rows();
        assert_eq!(
            rows,
            [(Protocol::WebRtc, Stage::Ice, 1)],
            "only `note` counts"
        );
    }

    #[test]
    fn a_check_that_tries_its_own_stream_is_no_failure() {
        let (failures, now) = (Failures::default(), Instant::now());
        let stream = format!("{CHECK_PREFIX}whip-1");
        failures.note(failure(ONE, &stream, "no source yet"), now);
        assert!(failures.all(now).is_empty() && failures.counters().rows().is_empty());
    }

    #[test]
    fn reasons_that_differ_in_numbers_are_one_entry_with_the_latest_numbers() {
        let (failures, now) = (Failures::default(), Instant::now());
        for sent in [9, 1240, 10] {
            let reason = format!("{sent} packets to port {}", 5000 + sent);
            failures.note(failure(ONE, "cam", &reason), now);
        }
        let all = failures.all(now);
        let [entry] = &all[..] else { panic!("{all:?}") };
        assert_eq!(&*entry.reason, "10 packets to port 5010");
        assert_eq!(entry.count, 3);
        failures.note(failure(ONE, "cam", "10 reports to port 5010"), now);
        assert_eq!(failures.all(now).len(), 2);
    }

    #[test]
    fn entries_are_kept_for_an_hour_after_their_latest_failure() {
        let (failures, start) = (Failures::default(), Instant::now());
        failures.note(failure(ONE, "cam", "first"), start);
        failures.note(failure(ONE, "cam", "second"), start);
        failures.note(failure(ONE, "cam", "first"), start + KEPT / 2);
        assert_eq!(failures.all(start + KEPT).len(), 2);
        let late = failures.all(start + KEPT + KEPT / 2);
        assert_eq!(late.len(), 1);
        assert_eq!(&*late[0].reason, "first");
        assert!(failures.all(start + KEPT * 2).is_empty());
    }

    #[test]
    fn a_flood_pushes_out_only_entries_of_its_own_sources() {
        let (failures, now) = (Failures::default(), Instant::now());
        failures.note(failure(ONE, "cam", "innocent"), now);
        for number in 0..5_000_u32 {
            let [.., third, fourth] = number.to_be_bytes();
            let stream = format!("{third}.{fourth}");
            let flooder = [198, 51, 100, fourth % 40];
            failures.note(failure(flooder, &stream, "flood"), now);
        }
        let all = failures.all(now);
        assert!(all.len() <= ENTRIES_MAX, "{}", all.len());
        assert!(all.iter().any(|it| &*it.reason == "innocent"));
        let of_first = all
            .iter()
            .filter(|it| it.source.to_string() == "198.51.100.1");
        assert!(of_first.count() <= ENTRIES_PER_SOURCE);
        // From as many addresses as one likes, the list has its size, and the newest stay.
        for number in 0..2_000_u32 {
            let [.., third, fourth] = number.to_be_bytes();
            failures.note(failure([10, 0, third, fourth], "cam", "flood"), now);
        }
        let all = failures.all(now);
        assert_eq!(all.len(), ENTRIES_MAX);
        assert_eq!(all[0].source.to_string(), "10.0.7.207");
    }

    #[test]
    fn a_stranger_with_a_whole_network_pushes_out_only_its_own_entries() {
        let (failures, now) = (Failures::default(), Instant::now());
        for number in 0..100 {
            failures.note(failure([10, number, 0, 1], "cam", "innocent"), now);
        }
        for number in 0..5_000_u16 {
            let from = Ipv6Addr::new(0x2001, 0xdb8, 7, number, 0, 0, 0, 1);
            let mut flood = failure(ONE, "cam", "flood");
            flood.from = from.into();
            failures.note(flood, now);
        }
        let all = failures.all(now);
        let innocent = all.iter().filter(|it| &*it.reason == "innocent");
        assert_eq!((innocent.count(), all.len()), (100, ENTRIES_MAX));
    }

    #[test]
    fn sessions_that_the_server_ends_are_one_entry_a_stream_and_push_out_each_other() {
        let (failures, now) = (Failures::default(), Instant::now());
        failures.note(failure(ONE, "cam", "deleted"), now);
        for number in 0..5_000_u32 {
            let [.., third, fourth] = number.to_be_bytes();
            failures.note_end(failure([10, 0, third, fourth], "cam", "deleted"), now);
        }
        let all = failures.all(now);
        let counts: Vec<_> = all.iter().map(|it| it.count).collect();
        assert_eq!(counts, [5_000, 1]);
        assert_eq!(all[0].source.to_string(), "10.0.19.135", "the latest");
        for number in 0..1_000 {
            failures.note_end(failure(ONE, &format!("cam {number}"), "deleted"), now);
        }
        let all = failures.all(now);
        assert_eq!(all.len(), ENDED_ENTRIES_MAX + 1);
        assert!(all.iter().any(|it| it.origin == Origin::Client));
    }

    #[test]
    fn forged_addresses_push_out_each_other() {
        let (failures, now) = (Failures::default(), Instant::now());
        for number in 0..400_u32 {
            let [.., third, fourth] = number.to_be_bytes();
            failures.note(failure([10, 0, third, fourth], "cam", "innocent"), now);
        }
        for number in 0..5_000_u32 {
            let [.., third, fourth] = number.to_be_bytes();
            let forged = failure([198, 18, third, fourth], "", "no answer");
            failures.note_unproven(forged, now);
        }
        let all = failures.all(now);
        let count = |reason: &str| all.iter().filter(|it| &*it.reason == reason).count();
        assert_eq!(count("innocent"), 400);
        assert_eq!(count("no answer"), UNPROVEN_ENTRIES_MAX);
    }

    #[test]
    fn a_session_finds_its_failure_by_its_own_stream() {
        let (failures, now) = (Failures::default(), Instant::now());
        failures.note(failure(ONE, "cam", "no checks"), now);
        let id = SessionId::new("cam/no checks");
        assert!(failures.of_session(&id, Some("cam")).is_some());
        assert!(failures.of_session(&id, None).is_some(), "of a stream key");
        assert!(failures.of_session(&id, Some("other")).is_none());
        assert!(failures.of_session(&SessionId::new("x"), None).is_none());
    }

    #[test]
    fn texts_of_an_entry_are_bounded() {
        let (failures, now) = (Failures::default(), Instant::now());
        let long = "x".repeat(100_000);
        let huge = ConnectionFailure {
            remedy: Some(long.clone()),
            ..failure(ONE, &long, &long)
        };
        failures.note(huge, now);
        let entry = &failures.all(now)[0];
        let bytes = entry.stream.len()
            + entry.reason.len()
            + entry.remedy.as_ref().map_or(0, |it| it.len());
        assert_eq!(
            bytes,
            STREAM_BYTES_MAX + REASON_BYTES_MAX + REMEDY_BYTES_MAX
        );
    }
}
