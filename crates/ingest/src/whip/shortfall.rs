//! Why a publisher that connected is not live.

use std::time::Duration;

/// The lack of a publisher's media until viewers could begin with them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Shortfall {
    /// The media that arrived, as a sentence without a full stop.
    pub reason: String,
    /// The change that helps.
    pub remedy: &'static str,
}

impl Shortfall {
    /// Judges the packets that `arrived`, and those that were of no `unnegotiated` stream, within the
    /// time since the handshake.
    pub(super) fn of(arrived: u64, unnegotiated: u64, waited: Duration) -> Self {
        let within = waited.as_secs();
        let (reason, remedy) = match (arrived, unnegotiated) {
            (0, 0) => (
                format!("connected, but no media packet arrived within {within} s"),
                "see whether the encoder has begun, and whether a firewall lets its larger datagrams pass: a \
                 smaller MTU of its packets may help",
            ),
            (0, count) => (
                format!(
                    "connected, but none of its {count} packets within {within} s has a payload type or an \
                     SSRC that offer and answer have"
                ),
                "the encoder must send the codecs and payload types of the answer",
            ),
            (count, _) => (
                format!(
                    "connected, and {count} packets arrived, but no keyframe with parameter sets within {within} s"
                ),
                "set the encoder's keyframe interval to 1 or 2 s, have it repeat SPS and PPS with each keyframe, \
                 and look whether its packets are of the codec of the answer",
            ),
        };
        Self { reason, remedy }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn publishers_without_media_are_told_what_arrived() {
        let of = |arrived, other| Shortfall::of(arrived, other, Duration::from_secs(9)).reason;
        assert!(of(0, 0).contains("no media packet arrived within 9 s"));
        assert!(of(0, 7).contains("none of its 7 packets within 9 s"));
        assert!(of(20, 7).contains("20 packets arrived, but no keyframe"));
    }
}
