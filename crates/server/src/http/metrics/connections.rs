//! Counters of the HTTP listeners' connections.

use glassline_service::metrics::{Family, Metric};

use crate::app::App;
use crate::http::server::Counters;

/// The metrics of the listeners.
const FAMILIES: &[Family<Counters>] = &[
    Family::plain(
        "http_accepted_total",
        "HTTP connections accepted, refused ones included.",
        |c| &c.accepted,
    ),
    Family::by_reason(
        "http_connections_refused_total",
        "HTTP connections refused.",
        &[
            ("limit", |c| &c.refused_limit),
            ("address", |c| &c.refused_address),
            ("rate", |c| &c.refused_rate),
            ("descriptors", |c| &c.refused_descriptors),
        ],
    ),
    Family::by_reason(
        "http_connections_closed_total",
        "HTTP connections closed: deadline, place for another one, or TLS.",
        &[
            ("header", |c| &c.closed_header),
            ("idle", |c| &c.closed_idle),
            ("stalled", |c| &c.closed_stalled),
            ("evicted", |c| &c.closed_evicted),
            ("cancels", |c| &c.closed_cancels),
            ("handshake", |c| &c.closed_handshake),
        ],
    ),
];

/// Writes the counters of all listeners.
pub(super) fn metrics(app: &App, text: &mut String) {
    let counting: [(String, &Counters); 4] = [
        ("http".to_owned(), &app.http.counters.public),
        ("https".to_owned(), &app.http.counters.public_tls),
        ("admin".to_owned(), &app.http.counters.admin),
        ("admin-https".to_owned(), &app.http.counters.admin_tls),
    ];
    let mut open = Metric::gauge(text, "http_connections", "HTTP connections.");
    for (listener, counters) in &counting {
        open.of([("listener", listener)], counters.open());
    }
    for family in FAMILIES {
        family.write("listener", &counting, text);
    }
}
