//! Report of a run for tools (JSON, CSV) and for people (table, [`svg`]), with the limit that
//! applied.

use std::fmt::Write as _;

use serde::{Deserialize, Serialize};

use super::control::Sample;
use super::plan::Plan;
use crate::machine;
use crate::statistics::median;

pub mod bound;
pub mod svg;
pub mod table;

pub use bound::Bound;

/// Report of a run of `glassline bench data`, as `--json` writes it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Report {
    /// Name of the run in charts and tables.
    pub label: String,
    /// Begin of the run in UTC (RFC 3339).
    pub started: String,
    /// Version of Glassline that made the report.
    pub version: String,
    /// Machine that the run was made on.
    pub machine: machine::Description,
    /// Plan of the test.
    pub plan: Plan,
    /// Impairment between the ends, as on the command line.
    pub impairment: Option<String>,
    /// Figures of each interval and direction.
    pub intervals: Vec<Interval>,
    /// User data of whole messages that arrived, in both directions together.
    pub goodput_mbps: f64,
    /// Number of whole messages that arrived.
    pub messages: u64,
    /// Processor seconds of each end per gigabit.
    pub cpu_s_per_gbit: Cpu,
    /// Processor time of each end, in percent of one core.
    pub cpu_percent: Cpu,
    /// Round-trip time of the association: the median over the intervals.
    pub rtt_ms: Option<f64>,
    /// Rate that the receive window allows at that round-trip time.
    pub window_bound_mbps: Option<f64>,
    /// Bytes of user data that were retransmitted.
    pub retransmitted_bytes: u64,
    /// Number of retransmission time-outs.
    pub timeouts: u64,
    /// Limit that kept the run from being faster.
    pub bound: Bound,
    /// Path of the datagrams.
    pub path: Option<Path>,
    /// Cipher of the DTLS records.
    pub cipher: Option<String>,
    /// Whether packets were sent without a checksum (RFC 9653).
    pub zero_checksum: Option<bool>,
    /// Summary in a sentence.
    pub verdict: String,
}

/// Figures of an interval in one direction.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Interval {
    /// Whether the direction is from the client to the server.
    pub up: bool,
    /// Begin of the interval since the start, in seconds.
    pub start_s: f64,
    /// End of the interval since the start, in seconds.
    pub end_s: f64,
    /// User data of whole messages that arrived.
    pub goodput_mbps: f64,
    /// Whole messages that arrived, per second.
    pub messages_per_s: f64,
    /// Smoothed round-trip time of the association at the interval's end, in ms.
    pub rtt_ms: Option<f64>,
    /// Congestion window at the interval's end.
    pub cwnd_bytes: u64,
    /// Bytes in flight at the interval's end.
    pub in_flight_bytes: u64,
    /// Bytes of user data that were retransmitted.
    pub retransmitted_bytes: u64,
    /// Bytes that waited to be sent at the interval's end.
    pub buffered_bytes: u64,
    /// Processor seconds of each end per gigabit.
    pub cpu_s_per_gbit: Cpu,
}

/// Processor figures of both ends. With messages in both directions, the sender is the client.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Cpu {
    /// Figure of the sending end; `None` if it is unknown.
    pub sender: Option<f64>,
    /// Figure of the receiving end; `None` if it is unknown.
    pub receiver: Option<f64>,
}

/// Candidate pair that the session used.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Path {
    /// This end of the path.
    pub local: PathEnd,
    /// The other end of the path.
    pub remote: PathEnd,
    /// Whether datagrams go through a TURN server.
    pub relayed: bool,
    /// URI of the TURN server, if it is this end's.
    pub relay: Option<String>,
    /// Transport to the TURN server: `udp`, `tcp` or `tls`.
    pub relay_protocol: Option<String>,
}

/// One end of a [`Path`].
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct PathEnd {
    /// Type of the candidate: `host`, `srflx`, `prflx` or `relay` (RFC 8839 §5.1).
    pub r#type: String,
    /// Transport protocol of the candidate: `udp`.
    pub protocol: String,
    /// IP address and port.
    pub address: String,
}

/// Findings of both ends, from which a report is made.
#[derive(Clone, Debug)]
pub struct Findings {
    /// Name of the run in charts.
    pub label: String,
    /// Begin of the run in UTC (RFC 3339).
    pub started: String,
    /// Plan of the test.
    pub plan: Plan,
    /// Impairment between the ends.
    pub impairment: Option<String>,
    /// Samples of the client, in order; the last one is from its end.
    pub client: Vec<Sample>,
    /// Samples of the server, in order.
    pub server: Vec<Sample>,
    /// Path, as the client sees it.
    pub path: Option<Path>,
    /// Cipher of the client's records.
    pub cipher: Option<String>,
    /// Whether the client's association has no checksums.
    pub zero_checksum: Option<bool>,
}

impl Report {
    /// Builds the report from the samples of both ends.
    pub fn new(findings: Findings) -> Self {
        let Findings {
            plan,
            client,
            server,
            ..
        } = findings;
        let mut intervals = Vec::new();
        let mut ways = Vec::new();
        for (is_up, is_on) in [
            (true, plan.direction.is_up()),
            (false, plan.direction.is_down()),
        ] {
            if is_on {
                let (sender, receiver) = match is_up {
                    true => (&client, &server),
                    false => (&server, &client),
                };
                intervals.extend(rows(is_up, sender, receiver));
                ways.push(DirectionFigures::new(sender, receiver));
            }
        }
        intervals.sort_by(|a, b| {
            (a.start_s, !a.up)
                .partial_cmp(&(b.start_s, !b.up))
                .expect("times")
        });
        let goodput_mbps: f64 = ways.iter().map(|way| way.goodput_mbps).sum();
        let gigabits: f64 = ways.iter().map(|way| way.gigabits).sum();
        let is_down_only = !plan.direction.is_up();
        let (sender, receiver) = if is_down_only {
            (&server, &client)
        } else {
            (&client, &server)
        };
        let (sender, receiver) = (ProcessorTime::of(sender), ProcessorTime::of(receiver));
        let rtt_ms = median(intervals.iter().filter_map(|it| it.rtt_ms));
        let window = ways.first().map_or(0, |way| way.window_bytes);
        let window_bound_mbps = rtt_ms
            .filter(|rtt| *rtt > 0.0 && window > 0)
            .map(|rtt| window as f64 * 8.0 / (rtt * 1e3));
        let cpu_percent = Cpu {
            sender: sender.percent(),
            receiver: receiver.percent(),
        };
        let bound = bound::of(&ways, cpu_percent, goodput_mbps, window_bound_mbps);
        let mut report = Self {
            label: findings.label,
            started: findings.started,
            version: env!("CARGO_PKG_VERSION").to_owned(),
            machine: machine::describe(),
            plan,
            impairment: findings.impairment,
            intervals,
            goodput_mbps,
            messages: ways.iter().map(|way| way.messages).sum(),
            cpu_s_per_gbit: Cpu {
                sender: sender.per_gbit(gigabits),
                receiver: receiver.per_gbit(gigabits),
            },
            cpu_percent,
            rtt_ms,
            window_bound_mbps,
            retransmitted_bytes: ways.iter().map(|way| way.retransmitted_bytes).sum(),
            timeouts: ways.iter().map(|way| way.timeouts).sum(),
            bound,
            path: findings.path,
            cipher: findings.cipher,
            zero_checksum: findings.zero_checksum,
            verdict: String::new(),
        };
        report.verdict = bound::verdict(&report, &ways);
        report
    }

    /// The report as indented JSON with a newline at the end.
    pub fn to_json(&self) -> String {
        serde_json::to_string_pretty(self).expect("plain data") + "\n"
    }

    /// The report as CSV: a row for each interval and direction.
    pub fn to_csv(&self) -> String {
        let mut out = String::from(CSV_HEADER);
        let text =
            |value: Option<f64>| value.map(|value| format!("{value:.4}")).unwrap_or_default();
        for it in &self.intervals {
            writeln!(
                out,
                "{},{:.3},{:.3},{:.3},{:.1},{},{},{},{},{},{},{}",
                if it.up { "up" } else { "down" },
                it.start_s,
                it.end_s,
                it.goodput_mbps,
                it.messages_per_s,
                text(it.rtt_ms),
                it.cwnd_bytes,
                it.in_flight_bytes,
                it.retransmitted_bytes,
                it.buffered_bytes,
                text(it.cpu_s_per_gbit.sender),
                text(it.cpu_s_per_gbit.receiver),
            )
            .expect("a string takes everything");
        }
        out
    }
}

/// Column names of [`Report::to_csv`].
pub const CSV_HEADER: &str = "direction,start_s,end_s,goodput_mbps,messages_per_s,rtt_ms,\
cwnd_bytes,in_flight_bytes,retransmitted_bytes,buffered_bytes,\
sender_cpu_s_per_gbit,receiver_cpu_s_per_gbit\n";

/// Figures of one direction of a run.
#[derive(Clone, Copy, Debug)]
pub(super) struct DirectionFigures {
    pub(super) goodput_mbps: f64,
    pub(super) gigabits: f64,
    pub(super) messages: u64,
    pub(super) retransmitted_bytes: u64,
    pub(super) lost_bytes: u64,
    pub(super) timeouts: u64,
    pub(super) refills: u64,
    pub(super) starved: u64,
    /// Receive window of the receiver.
    pub(super) window_bytes: u64,
    /// Median over the sender's samples.
    pub(super) cwnd_bytes: u64,
    pub(super) in_flight_bytes: u64,
    pub(super) peer_window_bytes: u64,
    pub(super) pacing_mbps: Option<f64>,
}

impl DirectionFigures {
    fn new(sender: &[Sample], receiver: &[Sample]) -> Self {
        let received = receiver.last().copied().unwrap_or_default();
        let sent = sender.last().copied().unwrap_or_default();
        let megabits = received.received_bytes as f64 * 8e-6;
        let middle = |value: fn(&Sample) -> u64| {
            let values = sender.iter().map(|it| value(it) as f64);
            median(values).unwrap_or_default() as u64
        };
        Self {
            goodput_mbps: rate(megabits, received.at_ms / 1e3),
            gigabits: megabits / 1e3,
            messages: received.received_messages,
            retransmitted_bytes: sent.retransmitted_bytes,
            lost_bytes: sent.lost_bytes,
            timeouts: sent.timeouts,
            refills: sent.refills,
            starved: sent.starved,
            window_bytes: received.window_bytes,
            cwnd_bytes: middle(|it| it.cwnd_bytes),
            in_flight_bytes: middle(|it| it.in_flight_bytes),
            peer_window_bytes: middle(|it| it.peer_window_bytes),
            pacing_mbps: median(sender.iter().filter_map(|it| it.pacing_mbps)),
        }
    }
}

/// Processor time of one end over a run.
struct ProcessorTime {
    cpu_s: Option<f64>,
    time_s: f64,
}

impl ProcessorTime {
    fn of(samples: &[Sample]) -> Self {
        let last = samples.last().copied().unwrap_or_default();
        Self {
            cpu_s: last.cpu_s,
            time_s: last.at_ms / 1e3,
        }
    }

    fn percent(&self) -> Option<f64> {
        Some(rate(self.cpu_s?, self.time_s) * 100.0)
    }

    fn per_gbit(&self, gigabits: f64) -> Option<f64> {
        self.cpu_s
            .filter(|_| gigabits > 0.0)
            .map(|cpu| cpu / gigabits)
    }
}

/// Combines the n-th interval of each end.
fn rows(up: bool, sender: &[Sample], receiver: &[Sample]) -> Vec<Interval> {
    let (mut rows, mut before) = (Vec::new(), (Sample::default(), Sample::default()));
    for (sent, received) in sender.iter().zip(receiver) {
        let seconds = (received.at_ms - before.1.at_ms) / 1e3;
        let bytes = received
            .received_bytes
            .saturating_sub(before.1.received_bytes);
        let messages = received
            .received_messages
            .saturating_sub(before.1.received_messages);
        let megabits = bytes as f64 * 8e-6;
        let cost = |now: &Sample, before: &Sample| {
            let spent = now.cpu_s? - before.cpu_s.unwrap_or_default();
            (megabits > 0.0).then(|| spent / (megabits / 1e3))
        };
        rows.push(Interval {
            up,
            start_s: before.1.at_ms / 1e3,
            end_s: received.at_ms / 1e3,
            goodput_mbps: rate(megabits, seconds),
            messages_per_s: rate(messages as f64, seconds),
            rtt_ms: sent.rtt_ms,
            cwnd_bytes: sent.cwnd_bytes,
            in_flight_bytes: sent.in_flight_bytes,
            retransmitted_bytes: sent
                .retransmitted_bytes
                .saturating_sub(before.0.retransmitted_bytes),
            buffered_bytes: sent.buffered_bytes,
            cpu_s_per_gbit: Cpu {
                sender: cost(sent, &before.0),
                receiver: cost(received, &before.1),
            },
        });
        before = (*sent, *received);
    }
    // A very short last interval is not meaningful.
    if let [.., whole, last] = rows.as_slice()
        && last.end_s - last.start_s < 0.1 * (whole.end_s - whole.start_s)
    {
        rows.pop();
    }
    rows
}

fn rate(amount: f64, seconds: f64) -> f64 {
    if seconds > 0.0 { amount / seconds } else { 0.0 }
}

#[cfg(test)]
pub(crate) mod tests;
