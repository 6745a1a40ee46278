//! The map of sources, parsed entry by entry so that an error points at its line.

use std::collections::BTreeMap;
use std::fmt;

use glassline_hub::StreamName;
use serde::de::{Deserialize, Deserializer, Error as _, MapAccess, Visitor};
use serde::ser::{SerializeMap as _, Serializer};

use crate::ingest::Input;

type Sources = BTreeMap<StreamName, Input>;

pub(super) fn serialize<S: Serializer>(sources: &Sources, to: S) -> Result<S::Ok, S::Error> {
    let mut map = to.serialize_map(Some(sources.len()))?;
    for (name, input) in sources {
        // The display of an input hides its password.
        map.serialize_entry(name.as_str(), &input.to_string())?;
    }
    map.end()
}

pub(super) fn deserialize<'de, D: Deserializer<'de>>(from: D) -> Result<Sources, D::Error> {
    from.deserialize_map(Entries)
}

struct Entries;

impl<'de> Visitor<'de> for Entries {
    type Value = Sources;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("stream names with their sources, like `cam: rtsp://…`")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Sources, A::Error> {
        let mut sources = Sources::new();
        while let Some((Name(name), Source(input))) = map.next_entry()? {
            sources.insert(name, input);
        }
        Ok(sources)
    }

    fn visit_unit<E: serde::de::Error>(self) -> Result<Sources, E> {
        Ok(Sources::new())
    }
}

struct Name(StreamName);

impl<'de> Deserialize<'de> for Name {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        let text = String::deserialize(from)?;
        StreamName::parse(&text).map(Self).map_err(D::Error::custom)
    }
}

struct Source(Input);

impl<'de> Deserialize<'de> for Source {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        let text = String::deserialize(from)?;
        Input::parse(&text).map(Self).map_err(D::Error::custom)
    }
}
