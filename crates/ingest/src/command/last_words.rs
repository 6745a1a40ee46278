//! What a program says on its standard error, of which the end is kept.

use std::collections::VecDeque;
use std::io::Read as _;

use mio::unix::pipe::Receiver;

use crate::spec::without_secrets;

/// Bytes that are kept.
const KEPT_BYTES: usize = 2 << 10;

/// Bytes that are read at once, and most reads in a row: a program that says much must not keep its
/// media waiting.
const READ_BYTES: usize = 4 << 10;
const READS_MAX: usize = 16;

/// Most lines, and characters of them, in a reason.
const LINES_MAX: usize = 3;
const CHARS_MAX: usize = 400;

/// The end of what a program said.
#[derive(Debug)]
pub(super) struct LastWords {
    pipe: Receiver,
    kept: VecDeque<u8>,
}

impl LastWords {
    pub(super) const fn new(pipe: Receiver) -> Self {
        Self {
            pipe,
            kept: VecDeque::new(),
        }
    }

    pub(super) const fn pipe_mut(&mut self) -> &mut Receiver {
        &mut self.pipe
    }

    /// Reads what has been said, without waiting.
    pub(super) fn read(&mut self) {
        let mut buffer = [0; READ_BYTES];
        for _ in 0..READS_MAX {
            match self.pipe.read(&mut buffer) {
                Ok(count @ 1..) => self.keep(&buffer[..count]),
                _ => return,
            }
        }
    }

    fn keep(&mut self, bytes: &[u8]) {
        self.kept.extend(bytes);
        let surplus = self.kept.len().saturating_sub(KEPT_BYTES);
        self.kept.drain(..surplus);
    }

    /// Returns the last lines for people, without control characters and secrets; `None` if the program
    /// said nothing.
    pub(super) fn lines(&self) -> Option<String> {
        let bytes: Vec<u8> = self.kept.iter().copied().collect();
        last_lines(&String::from_utf8_lossy(&bytes))
    }
}

fn last_lines(text: &str) -> Option<String> {
    let lines = text.lines().map(str::trim).filter(|line| !line.is_empty());
    let mut lines: Vec<_> = lines.rev().take(LINES_MAX).collect();
    lines.reverse();
    let joined: String = lines.join("; ");
    let plain: String = joined.chars().filter(|it| !it.is_control()).collect();
    let shown = without_secrets(&plain);
    let surplus = shown.chars().count().saturating_sub(CHARS_MAX);
    let end: String = shown.chars().skip(surplus).collect();
    (!end.is_empty()).then_some(end)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_lines_are_shown_on_one_and_without_passwords() {
        let said = "a\nb\r\n\n\x1b[31mc\nrtsp://u:hunter2@h/x: Connection refused\n";
        let shown = last_lines(said).expect("it spoke");
        assert_eq!(shown, "b; [31mc; rtsp://u:…@h/x: Connection refused");
        assert_eq!(last_lines(" \n"), None);
        let long = last_lines(&"é".repeat(5000)).expect("it spoke");
        assert_eq!(long.chars().count(), CHARS_MAX);
    }

    #[test]
    fn the_end_is_kept_within_bounds() {
        let (_writer, pipe) = mio::unix::pipe::new().expect("a pipe");
        let mut words = LastWords::new(pipe);
        for _ in 0..100 {
            words.keep(&[b'x'; 1000]);
        }
        words.keep(b"\nthe end\n");
        assert!(words.kept.len() <= KEPT_BYTES);
        assert!(words.lines().expect("it spoke").ends_with("; the end"));
    }
}
