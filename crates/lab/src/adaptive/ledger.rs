//! Everything that happened to one viewer in a run.

use std::time::Duration;

use serde::Serialize;

use super::decoder::Decoded;

/// Interval of samples.
pub(super) const SAMPLE: Duration = Duration::from_millis(100);

/// Events of a viewer, in the order of time.
#[derive(Debug, Default)]
pub(super) struct Ledger {
    /// Times at which frames were published.
    pub(super) published: Vec<Duration>,
    /// Frames that the viewer decoded.
    pub(super) shown: Vec<Shown>,
    /// Frames that arrived in part and were given up.
    pub(super) abandoned: u64,
    /// Bytes of media datagrams that left the server, and those that came through.
    pub(super) sent_bytes: u64,
    pub(super) received_bytes: u64,
    /// Bytes that came through and were of no use: padding, and packets that came twice.
    pub(super) wasted_bytes: u64,
    /// Media datagrams that left the server, and those of them that the path lost.
    pub(super) sent: u64,
    pub(super) lost: u64,
    /// The counts from three seconds after the join on.
    pub(super) sent_late: u64,
    pub(super) lost_late: u64,
    /// Times from capture to sending of frames, in ms.
    pub(super) waited_ms: Vec<f64>,
    /// Keyframes that the publisher was asked for, by the server for any reason.
    pub(super) keyframes_asked: u64,
    /// Times that arrivals waited at the bottleneck, in ms.
    pub(super) queued_ms: Vec<f32>,
    /// State each 100 ms.
    pub(super) samples: Vec<Sample>,
}

/// A frame that a viewer decoded.
#[derive(Clone, Copy, Debug)]
pub(super) struct Shown {
    /// Time of decoding.
    pub(super) at: Duration,
    /// Time of capture.
    pub(super) captured: Duration,
    /// Position of the encoding, from the best one on.
    pub(super) layer: u8,
    /// Number of the frame.
    pub(super) number: u32,
    pub(super) is_torn: bool,
}

impl Ledger {
    pub(super) fn show(&mut self, decoded: Decoded, at: Duration) {
        let tag = decoded.tag;
        self.shown.push(Shown {
            at,
            captured: Duration::from_micros(tag.captured_us),
            layer: tag.layer,
            number: tag.number,
            is_torn: decoded.is_torn,
        });
    }
}

/// State of a viewer and its path at a time.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Sample {
    /// Time since the start of the run in s.
    pub at_s: f64,
    /// Capacity of the bottleneck in Mbit/s; `None` where nothing limits the path.
    pub capacity_mbps: Option<f64>,
    /// Media that left the server in the last 100 ms, in Mbit/s.
    pub sent_mbps: f64,
    /// Media that the viewer got in the last 100 ms, in Mbit/s.
    pub received_mbps: f64,
    /// The server's estimate of the path in Mbit/s; `None` without one.
    pub estimate_mbps: Option<f64>,
    /// Bitrate of the encoding of which the viewer saw a frame last, in Mbit/s; `None` before the first
    /// frame.
    pub layer_mbps: Option<f64>,
    /// Time that a datagram waits at the bottleneck in ms.
    pub queue_ms: f64,
    /// Frames decoded in the last second.
    pub fps: f64,
}
