//! Head-of-line blocking: whether clients that do not read delay those that do.

use glassline_client::viewers::Conduct;
use serde::{Deserialize, Serialize};

use crate::viewers::timing::Gap;

/// Clients that hinder a server which waits for them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Trouble {
    /// Clients that stop reading two seconds after their media began.
    pub stalled: usize,
    /// Clients that read at [`Self::slow_bytes_per_second`].
    pub slow: usize,
    /// At which the slow ones read.
    pub slow_bytes_per_second: u64,
    /// Clients with 4096 bytes of receive buffer.
    pub tiny_window: usize,
}

/// The same good viewers without such clients and, right afterwards and for as long,
/// with them.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Hol {
    /// Who came.
    #[serde(flatten)]
    pub trouble: Trouble,
    /// Of them, those whose connection was over at the end. One that has stalled does
    /// not notice.
    pub trouble_ended: usize,
    /// How long the good viewers were watched each time.
    pub duration_s: f64,
    /// Between good viewers' frames without them: that of the step.
    pub baseline_gap_ms: Gap,
    /// The same with them.
    pub gap_ms: Gap,
    /// The second less the first: negative where noise was larger than harm.
    pub extra_gap_ms: Gap,
    /// Of the good viewers, with them.
    pub delivered_ratio: f64,
    /// Of the good viewers, with them.
    pub loss_ratio: f64,
    /// Good viewers that ended meanwhile.
    pub failed: usize,
}

impl Trouble {
    /// Nobody.
    pub const fn is_none(&self) -> bool {
        self.count() == 0
    }

    /// How many clients.
    pub const fn count(&self) -> usize {
        self.stalled + self.slow + self.tiny_window
    }

    /// How each of them behaves.
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

    /// Like "1 stalled, 2 slow".
    pub fn named(&self) -> String {
        let kinds = [
            (self.stalled, "stalled"),
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

/// What came on top of `before`, where both are known.
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
        assert_eq!(trouble.count(), 4);
        assert_eq!(trouble.named(), "2 stalled, 1 slow, 1 tiny-window");
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
