//! [`Rule::Coupled`](super::Rule::Coupled): below what the controller says that the path
//! carries.

use std::time::{Duration, Instant};

use glassline_media::Bitrate;

use crate::filter::{Least, Windowed};

/// Of the deliverable rate the encoder takes so much: the rest is for headers,
/// repairs, audio and for the queue to drain.
const SHARE: f64 = 0.9;
/// The backlog is to be gone after so long. Shorter cuts deeper than a fade of LTE
/// lasts; longer is what a viewer feels as delay.
const DRAIN: f64 = 1.5;
/// Grows by at most this a period: doubles in 6 s. Faster, a step would make more
/// queue than the next decision sees ...
const GROWTH_COUPLED: f64 = 1.06;
/// ... unless the path was seen to carry twice as much: then it doubles in 2.5 s.
const GROWTH_FAR: f64 = 1.15;
/// A backlog this much above the pipe's, in seconds of media, is a queue. Two or
/// three frames: less is where in a frame the decision falls.
const QUEUE: f64 = 0.1;
/// After the path was the limit the encoder does not probe for so long: its queue
/// should empty first, or every probe would find it full.
const PROBE_PAUSE: Duration = Duration::from_secs(2);
/// The least backlog of so long is the pipe's, as the least round trip of ten
/// seconds is the path's.
const PIPE_WINDOW: Duration = Duration::from_secs(10);
/// A queue of ours is gone by now, or nearly, since the encoder made less for it.
const DRAIN_PATIENCE: Duration = Duration::from_secs(2);
/// One that is as long as before, within this share, is kept by somebody else ...
const UNMOVED: f64 = 0.3;
/// ... unless it is longer than a home's, in seconds: then the path has stopped.
const OTHERS_QUEUE_MAX: f64 = 1.0;

/// What [`Rule::Coupled`](super::Rule::Coupled) remembers.
#[derive(Clone, Debug)]
pub(super) struct Coupling {
    /// The least backlog since the last decision, in seconds of media.
    backlog: Option<f64>,
    /// The encoder left the path unused at some time since the last decision.
    app_limited: bool,
    /// The least backlog lately: what a path without a queue has on its way.
    pipe: Windowed<f64, Least>,
    /// When the path, not the encoder, last was the limit.
    limited: Option<Instant>,
    /// A queue that is being drained.
    draining: Option<Draining>,
}

/// A queue for which the encoder makes less.
#[derive(Clone, Copy, Debug)]
struct Draining {
    since: Instant,
    /// How long it was then, in seconds of media.
    queued: f64,
}

impl Coupling {
    pub(super) const fn new() -> Self {
        Self {
            backlog: None,
            app_limited: false,
            pipe: Windowed::new(PIPE_WINDOW),
            limited: None,
            draining: None,
        }
    }

    /// `backlog` in seconds of media.
    pub(super) fn observe(&mut self, backlog: f64, app_limited: bool, now: Instant) {
        self.app_limited |= app_limited;
        self.backlog = Some(self.backlog.map_or(backlog, |least| least.min(backlog)));
        self.pipe.record(backlog, now);
    }

    /// The next target after `target`, in bits a second.
    #[expect(clippy::cast_precision_loss, reason = "rates stay far below 2^52")]
    pub(super) fn follow(
        &mut self,
        target: f64,
        deliverable: Option<Bitrate>,
        now: Instant,
    ) -> f64 {
        let backlog = self.backlog.take().unwrap_or(0.0);
        // What is on its way on an empty path is no backlog: it would be deducted for
        // ever where round trips are long.
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
        let Some(deliverable) = deliverable else {
            return target;
        };
        let carried = SHARE * deliverable.bps() as f64 - queued * target / DRAIN;
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
        // Nothing waits, and the rate is only what the encoder made: the path may
        // carry more. Small steps find out.
        let rest = |at: Instant| now.saturating_duration_since(at) < PROBE_PAUSE;
        if self.limited.is_some_and(rest) {
            target
        } else {
            target * GROWTH_COUPLED
        }
    }

    /// The queue does not care that the encoder made less for a while. To make ever less
    /// would leave the path to whoever fills it.
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
