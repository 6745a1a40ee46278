//! The spans of one join.
//!
//! ```text
//! join ─┬─ request ─┬─ rights
//!       │           └─ negotiation
//!       ├─ ice
//!       ├─ dtls
//!       ├─ first keyframe ┐ in the order in which they happened
//!       └─ first packet   ┘
//! ```
//!
//! Steps of a connection follow each other: each begins where the one before it ended. The step that
//! a failed connection did not finish ends with the join, with the reason.

use std::time::Instant;

use glassline_media::WallClock;
use serde_json::{Value, json};

use super::assembly::Join;
use super::join::{Outcome, PeerPart, RequestPart};
use super::resource::{number, text};
use super::trace_context::{SpanId, TraceId};

/// Kinds of spans of OTLP.
const INTERNAL: u8 = 1;
const SERVER: u8 = 2;

/// Status code of OTLP for a span that failed.
const ERROR: u8 = 2;

/// Most bytes of a text in a span.
const TEXT_BYTES_MAX: usize = 1_024;

/// Returns whether a join is sent: all that failed, and the share `sample` of the others, unless the
/// trace above is not recorded.
pub(super) fn is_wanted(join: &Join, sample: f64) -> bool {
    let context = &join.request.context;
    let is_chosen = context.is_sampled && (sample >= 1.0 || context.trace.share() < sample);
    is_chosen || failure(join).is_some()
}

/// Returns the spans of a join, the root first. `wall` is the calendar.
pub(super) fn spans(join: &Join, wall: WallClock) -> Vec<Value> {
    let Join { request, peer } = join;
    let writer = Writer {
        trace: request.context.trace,
        wall,
    };
    let ended = peer.as_ref().map_or(request.ended, |it| it.ended);
    let failed = failure(join);
    let root = SpanId::draw();
    let mut spans = vec![writer.span(
        SpanPlace {
            id: root,
            parent: request.context.parent,
        },
        &format!("join {}", request.role),
        Period {
            from: request.started,
            to: ended,
        },
        failed.as_ref(),
    )];
    spans[0]["kind"] = SERVER.into();
    spans[0]["attributes"] = attributes(join, failed.as_ref()).into();
    writer.push_request(request, root, &mut spans);
    if let Some(peer) = peer {
        writer.push_steps(request.ended, peer, root, &mut spans);
    }
    spans
}

/// The reason why something failed.
struct Failure {
    stage: &'static str,
    reason: String,
    remedy: Option<String>,
}

fn failure(join: &Join) -> Option<Failure> {
    let refused = join
        .request
        .refusal
        .as_ref()
        .map(|(stage, reason)| Failure {
            stage,
            reason: reason.clone(),
            remedy: None,
        });
    let failed = || match &join.peer.as_ref()?.outcome {
        Outcome::Connected | Outcome::Left => None,
        Outcome::Failed {
            stage,
            reason,
            remedy,
        } => Some(Failure {
            stage,
            reason: reason.clone(),
            remedy: remedy.clone(),
        }),
    };
    refused.or_else(failed)
}

/// Returns the word for how a join ended.
fn outcome(join: &Join, failed: Option<&Failure>) -> &'static str {
    match (failed, join.peer.as_ref().map(|it| &it.outcome)) {
        (Some(_), _) => "failed",
        (None, Some(Outcome::Left)) => "left",
        (None, Some(_)) => "connected",
        // The peer is still waited for, or the server ended first.
        (None, None) => "unknown",
    }
}

fn attributes(join: &Join, failed: Option<&Failure>) -> Vec<Value> {
    let request = &join.request;
    let mut attributes = vec![
        text("http.request.method", "POST"),
        text("http.route", &request.route),
        number("http.response.status_code", request.status.into()),
        text("client.address", &request.client.to_string()),
        text("glassline.stream", &short(&request.stream)),
        text("glassline.role", request.role),
        text("glassline.outcome", outcome(join, failed)),
    ];
    let session = request.session.as_ref();
    // Its beginning, as in logs: whoever reads traces must not be able to end the session.
    attributes.extend(session.map(|it| text("glassline.session", &it.to_string())));
    if let Some(failed) = failed {
        attributes.push(text("error.type", failed.stage));
        attributes.push(text("glassline.reason", &short(&failed.reason)));
        let remedy = failed.remedy.as_deref();
        attributes.extend(remedy.map(|it| text("glassline.remedy", &short(it))));
    }
    attributes
}

/// The place of a span in its trace.
#[derive(Clone, Copy)]
struct SpanPlace {
    id: SpanId,
    parent: Option<SpanId>,
}

impl SpanPlace {
    /// Draws a place below `parent`.
    fn below(parent: SpanId) -> Self {
        Self {
            id: SpanId::draw(),
            parent: Some(parent),
        }
    }
}

/// The time that a span takes.
#[derive(Clone, Copy)]
struct Period {
    from: Instant,
    to: Instant,
}

/// Writes the spans of one trace.
struct Writer {
    trace: TraceId,
    wall: WallClock,
}

impl Writer {
    /// Returns a span that failed if `failed` is set.
    fn span(
        &self,
        place: SpanPlace,
        name: &str,
        period: Period,
        failed: Option<&Failure>,
    ) -> Value {
        let mut span = json!({
            "traceId": self.trace.to_string(),
            "spanId": place.id.to_string(),
            "name": name,
            "kind": INTERNAL,
            "startTimeUnixNano": self.nanos(period.from),
            "endTimeUnixNano": self.nanos(period.to.max(period.from)),
        });
        if let Some(parent) = place.parent {
            span["parentSpanId"] = parent.to_string().into();
        }
        if let Some(failed) = failed {
            span["status"] = json!({"code": ERROR, "message": short(&failed.reason)});
        }
        span
    }

    /// Adds the exchange of offer and answer. What was refused failed in the part that was under way.
    fn push_request(&self, request: &RequestPart, root: SpanId, spans: &mut Vec<Value>) {
        let RequestPart { started, ended, .. } = *request;
        let failed = request.refusal.as_ref().map(|(stage, reason)| Failure {
            stage,
            reason: reason.clone(),
            remedy: None,
        });
        let (place, failed) = (SpanPlace::below(root), failed.as_ref());
        let mut part = |place, name: &str, from, to, failed| {
            spans.push(self.span(place, name, Period { from, to }, failed));
        };
        part(place, "request", started, ended, failed);
        let below = || SpanPlace::below(place.id);
        match request.admitted {
            None => part(below(), "rights", started, ended, failed),
            Some(admitted) => {
                part(below(), "rights", started, admitted, None);
                part(below(), "negotiation", admitted, ended, failed);
            }
        }
    }

    /// Adds the steps of the connection, which follow the answer at `answered`.
    fn push_steps(&self, answered: Instant, peer: &PeerPart, root: SpanId, spans: &mut Vec<Value>) {
        let steps = &peer.steps;
        let mut media = [
            ("first keyframe", steps.keyframe),
            ("first packet", steps.packet),
        ];
        media.sort_by_key(|(_, at)| (at.is_none(), *at));
        let connecting = [("ice", steps.path), ("dtls", steps.connected)];
        let mut from = answered;
        for (name, at) in connecting.into_iter().chain(media) {
            let Some(at) = at else {
                // Of the steps that are missing, the first is the one that failed.
                if let Outcome::Failed { stage, reason, .. } = &peer.outcome {
                    let failed = Failure {
                        stage,
                        reason: reason.clone(),
                        remedy: None,
                    };
                    let to = peer.ended;
                    let period = Period { from, to };
                    spans.push(self.span(SpanPlace::below(root), name, period, Some(&failed)));
                }
                return;
            };
            let mut span = self.span(SpanPlace::below(root), name, Period { from, to: at }, None);
            if let ("ice", Some(heard)) = (name, steps.heard) {
                let at = self.nanos(heard.max(from));
                span["events"] = json!([{"timeUnixNano": at, "name": "first check"}]);
            }
            spans.push(span);
            from = from.max(at);
        }
    }

    /// Returns nanoseconds since 1970, as a text.
    fn nanos(&self, at: Instant) -> String {
        self.wall.unix(at).as_nanos().to_string()
    }
}

/// Returns at most [`TEXT_BYTES_MAX`] bytes of a text.
fn short(text: &str) -> String {
    let mut end = text.len().min(TEXT_BYTES_MAX);
    while !text.is_char_boundary(end) {
        end -= 1;
    }
    text[..end].to_owned()
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::super::assembly::tests::{peer, request};
    use super::super::join::Steps;
    use super::super::trace_context::TraceContext;
    use super::*;

    fn ms(from: Instant, ms: u64) -> Instant {
        from + Duration::from_millis(ms)
    }

    fn written(join: &Join, now: Instant) -> Vec<Value> {
        spans(join, WallClock::new(now, Duration::from_secs(1_000)))
    }

    /// Returns name, parent's name, start and end in ms, and whether the span failed.
    fn rows(spans: &[Value]) -> Vec<(String, String, u64, u64, bool)> {
        let name = |span: &Value| span["name"].as_str().unwrap_or_default().to_owned();
        let parent = |span: &Value| {
            let parent = spans.iter().find(|it| it["spanId"] == span["parentSpanId"]);
            parent.map(name).unwrap_or_default()
        };
        let ms = |value: &Value| {
            let nanos: u64 = value
                .as_str()
                .expect("a text")
                .parse()
                .expect("nanoseconds");
            nanos / 1_000_000 - 1_000_000
        };
        let row = |it: &Value| {
            let (from, to) = (ms(&it["startTimeUnixNano"]), ms(&it["endTimeUnixNano"]));
            (
                name(it),
                parent(it),
                from,
                to,
                it["status"]["code"] == ERROR,
            )
        };
        spans.iter().map(row).collect()
    }

    fn row(
        name: &str,
        parent: &str,
        from: u64,
        to: u64,
        failed: bool,
    ) -> (String, String, u64, u64, bool) {
        (name.to_owned(), parent.to_owned(), from, to, failed)
    }

    #[test]
    fn the_steps_of_a_join_follow_each_other_below_one_root() {
        let now = Instant::now();
        let steps = Steps {
            heard: Some(ms(now, 10)),
            path: Some(ms(now, 12)),
            connected: Some(ms(now, 30)),
            keyframe: Some(ms(now, 31)),
            packet: Some(ms(now, 33)),
        };
        let peer = PeerPart {
            steps,
            ..peer("a", ms(now, 33))
        };
        let request = Box::new(request(Some("a"), now));
        let join = Join {
            request,
            peer: Some(Box::new(peer)),
        };
        let spans = written(&join, now);
        let expected = [
            row("join viewer", "", 0, 33, false),
            row("request", "join viewer", 0, 3, false),
            row("rights", "request", 0, 1, false),
            row("negotiation", "request", 1, 3, false),
            row("ice", "join viewer", 3, 12, false),
            row("dtls", "join viewer", 12, 30, false),
            row("first keyframe", "join viewer", 30, 31, false),
            row("first packet", "join viewer", 31, 33, false),
        ];
        assert_eq!(rows(&spans), expected);
        let mut ids: Vec<_> = spans.iter().map(|it| it["spanId"].to_string()).collect();
        ids.sort();
        ids.dedup();
        assert_eq!(
            ids.len(),
            expected.len(),
            "each span has an identifier of its own"
        );
        assert!(is_wanted(&join, 1.0) && !is_wanted(&join, 0.0));
    }

    #[test]
    fn a_publisher_sends_packets_before_its_keyframe_and_a_failure_is_of_the_step_under_way() {
        let now = Instant::now();
        let steps = Steps {
            path: Some(ms(now, 5)),
            connected: Some(ms(now, 9)),
            packet: Some(ms(now, 11)),
            ..Steps::default()
        };
        let outcome = Outcome::Failed {
            stage: "media",
            reason: "no keyframe".to_owned(),
            remedy: Some("look at the encoder".to_owned()),
        };
        let peer = PeerPart {
            steps,
            outcome,
            ..peer("a", ms(now, 40))
        };
        let request = Box::new(request(Some("a"), now));
        let join = Join {
            request,
            peer: Some(Box::new(peer)),
        };
        let spans = written(&join, now);
        let tail = [
            row("first packet", "join viewer", 9, 11, false),
            row("first keyframe", "join viewer", 11, 40, true),
        ];
        assert_eq!(rows(&spans)[6..], tail);
        assert_eq!(spans[0]["status"]["message"], "no keyframe");
        let attributes = spans[0]["attributes"].to_string();
        assert!(attributes.contains("look at the encoder"), "{attributes}");
        assert!(is_wanted(&join, 0.0), "failures are always sent");
    }

    #[test]
    fn a_refusal_fails_where_it_was_decided_and_belongs_to_the_trace_above() {
        let now = Instant::now();
        let above = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-00";
        let refused = RequestPart {
            context: TraceContext::parse(above).expect("a header"),
            admitted: None,
            status: 401,
            refusal: Some(("rights", "é".repeat(TEXT_BYTES_MAX))),
            ..request(None, now)
        };
        let join = Join {
            request: Box::new(refused),
            peer: None,
        };
        let spans = written(&join, now);
        assert_eq!(spans[0]["parentSpanId"], "b7ad6b7169203331");
        assert_eq!(spans[0]["traceId"], "0af7651916cd43dd8448eb211c80319c");
        let expected = [
            row("join viewer", "", 0, 3, true),
            row("request", "join viewer", 0, 3, true),
            row("rights", "request", 0, 3, true),
        ];
        assert_eq!(rows(&spans), expected);
        let message = spans[0]["status"]["message"].as_str().expect("a reason");
        assert_eq!(message.len(), TEXT_BYTES_MAX);
    }
}
