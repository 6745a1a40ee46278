//! One module, and the resolution of paths to the module that defines an item.

use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;

/// Longest chain of re-exports that is followed. A circular chain ends after this many steps.
const STEPS_MAX: usize = 24;

/// The declarations and mentions of one module.
#[derive(Default)]
pub(super) struct Module {
    /// Names from the root of the crate down.
    pub(super) path: Vec<String>,
    pub(super) file: PathBuf,
    pub(super) parent: Option<usize>,
    pub(super) children: BTreeMap<String, usize>,
    /// Types, functions, constants, traits and macros that are defined here.
    pub(super) items: BTreeSet<String>,
    /// Local names, with the paths that `use` lines give them: a module and a function may share
    /// a name.
    pub(super) imports: BTreeMap<String, Vec<Vec<String>>>,
    /// Paths of glob imports: what stands before `::*` in `use` lines.
    pub(super) globs: Vec<Vec<String>>,
    pub(super) mentions: Vec<Mention>,
}

/// A path in the code.
pub(super) struct Mention {
    pub(super) path: Vec<String>,
    pub(super) line: usize,
}

/// Target of a path.
#[derive(Clone, Copy)]
enum Target {
    Module(usize),
    /// An item, by the module that defines it.
    Item(usize),
}

/// The module that defines the item which `path` names in module `from`.
///
/// Returns `None` for modules, locals and what other crates define.
pub(super) fn definer(modules: &[Module], from: usize, path: &[String]) -> Option<usize> {
    match resolve(modules, from, path, 0)? {
        Target::Item(module) => Some(module),
        Target::Module(_) => None,
    }
}

fn resolve(modules: &[Module], from: usize, path: &[String], steps: usize) -> Option<Target> {
    if steps > STEPS_MAX {
        return None;
    }
    let mut target = Target::Module(from);
    let mut rest = path;
    while let [name, after @ ..] = rest {
        let Target::Module(module) = target else {
            // Variants, constants and functions of a type belong to the type's module.
            return Some(target);
        };
        target = match name.as_str() {
            "crate" => Target::Module(0),
            "self" => target,
            "super" => Target::Module(modules[module].parent?),
            _ => match look_up(modules, module, name, after.is_empty(), steps) {
                Some(found) => found,
                // The path names an item of this module that the parser did not find: a macro
                // makes it here.
                None if rest.len() < path.len() => Target::Item(module),
                None => return None,
            },
        };
        rest = after;
    }
    Some(target)
}

/// Resolves `name` in `module`. A name with more behind it is preferably a module, the last name
/// of a path preferably an item.
fn look_up(
    modules: &[Module],
    module: usize,
    name: &str,
    is_last: bool,
    steps: usize,
) -> Option<Target> {
    let this = &modules[module];
    let child = this.children.get(name).copied().map(Target::Module);
    let item = this.items.contains(name).then_some(Target::Item(module));
    let (first, second) = if is_last {
        (item, child)
    } else {
        (child, item)
    };
    if first.is_some() {
        return first;
    }
    let imported = this
        .imports
        .get(name)
        .into_iter()
        .flatten()
        .filter_map(|path| resolve(modules, module, path, steps + 1));
    let best = imported.max_by_key(|target| matches!(target, Target::Item(_)) == is_last);
    let from_globs = || {
        let sources = this.globs.iter();
        sources
            .filter_map(|path| resolve(modules, module, path, steps + 1))
            .find_map(|source| match source {
                Target::Module(source) if source != module => {
                    look_up(modules, source, name, is_last, steps + 1)
                }
                _ => None,
            })
    };
    // An item of another crate counts as this module's if this module re-exports it.
    let handed_on = this.imports.contains_key(name) && best.is_none();
    let handed_on = handed_on.then_some(Target::Item(module));
    best.or(second)
        .or(handed_on)
        .or_else(|| (steps < STEPS_MAX).then(from_globs).flatten())
}
