//! A deserializer that takes some keys of maps from the environment, and all others from below.

use std::collections::btree_map;
use std::fmt;

use serde::de::{
    DeserializeSeed, Deserializer, IgnoredAny, IntoDeserializer as _, MapAccess, Visitor,
};
use serde::forward_to_deserialize_any;

use super::names::Form;
use super::{Override, Overrides, Value};
use crate::config::load;

/// A map of the file with overrides of its keys.
pub(in crate::config) struct Overlaid<'de, D> {
    pub(in crate::config) inner: D,
    pub(in crate::config) overrides: &'de Overrides,
}

impl<'de, D: Deserializer<'de>> Deserializer<'de> for Overlaid<'de, D> {
    type Error = D::Error;

    fn deserialize_any<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, D::Error> {
        self.inner.deserialize_any(OverlaidVisitor {
            visitor,
            overrides: self.overrides,
        })
    }

    fn deserialize_map<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, D::Error> {
        self.inner.deserialize_map(OverlaidVisitor {
            visitor,
            overrides: self.overrides,
        })
    }

    fn deserialize_struct<V: Visitor<'de>>(
        self,
        name: &'static str,
        fields: &'static [&'static str],
        visitor: V,
    ) -> Result<V::Value, D::Error> {
        let overrides = self.overrides;
        let visitor = OverlaidVisitor { visitor, overrides };
        self.inner.deserialize_struct(name, fields, visitor)
    }

    fn deserialize_option<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, D::Error> {
        self.inner.deserialize_option(OverlaidVisitor {
            visitor,
            overrides: self.overrides,
        })
    }

    forward_to_deserialize_any! {
        bool i8 i16 i32 i64 i128 u8 u16 u32 u64 u128 f32 f64 char str string bytes byte_buf unit
        unit_struct newtype_struct seq tuple tuple_struct enum identifier ignored_any
    }
}

struct OverlaidVisitor<'de, V> {
    visitor: V,
    overrides: &'de Overrides,
}

impl<'de, V: Visitor<'de>> Visitor<'de> for OverlaidVisitor<'de, V> {
    type Value = V::Value;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.visitor.expecting(f)
    }

    fn visit_map<A: MapAccess<'de>>(self, map: A) -> Result<V::Value, A::Error> {
        self.visitor
            .visit_map(OverlaidMap::new(map, self.overrides))
    }

    fn visit_some<D: Deserializer<'de>>(self, inner: D) -> Result<V::Value, D::Error> {
        let overrides = self.overrides;
        self.visitor.visit_some(Overlaid { inner, overrides })
    }

    fn visit_none<E: serde::de::Error>(self) -> Result<V::Value, E> {
        self.visitor.visit_some(OnlyOverrides::new(self.overrides))
    }

    fn visit_unit<E: serde::de::Error>(self) -> Result<V::Value, E> {
        let only = OnlyOverrides::new(self.overrides);
        only.deserialize_any(self.visitor)
    }
}

/// A map that the file does not have, with overrides alone.
pub(in crate::config) struct OnlyOverrides<'de, E> {
    overrides: &'de Overrides,
    error: std::marker::PhantomData<E>,
}

impl<'de, E> OnlyOverrides<'de, E> {
    pub(in crate::config) fn new(overrides: &'de Overrides) -> Self {
        let error = std::marker::PhantomData;
        Self { overrides, error }
    }
}

impl<'de, E: serde::de::Error> Deserializer<'de> for OnlyOverrides<'de, E> {
    type Error = E;

    fn deserialize_any<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, E> {
        visitor.visit_map(OverlaidMap::new(NoMap(self.error), self.overrides))
    }

    fn deserialize_option<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, E> {
        visitor.visit_some(self)
    }

    forward_to_deserialize_any! {
        bool i8 i16 i32 i64 i128 u8 u16 u32 u64 u128 f32 f64 char str string bytes byte_buf unit
        unit_struct newtype_struct seq tuple tuple_struct map struct enum identifier ignored_any
    }
}

/// A map without keys.
struct NoMap<E>(std::marker::PhantomData<E>);

impl<'de, E: serde::de::Error> MapAccess<'de> for NoMap<E> {
    type Error = E;

    fn next_key_seed<K: DeserializeSeed<'de>>(&mut self, _: K) -> Result<Option<K::Value>, E> {
        Ok(None)
    }

    fn next_value_seed<V: DeserializeSeed<'de>>(&mut self, _: V) -> Result<V::Value, E> {
        Err(E::custom("a map without keys has no value"))
    }
}

/// The keys of a map, those of the file first.
struct OverlaidMap<'de, A> {
    map: A,
    overrides: &'de Overrides,
    /// Overrides of keys that the file does not have are taken from here.
    rest: btree_map::Iter<'de, String, Override>,
    /// Keys of the file that have an override.
    met: Vec<String>,
    next: Next<'de>,
}

/// Where the next value comes from.
enum Next<'de> {
    /// The file alone.
    File,
    /// The file and the environment.
    Both(&'de Override),
    /// The environment alone.
    Environment(&'de Override),
}

impl<'de, A> OverlaidMap<'de, A> {
    fn new(map: A, overrides: &'de Overrides) -> Self {
        Self {
            map,
            overrides,
            rest: overrides.iter(),
            met: Vec::new(),
            next: Next::File,
        }
    }
}

impl<'de, A: MapAccess<'de>> MapAccess<'de> for OverlaidMap<'de, A> {
    type Error = A::Error;

    fn next_key_seed<K: DeserializeSeed<'de>>(
        &mut self,
        seed: K,
    ) -> Result<Option<K::Value>, A::Error> {
        let key = match self.map.next_key::<String>()? {
            Some(key) => {
                self.next = match self.overrides.get(&key) {
                    None => Next::File,
                    Some(it) => {
                        self.met.push(key.clone());
                        Next::Both(it)
                    }
                };
                key
            }
            None => {
                let met = &self.met;
                let Some((key, value)) = self.rest.find(|(key, _)| !met.contains(key)) else {
                    return Ok(None);
                };
                self.next = Next::Environment(value);
                key.clone()
            }
        };
        seed.deserialize(key.into_deserializer()).map(Some)
    }

    fn next_value_seed<V: DeserializeSeed<'de>>(&mut self, seed: V) -> Result<V::Value, A::Error> {
        match self.next {
            Next::File => self.map.next_value_seed(seed),
            Next::Both(Override::Below(overrides)) => {
                self.map.next_value_seed(OverlaidSeed { seed, overrides })
            }
            Next::Both(Override::Value(value)) => {
                self.map.next_value::<IgnoredAny>()?;
                value.feed(seed)
            }
            Next::Environment(Override::Value(value)) => value.feed(seed),
            Next::Environment(Override::Below(overrides)) => {
                seed.deserialize(OnlyOverrides::new(overrides))
            }
        }
    }
}

struct OverlaidSeed<'de, V> {
    seed: V,
    overrides: &'de Overrides,
}

impl<'de, V: DeserializeSeed<'de>> DeserializeSeed<'de> for OverlaidSeed<'de, V> {
    type Value = V::Value;

    fn deserialize<D: Deserializer<'de>>(self, inner: D) -> Result<V::Value, D::Error> {
        let overrides = self.overrides;
        self.seed.deserialize(Overlaid { inner, overrides })
    }
}

impl Value {
    /// Passes the value to `seed`. An error begins with the variable's name.
    fn feed<'de, V, E>(&'de self, seed: V) -> Result<V::Value, E>
    where
        V: DeserializeSeed<'de>,
        E: serde::de::Error,
    {
        let fed = match self.form {
            Form::Text if self.text == "''" => seed.deserialize(Text("")),
            Form::Text if self.text != "null" => seed.deserialize(Text(&self.text)),
            Form::Text | Form::List | Form::Yaml => load::feed(&self.text, seed),
        };
        fed.map_err(|error| E::custom(format_args!("{}: {}", self.variable, load::reason(&error))))
    }
}

/// A text that is taken as it is.
struct Text<'de>(&'de str);

impl<'de> Deserializer<'de> for Text<'de> {
    type Error = serde_saphyr::Error;

    fn deserialize_any<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Self::Error> {
        visitor.visit_borrowed_str(self.0)
    }

    fn deserialize_option<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Self::Error> {
        visitor.visit_some(self)
    }

    fn deserialize_newtype_struct<V: Visitor<'de>>(
        self,
        _: &'static str,
        visitor: V,
    ) -> Result<V::Value, Self::Error> {
        visitor.visit_newtype_struct(self)
    }

    fn deserialize_enum<V: Visitor<'de>>(
        self,
        _: &'static str,
        _: &'static [&'static str],
        visitor: V,
    ) -> Result<V::Value, Self::Error> {
        visitor.visit_enum(self.0.into_deserializer())
    }

    forward_to_deserialize_any! {
        bool i8 i16 i32 i64 i128 u8 u16 u32 u64 u128 f32 f64 char str string bytes byte_buf unit
        unit_struct seq tuple tuple_struct map struct identifier ignored_any
    }
}
