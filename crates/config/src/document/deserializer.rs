//! Makes values of a tree, by the types that are asked for.

use serde::de::value::StrDeserializer;
use serde::de::{
    DeserializeSeed, Deserializer, Error as _, IntoDeserializer, MapAccess, SeqAccess, Visitor,
};
use serde::forward_to_deserialize_any;

use super::Files;
use super::fault::Fault;
use super::node::{Content, Node, Text};
use super::secret_file;

/// A value of the tree.
#[derive(Clone, Copy)]
pub(super) struct NodeDeserializer<'a> {
    node: &'a Node,
    files: &'a Files,
}

impl<'a> NodeDeserializer<'a> {
    pub(super) const fn new(node: &'a Node, files: &'a Files) -> Self {
        Self { node, files }
    }

    /// Returns the scalar, if the value is one and not nothing.
    fn text(&self) -> Option<&'a Text> {
        match &self.node.content {
            Content::Text(text) if !text.is_nothing() => Some(text),
            _ => None,
        }
    }

    fn expected(&self, what: &str) -> Fault {
        let shown = match self.text() {
            // A number or a switch is no secret, but a secret may stand in the wrong place.
            Some(text) if text.text.len() <= 20 && text.is_plain => format!("'{}': ", text.text),
            _ => String::new(),
        };
        Fault::new(self.node, format_args!("{shown}{what}"))
    }

    fn number<T: std::str::FromStr>(&self, what: &str) -> Result<T, Fault> {
        let text = self.text().map(|it| it.text.replace('_', ""));
        let number = text.and_then(|text| text.trim_start_matches('+').parse().ok());
        number.ok_or_else(|| self.expected(what))
    }

    fn unsigned<T: TryFrom<u64>>(&self) -> Result<T, Fault> {
        let what = "this must be a whole number from 0 on";
        let number = match self.text().and_then(|it| it.text.strip_prefix("0x")) {
            Some(digits) => u64::from_str_radix(digits, 16).map_err(|_| self.expected(what))?,
            None => self.number(what)?,
        };
        T::try_from(number).map_err(|_| self.expected("this number is too large"))
    }

    fn signed<T: TryFrom<i64>>(&self) -> Result<T, Fault> {
        let number = self.number::<i64>("this must be a whole number")?;
        T::try_from(number).map_err(|_| self.expected("this number is too large"))
    }

    fn visit_list<V: Visitor<'a>>(self, list: &'a [Node], visitor: V) -> Result<V::Value, Fault> {
        let entries = list.iter();
        let files = self.files;
        let visited = visitor.visit_seq(Entries { entries, files });
        visited.map_err(|fault: Fault| fault.at(self.node))
    }

    fn visit_map<V: Visitor<'a>>(
        self,
        entries: &'a [(Node, Node)],
        visitor: V,
    ) -> Result<V::Value, Fault> {
        let visited = visitor.visit_map(Keys {
            entries: entries.iter(),
            files: self.files,
            value: None,
        });
        visited.map_err(|fault: Fault| fault.at(self.node))
    }

    fn visit_text<V: Visitor<'a>>(self, visitor: V) -> Result<V::Value, Fault> {
        let visited = match &self.node.content {
            Content::Text(text) if !text.is_nothing() => visitor.visit_str(&text.text),
            Content::Map(entries) if secret_file::is_one(entries) => {
                let text = secret_file::read_entry(entries, self.files)?;
                visitor.visit_string(text)
            }
            _ => return Err(self.expected("text is expected here; an empty one is written ''")),
        };
        visited.map_err(|fault: Fault| fault.at(self.node))
    }
}

/// Returns what a text without quotes says of a switch.
fn switch(text: &str) -> Option<bool> {
    let is = |words: [&str; 3]| words.iter().any(|it| text.eq_ignore_ascii_case(it));
    match (is(["true", "yes", "on"]), is(["false", "no", "off"])) {
        (true, _) => Some(true),
        (_, true) => Some(false),
        _ => None,
    }
}

macro_rules! numbers {
    ($($method:ident $visit:ident $read:ident;)*) => {
        $(fn $method<V: Visitor<'a>>(self, visitor: V) -> Result<V::Value, Fault> {
            let visited = visitor.$visit(self.$read()?);
            visited.map_err(|fault: Fault| fault.at(self.node))
        })*
    };
}

impl<'a> Deserializer<'a> for NodeDeserializer<'a> {
    type Error = Fault;

    fn deserialize_any<V: Visitor<'a>>(self, visitor: V) -> Result<V::Value, Fault> {
        let text = match &self.node.content {
            Content::List(list) => return self.visit_list(list, visitor),
            Content::Map(entries) => return self.visit_map(entries, visitor),
            Content::Text(text) => text,
        };
        let plain = text.text.as_str();
        let visited = if text.is_nothing() {
            visitor.visit_unit()
        } else if !text.is_plain {
            visitor.visit_str(plain)
        } else if let Some(is_on) = switch(plain) {
            visitor.visit_bool(is_on)
        } else if plain.len() > 1 && plain.starts_with('0') && !plain.contains('.') {
            // A code with zeros in front is no number.
            visitor.visit_str(plain)
        } else if let Ok(number) = plain.parse::<u64>() {
            visitor.visit_u64(number)
        } else if let Ok(number) = plain.parse::<i64>() {
            visitor.visit_i64(number)
        } else if plain.starts_with(|it: char| it.is_ascii_digit() || "+-.".contains(it))
            && let Ok(number) = plain.parse::<f64>()
        {
            visitor.visit_f64(number)
        } else {
            visitor.visit_str(plain)
        };
        visited.map_err(|fault: Fault| fault.at(self.node))
    }

    fn deserialize_bool<V: Visitor<'a>>(self, visitor: V) -> Result<V::Value, Fault> {
        let is_on = self.text().and_then(|it| switch(&it.text));
        let is_on = is_on.ok_or_else(|| self.expected("this must be true or false"))?;
        visitor
            .visit_bool(is_on)
            .map_err(|fault: Fault| fault.at(self.node))
    }

    numbers! {
        deserialize_u8 visit_u8 unsigned;
        deserialize_u16 visit_u16 unsigned;
        deserialize_u32 visit_u32 unsigned;
        deserialize_u64 visit_u64 unsigned;
        deserialize_i8 visit_i8 signed;
        deserialize_i16 visit_i16 signed;
        deserialize_i32 visit_i32 signed;
        deserialize_i64 visit_i64 signed;
    }

    fn deserialize_f64<V: Visitor<'a>>(self, visitor: V) -> Result<V::Value, Fault> {
        let number = self.number("this must be a number")?;
        visitor
            .visit_f64(number)
            .map_err(|fault: Fault| fault.at(self.node))
    }

    fn deserialize_f32<V: Visitor<'a>>(self, visitor: V) -> Result<V::Value, Fault> {
        self.deserialize_f64(visitor)
    }

    fn deserialize_str<V: Visitor<'a>>(self, visitor: V) -> Result<V::Value, Fault> {
        self.visit_text(visitor)
    }

    fn deserialize_string<V: Visitor<'a>>(self, visitor: V) -> Result<V::Value, Fault> {
        self.visit_text(visitor)
    }

    fn deserialize_identifier<V: Visitor<'a>>(self, visitor: V) -> Result<V::Value, Fault> {
        // A key may be called `null`.
        let name = self.node.as_text();
        let name = name.ok_or_else(|| self.expected("a key is text"))?;
        visitor
            .visit_str(name)
            .map_err(|fault: Fault| fault.at(self.node))
    }

    fn deserialize_option<V: Visitor<'a>>(self, visitor: V) -> Result<V::Value, Fault> {
        let visited = match self.node.is_nothing() {
            true => visitor.visit_none(),
            false => visitor.visit_some(self),
        };
        visited.map_err(|fault: Fault| fault.at(self.node))
    }

    fn deserialize_newtype_struct<V: Visitor<'a>>(
        self,
        _: &'static str,
        visitor: V,
    ) -> Result<V::Value, Fault> {
        let visited = visitor.visit_newtype_struct(self);
        visited.map_err(|fault: Fault| fault.at(self.node))
    }

    fn deserialize_seq<V: Visitor<'a>>(self, visitor: V) -> Result<V::Value, Fault> {
        match &self.node.content {
            Content::List(list) => self.visit_list(list, visitor),
            _ if self.node.is_nothing() => self.visit_list(&[], visitor),
            _ => Err(self.expected("a list is expected here, like [one, two]")),
        }
    }

    fn deserialize_tuple<V: Visitor<'a>>(self, _: usize, visitor: V) -> Result<V::Value, Fault> {
        self.deserialize_seq(visitor)
    }

    fn deserialize_tuple_struct<V: Visitor<'a>>(
        self,
        _: &'static str,
        _: usize,
        visitor: V,
    ) -> Result<V::Value, Fault> {
        self.deserialize_seq(visitor)
    }

    fn deserialize_map<V: Visitor<'a>>(self, visitor: V) -> Result<V::Value, Fault> {
        match &self.node.content {
            Content::Map(entries) => self.visit_map(entries, visitor),
            _ if self.node.is_nothing() => self.visit_map(&[], visitor),
            _ => Err(Fault::new(
                self.node,
                "keys are expected here, like those of `http: {address: 0.0.0.0:8889}`",
            )),
        }
    }

    fn deserialize_struct<V: Visitor<'a>>(
        self,
        _: &'static str,
        _: &'static [&'static str],
        visitor: V,
    ) -> Result<V::Value, Fault> {
        self.deserialize_map(visitor)
    }

    fn deserialize_enum<V: Visitor<'a>>(
        self,
        _: &'static str,
        _: &'static [&'static str],
        visitor: V,
    ) -> Result<V::Value, Fault> {
        let name = self.text();
        let name = name.ok_or_else(|| self.expected("a name is expected here"))?;
        let name: StrDeserializer<'_, Fault> = name.text.as_str().into_deserializer();
        visitor
            .visit_enum(name)
            .map_err(|fault: Fault| fault.at(self.node))
    }

    fn deserialize_ignored_any<V: Visitor<'a>>(self, visitor: V) -> Result<V::Value, Fault> {
        visitor.visit_unit()
    }

    forward_to_deserialize_any! { <V: Visitor<'a>> i128 u128 char bytes byte_buf unit unit_struct }
}

/// The entries of a list.
struct Entries<'a> {
    entries: std::slice::Iter<'a, Node>,
    files: &'a Files,
}

impl<'a> SeqAccess<'a> for Entries<'a> {
    type Error = Fault;

    fn next_element_seed<T: DeserializeSeed<'a>>(
        &mut self,
        seed: T,
    ) -> Result<Option<T::Value>, Fault> {
        let Some(node) = self.entries.next() else {
            return Ok(None);
        };
        let made = seed.deserialize(NodeDeserializer::new(node, self.files));
        made.map(Some).map_err(|fault: Fault| fault.at(node))
    }
}

/// The keys of a map with their values.
struct Keys<'a> {
    entries: std::slice::Iter<'a, (Node, Node)>,
    files: &'a Files,
    /// The value of the key that was returned last.
    value: Option<&'a Node>,
}

impl<'a> MapAccess<'a> for Keys<'a> {
    type Error = Fault;

    fn next_key_seed<K: DeserializeSeed<'a>>(
        &mut self,
        seed: K,
    ) -> Result<Option<K::Value>, Fault> {
        let Some((key, value)) = self.entries.next() else {
            return Ok(None);
        };
        self.value = Some(value);
        let made = seed.deserialize(NodeDeserializer::new(key, self.files));
        made.map(Some).map_err(|fault: Fault| fault.at(key))
    }

    fn next_value_seed<V: DeserializeSeed<'a>>(&mut self, seed: V) -> Result<V::Value, Fault> {
        let value = self.value.take();
        let value = value.ok_or_else(|| Fault::custom("a value without a key"))?;
        let made = seed.deserialize(NodeDeserializer::new(value, self.files));
        made.map_err(|fault: Fault| fault.at(value))
    }
}
