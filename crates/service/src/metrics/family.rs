//! Metrics whose counters exist once for each thread.

use std::fmt::Write;

use glassline_runtime::Counter;

use super::head;

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
        let name = self.name;
        head(text, name, "counter", self.help);
        let mut row = |reason: &str, read: Read<C>| {
            for (who, counters) in counting {
                let count = read(counters).get();
                let _ = writeln!(
                    text,
                    "glassline_{name}{{{reason}{label}=\"{who}\"}} {count}"
                );
            }
        };
        match self.rows {
            Rows::Plain(read) => row("", read),
            Rows::ByReason(reasons) => {
                for (reason, read) in reasons {
                    row(&format!("reason=\"{reason}\","), *read);
                }
            }
        }
    }
}
