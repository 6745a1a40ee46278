use std::fmt::Write as _;

use glassline_access::auth::WebhookCounters;
use glassline_service::metrics::head;

/// Appends the questions to the webhook of rights.
pub(super) fn metrics(counters: &WebhookCounters, is_held_back: bool, text: &mut String) {
    head(
        text,
        "auth_webhook_questions_total",
        "counter",
        "Questions about rights for the webhook, by result.",
    );
    for (result, count) in [
        ("allowed", &counters.allowed),
        ("denied", &counters.denied),
        ("failed", &counters.failed),
        ("cached", &counters.cached),
        ("crowded", &counters.crowded),
        ("held_back", &counters.held_back),
    ] {
        let count = count.get();
        let _ = writeln!(
            text,
            "glassline_auth_webhook_questions_total{{result=\"{result}\"}} {count}"
        );
    }
    head(
        text,
        "auth_webhook_held_back",
        "gauge",
        "1 while the webhook does not answer and is not asked.",
    );
    let is_held_back = u8::from(is_held_back);
    let _ = writeln!(text, "glassline_auth_webhook_held_back {is_held_back}");
    head(
        text,
        "auth_webhook_seconds",
        "histogram",
        "Time from sending a question to the webhook to its answer, or to the deadline.",
    );
    for (bound, count) in counters.times() {
        let _ = writeln!(
            text,
            "glassline_auth_webhook_seconds_bucket{{le=\"{bound}\"}} {count}"
        );
    }
    let (count, sum) = counters.sent();
    let sum = sum.as_secs_f64();
    let _ = writeln!(
        text,
        "glassline_auth_webhook_seconds_bucket{{le=\"+Inf\"}} {count}\n\
         glassline_auth_webhook_seconds_sum {sum:.6}\nglassline_auth_webhook_seconds_count {count}"
    );
}
