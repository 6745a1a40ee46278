use super::{Figures, Method, Report};

/// Heads and widths of the columns; the first one is aligned to the left.
const COLUMNS: [(&str, usize); 9] = [
    ("method", 20),
    ("ns/packet", 9),
    ("calls/packet", 12),
    ("copied", 6),
    ("gap p50 ms", 10),
    ("p99 ms", 7),
    ("max ms", 7),
    ("delivered", 9),
    ("clients/core", 12),
];

/// Number of characters in a line.
pub fn columns() -> usize {
    let widths = COLUMNS.iter().map(|(_, width)| width);
    widths.sum::<usize>() + 2 * (COLUMNS.len() - 1)
}

/// A line about the frames, and the heads of the columns.
pub fn head(report: &Report) -> String {
    let heads: Vec<String> = COLUMNS.iter().map(|(head, _)| (*head).to_owned()).collect();
    format!(
        "{} connections, {} frames/s of {} packets of {} bytes, {} rounds of {} s\n\n{}",
        report.clients,
        report.fps,
        report.packets_per_frame,
        report.packet_bytes,
        report
            .methods
            .iter()
            .map(|it| it.rounds.len())
            .max()
            .unwrap_or(0),
        report.duration_s,
        joined(&heads)
    )
}

/// The figures of a method, or the reason why there are none.
pub fn line(figures: &Figures) -> String {
    if let Some(reason) = &figures.skipped {
        let width = COLUMNS[0].1;
        return format!("{:<width$}  not measured: {reason}", figures.method);
    }
    let figure = |value: Option<f64>, digits: usize| {
        value.map_or_else(|| "–".to_owned(), |value| format!("{value:.digits$}"))
    };
    joined(&[
        figures.method.clone(),
        figure(figures.cpu_ns_per_packet, 0),
        figure(figures.system_calls_per_packet, 3),
        figure(figures.copied_bytes_per_byte, 3),
        figure(figures.gap_ms.map(|gap| gap.p50), 1),
        figure(figures.gap_ms.map(|gap| gap.p99), 1),
        figure(figures.gap_ms.map(|gap| gap.max), 1),
        figure(figures.delivered_ratio, 4),
        figure(figures.clients_per_core, 0),
    ])
}

fn joined(cells: &[String]) -> String {
    let cells = COLUMNS.iter().zip(cells).enumerate();
    let cells: Vec<String> = cells
        .map(|(index, ((_, width), text))| match index {
            0 => format!("{text:<width$}"),
            _ => format!("{text:>width$}"),
        })
        .collect();
    cells.join("  ")
}

const _: () = {
    let mut index = 0;
    while index < Method::ALL.len() {
        assert!(Method::ALL[index].name().len() <= COLUMNS[0].1);
        index += 1;
    }
};
