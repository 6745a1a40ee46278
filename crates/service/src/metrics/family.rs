//! Metrics whose counters exist once for each thread.

use glassline_runtime::Counter;

use super::Metric;

/// Returns one counter of a thread's counters.
type Read<C> = fn(&C) -> &Counter;

/// A metric that several threads or shards count, each for itself.
pub struct Family<C: 'static> {
    /// Name of the metric without the common prefix.
    name: &'static str,
    help: &'static str,
    /// One counter for each value of the label `reason`, or a single counter without that label.
    rows: Rows<C>,
}

enum Rows<C: 'static> {
    Plain(Read<C>),
    ByReason(&'static [(&'static str, Read<C>)]),
}

impl<C> Family<C> {
    /// Creates a counter with one row a thread, read by `read`.
    pub const fn plain(name: &'static str, help: &'static str, read: Read<C>) -> Self {
        let rows = Rows::Plain(read);
        Self { name, help, rows }
    }

    /// Creates a counter with one row a thread and value of a label.
    pub const fn by_reason(
        name: &'static str,
        help: &'static str,
        reasons: &'static [(&'static str, Read<C>)],
    ) -> Self {
        let rows = Rows::ByReason(reasons);
        Self { name, help, rows }
    }

    /// Appends the counts of each of `counting`, distinguished by the label `label`.
    pub fn write(&self, label: &str, counting: &[(String, &C)], text: &mut String) {
        let mut metric = Metric::counter(text, self.name, self.help);
        match self.rows {
            Rows::Plain(read) => {
                for (who, counters) in counting {
                    metric.of([(label, who)], read(counters).get());
                }
            }
            Rows::ByReason(reasons) => {
                for (reason, read) in reasons {
                    for (who, counters) in counting {
                        metric.of([("reason", reason), (label, who)], read(counters).get());
                    }
                }
            }
        }
    }
}
