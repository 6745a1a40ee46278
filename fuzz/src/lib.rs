//! Fuzz targets: readers of bytes from the network or from a file, and what stands behind them.
//!
//! `src/main.rs` puts one target under libFuzzer. The tests here run the seeds of all of them.

mod cost;
mod input;
mod playing;
mod targets;

use targets::TARGETS;
pub use targets::Target;

/// Returns the target `name`.
///
/// # Panics
/// If there is no such target; in a constant, that is an error of the compiler.
pub const fn target(name: &str) -> Target {
    let mut index = 0;
    while index < TARGETS.len() {
        if is_same(TARGETS[index].name.as_bytes(), name.as_bytes()) {
            return TARGETS[index];
        }
        index += 1;
    }
    panic!("there is no such fuzz target")
}

const fn is_same(a: &[u8], b: &[u8]) -> bool {
    match (a, b) {
        ([], []) => true,
        ([first, a @ ..], [second, b @ ..]) => *first == *second && is_same(a, b),
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;
    use std::path::Path;
    use std::{fs, io};

    use super::*;

    fn names(folder: &str) -> io::Result<BTreeSet<String>> {
        let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join(folder);
        let entries = fs::read_dir(folder)?;
        entries
            .map(|entry| Ok(entry?.file_name().to_string_lossy().into_owned()))
            .collect()
    }

    /// `cargo xtask fuzz` takes the names of targets from the folder.
    #[test]
    fn every_file_is_a_target() {
        let files = names("src/targets").expect("the targets");
        for name in TARGETS.iter().map(|it| it.name) {
            assert!(files.contains(&format!("{name}.rs")), "{name}");
        }
        let drivers = 13 * usize::from(!cfg!(fuzzing));
        assert_eq!(files.len(), TARGETS.len() + drivers + 1);
    }

    #[test]
    fn every_seed_passes() {
        let mut ran = 0;
        for target in TARGETS {
            let folder = format!("seeds/{}", target.name);
            for seed in names(&folder).unwrap_or_default() {
                println!("{}: {seed}", target.name);
                let path = Path::new(env!("CARGO_MANIFEST_DIR")).join(&folder);
                target.check(&fs::read(path.join(&seed)).expect("a seed"));
                ran += 1;
            }
        }
        assert!(ran > 100, "{ran} seeds");
    }
}
