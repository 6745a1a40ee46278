//! Output to stdout: what the user asked for.
//!
//! Servers, cameras and peers have a part in most of it. Whatever they say reaches the terminal as text:
//! each character that would move the cursor, or change how the text around it is shown, is escaped as
//! in the log.

use std::io::{ErrorKind, Write as _};
use std::path::Path;

use glassline_runtime::escaped_json;
use serde::Serialize;

use crate::exit::Failure;
use crate::logging;

/// Control sequences of the tables: they change the look of letters, and hide none (ECMA-48 8.3.117).
const STYLES: [&str; 9] = [
    "\x1b[0m",
    "\x1b[1m",
    "\x1b[2m",
    "\x1b[31m",
    "\x1b[31;1m",
    "\x1b[32m",
    "\x1b[33m",
    "\x1b[34m",
    "\x1b[36m",
];

/// Puts the cursor of a terminal into its first line, and empties the rest.
const CLEAR: &str = "\x1b[H\x1b[J";

/// Prints `text` and flushes it. A reader that closed its end early, like `head`, is no error.
pub(crate) fn print(text: &str) -> Result<(), Failure> {
    write(&logging::escaped_lines(text))
}

/// Prints text like [`print`], with the styles of a table.
pub(crate) fn print_styled(text: &str) -> Result<(), Failure> {
    write(&styled(text))
}

/// Writes a new file that only its owner may read; returns when it is on disk.
pub(crate) fn write_for_owner(path: &Path, bytes: &[u8]) -> std::io::Result<()> {
    let mut options = std::fs::OpenOptions::new();
    options.write(true).create(true).truncate(true);
    #[cfg(unix)]
    std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
    let mut file = options.open(path)?;
    file.write_all(bytes)?;
    file.sync_all()
}

/// Empties the terminal.
pub(crate) fn clear() -> Result<(), Failure> {
    write(CLEAR)
}

/// Returns `value` as JSON in lines, which says the same when it is printed.
pub(crate) fn json(value: &impl Serialize) -> String {
    let text = serde_json::to_string_pretty(value).expect("plain data");
    escaped_json(&text).into_owned() + "\n"
}

/// Returns `text` with everything escaped but the styles of a table.
pub(crate) fn styled(text: &str) -> String {
    let mut shown = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(at) = rest.find('\x1b') {
        shown += &logging::escaped_lines(&rest[..at]);
        rest = &rest[at..];
        let style = STYLES.into_iter().find(|style| rest.starts_with(style));
        match style {
            Some(style) => shown += style,
            None => shown += &logging::escaped_lines(&rest[..1]),
        }
        rest = &rest[style.map_or(1, str::len)..];
    }
    shown + &logging::escaped_lines(rest)
}

fn write(text: &str) -> Result<(), Failure> {
    let mut out = std::io::stdout().lock();
    match out.write_all(text.as_bytes()).and_then(|()| out.flush()) {
        Err(error) if error.kind() != ErrorKind::BrokenPipe => {
            Err(Failure::runtime(format_args!("stdout: {error}")))
        }
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    /// A name that empties a terminal, hides what follows, and turns it around.
    const NAME: &str = "cam\x1b[2J\x1b[8m\u{9b}1A\r\u{202e}x";

    #[test]
    fn what_strangers_say_does_not_reach_the_terminal_as_control_characters() {
        let escaped = "cam\\u{1b}[2J\\u{1b}[8m\\u{9b}1A\\r\\u{202e}x";
        assert_eq!(
            styled(&format!("\x1b[31;1m✗\x1b[0m\t{NAME}\n\x1b")),
            format!("\x1b[31;1m✗\x1b[0m\t{escaped}\n\\u{{1b}}")
        );
        assert_eq!(logging::escaped_lines(NAME), escaped);
        assert_eq!(Failure::runtime(NAME).to_string(), escaped);
    }

    #[test]
    fn json_says_the_same_when_it_is_printed() {
        let value = json!({ "name": NAME });
        let text = json(&value);
        assert_eq!(logging::escaped_lines(&text), text);
        assert_eq!(
            serde_json::from_str::<serde_json::Value>(&text).expect("JSON"),
            value
        );
    }
}
