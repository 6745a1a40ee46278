//! Who sends: the attributes of this server, and the scope of what it measures.

use serde_json::{Value, json};

use super::settings::Otlp;
use super::trace_context::TraceContext;

/// Returns an attribute with a text.
pub(super) fn text(key: &str, value: &str) -> Value {
    json!({"key": key, "value": {"stringValue": value}})
}

/// Returns an attribute with a whole number, which OTLP writes as a text.
pub(super) fn number(key: &str, value: i64) -> Value {
    json!({"key": key, "value": {"intValue": value.to_string()}})
}

/// Returns this server as a resource. `node` is its name in a cluster.
pub(super) fn resource(settings: &Otlp, node: Option<&str>) -> Value {
    // One run of the process is one instance, unless the cluster knows it by a name.
    let run = TraceContext::draw().trace.to_string();
    let ours = [
        ("service.name", settings.service_name.as_str()),
        ("service.version", env!("CARGO_PKG_VERSION")),
        ("service.instance.id", node.unwrap_or(&run)),
    ];
    let is_kept = |(key, _): &&(&str, &str)| !settings.attributes.contains_key(*key);
    let ours = ours.iter().filter(is_kept).copied();
    let further = settings.attributes.iter();
    let further = further.map(|(key, value)| (key.as_str(), value.as_str()));
    let attributes: Vec<Value> = ours
        .chain(further)
        .map(|(key, value)| text(key, value))
        .collect();
    json!({"attributes": attributes})
}

/// Returns the instrumentation scope of everything that the server sends.
pub(super) fn scope() -> Value {
    json!({"name": "glassline", "version": env!("CARGO_PKG_VERSION")})
}
