//! Builds the tests of a package with the switches of many mutants in it.

use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;

use serde_json::Value;

use super::listed::Mutant;
use super::switched::{Region, SWITCH, switched};
use super::tree::Tree;
use crate::process;

/// Errors of rustc that a mutant has wherever it stands: types that do not fit, names and traits
/// that are not there.
const UNVIABLE: [&str; 16] = [
    "E0027", "E0061", "E0063", "E0106", "E0107", "E0277", "E0308", "E0369", "E0412", "E0423",
    "E0425", "E0432", "E0433", "E0599", "E0600", "E0604",
];

/// Builds until no mutant is refused; each takes out those that the compiler named.
const BUILDS_MAX: usize = 12;

/// Programs with tests, and what became of the mutants.
#[derive(Debug, Default)]
pub(super) struct Built {
    pub(super) programs: Vec<Program>,
    /// Numbers of mutants whose switch is in the programs.
    pub(super) switched: BTreeSet<u32>,
    /// Mutants that do not compile.
    pub(super) unviable: BTreeSet<u32>,
    /// Mutants that cannot stand behind a switch, such as in a `const fn`.
    pub(super) unswitched: BTreeSet<u32>,
}

#[derive(Debug, PartialEq, Eq)]
pub(super) struct Program {
    pub(super) path: PathBuf,
    /// Whether these are the tests beside the code.
    pub(super) is_unit: bool,
}

/// Builds the tests that `targets` names of `package` with all `mutants`, numbered by their
/// places in the slice.
pub(super) fn build(
    tree: &Tree,
    package: &str,
    targets: &[&str],
    mutants: &[Mutant],
) -> Result<Built, String> {
    let numbers = 0..u32::try_from(mutants.len()).unwrap_or(u32::MAX);
    let mut built = Built {
        switched: numbers.collect(),
        ..Built::default()
    };
    for _ in 0..BUILDS_MAX {
        let regions = write(tree, package, mutants, &mut built)?;
        let (programs, refused) = compile(tree, package, targets)?;
        if refused.is_empty() {
            built.programs = programs;
            return Ok(built);
        }
        if !take_out(&mut built, &regions, &refused) {
            let texts = refused.iter().map(|it| it.text.as_str());
            return Err(texts.collect::<Vec<_>>().join("\n"));
        }
    }
    Err(format!(
        "{package} did not build with its mutants in {BUILDS_MAX} attempts"
    ))
}

/// Writes all files of the mutants that are still switched, and those that were.
fn write(
    tree: &Tree,
    package: &str,
    mutants: &[Mutant],
    built: &mut Built,
) -> Result<BTreeMap<String, Vec<Region>>, String> {
    let mut files: BTreeMap<&str, Vec<(u32, &Mutant)>> = BTreeMap::new();
    for (number, mutant) in (0..).zip(mutants) {
        let here = files.entry(&mutant.file).or_default();
        if built.switched.contains(&number) {
            here.push((number, mutant));
        }
    }
    let root = format!(
        "crates/{}/src/lib.rs",
        package.trim_start_matches("glassline-")
    );
    files.entry(&root).or_default();
    let mut regions = BTreeMap::new();
    for (file, here) in files {
        let path = process::root().join(file);
        let source = std::fs::read_to_string(&path)
            .map_err(|error| format!("{}: {error}", path.display()))?;
        let mut result = switched(&source, &here).map_err(|error| format!("{file}: {error}"))?;
        if file == root {
            result.text.push_str(SWITCH);
        }
        for number in &result.unswitched {
            built.switched.remove(number);
            built.unswitched.insert(*number);
        }
        tree.write(file, result.text.as_bytes())?;
        regions.insert(file.to_owned(), result.regions);
    }
    Ok(regions)
}

/// An error of the compiler.
#[derive(Debug)]
struct Refused {
    code: String,
    text: String,
    /// Files and bytes that it points to, the main one first.
    places: Vec<(String, usize)>,
}

/// Compiles; returns the programs, or the errors.
fn compile(
    tree: &Tree,
    package: &str,
    targets: &[&str],
) -> Result<(Vec<Program>, Vec<Refused>), String> {
    let mut cargo = process::cargo(&["test", "--no-run", "--package", package]);
    cargo
        .current_dir(tree.root())
        .env("CARGO_TARGET_DIR", super::build_directory())
        .args(["--message-format", "json", "--quiet"])
        .args(targets);
    let output = cargo
        .output()
        .map_err(|error| format!("cannot start {}: {error}", process::line(&cargo)))?;
    let (mut programs, mut refused) = (Vec::new(), Vec::new());
    for line in String::from_utf8_lossy(&output.stdout).lines() {
        let Ok(message) = serde_json::from_str::<Value>(line) else {
            continue;
        };
        programs.extend(program(&message, package));
        refused.extend(error(&message));
    }
    if !output.status.success() && refused.is_empty() {
        return Err(format!(
            "{}{} ended with {}",
            String::from_utf8_lossy(&output.stderr),
            process::line(&cargo),
            output.status
        ));
    }
    programs.sort_by_key(|it| !it.is_unit);
    Ok((programs, refused))
}

/// Returns the program with tests that `message` tells of. The tests beside the code of another
/// package than `package` are none: such a package is named for its integration tests.
fn program(message: &Value, package: &str) -> Option<Program> {
    let path = message.pointer("/executable")?.as_str()?;
    let kinds = message.pointer("/target/kind")?.as_array()?;
    let target = message.pointer("/target/name")?.as_str()?;
    let is_unit = kinds.iter().any(|kind| kind == "lib");
    let is_wanted = !is_unit || target == package.replace('-', "_");
    is_wanted.then(|| Program {
        path: PathBuf::from(path),
        is_unit,
    })
}

fn error(message: &Value) -> Option<Refused> {
    let message = message.pointer("/message")?;
    if message.pointer("/level")?.as_str()? != "error" {
        return None;
    }
    let spans = message.pointer("/spans")?.as_array()?;
    let mut places: Vec<_> = spans
        .iter()
        .filter_map(|span| {
            let file = span.pointer("/file_name")?.as_str()?;
            let at = span.pointer("/byte_start")?.as_u64()?;
            let is_main = span.pointer("/is_primary")?.as_bool()?;
            Some((!is_main, file.to_owned(), usize::try_from(at).ok()?))
        })
        .collect();
    if places.is_empty() {
        // "Aborting due to previous errors".
        return None;
    }
    places.sort();
    let text = message.pointer("/rendered").and_then(Value::as_str);
    let code = message.pointer("/code/code").and_then(Value::as_str);
    Some(Refused {
        code: code.unwrap_or("").to_owned(),
        text: text.unwrap_or("").to_owned(),
        places: places.into_iter().map(|(_, file, at)| (file, at)).collect(),
    })
}

/// Takes the mutants out that `refused` points to; returns whether there was any.
fn take_out(
    built: &mut Built,
    regions: &BTreeMap<String, Vec<Region>>,
    refused: &[Refused],
) -> bool {
    let before = built.switched.len();
    for error in refused {
        let Some((number, in_mutant)) = error.places.iter().find_map(|(file, at)| {
            let here = regions.get(file)?;
            let inserted = here.iter().find(|it| it.inserted.contains(at));
            let around = here.iter().filter(|it| it.whole.contains(at));
            let innermost = around.min_by_key(|it| it.whole.len());
            let found = inserted.or(innermost)?;
            Some((found.number, inserted.is_some()))
        }) else {
            continue;
        };
        built.switched.remove(&number);
        if in_mutant && UNVIABLE.contains(&error.code.as_str()) {
            built.unviable.insert(number);
        } else {
            built.unswitched.insert(number);
        }
    }
    // An error that stands beside its mutant: all mutants of the file are built alone.
    if built.switched.len() == before
        && let Some((file, _)) = refused.iter().flat_map(|it| &it.places).next()
        && let Some(here) = regions.get(file)
    {
        for region in here {
            built.switched.remove(&region.number);
            built.unswitched.insert(region.number);
        }
    }
    for number in &built.unviable {
        built.unswitched.remove(number);
    }
    built.switched.len() < before
}
