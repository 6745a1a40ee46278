//! The numbers from which changes are refused and sources are in trouble.

use super::tests::{at, pcm};
use super::*;

#[test]
fn the_format_changes_after_25_frames_at_the_earliest() {
    let unsteady = FrameError::Unsteady { codec: Codec::L16 };
    for (steady, result, left, changes) in [
        (0, Ok(()), 0, 0),
        (1, Err(unsteady.clone()), 1, 0),
        (24, Err(unsteady), 24, 0),
        (25, Ok(()), 0, 1),
        (26, Ok(()), 0, 1),
    ] {
        let mut transcoder = pcm(8_000, 1);
        transcoder.steady = steady;
        assert_eq!(transcoder.begin_change(), result, "{steady}");
        assert_eq!(
            (transcoder.steady, transcoder.counts.changes),
            (left, changes)
        );
    }
}

#[test]
fn failures_are_counted_up_by_two_and_down_by_one() {
    let mut transcoder = pcm(8_000, 1);
    let mut frames = Vec::new();
    let mut push = |transcoder: &mut AudioTranscoder, number: u32, bytes: usize| {
        let time = at(f64::from(number) * 0.02);
        transcoder.push(&vec![0; bytes], time, &mut frames).is_ok()
    };
    for number in 0..9 {
        assert!(!push(&mut transcoder, number, 319));
    }
    assert_eq!((transcoder.failures, transcoder.trouble()), (18, None));
    assert!(!push(&mut transcoder, 9, 319));
    let trouble = transcoder.trouble();
    assert!(
        matches!(trouble, Some(Trouble::LittleAudio(_))),
        "{trouble:?}"
    );
    for number in 10..50 {
        assert!(!push(&mut transcoder, number, 319));
    }
    assert_eq!(transcoder.failures, FAILURES_MAX);
    for number in 50..71 {
        assert!(transcoder.trouble().is_some(), "{number}");
        assert!(push(&mut transcoder, number, 320));
    }
    assert_eq!((transcoder.failures, transcoder.trouble()), (19, None));
    for number in 71..89 {
        assert!(push(&mut transcoder, number, 320));
    }
    assert_eq!(
        (transcoder.failures, transcoder.failure.is_some()),
        (1, true)
    );
    assert!(push(&mut transcoder, 89, 320));
    assert_eq!((transcoder.failures, &transcoder.failure), (0, &None));
    let counts = transcoder.counts();
    assert_eq!((counts.frames_in, counts.undecodable), (90, 50));
    assert_eq!((counts.restarts, counts.steps, counts.changes), (1, 0, 0));
    assert_eq!(counts.frames_out, frames.len() as u64);
    assert_eq!(transcoder.decoded(), Some((8_000, 1)));
}

#[test]
fn a_pace_is_measured_over_50_frames() {
    let mut pace = Pace::default();
    for number in 0..50u32 {
        let window = pace.note(at(f64::from(number) * 0.02), 160, number % 10 == 0);
        assert!(window.is_none(), "{number}");
    }
    let window = pace.note(at(1.0), 170, true).expect("50 frames");
    assert_eq!(
        (window.seconds, window.samples, window.steps),
        (1.0, 8_000, 5)
    );
    // The frame that ends a window begins the next one.
    assert_eq!(
        (pace.since, pace.frames, pace.samples, pace.steps),
        (Some(at(1.0)), 1, 170, 1)
    );
}

#[test]
fn a_pace_is_trouble_with_five_steps_and_three_percent() {
    let trouble = |seconds, samples, steps| {
        let window = PaceWindow {
            seconds,
            samples,
            steps,
        };
        match window.trouble(8_000) {
            Some(Trouble::Pace { stated, measured }) => Some((stated, measured)),
            Some(Trouble::LittleAudio(error)) => panic!("{error}"),
            None => None,
        }
    };
    for (seconds, samples, steps, measured) in [
        (1.0, 16_000, 5, Some((8_000, 16_000))),
        (1.0, 16_000, 4, None),
        (2.0, 16_000, 50, None),
        (2.0, 8_001, 6, Some((8_000, 4_001))),
        (1.0, 8_239, 5, None),
        (1.0, 8_241, 5, Some((8_000, 8_241))),
        (1.0, 7_761, 5, None),
        (1.0, 7_759, 5, Some((8_000, 7_759))),
        (0.0, 8_000, 9, None),
        (0.0, 0, 9, None),
    ] {
        assert_eq!(
            trouble(seconds, samples, steps),
            measured,
            "{seconds} {samples} {steps}"
        );
    }
}
