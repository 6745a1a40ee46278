//! Calls in which nobody speaks, or somebody is muted.

use std::time::Duration;

use super::stall::{LOUDEST, voice};
use super::{Call, mono};
use crate::{listener, opus, preprocess, speaker};

const SECOND: Duration = Duration::from_secs(1);

fn call(configure: impl FnOnce(&mut speaker::Config)) -> Call {
    let mut speaker = speaker::Config::new(mono(48_000));
    speaker.preprocess = preprocess::Config::OFF;
    configure(&mut speaker);
    let listener = listener::Config::new(mono(48_000));
    let mut call = Call::new(speaker, listener, (120, 120), (0.0, 0.0));
    call.path = Box::new(|_| vec![Duration::from_millis(20)]);
    call
}

/// The level of each 10 ms of what was played since `from` samples.
fn levels(call: &Call, from: usize) -> Vec<f32> {
    let pieces = call.played[from..].chunks_exact(480);
    pieces.map(crate::pitch::level).collect()
}

#[test]
fn comfort_noise_goes_on_while_next_to_nothing_is_sent() {
    let mut call = call(|config| {
        config.opus.purpose = opus::Purpose::Voip;
        config.opus.bitrate = crate::Bitrate::from_bps(24_000);
        config.opus.dtx = true;
    });
    let mut rng = glassline_sim::Rng::new(5);
    call.source = Box::new(move |at| {
        let noise = (rng.unit() as f32 - 0.5) * 0.004;
        let speaks = !(3.0..9.0).contains(&at);
        noise + if speaks { voice(at) } else { 0.0 }
    });
    call.run(5 * SECOND);
    let (packets, from) = (call.speaker.report().packets, call.played.len());
    call.run(3 * SECOND);
    let sent = call.speaker.report().packets - packets;
    // 300 packets of 10 ms; a background that does not change needs one now and then.
    assert!(sent < 60, "{sent} packets");
    let report = call.listener.report(call.clock.now()).streams[0].jitter;
    assert!(report.counts.frames_comfort > 48_000, "{report:?}");
    let levels = levels(&call, from);
    let mean = levels.iter().sum::<f32>() / levels.len() as f32;
    let (least, most) = levels.iter().fold((f32::MAX, 0.0f32), |it, level| {
        (it.0.min(*level), it.1.max(*level))
    });
    assert!(mean > 1e-4, "nothing is to be heard: {mean}");
    // No hole, and no piece of it that comes to the fore.
    assert!(
        least > mean / 8.0 && most < LOUDEST / 50.0,
        "{least} {mean} {most}"
    );
    // And speech is there again when it begins.
    call.peak = 0.0;
    call.run(2 * SECOND);
    assert!(
        call.peak > 0.5 * LOUDEST && call.peak < 1.3 * LOUDEST,
        "{}",
        call.peak
    );
    let report = call.listener.report(call.clock.now()).streams[0].jitter;
    assert!(report.delay < Duration::from_millis(25), "{report:?}");
}

#[test]
fn who_is_muted_is_not_heard_and_comes_back_without_a_burst() {
    for dtx in [false, true] {
        let mut call = call(|config| config.opus.dtx = dtx);
        call.source = Box::new(voice);
        call.run(4 * SECOND);
        call.speaker.set_muted(true);
        call.run(SECOND / 5);
        call.peak = 0.0;
        call.run(3 * SECOND);
        assert!(call.peak < 0.001, "dtx {dtx}: {}", call.peak);
        call.speaker.set_muted(false);
        (call.peak, call.step) = (0.0, 0.0);
        let delayed = call.played.len();
        call.run(SECOND);
        assert!(
            call.peak < 1.2 * LOUDEST && call.step < 0.05,
            "dtx {dtx}: {} {}",
            call.peak,
            call.step
        );
        let levels = levels(&call, delayed);
        let begins = levels.iter().position(|it| *it > 0.05);
        // A fade of 10 ms, and the way.
        assert!(begins.is_some_and(|it| it < 8), "dtx {dtx}: {begins:?}");
    }
}
