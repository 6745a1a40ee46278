//! A command line as people write it, split without a shell.

/// The reason why a command line cannot be split.
#[derive(Clone, Copy, Debug, PartialEq, Eq, derive_more::Display)]
pub(super) enum Unfinished {
    /// A quotation mark has no counterpart.
    #[display("a {_0} is not closed")]
    Quote(char),
    /// Nothing follows a backslash.
    #[display("nothing follows the last \\")]
    Backslash,
}

/// Splits a command line at spaces. Within `'…'` everything stands for itself; within `"…"` and outside
/// of quotes a backslash takes the meaning of the next character. Nothing else is special: no variable,
/// pattern, pipe or redirection is.
pub(super) fn split(text: &str) -> Result<Vec<String>, Unfinished> {
    let mut arguments = Vec::new();
    // The argument that has begun, if one has; it may be empty within quotes.
    let mut argument: Option<String> = None;
    let mut quote = None;
    let mut characters = text.chars();
    while let Some(character) = characters.next() {
        match (quote, character) {
            (Some(end), _) if character == end => quote = None,
            (None, '\'' | '"') => {
                quote = Some(character);
                argument.get_or_insert_default();
            }
            (None | Some('"'), '\\') => {
                let meant = characters.next().ok_or(Unfinished::Backslash)?;
                argument.get_or_insert_default().push(meant);
            }
            (None, _) if character.is_whitespace() => arguments.extend(argument.take()),
            _ => argument.get_or_insert_default().push(character),
        }
    }
    match quote {
        Some(quote) => Err(Unfinished::Quote(quote)),
        None => {
            arguments.extend(argument);
            Ok(arguments)
        }
    }
}

/// Writes an argument so that [`split`] reads it.
pub(super) fn quoted(argument: &str) -> String {
    let is_plain = |c: char| !c.is_whitespace() && !matches!(c, '\'' | '"' | '\\');
    if !argument.is_empty() && argument.chars().all(is_plain) {
        return argument.to_owned();
    }
    format!("'{}'", argument.replace('\'', r"'\''"))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn quotes_and_backslashes_mean_what_they_mean_in_a_shell_and_nothing_else_means_anything() {
        for (text, wanted) in [
            ("", &[][..]),
            ("  a\tb  ", &["a", "b"]),
            (r#"a 'b c' "d e" f\ g"#, &["a", "b c", "d e", "f g"]),
            (r#"'' "" x''y"#, &["", "", "xy"]),
            (r#"'\' "\"" \'"#, &[r"\", "\"", "'"]),
            (
                "$HOME `id` *.ts a|b >c ;",
                &["$HOME", "`id`", "*.ts", "a|b", ">c", ";"],
            ),
        ] {
            assert_eq!(
                split(text).as_deref(),
                Ok(wanted_of(wanted).as_slice()),
                "{text}"
            );
        }
        assert_eq!(split("a 'b"), Err(Unfinished::Quote('\'')));
        assert_eq!(split("a \"b\\\""), Err(Unfinished::Quote('"')));
        assert_eq!(split("a\\"), Err(Unfinished::Backslash));
    }

    fn wanted_of(wanted: &[&str]) -> Vec<String> {
        wanted.iter().map(|it| (*it).to_owned()).collect()
    }

    proptest! {
        #[test]
        fn what_is_quoted_is_read_as_it_was(arguments in prop::collection::vec(".{0,12}", 0..6)) {
            let line: Vec<_> = arguments.iter().map(|it| quoted(it)).collect();
            prop_assert_eq!(split(&line.join(" ")), Ok(arguments));
        }

        #[test]
        fn any_text_is_split_or_refused(text in r#"[a ''\\"]{0,30}"#) {
            if let Ok(arguments) = split(&text) {
                prop_assert!(arguments.iter().map(String::len).sum::<usize>() <= text.len());
            }
        }
    }
}
