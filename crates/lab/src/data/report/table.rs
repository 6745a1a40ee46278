//! A run as lines of text.

use super::bound::bytes;
use super::{Interval, Path, Report};

/// Column names of [`line()`].
pub const HEAD: &str = "       interval   Mbit/s  msg/s   RTT ms       cwnd   flight   re-sent  \
buffered  CPU s/Gbit send/recv";

/// The figures of one interval as a line.
pub fn line(it: &Interval) -> String {
    let number = |value: Option<f64>, digits: usize| {
        value.map_or_else(|| "–".to_owned(), |value| format!("{value:.digits$}"))
    };
    format!(
        "{:4} {:4.1}–{:4.1} s {:8.1} {:6.0} {:>8} {:>10} {:>8} {:>9} {:>9}  {:>8}/{}",
        if it.up { "up" } else { "down" },
        it.start_s,
        it.end_s,
        it.goodput_mbps,
        it.messages_per_s,
        number(it.rtt_ms, 2),
        bytes(it.cwnd_bytes),
        bytes(it.in_flight_bytes),
        bytes(it.retransmitted_bytes),
        bytes(it.buffered_bytes),
        number(it.cpu_s_per_gbit.sender, 3),
        number(it.cpu_s_per_gbit.receiver, 3),
    )
}

/// All figures of a run as text.
pub fn draw(report: &Report) -> String {
    let mut out = String::from(HEAD);
    for interval in &report.intervals {
        out.push('\n');
        out += &line(interval);
    }
    out + "\n\n" + &summary(report) + "\n"
}

/// Summary of a run in one line.
pub fn summary(report: &Report) -> String {
    let number = |value: Option<f64>, digits: usize| {
        value.map_or_else(|| "–".to_owned(), |value| format!("{value:.digits$}"))
    };
    let mut lines = vec![report.verdict.clone()];
    lines.push(format!(
        "CPU s/Gbit {} sending, {} receiving; RTT {} ms; {} sent again, {} time-outs; {}{}",
        number(report.cpu_s_per_gbit.sender, 3),
        number(report.cpu_s_per_gbit.receiver, 3),
        number(report.rtt_ms, 2),
        bytes(report.retransmitted_bytes),
        report.timeouts,
        report.cipher.as_deref().unwrap_or("unknown cipher"),
        match report.zero_checksum {
            Some(true) => ", zero checksum",
            Some(false) => ", CRC32c",
            None => "",
        },
    ));
    lines.extend(report.path.as_ref().map(path));
    lines.join("\n")
}

fn path(path: &Path) -> String {
    let end = |end: &super::PathEnd| format!("{} {}", end.r#type, end.address);
    let how = match (&path.relay, path.relayed) {
        (Some(relay), _) => format!("relayed by {relay}"),
        (None, true) => "relayed by a TURN server of the other end".to_owned(),
        (None, false) => "direct".to_owned(),
    };
    format!(
        "path: {} → {}, {}, {how}",
        end(&path.local),
        end(&path.remote),
        path.local.protocol
    )
}
