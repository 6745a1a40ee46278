use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::Path;
use std::time::Duration;

use super::account::{Account, Key, Look, Thread};

/// Why a process cannot be measured.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// No such process, or no more.
    #[error("process {0} is not running")]
    NotRunning(u32),
    /// Another system than Linux.
    #[error("processes are measured from /proc, which this system does not have")]
    NoProc,
    /// Somebody else's process, or `/proc` is mounted with `hidepid`.
    #[error("process {id} cannot be looked at: {source}; measure as its user or as root")]
    Hidden {
        /// Which process.
        id: u32,
        /// What the system said.
        source: std::io::Error,
    },
}

/// What a process and everything below it has used so far.
#[derive(Clone, Debug, Default)]
pub struct Usage {
    cpu_ns: u64,
    /// Bytes in physical memory, summed over the processes; what they share
    /// counts for each.
    pub resident_bytes: u64,
    /// The living threads of all its processes.
    pub threads: BTreeMap<u32, Thread>,
}

impl Usage {
    /// Processor time used since `earlier`, of the same [`Process`].
    pub const fn since(&self, earlier: &Self) -> Duration {
        Duration::from_nanos(self.cpu_ns.saturating_sub(earlier.cpu_ns))
    }

    /// The same of living threads with a name that `counts`.
    pub fn since_by(&self, earlier: &Self, counts: impl Fn(&str) -> bool) -> Duration {
        let threads = self.threads.iter();
        let ran = threads
            .filter(|(_, thread)| counts(&thread.name))
            .map(|(id, thread)| thread.ran_ns.saturating_sub(earlier.ran_ns(*id)))
            .sum();
        Duration::from_nanos(ran)
    }

    /// The living thread that has run longest since `earlier`: its name, how long
    /// it ran, and how long it waited for a processor.
    pub fn busiest_since(&self, earlier: &Self) -> Option<(&str, Duration, Duration)> {
        let threads = self.threads.iter().map(|(id, thread)| {
            let before = earlier.threads.get(id);
            let waited = before.map_or(0, |before| before.waited_ns);
            let waited = thread.waited_ns.saturating_sub(waited);
            let ran = thread.ran_ns.saturating_sub(earlier.ran_ns(*id));
            (thread.name.as_str(), ran, waited)
        });
        let (name, ran, waited) = threads.max_by_key(|(_, ran, _)| *ran)?;
        Some((
            name,
            Duration::from_nanos(ran),
            Duration::from_nanos(waited),
        ))
    }

    fn ran_ns(&self, thread: u32) -> u64 {
        self.threads.get(&thread).map_or(0, |thread| thread.ran_ns)
    }
}

/// A process and its descendants, measured again and again.
///
/// Look at least every few seconds: a child that ends and that no parent waits
/// for counts with what it had used at the last look.
#[derive(Debug)]
pub struct Process {
    id: u32,
    started: u64,
    account: Account,
}

impl Process {
    /// The living process `id`.
    pub fn of(id: u32) -> Result<Self, Error> {
        if !Path::new("/proc/self/stat").exists() {
            return Err(Error::NoProc);
        }
        let stat = Stat::of(id)?;
        Ok(Self {
            id,
            started: stat.started,
            account: Account::default(),
        })
    }

    /// The process that calls.
    pub fn own() -> Result<Self, Error> {
        Self::of(std::process::id())
    }

    /// Its number.
    pub const fn id(&self) -> u32 {
        self.id
    }

    /// What it has used until now.
    ///
    /// Where the caller is one of its descendants, the caller is left out, with
    /// all below it: a generator started from the server's shell is not the
    /// server.
    pub fn look(&mut self) -> Result<Usage, Error> {
        let mut looks = BTreeMap::new();
        let mut usage = Usage::default();
        let mut open = vec![self.id];
        let mut seen = BTreeSet::from([self.id]);
        if self.id != std::process::id() {
            seen.insert(std::process::id());
        }
        while let Some(id) = open.pop() {
            let is_root = id == self.id;
            let stat = match Stat::of(id) {
                Ok(stat) if is_root && stat.started != self.started => {
                    return Err(Error::NotRunning(id));
                }
                Ok(stat) => stat,
                Err(error) if is_root => return Err(error),
                // A child may end while we look.
                Err(_) => continue,
            };
            let (threads, children) = threads(id);
            open.extend(children.into_iter().filter(|child| seen.insert(*child)));
            usage.resident_bytes += resident_bytes(id);
            usage.threads.extend(threads.clone());
            let key: Key = (id, stat.started);
            let look = Look {
                threads,
                own_ticks: stat.own_ns,
                reaped: stat.reaped_ns,
            };
            looks.insert(key, look);
        }
        usage.cpu_ns = self.account.advance(looks);
        Ok(usage)
    }
}

/// Numbers of the cores that process `id` may run on, rising; empty if unknown.
pub fn allowed_cores(id: u32) -> Vec<usize> {
    let text = fs::read_to_string(format!("/proc/{id}/status")).unwrap_or_default();
    let list = text
        .lines()
        .find_map(|line| line.strip_prefix("Cpus_allowed_list:"));
    list.map(|list| core_list(list.trim())).unwrap_or_default()
}

/// `0-2,5` → 0, 1, 2, 5.
fn core_list(text: &str) -> Vec<usize> {
    /// More than any machine has; a text cannot make us allocate more.
    const CORES_MAX: usize = 8192;
    let mut cores = BTreeSet::new();
    for part in text.split(',') {
        let (first, last) = part.split_once('-').unwrap_or((part, part));
        if let (Ok(first), Ok(last)) = (first.parse::<usize>(), last.parse::<usize>()) {
            cores.extend(first..=last.min(CORES_MAX));
        }
    }
    cores.into_iter().collect()
}

/// The fields of `/proc/PID/stat` that matter here.
#[derive(Debug, PartialEq, Eq)]
struct Stat {
    started: u64,
    own_ns: u64,
    reaped_ns: u64,
}

impl Stat {
    fn of(id: u32) -> Result<Self, Error> {
        match fs::read_to_string(format!("/proc/{id}/stat")) {
            Ok(text) => Self::parse(&text).ok_or(Error::NotRunning(id)),
            Err(source) if source.kind() == std::io::ErrorKind::PermissionDenied => {
                Err(Error::Hidden { id, source })
            }
            Err(_) => Err(Error::NotRunning(id)),
        }
    }

    /// `None` too for one that has ended and only waits to be buried.
    fn parse(text: &str) -> Option<Self> {
        /// The kernel tells in ticks of 1/100 s on every architecture of today,
        /// whatever its own tick is (`USER_HZ`).
        const TICK_NS: u64 = 10_000_000;
        // The name in parentheses may hold anything, parentheses too.
        let fields: Vec<&str> = text.rsplit_once(')')?.1.split_ascii_whitespace().collect();
        if matches!(*fields.first()?, "Z" | "X") {
            return None;
        }
        let number = |index: usize| fields.get(index)?.parse::<u64>().ok();
        Some(Self {
            own_ns: (number(11)? + number(12)?) * TICK_NS,
            reaped_ns: (number(13)? + number(14)?) * TICK_NS,
            started: number(19)?,
        })
    }
}

/// The living threads of process `id`, and the processes that they started.
fn threads(id: u32) -> (BTreeMap<u32, Thread>, Vec<u32>) {
    let (mut threads, mut children) = (BTreeMap::new(), Vec::new());
    let entries = fs::read_dir(format!("/proc/{id}/task"));
    for entry in entries.into_iter().flatten().flatten() {
        let name = entry.file_name();
        let Some(thread) = name.to_str().and_then(|name| name.parse().ok()) else {
            continue;
        };
        let read = |name: &str| fs::read_to_string(entry.path().join(name));
        if let Ok(text) = read("children") {
            let numbers = text.split_ascii_whitespace();
            children.extend(numbers.filter_map(|number| number.parse::<u32>().ok()));
        }
        // A thread may end while we look.
        let (Ok(name), Ok(schedule)) = (read("comm"), read("schedstat")) else {
            continue;
        };
        let mut fields = schedule.split_ascii_whitespace();
        let mut number = || fields.next()?.parse().ok();
        let (ran_ns, waited_ns) = (number().unwrap_or(0), number().unwrap_or(0));
        let name = name.trim().to_owned();
        let found = Thread {
            name,
            ran_ns,
            waited_ns,
        };
        threads.insert(thread, found);
    }
    (threads, children)
}

fn resident_bytes(id: u32) -> u64 {
    let text = fs::read_to_string(format!("/proc/{id}/status")).unwrap_or_default();
    let kib: Option<u64> = text
        .lines()
        .find_map(|line| line.strip_prefix("VmRSS:"))
        .and_then(|rest| rest.split_ascii_whitespace().next()?.parse().ok());
    kib.unwrap_or(0) * 1024
}

#[cfg(test)]
#[cfg(target_os = "linux")]
mod tests {
    use super::*;
    use std::process::{Command, Stdio};
    use std::thread;

    #[test]
    fn stat_is_read_whatever_the_name_is() {
        let tail = "S 1 2 3 4 5 6 7 8 9 10 150 50 1000 23 20 0 5 0 4711 99 1 2";
        for name in ["glassline", "a b", ") R 1 ("] {
            let stat = Stat::parse(&format!("42 ({name}) {tail}")).expect(name);
            assert_eq!(
                (stat.own_ns, stat.reaped_ns),
                (2_000_000_000, 10_230_000_000)
            );
            assert_eq!(stat.started, 4711);
        }
        assert_eq!(Stat::parse(&format!("42 (x) Z{}", &tail[1..])), None);
        assert_eq!(Stat::parse("42 (x) S 1"), None);
        assert_eq!(Stat::parse(""), None);
    }

    #[test]
    fn core_lists_are_ranges_and_single_cores() {
        assert_eq!(core_list("0-2,5"), [0, 1, 2, 5]);
        assert_eq!(core_list("3"), [3]);
        assert_eq!(core_list("x,7-6"), [0; 0]);
        assert_eq!(core_list("0-18446744073709551615").len(), 8193);
        assert!(!allowed_cores(std::process::id()).is_empty());
    }

    #[test]
    fn a_child_is_charged_for_what_it_burns_and_for_its_own_children() {
        // Each of two grandchildren burns until it has used 0.3 s, one after the
        // other, and ends; the shell between only waits.
        let burn = "i=0; while [ $i -lt 150000 ]; do i=$((i+1)); done";
        let script = format!("read go; ({burn}); ({burn}); read end; true");
        let mut child = Command::new("sh")
            .args(["-c", &script])
            .stdin(Stdio::piped())
            .spawn()
            .expect("a shell");
        let mut process = Process::of(child.id()).expect("it runs");
        let before = process.look().expect("it runs");
        let mut input = child.stdin.take().expect("piped");
        std::io::Write::write_all(&mut input, b"go\n").expect("it reads");
        let (mut used, mut last_growth) = (Duration::ZERO, 0);
        let (mut seen_below, mut resident_bytes) = (false, 0);
        // Until nothing has been used for half a second.
        for round in 0..600 {
            thread::sleep(Duration::from_millis(50));
            let now = process.look().expect("it waits for its end");
            seen_below |= now.threads.len() > 1;
            let since = now.since(&before);
            resident_bytes = now.resident_bytes;
            assert!(since >= used, "processor time goes back");
            if since > used + Duration::from_millis(2) {
                last_growth = round;
            }
            used = since;
            if used > Duration::from_millis(50) && round > last_growth + 10 {
                break;
            }
        }
        let truth = Stat::of(child.id()).expect("it waits for its end");
        let truth = Duration::from_nanos(truth.own_ns + truth.reaped_ns);
        assert!(
            used + Duration::from_millis(20) > truth,
            "{used:?} of {truth:?}"
        );
        assert!(resident_bytes > 100_000, "{resident_bytes}");
        drop(input);
        let status = child.wait().expect("it ends");
        assert!(status.success());
        assert!(seen_below, "the grandchildren were seen while they ran");
        assert!(used > Duration::from_millis(50), "{used:?}");
        let error = process.look().expect_err("it has ended");
        assert!(matches!(error, Error::NotRunning(_)), "{error}");
    }

    #[test]
    fn known_work_is_measured_and_the_busiest_thread_is_named() {
        let mut own = Process::own().expect("we run");
        let before = own.look().expect("we run");
        let work = Duration::from_millis(200);
        let (done, wait) = std::sync::mpsc::channel();
        let (end, ended) = std::sync::mpsc::channel::<()>();
        let worker = thread::Builder::new()
            .name("burner".to_owned())
            .spawn(move || {
                let from = glassline_net::thread_cpu();
                while glassline_net::thread_cpu() < from + work {
                    std::hint::black_box(from);
                }
                done.send(()).expect("the test waits");
                ended.recv().expect("the test tells");
            })
            .expect("a thread");
        wait.recv().expect("it works");
        let after = own.look().expect("we run");
        assert!(after.since(&before) >= work * 9 / 10);
        let burnt = after.since_by(&before, |name| name == "burner");
        assert!(burnt >= work * 9 / 10 && burnt < work * 2, "{burnt:?}");
        let threads = after.threads.values();
        assert_eq!(threads.filter(|thread| thread.name == "burner").count(), 1);
        assert!(after.busiest_since(&before).is_some());
        end.send(()).expect("it waits");
        worker.join().expect("it ends");
        let later = own.look().expect("we run");
        assert!(later.since(&after) < work, "an ended thread counts once");
    }

    #[test]
    fn a_dead_process_is_named() {
        let mut child = Command::new("true").spawn().expect("it starts");
        let id = child.id();
        child.wait().expect("it ends");
        let error = Process::of(id).expect_err("it has ended");
        assert!(error.to_string().contains(&id.to_string()));
    }
}
