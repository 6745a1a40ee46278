//! Lists of `key=value` and `key="value"` pairs (RFC 7235 §2.1).

use std::fmt;

/// The parameters of one challenge or of one `Authorization`, with keys in lower case.
#[derive(Clone, Debug, Default)]
pub(super) struct Parameters {
    pairs: Vec<(String, String)>,
}

/// Most parameters that are read of one list; no scheme has as many.
const PAIRS_MAX: usize = 32;

impl Parameters {
    pub(super) fn parse(text: &str) -> Self {
        let mut challenges = split_challenges(text);
        challenges
            .next()
            .map(|(_, parameters)| parameters)
            .unwrap_or_default()
    }

    /// Returns the value of `key`, without its quotes.
    pub(super) fn get(&self, key: &str) -> Option<String> {
        let pair = self.pairs.iter().find(|(name, _)| name == key);
        pair.map(|(_, value)| value.clone())
    }

    fn push(&mut self, key: &str, value: String) {
        if self.pairs.len() < PAIRS_MAX {
            self.pairs.push((key.to_ascii_lowercase(), value));
        }
    }
}

/// Splits one header field into its challenges: the scheme and the parameters of each.
///
/// A list without a scheme has an empty one.
pub(super) fn split_challenges(text: &str) -> impl Iterator<Item = (String, Parameters)> {
    let mut challenges: Vec<(String, Parameters)> = Vec::new();
    for part in split_unquoted(text) {
        let part = part.trim();
        let key_end = part.find('=').unwrap_or(part.len());
        // In `Digest realm="x"` the scheme stands before the first key of its list.
        let (scheme, pair) = match part[..key_end].trim_end().rsplit_once([' ', '\t']) {
            Some((scheme, _)) => (scheme.trim(), part[scheme.len()..].trim_start()),
            None if key_end == part.len() => (part, ""),
            None => ("", part),
        };
        if !scheme.is_empty() || challenges.is_empty() {
            challenges.push((scheme.to_owned(), Parameters::default()));
        }
        if let (Some((_, parameters)), Some((key, value))) =
            (challenges.last_mut(), pair.split_once('='))
        {
            parameters.push(key.trim(), unquote(value.trim()));
        }
    }
    challenges.into_iter()
}

/// Splits `text` at commas outside of quotes, and drops empty parts.
fn split_unquoted(text: &str) -> Vec<&str> {
    let mut parts = Vec::new();
    let (mut start, mut quoted, mut escaped) = (0, false, false);
    for (at, byte) in text.bytes().enumerate() {
        match byte {
            _ if escaped => escaped = false,
            b'\\' if quoted => escaped = true,
            b'"' => quoted = !quoted,
            b',' if !quoted => {
                parts.push(&text[start..at]);
                start = at + 1;
            }
            _ => {}
        }
    }
    parts.push(&text[start..]);
    parts.retain(|part| !part.trim().is_empty());
    parts
}

fn unquote(text: &str) -> String {
    let Some(inner) = text.strip_prefix('"') else {
        return text.to_owned();
    };
    // Some servers leave the closing quote out.
    let inner = inner.strip_suffix('"').unwrap_or(inner);
    let mut plain = String::with_capacity(inner.len());
    let mut characters = inner.chars();
    while let Some(character) = characters.next() {
        plain.push(match character {
            '\\' => characters.next().unwrap_or('\\'),
            other => other,
        });
    }
    plain
}

/// Writes a string in quotes (RFC 7230 §3.2.6); control characters become spaces.
pub(super) struct Quoted<'a>(pub(super) &'a str);

impl fmt::Display for Quoted<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("\"")?;
        for character in self.0.chars() {
            match character {
                '"' | '\\' => write!(f, "\\{character}")?,
                control if control.is_control() => f.write_str(" ")?,
                other => write!(f, "{other}")?,
            }
        }
        f.write_str("\"")
    }
}
