//! Counters that several threads count each for itself.

use std::fmt::Write;

use super::head;
use crate::runtime::Counter;

/// How a counter is reached among all that one thing counts.
type Read<C> = fn(&C) -> &Counter;

/// A metric that several things count, each for itself: threads, shards.
pub(crate) struct Family<C: 'static> {
    /// Without the prefix that all have.
    name: &'static str,
    help: &'static str,
    /// A counter for each value of the label `reason`; one without.
    rows: Rows<C>,
}

enum Rows<C: 'static> {
    Plain(Read<C>),
    ByReason(&'static [(&'static str, Read<C>)]),
}

impl<C> Family<C> {
    pub(crate) const fn plain(name: &'static str, help: &'static str, read: Read<C>) -> Self {
        let rows = Rows::Plain(read);
        Self { name, help, rows }
    }

    pub(crate) const fn by_reason(
        name: &'static str,
        help: &'static str,
        reasons: &'static [(&'static str, Read<C>)],
    ) -> Self {
        let rows = Rows::ByReason(reasons);
        Self { name, help, rows }
    }

    /// Appends what each of `counting` has counted, told apart by `label`.
    pub(crate) fn write(&self, label: &str, counting: &[(String, &C)], text: &mut String) {
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
