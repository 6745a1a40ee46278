//! Distribution of the machine's cores between server and generator.

use std::fs;

use crate::process;

/// Cores that a program is bound to; all cores where it is not bound.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Cores(Option<Vec<u32>>, Option<String>);

impl Cores {
    /// Returns the binding to any core.
    pub(super) fn any() -> Cores {
        Cores(None, None)
    }

    fn of(numbers: &[u32]) -> Cores {
        let list: Vec<String> = numbers.iter().map(u32::to_string).collect();
        Cores(Some(numbers.to_vec()), Some(list.join(",")))
    }

    /// The list of cores as `taskset -c` takes it.
    pub(super) fn list(&self) -> Option<&str> {
        self.1.as_deref()
    }

    /// Whether a program has one core only.
    pub(super) fn is_single(&self) -> bool {
        self.0.as_ref().is_some_and(|numbers| numbers.len() == 1)
    }

    fn words(&self) -> String {
        match self.list() {
            None => "all cores".to_owned(),
            Some(list) if self.is_single() => format!("core {list}"),
            Some(list) => format!("cores {list}"),
        }
    }
}

/// How server and generator share the machine.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Layout {
    /// The server has a core of its own, which shows its capacity.
    Pinned,
    /// Server and generator use all cores, as in load tests on one small machine.
    Shared,
}

impl Layout {
    pub(super) const ALL: [Layout; 2] = [Layout::Pinned, Layout::Shared];

    pub(super) fn name(self) -> &'static str {
        match self {
            Layout::Pinned => "pinned",
            Layout::Shared => "shared",
        }
    }
}

/// A layout on this machine.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Placement {
    pub(super) layout: Layout,
    pub(super) server: Cores,
    /// Cores of the generator, of the server's source, and of signaling.
    pub(super) generator: Cores,
}

impl Placement {
    /// Distribution for this machine; `None` with one core, which both must share.
    pub(super) fn on_this_machine(layout: Layout) -> Option<Placement> {
        let cores = allowed();
        let can_bind = process::find("taskset").is_some();
        if layout == Layout::Pinned && !can_bind {
            println!("no taskset on the PATH (Debian: util-linux), so nothing is pinned");
        }
        Placement::on(layout, &cores, can_bind, siblings_of)
    }

    fn on(
        layout: Layout,
        cores: &[u32],
        can_bind: bool,
        siblings_of: impl Fn(u32) -> Vec<u32>,
    ) -> Option<Placement> {
        let free = Placement {
            layout,
            server: Cores::any(),
            generator: Cores::any(),
        };
        let (&first, others) = match (layout, cores.split_first()) {
            (Layout::Shared, _) => return Some(free),
            (Layout::Pinned, Some(split)) if can_bind && !split.1.is_empty() => split,
            _ => return None,
        };
        // A core that shares the server's execution units would slow the server.
        let siblings = siblings_of(first);
        let apart: Vec<u32> = others
            .iter()
            .copied()
            .filter(|core| !siblings.contains(core))
            .collect();
        let generator = if apart.is_empty() { others } else { &apart };
        Some(Placement {
            layout,
            server: Cores::of(&[first]),
            generator: Cores::of(generator),
        })
    }

    /// Describes for people which cores server and generator have.
    pub(super) fn words(&self) -> String {
        if self.server == self.generator {
            return format!("server and generator on {}", self.server.words());
        }
        let (server, generator) = (self.server.words(), self.generator.words());
        format!("server on {server}, generator on {generator}")
    }
}

/// Cores that this process may use.
fn allowed() -> Vec<u32> {
    let status = fs::read_to_string("/proc/self/status").unwrap_or_default();
    let list = status
        .lines()
        .find_map(|line| line.strip_prefix("Cpus_allowed_list:"))
        .map(parse_list)
        .unwrap_or_default();
    if list.is_empty() {
        let count = std::thread::available_parallelism().map_or(1, usize::from);
        return (0..u32::try_from(count).unwrap_or(1)).collect();
    }
    list
}

/// Threads of the same physical core.
fn siblings_of(core: u32) -> Vec<u32> {
    let path = format!("/sys/devices/system/cpu/cpu{core}/topology/thread_siblings_list");
    parse_list(&fs::read_to_string(path).unwrap_or_default())
}

/// Parses the kernel's format: `0-3,8`.
fn parse_list(text: &str) -> Vec<u32> {
    let mut numbers = Vec::new();
    for range in text.trim().split(',') {
        let (first, last) = range.split_once('-').unwrap_or((range, range));
        if let (Ok(first), Ok(last)) = (first.trim().parse::<u32>(), last.trim().parse::<u32>()) {
            numbers.extend(first..=last.min(first.saturating_add(4_096)));
        }
    }
    numbers
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pinned(cores: &[u32], siblings: &[u32]) -> Option<Placement> {
        Placement::on(Layout::Pinned, cores, true, |_| siblings.to_vec())
    }

    #[test]
    fn kernel_lists_are_read() {
        assert_eq!(parse_list("\t0-2,5\n"), [0, 1, 2, 5]);
        assert_eq!(parse_list(""), [0_u32; 0]);
        assert_eq!(parse_list("x-3"), [0_u32; 0]);
    }

    #[test]
    fn two_cores_are_divided() {
        let placement = pinned(&[0, 1], &[0]).expect("two cores");
        assert_eq!(placement.words(), "server on core 0, generator on core 1");
        assert!(placement.server.is_single());
    }

    #[test]
    fn the_twin_of_the_servers_core_stays_idle_where_others_are_left() {
        let placement = pinned(&[0, 1, 2, 3], &[0, 2]).expect("four cores");
        assert_eq!(placement.generator.list(), Some("1,3"));
        let placement = pinned(&[4, 5], &[4, 5]).expect("two threads of a core");
        assert_eq!(placement.generator.list(), Some("5"));
    }

    #[test]
    fn one_core_cannot_be_divided_but_shared() {
        assert_eq!(pinned(&[0], &[0]), None);
        let shared = Placement::on(Layout::Shared, &[0], true, |_| Vec::new());
        let shared = shared.expect("sharing needs no second core");
        assert_eq!(shared.words(), "server and generator on all cores");
        assert!(!shared.server.is_single());
    }

    #[test]
    fn nothing_is_pinned_without_the_tool() {
        let placement = Placement::on(Layout::Pinned, &[0, 1], false, |_| Vec::new());
        assert_eq!(placement, None);
    }
}
