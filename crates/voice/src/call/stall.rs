//! Stalls of devices and path, and how soon the delay recovers.

use std::time::{Duration, Instant};

use super::{Call, mono};
use crate::{listener, preprocess, speaker};

/// A voice of 170 Hz and its harmonics that never pauses, so that nothing can be removed in
/// silence.
pub(super) fn voice(at: f64) -> f32 {
    let turns = std::f64::consts::TAU * 170.0 * at;
    let swell = 0.7 + 0.3 * (std::f64::consts::TAU * 1.3 * at).sin();
    let tone = turns.sin() + 0.4 * (2.0 * turns).sin() + 0.2 * (3.0 * turns).sin();
    (0.3 * swell * tone) as f32
}

/// Largest amplitude of [`voice`].
pub(super) const LOUDEST: f32 = 0.42;
/// Largest difference between neighboring samples of [`voice`].
const STEEPEST: f32 = 0.016;

/// The part of the simulation that stalls.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Stalled {
    Sender,
    Receiver,
    Both,
    Wire,
}

const SECOND: Duration = Duration::from_secs(1);

/// Mean delay of the audio played since `from`, in ms.
fn delay_ms(call: &Call, from: Instant) -> f64 {
    let mut delays = Vec::new();
    for played in call.playout_stamps.iter().filter(|it| it.played >= from) {
        let sent = call
            .send_stamps
            .binary_search_by_key(&played.timestamp, |it| it.timestamp);
        let sent = call.send_stamps[sent.expect("it was sent")];
        delays.push((played.played - sent.captured).as_secs_f64() * 1e3);
    }
    assert!(delays.len() > 50, "{} packets in a second", delays.len());
    delays.iter().sum::<f64>() / delays.len() as f64
}

fn a_second_later(stalled: Stalled, ms: u64, reports_times: bool) {
    let mut speaker = speaker::Config::new(mono(48_000));
    speaker.preprocess = preprocess::Config::OFF;
    let listener = listener::Config::new(mono(48_000));
    let mut call = Call::new(speaker, listener, (120, 120), (50.0, -50.0));
    call.source = Box::new(voice);
    call.path = Box::new(|_| vec![Duration::from_millis(20)]);
    call.reports_times = reports_times;
    call.run(8 * SECOND);
    let from = call.clock.now();
    call.run(SECOND);
    let before = delay_ms(&call, from);
    call.step = 0.0;
    let until = call.clock.now() + Duration::from_millis(ms);
    match stalled {
        Stalled::Sender => call.stopped_until[0] = Some(until),
        Stalled::Receiver => call.stopped_until[1] = Some(until),
        Stalled::Both => call.stopped_until = [Some(until); 2],
        Stalled::Wire => call.held_until = Some(until),
    }
    call.run(until + SECOND - call.clock.now());
    let from = call.clock.now();
    call.run(SECOND);
    let after = delay_ms(&call, from);
    let name =
        format!("{stalled:?} stood still for {ms} ms, reports capture times {reports_times}");
    let change = after - before;
    assert!(change.abs() < 10.0, "{name}: {before} then {after}");
    assert!(call.peak < 1.2 * LOUDEST, "{name}: {}", call.peak);
    // Where a microphone lost samples its audio has a seam; no other has.
    let most = match stalled {
        Stalled::Sender | Stalled::Both => LOUDEST,
        Stalled::Receiver | Stalled::Wire => 2.0 * STEEPEST,
    };
    assert!(call.step < most, "{name}: {}", call.step);
}

#[test]
fn a_second_after_all_stood_still_the_delay_is_what_it_was() {
    for ms in [200, 400, 2_000] {
        for stalled in [
            Stalled::Sender,
            Stalled::Receiver,
            Stalled::Both,
            Stalled::Wire,
        ] {
            a_second_later(stalled, ms, false);
        }
        for stalled in [Stalled::Sender, Stalled::Both] {
            a_second_later(stalled, ms, true);
        }
    }
}
