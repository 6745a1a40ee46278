//! Whether the machine has other work: from `/proc/stat`, `/proc/loadavg` and our own times.

use std::fs;
use std::thread;
use std::time::{Duration, Instant};

use super::record::Load;

/// Time that the machine is watched before a turn.
const WATCH: Duration = Duration::from_secs(3);

/// Longest wait for a quiet moment before a turn; the turn then runs, and its values are marked.
const PATIENCE: Duration = Duration::from_secs(60);

/// Most cores that others use on a quiet machine, before a turn and during it. A turn's own
/// processes that nobody waits for count as others.
const BEFORE_MAX: f64 = 0.10;
const BESIDE_MAX: f64 = 0.25;

/// Most cores that the hypervisor may take during a turn.
const STOLEN_MAX: f64 = 0.10;

/// Ticks of all cores since the machine was started, and our own.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(super) struct Ticks {
    /// User and kernel time of all processes, without interrupts.
    busy: f64,
    stolen: f64,
    /// User and kernel time of this process, and of descendants that were waited for.
    ours: f64,
}

/// Ticks in a second, on all of Linux.
const TICKS: f64 = 100.0;

impl Ticks {
    pub(super) fn now() -> Self {
        let read = |path: &str| fs::read_to_string(path).unwrap_or_default();
        Self::parse(&read("/proc/stat"), &read("/proc/self/stat")).unwrap_or_default()
    }

    fn parse(all: &str, own: &str) -> Option<Self> {
        let fields: Vec<f64> = all
            .lines()
            .next()?
            .split_whitespace()
            .skip(1)
            .filter_map(|it| it.parse().ok())
            .collect();
        // user, nice, system, idle, iowait, irq, softirq, steal
        let at = |index: usize| fields.get(index).copied();
        // The name in parentheses may contain any character.
        let (_, own) = own.rsplit_once(')')?;
        let own = own.split_whitespace().skip(11).take(4);
        Some(Self {
            busy: at(0)? + at(1)? + at(2)?,
            stolen: at(7).unwrap_or(0.0),
            ours: own.filter_map(|it| it.parse::<f64>().ok()).sum(),
        })
    }

    /// Cores that others used, and that were stolen, since `before`, `seconds` ago.
    fn since(&self, before: &Self, seconds: f64) -> (f64, f64) {
        let cores = |ticks: f64| (ticks / TICKS / seconds.max(0.01)).max(0.0);
        let others = (self.busy - before.busy) - (self.ours - before.ours);
        (cores(others), cores(self.stolen - before.stolen))
    }
}

/// Cores that others use now, watched for some seconds.
pub(super) fn cores_in_use() -> f64 {
    let (before, began) = (Ticks::now(), Instant::now());
    thread::sleep(WATCH);
    Ticks::now().since(&before, began.elapsed().as_secs_f64()).0
}

/// Whether `cores` in use are few enough to measure beside.
pub(super) fn is_quiet(cores: f64) -> bool {
    cores <= BEFORE_MAX
}

/// Load average of the last minute.
pub(super) fn load_average() -> f64 {
    let text = fs::read_to_string("/proc/loadavg").unwrap_or_default();
    let first = text.split_whitespace().next();
    first.and_then(|it| it.parse().ok()).unwrap_or(0.0)
}

/// Waits for a quiet moment, at most a minute. Returns the cores in use at the end.
pub(super) fn wait() -> f64 {
    let deadline = Instant::now() + PATIENCE;
    loop {
        let cores = cores_in_use();
        if is_quiet(cores) || Instant::now() >= deadline {
            return cores;
        }
    }
}

impl Load {
    /// Adds a turn that began with `before`, `seconds` ago, while others used `cores_before`. With
    /// `has_orphans`, what others used during the turn is unknown.
    pub(super) fn add_turn(
        &mut self,
        cores_before: f64,
        before: &Ticks,
        seconds: f64,
        has_orphans: bool,
    ) {
        let (mut beside, stolen) = Ticks::now().since(before, seconds);
        if has_orphans {
            beside = 0.0;
        }
        self.cores_before = self.cores_before.max(cores_before);
        self.cores_beside = self.cores_beside.max(beside);
        self.cores_stolen = self.cores_stolen.max(stolen);
        self.average_after = load_average();
        self.judge();
    }

    fn judge(&mut self) {
        self.is_disturbed = self.cores_before > BEFORE_MAX
            || self.cores_beside > BESIDE_MAX
            || self.cores_stolen > STOLEN_MAX;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const OWN: &str = "7 (a ) b) S 1 7 7 0 -1 4194304 9 0 0 0 250 50 400 5 20 0 1 0 9";

    #[test]
    fn what_we_use_ourselves_is_not_others_work() {
        let before = Ticks::parse("cpu 1000 0 500 9 0 7 7 20 0\n", OWN).expect("as Linux writes");
        assert_eq!(
            (before.busy, before.stolen, before.ours),
            (1500.0, 20.0, 705.0)
        );
        let after = Ticks {
            busy: 1500.0 + 1000.0,
            stolen: 20.0 + 50.0,
            ours: 705.0 + 900.0,
        };
        let (others, stolen) = after.since(&before, 10.0);
        assert!((others - 0.1).abs() < 1e-9 && (stolen - 0.05).abs() < 1e-9);
        assert_eq!(Ticks::parse("", OWN), None);
    }

    #[test]
    fn a_turn_beside_others_is_marked() {
        for (load, is_disturbed) in [
            ((0.05, 0.1, 0.0), false),
            ((0.5, 0.1, 0.0), true),
            ((0.05, 1.0, 0.0), true),
            ((0.05, 0.1, 0.3), true),
        ] {
            let mut it = Load {
                cores_before: load.0,
                cores_beside: load.1,
                cores_stolen: load.2,
                ..Load::default()
            };
            it.judge();
            assert_eq!(it.is_disturbed, is_disturbed, "{load:?}");
        }
    }

    #[test]
    fn this_machine_can_be_watched() {
        let now = Ticks::now();
        assert!(now.busy > 0.0);
    }
}
