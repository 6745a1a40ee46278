use super::error::{Error, Reason};
use super::limits::{BYTES_MAX, LINES_MAX};

/// One `x=value` line of a description.
#[derive(Clone, Copy, Debug)]
pub(super) struct Line<'a> {
    /// Number of the line, from 1.
    pub(super) number: usize,
    pub(super) kind: char,
    pub(super) value: &'a str,
}

/// Splits a text into lines that end with LF or CRLF. Empty lines are allowed only at the end.
pub(super) fn lines(text: &str) -> Result<Vec<Line<'_>>, Error> {
    if text.len() > BYTES_MAX {
        let kept = text.as_bytes().get(..BYTES_MAX).unwrap_or_default();
        let line = 1 + kept.iter().filter(|&&byte| byte == b'\n').count();
        return Err(Error::at(line, Reason::TooLarge));
    }
    let mut found = Vec::new();
    for (index, raw) in text.trim_end_matches(['\r', '\n']).split('\n').enumerate() {
        let number = index + 1;
        if number > LINES_MAX {
            return Err(Error::at(number, Reason::TooManyLines));
        }
        let line = raw.strip_suffix('\r').unwrap_or(raw);
        found.push(cut(number, line).map_err(|reason| Error::at(number, reason))?);
    }
    Ok(found)
}

fn cut(number: usize, line: &str) -> Result<Line<'_>, Reason> {
    let mut chars = line.chars();
    let kind = chars.next().ok_or(Reason::NotALine)?;
    let value = chars.as_str().strip_prefix('=').ok_or(Reason::NotALine)?;
    if !kind.is_ascii_lowercase() {
        return Err(Reason::NotALine);
    }
    if value
        .bytes()
        .any(|byte| (byte < b' ' && byte != b'\t') || byte == 0x7f)
    {
        return Err(Reason::ControlCharacter);
    }
    Ok(Line {
        number,
        kind,
        value,
    })
}
