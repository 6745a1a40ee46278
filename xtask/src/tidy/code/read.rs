//! Reads the modules of a crate from its text.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use syn::visit::Visit;
use syn::{Item, ItemMod};

use super::Struct;
use super::conditions::is_for_tests;
use super::mentions::Mentions;
use super::module::Module;

/// All of a crate; the root is the first module.
pub(super) struct Tree {
    pub(super) modules: Vec<Module>,
    pub(super) structs: Vec<Struct>,
}

/// Follows the `mod` lines from `root`.
///
/// # Errors A file is not Rust; the text names it.
pub(super) fn modules(root: &Path, sources: &BTreeMap<PathBuf, String>) -> Result<Tree, String> {
    let mut reader = Reader {
        sources,
        tree: Tree {
            modules: Vec::new(),
            structs: Vec::new(),
        },
    };
    reader.file(&ModuleFile {
        path: Vec::new(),
        parent: None,
        file: root.to_owned(),
        children_folder: root.parent().unwrap_or(root).to_owned(),
    })?;
    Ok(reader.tree)
}

struct Reader<'sources> {
    sources: &'sources BTreeMap<PathBuf, String>,
    tree: Tree,
}

/// Position of a module in the tree.
struct ModuleFile {
    path: Vec<String>,
    parent: Option<usize>,
    file: PathBuf,
    /// Folder of the module's children.
    children_folder: PathBuf,
}

impl Reader<'_> {
    fn file(&mut self, at: &ModuleFile) -> Result<usize, String> {
        let text = self.sources.get(&at.file).map_or("", String::as_str);
        let parsed = syn::parse_file(text).map_err(|error| {
            let line = error.span().start().line;
            format!("{}:{line}: {error}", at.file.display())
        })?;
        self.module(at, &parsed.items)
    }

    fn module(&mut self, at: &ModuleFile, items: &[Item]) -> Result<usize, String> {
        let index = self.tree.modules.len();
        let mut module = Module {
            path: at.path.clone(),
            file: at.file.clone(),
            parent: at.parent,
            ..Module::default()
        };
        let mut mentions = Mentions::new(&mut module, &mut self.tree.structs);
        for item in items {
            mentions.declare(item);
            mentions.visit_item(item);
        }
        self.tree.modules.push(module);
        for item in items {
            if let Item::Mod(child) = item
                && !is_for_tests(&child.attrs)
                && let Some(child_index) = self.child(index, at, child)?
            {
                let children = &mut self.tree.modules[index].children;
                children.insert(child.ident.to_string(), child_index);
            }
        }
        Ok(index)
    }

    /// `None` for a module that exists on other platforms only.
    fn child(
        &mut self,
        parent: usize,
        at: &ModuleFile,
        child: &ItemMod,
    ) -> Result<Option<usize>, String> {
        let name = child.ident.to_string();
        let folder = at.children_folder.join(&name);
        let path = [at.path.clone(), vec![name.clone()]].concat();
        let below = |file: PathBuf| ModuleFile {
            path,
            parent: Some(parent),
            file,
            children_folder: folder.clone(),
        };
        if let Some((_, items)) = &child.content {
            return self.module(&below(at.file.clone()), items).map(Some);
        }
        let beside = at.children_folder.join(format!("{name}.rs"));
        let candidates = [folder.join("mod.rs"), beside];
        let file = candidates
            .into_iter()
            .find(|file| self.sources.contains_key(file));
        file.map(|file| self.file(&below(file))).transpose()
    }
}
