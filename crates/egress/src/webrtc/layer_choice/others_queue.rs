//! Whether the queue on a path is that of other flows.
//!
//! ```text
//! standing queue  ▁▂▄▆│▅▃▁▁      the viewer's own: a lower layer lets it drain
//!                 ▁▂▄▆│▆▇▅▆      of others, or a longer way: a lower layer changes nothing
//!                     └ the viewer moves down
//! ```
//!
//! A flow that fills every queue takes what a viewer leaves of the path, so that queue and trains would hold
//! the viewer at the bottom for ever.

use std::time::{Duration, Instant};

use super::{QUEUE_MAX, WAIT_MAX};

/// Time in which a queue of the viewer's own has become shorter.
const PATIENCE: Duration = Duration::from_secs(2);
/// Part of its length that a queue of others still has, in percent.
const UNMOVED_PERCENT: u32 = 70;
/// Time for which a path has no queue after which the others are gone. Those that give way after a loss are
/// back within seconds, and a path that was never seen without them seems to be empty meanwhile.
const GONE: Duration = Duration::from_secs(4);
/// Part of its length from which on a queue of others is another one, in percent.
const GROWN_PERCENT: u32 = 250;

/// The queue on the path of a viewer that moved down.
#[derive(Debug, Default)]
pub(super) struct OthersQueue {
    watched: Option<Watched>,
    /// Length of the queue that is of others.
    found: Option<Duration>,
    /// Time since which that queue has been empty.
    emptied: Option<Instant>,
}

/// A queue that should become shorter.
#[derive(Clone, Copy, Debug)]
struct Watched {
    since: Instant,
    standing: Duration,
}

impl OthersQueue {
    /// Returns whether the queue is that of others.
    pub(super) const fn stands(&self) -> bool {
        self.found.is_some()
    }

    /// Notes that the viewer gets another layer.
    pub(super) const fn restart(&mut self) {
        self.watched = None;
    }

    /// Notes the standing queue. That of others is over once it has been empty for a while, or is much longer.
    pub(super) fn note(&mut self, standing: Duration, now: Instant) {
        let is_other = |found: Duration| standing > found * GROWN_PERCENT / 100;
        let emptied = match standing < QUEUE_MAX / 2 {
            true => Some(self.emptied.unwrap_or(now)),
            false => None,
        };
        let are_gone = emptied.is_some_and(|at| now.saturating_duration_since(at) >= GONE);
        if are_gone || self.found.is_some_and(is_other) {
            (self.found, self.watched) = (None, None);
        }
        self.emptied = emptied;
    }

    /// Watches the standing queue of a viewer that got less than its path seemed to carry, and for which frames
    /// have `waited`.
    pub(super) fn watch(&mut self, standing: Duration, waited: Duration, now: Instant) {
        if standing < QUEUE_MAX || waited >= WAIT_MAX {
            self.watched = None;
            return;
        }
        let watched = *self.watched.get_or_insert(Watched {
            since: now,
            standing,
        });
        if now.saturating_duration_since(watched.since) >= PATIENCE {
            self.watched = None;
            if standing >= watched.standing * UNMOVED_PERCENT / 100 {
                self.found = Some(standing.max(watched.standing));
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: Duration = Duration::from_millis(1);

    /// Notes a queue each 100 ms; returns whether it is that of others in the end.
    fn find(queue: &mut OthersQueue, start: Instant, of: impl Fn(u32) -> u32) -> bool {
        for step in 0..60 {
            let at = start + 100 * MS * step;
            queue.note(of(step) * MS, at);
            queue.watch(of(step) * MS, Duration::ZERO, at);
        }
        queue.stands()
    }

    #[test]
    fn a_queue_that_drains_is_the_viewer_s_own() {
        let (now, mut queue) = (Instant::now(), OthersQueue::default());
        assert!(!find(&mut queue, now, |step| 600_u32.saturating_sub(10 * step)));
        assert!(!find(&mut queue, now, |step| 300_u32.saturating_sub(50 * step)));
    }

    #[test]
    fn a_queue_that_stays_is_of_others_until_it_is_empty_or_grows() {
        let (now, mut queue) = (Instant::now(), OthersQueue::default());
        let at = |seconds| now + 1_000 * MS * seconds;
        assert!(find(&mut queue, at(0), |step| 180 + 3 * step));
        let giving_way = |step| if step % 40 < 20 { 10 } else { 150 };
        assert!(find(&mut queue, at(10), giving_way));
        assert!(!find(&mut queue, at(20), |_| 20));
        assert!(find(&mut queue, at(30), |_| 100));
        queue.note(300 * MS, at(40));
        assert!(!queue.stands());
    }

    #[test]
    fn a_queue_with_frames_that_wait_is_no_proof() {
        let (now, mut queue) = (Instant::now(), OthersQueue::default());
        for step in 0..40 {
            queue.watch(200 * MS, WAIT_MAX, now + 100 * MS * step);
        }
        assert!(!queue.stands());
    }
}
