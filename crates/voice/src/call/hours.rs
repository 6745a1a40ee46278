//! Long calls over bad paths, and the state that remains when the path is good again.
//!
//! The tests take a round or two of trouble, their long forms hours.

use std::time::Duration;

use glassline_sim::Rng;

use super::{Call, mono};
use crate::codec::{Decoder, Encoder};
use crate::{Format, L16, listener, opus, preprocess, speaker};

/// A minute over a bad path, then one over a clean path with devices that change.
const ROUND: Duration = Duration::from_secs(120);
const SECOND: Duration = Duration::from_secs(1);

/// A voice of `pitch` Hz and its harmonics, speaking most of the time.
fn voice(at: f64, pitch: f64) -> f32 {
    let turns = std::f64::consts::TAU * pitch * at;
    let swell = (0.5 + 0.5 * (std::f64::consts::TAU * 1.3 * at).sin()).sqrt();
    let tone = turns.sin() + 0.4 * (2.0 * turns).sin() + 0.2 * (3.0 * turns).sin();
    (0.3 * swell * tone) as f32
}

/// The voice from a table, because computing sines would cost more than everything else.
fn table(pitch: f64) -> impl Fn(f64) -> f32 {
    const RATE: f64 = 48_000.0;
    // Ten seconds hold whole turns of all of it.
    let voice = |it| voice(f64::from(it) / RATE, pitch);
    let samples: Vec<f32> = (0..480_000).map(voice).collect();
    move |at| samples[(at * RATE).round() as usize % samples.len()]
}

/// Runs rounds of [`ROUND`] for `minutes` minutes. `packet` is the length of a packet.
fn endure<E: Encoder, D: Decoder>(call: &mut Call<E, D>, minutes: u64, packet: Duration) {
    call.is_recording = false;
    call.source = Box::new(table(200.0));
    // A speaker who heard his own voice would be cancelled as an echo, differently each
    // minute.
    let (other, mut said) = (table(130.0), 0.0);
    call.other = Some(Box::new(move || {
        said += 1.0 / f64::from(opus::RATE);
        other(said)
    }));
    let mut rng = Rng::new(7);
    // Nothing is sent while a device is away, so packets tell no time; the clock does.
    let is_bad = std::rc::Rc::new(std::cell::Cell::new(false));
    let is_silent = std::rc::Rc::new(std::cell::Cell::new(false));
    let (bad, silent) = (is_bad.clone(), is_silent.clone());
    let steady = Duration::from_millis(20);
    call.path = Box::new(move |_| match (silent.get(), bad.get()) {
        (true, _) => Vec::new(),
        (_, false) => vec![steady],
        (_, true) if rng.chance(0.3) => Vec::new(),
        (_, true) => {
            let held = if rng.chance(0.1) { rng.below(200) } else { 0 };
            let delay = steady + Duration::from_millis(held);
            match rng.chance(0.1) {
                true => vec![delay, delay + Duration::from_millis(45)],
                false => vec![delay],
            }
        }
    });
    let formats = [
        (44_100, 1, 441),
        (16_000, 1, 160),
        (48_000, 2, 1_024),
        (8_000, 1, 128),
    ];
    call.run(10 * SECOND);
    call.peak = 0.0;
    // What is said, as loud as gain control makes it.
    let mut signal = call.encoded_peak.take();
    for round in 0..(minutes / 2).max(1) {
        is_bad.set(true);
        call.run(ROUND / 4);
        is_silent.set(true);
        call.run(2 * SECOND);
        is_silent.set(false);
        call.run(ROUND / 4 - 2 * SECOND);
        is_bad.set(false);
        signal = recover(
            call,
            &format!("round {round}, after trouble"),
            signal,
            packet,
        );
        let (rate, channels, period) = formats[round as usize % formats.len()];
        call.change(Format::new(rate, channels).expect("voice"), period);
        signal = recover(
            call,
            &format!("round {round}, after another rate"),
            signal,
            packet,
        );
        call.unplugged_until = Some(call.clock.now() + 3 * SECOND);
        call.run(3 * SECOND);
        signal = recover(
            call,
            &format!("round {round}, after unplugging"),
            signal,
            packet,
        );
        is_silent.set(true);
        call.run(2 * SECOND);
        is_silent.set(false);
        signal = recover(
            call,
            &format!("round {round}, after two seconds of nothing"),
            signal,
            packet,
        );
        call.run(ROUND / 2 - 41 * SECOND);
    }
}

/// Concealed audio that is allowed in nine seconds: one packet in a thousand may be late, and
/// one that misses a period of the device misses all of it.
const CONCEALED_MAX: Duration = Duration::from_millis(10);

/// Lets the call recover for a second, then checks nine seconds in which almost nothing may
/// be concealed and the delay must be normal. `signal` is the peak of the speech before;
/// returns the peak of the speech in these seconds.
fn recover<E: Encoder, D: Decoder>(
    call: &mut Call<E, D>,
    when: &str,
    signal: f32,
    packet: Duration,
) -> f32 {
    call.run(SECOND);
    let stands = |call: &Call<E, D>| call.listener.report(call.clock.now()).streams[0].jitter;
    let before = stands(call).counts;
    let trouble = call.peak;
    // Part of what is said now is heard later, and of what was said before now.
    let said = call.encoded_peak.take().max(signal);
    (call.peak, call.step) = (0.0, 0.0);
    call.run(9 * SECOND);
    let report = stands(call);
    let concealed = report.counts.frames_concealed - before.frames_concealed;
    let concealed = Duration::from_secs_f64(concealed as f64 / f64::from(opus::RATE));
    let period = Duration::from_secs_f64(
        call.loudspeaker.period as f64 / f64::from(call.loudspeaker.format.rate()),
    );
    let most = CONCEALED_MAX + period;
    assert!(concealed <= most, "{when}: {concealed:?} {report:?}");
    let most = Duration::from_millis(40) + packet + 2 * period;
    assert!(report.delay < most, "{when}: {report:?}");
    // Nothing is left over.
    let speaker = call.speaker.report();
    assert!(
        report.packets < 20 && speaker.failed == 0,
        "{when}: {report:?} {speaker:?}"
    );
    // Trouble is no louder than what was said: codec and rates' filters ring a little.
    assert!(trouble < 1.2 * said, "{when}: {trouble}, {said}");
    // The steepest of the voice, at the lowest rate that there is, not a click.
    let loudest = std::mem::take(&mut call.peak);
    assert!(call.step < 0.9 * loudest, "{when}: {}", call.step);
    call.encoded_peak.take()
}

/// A call without codec and pre-processing for `minutes` minutes, whose clocks differ by 2 × `ppm`.
fn without_a_codec(ppm: f64, minutes: u64) {
    let mut speaker = speaker::Config::new(mono(16_000));
    speaker.preprocess = preprocess::Config::OFF;
    let listener = listener::Config::new(mono(16_000));
    let codec = L16::new(mono(opus::RATE));
    let make = |format, _| Ok(L16::new(format));
    let periods = (160, 40);
    let mut call = Call::with(speaker, codec, listener, make, periods, (ppm, -ppm));
    endure(&mut call, minutes, Duration::from_millis(10));
}

/// A call of the whole chain for `minutes` minutes.
fn of_the_whole_chain(minutes: u64) {
    let speaker = speaker::Config::new(mono(48_000));
    let listener = listener::Config::new(mono(48_000));
    let mut call = Call::new(speaker, listener, (120, 120), (200.0, 0.0));
    endure(&mut call, minutes, opus::Frame::Ms10.duration());
}

#[test]
fn minutes_without_a_codec_end_like_the_first_seconds() {
    for ppm in [200.0, -200.0] {
        without_a_codec(ppm, 4);
    }
}

#[test]
fn a_round_of_trouble_for_the_whole_chain_ends_as_it_began() {
    of_the_whole_chain(2);
}

mod soak {
    use super::*;

    #[test]
    #[ignore = "takes minutes; `cargo xtask soak` runs it"]
    fn hours_without_a_codec_end_like_the_first_minute() {
        for ppm in [200.0, -200.0] {
            without_a_codec(ppm, 4 * 60);
        }
    }

    #[test]
    #[ignore = "takes minutes; `cargo xtask soak` runs it"]
    fn an_hour_of_the_whole_chain_ends_like_the_first_minute() {
        of_the_whole_chain(60);
    }
}
