//! Recovery of lost packets: in full quality by RED, or at a low bitrate from the following
//! packet (LBRR).

use std::time::Duration;

use super::stall::voice;
use super::{Call, mono};
use crate::jitter::Counts;
use crate::speaker::Red;
use crate::{listener, opus, preprocess, speaker};

const LOST_EVERY: u64 = 20;

/// Counts of half a minute in which every twentieth packet is lost, after 15 s to adapt to
/// that.
fn counts(redundancy: impl FnOnce(&mut speaker::Config)) -> (Counts, u64) {
    let mut speaker = speaker::Config::new(mono(48_000));
    speaker.preprocess = preprocess::Config::OFF;
    redundancy(&mut speaker);
    let listener = listener::Config::new(mono(48_000));
    let mut call = Call::new(speaker, listener, (120, 120), (20.0, -20.0));
    call.source = Box::new(voice);
    call.path = Box::new(|packet| match packet % LOST_EVERY {
        7 => Vec::new(),
        _ => vec![Duration::from_millis(20)],
    });
    let counts = |call: &Call| {
        let report = call.listener.report(call.clock.now());
        (report.streams[0].jitter.counts, call.sent / LOST_EVERY)
    };
    call.run(Duration::from_secs(15));
    let before = counts(&call);
    call.run(Duration::from_secs(30));
    let after = counts(&call);
    let change = Counts {
        frames: after.0.frames - before.0.frames,
        frames_concealed: after.0.frames_concealed - before.0.frames_concealed,
        repeated: after.0.repeated - before.0.repeated,
        recovered: after.0.recovered - before.0.recovered,
        ..after.0
    };
    (change, after.1 - before.1)
}

fn concealed(counts: &Counts) -> f64 {
    counts.frames_concealed as f64 / counts.frames as f64
}

#[test]
fn what_is_lost_comes_back_with_the_next_packet_if_that_repeats_it() {
    let (counts, lost) = counts(|config| {
        config.red = Some(Red {
            payload_type: 111,
            copies: 1,
        });
    });
    assert!(counts.repeated + 2 >= lost, "{lost} lost, {counts:?}");
    assert!(concealed(&counts) < 0.01, "{counts:?}");
}

#[test]
fn what_is_lost_comes_back_coarse_if_that_was_asked_for() {
    let voip = |config: &mut speaker::Config| {
        config.opus.purpose = opus::Purpose::Voip;
        config.opus.bitrate = crate::Bitrate::from_bps(24_000);
        config.opus.frame = opus::Frame::Ms20;
        config.opus.expected_loss = 0.2;
    };
    let (with, lost) = counts(voip);
    let (without, _) = counts(|config| {
        voip(config);
        config.opus.fec = false;
    });
    // The encoder repeats what it takes for speech: a third of this voice.
    assert!(with.recovered * 4 >= lost, "{lost} lost, {with:?}");
    assert!(concealed(&with) < 0.045, "{with:?}");
    assert_eq!(without.recovered, 0);
    assert!(concealed(&without) > 0.045, "{without:?}");
}
