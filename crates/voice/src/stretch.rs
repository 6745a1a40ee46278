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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::codec::Format;

    #[test]
    fn fades_are_linear_between_likes_and_of_even_power_between_others() {
        let (from, to) = ([0.8, 0.4].repeat(4), [0.2, -0.4].repeat(4));
        for fit in [1.0, 2.0, 0.0, -1.0, 0.5] {
            let faded = fade(&from, &to, 2, fit);
            for (frame, pair) in faded.as_chunks::<2>().0.iter().enumerate() {
                // The middle of each of four frames.
                let share = (frame as f32 + 0.5) / 4.0;
                let (sin, cos) = (share * std::f32::consts::FRAC_PI_2).sin_cos();
                let alike = fit.clamp(0.0, 1.0);
                let down = alike * (1.0 - share) + (1.0 - alike) * cos;
                let up = alike * share + (1.0 - alike) * sin;
                let wanted = [0.8 * down + 0.2 * up, 0.4 * down - 0.4 * up];
                for (got, wanted) in pair.iter().zip(wanted) {
                    assert!(
                        (got - wanted).abs() < 1e-6,
                        "{fit}, {frame}: {got} {wanted}"
                    );
                }
                if fit <= 0.0 {
                    assert!((down * down + up * up - 1.0).abs() < 1e-6, "even power");
                }
            }
        }
        assert_eq!(
            fade(&[1.0; 2], &[1.0; 2], 1, 0.0),
            [1.0; 2],
            "within full scale"
        );
    }

    /// A buffer at 8 kHz in which `waiting` frames of a period of 40 wait, after 60 ms of it.
    fn voiced(waiting: usize) -> PlayoutBuffer {
        let mut buffer = PlayoutBuffer::new(Format::new(8_000, 1).expect("mono"));
        let audio = (0..480 + waiting).map(|at| wave(at as isize));
        buffer.append(&audio.collect::<Vec<_>>());
        buffer.play(&mut [0.0; 480], |_| ());
        buffer
    }

    /// A wave that is like itself after 40 frames only.
    fn wave(at: isize) -> f32 {
        let place = at.rem_euclid(40);
        ((7 * place * place + 3 * place) % 41 - 20) as f32 / 64.0
    }

    const SPEECH: Limits = Limits {
        frames_max: 120,
        fit_min: 0.9,
        is_silence: false,
    };

    #[test]
    fn a_period_is_removed_or_repeated_and_the_rest_stays_in_step() {
        let mut shorter = voiced(200);
        assert_eq!(shorten(&mut shorter, SPEECH), 40);
        assert_eq!(shorter.waiting(), 160);
        let mut longer = voiced(200);
        assert_eq!(lengthen(&mut longer, SPEECH), 40);
        assert_eq!(longer.waiting(), 240);
        for buffer in [&shorter, &longer] {
            for frame in 0..buffer.waiting() as isize {
                let heard = buffer.span(frame, frame + 1)[0];
                assert!((heard - wave(frame)).abs() < 1e-5, "{frame}");
            }
        }
    }

    #[test]
    fn bounds_hold_to_the_frame() {
        // 5 ms that are compared, and 2.5 ms that may go.
        assert_eq!(needed(&voiced(0)), 60);
        for (waiting, removed) in [(59, 0), (79, 0), (80, 40), (81, 40)] {
            assert_eq!(shorten(&mut voiced(waiting), SPEECH), removed, "{waiting}");
        }
        for (waiting, inserted) in [(39, 0), (40, 40)] {
            assert_eq!(
                lengthen(&mut voiced(waiting), SPEECH),
                inserted,
                "{waiting}"
            );
        }
        for (frames_max, changed) in [(0, 0), (19, 0), (39, 0), (40, 40), (41, 40)] {
            let limits = Limits {
                frames_max,
                ..SPEECH
            };
            assert_eq!(shorten(&mut voiced(400), limits), changed, "{frames_max}");
            assert_eq!(lengthen(&mut voiced(400), limits), changed, "{frames_max}");
        }
        let quiet = |frames_max| Limits {
            frames_max,
            is_silence: true,
            ..SPEECH
        };
        // Of silence, as much as is wanted and there; what goes in is a pitch lag, too.
        for (frames_max, removed, inserted) in [
            (0, 0, 0),
            (19, 19, 0),
            (20, 20, 20),
            (70, 70, 70),
            (500, 360, 120),
        ] {
            assert_eq!(shorten(&mut voiced(400), quiet(frames_max)), removed);
            assert_eq!(lengthen(&mut voiced(400), quiet(frames_max)), inserted);
        }
        assert_eq!(shorten(&mut voiced(40), quiet(100)), 0);
    }

    #[test]
    fn a_fit_that_is_just_enough_is_enough() {
        let fit = pitch::search(&voiced(200), 0, false, 20, 120).fit;
        let just = |fit_min| Limits { fit_min, ..SPEECH };
        assert_eq!(shorten(&mut voiced(200), just(fit)), 40);
        assert_eq!(shorten(&mut voiced(200), just(fit + 1e-3)), 0);
        let fit = pitch::search(&voiced(200), 0, true, 20, 120).fit;
        assert_eq!(lengthen(&mut voiced(200), just(fit)), 40);
        assert_eq!(lengthen(&mut voiced(200), just(fit + 1e-3)), 0);
    }
}
