//! The rule [`Rule::Coupled`](super::Rule::Coupled): keeps the encoder below what the
//! controller says that the path carries.

use std::time::{Duration, Instant};

use super::Signals;
use crate::filter::{Least, Windowed};

/// Share of the deliverable rate that the encoder takes. The rest is for headers,
/// retransmissions, audio, and for the queue to drain.
const SHARE: f64 = 0.9;
/// Share of a policer's rate that the encoder takes. That rate does not change, no queue has
/// to drain, and what is sent below it is not lost.
const SHARE_POLICED: f64 = 0.95;
/// Time within which the backlog shall drain, in seconds. A shorter time cuts deeper than a
/// fade of LTE lasts; a longer one is delay that a viewer feels.
const DRAIN: f64 = 1.5;
/// Largest growth per period: doubles in 6 s. With faster growth, a step would build more
/// queue than the next decision sees.
const GROWTH_COUPLED: f64 = 1.06;
/// Largest growth per period while the path was seen to carry twice the target: doubles in
/// 2.5 s.
const GROWTH_FAR: f64 = 1.15;
/// Backlog above that of an empty path from which it counts as a queue, in seconds of
/// media: two or three frames. Less is noise of where in a frame the decision falls.
const QUEUE: f64 = 0.1;
/// Time after the path was the limit during which the encoder does not probe: its queue
/// should empty first, or every probe would find it full.
const PROBE_PAUSE: Duration = Duration::from_secs(2);
/// Window over which the least backlog counts as that of an empty path, like the smallest
/// round trip of ten seconds.
const PIPE_WINDOW: Duration = Duration::from_secs(10);
/// Time after which a queue of our own has drained, or nearly, since the encoder sends less
/// for it.
const DRAIN_PATIENCE: Duration = Duration::from_secs(2);
/// Share by which a queue must have changed in that time; otherwise other flows keep it.
const UNMOVED: f64 = 0.3;
/// Longest queue of other flows, in seconds. A longer one than a home router's means that
/// the path has stopped.
const OTHERS_QUEUE_MAX: f64 = 1.0;

/// State of the rule [`Rule::Coupled`](super::Rule::Coupled).
#[derive(Clone, Debug)]
pub(super) struct Coupling {
    /// Least backlog since the last decision, in seconds of media.
    backlog: Option<f64>,
    /// Whether the encoder left the path unused at some time since the last decision.
    app_limited: bool,
    /// Least recent backlog, in seconds of media: what an empty path has in flight.
    pipe: Windowed<f64, Least>,
    /// When the path, not the encoder, was the limit last.
    limited: Option<Instant>,
    /// The queue that is being drained, if there is one.
    draining: Option<Draining>,
}

/// A queue for which the encoder sends less.
#[derive(Clone, Copy, Debug)]
struct Draining {
    /// Time at which draining began.
    since: Instant,
    /// Length of the queue when draining began, in seconds of media.
    queued: f64,
}

impl Coupling {
    /// Returns the state before the first decision.
    pub(super) const fn new() -> Self {
        Self {
            backlog: None,
            app_limited: false,
            pipe: Windowed::new(PIPE_WINDOW),
            limited: None,
            draining: None,
        }
    }

    /// Records the backlog between decisions. `backlog`: in seconds of media.
    pub(super) fn observe(&mut self, backlog: f64, app_limited: bool, now: Instant) {
        self.app_limited |= app_limited;
        self.backlog = Some(self.backlog.map_or(backlog, |least| least.min(backlog)));
        self.pipe.record(backlog, now);
    }

    /// Returns the target that follows `target`, both in bit/s.
    #[expect(clippy::cast_precision_loss, reason = "rates stay far below 2^52")]
    pub(super) fn follow(&mut self, target: f64, signals: Signals, now: Instant) -> f64 {
        let backlog = self.backlog.take().unwrap_or(0.0);
        // Data in flight on an empty path is no backlog: it would always be deducted where
        // round trips are long.
        let mut queued = backlog - self.pipe.get().unwrap_or(0.0).min(backlog);
        if self.is_others(queued, now) {
            self.pipe = Windowed::new(PIPE_WINDOW);
            self.pipe.record(backlog, now);
            queued = 0.0;
        }
        let app_limited = std::mem::take(&mut self.app_limited);
        let path_limited = !app_limited || queued > QUEUE;
        if path_limited {
            self.limited = Some(now);
        }
        let Some(deliverable) = signals.deliverable else {
            return target;
        };
        let share = if signals.policed {
            SHARE_POLICED
        } else {
            SHARE
        };
        let carried = share * deliverable.bps() as f64 - queued * target / DRAIN;
        if queued > QUEUE {
            return carried.min(target);
        }
        if carried >= target {
            let far = carried >= 2.0 * target;
            let growth = if far { GROWTH_FAR } else { GROWTH_COUPLED };
            return carried.min(target * growth);
        }
        if path_limited {
            return carried;
        }
        // Nothing waits, and the measured rate is only what the encoder sent: the path may
        // carry more. Small steps find out.
        let rest = |at: Instant| now.saturating_duration_since(at) < PROBE_PAUSE;
        if self.limited.is_some_and(rest) {
            target
        } else {
            target * GROWTH_COUPLED
        }
    }

    /// Whether other flows keep the queue: it did not shrink although the encoder sent less
    /// for a while. Sending ever less would leave the path to them.
    fn is_others(&mut self, queued: f64, now: Instant) -> bool {
        if queued <= QUEUE {
            self.draining = None;
            return false;
        }
        let draining = *self.draining.get_or_insert(Draining { since: now, queued });
        if now.saturating_duration_since(draining.since) < DRAIN_PATIENCE {
            return false;
        }
        self.draining = None;
        let unmoved = (queued / draining.queued - 1.0).abs() <= UNMOVED;
        unmoved && queued <= OTHERS_QUEUE_MAX
    }
}
