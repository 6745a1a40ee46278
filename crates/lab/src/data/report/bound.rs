//! The limit that kept a run from being faster.

use serde::{Deserialize, Serialize};

use super::{Cpu, DirectionFigures, Report};

/// Limit that kept a run from being faster.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Bound {
    /// The sender's thread used a whole core.
    SenderCpu,
    /// The receiver's thread used a whole core.
    ReceiverCpu,
    /// The receive window, which is filled once per round trip.
    Window,
    /// The congestion window, which losses keep small.
    CongestionWindow,
    /// The pacing rate: the path's rate, as the congestion control believes.
    Pacing,
    /// The sender's channels ran empty: messages or water marks are too small.
    Application,
    /// None of the limits was reached.
    Unknown,
}

impl Bound {
    /// The name for people.
    pub const fn words(self) -> &'static str {
        match self {
            Self::SenderCpu => "sender's CPU",
            Self::ReceiverCpu => "receiver's CPU",
            Self::Window => "window/RTT",
            Self::CongestionWindow => "cwnd/loss",
            Self::Pacing => "pacing",
            Self::Application => "application",
            Self::Unknown => "unknown",
        }
    }
}

/// A thread that is busy for this share of the time is the limit. The rest of the time is needed
/// for wake-ups and other processes.
const BUSY_PERCENT: f64 = 85.0;
/// A figure that reaches this share of a limit counts as limited by it.
const NEAR: f64 = 0.8;

/// Finds the limit. Limits are checked in the order in which one hides the next.
pub(super) fn of(
    ways: &[DirectionFigures],
    cpu: Cpu,
    goodput_mbps: f64,
    window_mbps: Option<f64>,
) -> Bound {
    let is_busy = |percent: Option<f64>| percent.is_some_and(|it| it >= BUSY_PERCENT);
    if is_busy(cpu.sender) && cpu.sender >= cpu.receiver {
        return Bound::SenderCpu;
    }
    if is_busy(cpu.receiver) {
        return Bound::ReceiverCpu;
    }
    let Some(way) = ways.first() else {
        return Bound::Unknown;
    };
    let fills = |limit: u64| limit > 0 && way.in_flight_bytes as f64 >= NEAR * limit as f64;
    // Little of the advertised window is left: the receiver limits the bytes in flight.
    let is_closed = way.peer_window_bytes < way.in_flight_bytes / 4;
    if is_closed || window_mbps.is_some_and(|bound| goodput_mbps >= NEAR * bound) {
        return Bound::Window;
    }
    if fills(way.cwnd_bytes) && way.lost_bytes > 0 {
        return Bound::CongestionWindow;
    }
    if way
        .pacing_mbps
        .is_some_and(|rate| way.goodput_mbps >= NEAR * rate)
    {
        return Bound::Pacing;
    }
    if fills(way.cwnd_bytes) {
        return Bound::CongestionWindow;
    }
    // The first fill always finds the channel empty.
    if way.starved > 1 && way.starved >= way.refills / 4 {
        return Bound::Application;
    }
    Bound::Unknown
}

/// Describes the run in a sentence or two.
pub(super) fn verdict(report: &Report, ways: &[DirectionFigures]) -> String {
    let Some(way) = ways.first() else {
        return String::new();
    };
    let goodput = mbps(report.goodput_mbps);
    let rtt = report.rtt_ms.unwrap_or_default();
    let busy = |percent: Option<f64>| {
        percent.map_or_else(String::new, |it| format!(" ({it:.0} % of a core)"))
    };
    let why = match report.bound {
        Bound::SenderCpu => format!(
            "the sender's processor time{}",
            busy(report.cpu_percent.sender)
        ),
        Bound::ReceiverCpu => format!(
            "the receiver's processor time{}",
            busy(report.cpu_percent.receiver)
        ),
        Bound::Window => format!(
            "window/RTT: {} in {rtt:.1} ms are {}",
            bytes(way.window_bytes),
            mbps(report.window_bound_mbps.unwrap_or_default()),
        ),
        Bound::CongestionWindow => format!(
            "cwnd/loss: a congestion window of {} in {rtt:.1} ms, {} lost",
            bytes(way.cwnd_bytes),
            bytes(way.lost_bytes),
        ),
        Bound::Pacing => format!(
            "pacing: congestion control allows {}",
            mbps(way.pacing_mbps.unwrap_or_default())
        ),
        Bound::Application => format!(
            "the application: the sender ran dry {} times of {} with messages of {} and \
             water marks of {} and {}",
            way.starved,
            way.refills,
            bytes(report.plan.message_size as u64),
            bytes(report.plan.low_water as u64),
            bytes(report.plan.high_water as u64),
        ),
        Bound::Unknown => {
            "no limit was reached by processor time, windows or pacing: another program, or waiting"
                .to_owned()
        }
    };
    format!("{goodput}, bounded by {why}.")
}

/// A rate as text, like `3.42 Gbit/s`.
pub(crate) fn mbps(value: f64) -> String {
    if value >= 1000.0 {
        format!("{:.2} Gbit/s", value / 1000.0)
    } else if value >= 10.0 {
        format!("{value:.0} Mbit/s")
    } else {
        format!("{value:.2} Mbit/s")
    }
}

/// A size as text, like `256 KiB`.
pub(crate) fn bytes(value: u64) -> String {
    const KIB: f64 = 1024.0;
    let value = value as f64;
    let (value, unit) = match value {
        v if v >= KIB * KIB => (v / KIB / KIB, "MiB"),
        v if v >= KIB => (v / KIB, "KiB"),
        v => (v, "B"),
    };
    if value.fract() < 0.05 || value >= 100.0 {
        format!("{value:.0} {unit}")
    } else {
        format!("{value:.1} {unit}")
    }
}
