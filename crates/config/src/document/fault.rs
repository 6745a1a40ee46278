//! A mistake in a tree of values.

use std::fmt::Display;

use glassline_ingest::spelling::nearest;
use serde::de::{self, Expected, Unexpected};

use super::node::{FilePosition, Node};
use crate::load::{plain, unknown_key};

/// Something that is wrong with a value or a key.
#[derive(Debug, derive_more::Display)]
#[display("{reason}")]
pub(super) struct Fault {
    pub(super) reason: String,
    pub(super) place: Option<FilePosition>,
    /// The value or key, by its number.
    pub(super) node: Option<u32>,
}

impl Fault {
    pub(super) fn new(node: &Node, reason: impl Display) -> Self {
        Self {
            reason: reason.to_string(),
            place: None,
            node: None,
        }
        .at(node)
    }

    /// Returns the mistake with the place of `node`, unless it has one within `node`.
    pub(super) fn at(self, node: &Node) -> Self {
        match self.place {
            Some(_) => self,
            None => Self {
                place: Some(node.place),
                node: Some(node.id),
                ..self
            },
        }
    }
}

impl de::Error for Fault {
    fn custom<T: Display>(message: T) -> Self {
        let text = message.to_string();
        Self {
            reason: plain(&text).map_or(text, str::to_owned),
            place: None,
            node: None,
        }
    }

    fn invalid_type(found: Unexpected<'_>, expected: &dyn Expected) -> Self {
        let found = match found {
            Unexpected::Map => "keys with values",
            Unexpected::Seq => "a list",
            Unexpected::Unit | Unexpected::Option => "nothing",
            Unexpected::Bool(_) => "a switch",
            Unexpected::Unsigned(_) | Unexpected::Signed(_) | Unexpected::Float(_) => "a number",
            // The text may be a secret.
            _ => "text",
        };
        Self::custom(format_args!("expected {expected}, but this is {found}"))
    }

    fn invalid_value(found: Unexpected<'_>, expected: &dyn Expected) -> Self {
        Self::invalid_type(found, expected)
    }

    fn unknown_field(field: &str, expected: &'static [&'static str]) -> Self {
        Self::custom(unknown_key(field, expected))
    }

    fn unknown_variant(variant: &str, expected: &'static [&'static str]) -> Self {
        let meant = nearest(variant, expected.iter().copied());
        let meant = meant.map_or_else(String::new, |it| format!(": did you mean '{it}'?"));
        let all = expected.join(", ");
        Self::custom(format_args!("'{variant}' is none of {all}{meant}"))
    }

    fn missing_field(field: &'static str) -> Self {
        Self::custom(format_args!("the key '{field}' is missing"))
    }
}

impl std::error::Error for Fault {}
