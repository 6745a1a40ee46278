//! Whose queue it is, and what to do if it is not ours.
//!
//! A flow that keeps the queue short starves beside one that fills it. Copa (§2.2)
//! takes a queue that was not nearly empty for five round trips for somebody else's,
//! but so does a fade of a radio link look, and a long route. So we ask: the window
//! shrinks by the queue (or by half) for a round trip. A queue of our own shrinks by
//! as much; of one that we share only our part goes, and the others fill it again
//! (elasticity: Goyal et al., SIGCOMM 2022, Nimbus, ask by pulses). Beside others
//! the window is CUBIC's, as in Nimbus: their equal, whatever the buffer. From time
//! to time we ask again.

use std::time::{Duration, Instant};

use crate::Ack;
use crate::cubic::Cubic;

use super::queue::Queue;

/// Round trips with a queue before we ask (Copa §2.2).
const FULL_ROUNDS: u32 = 5;
/// Answers that it is not ours before we believe it.
const FOREIGN_MIN: u32 = 2;
/// Answers that it is ours before we believe that they are gone.
const OURS_MIN: u32 = 3;
/// How long the others' queue may be in the least round trip.
const RECENT: Duration = Duration::from_secs(20);
/// A queue of our own shrinks by at least this share of what we held back.
const OURS: f64 = 0.7;
/// Beside one other flow this share of the queue would be fair; more of them correct
/// it by their losses.
const FAIR: f64 = 0.5;
/// Less than this is too little: CUBIC's flows take minutes to become equal, but we
/// know how far we are.
const SMALL: f64 = 0.42;
/// A fade of a radio link answers with more than this.
const UNNOTICED: f64 = 0.2;
/// CUBIC's decrease (RFC 9438 §4.6).
const KEPT: f64 = 0.7;
/// What a window aims at is at most so many times itself: an answer is not exact.
const AIM_MAX: f64 = 4.0;
/// No more than this share of the window is held back.
const CUT_MAX: f64 = 0.5;
/// A change of the queue smaller than this, or than this share of the round trip,
/// cannot be told from noise.
const TELLING_MIN: Duration = Duration::from_millis(4);
const TELLING_SHARE: f64 = 0.05;
/// Between questions while competing.
const ASK_AGAIN: Duration = Duration::from_secs(4);
const ASK_AGAIN_ROUNDS: u32 = 20;
/// Between answers that it is ours: not all within one loss of another.
const ASK_SURE: Duration = Duration::from_secs(1);
/// Without a queue for so long there is nothing to compete for.
const EMPTY: Duration = Duration::from_secs(3);

/// The competitive mode.
#[derive(Clone, Debug)]
pub(super) struct Competition {
    rival: Option<Cubic>,
    question: Option<Question>,
    /// Answers in a row that the queue is not ours; that it is, while competing.
    foreign: u32,
    ours: u32,
    left: Option<Instant>,
    asked: Option<Instant>,
    /// When there was a queue last that could tell something.
    queued: Option<Instant>,
    /// The window while the queue was last as short as we want it.
    uncontested: f64,
}

/// A window held back, to see what the queue does.
#[derive(Clone, Copy, Debug)]
struct Question {
    began: Instant,
    window: f64,
    queue: Duration,
    /// What a queue of our own would shrink by.
    expected: Duration,
    /// When in flight had come down.
    reached: Option<Instant>,
    /// The answer since then.
    answer: Option<Answer>,
}

/// What packets tell that left after the window had shrunk.
#[derive(Clone, Copy, Debug)]
struct Answer {
    /// When the first of them was acknowledged.
    first: Instant,
    /// The shortest queue that they met.
    shortest: Duration,
}

/// What a question depends on.
#[derive(Clone, Copy, Debug)]
pub(super) struct Surroundings {
    pub(super) window: f64,
    pub(super) mtu: f64,
    /// What is delivered, in bytes a second.
    pub(super) rate: f64,
    /// How unevenly acknowledgements come: round trips are known to within this.
    pub(super) noise: Duration,
    /// The queue that we aim at.
    pub(super) target: Duration,
    /// The window is used, and nothing else is being asked.
    pub(super) may_ask: bool,
}

/// What came out.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Verdict {
    /// Others fill the queue: their equal from here on.
    Compete,
    /// They are gone.
    Leave,
}

impl Competition {
    pub(super) const fn new() -> Self {
        Self {
            rival: None,
            question: None,
            foreign: 0,
            ours: 0,
            left: None,
            asked: None,
            queued: None,
            uncontested: 0.0,
        }
    }

    pub(super) const fn is_active(&self) -> bool {
        self.rival.is_some()
    }

    /// Others fill the queue, or did so lately: the least round trips of late have
    /// their queue in them.
    pub(super) fn is_recent(&self, now: Instant) -> bool {
        let recent = |left| now.saturating_duration_since(left) < RECENT;
        self.is_active() || self.left.is_some_and(recent)
    }

    /// The window is not to move: we are waiting for an answer, or for the next.
    pub(super) const fn is_asking(&self) -> bool {
        self.question.is_some() || self.foreign > 0
    }

    /// CUBIC's part while competing.
    pub(super) const fn rival(&mut self) -> Option<&mut Cubic> {
        self.rival.as_mut()
    }

    pub(super) const fn rival_window(&self) -> Option<&Cubic> {
        self.rival.as_ref()
    }

    /// Most that may be in flight while we ask.
    pub(super) fn held_back(&self) -> Option<f64> {
        self.question.map(|question| question.window)
    }

    #[expect(clippy::cast_precision_loss, reason = "windows stay far below 2^52")]
    pub(super) fn on_ack(
        &mut self,
        ack: &Ack<'_>,
        queue: &mut Queue,
        of: &Surroundings,
    ) -> Option<Verdict> {
        let now = ack.now;
        if let Some(question) = &mut self.question {
            if question.reached.is_none() && ack.in_flight as f64 <= question.window {
                question.reached = Some(now);
            }
            let answered = question.listen(ack, queue);
            let (began, expected, before) = (question.began, question.expected, question.queue);
            let late = now.saturating_duration_since(began);
            if let Some(shortest) = answered {
                self.question = None;
                self.asked = Some(now);
                let shrunk = before.saturating_sub(shortest.saturating_sub(of.noise));
                let share = shrunk.as_secs_f64() / expected.as_secs_f64();
                return self.conclude(share, now, queue, of);
            }
            if late > queue.smoothed() * 6 + Duration::from_secs(1) {
                self.question = None;
                self.asked = Some(now);
            }
            return None;
        }
        if queue.delay() >= telling(queue, of.noise) || self.queued.is_none() {
            self.queued = Some(now);
        }
        if self.is_active() {
            let empty = self.queued.map(|at| now.saturating_duration_since(at));
            if empty.is_some_and(|empty| empty > EMPTY) {
                return Some(self.leave(now));
            }
        } else {
            if queue.full_for(now).is_zero() {
                self.foreign = 0;
            }
            if queue.delay() <= of.target && self.foreign == 0 {
                self.uncontested = of.window;
            }
        }
        if of.may_ask && self.is_due(now, queue, of.target) {
            self.question = Question::new(ack, queue, of);
        }
        None
    }

    fn is_due(&self, now: Instant, queue: &Queue, target: Duration) -> bool {
        let smoothed = queue.smoothed();
        let since = self.asked.map(|at| now.saturating_duration_since(at));
        if self.is_active() {
            let pause = match self.ours {
                0 => ASK_AGAIN.max(smoothed * ASK_AGAIN_ROUNDS),
                _ => ASK_SURE.max(smoothed * 2),
            };
            return since.is_none_or(|since| since > pause);
        }
        // Round trips as our own queue would make them: another's makes them longer.
        let period = (queue.least() + target * 2) * FULL_ROUNDS;
        let pause = if self.foreign > 0 {
            smoothed * 2
        } else {
            period
        };
        queue.full_for(now) > period && since.is_none_or(|since| since > pause)
    }

    fn conclude(
        &mut self,
        share: f64,
        now: Instant,
        queue: &mut Queue,
        of: &Surroundings,
    ) -> Option<Verdict> {
        if share >= OURS {
            self.foreign = 0;
            self.ours += 1;
            queue.count_anew(now);
            // Once may be another's loss that fell together with our question.
            let enough = self.is_active() && self.ours >= OURS_MIN;
            return enough.then(|| self.leave(now));
        }
        self.ours = 0;
        self.foreign += 1;
        let enough = if self.is_recent(now) { 1 } else { FOREIGN_MIN };
        if !self.is_active() && self.foreign >= enough {
            let aim = of.window * (FAIR / share.max(FAIR / AIM_MAX));
            // A queue that did not notice us is somebody else's beyond doubt: what we gave
            // up in the meantime, less what CUBIC gives up for a loss, is ours.
            let window = if share < UNNOTICED {
                of.window.max(KEPT * self.uncontested)
            } else {
                of.window
            };
            self.rival = Some(Cubic::resume(of.mtu, window, self.uncontested.max(aim)));
            self.queued = Some(now);
            return Some(Verdict::Compete);
        }
        if let Some(rival) = &mut self.rival
            && share < SMALL
        {
            rival.aim(of.window * (FAIR / share.max(FAIR / AIM_MAX)));
        }
        None
    }

    fn leave(&mut self, now: Instant) -> Verdict {
        self.rival = None;
        self.foreign = 0;
        self.ours = 0;
        self.asked = None;
        self.left = Some(now);
        Verdict::Leave
    }

    /// The path is as good as new.
    pub(super) fn forget(&mut self) {
        *self = Self::new();
    }
}

/// The least change of the queue that says anything.
fn telling(queue: &Queue, noise: Duration) -> Duration {
    TELLING_MIN.max(queue.standing().mul_f64(TELLING_SHARE)) + noise
}

impl Question {
    /// `None` if the answer would not tell anything.
    #[expect(clippy::cast_precision_loss, reason = "windows stay far below 2^52")]
    fn new(ack: &Ack<'_>, queue: &Queue, of: &Surroundings) -> Option<Self> {
        let least = queue.least().as_secs_f64();
        let delay = queue.delay();
        // Lumps of acknowledgements make the rate of one round trip look like more.
        let rate = ack.rate.bytes_per_second(queue.least())?.min(of.rate);
        let window = (rate * least).max(ack.in_flight_before as f64 * (1.0 - CUT_MAX));
        let rest = Duration::from_secs_f64((window / rate - least).max(0.0));
        let expected = delay.saturating_sub(rest);
        (expected >= telling(queue, of.noise)).then_some(Self {
            began: ack.now,
            window,
            queue: delay,
            expected,
            reached: None,
            answer: None,
        })
    }

    /// The shortest queue that a packet met which left after the window had shrunk,
    /// once half a round trip of them has been heard.
    fn listen(&mut self, ack: &Ack<'_>, queue: &Queue) -> Option<Duration> {
        let reached = self.reached?;
        let newest = ack.packets.last()?;
        if newest.sent < reached {
            return None;
        }
        let delay = queue.latest_delay();
        let answer = self.answer.get_or_insert(Answer {
            first: ack.now,
            shortest: delay,
        });
        answer.shortest = answer.shortest.min(delay);
        let heard = ack.now.saturating_duration_since(answer.first);
        (heard >= queue.smoothed() / 2).then_some(answer.shortest)
    }
}
