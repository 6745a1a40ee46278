//! Files that a file includes.
//!
//! Maps are merged. A key that two files set is an error, so that the order of files never decides.

use std::fs;
use std::path::{Path, PathBuf};

use super::Files;
use super::fault::Fault;
use super::node::{Content, Node};
use crate::load::{self, Error};

/// Name of the key.
pub(crate) const KEY: &str = "include";

/// Most files of a configuration, and the deepest way from the first file to one.
const FILES_MAX: usize = 200;
const DEPTH_MAX: usize = 8;

/// Most bytes of all files.
const BYTES_MAX: usize = 4 << 20;

/// The files that are being read, and what all of them have.
struct Including<'a> {
    files: &'a mut Files,
    /// Files on the way from the first one, without links.
    way: Vec<PathBuf>,
    count: usize,
    bytes: usize,
}

/// Merges the files that `include` of `root` names, or those of `named`, into `root`, which was read
/// from `path`.
pub(super) fn merge(
    root: &mut Node,
    files: &mut Files,
    path: &Path,
    named: Option<Node>,
) -> Result<(), Error> {
    let own = root.take(KEY);
    let mut including = Including {
        files,
        way: vec![whole(path)],
        count: 1,
        bytes: 0,
    };
    let folder = path.parent().unwrap_or(Path::new("")).to_owned();
    match named.or(own) {
        Some(named) => including.include(root, &named, &folder),
        None => Ok(()),
    }
}

impl Including<'_> {
    fn include(&mut self, root: &mut Node, named: &Node, folder: &Path) -> Result<(), Error> {
        let wrong = |including: &Self, node: &Node, reason: &str| {
            Err(including.files.error(Fault::new(node, reason)))
        };
        let names = match &named.content {
            Content::List(names) => names.as_slice(),
            Content::Text(_) if named.is_nothing() => &[],
            Content::Text(_) => std::slice::from_ref(named),
            Content::Map(_) => {
                let what = "files are expected here, like [cameras.yml, conf.d/*.yml]";
                return wrong(self, named, what);
            }
        };
        for name in names {
            let Some(text) = name.as_text().filter(|it| !it.is_empty()) else {
                return wrong(self, name, "a file is expected here, like cameras.yml");
            };
            for path in self.paths(name, &folder.join(text))? {
                self.include_file(root, name, &path)?;
            }
        }
        Ok(())
    }

    /// Returns the file, or those of a folder whose names fit, in the order of the names.
    fn paths(&mut self, at: &Node, path: &Path) -> Result<Vec<PathBuf>, Error> {
        let pattern = path
            .file_name()
            .and_then(|it| it.to_str())
            .unwrap_or_default();
        let Some((head, tail)) = pattern.split_once('*') else {
            return Ok(vec![path.to_owned()]);
        };
        let folder = path.parent().unwrap_or(Path::new(""));
        let failed = |error: &dyn std::fmt::Display| {
            Fault::new(at, format_args!("{}: {error}", folder.display()))
        };
        if tail.contains('*') || folder.to_string_lossy().contains('*') {
            let reason = "one `*` may stand in the name of the file, like conf.d/*.yml";
            return Err(self.files.error(Fault::new(at, reason)));
        }
        // A file that is added later changes the folder.
        self.files.read.borrow_mut().push(folder.to_owned());
        let listed = fs::read_dir(folder).and_then(Iterator::collect::<Result<Vec<_>, _>>);
        let listed = listed.map_err(|error| self.files.error(failed(&error)))?;
        let fits = |name: &str| {
            let is_long = name.len() >= head.len() + tail.len();
            is_long && !name.starts_with('.') && name.starts_with(head) && name.ends_with(tail)
        };
        let mut paths: Vec<_> = listed
            .into_iter()
            .filter(|it| it.file_name().to_str().is_some_and(fits))
            .map(|it| it.path())
            .filter(|path| path.is_file())
            .collect();
        paths.sort();
        Ok(paths)
    }

    fn include_file(&mut self, root: &mut Node, at: &Node, path: &Path) -> Result<(), Error> {
        let fault = |including: &Self, reason: &dyn std::fmt::Display| {
            including.files.error(Fault::new(at, reason))
        };
        let file = whole(path);
        if self.way.contains(&file) {
            let circle = format!("{} includes itself, by this line", path.display());
            return Err(fault(self, &circle));
        }
        if self.way.len() > DEPTH_MAX {
            let deep = format!("more than {DEPTH_MAX} files include one another");
            return Err(fault(self, &deep));
        }
        self.count += 1;
        self.files.read.borrow_mut().push(path.to_owned());
        let (text, name) = load::read(path).map_err(|error| fault(self, &error))?;
        self.bytes += text.len();
        if self.count > FILES_MAX || self.bytes > BYTES_MAX {
            let many = format!("more than {FILES_MAX} files, or {BYTES_MAX} bytes of them");
            return Err(fault(self, &many));
        }
        let folder = path.parent().unwrap_or(Path::new("")).to_owned();
        let mut node = self.files.parse(&text, &name, &folder)?;
        if node.is_nothing() {
            return Ok(());
        }
        if !matches!(node.content, Content::Map(_)) {
            let reason = "an included file has keys, as the first file has";
            return Err(self.files.error(Fault::new(&node, reason)));
        }
        let more = node.take(KEY);
        self.merge(root, node, "")?;
        if let Some(more) = more {
            self.way.push(file);
            self.include(root, &more, &folder)?;
            self.way.pop();
        }
        Ok(())
    }

    /// Adds the keys of `more` to those of `base`, which is at `path`.
    fn merge(&self, base: &mut Node, more: Node, path: &str) -> Result<(), Error> {
        let is_map = |node: &Node| matches!(node.content, Content::Map(_)) || node.is_nothing();
        if !is_map(base) || !is_map(&more) {
            let place = base.place;
            let (file, _) = &self.files.names[place.file];
            let reason = format!(
                "`{path}` is set in {file}:{}, too: keep one of the two",
                place.line
            );
            return Err(self.files.error(Fault::new(&more, reason)));
        }
        let Content::Map(entries) = more.content else {
            // A section without keys says nothing.
            return Ok(());
        };
        for (key, value) in entries {
            let name = key.as_text().unwrap_or_default().to_owned();
            let path = match path {
                "" => name.clone(),
                _ => format!("{path}.{name}"),
            };
            let own = base.entries_mut();
            match own.iter_mut().find(|(key, _)| key.as_text() == Some(&name)) {
                Some((_, base)) => self.merge(base, value, &path)?,
                None => own.push((key, value)),
            }
        }
        Ok(())
    }
}

/// Returns the path without links, or as it is if there is no such file.
fn whole(path: &Path) -> PathBuf {
    path.canonicalize().unwrap_or_else(|_| path.to_owned())
}
