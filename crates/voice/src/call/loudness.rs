//! Loudness of a call that loses packets.

use std::time::Duration;

use glassline_sim::Rng;

use super::{Call, mono};
use crate::{listener, opus, preprocess, speaker};

const SECOND: Duration = Duration::from_secs(1);

/// A vowel of 200 Hz that swells and fades more than once a second.
fn vowel(at: f64) -> f32 {
    let turns = std::f64::consts::TAU * 200.0 * at;
    let swell = (0.5 + 0.5 * (std::f64::consts::TAU * 1.3 * at).sin()).sqrt();
    let tone = turns.sin() + 0.4 * (2.0 * turns).sin() + 0.2 * (3.0 * turns).sin();
    (0.3 * swell * tone) as f32
}

/// Factor by which the highest peak grows when every third packet is lost.
fn growth(concealment: opus::Concealment, seed: u64) -> f32 {
    let mut speaker = speaker::Config::new(mono(48_000));
    speaker.preprocess = preprocess::Config::OFF;
    let mut listener = listener::Config::new(mono(48_000));
    listener.concealment = concealment;
    let mut call = Call::new(speaker, listener, (480, 120), (0.0, 0.0));
    call.is_recording = false;
    call.source = Box::new(vowel);
    let delay = Duration::from_millis(20);
    call.path = Box::new(move |_| vec![delay]);
    call.run(5 * SECOND);
    let before = std::mem::take(&mut call.peak);
    let mut rng = Rng::new(seed);
    call.path = Box::new(move |_| match rng.chance(0.3) {
        true => Vec::new(),
        false => vec![delay],
    });
    call.run(15 * SECOND);
    call.peak / before
}

#[test]
fn what_losses_leave_of_speech_is_no_louder_than_speech() {
    for concealment in [opus::Concealment::Deep, opus::Concealment::Classic] {
        let growth = growth(concealment, 7);
        assert!(growth < 1.05, "{concealment:?}: {growth}");
    }
}
