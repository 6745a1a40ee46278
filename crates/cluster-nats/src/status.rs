//! What an operator sees of the engine.

use crate::queue::Dropped;

/// Most warnings that are kept; older ones are dropped.
const WARNINGS_MAX: usize = 16;

/// State of the engine, for health, logs and metrics.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Status {
    /// Whether the engine can be used.
    pub link: Link,
    /// Times that the engine became usable.
    pub connects: u64,
    /// The reason why the last attempt to connect failed, and what to do; `None` after a success.
    pub failure: Option<String>,
    /// Settings of the servers that endanger records, each with what to do about it.
    pub warnings: Vec<String>,
    /// Notices that did not fit into the queue of the core.
    pub dropped: Dropped,
}

/// Whether the engine can be used.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Link {
    /// The first attempt has not ended.
    #[default]
    Connecting,
    /// Records can be read and written through this server.
    Connected {
        /// Address of the server.
        server: String,
    },
    /// There is no connection, or no bucket.
    Away,
}

impl Status {
    /// Whether the engine can be used.
    pub fn is_connected(&self) -> bool {
        matches!(self.link, Link::Connected { .. })
    }

    /// Adds a warning unless it is there. Returns whether it is new.
    pub(crate) fn warn(&mut self, warning: &str) -> bool {
        if self.warnings.iter().any(|it| it == warning) {
            return false;
        }
        if self.warnings.len() == WARNINGS_MAX {
            self.warnings.remove(0);
        }
        self.warnings.push(warning.to_owned());
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn warnings_are_bounded_and_each_stands_once() {
        let mut status = Status::default();
        assert!(status.warn("a"));
        assert!(!status.warn("a"));
        for number in 0..WARNINGS_MAX {
            status.warn(&number.to_string());
        }
        assert_eq!(status.warnings.len(), WARNINGS_MAX);
        assert!(!status.warnings.iter().any(|it| it == "a"));
    }
}
