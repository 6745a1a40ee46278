use serde::{Deserialize, Serialize};

use super::{Experiment, Method};
use crate::machine;
use crate::statistics::median;

/// Report of an experiment, as `glassline bench send --json` writes it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Report {
    /// Begin of the run in UTC (RFC 3339).
    pub started: String,
    /// Version of Glassline that made the report.
    pub version: String,
    /// Machine that the run was made on.
    pub machine: machine::Description,
    /// Number of connections that received the stream.
    pub clients: usize,
    /// Requested bitrate of each client.
    pub bitrate_bps: u64,
    /// Frame rate of the stream, in frames per second.
    pub fps: u32,
    /// Bytes of a packet, including its framing.
    pub packet_bytes: usize,
    /// Number of packets in each frame.
    pub packets_per_frame: usize,
    /// Time that each method was measured for in each round, in seconds.
    pub duration_s: f64,
    /// Figures of the methods in the requested order.
    pub methods: Vec<Figures>,
}

/// Figures of one method: medians of its rounds.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Figures {
    /// Name of the method.
    pub method: String,
    /// Description in a few words.
    pub description: String,
    /// Reason why the method was not measured.
    pub skipped: Option<String>,
    /// Processor time of the sending thread per packet, in ns. It includes the kernel's time, and
    /// on loopback also the receiving half of TCP.
    pub cpu_ns_per_packet: Option<f64>,
    /// System calls for sending per packet, without those that wait for the next frame's time.
    pub system_calls_per_packet: Option<f64>,
    /// Bytes copied outside of the kernel, or into a memory file, per byte sent.
    pub copied_bytes_per_byte: Option<f64>,
    /// Intervals between frames' arrivals, less the frame interval.
    pub gap_ms: Option<Gap>,
    /// Frames that arrived whole ÷ frames that were due.
    pub delivered_ratio: Option<f64>,
    /// Number of damaged frames in all rounds.
    pub frames_damaged: u64,
    /// Share of the zero-copy sends that the kernel copied after all.
    pub zero_copy_copied_ratio: Option<f64>,
    /// Number of clients that one core could serve at this cost.
    pub clients_per_core: Option<f64>,
    /// Figures of each round.
    pub rounds: Vec<Round>,
    /// Summary in a sentence.
    pub verdict: String,
}

/// Distribution of the gaps, in ms beyond the frame interval.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Gap {
    /// Median gap, in ms.
    pub p50: f64,
    /// 99th percentile of the gaps, in ms.
    pub p99: f64,
    /// Longest gap, in ms.
    pub max: f64,
}

/// Figures of one method in one round; names are those of [`Figures`].
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Round {
    /// Processor time of the sending thread per packet, in ns.
    pub cpu_ns_per_packet: f64,
    /// System calls for sending per packet.
    pub system_calls_per_packet: f64,
    /// Bytes copied outside of the kernel, or into a memory file, per byte sent.
    pub copied_bytes_per_byte: f64,
    /// Median of the gaps between frames beyond the frame interval, in ms.
    pub gap_p50_ms: f64,
    /// 99th percentile of the gaps between frames beyond the frame interval, in ms.
    pub gap_p99_ms: f64,
    /// Longest gap between frames beyond the frame interval, in ms.
    pub gap_max_ms: f64,
    /// Frames that arrived whole ÷ frames that were due.
    pub delivered_ratio: f64,
    /// Number of frames that arrived damaged.
    pub frames_damaged: u64,
    /// Share of the zero-copy sends that the kernel copied after all, 0–1.
    pub zero_copy_copied_ratio: Option<f64>,
}

/// A method that delivered less than this share has not kept up.
const DELIVERED_MIN: f64 = 0.99;

/// Lateness that counts against a method, as a share of the frame interval, compared with the
/// best method. It is visible, and more than the noise of a busy machine.
const LATE_SHARE: f64 = 0.5;

/// Ratios of costs below this are noise.
const NOISE: f64 = 1.1;

impl Report {
    pub(super) fn new(
        experiment: &Experiment,
        machine: machine::Description,
        started: String,
        measured: impl Iterator<Item = (Method, Result<Vec<Round>, String>)>,
    ) -> Self {
        let packets_per_frame = experiment.packets_per_frame();
        let packets_per_second = (packets_per_frame * experiment.fps as usize) as f64;
        let mut methods: Vec<Figures> = measured
            .map(|(method, measured)| Figures::new(method, measured, packets_per_second))
            .collect();
        let verdicts: Vec<String> = methods
            .iter()
            .map(|figures| figures.verdict_among(&methods, late_ms(&methods, experiment.fps)))
            .collect();
        for (figures, verdict) in methods.iter_mut().zip(verdicts) {
            figures.verdict = verdict;
        }
        Self {
            started,
            version: env!("CARGO_PKG_VERSION").to_owned(),
            machine,
            clients: experiment.clients,
            bitrate_bps: experiment.bitrate_bps,
            fps: experiment.fps,
            packet_bytes: experiment.packet_bytes,
            packets_per_frame,
            duration_s: experiment.duration.as_secs_f64(),
            methods,
        }
    }

    /// The report as indented JSON with a newline at the end.
    pub fn to_json(&self) -> String {
        let text = serde_json::to_string_pretty(self).expect("plain data becomes JSON");
        text + "\n"
    }

    /// The report as CSV: a head, then a line for each method.
    pub fn to_csv(&self) -> String {
        let mut out = "method, cpu_ns_per_packet, system_calls_per_packet, copied_bytes_per_byte, \
                       gap_p50_ms, gap_p99_ms, gap_max_ms, delivered_ratio, frames_damaged, \
                       clients_per_core\n"
            .to_owned();
        let cell = |value: Option<f64>| value.map_or_else(String::new, |it| format!("{it:.4}"));
        for figures in &self.methods {
            let cells = [
                figures.method.clone(),
                cell(figures.cpu_ns_per_packet),
                cell(figures.system_calls_per_packet),
                cell(figures.copied_bytes_per_byte),
                cell(figures.gap_ms.map(|gap| gap.p50)),
                cell(figures.gap_ms.map(|gap| gap.p99)),
                cell(figures.gap_ms.map(|gap| gap.max)),
                cell(figures.delivered_ratio),
                figures.frames_damaged.to_string(),
                cell(figures.clients_per_core),
            ];
            out += &(cells.join(", ") + "\n");
        }
        out
    }
}

impl Figures {
    fn new(method: Method, measured: Result<Vec<Round>, String>, packets_per_second: f64) -> Self {
        let (rounds, skipped) = match measured {
            Ok(rounds) if rounds.is_empty() => (
                rounds,
                Some("the run was stopped before this method".to_owned()),
            ),
            Ok(rounds) => (rounds, None),
            Err(reason) => (Vec::new(), Some(reason)),
        };
        let of = |value: fn(&Round) -> f64| median(rounds.iter().map(value));
        let cost = of(|round| round.cpu_ns_per_packet);
        let gap = |value| of(value);
        let gaps = (
            gap(|round| round.gap_p50_ms),
            gap(|round| round.gap_p99_ms),
            gap(|round| round.gap_max_ms),
        );
        Self {
            method: method.name().to_owned(),
            description: method.description().to_owned(),
            skipped,
            cpu_ns_per_packet: cost,
            system_calls_per_packet: of(|round| round.system_calls_per_packet),
            copied_bytes_per_byte: of(|round| round.copied_bytes_per_byte),
            gap_ms: match gaps {
                (Some(p50), Some(p99), Some(max)) => Some(Gap { p50, p99, max }),
                _ => None,
            },
            delivered_ratio: of(|round| round.delivered_ratio),
            frames_damaged: rounds.iter().map(|round| round.frames_damaged).sum(),
            zero_copy_copied_ratio: median(
                rounds
                    .iter()
                    .filter_map(|round| round.zero_copy_copied_ratio),
            ),
            clients_per_core: cost.map(|cost| 1e9 / (cost * packets_per_second).max(1e-9)),
            rounds,
            verdict: String::new(),
        }
    }

    /// One sentence, from the figures alone.
    ///
    /// `late_ms`: lateness from which on frames count against the method.
    fn verdict_among(&self, all: &[Self], late_ms: f64) -> String {
        let (Some(cost), Some(calls)) = (self.cpu_ns_per_packet, self.system_calls_per_packet)
        else {
            let reason = self.skipped.as_deref().unwrap_or("no figures");
            return format!("Not measured: {reason}.");
        };
        let costs = || {
            all.iter()
                .filter_map(|it| Some((it, it.cpu_ns_per_packet?)))
        };
        let cheapest = costs().min_by(|one, other| one.1.total_cmp(&other.1));
        let mut parts = vec![format!("{cost:.0} ns and {calls:.2} system calls a packet")];
        match cheapest {
            Some((it, _)) if it.method == self.method => {
                parts.push("the least of all methods".to_owned());
            }
            Some((_, least)) if cost < least * NOISE => {
                parts.push("the same as the cheapest method, within the noise".to_owned());
            }
            Some((it, least)) => {
                parts.push(format!("{:.1} times {}", cost / least, it.method));
            }
            None => {}
        }
        let reference = costs().find(|(it, _)| it.method == Method::TwoSendsNagle.name());
        if let Some((it, reference)) = reference
            && it.method != self.method
            && cost * NOISE < reference
        {
            parts.push(format!(
                "{:.1} times less than {}",
                reference / cost,
                it.method
            ));
        } else if let Some((it, reference)) = reference
            && cost > reference * NOISE
        {
            parts.push(format!("{:.1} times {}", cost / reference, it.method));
        }
        parts.extend(self.faults(late_ms));
        parts.join(", ") + "."
    }

    /// Disadvantages of the method, other than its cost.
    fn faults(&self, late_ms: f64) -> Vec<String> {
        let mut faults = Vec::new();
        if let Some(copied) = self.zero_copy_copied_ratio
            && copied > 0.01
        {
            faults.push(format!(
                "and the kernel copied {:.0} % all the same, as always on loopback",
                copied * 100.0
            ));
        }
        if self.frames_damaged > 0 {
            faults.push(format!(
                "but {} frames were overwritten before they were read",
                self.frames_damaged
            ));
        }
        if let Some(delivered) = self.delivered_ratio
            && delivered < DELIVERED_MIN
        {
            faults.push(format!(
                "but one thread delivered only {:.1} % of the frames in time",
                delivered * 100.0
            ));
        } else if let Some(gap) = self.gap_ms
            && gap.p99 > late_ms
        {
            faults.push(format!(
                "but one frame in a hundred is {:.0} ms late",
                gap.p99
            ));
        }
        faults
    }
}

/// Lateness that is mentioned, based on the method with the smallest gaps.
fn late_ms(all: &[Figures], fps: u32) -> f64 {
    let gaps = all.iter().filter_map(|it| Some(it.gap_ms?.p99));
    let least = gaps.fold(f64::INFINITY, f64::min);
    least + LATE_SHARE * 1e3 / f64::from(fps.max(1))
}
