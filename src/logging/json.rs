//! Lines of the log as JSON, for programs that collect logs.

use std::fmt::{self, Debug, Write as _};

use glassline_runtime::escaped_json;
use serde_json::{Map, Value, json};
use tracing::field::{Field, Visit};
use tracing::{Event, Subscriber};
use tracing_subscriber::fmt::format::Writer;
use tracing_subscriber::fmt::time::{FormatTime, SystemTime};
use tracing_subscriber::fmt::{FmtContext, FormatEvent, FormatFields};
use tracing_subscriber::registry::LookupSpan;

use super::fields::{shorten, shortened_text};

/// Writes each event as one JSON object on a line of its own.
///
/// The object has `time` (RFC 3339, UTC, microseconds), `level` (`ERROR` to `TRACE`), `target` (the
/// module that logs), `message`, and the object `fields` if the event has any. Numbers and truth values
/// keep their types; all else is text, of the same greatest length as in the other format. Events within
/// spans, which only dependencies have, name the spans from the outermost one in `spans`.
pub(super) struct Json;

impl<S, N> FormatEvent<S, N> for Json
where
    S: Subscriber + for<'a> LookupSpan<'a>,
    N: for<'a> FormatFields<'a> + 'static,
{
    fn format_event(
        &self,
        context: &FmtContext<'_, S, N>,
        mut writer: Writer<'_>,
        event: &Event<'_>,
    ) -> fmt::Result {
        let mut values = Values::default();
        event.record(&mut values);
        let spans = context.event_scope().into_iter().flatten();
        let mut spans: Vec<_> = spans.map(|span| span.name()).collect();
        spans.reverse();
        let metadata = event.metadata();
        let mut line = head(metadata.level().as_str(), metadata.target());
        add(&mut line, "message", &json!(values.message));
        if !values.fields.is_empty() {
            add(&mut line, "fields", &Value::Object(values.fields));
        }
        if !spans.is_empty() {
            add(&mut line, "spans", &json!(spans));
        }
        writeln!(writer, "{line}}}")
    }
}

/// Returns the line of a message that comes from no event: the last words of the program, or a note of
/// the log about itself.
pub(super) fn line(level: &str, message: &str) -> String {
    let mut line = head(level, "glassline::logging");
    add(&mut line, "message", &json!(message.trim_end()));
    line.push_str("}\n");
    line
}

/// Returns an object that is not closed, with the members that each line has.
fn head(level: &str, target: &str) -> String {
    let mut time = String::new();
    // A string takes everything.
    let _ = SystemTime.format_time(&mut Writer::new(&mut time));
    let mut line = String::from("{");
    add(&mut line, "time", &json!(time));
    add(&mut line, "level", &json!(level));
    add(&mut line, "target", &json!(target));
    line
}

/// Adds a member to an object that is not closed. A map would order the members by name, and people
/// look for the time first.
fn add(line: &mut String, name: &str, value: &Value) {
    let comma = if line.len() > 1 { "," } else { "" };
    let value = value.to_string();
    // A string takes everything.
    let _ = write!(line, "{comma}\"{name}\":{}", escaped_json(&value));
}

/// The message of an event, and its fields by name.
#[derive(Default)]
struct Values {
    message: String,
    fields: Map<String, Value>,
}

impl Values {
    fn insert(&mut self, field: &Field, value: Value) {
        let name = field.name().trim_start_matches("r#");
        self.fields.insert(name.to_owned(), value);
    }
}

impl Visit for Values {
    fn record_f64(&mut self, field: &Field, value: f64) {
        // JSON knows neither infinity nor NaN: they become null.
        self.insert(field, json!(value));
    }

    fn record_i64(&mut self, field: &Field, value: i64) {
        self.insert(field, json!(value));
    }

    fn record_u64(&mut self, field: &Field, value: u64) {
        self.insert(field, json!(value));
    }

    fn record_bool(&mut self, field: &Field, value: bool) {
        self.insert(field, json!(value));
    }

    fn record_str(&mut self, field: &Field, value: &str) {
        self.insert(field, json!(shortened_text(value)));
    }

    fn record_debug(&mut self, field: &Field, value: &dyn Debug) {
        let text = shorten(value);
        if field.name() == "message" {
            self.message = text;
        } else {
            self.insert(field, json!(text));
        }
    }
}

#[cfg(test)]
mod tests {
    use std::io::{self, Write};
    use std::sync::Arc;

    use parking_lot::Mutex;
    use tracing_subscriber::layer::SubscriberExt as _;

    use super::*;

    /// The lines that were logged.
    #[derive(Clone, Default)]
    struct Lines(Arc<Mutex<Vec<u8>>>);

    impl Write for Lines {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            let mut lines = self.0.lock();
            lines.extend_from_slice(bytes);
            Ok(bytes.len())
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    fn logged(work: impl FnOnce()) -> Vec<Value> {
        let lines = Lines::default();
        let written = lines.clone();
        let layer = tracing_subscriber::fmt::layer()
            .fmt_fields(super::super::fields::shortened())
            .event_format(Json)
            .with_writer(move || written.clone());
        tracing::subscriber::with_default(tracing_subscriber::registry().with(layer), work);
        let lines = lines.0.lock();
        let text = std::str::from_utf8(&lines).expect("text");
        assert!(text.ends_with('\n'), "{text}");
        let lines = text.lines();
        lines
            .map(|line| serde_json::from_str(line).expect(line))
            .collect()
    }

    #[test]
    fn an_event_is_an_object_whose_fields_keep_their_types() {
        let long = "é".repeat(60_000);
        let lines = logged(|| {
            tracing::info!(
                stream = "cam \"1\"\n",
                viewers = 3_u64,
                lag_ms = -1.5,
                ok = true,
                level = "its own",
                peer = %"10.0.0.1:9",
                "{} joined",
                "a viewer"
            );
            tracing::warn!(path = long, "nothing else");
            tracing::error!("no fields");
        });
        let first = &lines[0];
        assert_eq!(first["message"], "a viewer joined");
        assert_eq!(first["level"], "INFO");
        assert!(
            first["target"]
                .as_str()
                .expect("text")
                .ends_with("json::tests")
        );
        let time = first["time"].as_str().expect("text");
        assert!(time.ends_with('Z') && time.contains('T'), "{time}");
        let fields = json!({
            "stream": "cam \"1\"\n",
            "viewers": 3,
            "lag_ms": -1.5,
            "ok": true,
            "level": "its own",
            "peer": "10.0.0.1:9",
        });
        assert_eq!(first["fields"], fields);
        let path = lines[1]["fields"]["path"].as_str().expect("text");
        assert!(path.ends_with("é… (59700 characters more)"), "{path}");
        assert_eq!(lines[2].get("fields"), None);
    }

    #[test]
    fn no_line_has_a_character_that_turns_or_hides_text() {
        let name = "h/\u{202e}evil\u{200b}\u{2029}\u{e0041}";
        let lines = Lines::default();
        let written = lines.clone();
        let layer = tracing_subscriber::fmt::layer()
            .fmt_fields(super::super::fields::shortened())
            .event_format(Json)
            .with_writer(move || written.clone());
        let subscriber = tracing_subscriber::registry().with(layer);
        tracing::subscriber::with_default(subscriber, || {
            tracing::warn!(name, shown = %name, "{name}");
        });
        let bytes = lines.0.lock();
        let text = std::str::from_utf8(&bytes).expect("text");
        assert!(text.is_ascii(), "{text}");
        let line: Value = serde_json::from_str(text).expect("JSON");
        assert_eq!(
            line["fields"]["name"], name,
            "a program reads what was sent"
        );
    }

    #[test]
    fn events_name_the_spans_that_they_are_in() {
        let lines = logged(|| {
            let outer = tracing::info_span!("connection", id = 7);
            let _outer = outer.enter();
            let inner = tracing::info_span!("stream");
            let _inner = inner.enter();
            tracing::warn!("lost");
        });
        assert_eq!(lines[0]["spans"], json!(["connection", "stream"]));
    }

    #[test]
    fn messages_of_no_event_are_objects_too() {
        let text = line("ERROR", "glassline: no \"port\"\n");
        let value: Value = serde_json::from_str(&text).expect("JSON");
        assert_eq!(value["message"], "glassline: no \"port\"");
        assert_eq!(value["level"], "ERROR");
        assert!(text.starts_with("{\"time\":\""), "{text}");
    }
}
