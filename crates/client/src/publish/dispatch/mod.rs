//! Decides what is sent and what the encoder makes: the queue and the adaptation,
//! joined. Sans-IO: `now` and what the transport sees come in.

use std::time::Instant;

use glassline_congestion::adaptation::{self, Adaptation, Rule, Signals};
use glassline_media::{Bitrate, Kind};

use crate::publish::input::BitrateRange;
use crate::publish::queue::{self, Order, SendQueue};
use crate::publish::unit::Unit;

/// How a stream follows its path.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Config {
    /// By what the bitrate is decided.
    pub rule: Rule,
    /// Between these.
    pub bitrate: BitrateRange,
    /// To begin with.
    pub start: Bitrate,
    /// What may wait.
    pub queue: queue::Config,
}

/// What a transport tells of itself.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Path {
    /// Media bytes that it was given and that are not acknowledged.
    pub backlog_bytes: u64,
    /// Media bytes that it has put on the wire so far, repeats not counted.
    pub written_bytes_total: u64,
    /// What it believes that the path carries.
    pub deliverable: Option<Bitrate>,
    /// It has had less to send than the path takes.
    pub app_limited: bool,
}

/// The queue of a stream, and what its encoder is told.
#[derive(Debug)]
pub struct Dispatch {
    queue: SendQueue,
    adaptation: Adaptation,
}

impl Dispatch {
    /// For tracks of these kinds.
    pub fn new(config: &Config, kinds: &[Kind]) -> Self {
        let limits = adaptation::Config {
            min: config.bitrate.min,
            max: config.bitrate.max,
            start: config.start,
            ..adaptation::Config::default()
        };
        Self {
            queue: SendQueue::new(config.queue, kinds),
            adaptation: Adaptation::new(config.rule, limits),
        }
    }

    /// Takes a unit that was made.
    pub fn push(&mut self, now: Instant, unit: Unit) {
        self.queue.push(now, unit);
    }

    /// The transport is another one, which has nothing of what was sent before: what
    /// waits begins with a keyframe.
    pub fn restart(&mut self) {
        self.queue.restart();
    }

    /// Takes note of the path, and returns what the encoder shall make. To be called
    /// with every unit, and ten times a second where none comes.
    pub fn observe(&mut self, now: Instant, path: &Path) -> Bitrate {
        self.queue.enforce(now);
        let waiting = self.queue.bytes();
        self.adaptation.decide(
            now,
            Signals {
                backlog_bytes: waiting + path.backlog_bytes,
                written_bytes_total: path.written_bytes_total,
                deliverable: path.deliverable,
                // The transport may have run dry while more waits here.
                app_limited: path.app_limited && waiting == 0,
            },
        )
    }

    /// What the encoder was last told.
    pub fn target(&self) -> Bitrate {
        self.adaptation.target()
    }

    /// What to do next; `room` says whether the transport takes media.
    pub fn next(&mut self, now: Instant, room: bool) -> Option<Order> {
        if room {
            self.queue.next(now)
        } else {
            self.queue.next_reset(now)
        }
    }

    /// The queue's counts.
    pub const fn queue(&self) -> &SendQueue {
        &self.queue
    }

    /// Whether the encoder should make a keyframe; tells once.
    pub const fn take_keyframe_request(&mut self) -> bool {
        self.queue.take_keyframe_request()
    }
}

#[cfg(test)]
mod tests;
