//! The fields of a line, each of a bounded length.

use std::fmt::{self, Debug, Write};

use glassline_runtime::is_deceptive;
use tracing::field::Field;
use tracing_subscriber::field::MakeExt as _;
use tracing_subscriber::fmt::FormatFields;
use tracing_subscriber::fmt::format::{Writer, debug_fn};

/// Most characters of one field. Names and paths that strangers send can have 60 kB.
const CHARS_MAX: usize = 300;

/// Returns the format `message name=value …`, with fields that are too long cut off, and characters
/// in them escaped that would change how the line is shown.
pub(super) fn shortened() -> impl for<'writer> FormatFields<'writer> + 'static {
    let write = |writer: &mut Writer<'_>, field: &Field, value: &dyn Debug| {
        if field.name() != "message" {
            write!(writer, "{}=", field.name().trim_start_matches("r#"))?;
        }
        write!(writer, "{}", Shortened(value))
    };
    debug_fn(write).delimited(" ")
}

/// Returns `text` with the characters escaped that would change how it is shown, but for the ends of
/// lines and tabs.
pub(crate) fn escaped_lines(text: &str) -> String {
    let mut escaped = String::with_capacity(text.len());
    for character in text.chars() {
        if is_deceptive(character) && !matches!(character, '\n' | '\t') {
            escaped.extend(character.escape_default());
        } else {
            escaped.push(character);
        }
    }
    escaped
}

/// Returns `value` as [`Debug`] writes it, cut off after [`CHARS_MAX`] characters.
pub(super) fn shorten(value: &dyn Debug) -> String {
    Shortened(value).to_string()
}

/// Returns `text`, cut off after [`CHARS_MAX`] characters, for a format that escapes text itself.
pub(super) fn shortened_text(text: &str) -> String {
    match text.char_indices().nth(CHARS_MAX) {
        None => text.to_owned(),
        Some((end, _)) => {
            let cut = text[end..].chars().count();
            format!("{}… ({cut} characters more)", &text[..end])
        }
    }
}

/// A value that is written with [`CHARS_MAX`] characters at most.
struct Shortened<'a>(&'a dyn Debug);

impl fmt::Display for Shortened<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut room = Room {
            inner: f,
            left: CHARS_MAX,
            cut: 0,
        };
        write!(room, "{:?}", self.0)?;
        match room.cut {
            0 => Ok(()),
            cut => write!(f, "… ({cut} characters more)"),
        }
    }
}

/// Passes on characters while there is room, and counts the others.
struct Room<'a, 'b> {
    inner: &'a mut fmt::Formatter<'b>,
    left: usize,
    cut: usize,
}

impl Write for Room<'_, '_> {
    fn write_str(&mut self, text: &str) -> fmt::Result {
        for character in text.chars() {
            if self.left == 0 {
                self.cut += 1;
                continue;
            }
            self.left -= 1;
            if is_deceptive(character) {
                write!(self.inner, "{}", character.escape_default())?;
            } else {
                self.inner.write_char(character)?;
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn characters_that_turn_or_hide_text_are_escaped() {
        let name = "h/\u{202e}evil\u{2066}\u{200b}\u{2028}\u{e0041}\u{9b}";
        let text = Shortened(&format_args!("{name}")).to_string();
        let escaped = "h/\\u{202e}evil\\u{2066}\\u{200b}\\u{2028}\\u{e0041}\\u{9b}";
        assert_eq!(text, escaped);
        assert_eq!(
            escaped_lines(&format!("a\n\tb{name}")),
            format!("a\n\tb{escaped}")
        );
    }

    #[test]
    fn long_values_are_cut_and_control_characters_escaped() {
        let text = format!("{}", Shortened(&format_args!("a\nb\u{1b}[31m")));
        assert_eq!(text, "a\\nb\\u{1b}[31m");
        let path = "é".repeat(60_000);
        let text = Shortened(&format_args!("{path}")).to_string();
        assert!(text.ends_with("é… (59700 characters more)"), "{text}");
        assert_eq!(Shortened(&"cam").to_string(), "\"cam\"");
    }
}
