//! How long certificates last, and whether their renewal fails.

use std::time::SystemTime;

use glassline_service::metrics::Metric;

use crate::app::App;

/// Writes the state of the certificates of all listeners within TLS.
pub(super) fn metrics(app: &App, text: &mut String) {
    let now = SystemTime::now();
    let stores: Vec<_> = app.tls.certificates.iter().map(|it| it.status()).collect();
    let mut metric = Metric::gauge(
        text,
        "certificate_expires_seconds",
        "Time until clients no longer accept the certificate; negative afterwards, missing without one.",
    );
    for status in &stores {
        if let Some(seconds) = status.expires_in_s(now) {
            metric.of([("source", status.source)], seconds);
        }
    }
    let mut metric = Metric::gauge(
        text,
        "certificate_renewal_failed",
        "1 if the newest attempt to renew the certificate failed; /healthz has the reason.",
    );
    for status in &stores {
        metric.of(
            [("source", status.source)],
            u8::from(status.problem.is_some()),
        );
    }
}
