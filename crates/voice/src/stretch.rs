//! Time stretching by one pitch period: accelerate and preemptive expand (waveform similarity
//! overlap-add; Verhelst and Roelands, ICASSP 1993).
//!
//! ```text
//! shorter:  head ▕ a ▏ b ▕ rest        a fades into b: one lag less waits
//! longer:   played ▕ a ▏ head …        the head fades into a, then a plays again
//! ```
//!
//! Both need little decoded audio: shortening needs a lag and the window, lengthening the
//! window alone. So a buffer that holds one packet can do either.

use crate::pitch::{self, LAG_MS, Lag, WINDOW_MS};
use crate::playout_buffer::PlayoutBuffer;

/// Bounds of one stretch.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Limits {
    /// Most frames by which the audio may become shorter or longer.
    pub(crate) frames_max: usize,
    /// Least correlation of the segments that are overlapped, 0 to 1; silence needs none.
    pub(crate) fit_min: f32,
    /// Whether the waiting audio is background, which may be cut anywhere.
    pub(crate) is_silence: bool,
}

/// Frames that must wait so that [`shorten`] can find the shortest lag.
pub(crate) fn needed(playout_buffer: &PlayoutBuffer) -> usize {
    playout_buffer.format().frames(LAG_MS.0) + playout_buffer.format().frames(WINDOW_MS)
}

/// Removes one pitch lag from the waiting audio (accelerate). Returns the frames removed, 0
/// if no lag fits.
pub(crate) fn shorten(playout_buffer: &mut PlayoutBuffer, limits: Limits) -> usize {
    let format = playout_buffer.format();
    let window = format.frames(WINDOW_MS);
    let room = playout_buffer.waiting().saturating_sub(window);
    let most = room.min(limits.frames_max);
    let lag = if limits.is_silence {
        // Silence has no pitch: as much as is wanted may be removed.
        Lag {
            frames: most,
            fit: 1.0,
        }
    } else {
        let (low, high) = (format.frames(LAG_MS.0), format.frames(LAG_MS.1));
        if most < low {
            return 0;
        }
        pitch::search(playout_buffer, 0, false, low, most.min(high))
    };
    if lag.frames == 0 || lag.fit < limits.fit_min {
        return 0;
    }
    let skip = lag.frames as isize;
    let head = playout_buffer.span(0, window as isize);
    let later = playout_buffer.span(skip, skip + window as isize);
    let faded = fade(head, later, format.channels(), lag.fit);
    playout_buffer.replace(lag.frames + window, &faded);
    lag.frames
}

/// Repeats one pitch lag of played audio (preemptive expand). Returns the frames inserted, 0
/// if no lag fits.
pub(crate) fn lengthen(playout_buffer: &mut PlayoutBuffer, limits: Limits) -> usize {
    let format = playout_buffer.format();
    let window = format.frames(WINDOW_MS);
    if playout_buffer.waiting() < window {
        return 0;
    }
    let (low, high) = (format.frames(LAG_MS.0), format.frames(LAG_MS.1));
    let most = limits.frames_max.min(high).min(playout_buffer.history());
    let lag = match limits.is_silence {
        _ if most < low => return 0,
        true => Lag {
            frames: most,
            fit: 1.0,
        },
        false => pitch::search(playout_buffer, 0, true, low, most),
    };
    if lag.fit < limits.fit_min {
        return 0;
    }
    let (back, window) = (lag.frames as isize, window as isize);
    let head = playout_buffer.span(0, window);
    let earlier = playout_buffer.span(-back, window - back);
    let mut longer = fade(head, earlier, format.channels(), lag.fit);
    // After the fade goes what followed `earlier`, up to where the head began, and on.
    longer.extend_from_slice(playout_buffer.span(window - back, window));
    playout_buffer.replace(window as usize, &longer);
    lag.frames
}

/// Crossfades `from` into `to` over their length. `fit` is their correlation: similar
/// segments are mixed by amplitude and different ones by power, so that the level stays
/// constant.
pub(crate) fn fade(from: &[f32], to: &[f32], channels: usize, fit: f32) -> Vec<f32> {
    let frames = from.len() / channels;
    // Between linear (1) and quarter-sine (0) gains; in between by the fit.
    let alike = fit.clamp(0.0, 1.0);
    let mixed = from.iter().zip(to).enumerate().map(|(index, (a, b))| {
        let share = (index / channels) as f32 + 0.5;
        let share = share / frames as f32;
        let angle = share * std::f32::consts::FRAC_PI_2;
        let down = alike * (1.0 - share) + (1.0 - alike) * angle.cos();
        let up = alike * share + (1.0 - alike) * angle.sin();
        (a * down + b * up).clamp(-1.0, 1.0)
    });
    mixed.collect()
}
