//! The variable of each key, from the schema of the configuration file.

use std::collections::BTreeMap;

use serde_json::Value;

use crate::config::Config;

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
    /// The text is the value; `null` stands for no value.
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
        let form = form(value);
        let twin = names.insert(variable, Name { path, form });
        debug_assert!(twin.is_none(), "two keys have one variable: {twin:?}");
    }
}

fn form(value: &Value) -> Form {
    let is = |wanted: &str| match &value["type"] {
        Value::String(kind) => kind == wanted,
        Value::Array(kinds) => kinds.iter().any(|it| it == wanted),
        _ => false,
    };
    match (is("string"), is("array")) {
        (true, _) => Form::Text,
        (_, true) => Form::List,
        _ => Form::Yaml,
    }
}

/// Returns the definition of a key that is a section, or a section or null.
fn section<'a>(schema: &'a Value, value: &'a Value) -> Option<&'a Value> {
    let either = value["anyOf"].as_array().into_iter().flatten();
    let mut named = std::iter::once(value)
        .chain(either)
        .filter_map(|it| it["$ref"].as_str()?.strip_prefix("#/$defs/"));
    let definition = named.find_map(|name| schema["$defs"].get(name))?;
    definition.get("properties").and(Some(definition))
}
