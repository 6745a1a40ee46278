//! Audio of the demo clip: a soft tone, and a tick at each second.

use std::f32::consts::TAU;

use super::{FPS, FRAMES};

/// Samples per second and channel.
pub(super) const RATE: usize = 48_000;
/// Samples per channel of one loop.
pub(super) const LOOP_SAMPLES: usize = RATE * FRAMES as usize / FPS as usize;

/// The left and right sample at index `index` of the endless audio.
///
/// All frequencies are whole hertz and a loop is whole seconds, so that the end of one loop
/// continues in the next.
pub(super) fn sample(index: usize) -> [f32; 2] {
    let index = index % LOOP_SAMPLES;
    let wave = |hertz: usize| {
        // The phase is reduced in integers: a float would lose it after a second.
        (TAU * ((index * hertz) % RATE) as f32 / RATE as f32).sin()
    };
    let tone = TONE_PEAK * wave(440);
    let since = index % RATE;
    let beep = if since < TICK_SAMPLES {
        let pitch = if index < RATE { 1760 } else { 1320 };
        let window = 0.5 - 0.5 * (TAU * since as f32 / TICK_SAMPLES as f32).cos();
        TICK_PEAK * window * wave(pitch)
    } else {
        0.0
    };
    // A little stereo width, so that a lost channel can be heard.
    let width = 0.25 * TONE_PEAK * wave(660);
    [tone + width + beep, tone - width + beep]
}

/// Peak of the tone: −18 dB of full scale.
const TONE_PEAK: f32 = 0.126;
/// Peak of the tick: −11 dB of full scale.
const TICK_PEAK: f32 = 0.28;
/// Duration of the tick: 50 ms.
const TICK_SAMPLES: usize = RATE / 20;
