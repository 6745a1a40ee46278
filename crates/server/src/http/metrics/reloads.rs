use glassline_service::metrics::Metric;

use crate::app::App;

/// Appends what became of reading the configuration again.
pub(super) fn metrics(app: &App, text: &mut String) {
    let history = &app.settings.history;
    Metric::counter(
        text,
        "reloads_total",
        "Readings of the configuration while the server runs, by result.",
    )
    .counts(
        "result",
        [
            ("applied", &history.applied),
            ("unchanged", &history.unchanged),
            ("refused", &history.refused),
        ],
    );
    let latest = history.latest();
    let waiting = latest.map_or(0, |it| it.reload.needs_restart.len());
    let help = "Changed keys of the configuration that need a restart.";
    Metric::gauge(text, "reload_keys_for_restart", help).value(waiting);
}
