//! Processor time of other programs, from `/proc`.

use std::collections::HashMap;
use std::fs;
use std::time::Duration;

/// User and kernel time of a process, in ticks of a hundredth of a second.
pub(super) fn of(process: u32) -> Result<Duration, String> {
    let path = format!("/proc/{process}/stat");
    let text = fs::read_to_string(&path).map_err(|error| format!("{path}: {error}"))?;
    let stat = Stat::parse(&text).ok_or_else(|| format!("{path} is not as it should be"))?;
    Ok(stat.used)
}

/// Processor time of a process and all its descendants, including those that ended and were
/// waited for.
pub(super) fn of_tree(root: u32) -> Duration {
    let Ok(folder) = fs::read_dir("/proc") else {
        return Duration::ZERO;
    };
    let processes = folder.flatten().filter_map(|entry| {
        let number: u32 = entry.file_name().to_str()?.parse().ok()?;
        let text = fs::read_to_string(entry.path().join("stat")).ok()?;
        Some((number, Stat::parse(&text)?))
    });
    let stats: HashMap<u32, Stat> = processes.collect();
    let descends = |mut number: u32| {
        // A parent may end between two readings; no process has this many ancestors.
        for _ in 0..64 {
            if number == root {
                return true;
            }
            match stats.get(&number) {
                Some(stat) => number = stat.parent,
                None => return false,
            }
        }
        false
    };
    let of_root = stats.iter().filter(|(number, _)| descends(**number));
    of_root
        .map(|(_, stat)| stat.used + stat.used_by_ended)
        .sum()
}

struct Stat {
    parent: u32,
    used: Duration,
    used_by_ended: Duration,
}

impl Stat {
    /// Parses fields 4, 14 and 15, 16 and 17; the name before them may contain any character.
    fn parse(text: &str) -> Option<Stat> {
        let (_, fields) = text.rsplit_once(')')?;
        let fields: Vec<&str> = fields.split_ascii_whitespace().collect();
        let ticks = |at: usize| fields.get(at)?.parse::<u64>().ok();
        let time = |ticks: u64| Duration::from_millis(10 * ticks);
        Some(Stat {
            parent: fields.get(1)?.parse().ok()?,
            used: time(ticks(11)? + ticks(12)?),
            used_by_ended: time(ticks(13)? + ticks(14)?),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn processor_time_is_read_behind_any_name() {
        let stat = "7 (a ) b) S 1 7 7 0 -1 4194304 9 0 0 0 250 50 4 5 20 0 1 0 9 9 9";
        let stat = Stat::parse(stat).expect("as the kernel writes it");
        assert_eq!((stat.parent, stat.used), (1, Duration::from_secs(3)));
        assert_eq!(stat.used_by_ended, Duration::from_millis(90));
        assert!(Stat::parse("7 (short) S 1").is_none());
    }

    #[test]
    fn a_tree_has_at_least_what_its_root_has() {
        let own = std::process::id();
        let alone = of(own).expect("we are there");
        assert!(of_tree(own) >= alone);
        assert_eq!(of_tree(u32::MAX), Duration::ZERO);
    }
}
