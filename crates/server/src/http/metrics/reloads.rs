use std::fmt::Write as _;

use glassline_service::metrics::head;

use crate::app::App;

/// Appends what became of reading the configuration again.
pub(super) fn metrics(app: &App, text: &mut String) {
    let history = &app.settings.history;
    head(
        text,
        "reloads_total",
        "counter",
        "Readings of the configuration while the server runs, by result.",
    );
    for (result, count) in [
        ("applied", &history.applied),
        ("unchanged", &history.unchanged),
        ("refused", &history.refused),
    ] {
        let count = count.get();
        let _ = writeln!(
            text,
            "glassline_reloads_total{{result=\"{result}\"}} {count}"
        );
    }
    let latest = history.latest();
    let waiting = latest.map_or(0, |it| it.reload.needs_restart.len());
    head(
        text,
        "reload_keys_for_restart",
        "gauge",
        "Changed keys of the configuration that need a restart.",
    );
    let _ = writeln!(text, "glassline_reload_keys_for_restart {waiting}");
}
