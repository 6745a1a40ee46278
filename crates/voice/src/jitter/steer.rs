//! Towards the target: a pitch period less or one more, and whole packets where the
//! wait is far too long.

use std::time::Instant;

use super::Buffer;
use super::pace::Law;
use crate::codec::Decoder;
use crate::expand::Expansion;
use crate::pitch::{self, LAG_MS};
use crate::stretch::{self, Limits};

/// More than this above the target is not worth stretching: it is cut.
const CUT_MS: f64 = 400.0;

/// What must fit to stretch speech while the delay is near the target.
const FIT_AT_EASE: f32 = 0.90;
/// What must fit to stretch speech [`NEED_MS`] from the target and further.
const FIT_IN_NEED: f32 = 0.55;
const NEED_MS: f64 = 40.0;

/// Of the wait, and in all, what is not worth leaving out a pitch period for: most of it
/// goes by itself, when the next packets are later or nobody speaks.
const EASE_SHARE: f64 = 0.5;
const EASE_MS: f64 = 15.0;

/// Nearer than this, in ms, the delay is where it should be.
const NEAR_MS: f64 = 1.0;
/// A fall out of an excess ends here.
const FALLEN_MS: f64 = 3.0;
/// What the target usually is, is learnt in so long.
const USUAL_MS: f64 = 10_000.0;

/// From so far above the target on more may be left out than the law's share.
const HASTE_BEGINS_MS: f64 = 20.0;
/// From so far above the target on, as much more as [`HASTE_SHARE`] is left out.
const HASTE_FULL_MS: f64 = 60.0;
/// Of the time, what may be left out beyond the law's share: what was held up by 100 ms
/// is in time again within half a second.
const HASTE_SHARE: f64 = 0.30;

/// What a buffer is about while somebody speaks.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Course {
    /// The delay stays as it is.
    #[default]
    Hold,
    /// There is too little of the margin left.
    Rise,
    /// The excess is worth the trouble.
    Fall,
}

/// Where the delay is going, and what stretching may still do on the way.
#[derive(Clone, Copy, Debug)]
pub(super) struct Steering {
    law: Law,
    course: Course,
    /// It has been quiet for so long.
    quiet_ms: f64,
    /// What the target is above the floor, on average.
    usual_ms: f64,
    /// What the delay was above the target since it last was not, in ms times seconds.
    spent: f64,
    /// Frames that stretching has left, of what the shares allow.
    shorten: f64,
    lengthen: f64,
}

/// How far the delay is from where it might go, in ms; positive: too long.
#[derive(Clone, Copy, Debug)]
struct Distances {
    /// From the least margin that is left alone.
    least: f64,
    /// From where a rise ends.
    risen: f64,
    /// From the target.
    target: f64,
    /// What the target is above the floor.
    waits: f64,
}

/// Between which distances above the target the delay falls, in ms.
#[derive(Clone, Copy, Debug)]
struct Fall {
    /// A fall begins this far above the target.
    begins: f64,
    /// A fall goes on down to here.
    ends: f64,
}

impl Steering {
    pub(super) const fn new(law: Law) -> Self {
        Self {
            law,
            course: Course::Hold,
            quiet_ms: 0.0,
            usual_ms: 0.0,
            spent: 0.0,
            shorten: 0.0,
            lengthen: 0.0,
        }
    }

    /// Another stream begins.
    pub(super) const fn reset(&mut self) {
        *self = Self::new(self.law);
    }

    /// `ms` are asked for, which are quiet or are not.
    fn hear(&mut self, from: &Distances, is_quiet: bool, ms: f64) {
        self.quiet_ms = if is_quiet { self.quiet_ms + ms } else { 0.0 };
        self.usual_ms += (from.waits - self.usual_ms) * (ms / USUAL_MS).min(1.0);
        self.spent = match from.target > FALLEN_MS {
            true => self.spent + from.target * ms / 1e3,
            false => 0.0,
        };
    }

    /// When the delay falls while somebody speaks and `waits` ms are aimed for.
    fn fall(&self, waits: f64) -> Fall {
        match self.law.excess {
            Some(excess) if self.spent > excess.spent => Fall {
                begins: FALLEN_MS,
                ends: FALLEN_MS,
            },
            Some(excess) => Fall {
                begins: excess.ms + excess.usual * self.usual_ms,
                ends: FALLEN_MS,
            },
            // The less is waited for, the nearer speech stays.
            None => {
                let ease = (EASE_SHARE * waits).min(EASE_MS);
                Fall {
                    begins: ease,
                    ends: ease,
                }
            }
        }
    }

    /// Nobody speaks, and it is no gap between two phonemes.
    fn is_silence(&self) -> bool {
        self.quiet_ms > 0.0 && self.quiet_ms >= self.law.quiet_ms
    }

    /// How far to go.
    fn error(&mut self, from: Distances) -> f64 {
        if self.is_silence() {
            self.course = Course::Hold;
            return from.target;
        }
        let Fall { begins, ends } = self.fall(from.waits);
        self.course = match self.course {
            _ if from.least < -NEAR_MS => Course::Rise,
            Course::Rise if from.risen <= -NEAR_MS => Course::Rise,
            _ if from.target >= begins => Course::Fall,
            Course::Fall if from.target >= ends => Course::Fall,
            _ => Course::Hold,
        };
        match self.course {
            Course::Hold => 0.0,
            Course::Rise => from.risen,
            Course::Fall => from.target,
        }
    }

    /// Stretching may do more as time passes, and shorten more in haste: at most `most`
    /// frames at once.
    fn allow(&mut self, frames: usize, error: f64, most: f64) {
        let more = |left: f64, share: f64| (left + share.clamp(0.0, 0.5) * frames as f64).min(most);
        let haste = (error - HASTE_BEGINS_MS) / (HASTE_FULL_MS - HASTE_BEGINS_MS);
        let haste = haste.clamp(0.0, 1.0) * HASTE_SHARE;
        self.shorten = more(self.shorten, self.law.shorten_share + haste);
        self.lengthen = more(self.lengthen, self.law.lengthen_share);
    }
}

impl<D: Decoder> Buffer<D> {
    /// Brings the playout delay nearer to the target. The device asks for `frames`, and
    /// has not asked for `lost_ms` that it should have.
    pub(super) fn steer(&mut self, now: Instant, frames: usize, lost_ms: f64) {
        let most = self.format().frames(LAG_MS.1) as f64;
        let Some(from) = self.distances(now).filter(|_| self.is_begun) else {
            self.steering.allow(frames, 0.0, most);
            return;
        };
        if self.tape.waiting() > 0 {
            let is_quiet = self.is_quiet();
            self.steering
                .hear(&from, is_quiet, self.format().ms(frames));
        }
        let error = self.steering.error(from);
        self.steering.allow(frames, error, most);
        if lost_ms > 0.0 {
            self.cut(lost_ms.min(from.target));
        }
        if self.expansion.is_some() {
            return;
        }
        if from.target > CUT_MS {
            self.cut(from.target);
        } else if error >= LAG_MS.0 {
            self.shorten(error);
        } else if error <= -NEAR_MS {
            self.lengthen(-error);
        }
    }

    fn distances(&self, now: Instant) -> Option<Distances> {
        let playout = self.playout(now);
        let outlook = self.target.outlook()?;
        let rise = self.steering.law.rise;
        let target = self.aim_for(outlook, 1.0);
        Some(Distances {
            least: playout - self.aim_for(outlook, rise.below),
            risen: playout - self.aim_for(outlook, rise.until),
            target: playout - target,
            waits: target - self.target.floor(),
        })
    }

    fn shorten(&mut self, error: f64) {
        let rate = f64::from(self.format().rate()) / 1e3;
        // So that a long period finds room: decode what is in hand, if it follows.
        let most = self.format().frames(LAG_MS.1 + pitch::WINDOW_MS);
        while self.tape.waiting() < most
            && self.queue.first().is_some_and(|(at, _)| at == self.next)
        {
            self.decode();
        }
        if self.tape.waiting() < stretch::needed(&self.tape) {
            return;
        }
        let is_silence = self.steering.is_silence();
        let wanted = (error + 0.5) * rate;
        let frames_max = match is_silence {
            true => wanted,
            false => wanted.min(self.steering.shorten),
        };
        let limits = Limits {
            frames_max: frames_max as usize,
            fit_min: fit_for(error),
            is_silence,
        };
        let frames = stretch::shorten(&mut self.tape, limits);
        self.counts.frames_removed += frames as u64;
        if is_silence {
            self.counts.frames_removed_in_silence += frames as u64;
        } else {
            self.steering.shorten -= frames as f64;
        }
    }

    fn lengthen(&mut self, error: f64) {
        let rate = f64::from(self.format().rate()) / 1e3;
        let is_silence = self.steering.is_silence();
        let wanted = (error + LAG_MS.0) * rate;
        let frames_max = match is_silence {
            true => wanted,
            // A whole period, if need be: too long is better than too short.
            false => (wanted + 5.0 * rate).min(self.steering.lengthen),
        };
        let limits = Limits {
            frames_max: frames_max as usize,
            fit_min: fit_for(error * 2.0),
            is_silence,
        };
        let frames = stretch::lengthen(&mut self.tape, limits);
        self.counts.frames_inserted += frames as u64;
        if is_silence {
            self.counts.frames_inserted_in_silence += frames as u64;
        } else {
            self.steering.lengthen -= frames as f64;
        }
    }

    /// Leaves out whole packets of `error` ms: the device was away, or the path got
    /// better at once.
    fn cut(&mut self, error: f64) {
        let mut left = error;
        while let Some((at, first)) = self.queue.first() {
            let ms = self.format().ms(first.frames);
            if ms > left || self.queue.len() < 2 {
                break;
            }
            let end = at + first.frames as i64;
            self.leave_out();
            self.counts.cut += 1;
            left -= ms;
            self.next = end;
        }
        if left < error {
            self.expansion = Some(Expansion::after(&self.tape));
            // Not lost, and not silence either; but the decoder misses them.
            self.last = None;
            if !self.decoder.is_stateless() {
                self.ceiling.lose();
            }
        }
    }
}

/// The further from the target, the less choosy.
fn fit_for(error_ms: f64) -> f32 {
    let need = (error_ms / NEED_MS).clamp(0.0, 1.0) as f32;
    FIT_AT_EASE + (FIT_IN_NEED - FIT_AT_EASE) * need
}
