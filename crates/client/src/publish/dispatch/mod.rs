//! Decides what is sent and which bitrate the encoder makes: the send queue and the bitrate
//! adaptation together. Sans-IO: `now` and the transport's measurements come in.

use std::time::Instant;

use glassline_congestion::adaptation::{self, Adaptation, Rule, Signals};
use glassline_media::{Bitrate, Kind};

use crate::publish::input::BitrateRange;
use crate::publish::queue::{self, SendAction, SendQueue};
use crate::publish::unit::Unit;

/// How a stream adapts to its path.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Config {
    /// Rule that decides the bitrate.
    pub rule: Rule,
    /// Range of the bitrate.
    pub bitrate: BitrateRange,
    /// Bitrate at the beginning.
    pub start: Bitrate,
    /// Bounds of the send queue.
    pub queue: queue::Config,
}

/// A transport's measurements of its path.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Path {
    /// Media bytes that the transport was given and that are not acknowledged.
    pub backlog_bytes: u64,
    /// Media bytes put on the wire so far, without retransmissions.
    pub written_bytes_total: u64,
    /// Bitrate that the path is estimated to carry.
    pub deliverable: Option<Bitrate>,
    /// Whether the transport had less to send than the path takes.
    pub app_limited: bool,
    /// Whether a policer drops what is faster than that bitrate.
    pub policed: bool,
}

/// The send queue of a stream, and the bitrate for its encoder.
#[derive(Debug)]
pub struct Dispatch {
    queue: SendQueue,
    adaptation: Adaptation,
}

impl Dispatch {
    /// Makes an empty queue for tracks of these kinds.
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

    /// Queues a unit for sending.
    pub fn push(&mut self, now: Instant, unit: Unit) {
        self.queue.push(now, unit);
    }

    /// Starts anew on another transport, which has nothing of what was sent before: what
    /// waits begins with a keyframe.
    pub fn restart(&mut self) {
        self.queue.restart();
    }

    /// Takes the path's measurements and returns the bitrate for the encoder. Call it with
    /// every unit, and ten times a second where none comes.
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
                policed: path.policed,
            },
        )
    }

    /// The bitrate that [`Self::observe`] returned last.
    pub fn target(&self) -> Bitrate {
        self.adaptation.target()
    }

    /// Returns the next action; `room` says whether the transport takes media.
    pub fn next(&mut self, now: Instant, room: bool) -> Option<SendAction> {
        if room {
            self.queue.next(now)
        } else {
            self.queue.next_reset(now)
        }
    }

    /// The send queue, for its counts.
    pub const fn queue(&self) -> &SendQueue {
        &self.queue
    }

    /// Whether the encoder should make a keyframe; returned once for each need.
    pub const fn take_keyframe_request(&mut self) -> bool {
        self.queue.take_keyframe_request()
    }
}

#[cfg(test)]
mod tests;
