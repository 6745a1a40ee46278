//! The variable of each key, from the schema of the configuration file.

use std::collections::{BTreeMap, BTreeSet};

use glassline_access::auth::SecretFile;
use schemars::JsonSchema as _;
use serde_json::Value;

use crate::Config;

/// Variables that flags of commands read, and that belong to no key of the configuration.
pub const VARIABLES_OF_COMMANDS: [&str; 8] = [
    "GLASSLINE_ADMIN_TOKEN",
    "GLASSLINE_ADMIN_URL",
    "GLASSLINE_CAMERA_PASSWORD",
    "GLASSLINE_LOG_FORMAT",
    "GLASSLINE_PUBLISH_TOKEN",
    "GLASSLINE_READ_TOKEN",
    "GLASSLINE_TOKEN",
    "GLASSLINE_TURN_USER",
];

/// Variables that the build and the packaging read, and that may stand in the environment of the
/// server, as in a container.
pub const VARIABLES_OF_BUILDS: [&str; 1] = ["GLASSLINE_COMMIT"];

/// How far `$ref` and the alternatives of a schema are followed, so that a type that has itself as
/// a part ends.
const DEPTH_MAX: usize = 8;

/// A key of the configuration.
#[derive(Debug)]
pub(super) struct Name {
    /// Names of the sections, outer ones first, and the key.
    pub(super) path: Vec<String>,
    pub(super) form: Form,
}

/// How the text of a variable is read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Form {
    /// The text is the value; `null` stands for no value, and `''` for an empty text.
    Text,
    /// The text has entries with commas between them, or is a list in YAML.
    List,
    /// The text is parsed as YAML.
    Yaml,
}

/// Returns all keys by the names of their variables.
pub(super) fn all() -> BTreeMap<String, Name> {
    let schema = serde_json::from_str(&Config::schema()).expect("a schema is JSON");
    let mut names = BTreeMap::new();
    collect(&schema, &schema, &[], &mut names);
    names
}

fn collect(schema: &Value, object: &Value, above: &[String], names: &mut BTreeMap<String, Name>) {
    for (key, value) in object["properties"].as_object().into_iter().flatten() {
        let path: Vec<String> = above.iter().chain([key]).cloned().collect();
        let variable = format!("{}{}", super::PREFIX, path.join("_").to_uppercase());
        if let Some(section) = section(schema, value) {
            collect(schema, section, &path, names);
        }
        let form = form(schema, value);
        let twin = names.insert(variable, Name { path, form });
        debug_assert!(twin.is_none(), "two keys have one variable: {twin:?}");
    }
}

/// Returns how a variable of a key is read: as it is only if the key takes nothing but text.
fn form(schema: &Value, value: &Value) -> Form {
    let mut kinds = BTreeSet::new();
    collect_kinds(schema, value, DEPTH_MAX, &mut kinds);
    kinds.remove("null");
    let kinds: Vec<&str> = kinds.into_iter().collect();
    match kinds.as_slice() {
        ["string"] => Form::Text,
        ["array"] => Form::List,
        _ => Form::Yaml,
    }
}

/// Adds the JSON types that `value` takes, also those of the definitions and alternatives it names.
fn collect_kinds<'a>(
    schema: &'a Value,
    value: &'a Value,
    depth: usize,
    kinds: &mut BTreeSet<&'a str>,
) {
    if is_file_of_secret(value) {
        // A variable has the text of the secret; `_FILE` at the end of its name names a file.
        kinds.insert("string");
        return;
    }
    match &value["type"] {
        Value::String(kind) => {
            kinds.insert(kind);
        }
        Value::Array(several) => kinds.extend(several.iter().filter_map(Value::as_str)),
        _ => {}
    }
    let Some(depth) = depth.checked_sub(1) else {
        // A type without an end is no plain text.
        kinds.insert("object");
        return;
    };
    let alternatives = ["anyOf", "oneOf", "allOf"].map(|it| value[it].as_array());
    let alternatives = alternatives.into_iter().flatten().flatten();
    for below in alternatives.chain(definition(schema, value)) {
        collect_kinds(schema, below, depth, kinds);
    }
}

/// Returns whether `value` is `{file: PATH}` in place of a secret.
fn is_file_of_secret(value: &Value) -> bool {
    let name = value["$ref"].as_str();
    let name = name.and_then(|it| it.strip_prefix("#/$defs/"));
    name.is_some_and(|it| it == SecretFile::schema_name())
}

/// Returns the definition that `value` names by `$ref`.
fn definition<'a>(schema: &'a Value, value: &Value) -> Option<&'a Value> {
    let name = value["$ref"].as_str()?.strip_prefix("#/$defs/")?;
    schema["$defs"].get(name)
}

/// Returns the definition of a key that is a section, or a section or null.
fn section<'a>(schema: &'a Value, value: &'a Value) -> Option<&'a Value> {
    let either = value["anyOf"].as_array().into_iter().flatten();
    let mut named = std::iter::once(value).chain(either);
    let definition = named.find_map(|it| definition(schema, it))?;
    definition.get("properties").and(Some(definition))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn secrets_are_text_although_the_file_may_name_a_file_for_them() {
        let all = all();
        for variable in [
            "GLASSLINE_AUTH_READ_TOKEN",
            "GLASSLINE_AUTH_PUBLISH_TOKEN",
            "GLASSLINE_AUTH_JWT_SECRET",
            "GLASSLINE_AUTH_WEBHOOK_SECRET",
            "GLASSLINE_CLUSTER_SECRET",
        ] {
            assert_eq!(all[variable].form, Form::Text, "{variable}");
        }
    }

    #[test]
    fn what_takes_only_text_is_text_behind_references_and_alternatives() {
        let schema = serde_json::json!({"$defs": {
            "Secret": {"type": "string"},
            "Choice": {"oneOf": [{"type": "string", "const": "on"}, {"type": "string", "const": "off"}]},
            "Lan": {"anyOf": [{"type": "string"}, {"type": "object"}]},
            "Names": {"type": "array"},
            "Loop": {"anyOf": [{"type": "string"}, {"$ref": "#/$defs/Loop"}]},
        }});
        let read = |value: Value| form(&schema, &value);
        let named = |name: &str| serde_json::json!({"$ref": format!("#/$defs/{name}")});
        let or_null = |name: &str| serde_json::json!({"anyOf": [named(name), {"type": "null"}]});
        assert_eq!(read(named("Secret")), Form::Text);
        assert_eq!(read(or_null("Secret")), Form::Text);
        assert_eq!(
            read(serde_json::json!({"allOf": [named("Secret")]})),
            Form::Text
        );
        assert_eq!(read(or_null("Choice")), Form::Text);
        assert_eq!(read(or_null("Names")), Form::List);
        assert_eq!(read(or_null("Lan")), Form::Yaml);
        assert_eq!(read(named("Loop")), Form::Yaml);
        assert_eq!(read(named("Missing")), Form::Yaml);
        assert_eq!(
            read(serde_json::json!({"type": ["string", "null"]})),
            Form::Text
        );
    }
}
