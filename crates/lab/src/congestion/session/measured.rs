//! What was measured of an upload.

use serde::{Deserialize, Serialize};

/// What was measured of one session. Rates are 10⁶ bits a second over the time from the
/// first frame to the session's end, a broken session's rest counted.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Measured {
    /// From the first packet until the first frame; `None` if it never connected.
    pub setup_ms: Option<f64>,
    /// Why the connection broke before the end, and how long after the first packet.
    pub broken: Option<(f64, String)>,
    /// Application bytes that the server read in order; what was sent twice counts once,
    /// headers of QUIC do not count.
    pub goodput_mbps: f64,
    /// Application bytes that were given to the transport: the study's goodput.
    pub sent_mbps: f64,
    /// Mean of what the encoder was told to make.
    pub bitrate_mbps: f64,
    /// Mean over the pings, from queueing one behind the frames to its answer, the
    /// constant processing counted in. One that is unanswered at the end enters with its
    /// age: the true mean is at least this.
    pub app_rtt_ms: f64,
    /// Pings that were answered.
    pub pings_answered: u64,
    /// Pings that were not, those included whose group was dropped: these enter
    /// `app_rtt_ms` with the time until the answer to a later one.
    pub pings_unanswered: u64,
    /// Round trips of the transport: from sending the newest packet that an
    /// acknowledgement covers first until that came, what the receiver waited counted
    /// in. Over acknowledgements.
    pub transport_rtt_ms: Spread,
    /// Stream bytes put on the wire more than once ÷ stream bytes acknowledged, 0–1 and
    /// more. Read from the packets' plaintext: exact.
    pub rtx_overhead: f64,
    /// Stream bytes that were taken for lost and arrived all the same ÷ stream bytes
    /// acknowledged: needless repeats, nearly all counted in `rtx_overhead` too.
    pub spurious_overhead: f64,
    /// Bytes of QUIC packets taken for lost ÷ bytes of packets acknowledged: what a
    /// transport that does not count repeats would show.
    pub lost_overhead: f64,
    /// The publisher's datagrams that never arrived ÷ those that were sent.
    pub loss_ratio: f64,
    /// How long its datagrams that arrived had waited in the bottleneck's queue.
    pub queue_ms: Spread,
    /// Its datagrams that found the queue full.
    pub dropped_datagrams: u64,
    /// Those that a policer dropped.
    pub policed_datagrams: u64,
    /// From the first of those until the controller took the path for policed, 0 if it
    /// did before; from the session's start if nothing was policed. `None` if it never
    /// did.
    pub policed_after_s: Option<f64>,
    /// Groups that were reset, late or too many.
    pub dropped_groups: u64,
    /// Application bytes that were dropped with them.
    pub dropped_bytes: u64,
    /// Most application bytes that were made and not acknowledged.
    pub backlog_bytes_max: u64,
    /// Packets in which frames were found that the laboratory does not know: what was in
    /// them is missing above.
    pub unread_packets: u64,
    /// Goodput of each competitor while it sent.
    pub competitors_mbps: Vec<f64>,
    /// Datagrams that arrived at either end.
    pub events: u64,
    /// Over times, sizes and decisions; the same in every run that went the same way.
    pub digest: u64,
}

/// How something is spread.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Spread {
    /// The mean; 0 of nothing.
    pub mean: f64,
    /// Half are no more.
    pub p50: f64,
    /// 95 % are no more.
    pub p95: f64,
}

impl Spread {
    /// Of `micros` in microseconds, in milliseconds.
    #[expect(clippy::cast_precision_loss, reason = "sums stay far below 2^52")]
    pub(in crate::congestion) fn of_micros(mut micros: Vec<u32>) -> Self {
        if micros.is_empty() {
            return Self::default();
        }
        let sum: u64 = micros.iter().map(|it| u64::from(*it)).sum();
        let mut quantile = |percent: usize| {
            let rank = (micros.len() * percent).div_ceil(100).max(1) - 1;
            f64::from(*micros.select_nth_unstable(rank).1) / 1000.0
        };
        let (p50, p95) = (quantile(50), quantile(95));
        Self {
            mean: sum as f64 / micros.len() as f64 / 1000.0,
            p50,
            p95,
        }
    }
}

/// How a session stood at a moment.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Sample {
    /// Since the first packet.
    pub at_s: f64,
    /// Application bytes the server read since the sample before.
    pub goodput_mbps: f64,
    /// What waits in the bottleneck's queue.
    pub queue_bytes: u64,
    /// How long a datagram would wait there.
    pub queue_ms: f64,
    /// The publisher's congestion window.
    pub window_bytes: u64,
    /// What it has on its way.
    pub in_flight_bytes: u64,
    /// At which its packets leave.
    pub pacing_mbps: f64,
    /// What its controller believes the path carries.
    pub deliverable_mbps: f64,
    /// What the encoder is told to make.
    pub bitrate_mbps: f64,
    /// Bytes made and not acknowledged.
    pub backlog_bytes: u64,
    /// Smoothed round trip of the transport.
    pub rtt_ms: f64,
}
