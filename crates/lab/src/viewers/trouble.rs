//! Head-of-line blocking: whether clients that do not read delay the other viewers.

use glassline_client::viewers::Conduct;
use serde::{Deserialize, Serialize};

use crate::viewers::timing::Gap;

/// Clients that hinder a server which waits for each client.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Trouble {
    /// Number of clients that stop reading two seconds after their media began.
    pub stalled: usize,
    /// Number of clients that do the same over a TCP connection, whatever the viewers use.
    #[serde(default)]
    pub stalled_over_tcp: usize,
    /// Number of clients that read at [`Self::slow_bytes_per_second`].
    pub slow: usize,
    /// Byte rate of the slow clients.
    pub slow_bytes_per_second: u64,
    /// Number of clients with a receive buffer of 4096 bytes.
    pub tiny_window: usize,
}

/// Comparison of the same viewers without hindering clients and, right afterwards for the same
/// time, with them.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Hol {
    /// The clients that hinder the viewers.
    #[serde(flatten)]
    pub trouble: Trouble,
    /// Number of hindering clients whose connection was over at the end. A stalled client does
    /// not notice that.
    pub trouble_ended: usize,
    /// Time of each of the two measurements, in seconds.
    pub duration_s: f64,
    /// Intervals between the viewers' frames without hindering clients: those of the step.
    pub baseline_gap_ms: Gap,
    /// Intervals between the viewers' frames with hindering clients.
    pub gap_ms: Gap,
    /// Intervals with hindering clients less those without; negative where noise was larger than
    /// the effect.
    pub extra_gap_ms: Gap,
    /// Delivered ratio of the viewers with hindering clients.
    pub delivered_ratio: f64,
    /// Loss of the viewers with hindering clients.
    pub loss_ratio: f64,
    /// Number of viewers that ended during the second measurement.
    pub failed: usize,
}

impl Trouble {
    /// Whether there are no such clients.
    pub const fn is_none(&self) -> bool {
        self.count() == 0
    }

    /// Returns the number of hindering clients.
    pub const fn count(&self) -> usize {
        self.stalled + self.stalled_over_tcp + self.slow + self.tiny_window
    }

    /// Behavior of each client that uses the viewers' transport.
    pub fn conducts(&self) -> impl Iterator<Item = Conduct> {
        let slow = Conduct::Slow {
            bytes_per_second: self.slow_bytes_per_second,
        };
        [
            (Conduct::Stall, self.stalled),
            (slow, self.slow),
            (Conduct::TinyWindow, self.tiny_window),
        ]
        .into_iter()
        .flat_map(|(conduct, count)| std::iter::repeat_n(conduct, count))
    }

    /// Description like "1 stalled, 2 slow".
    pub fn named(&self) -> String {
        let kinds = [
            (self.stalled, "stalled"),
            (self.stalled_over_tcp, "stalled over TCP"),
            (self.slow, "slow"),
            (self.tiny_window, "tiny-window"),
        ];
        let kinds = kinds.iter().filter(|(count, _)| *count > 0);
        let kinds: Vec<String> = kinds
            .map(|(count, name)| format!("{count} {name}"))
            .collect();
        kinds.join(", ")
    }
}

/// Increase over `before`, where both figures are known.
pub(crate) fn extra(before: Gap, after: Gap) -> Gap {
    let less = |before: Option<f64>, after: Option<f64>| Some(after? - before?);
    Gap {
        p99: less(before.p99, after.p99),
        max: less(before.max, after.max),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_kind_comes_as_often_as_asked_for() {
        let trouble = Trouble {
            stalled: 2,
            stalled_over_tcp: 3,
            slow: 1,
            slow_bytes_per_second: 5,
            tiny_window: 1,
        };
        let conducts: Vec<_> = trouble.conducts().collect();
        let slow = Conduct::Slow {
            bytes_per_second: 5,
        };
        assert_eq!(
            conducts,
            [Conduct::Stall, Conduct::Stall, slow, Conduct::TinyWindow]
        );
        assert_eq!(trouble.count(), 7);
        let named = "2 stalled, 3 stalled over TCP, 1 slow, 1 tiny-window";
        assert_eq!(trouble.named(), named);
        assert!(Trouble::default().is_none() && Trouble::default().named().is_empty());
    }

    #[test]
    fn extra_gaps_need_both_sides() {
        let gap = |p99, max| Gap { p99, max };
        let more = extra(gap(Some(40.0), Some(50.0)), gap(Some(39.0), Some(530.0)));
        assert_eq!(more, gap(Some(-1.0), Some(480.0)));
        assert_eq!(extra(Gap::default(), gap(Some(1.0), None)), Gap::default());
    }
}
