//! Keys of the configuration file, from the schema that `glassline config schema` prints.

use std::fmt::Write as _;

use glassline_config::Config;
use serde_json::Value;

use super::{hold, markdown};

#[test]
fn the_page_of_the_configuration_agrees() {
    let schema: Value = serde_json::from_str(&Config::schema()).expect("a schema is JSON");
    let mut text = String::new();
    for (name, section) in fields(&schema) {
        let _ = writeln!(text, "## `{name}`\n");
        match fields_of(&schema, section) {
            Some(below) => {
                let _ = writeln!(text, "{}\n", described(section));
                write_keys(&schema, name, below, &mut text);
            }
            None => {
                write_key(name, section, &mut text);
                if let Some(below) = section.get("items").and_then(|it| fields_of(&schema, it)) {
                    write_keys(&schema, &format!("{name}[]"), below, &mut text);
                }
            }
        }
        text.push('\n');
    }
    hold("configuration.md", &text);
}

fn write_keys(schema: &Value, path: &str, keys: &Value, text: &mut String) {
    for (name, key) in fields(keys) {
        let path = format!("{path}.{name}");
        write_key(&path, key, text);
        if let Some(below) = fields_of(schema, key) {
            write_keys(schema, &path, below, text);
        } else if let Some(below) = key.get("items").and_then(|it| fields_of(schema, it)) {
            write_keys(schema, &format!("{path}[]"), below, text);
        }
    }
}

/// Appends `` - `limits.rooms` (`100`, ≥ 1): … ``
fn write_key(path: &str, key: &Value, text: &mut String) {
    let mut notes = Vec::new();
    // Each key of a section has a line of its own.
    let is_section = |it: &Value| it.as_object().is_some_and(|keys| !keys.is_empty());
    if let Some(default) = key.get("default").filter(|it| !is_section(it)) {
        notes.push(format!("`{default}`"));
    }
    notes.extend(range(key));
    let notes = match notes.is_empty() {
        true => String::new(),
        false => format!(" ({})", notes.join(", ")),
    };
    let _ = writeln!(text, "- `{path}`{notes}: {}", described(key));
}

fn range(key: &Value) -> Option<String> {
    let least = key.get("minimum").and_then(Value::as_u64);
    let most = key.get("maximum").and_then(Value::as_u64);
    match (least, most) {
        (Some(least), Some(most)) => Some(format!("{least}–{most}")),
        (Some(0) | None, None) => None,
        (Some(least), None) => Some(format!("≥ {least}")),
        (None, Some(most)) => Some(format!("≤ {most}")),
    }
}

fn described(key: &Value) -> String {
    markdown(key["description"].as_str().unwrap_or_default())
}

/// The keys of an object in the schema.
fn fields(object: &Value) -> impl Iterator<Item = (&String, &Value)> {
    object["properties"].as_object().into_iter().flatten()
}

/// The definition of `key`, where it is an object with keys of its own, or null.
fn fields_of<'a>(schema: &'a Value, key: &'a Value) -> Option<&'a Value> {
    let either = key["anyOf"].as_array().into_iter().flatten();
    let mut named = std::iter::once(key)
        .chain(either)
        .filter_map(|it| it["$ref"].as_str()?.strip_prefix("#/$defs/"));
    let definition = named.find_map(|name| schema["$defs"].get(name))?;
    definition.get("properties").and(Some(definition))
}
