//! Names of streams, nodes and regions, and how they are written into keys.
//!
//! NATS divides subjects at dots and its key-value store takes only `[-/_=.a-zA-Z0-9]`
//! (ADR-8, "JetStream based Key-Value Stores"). Names may hold anything else, so every byte
//! outside `[-/_a-zA-Z0-9]` is written as `=XX`, in upper-case hexadecimal: `a.b~c` becomes
//! `a=2Eb=7Ec`. Each name has exactly one encoding, and [`decode`] refuses every other.

use std::fmt;
use std::sync::Arc;

use serde::{Deserialize, Serialize};
use thiserror::Error;

/// Longest name in bytes, before encoding. An encoded name has at most three times as many.
pub const NAME_BYTES_MAX: usize = 255;

/// Reasons why a text is no name or no encoding of a name.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum NameError {
    /// A name has at least one byte.
    #[error("the name is empty; give it a letter or a digit")]
    Empty,
    /// A name has at most [`NAME_BYTES_MAX`] bytes.
    #[error("the name has {0} bytes; at most {NAME_BYTES_MAX} are allowed")]
    TooLong(usize),
    /// The encoded text has a byte that no encoding has, or an escape that is not canonical.
    #[error("byte {at} of the key is no part of an encoded name")]
    Encoding {
        /// Offset of the byte from the start of the encoded text.
        at: usize,
    },
    /// The decoded bytes are no UTF-8.
    #[error("the key decodes to a name that is no UTF-8")]
    NotText,
    /// The key has another form than `s.NAME` and `n.REGION.NODE`.
    #[error("the key is neither s.NAME nor n.REGION.NODE")]
    NoKey,
}

macro_rules! name {
    ($(#[$doc:meta])* $type:ident) => {
        $(#[$doc])*
        #[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
        #[serde(try_from = "String", into = "String")]
        pub struct $type(Arc<str>);

        impl $type {
            /// Takes `name` if it has 1 to [`NAME_BYTES_MAX`] bytes.
            ///
            /// # Errors
            /// Returns [`NameError`] if the name is empty or too long.
            pub fn new(name: &str) -> Result<Self, NameError> {
                match name.len() {
                    0 => Err(NameError::Empty),
                    len if len > NAME_BYTES_MAX => Err(NameError::TooLong(len)),
                    _ => Ok(Self(name.into())),
                }
            }

            /// Returns the name as it was given.
            pub fn as_str(&self) -> &str {
                &self.0
            }
        }

        impl TryFrom<String> for $type {
            type Error = NameError;

            fn try_from(name: String) -> Result<Self, NameError> {
                Self::new(&name)
            }
        }

        impl From<$type> for String {
            fn from(name: $type) -> Self {
                name.0.as_ref().to_owned()
            }
        }

        impl fmt::Display for $type {
            fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
                formatter.write_str(&self.0)
            }
        }

        impl fmt::Debug for $type {
            fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
                write!(formatter, "{:?}", &*self.0)
            }
        }
    };
}

name! {
    /// Name of a stream or of a room, as viewers know it. Cloning is cheap.
    StreamName
}
name! {
    /// Name of a node, unique within the cluster and stable over restarts. Cloning is cheap.
    NodeId
}
name! {
    /// Name of a region: nodes within one region hear each other's beats. Cloning is cheap.
    Region
}

/// Key of a record in the store.
///
/// [`fmt::Display`] writes the key as the store has it, `s.NAME` or `n.REGION.NODE` with each
/// name encoded; [`Key::parse`] is its inverse.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Key {
    /// Record of a stream or room: who has it.
    Stream(StreamName),
    /// Record of a node: where it is reached.
    Node(Region, NodeId),
}

impl Key {
    /// Parses a key as the store has it.
    ///
    /// # Errors
    /// Returns [`NameError`] if the text has another form or a name is not encoded canonically.
    pub fn parse(text: &str) -> Result<Self, NameError> {
        if let Some(name) = text.strip_prefix("s.") {
            return Ok(Self::Stream(StreamName::new(&decode(name)?)?));
        }
        let rest = text.strip_prefix("n.").ok_or(NameError::NoKey)?;
        let (region, node) = rest.split_once('.').ok_or(NameError::NoKey)?;
        let region = Region::new(&decode(region)?)?;
        Ok(Self::Node(region, NodeId::new(&decode(node)?)?))
    }
}

impl fmt::Display for Key {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Stream(name) => write!(formatter, "s.{}", encode(name.as_str())),
            Self::Node(region, node) => {
                let (region, node) = (encode(region.as_str()), encode(node.as_str()));
                write!(formatter, "n.{region}.{node}")
            }
        }
    }
}

/// Encodes a name for use as one token of a key or of a NATS subject.
pub fn encode(name: &str) -> String {
    const DIGITS: &[u8; 16] = b"0123456789ABCDEF";
    let mut out = String::with_capacity(name.len());
    for byte in name.bytes() {
        if is_plain(byte) {
            out.push(char::from(byte));
        } else {
            out.push('=');
            out.push(char::from(DIGITS[usize::from(byte >> 4)]));
            out.push(char::from(DIGITS[usize::from(byte & 15)]));
        }
    }
    out
}

/// Decodes what [`encode`] wrote.
///
/// # Errors
/// Returns [`NameError::Encoding`] for anything that [`encode`] does not write, and
/// [`NameError::NotText`] if the bytes are no UTF-8.
pub fn decode(text: &str) -> Result<String, NameError> {
    let bytes = text.as_bytes();
    let mut out = Vec::with_capacity(bytes.len());
    let mut at = 0;
    while let Some(&byte) = bytes.get(at) {
        if is_plain(byte) {
            out.push(byte);
            at += 1;
            continue;
        }
        let digits = bytes.get(at + 1).zip(bytes.get(at + 2));
        let value = digits.and_then(|(high, low)| Some(digit(*high)? << 4 | digit(*low)?));
        match value {
            Some(value) if byte == b'=' && !is_plain(value) => out.push(value),
            _ => return Err(NameError::Encoding { at }),
        }
        at += 3;
    }
    String::from_utf8(out).map_err(|_| NameError::NotText)
}

/// Whether a byte stands for itself. The equals sign does not, since it begins an escape.
const fn is_plain(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'/' | b'_')
}

const fn digit(byte: u8) -> Option<u8> {
    match byte {
        b'0'..=b'9' => Some(byte - b'0'),
        b'A'..=b'F' => Some(byte - b'A' + 10),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn dots_and_tildes_are_escaped() {
        assert_eq!(encode("a.b~c=d"), "a=2Eb=7Ec=3Dd");
        assert_eq!(encode("cameras/door-1_x"), "cameras/door-1_x");
        let key = Key::Node(
            Region::new("eu.west").expect("a name"),
            NodeId::new("n 1").expect("a name"),
        );
        assert_eq!(key.to_string(), "n.eu=2Ewest.n=201");
    }

    #[test]
    fn another_spelling_of_a_name_is_refused() {
        for wrong in ["a.b", "=2e", "=61", "=2", "=", "a b", "=FF", "ü", "*", ">"] {
            assert!(decode(wrong).is_err(), "{wrong}");
        }
        for wrong in ["", "s.", "n.a", "n..b", "n.a.", "x.a", "s.a.b", "n.a.b.c"] {
            assert!(Key::parse(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn a_name_is_neither_empty_nor_long() {
        assert_eq!(StreamName::new(""), Err(NameError::Empty));
        assert!(StreamName::new(&"x".repeat(255)).is_ok());
        assert_eq!(
            StreamName::new(&"x".repeat(256)),
            Err(NameError::TooLong(256))
        );
    }

    proptest! {
        #[test]
        fn every_name_comes_back(name in "\\PC{1,60}|[\\x00-\\x7f]{1,60}") {
            let text = encode(&name);
            prop_assert!(text.bytes().all(|it| is_plain(it) || it == b'='));
            prop_assert_eq!(decode(&text), Ok(name.clone()));
            let key = Key::Stream(StreamName::new(&name).expect("short"));
            prop_assert_eq!(Key::parse(&key.to_string()), Ok(key));
        }

        #[test]
        fn whatever_decodes_is_its_own_encoding(text in "[-/_=.a-zA-F0-9]{0,20}") {
            if let Ok(name) = decode(&text) {
                prop_assert_eq!(encode(&name), text);
            }
        }
    }
}
