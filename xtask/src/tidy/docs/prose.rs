//! Paragraphs and cells of tables stay short.

use std::path::Path;

use super::lines_outside_of_code;

/// A paragraph or an item of a list must have fewer words.
const PARAGRAPH_WORDS: usize = 100;

/// A cell of a table must have fewer words.
const CELL_WORDS: usize = 25;

/// Paragraphs and cells of a page that are too long.
pub(super) fn problems(path: &Path, text: &str) -> Vec<String> {
    let shown = path.display();
    let mut problems = Vec::new();
    for (line, words) in paragraphs(text) {
        if words >= PARAGRAPH_WORDS {
            problems.push(format!("{shown}:{line}: a paragraph of {words} words"));
        }
    }
    for (line, row) in lines_outside_of_code(text).filter(|(_, line)| is_row(line)) {
        let longest = row.replace("\\|", "").split('|').map(words).max();
        let longest = longest.unwrap_or_default();
        if longest >= CELL_WORDS {
            problems.push(format!(
                "{shown}:{line}: a cell of {longest} words; make it a list below the table"
            ));
        }
    }
    problems
}

/// First line and number of words of each paragraph and item.
fn paragraphs(text: &str) -> Vec<(usize, usize)> {
    let mut found: Vec<(usize, usize)> = Vec::new();
    let mut last_line = None;
    for (number, line) in lines_outside_of_code(text) {
        let starts = line.trim_start();
        let is_apart = starts.is_empty() || starts.starts_with('#') || is_row(line);
        if is_apart {
            last_line = None;
            continue;
        }
        let is_item = starts.starts_with("- ") || starts.starts_with(|it: char| it.is_numeric());
        match found.last_mut() {
            Some((_, count)) if last_line == Some(number - 1) && !is_item => *count += words(line),
            _ => found.push((number, words(line))),
        }
        last_line = Some(number);
    }
    found
}

fn is_row(line: &str) -> bool {
    line.trim_start().starts_with('|')
}

/// Words that have a letter or a digit; a link's address is none.
fn words(text: &str) -> usize {
    let mut shown = String::new();
    let mut rest = text;
    while let Some((before, after)) = rest.split_once("](") {
        shown += before;
        rest = after.split_once(')').map_or("", |(_, rest)| rest);
    }
    shown += rest;
    let words = shown.split_whitespace();
    words
        .filter(|word| word.contains(char::is_alphanumeric))
        .count()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn long_paragraphs_and_cells_are_found() {
        let long = "word ".repeat(PARAGRAPH_WORDS);
        let cell = "word ".repeat(CELL_WORDS);
        let path = Path::new("a.md");
        let count = |text: &str| problems(path, text).len();
        assert_eq!(count(&long), 1);
        assert_eq!(count(&format!("```\n{long}\n```\n")), 0);
        assert_eq!(count(&format!("| short | {cell} |\n")), 1);
        let half = "word ".repeat(PARAGRAPH_WORDS / 2);
        assert_eq!(count(&format!("{half}\n{half}\n")), 1);
        assert_eq!(count(&format!("{half}\n\n{half}\n")), 0);
        assert_eq!(count(&format!("- {half}\n- {half}\n")), 0);
    }

    #[test]
    fn the_address_of_a_link_is_no_word() {
        assert_eq!(words("see [the page](a/b.md#c) — now"), 4);
    }
}
