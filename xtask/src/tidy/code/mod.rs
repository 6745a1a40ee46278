//! The code as a graph: the modules of each crate, and which of them uses what another
//! one defines.
//!
//! ```text
//!  text ─► syn ─► modules: items, imports, mentioned paths ─► resolved ─► uses
//!        read.rs                mentions.rs                 module.rs
//! ```
//!
//! What only tests compile (`#[cfg(test)]`) is left out. A use leads to the file that
//! defines the item, through however many `pub use` lines; a re-export is no use itself,
//! so a `mod.rs` that only declares and re-exports its children knows none of them.
//! Not seen: methods called on a value, paths in strings, what a macro of another crate
//! makes of its input.

mod conditions;
mod mentions;
mod module;
mod read;

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::thread::ScopedJoinHandle;

pub(super) use conditions::is_for_tests;
pub(super) use mentions::attributes;
use module::Module;

/// One crate, as its sources have it.
pub(crate) struct CrateCode {
    /// Name without the project's prefix, like `server`; `glassline` for the root.
    pub(crate) name: String,
    /// Every file that the product compiles, and the names of its module from the root
    /// of the crate down, joined by `/`; empty for the root itself.
    pub(crate) files: BTreeMap<PathBuf, String>,
    pub(crate) uses: Vec<Use>,
    pub(crate) structs: Vec<Struct>,
}

/// A place where one file names an item that another file of its crate defines.
pub(crate) struct Use {
    pub(crate) from: PathBuf,
    pub(crate) line: usize,
    pub(crate) to: PathBuf,
    /// Path in the code, like `super::peer::Peer`.
    pub(crate) path: String,
}

/// A struct with named fields.
pub(crate) struct Struct {
    pub(crate) file: PathBuf,
    pub(crate) name: String,
    pub(crate) fields: usize,
}

/// Reads all crates of `sources`: path from the root of the checkout, and text.
///
/// # Errors
/// A file is not Rust; the text names it.
pub(crate) fn read(sources: &BTreeMap<PathBuf, String>) -> Result<Vec<CrateCode>, String> {
    // Parsing takes most of the time, so each crate has a thread.
    std::thread::scope(|scope| {
        let threads: Vec<_> = crate_roots(sources)
            .map(|(name, root)| scope.spawn(move || read_crate(name, root, sources)))
            .collect();
        let joined = threads.into_iter().map(ScopedJoinHandle::join);
        joined
            .map(|crate_code| crate_code.unwrap_or_else(|_| Err("a reader panicked".to_owned())))
            .collect()
    })
}

/// Name and root file of each crate.
fn crate_roots(sources: &BTreeMap<PathBuf, String>) -> impl Iterator<Item = (String, &Path)> {
    sources.keys().filter_map(|path| {
        let source = path.parent().filter(|folder| folder.ends_with("src"))?;
        let is_root = path.ends_with("lib.rs") || path.ends_with("main.rs");
        let folder = source.parent()?.file_name();
        let name = folder.map_or("glassline".into(), |name| name.to_string_lossy());
        is_root.then(|| (name.into_owned(), path.as_path()))
    })
}

fn read_crate(
    name: String,
    root: &Path,
    sources: &BTreeMap<PathBuf, String>,
) -> Result<CrateCode, String> {
    let read::Tree { modules, structs } = read::modules(root, sources)?;
    let files = modules
        .iter()
        .rev()
        .map(|module| (module.file.clone(), module.path.join("/")))
        .collect();
    Ok(CrateCode {
        name,
        files,
        uses: uses(&modules),
        structs,
    })
}

fn uses(modules: &[Module]) -> Vec<Use> {
    let mut uses = Vec::new();
    for (index, module) in modules.iter().enumerate() {
        for mention in &module.mentions {
            let Some(definer) = module::definer(modules, index, &mention.path) else {
                continue;
            };
            let to = &modules[definer].file;
            if *to != module.file {
                uses.push(Use {
                    from: module.file.clone(),
                    line: mention.line,
                    to: to.clone(),
                    path: mention.path.join("::"),
                });
            }
        }
    }
    uses.sort_by(|one, other| {
        (&one.from, one.line, &one.to).cmp(&(&other.from, other.line, &other.to))
    });
    uses
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;

    /// A crate `a` of the files that `files` names under `crates/a/src`.
    pub(crate) fn crate_of(files: &[(&str, &str)]) -> CrateCode {
        let sources = files
            .iter()
            .map(|(name, text)| (Path::new("crates/a/src").join(name), (*text).to_owned()))
            .collect();
        let mut crates = read(&sources).expect("the sources are Rust");
        crates.remove(0)
    }

    fn arrows(files: &[(&str, &str)]) -> Vec<String> {
        let short = |path: &Path| {
            let inside = path.strip_prefix("crates/a/src").unwrap_or(path);
            inside.display().to_string()
        };
        let uses = crate_of(files).uses;
        let shown = uses
            .iter()
            .map(|it| format!("{}:{} {}", short(&it.from), it.line, short(&it.to)));
        shown.collect()
    }

    #[test]
    fn a_use_leads_to_the_file_that_defines_the_item() {
        let found = arrows(&[
            ("lib.rs", "mod b;\nmod c;"),
            ("b/mod.rs", "mod inner;\npub(crate) use inner::Thing;"),
            ("b/inner.rs", "pub(crate) struct Thing;"),
            ("c.rs", "use crate::b::Thing;"),
        ]);
        assert_eq!(found, ["c.rs:1 b/inner.rs"]);
    }

    #[test]
    fn nested_groups_renames_and_globs_are_read() {
        let found = arrows(&[
            ("lib.rs", "mod b;\nmod c;\nmod d;\npub use d::*;"),
            ("b.rs", "pub fn one() {}\npub mod deep { pub fn two() {} }"),
            (
                "c.rs",
                "use crate::{\n b::{self, one as uno,\n deep::two},\n Kind,\n};",
            ),
            ("d.rs", "pub enum Kind { A }"),
        ]);
        assert_eq!(found, ["c.rs:2 b.rs", "c.rs:3 b.rs", "c.rs:4 d.rs"]);
    }

    #[test]
    fn paths_within_code_and_within_macros_are_read() {
        let found = arrows(&[
            ("lib.rs", "mod b;\nmod c;"),
            ("b.rs", "pub struct Thing;\npub const SIZE: usize = 1;"),
            (
                "c.rs",
                "use super::b;\nfn f(it: Vec<b::Thing>) {}\nfn g() {\n  let _ = [0; crate::b::SIZE];\n  println!(\"{}\", b::SIZE);\n}",
            ),
        ]);
        assert_eq!(found, ["c.rs:2 b.rs", "c.rs:4 b.rs", "c.rs:5 b.rs"]);
    }

    #[test]
    fn tests_are_left_out() {
        let found = arrows(&[
            ("lib.rs", "mod b;\nmod c;\n#[cfg(test)]\nmod tests;"),
            ("b.rs", "pub struct Thing;"),
            (
                "c.rs",
                "#[cfg(test)]\nmod tests { use crate::b::Thing; }\n#[cfg(all(test, unix))]\nuse crate::b::Thing as Other;",
            ),
            ("tests.rs", "use crate::b::Thing;"),
        ]);
        assert_eq!(found, Vec::<String>::new());
    }

    #[test]
    fn a_parent_that_uses_what_it_exports_knows_it() {
        let child = ("child.rs", "pub struct Thing;");
        let only_exports = arrows(&[("lib.rs", "mod child;\npub use child::Thing;"), child]);
        assert_eq!(only_exports, Vec::<String>::new());
        let uses_too = "mod child;\npub use child::Thing;\nfn f() -> Thing { Thing }";
        let uses_too = arrows(&[("lib.rs", uses_too), child]);
        assert_eq!(uses_too, ["lib.rs:3 child.rs", "lib.rs:3 child.rs"]);
    }

    #[test]
    fn what_a_macro_makes_is_its_modules() {
        let found = arrows(&[
            ("lib.rs", "mod b;\nmod c;"),
            ("b.rs", "make!(Thing);"),
            ("c.rs", "use crate::b::Thing;"),
        ]);
        assert_eq!(found, ["c.rs:1 b.rs"]);
    }

    #[test]
    fn names_of_locals_and_of_other_crates_are_no_arrows() {
        let found = arrows(&[
            ("lib.rs", "mod b;\nmod c;"),
            ("b.rs", "pub fn b() {}"),
            (
                "c.rs",
                "use std::b;\nfn f(b: u8) { let _ = b; other::b::c(); it.b(); }",
            ),
        ]);
        assert_eq!(found, Vec::<String>::new());
    }

    #[test]
    fn named_fields_are_counted() {
        let code = crate_of(&[(
            "lib.rs",
            "struct A { a: Vec<(u8, u8)>, b: u8 }\nstruct B(u8);",
        )]);
        let found: Vec<_> = code
            .structs
            .iter()
            .map(|it| (it.name.as_str(), it.fields))
            .collect();
        assert_eq!(found, [("A", 2)]);
    }

    #[test]
    fn a_file_that_is_not_rust_is_named() {
        let sources = BTreeMap::from([(PathBuf::from("crates/a/src/lib.rs"), "fn (".to_owned())]);
        let error = read(&sources).err().unwrap_or_default();
        assert!(error.contains("crates/a/src/lib.rs:1"), "{error}");
    }
}
