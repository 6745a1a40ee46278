//! Towards the target: a pitch period less or one more, and whole packets where the
//! wait is far too long.

use std::time::Instant;

use super::Buffer;
use crate::codec::Decoder;
use crate::expand::Expansion;
use crate::pitch::{self, LAG_MS};
use crate::stretch::{self, Limits};

/// More than this above the target is not worth stretching: it is cut.
const CUT_MS: f64 = 400.0;

/// What must fit to stretch speech, at ease and in need (mean, ms from the target).
const FIT: (f32, f32) = (0.90, 0.55);
const NEED_MS: f64 = 40.0;

/// Of the wait, and in all, what is not worth leaving out a pitch period for: most of it
/// goes by itself, when the next packets are later or nobody speaks.
const EASE_SHARE: f64 = 0.5;
const EASE_MS: f64 = 15.0;

/// From the first of these above the target on more may be left out than
/// [`Config::shorten_share`](super::Config::shorten_share), from the second on by this
/// part of the time: what was held up by 100 ms is in time again within half a second.
const HASTE_MS: (f64, f64) = (20.0, 60.0);
const HASTE_SHARE: f64 = 0.30;

impl<D: Decoder> Buffer<D> {
    /// Brings the playout delay nearer to the target. The device asks for `frames`, and
    /// has not asked for `lost_ms` that it should have.
    pub(super) fn steer(&mut self, now: Instant, frames: usize, lost_ms: f64) {
        let error = self.error_ms(now);
        self.allow(frames, error.unwrap_or(0.0));
        let Some(error) = error.filter(|_| self.is_begun) else {
            return;
        };
        if lost_ms > 0.0 {
            self.cut(lost_ms.min(error));
        }
        if self.expansion.is_some() {
            return;
        }
        if error > CUT_MS {
            self.cut(error);
        } else if error >= LAG_MS.0 {
            self.shorten(error);
        } else if error <= -1.0 {
            self.lengthen(-error);
        }
    }

    /// Stretching may do more as time passes, and shorten more in haste.
    fn allow(&mut self, frames: usize, error: f64) {
        let most = self.format().frames(LAG_MS.1) as f64;
        let more = |left: f64, share: f64| (left + share.clamp(0.0, 0.5) * frames as f64).min(most);
        let (calm, haste) = HASTE_MS;
        let haste = ((error - calm) / (haste - calm)).clamp(0.0, 1.0) * HASTE_SHARE;
        self.may.shorten = more(self.may.shorten, self.config.shorten_share + haste);
        self.may.lengthen = more(self.may.lengthen, self.config.lengthen_share);
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
        let is_silence = self.is_silence();
        if !is_silence && error < self.ease() {
            return;
        }
        let wanted = (error + 0.5) * rate;
        let frames_max = match is_silence {
            true => wanted,
            false => wanted.min(self.may.shorten),
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
            self.may.shorten -= frames as f64;
        }
    }

    /// How far above the target speech may stay: the less is waited for, the nearer.
    fn ease(&self) -> f64 {
        let waits = self.aim().map_or(0.0, |aim| aim - self.target.floor());
        (EASE_SHARE * waits).min(EASE_MS)
    }

    fn lengthen(&mut self, error: f64) {
        let rate = f64::from(self.format().rate()) / 1e3;
        let is_silence = self.is_silence();
        let wanted = (error + LAG_MS.0) * rate;
        let frames_max = match is_silence {
            true => wanted,
            // A whole period, if need be: too long is better than too short.
            false => (wanted + 5.0 * rate).min(self.may.lengthen),
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
            self.may.lengthen -= frames as f64;
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
            // Not lost, and not silence either.
            self.last = None;
        }
    }
}

/// The further from the target, the less choosy.
fn fit_for(error_ms: f64) -> f32 {
    let need = (error_ms / NEED_MS).clamp(0.0, 1.0) as f32;
    FIT.0 + (FIT.1 - FIT.0) * need
}
