//! Compares arrows between crates or rooms with those that a table allows.

use std::collections::{BTreeMap, BTreeSet};

use super::graph;
use super::table::Row;

/// Arrows as pairs of names, with the first place that shows each.
pub(super) type Arrows = BTreeMap<(String, String), String>;

/// A table of arrows.
///
/// The table is exact: it holds each arrow that the code has and no other, so that no rule
/// outlives its purpose. Its rows are ordered from the bottom up, and an arrow leads to a row
/// above its own.
pub(super) struct Table<'table> {
    /// Subject of the table in messages: "the crates", "`server`".
    pub(super) of: String,
    pub(super) rows: &'table [Row],
    /// Arrows to a lower row, which close a circle.
    pub(super) against_the_order: Vec<(&'static str, &'static str)>,
}

impl Table<'_> {
    /// All differences between the table and the arrows in `found`, among the names in `present`.
    pub(super) fn problems(&self, present: &BTreeSet<String>, found: &Arrows) -> Vec<String> {
        let of = &self.of;
        let mut problems = Vec::new();
        let rows: BTreeMap<&str, usize> = (0..).zip(self.rows).map(|(n, row)| (row.0, n)).collect();
        for name in present {
            if !rows.contains_key(name.as_str()) {
                problems.push(format!("`{name}` has no row in the table of {of}"));
            }
        }
        for ((from, to), place) in found {
            let row = rows.get(from.as_str()).map(|row| self.rows[*row].1);
            if row.is_some_and(|allowed| !allowed.contains(&to.as_str())) {
                problems.push(format!(
                    "{place}: `{from}` must not know `{to}` (table of {of})"
                ));
            }
        }
        for (name, allowed) in self.rows {
            if !present.contains(*name) {
                problems.push(format!("table of {of}: there is no `{name}`"));
            }
            for to in *allowed {
                if !found.contains_key(&((*name).to_owned(), (*to).to_owned())) {
                    problems.push(format!(
                        "table of {of}: `{name}` does not know `{to}`; strike it"
                    ));
                }
                let goes_up = rows.get(to) > rows.get(name);
                let may = self.against_the_order.contains(&(name, to));
                match (goes_up, may) {
                    (true, false) => problems.push(format!(
                        "table of {of}: `{name}` stands above `{to}`, which it knows: move a row, or break the circle"
                    )),
                    (false, true) => problems.push(format!(
                        "table of {of}: `{name}` → `{to}` is not against the order any more; strike it"
                    )),
                    _ => {}
                }
            }
        }
        for (from, to) in &self.against_the_order {
            if !self
                .rows
                .iter()
                .any(|row| row.0 == *from && row.1.contains(to))
            {
                problems.push(format!(
                    "table of {of}: no arrow `{from}` → `{to}`, listed as against the order"
                ));
            }
        }
        problems
    }
}

/// The table as the code is: its rows, and then the arrows that lead to a lower row.
pub(super) fn as_table(
    present: &BTreeSet<String>,
    found: &Arrows,
) -> (Vec<String>, Vec<(String, String)>) {
    let arrows = found.keys().map(|(from, to)| (from.as_str(), to.as_str()));
    let mut graph = graph::graph(arrows);
    for name in present {
        graph.entry(name.clone()).or_default();
    }
    let order: Vec<String> = graph::floors(&graph).into_iter().flatten().collect();
    let rows = order.iter().map(|name| {
        let known: Vec<String> = graph[name].iter().map(|to| format!("\"{to}\"")).collect();
        format!("(\"{name}\", &[{}]),", known.join(", "))
    });
    let place = |name: &str| order.iter().position(|it| it == name);
    let upwards = found.keys().filter(|(from, to)| place(to) > place(from));
    (rows.collect(), upwards.cloned().collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    const ROWS: [Row; 3] = [("a", &[]), ("b", &["a"]), ("c", &["a", "b"])];

    fn problems(arrows: &[(&str, &str)], against: &[(&'static str, &'static str)]) -> Vec<String> {
        let found = arrows
            .iter()
            .map(|(from, to)| (((*from).to_owned(), (*to).to_owned()), "x.rs:1".to_owned()))
            .collect();
        let present = ["a", "b", "c"].map(str::to_owned).into();
        let table = Table {
            of: "`toy`".to_owned(),
            rows: &ROWS,
            against_the_order: against.to_vec(),
        };
        table.problems(&present, &found)
    }

    #[test]
    fn a_table_that_is_the_code_has_no_problems() {
        let all = problems(&[("b", "a"), ("c", "a"), ("c", "b")], &[]);
        assert_eq!(all, Vec::<String>::new());
    }

    #[test]
    fn an_arrow_that_the_table_lacks_is_named_with_its_place() {
        let all = problems(&[("b", "a"), ("c", "a"), ("c", "b"), ("a", "c")], &[]);
        assert_eq!(all, ["x.rs:1: `a` must not know `c` (table of `toy`)"]);
    }

    #[test]
    fn an_entry_that_nobody_uses_is_a_problem() {
        let all = problems(&[("b", "a"), ("c", "b")], &[("b", "c")]);
        assert_eq!(all.len(), 2, "{all:?}");
        assert!(all[0].contains("`c` does not know `a`"), "{all:?}");
        assert!(all[1].contains("no arrow `b` → `c`"), "{all:?}");
    }

    #[test]
    fn an_arrow_to_a_lower_row_needs_its_reason() {
        const UP: [Row; 2] = [("a", &["b"]), ("b", &[])];
        let found = Arrows::from([(("a".to_owned(), "b".to_owned()), "x.rs:1".to_owned())]);
        let present = ["a", "b"].map(str::to_owned).into();
        let table = |against_the_order| Table {
            of: "`toy`".to_owned(),
            rows: &UP,
            against_the_order,
        };
        assert_eq!(table(vec![]).problems(&present, &found).len(), 1);
        assert_eq!(table(vec![("a", "b")]).problems(&present, &found).len(), 0);
    }

    #[test]
    fn what_is_printed_stands_from_the_ground_floor_up() {
        let found = [("c", "b"), ("b", "a")]
            .map(|(from, to)| ((from.to_owned(), to.to_owned()), String::new()))
            .into();
        let (rows, upwards) = as_table(&BTreeSet::new(), &found);
        assert_eq!(
            rows,
            ["(\"a\", &[]),", "(\"b\", &[\"a\"]),", "(\"c\", &[\"b\"]),"]
        );
        assert_eq!(upwards, []);
    }
}
