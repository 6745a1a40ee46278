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

/// Variables that the build of the program reads. A shell that builds and then starts the program may
/// still have them.
pub const VARIABLES_OF_BUILDS: [&str; 1] = ["GLASSLINE_COMMIT"];

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
        let form = form(schema, value);
        let twin = names.insert(variable, Name { path, form });
        debug_assert!(twin.is_none(), "two keys have one variable: {twin:?}");
    }
}

/// Returns how the text of a key's variable is read. The type stands in the key itself, in the
/// definition that the key names, or in one of several alternatives.
fn form(schema: &Value, value: &Value) -> Form {
    let kinds = kinds(schema, value);
    let is_only = |wanted: &str| {
        kinds.contains(&wanted) && kinds.iter().all(|it| *it == wanted || *it == "null")
    };
    match (is_only("string"), is_only("array")) {
        (true, _) => Form::Text,
        (_, true) => Form::List,
        _ => Form::Yaml,
    }
}

/// Returns the JSON types of the values that a schema takes, with repetitions.
fn kinds<'a>(schema: &'a Value, value: &'a Value) -> Vec<&'a str> {
    let of_this = match &value["type"] {
        Value::String(kind) => vec![kind.as_str()],
        Value::Array(kinds) => kinds.iter().filter_map(Value::as_str).collect(),
        _ => Vec::new(),
    };
    let either = ["anyOf", "oneOf"].map(|key| value[key].as_array().into_iter().flatten());
    let either = either.into_iter().flatten();
    // No definition of the schema contains itself without a section or a list in between.
    let of_others = either
        .chain(definition(schema, value))
        .flat_map(|it| kinds(schema, it));
    of_this.into_iter().chain(of_others).collect()
}

/// Returns the definition that `value` names.
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
    fn the_form_follows_the_definition_that_a_key_names() {
        let schema = serde_json::json!({"$defs": {
            "Name": {"type": "string"},
            "Alias": {"$ref": "#/$defs/Name"},
            "Names": {"type": "array"},
            "Tls": {"oneOf": [{"type": "string", "const": "lan"}, {"type": "object"}]},
        }});
        let of = |value| form(&schema, &value);
        let named = |name: &str| serde_json::json!({"$ref": format!("#/$defs/{name}")});
        let or_null = |name: &str| serde_json::json!({"anyOf": [named(name), {"type": "null"}]});
        for value in [named("Name"), or_null("Name"), or_null("Alias")] {
            assert_eq!(of(value), Form::Text);
        }
        assert_eq!(
            of(serde_json::json!({"type": ["string", "null"]})),
            Form::Text
        );
        for value in [named("Names"), or_null("Names")] {
            assert_eq!(of(value), Form::List);
        }
        for value in [named("Tls"), or_null("Tls"), named("Nowhere")] {
            assert_eq!(of(value), Form::Yaml);
        }
        let either = serde_json::json!({"anyOf": [{"type": "string"}, {"type": "integer"}]});
        assert_eq!(of(either), Form::Yaml);
    }

    #[test]
    fn no_secret_of_the_configuration_is_read_as_yaml() {
        let all = all();
        let mut secrets = 0;
        for (variable, name) in &all {
            let key = name.path.last().expect("a key");
            let is_secret = ["secret", "password", "read_token", "publish_token"];
            if is_secret.contains(&key.as_str()) {
                assert_eq!(name.form, Form::Text, "{variable}");
                secrets += 1;
            }
        }
        assert!(secrets >= 3, "{:?}", all.keys());
    }
}
