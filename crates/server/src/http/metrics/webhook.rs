use glassline_access::auth::WebhookCounters;
use glassline_service::metrics::Metric;

/// Appends the questions to the webhook of rights.
pub(super) fn metrics(counters: &WebhookCounters, is_held_back: bool, text: &mut String) {
    Metric::counter(
        text,
        "auth_webhook_questions_total",
        "Questions about rights for the webhook, by result.",
    )
    .counts(
        "result",
        [
            ("allowed", &counters.allowed),
            ("denied", &counters.denied),
            ("failed", &counters.failed),
            ("cached", &counters.cached),
            ("crowded", &counters.crowded),
            ("held_back", &counters.held_back),
        ],
    );
    let help = "1 while the webhook does not answer and is not asked.";
    Metric::gauge(text, "auth_webhook_held_back", help).value(u8::from(is_held_back));
    let (count, sum) = counters.sent();
    Metric::histogram(
        text,
        "auth_webhook_seconds",
        "Time from sending a question to the webhook to its answer, or to the deadline.",
    )
    .buckets(&[], counters.times(), count, sum.as_secs_f64());
}
