//! Control of the playout delay: a pitch period less or more, and whole packets where the
//! delay is far too long.

use std::time::Instant;

use super::Buffer;
use super::pace::PaceParameters;
use crate::codec::Decoder;
use crate::expand::Expansion;
use crate::pitch::{self, LAG_MS};
use crate::stretch::{self, Limits};

#[cfg(test)]
mod tests;

/// Excess over the target, in ms, above which packets are discarded instead of stretching.
const CUT_MS: f64 = 400.0;

/// Correlation that stretching speech needs while the delay is near the target.
const FIT_AT_EASE: f32 = 0.90;
/// Correlation that stretching speech needs [`NEED_MS`] from the target and further.
const FIT_IN_NEED: f32 = 0.55;
/// Distance from the target at which [`FIT_IN_NEED`] suffices, in ms.
const NEED_MS: f64 = 40.0;

/// Part of the target delay that is tolerated as excess; most of it disappears by itself when
/// the next packets are later or nobody speaks.
const EASE_SHARE: f64 = 0.5;
/// Most excess that is tolerated in this way, in ms.
const EASE_MS: f64 = 15.0;

/// Distance from the target, in ms, within which the delay is left alone.
const NEAR_MS: f64 = 1.0;
/// Excess at which a fall of the delay ends, in ms.
const FALLEN_MS: f64 = 3.0;
/// Time constant of the target's average, in ms.
const USUAL_MS: f64 = 10_000.0;

/// Excess from which more may be removed than the pace's share, in ms.
const HASTE_BEGINS_MS: f64 = 20.0;
/// Excess from which the whole [`HASTE_SHARE`] is added, in ms.
const HASTE_FULL_MS: f64 = 60.0;
/// Share of the time that may be removed in addition to the pace's: a stream held up by 100
/// ms is in time again within half a second.
const HASTE_SHARE: f64 = 0.30;

/// The change of the buffer's delay while somebody speaks.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Adjustment {
    /// The delay stays as it is.
    #[default]
    Hold,
    /// The delay rises, because too little of the margin is left.
    Rise,
    /// The delay falls, because the excess is worth it.
    Fall,
}

/// Current adjustment of the delay, and the budget of stretching.
#[derive(Clone, Copy, Debug)]
pub(super) struct Steering {
    parameters: PaceParameters,
    adjustment: Adjustment,
    /// Length of the current quiet, in ms.
    quiet_ms: f64,
    /// Average of the target above the floor, in ms.
    usual_ms: f64,
    /// Excess accumulated since the delay last reached the target, in ms times seconds.
    spent: f64,
    /// Frames that may still be removed.
    shorten: f64,
    /// Frames that may still be inserted.
    lengthen: f64,
}

/// Distances of the delay from its goals in ms; positive if the delay is too long.
#[derive(Clone, Copy, Debug)]
struct Distances {
    /// Distance from the smallest margin that is left alone.
    least: f64,
    /// Distance from where a rise ends.
    risen: f64,
    /// Distance from the target.
    target: f64,
    /// Height of the target above the floor.
    waits: f64,
}

/// Excess over the target between which the delay falls, in ms.
#[derive(Clone, Copy, Debug)]
struct Fall {
    /// Excess at which a fall begins.
    begins: f64,
    /// Excess at which a fall ends.
    ends: f64,
}

impl Steering {
    pub(super) const fn new(parameters: PaceParameters) -> Self {
        Self {
            parameters,
            adjustment: Adjustment::Hold,
            quiet_ms: 0.0,
            usual_ms: 0.0,
            spent: 0.0,
            shorten: 0.0,
            lengthen: 0.0,
        }
    }

    /// Starts anew for another stream.
    pub(super) const fn reset(&mut self) {
        *self = Self::new(self.parameters);
    }

    /// Updates quiet, average and excess for a pull of `ms`, whose audio `is_quiet` or not.
    fn update(&mut self, from: &Distances, is_quiet: bool, ms: f64) {
        self.quiet_ms = if is_quiet { self.quiet_ms + ms } else { 0.0 };
        self.usual_ms += (from.waits - self.usual_ms) * (ms / USUAL_MS).min(1.0);
        self.spent = match from.target > FALLEN_MS {
            true => self.spent + from.target * ms / 1e3,
            false => 0.0,
        };
    }

    /// When the delay falls while somebody speaks and the target is `waits` ms above the
    /// floor.
    fn fall(&self, waits: f64) -> Fall {
        match self.parameters.excess {
            Some(excess) if self.spent > excess.spent => Fall {
                begins: FALLEN_MS,
                ends: FALLEN_MS,
            },
            Some(excess) => Fall {
                begins: excess.ms + excess.usual * self.usual_ms,
                ends: FALLEN_MS,
            },
            // With a shorter target, speech is kept closer to it.
            None => {
                let ease = (EASE_SHARE * waits).min(EASE_MS);
                Fall {
                    begins: ease,
                    ends: ease,
                }
            }
        }
    }

    /// Whether nobody speaks, for longer than a gap between two phonemes.
    fn is_silence(&self) -> bool {
        self.quiet_ms > 0.0 && self.quiet_ms >= self.parameters.quiet_ms
    }

    /// Decides the adjustment; returns the distance that the delay should move, in ms.
    fn error(&mut self, from: Distances) -> f64 {
        if self.is_silence() {
            self.adjustment = Adjustment::Hold;
            return from.target;
        }
        let Fall { begins, ends } = self.fall(from.waits);
        self.adjustment = match self.adjustment {
            _ if from.least < -NEAR_MS => Adjustment::Rise,
            Adjustment::Rise if from.risen <= -NEAR_MS => Adjustment::Rise,
            _ if from.target >= begins => Adjustment::Fall,
            Adjustment::Fall if from.target >= ends => Adjustment::Fall,
            _ => Adjustment::Hold,
        };
        match self.adjustment {
            Adjustment::Hold => 0.0,
            Adjustment::Rise => from.risen,
            Adjustment::Fall => from.target,
        }
    }

    /// Extends the budget of stretching by the time of `frames` frames, more in haste, up to
    /// `most` frames.
    fn allow(&mut self, frames: usize, error: f64, most: f64) {
        let more = |left: f64, share: f64| (left + share.clamp(0.0, 0.5) * frames as f64).min(most);
        let haste = (error - HASTE_BEGINS_MS) / (HASTE_FULL_MS - HASTE_BEGINS_MS);
        let haste = haste.clamp(0.0, 1.0) * HASTE_SHARE;
        self.shorten = more(self.shorten, self.parameters.shorten_share + haste);
        self.lengthen = more(self.lengthen, self.parameters.lengthen_share);
    }
}

impl<D: Decoder> Buffer<D> {
    /// Moves the playout delay towards the target. The device asks for `frames` frames, and
    /// lost `lost_ms` of audio that it did not ask for.
    pub(super) fn steer(&mut self, now: Instant, frames: usize, lost_ms: f64) {
        let most = self.format().frames(LAG_MS.1) as f64;
        let Some(from) = self.distances(now).filter(|_| self.is_begun) else {
            self.steering.allow(frames, 0.0, most);
            return;
        };
        if self.playout_buffer.waiting() > 0 {
            let is_quiet = self.is_quiet();
            self.steering
                .update(&from, is_quiet, self.format().ms(frames));
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

    /// Distances of the current delay from its goals; `None` before the first packet.
    fn distances(&self, now: Instant) -> Option<Distances> {
        let playout = self.playout(now);
        let outlook = self.target.outlook_beside(self.overdue(now))?;
        let rise = self.steering.parameters.rise;
        let target = self.aim_for(outlook, 1.0);
        let least = outlook.part(rise.below);
        let risen = least + rise.until * (1.0 - least);
        Some(Distances {
            least: playout - self.aim_for(outlook, least),
            risen: playout - self.aim_for(outlook, risen),
            target: playout - target,
            waits: target - self.target.floor(),
        })
    }

    /// Least delay of the packet that follows all audio in hand, which has not arrived, in ms.
    /// There is none while the sender is silent.
    fn overdue(&self, now: Instant) -> f64 {
        if self.last.is_some_and(|last| last.begins_silence) {
            return f64::NEG_INFINITY;
        }
        let end = self.queue.end().map_or(self.next, |end| end.max(self.next));
        self.since(now) - end as f64 * self.frame_ms()
    }

    /// Removes a pitch period, or silence, of at most `error` ms (accelerate).
    fn shorten(&mut self, error: f64) {
        let rate = f64::from(self.format().rate()) / 1e3;
        // Packets in hand are decoded, if they follow, so that a long period has room.
        let most = self.format().frames(LAG_MS.1 + pitch::WINDOW_MS);
        while self.playout_buffer.waiting() < most
            && self.queue.first().is_some_and(|(at, _)| at == self.next)
        {
            self.decode();
        }
        if self.playout_buffer.waiting() < stretch::needed(&self.playout_buffer) {
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
        let frames = stretch::shorten(&mut self.playout_buffer, limits);
        self.counts.frames_removed += frames as u64;
        if is_silence {
            self.counts.frames_removed_in_silence += frames as u64;
        } else {
            self.steering.shorten -= frames as f64;
        }
    }

    /// Inserts a pitch period, or silence, of about `error` ms (preemptive expand).
    fn lengthen(&mut self, error: f64) {
        let rate = f64::from(self.format().rate()) / 1e3;
        let is_silence = self.steering.is_silence();
        let wanted = (error + LAG_MS.0) * rate;
        let frames_max = match is_silence {
            true => wanted,
            // A whole period if necessary: too long is better than too short.
            false => (wanted + 5.0 * rate).min(self.steering.lengthen),
        };
        let limits = Limits {
            frames_max: frames_max as usize,
            fit_min: fit_for(error * 2.0),
            is_silence,
        };
        let frames = stretch::lengthen(&mut self.playout_buffer, limits);
        self.counts.frames_inserted += frames as u64;
        if is_silence {
            self.counts.frames_inserted_in_silence += frames as u64;
        } else {
            self.steering.lengthen -= frames as f64;
        }
    }

    /// Discards whole packets of up to `error` ms: the device stalled, or the path became
    /// faster.
    fn cut(&mut self, error: f64) {
        let mut left = error;
        while let Some((at, first)) = self.queue.first() {
            let ms = self.format().ms(first.frames);
            if ms > left || self.queue.len() < 2 {
                break;
            }
            let end = at + first.frames as i64;
            self.discard_first();
            self.counts.cut += 1;
            left -= ms;
            self.next = end;
        }
        if left < error {
            self.expansion = Some(Expansion::after(&self.playout_buffer));
            // The packets are neither lost nor silence, but the decoder has a gap.
            self.last = None;
            if !self.decoder.is_stateless() {
                self.ceiling.on_loss();
            }
        }
    }
}

/// Correlation that stretching needs at this distance from the target: less the further away.
fn fit_for(error_ms: f64) -> f32 {
    let need = (error_ms / NEED_MS).clamp(0.0, 1.0) as f32;
    FIT_AT_EASE + (FIT_IN_NEED - FIT_AT_EASE) * need
}
