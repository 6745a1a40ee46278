//! Words that the code no longer uses, and doc comments too short to say anything.
//!
//! A name is looked at wherever it stands as an identifier: declared, imported, called or
//! bound. Comments and strings are not names, so English keeps its words there.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::str::FromStr;

use proc_macro2::{TokenStream, TokenTree};

use super::table;

/// Doc comments with fewer words than this say nothing that the name does not.
const DOC_WORDS_MIN: usize = 3;

/// Beginnings of doc comments without a noun as subject: they are questions, or lean on the line before.
const SUBJECTLESS: [&str; 5] = ["What ", "Who ", "Why ", "The same ", "Those "];

/// Returns retired names, words of a standard that stand where no standard has them, and doc
/// comments that are too short or have no subject.
pub(super) fn problems(sources: &BTreeMap<PathBuf, String>) -> Vec<String> {
    let mut problems = Vec::new();
    let mut is_met = vec![false; table::STANDARD_WORDS.len()];
    for (path, text) in sources {
        let Ok(tokens) = TokenStream::from_str(text) else {
            continue;
        };
        for (name, line) in names(tokens) {
            if let Some((retired, instead)) = retired(&name) {
                problems.push(format!(
                    "{}:{line}: `{name}`: `{retired}` is retired; say {instead}",
                    path.display()
                ));
            }
            for (word, instead) in table::RETIRED_PARTS {
                if !has_word(&name, word) {
                    continue;
                }
                match standard(path, &name, word) {
                    Some(row) => is_met[row] = true,
                    None => problems.push(format!(
                        "{}:{line}: `{name}`: `{word}` is retired; say {instead}",
                        path.display()
                    )),
                }
            }
        }
        problems.extend(poor_docs(path, text));
    }
    for ((place, name, _), is_met) in table::STANDARD_WORDS.iter().zip(is_met) {
        if !is_met {
            problems.push(format!("no `{name}` in {place}; strike it"));
        }
    }
    problems
}

/// The row of [`table::RETIRED_NAMES`] that is this very name.
fn retired(name: &str) -> Option<(&'static str, &'static str)> {
    let mut rows = table::RETIRED_NAMES.iter();
    rows.find(|(retired, _)| *retired == name).copied()
}

/// The row of [`table::STANDARD_WORDS`] that lets `name` have `word` in the file at `path`.
fn standard(path: &Path, name: &str, word: &str) -> Option<usize> {
    let path = path.to_string_lossy();
    let mut rows = table::STANDARD_WORDS.iter();
    rows.position(|(place, allowed, _)| {
        path.starts_with(place) && (*allowed == word || *allowed == name)
    })
}

/// Whether one of the words that make up `name` is `word` or its plural:
/// `next_sound`, `SoundCards`, `SOUNDS`.
fn has_word(name: &str, word: &str) -> bool {
    words(name).any(|it| it == word || it.strip_suffix('s') == Some(word))
}

/// The words of an identifier in snake or camel case, in lower case.
fn words(name: &str) -> impl Iterator<Item = String> {
    let mut words = vec![String::new()];
    let mut was_lower = false;
    for letter in name.chars() {
        let begins = letter.is_uppercase() && was_lower;
        if letter == '_' || begins {
            words.push(String::new());
        }
        was_lower = letter.is_lowercase() || letter.is_ascii_digit();
        if letter != '_'
            && let Some(last) = words.last_mut()
        {
            last.extend(letter.to_lowercase());
        }
    }
    words.into_iter().filter(|word| !word.is_empty())
}

/// Every identifier of a file with its line.
fn names(tokens: TokenStream) -> Vec<(String, usize)> {
    let mut names = Vec::new();
    let mut open = vec![tokens.into_iter()];
    while let Some(tokens) = open.last_mut() {
        match tokens.next() {
            None => {
                open.pop();
            }
            Some(TokenTree::Ident(name)) => {
                names.push((name.to_string(), name.span().start().line));
            }
            Some(TokenTree::Group(group)) => open.push(group.stream().into_iter()),
            Some(_) => {}
        }
    }
    names
}

/// Returns the doc comments of fewer than [`DOC_WORDS_MIN`] words, and those with a beginning of
/// [`SUBJECTLESS`]. A route, a term in code or a link to the item that is described may stand alone.
fn poor_docs(path: &Path, text: &str) -> Vec<String> {
    let mut problems = Vec::new();
    let mut lines = text.lines().enumerate().peekable();
    while let Some((index, line)) = lines.next() {
        let Some(doc) = line.trim_start().strip_prefix("///") else {
            continue;
        };
        let doc = doc.trim();
        let mut count = doc.split_whitespace().count();
        while let Some(more) = lines.next_if(|(_, line)| line.trim_start().starts_with("///")) {
            count += more.1.split_whitespace().count();
        }
        let place = format!("{}:{}", path.display(), index + 1);
        if count < DOC_WORDS_MIN && !doc.contains('`') {
            problems.push(format!(
                "{place}: `{doc}` says nothing; write a sentence that stands alone"
            ));
        }
        if SUBJECTLESS.iter().any(|it| doc.starts_with(it)) {
            problems.push(format!(
                "{place}: `{doc}` has no noun as subject; name the thing, as in \"The reason why …\""
            ));
        }
    }
    problems
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_taken_apart_into_words() {
        let of = |name| words(name).collect::<Vec<_>>();
        assert_eq!(of("next_sound_at"), ["next", "sound", "at"]);
        assert_eq!(
            of("PictureLossIndication"),
            ["picture", "loss", "indication"]
        );
        assert_eq!(of("SOUND_CARDS"), ["sound", "cards"]);
        assert!(has_word("read_sounds", "sound") && has_word("isSound", "sound"));
        assert!(!has_word("resounding", "sound"));
    }

    #[test]
    fn a_retired_word_is_refused_wherever_it_is_a_name() {
        let problems_of = |text: &str| {
            let path = PathBuf::from("crates/a/src/lib.rs");
            let all = problems(&BTreeMap::from([(path, text.to_owned())]));
            all.into_iter()
                .filter(|it| it.starts_with("crates/a"))
                .collect::<Vec<_>>()
        };
        assert_eq!(
            problems_of("fn f() {\n    let next_picture = 1;\n}"),
            ["crates/a/src/lib.rs:2: `next_picture`: `picture` is retired; say frame, or video"]
        );
        assert_eq!(
            problems_of("// A picture.\nfn f() { g(\"sound\") }"),
            [""; 0]
        );
        assert_eq!(
            problems_of("/// Theirs.\nstruct A;"),
            ["crates/a/src/lib.rs:1: `Theirs.` says nothing; write a sentence that stands alone"]
        );
        assert_eq!(
            problems_of("/// Why it ended.\nstruct A;"),
            [
                "crates/a/src/lib.rs:1: `Why it ended.` has no noun as subject; name the thing, as in \
              \"The reason why …\""
            ]
        );
        assert_eq!(
            problems_of("/// The reason.\n/// Why it ended.\nstruct A;"),
            [""; 0]
        );
        assert_eq!(problems_of("struct Burst;").len(), 1);
    }
}
