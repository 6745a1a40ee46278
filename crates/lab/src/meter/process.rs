use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::Path;
use std::time::Duration;

use super::account::{Account, Key, Look, Thread};

/// Error that keeps a process from being measured.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// There is no such process, or it has ended.
    #[error("process {0} is not running")]
    NotRunning(u32),
    /// The system is not Linux.
    #[error("processes are measured from /proc, which this system does not have")]
    NoProc,
    /// The process belongs to another user, or `/proc` is mounted with `hidepid`.
    #[error("process {id} cannot be measured: {source}; run the benchmark as its user or as root")]
    Hidden {
        /// Id of the process.
        id: u32,
        /// Error of the operating system.
        source: std::io::Error,
    },
}

/// Resources that a process and its descendants have used so far.
#[derive(Clone, Debug, Default)]
pub struct Usage {
    cpu_ns: u64,
    /// Resident memory in bytes, summed over the processes; shared memory counts for each.
    pub resident_bytes: u64,
    /// The part of the resident memory that no file backs, in bytes: heap, stacks and changed data,
    /// without the pages of the program's own file and of files that are mapped.
    pub private_bytes: u64,
    /// Living threads of all processes, by id.
    pub threads: BTreeMap<u32, Thread>,
}

impl Usage {
    /// Processor time since `earlier`, an observation of the same [`Process`].
    pub const fn since(&self, earlier: &Self) -> Duration {
        Duration::from_nanos(self.cpu_ns.saturating_sub(earlier.cpu_ns))
    }

    /// Processor time since `earlier` of living threads whose name `counts`.
    pub fn since_by(&self, earlier: &Self, counts: impl Fn(&str) -> bool) -> Duration {
        let threads = self.threads.iter();
        let ran = threads
            .filter(|(_, thread)| counts(&thread.name))
            .map(|(id, thread)| thread.ran_ns.saturating_sub(earlier.ran_ns(*id)))
            .sum();
        Duration::from_nanos(ran)
    }

    /// The living thread that has run longest since `earlier`: its name, its processor time, and
    /// the time it waited for a processor.
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

/// A process with its descendants, which is measured repeatedly.
///
/// Measure at least every few seconds: a child that no parent waits for counts with its time at
/// the last measurement.
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

    /// Returns the meter of this process.
    pub fn own() -> Result<Self, Error> {
        Self::of(std::process::id())
    }

    /// Id of the process.
    pub const fn id(&self) -> u32 {
        self.id
    }

    /// Measures the resources used until now.
    ///
    /// If the caller is a descendant of the process, the caller and its descendants are left out:
    /// a generator that was started from the server's shell does not belong to the server.
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
                // The child may end meanwhile.
                Err(_) => continue,
            };
            let (threads, children) = threads(id);
            open.extend(children.into_iter().filter(|child| seen.insert(*child)));
            let memory = Memory::of(id);
            usage.resident_bytes += memory.resident;
            usage.private_bytes += memory.private;
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

/// Cores that process `id` may run on, ascending; empty if unknown.
pub fn allowed_cores(id: u32) -> Vec<usize> {
    let text = fs::read_to_string(format!("/proc/{id}/status")).unwrap_or_default();
    let list = text
        .lines()
        .find_map(|line| line.strip_prefix("Cpus_allowed_list:"));
    list.map(|list| core_list(list.trim())).unwrap_or_default()
}

/// Parses a list of cores: `0-2,5` → 0, 1, 2, 5.
fn core_list(text: &str) -> Vec<usize> {
    /// Most cores of a list, so that a text cannot cause a large allocation.
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

/// The fields of `/proc/PID/stat` that are needed.
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

    /// Parses a line of `stat`. Returns `None` for a process that has ended and was not waited
    /// for (a zombie).
    fn parse(text: &str) -> Option<Self> {
        /// Nanoseconds of a tick: the kernel reports 1/100 s on every current architecture,
        /// whatever its timer frequency is (`USER_HZ`).
        const TICK_NS: u64 = 10_000_000;
        // The name in parentheses may contain any character, including parentheses.
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

/// The living threads of process `id`, and the ids of its children.
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
        // The thread may end meanwhile.
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

/// Memory of a process in bytes; zero where the system does not say it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Memory {
    resident: u64,
    private: u64,
}

impl Memory {
    fn of(id: u32) -> Self {
        let text = fs::read_to_string(format!("/proc/{id}/status"));
        Self::parse(&text.unwrap_or_default())
    }

    /// Parses the text of `status`.
    fn parse(text: &str) -> Self {
        let bytes = |key: &str| {
            let rest = text.lines().find_map(|line| line.strip_prefix(key))?;
            let kib: u64 = rest.split_ascii_whitespace().next()?.parse().ok()?;
            Some(kib * 1024)
        };
        Self {
            resident: bytes("VmRSS:").unwrap_or(0),
            private: bytes("RssAnon:").unwrap_or(0),
        }
    }
}

#[cfg(test)]
#[cfg(target_os = "linux")]
mod tests {
    use super::*;
    use std::process::{Command, Stdio};
    use std::thread;

    #[test]
    fn memory_is_read_with_and_without_files() {
        let text =
            "Name:\tcat\nVmRSS:\t   65056 kB\nRssAnon:\t   37512 kB\nRssFile:\t   27544 kB\n";
        let memory = Memory {
            resident: 65056 << 10,
            private: 37512 << 10,
        };
        assert_eq!(Memory::parse(text), memory);
        assert_eq!(Memory::parse("Name:\tkthreadd\n"), Memory::default());
        let own = Memory::of(std::process::id());
        assert!(0 < own.private && own.private < own.resident, "{own:?}");
    }

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
        // Two grandchildren, one after the other, use 0.3 s of processor time each and end; the
        // shell between only waits.
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
        // Until no time was used for half a second.
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
