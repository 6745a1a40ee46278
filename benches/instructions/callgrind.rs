//! Runs this program under callgrind, and reads its counts by function.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use crate::cases::{CASES, FENCE, PREFIX};
use crate::comparison::Counts;

/// Counts of one case, over all its operations.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Count {
    /// Instructions of this workspace, its Rust dependencies and std.
    pub(crate) ours: u64,
    /// Instructions of aws-lc, the library that encrypts and authenticates packets.
    pub(crate) cipher: u64,
    /// Instructions of shared objects: copying, allocating, system calls.
    pub(crate) libc: u64,
    /// Calls of the allocator.
    pub(crate) allocations: u64,
}

/// Runs every case once under callgrind.
pub(crate) fn run() -> Result<Counts, String> {
    let folder = folder()?;
    let program = std::env::current_exe().map_err(|error| error.to_string())?;
    let mut valgrind = Command::new("valgrind");
    valgrind
        .args(["--tool=callgrind", "--quiet"])
        // A plain text format: no compressed names, no relative positions.
        .args(["--compress-strings=no", "--compress-pos=no"])
        .arg(format!("--dump-after=*{FENCE}*"))
        .arg(format!("--dump-after=*{PREFIX}*"))
        .arg(format!("--callgrind-out-file={}/out", folder.display()))
        .arg(&program)
        .arg("--role=cases")
        .stdin(Stdio::null());
    let status = valgrind.status().map_err(|error| match error.kind() {
        std::io::ErrorKind::NotFound => {
            "valgrind is not on the PATH; Debian and Fedora have a package of that name".to_owned()
        }
        _ => format!("valgrind: {error}"),
    })?;
    if !status.success() {
        return Err(format!("the cases under valgrind ended with {status}"));
    }
    let mut counts = Counts::new();
    for path in dumps(&folder)? {
        let text =
            fs::read_to_string(&path).map_err(|error| format!("{}: {error}", path.display()))?;
        if let Some(name) = case_of(&text) {
            counts.insert(name, read(&text, &program.display().to_string()));
        }
    }
    Ok(counts)
}

/// An empty folder beside the binary, `target/instructions`.
fn folder() -> Result<PathBuf, String> {
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join("instructions");
    // Dumps of an earlier run must not be read as this run's.
    let _ = fs::remove_dir_all(&folder);
    fs::create_dir_all(&folder).map_err(|error| format!("{}: {error}", folder.display()))?;
    Ok(folder)
}

fn dumps(folder: &Path) -> Result<Vec<PathBuf>, String> {
    let entries = fs::read_dir(folder).map_err(|error| format!("{}: {error}", folder.display()))?;
    Ok(entries.flatten().map(|entry| entry.path()).collect())
}

/// Name of the dump's case, by the function that triggered it.
fn case_of(dump: &str) -> Option<String> {
    let trigger = dump
        .lines()
        .find_map(|line| line.strip_prefix("desc: Trigger: --dump-after="))?;
    let at = trigger.find(PREFIX)?;
    let name = &trigger[at + PREFIX.len()..];
    let found = CASES.iter().find(|case| name.starts_with(case.name))?;
    Some(found.name.to_owned())
}

/// Sums a dump: every `fn=` is followed by its own cost, and each `calls=` by the inclusive cost
/// of a callee, which is skipped.
fn read(dump: &str, program: &str) -> Count {
    let mut count = Count::default();
    let (mut object, mut file, mut function, mut callee) = ("", "", "", "");
    let mut inclusive = false;
    let mut by_function: BTreeMap<&str, u64> = BTreeMap::new();
    for line in dump.lines() {
        if let Some(name) = line.strip_prefix("ob=") {
            object = name;
        } else if let Some(name) = line.strip_prefix("fl=") {
            file = name;
        } else if let Some(name) = line.strip_prefix("fn=") {
            function = name;
        } else if let Some(name) = line.strip_prefix("cfn=") {
            callee = name;
        } else if let Some(rest) = line.strip_prefix("calls=") {
            inclusive = true;
            if matches!(
                callee,
                "malloc" | "calloc" | "realloc" | "aligned_alloc" | "posix_memalign"
            ) {
                let calls = rest
                    .split(' ')
                    .next()
                    .and_then(|text| text.parse::<u64>().ok());
                count.allocations += calls.unwrap_or(0);
            }
        } else if line.starts_with(|first: char| first.is_ascii_digit()) {
            if std::mem::take(&mut inclusive) {
                continue;
            }
            let cost = line
                .split(' ')
                .nth(1)
                .and_then(|text| text.parse::<u64>().ok());
            let cost = cost.unwrap_or(0);
            let class = if object != program {
                &mut count.libc
            } else if is_cipher(function, file) {
                &mut count.cipher
            } else {
                *by_function.entry(function).or_default() += cost;
                &mut count.ours
            };
            *class += cost;
        }
    }
    if std::env::var_os("INSTRUCTIONS_BY_FUNCTION").is_some() {
        print_largest(&by_function);
    }
    count
}

/// Prints the functions with the largest counts, to find what changed.
fn print_largest(by_function: &BTreeMap<&str, u64>) {
    let mut largest: Vec<_> = by_function.iter().collect();
    largest.sort_by_key(|(_, cost)| std::cmp::Reverse(**cost));
    for (name, cost) in largest.iter().take(12) {
        println!("  {cost:>10} {name}");
    }
}

/// Whether a function is aws-lc's: the only C and assembly in this program. A Rust function shows
/// as a path. Without debug information, functions that are local to a C file have neither aws-lc's
/// prefix nor the path of their file, and labels inside assembly have no name at all.
fn is_cipher(function: &str, file: &str) -> bool {
    // The runtime's own C names: arithmetic that compilers call, and the entry of the program.
    let runtime = function.starts_with("__") || matches!(function, "main" | "_start");
    file.contains("aws-lc") || !(function.contains("::") || runtime)
}
