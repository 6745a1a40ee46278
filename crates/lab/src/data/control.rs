//! Messages of the ends of a test to each other, as JSON texts on the channel `control`.
//!
//! ```text
//! client ─ start ─► server ─ ready ─► client        messages go
//! client ◄─ sample … sample, report ─ server        each interval, and at the end
//! ```

use serde::{Deserialize, Serialize};

/// Label of the control channel.
pub const LABEL: &str = "control";
/// Prefix of the labels of channels that carry messages: `data-0`, `data-1`, …
pub const DATA_LABEL: &str = "data-";
/// Longest text on the control channel, in bytes.
pub const TEXT_BYTES_MAX: usize = 4096;

/// A text on the control channel.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "type", rename_all = "snake_case")]
pub enum Control {
    /// The client's channels are all open: messages may be sent.
    Start,
    /// The server sends from now on, and its clock runs.
    Ready,
    /// Figures of the server so far.
    Sample(Sample),
    /// Figures of the server at the end of the test; the last message.
    Report(Sample),
}

/// Figures of one end since the test's start.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Sample {
    /// Time since this end's start, in ms.
    pub at_ms: f64,
    /// Bytes of user data that were sent for the first time.
    pub sent_bytes: u64,
    /// Number of whole messages received.
    pub received_messages: u64,
    /// Bytes of the received messages.
    pub received_bytes: u64,
    /// Smoothed round-trip time of the association, in ms.
    pub rtt_ms: Option<f64>,
    /// Congestion window, in bytes.
    pub cwnd_bytes: u64,
    /// Number of bytes in flight.
    pub in_flight_bytes: u64,
    /// Pacing rate; `None` without pacing.
    pub pacing_mbps: Option<f64>,
    /// Largest size of this end's receive window, in bytes.
    pub window_bytes: u64,
    /// Receive window that the peer advertised last (a_rwnd), in bytes.
    pub peer_window_bytes: u64,
    /// Bytes of user data that were retransmitted.
    pub retransmitted_bytes: u64,
    /// Bytes of user data that were declared lost.
    pub lost_bytes: u64,
    /// Number of retransmission time-outs.
    pub timeouts: u64,
    /// Bytes that the channels hold and that were not sent yet.
    pub buffered_bytes: u64,
    /// Number of times that a channel was filled because it fell to its low-water mark.
    pub refills: u64,
    /// Number of those times at which the channel was empty, so that the sender had nothing to
    /// send.
    pub starved: u64,
    /// Processor time of this end's thread, in seconds; `None` if it is unknown, as in a browser.
    pub cpu_s: Option<f64>,
}

impl Control {
    /// Returns the message as JSON text.
    pub fn to_text(&self) -> String {
        serde_json::to_string(self).expect("plain data")
    }

    /// Parses a text of the peer; `None` if it is no such message.
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

    /// A page sends fewer fields than our ends, and perhaps others.
    #[test]
    fn what_a_page_leaves_out_is_zero() {
        let text = r#"{"type":"sample","at_ms":5,"received_bytes":7,"hue":"red"}"#;
        let Some(Control::Sample(sample)) = Control::parse(text) else {
            panic!("{text}");
        };
        assert_eq!((sample.received_bytes, sample.cpu_s), (7, None));
    }
}
