//! What both ends tell each other on the channel `control`, as JSON texts.
//!
//! ```text
//! client ─ start ─► server ─ ready ─► client        messages go
//! client ◄─ sample … sample, report ─ server        each interval, and at the end
//! ```

use serde::{Deserialize, Serialize};

/// Label of the channel. Those that carry messages are `data-0`, `data-1`, …
pub const LABEL: &str = "control";
/// What labels of channels with messages begin with.
pub const DATA_LABEL: &str = "data-";
/// A text is no longer than this.
pub const TEXT_BYTES_MAX: usize = 4096;

/// One text.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "type", rename_all = "snake_case")]
pub enum Control {
    /// All channels are open: messages may go.
    Start,
    /// They go from now on, and the server's clock runs.
    Ready,
    /// The server's figures so far.
    Sample(Sample),
    /// The server's figures at its end; nothing follows.
    Report(Sample),
}

/// One end's figures since the test's start.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Sample {
    /// Since this end's start.
    pub at_ms: f64,
    /// User data sent for the first time.
    pub sent_bytes: u64,
    /// Whole messages received.
    pub received_messages: u64,
    /// Their bytes.
    pub received_bytes: u64,
    /// Smoothed round trip of the association.
    pub rtt_ms: Option<f64>,
    /// Congestion window.
    pub cwnd_bytes: u64,
    /// On the way.
    pub in_flight_bytes: u64,
    /// At which packets leave at the most.
    pub pacing_mbps: Option<f64>,
    /// What the receive window of this end may grow to.
    pub window_bytes: u64,
    /// What the peer still takes.
    pub peer_window_bytes: u64,
    /// User data sent again.
    pub retransmitted_bytes: u64,
    /// User data declared lost.
    pub lost_bytes: u64,
    /// Retransmission time-outs.
    pub timeouts: u64,
    /// Handed over and not yet sent.
    pub buffered_bytes: u64,
    /// Times that messages were handed over because a channel fell to its low mark.
    pub refills: u64,
    /// Of those, with nothing left in the channel: the sender had run dry.
    pub starved: u64,
    /// Processor time of the thread that is this end; `None` if it cannot be known
    /// (a browser).
    pub cpu_s: Option<f64>,
}

impl Control {
    /// The text.
    pub fn to_text(&self) -> String {
        serde_json::to_string(self).expect("plain data")
    }

    /// Reads a text of the peer's.
    pub fn parse(text: &str) -> Option<Self> {
        (text.len() <= TEXT_BYTES_MAX)
            .then(|| serde_json::from_str(text).ok())
            .flatten()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn texts_are_read_again() {
        let sample = Sample {
            at_ms: 1000.5,
            received_bytes: 12,
            rtt_ms: Some(0.5),
            ..Sample::default()
        };
        for control in [
            Control::Start,
            Control::Ready,
            Control::Sample(sample),
            Control::Report(sample),
        ] {
            assert_eq!(Control::parse(&control.to_text()), Some(control));
        }
        assert_eq!(Control::Start.to_text(), r#"{"type":"start"}"#);
        assert_eq!(Control::parse("{}"), None);
        assert_eq!(Control::parse(&" ".repeat(TEXT_BYTES_MAX + 1)), None);
    }

    /// A page tells less than our ends, and perhaps more.
    #[test]
    fn what_a_page_leaves_out_is_zero() {
        let text = r#"{"type":"sample","at_ms":5,"received_bytes":7,"hue":"red"}"#;
        let Some(Control::Sample(sample)) = Control::parse(text) else {
            panic!("{text}");
        };
        assert_eq!((sample.received_bytes, sample.cpu_s), (7, None));
    }
}
