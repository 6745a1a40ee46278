//! How long certificates last, and whether their renewal fails.

use std::fmt::Write;
use std::time::SystemTime;

use glassline_service::metrics::head;

use crate::app::App;

/// Writes the state of the certificates of all listeners within TLS.
pub(super) fn metrics(app: &App, text: &mut String) {
    let now = SystemTime::now();
    let stores: Vec<_> = app.tls.certificates.iter().map(|it| it.status()).collect();
    head(
        text,
        "certificate_expires_seconds",
        "gauge",
        "Time until clients no longer accept the certificate; negative afterwards, missing without one.",
    );
    for status in &stores {
        if let Some(seconds) = status.expires_in_s(now) {
            let source = status.source;
            let _ = writeln!(
                text,
                "glassline_certificate_expires_seconds{{source=\"{source}\"}} {seconds}"
            );
        }
    }
    head(
        text,
        "certificate_renewal_failed",
        "gauge",
        "1 if the newest attempt to renew the certificate failed; /healthz has the reason.",
    );
    for status in &stores {
        let (source, failed) = (status.source, u8::from(status.problem.is_some()));
        let _ = writeln!(
            text,
            "glassline_certificate_renewal_failed{{source=\"{source}\"}} {failed}"
        );
    }
}
