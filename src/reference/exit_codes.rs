//! Exit codes: each exit code of the program has a row on the page, and no other row exists.

use std::collections::BTreeSet;

use crate::exit::{INTERRUPTED, THRESHOLD_MISSED};

#[test]
fn the_page_of_exit_codes_agrees() {
    let path = super::page("exit-codes.md");
    let text = std::fs::read_to_string(&path).expect("the page");
    let cells = text.lines().filter_map(|line| line.strip_prefix("| `"));
    let codes: BTreeSet<u8> = cells
        .filter_map(|rest| rest.split_once('`')?.0.parse().ok())
        .collect();
    let known = BTreeSet::from([0, 1, 2, THRESHOLD_MISSED, INTERRUPTED]);
    assert_eq!(codes, known, "{}", path.display());
}
