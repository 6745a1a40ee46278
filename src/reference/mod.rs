//! The generated parts of `docs/reference/`, compared with the program by tests.
//!
//! ```text
//! clap's definition of the command line ─► command_line  ─┐
//! the schema of the configuration       ─► configuration ─┼► docs/reference/*.md, between two marks
//! /metrics of a started server          ─► metrics       ─┤
//! the table of the fake camera in tests ─► cameras       ─┘
//! ```
//!
//! `dashboards` holds the queries of `contrib/` to the same answer of `/metrics`.
//!
//! `cargo xtask reference` renews the pages; the same tests without it compare.

mod cameras;
mod command_line;
mod configuration;
mod dashboards;
mod environment;
mod exit_codes;
mod metrics;

use std::path::{Path, PathBuf};

/// Line above the generated part of a page.
const BEGIN: &str =
    "<!-- Generated from the program: `cargo xtask reference` renews it. Do not edit. -->\n";

/// Line below the generated part of a page.
const END: &str = "<!-- End of the generated part. -->\n";

/// Environment variable by which `cargo xtask reference` has pages written, not compared.
const RENEW: &str = "GLASSLINE_RENEW_REFERENCE";

/// Compares the generated part of the page `name` with `wanted`, or writes it.
///
/// # Panics
/// The page differs from the program, has no marks, or cannot be read or written.
fn hold(name: &str, wanted: &str) {
    let path = page(name);
    let shown = path.display();
    let text = std::fs::read_to_string(&path).unwrap_or_else(|error| panic!("{shown}: {error}"));
    let renewed = replaced(&text, wanted)
        .unwrap_or_else(|| panic!("{shown}: the marks of the generated part are missing"));
    if std::env::var_os(RENEW).is_some() {
        std::fs::write(&path, renewed).unwrap_or_else(|error| panic!("{shown}: {error}"));
    } else if let Some(line) = first_difference(&text, &renewed) {
        panic!("{shown}: {line}\nThe page differs from the program: run `cargo xtask reference`.");
    }
}

fn page(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("docs/reference")
        .join(name)
}

/// `text` with `part` between its marks; `None` without marks.
fn replaced(text: &str, part: &str) -> Option<String> {
    let (head, rest) = text.split_once(BEGIN)?;
    let (_, tail) = rest.split_once(END)?;
    Some(format!("{head}{BEGIN}\n{}\n\n{END}{tail}", part.trim()))
}

/// The first line in which two texts differ, for people; `None` if they are equal.
fn first_difference(has: &str, wants: &str) -> Option<String> {
    if has == wants {
        return None;
    }
    let same = has.lines().zip(wants.lines()).take_while(|(a, b)| a == b);
    let index = same.count();
    let line = |text: &str| text.lines().nth(index).unwrap_or("(the end)").to_owned();
    let number = index + 1;
    Some(format!(
        "line {number}\n  page    {}\n  program {}",
        line(has),
        line(wants)
    ))
}

/// `text` as Markdown shows it: signs that Markdown would take for marks are escaped
/// outside of code.
fn markdown(text: &str) -> String {
    let mut out = String::new();
    for (index, piece) in text.split('`').enumerate() {
        let is_code = index % 2 == 1;
        if is_code {
            out += &format!("`{piece}`");
        } else {
            for letter in piece.chars() {
                if matches!(letter, '*' | '<' | '>' | '~' | '[' | ']' | '|') {
                    out.push('\\');
                }
                out.push(letter);
            }
        }
    }
    let words: Vec<&str> = out.split_whitespace().collect();
    words.join(" ")
}

#[test]
fn the_part_between_the_marks_is_replaced() {
    let page = format!("# Head\n\n{BEGIN}old\n{END}tail\n");
    let renewed = replaced(&page, "new\n").expect("both marks");
    assert_eq!(renewed, format!("# Head\n\n{BEGIN}\nnew\n\n{END}tail\n"));
    assert_eq!(replaced("no marks", "new"), None);
    assert_eq!(markdown("all `cam/*`, or '*'"), "all `cam/*`, or '\\*'");
    assert_eq!(first_difference("a\nb", "a\nb"), None);
    let told = first_difference("a\nb", "a\nc").expect("they differ");
    assert!(told.starts_with("line 2\n"), "{told}");
}
