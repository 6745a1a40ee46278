//! Logs and traces of other engines: any bytes are refused or read to their end, in
//! pieces of any size to the same tables, whose rows sum to their counts.

use std::io::BufReader;

use glassline_lab::call::Importer;
use glassline_lab::call::report::{Report, svg};

pub(crate) fn run(bytes: &[u8]) {
    let Some(report) = imported(bytes, 1 << 16) else {
        return;
    };
    for table in &report.stages {
        let sum: u64 = table.rows.iter().map(|row| row.1).sum();
        assert_eq!(sum, table.count, "{}", table.stage);
        assert!(table.p50_ms <= table.p99_ms);
    }
    let in_pieces = imported(bytes, 7);
    assert_eq!(in_pieces.as_ref(), Some(&report));
    assert!(report.to_text(false).len() >= report.stages.len());
    assert!(report.to_json().ends_with("}\n"));
    assert!(svg::draw(&report).ends_with("</svg>\n"));
}

/// Two files, cut in the middle, as of two ends.
fn imported(bytes: &[u8], piece: usize) -> Option<Report> {
    let mut importer = Importer::new();
    let (one, other) = bytes.split_at(bytes.len() / 2);
    let mut is_taken = false;
    for part in [bytes, one, other] {
        let part = BufReader::with_capacity(piece, part);
        is_taken |= importer.read("log", part).is_ok();
    }
    is_taken.then(|| importer.finish())
}
