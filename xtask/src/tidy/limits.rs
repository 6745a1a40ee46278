//! Limits on the size of files and structs: known exceptions are listed, and no new ones are
//! allowed.

use std::collections::BTreeMap;
use std::path::PathBuf;

use super::code::CrateCode;
use super::table;

/// Most lines of a file; a larger one should be divided.
const LINES_MAX: usize = 500;

/// Most lines of a file that is listed as an exception.
const LINES_MAX_OF_LISTED: usize = 900;

/// Most fields of a struct; a larger one should be divided.
const FIELDS_MAX: usize = 20;

/// Files and structs beyond their limits that are not listed, and listed ones within them.
pub(super) fn problems(sources: &BTreeMap<PathBuf, String>, crates: &[CrateCode]) -> Vec<String> {
    let mut problems = files_against(table::LONG_FILES, sources);
    problems.extend(structs_against(table::WIDE_STRUCTS, crates));
    problems
}

fn files_against(listed: &[&str], sources: &BTreeMap<PathBuf, String>) -> Vec<String> {
    let mut problems = Vec::new();
    let long = long_files(sources);
    for (file, lines) in &long {
        if !listed.contains(&file.as_str()) || *lines > LINES_MAX_OF_LISTED {
            problems.push(format!("{file}: {lines} lines; which noun is missing?"));
        }
    }
    for file in listed.iter().filter(|file| !long.contains_key(**file)) {
        problems.push(format!("{file} is not above {LINES_MAX} lines; strike it"));
    }
    problems
}

fn structs_against(listed: &[(&str, &str)], crates: &[CrateCode]) -> Vec<String> {
    let mut problems = Vec::new();
    let wide = wide_structs(crates);
    for ((file, name), fields) in &wide {
        if !listed.contains(&(file, name)) {
            problems.push(format!(
                "{file}: `{name}` has {fields} fields; which noun is missing?"
            ));
        }
    }
    for (file, name) in listed {
        if !wide.contains_key(&((*file).to_owned(), (*name).to_owned())) {
            problems.push(format!(
                "{file}: no `{name}` of more than {FIELDS_MAX} fields; strike it"
            ));
        }
    }
    problems
}

/// The lists as the code is.
pub(super) fn as_tables(sources: &BTreeMap<PathBuf, String>, crates: &[CrateCode]) -> Vec<String> {
    let files = long_files(sources).into_keys();
    let mut lines: Vec<String> = files.map(|file| format!("\"{file}\",")).collect();
    let structs = wide_structs(crates).into_keys();
    lines.extend(structs.map(|(file, name)| format!("(\"{file}\", \"{name}\"),")));
    lines
}

fn long_files(sources: &BTreeMap<PathBuf, String>) -> BTreeMap<String, usize> {
    let counted = sources
        .iter()
        .map(|(path, text)| (path.display().to_string(), text.lines().count()));
    counted.filter(|(_, lines)| *lines > LINES_MAX).collect()
}

fn wide_structs(crates: &[CrateCode]) -> BTreeMap<(String, String), usize> {
    let structs = crates.iter().flat_map(|code| &code.structs);
    structs
        .filter(|it| it.fields > FIELDS_MAX)
        .map(|it| ((it.file.display().to_string(), it.name.clone()), it.fields))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::super::code::tests::crate_of;
    use super::*;

    #[test]
    fn a_long_file_is_listed_or_a_problem() {
        let long = BTreeMap::from([(PathBuf::from("a.rs"), "\n".repeat(LINES_MAX + 1))]);
        assert_eq!(files_against(&[], &long).len(), 1);
        assert_eq!(files_against(&["a.rs"], &long), Vec::<String>::new());
        let short = BTreeMap::from([(PathBuf::from("a.rs"), "\n".repeat(LINES_MAX))]);
        assert_eq!(files_against(&["a.rs"], &short).len(), 1);
    }

    #[test]
    fn even_a_listed_file_has_an_end() {
        let text = "\n".repeat(LINES_MAX_OF_LISTED + 1);
        let endless = BTreeMap::from([(PathBuf::from("a.rs"), text)]);
        assert_eq!(files_against(&["a.rs"], &endless).len(), 1);
    }

    #[test]
    fn a_wide_struct_is_listed_or_a_problem() {
        let fields: String = (0..=FIELDS_MAX).map(|n| format!("f{n}: u8,")).collect();
        let code = [crate_of(&[(
            "lib.rs",
            &format!("struct Wide {{ {fields} }}"),
        )])];
        let listed = [("crates/a/src/lib.rs", "Wide")];
        assert_eq!(structs_against(&[], &code).len(), 1);
        assert_eq!(structs_against(&listed, &code), Vec::<String>::new());
        assert_eq!(structs_against(&listed, &[]).len(), 1);
    }
}
