//! Checks which module of a crate uses which.
//!
//! A room is a module with all its descendants that are no rooms themselves; the root of the
//! crate is the room `lib`.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use super::arrows::{Arrows, Table, as_table};
use super::code::CrateCode;
use super::table::{self, Row};

/// The room of the crate's root.
const ROOT: &str = "lib";

/// All differences between the code and the tables of rooms.
pub(super) fn problems(crates: &[CrateCode]) -> Vec<String> {
    let mut problems = Vec::new();
    for (name, rows) in table::ROOMS {
        let Some(code) = crates.iter().find(|code| code.name == *name) else {
            problems.push(format!("table of rooms: there is no crate `{name}`"));
            continue;
        };
        let against = table::ROOMS_AGAINST_THE_ORDER.iter();
        let against = against.filter(|(of, ..)| of == name);
        let against_the_order = against.map(|(_, from, to, _)| (*from, *to)).collect();
        problems.extend(problems_of(code, rows, against_the_order));
    }
    problems
}

/// The tables as the code is: rows, then the arrows against the order.
pub(super) fn as_tables(crates: &[CrateCode]) -> Vec<String> {
    let mut lines = Vec::new();
    let mut against = Vec::new();
    for (name, rows) in table::ROOMS {
        let Some(code) = crates.iter().find(|code| code.name == *name) else {
            continue;
        };
        let (present, found) = arrows(code, rows);
        let (rows, upwards) = as_table(&present, &found);
        lines.push(format!("(\"{name}\", &["));
        lines.extend(rows.iter().map(|row| format!("    {row}")));
        lines.push("]),".to_owned());
        against.extend(
            upwards
                .iter()
                .map(|(from, to)| format!("(\"{name}\", \"{from}\", \"{to}\", \"\"),")),
        );
    }
    lines.push("against the order:".to_owned());
    lines.extend(against);
    lines
}

fn problems_of(
    code: &CrateCode,
    rows: &[Row],
    against_the_order: Vec<(&'static str, &'static str)>,
) -> Vec<String> {
    let (present, found) = arrows(code, rows);
    let table = Table {
        of: format!("the rooms of `{}`", code.name),
        rows,
        against_the_order,
    };
    table.problems(&present, &found)
}

/// The rooms of a crate, and their arrows with the first place of each.
fn arrows(code: &CrateCode, rows: &[Row]) -> (BTreeSet<String>, Arrows) {
    let rooms: BTreeMap<&Path, &str> = code
        .files
        .iter()
        .map(|(file, module)| (file.as_path(), room(module, rows)))
        .collect();
    let mut found = Arrows::new();
    for it in &code.uses {
        let (from, to) = (rooms[it.from.as_path()], rooms[it.to.as_path()]);
        if from != to {
            found
                .entry((from.to_owned(), to.to_owned()))
                .or_insert_with(|| format!("{}:{} `{}`", it.from.display(), it.line, it.path));
        }
    }
    let mut present: BTreeSet<String> = rooms.into_values().map(str::to_owned).collect();
    // A root that only declares modules needs no row.
    let speaks = found.keys().any(|(from, to)| from == ROOT || to == ROOT);
    if !speaks {
        present.remove(ROOT);
    }
    (present, found)
}

/// The longest row that `module` stands in; its topmost module if there is none.
fn room<'names>(module: &'names str, rows: &[Row]) -> &'names str {
    let ends = module.match_indices('/').map(|(end, _)| end);
    let prefixes: Vec<&str> = ends
        .chain([module.len()])
        .map(|end| &module[..end])
        .collect();
    let listed = |prefix: &&&str| rows.iter().any(|row| row.0 == **prefix);
    match prefixes.iter().rev().find(listed).or(prefixes.first()) {
        Some(&"") | None => ROOT,
        Some(room) => room,
    }
}

#[cfg(test)]
mod tests {
    use super::super::code::tests::crate_of;
    use super::*;

    const LIB: (&str, &str) = ("lib.rs", "mod ingest;\nmod egress;");
    const ROWS: [Row; 2] = [("egress", &[]), ("ingest", &[])];

    #[test]
    fn an_arrow_without_a_row_is_a_problem() {
        let egress = ("egress/mod.rs", "pub(crate) fn whep() {}");
        let knows = crate_of(&[LIB, egress, ("ingest.rs", "use crate::egress::whep;")]);
        let table = problems_of(&knows, &ROWS, Vec::new());
        assert_eq!(table.len(), 1, "{table:?}");
        assert!(
            table[0].starts_with("crates/a/src/ingest.rs:1 `crate::egress::whep`: `ingest` must"),
            "{table:?}"
        );
        let apart = crate_of(&[LIB, egress, ("ingest.rs", "use glassline_hub::Hub;")]);
        assert_eq!(problems_of(&apart, &ROWS, Vec::new()), Vec::<String>::new());
    }

    #[test]
    fn a_room_within_a_room_has_a_row_of_its_own() {
        const NESTED: [Row; 2] = [("egress", &[]), ("egress/moq", &[])];
        assert_eq!(room("egress/moq/reader", &NESTED), "egress/moq");
        assert_eq!(room("egress/rtsp", &NESTED), "egress");
        assert_eq!(room("ingest/file", &NESTED), "ingest");
        assert_eq!(room("", &NESTED), ROOT);
    }
}
