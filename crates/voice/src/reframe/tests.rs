use glassline_sim::{Clock, Rng};

use super::*;

const TEN: Duration = Duration::from_millis(10);

/// A device that calls every `period` samples, up to `late_ms` late, its clock
/// faster by `ppm`. Sample n is n, scaled. Returns each frame and when it came.
fn capture(
    format: Format,
    period: usize,
    (late_ms, ppm): (f64, f64),
    calls: usize,
) -> (Instant, Vec<(Captured, Vec<f32>)>) {
    let mut reframer = Reframer::new(format, TEN).expect("10 ms");
    let mut rng = Rng::new(period as u64);
    let start = Clock::new().now();
    let mut frames = Vec::new();
    let mut out = vec![0.0; reframer.frame_samples()];
    let channels = format.channels();
    for call in 0..calls {
        let first = call * period;
        let samples: Vec<f32> = (first * channels..(first + period) * channels)
            .map(|index| (index / channels % 4_096) as f32 / 4_096.0)
            .collect();
        let due = (first + period) as f64 / f64::from(format.rate()) / (1.0 + ppm / 1e6);
        let late = late_ms * rng.unit() / 1e3;
        let now = start + Duration::from_secs_f64(due + late);
        reframer.push(&samples, now);
        while let Some(captured) = reframer.pop(&mut out) {
            assert!(captured.at <= now);
            frames.push((captured, out.clone()));
        }
    }
    assert_eq!(reframer.dropped(), 0);
    (start, frames)
}

#[test]
fn any_period_becomes_frames_without_a_gap() {
    for (rate, channels) in [(8_000, 1), (16_000, 2), (44_100, 1), (48_000, 2)] {
        let format = Format::new(rate, channels).expect("voice");
        let long = format.frames(197.0);
        for period in [120, 128, 441, 480, 512, 1_000, 1_024, long] {
            let calls = 4 * rate as usize / period;
            let (_, frames) = capture(format, period, (0.0, 0.0), calls);
            let per_frame = format.frames(10.0);
            assert_eq!(frames.len(), calls * period / per_frame);
            let all = frames.iter().flat_map(|(_, frame)| frame);
            for (index, sample) in all.enumerate() {
                let wanted = (index / channels % 4_096) as f32 / 4_096.0;
                assert_eq!(*sample, wanted, "{rate} x {channels}, {period}: {index}");
            }
        }
    }
}

#[test]
fn times_are_the_samples_not_the_calls() {
    let format = Format::new(48_000, 1).expect("voice");
    for (period, ppm) in [(512, 0.0), (1_024, 150.0), (480, -150.0), (9_456, 80.0)] {
        let calls = 90 * 48_000 / period;
        let (start, frames) = capture(format, period, (3.0, ppm), calls);
        // After a third the loop has settled.
        for (index, (captured, _)) in frames.iter().enumerate().skip(frames.len() / 3) {
            let true_s = index as f64 * 0.01 / (1.0 + ppm / 1e6);
            let at_s = captured.at.duration_since(start).as_secs_f64();
            // Half of the lateness is not to be reported from delay.
            let error_ms = (at_s - true_s) * 1e3 - 1.5;
            assert!(error_ms.abs() < 1.5, "{period} at {ppm} ppm: {error_ms} ms");
        }
    }
}

#[test]
fn twenty_frames_at_once_are_to_leave_one_by_one() {
    let format = Format::new(16_000, 1).expect("voice");
    let (_, frames) = capture(format, 3_200, (0.0, 0.0), 50);
    let due: Vec<Instant> = frames.iter().map(|(captured, _)| captured.due).collect();
    for pair in due.windows(2) {
        let between = (pair[1] - pair[0]).as_secs_f64() * 1e3;
        assert!((9.0..11.0).contains(&between), "{between}");
    }
    for (captured, _) in frames {
        let until = (captured.due - captured.at).as_secs_f64() * 1e3;
        assert!((199.0..201.0).contains(&until), "{until}");
    }
}

#[test]
fn a_call_that_is_late_moves_no_clock_and_lost_samples_do() {
    let format = Format::new(48_000, 1).expect("voice");
    let start = Clock::new().now();
    for (is_reported, is_lost) in [(false, false), (false, true), (true, false), (true, true)] {
        let mut reframer = Reframer::new(format, TEN).expect("10 ms");
        let mut out = [0.0; 480];
        let mut frames = Vec::new();
        for period in 0..400u32 {
            let last = start + TEN * (period + 1);
            // From 1 s on the device calls no more; at 1.3 s it calls again.
            let is_away = (100..130).contains(&period);
            if is_away && is_lost {
                continue;
            }
            let late = if is_away {
                TEN * (130 - period)
            } else {
                Duration::ZERO
            };
            let now = last + late + Duration::from_micros(50);
            let reported = if is_reported { last } else { now };
            reframer.push_at(&[0.1; 480], reported, now);
            while let Some(captured) = reframer.pop(&mut out) {
                frames.push((TEN * period, captured.at));
            }
        }
        // Six frames may be in doubt.
        let settled = |at: &Duration| *at < TEN * 100 || *at > TEN * 137;
        for (captured_at, at) in frames.iter().filter(|it| is_reported || settled(&it.0)) {
            let error_ms = (*at - start).as_secs_f64() * 1e3 - captured_at.as_secs_f64() * 1e3;
            assert!(
                error_ms.abs() < 1.0,
                "reported {is_reported}, lost {is_lost}: at {captured_at:?} {error_ms}"
            );
        }
        assert!(
            frames.len() >= if is_lost { 369 } else { 400 },
            "{}",
            frames.len()
        );
    }
}

#[test]
fn a_device_that_was_stopped_begins_anew_and_nothing_piles_up() {
    let format = Format::new(8_000, 1).expect("voice");
    let mut reframer = Reframer::new(format, TEN).expect("10 ms");
    let mut now = Clock::new().now();
    for _ in 0..1_000 {
        now += TEN;
        reframer.push(&[0.5; 80], now);
    }
    assert_eq!(reframer.dropped(), 900 * 80);
    now += Duration::from_secs(7);
    reframer.push(&[0.1; 80], now);
    let mut out = [0.0; 80];
    let captured = reframer.pop(&mut out).expect("a frame");
    assert_eq!((captured.at, out[0]), (now - TEN, 0.1));
    assert_eq!(reframer.pop(&mut out), None);
}

#[test]
fn what_is_no_audio_becomes_silence_and_frames_have_lengths() {
    let format = Format::new(8_000, 2).expect("voice");
    for ms in [0, 2, 61] {
        assert!(Reframer::new(format, Duration::from_millis(ms)).is_none());
    }
    let mut reframer = Reframer::new(format, TEN).expect("10 ms");
    let now = Clock::new().now();
    reframer.push(&[f32::NAN, f32::INFINITY, 7.0].repeat(60), now);
    let mut out = [9.0; 160];
    assert!(reframer.pop(&mut out).is_some());
    assert!(out.iter().all(|it| *it == 0.0 || *it == 1.0));
    reframer.push(&[], now);
    reframer.push(&[0.5], now);
    assert_eq!(reframer.pop(&mut out), None);
}

/// The delay-locked loop as Adriaensen writes it: the end of each period is predicted, and
/// both states follow the error of the prediction.
struct Loop {
    end_s: f64,
    sample_s: f64,
}

impl Loop {
    fn period(&mut self, samples: usize, seen_s: f64, rate: f64) {
        let predicted_s = self.end_s + samples as f64 * self.sample_s;
        let error_s = seen_s - predicted_s;
        let omega = std::f64::consts::TAU * 0.1 * samples as f64 / rate;
        self.end_s = predicted_s + std::f64::consts::SQRT_2 * omega * error_s;
        self.sample_s += omega * omega * error_s / samples as f64;
    }
}

#[test]
fn the_clock_is_the_delay_locked_loop_of_the_source() {
    // Lateness of the calls, in ms; less than what counts as late.
    let late_ms = [0.0, 5.0, 0.0, 12.0, 3.0, 0.5, 19.0, 7.0, 0.0, 1.0];
    for (rate, period, frame_ms) in [(48_000, 480, 10), (48_000, 512, 10), (16_000, 320, 20)] {
        let format = Format::new(rate, 1).expect("a voice's");
        let frame = Duration::from_millis(frame_ms);
        let mut reframer = Reframer::new(format, frame).expect("a frame");
        let start = Clock::new().now();
        let nominal_s = 1.0 / f64::from(rate);
        let period_s = period as f64 * nominal_s;
        let at = |s: f64| start + Duration::from_secs_f64(s);
        let mut reference = Loop {
            end_s: period_s,
            sample_s: nominal_s,
        };
        let mut out = vec![0.0; reframer.frame_samples()];
        let (mut pushed, mut popped) = (0, 0);
        for call in 1..=200 {
            let seen_s = f64::from(call) * period_s + late_ms[call as usize % 10] / 1e3;
            if call == 1 {
                reference.end_s = seen_s;
            } else {
                reference.period(period, seen_s, f64::from(rate));
            }
            reframer.push(&vec![0.5; period], at(seen_s));
            pushed += period;
            while let Some(captured) = reframer.pop(&mut out) {
                let waited = (pushed - popped) as f64;
                popped += out.len();
                let wanted_s = reference.end_s - waited * reference.sample_s;
                let got_s = captured.at.duration_since(start).as_secs_f64();
                let error_s = (got_s - wanted_s).abs();
                assert!(
                    error_s < 1e-7,
                    "{period} of {rate}, {call}: {got_s} {wanted_s}"
                );
                assert_eq!(captured.delivered, at(seen_s));
            }
        }
    }
}

#[test]
fn frames_of_a_long_period_wait_for_its_end_and_those_of_a_short_one_do_not() {
    // The longest wait: the period less what it has in common with a frame.
    for (rate, period, hold) in [
        (48_000, 480, 0),
        (48_000, 479, 0),
        (48_000, 481, 480),
        (48_000, 720, 480),
        (48_000, 960, 480),
        (16_000, 3_200, 3_040),
    ] {
        let format = Format::new(rate, 1).expect("a voice's");
        let mut reframer = Reframer::new(format, TEN).expect("10 ms");
        let start = Clock::new().now();
        let mut out = vec![0.0; reframer.frame_samples()];
        assert_eq!(reframer.next_due(), None);
        let at = |samples: usize| start + Duration::from_secs_f64(samples as f64 / f64::from(rate));
        let mut popped = 0;
        for call in 1..=20 {
            reframer.push(&vec![0.5; period], at(call * period));
            let hold_s = hold as f64 / f64::from(rate);
            while let Some(due) = reframer.next_due() {
                let captured = reframer.pop(&mut out).expect("it is whole");
                // What is complete may be due since its first samples came.
                let is_right = if hold == 0 {
                    due <= captured.due
                } else {
                    due == captured.due
                };
                assert!(is_right, "{period}: {due:?} {captured:?}");
                popped += out.len();
                let wanted = match hold {
                    // At once, with the call that completed the frame.
                    0 => captured.delivered,
                    _ => at(popped) + Duration::from_secs_f64(hold_s),
                };
                let due = captured.due;
                let off = wanted.max(due) - wanted.min(due);
                assert!(off < Duration::from_nanos(300), "{period}: {off:?}");
                assert_eq!(captured.delivered, at(popped.div_ceil(period) * period));
            }
            assert!(
                call * period - popped < out.len(),
                "less than a frame is left"
            );
        }
    }
}

#[test]
fn a_wait_for_long_periods_is_given_up_when_periods_become_short() {
    let format = Format::new(8_000, 1).expect("mono");
    let mut reframer = Reframer::new(format, TEN).expect("10 ms");
    let mut now = Clock::new().now();
    let mut push = |reframer: &mut Reframer, samples: usize| {
        now += Duration::from_secs_f64(samples as f64 / 8_000.0);
        reframer.push(&vec![0.0; samples], now);
    };
    push(&mut reframer, 160);
    assert!((reframer.hold_s - 0.01).abs() < 1e-9);
    // It fades by the time constant of five seconds, until it is less than a sample.
    for _ in 0..500 {
        push(&mut reframer, 80);
    }
    assert!((reframer.hold_s - 0.01 * (-1.0f64).exp()).abs() < 1e-9);
    for _ in 0..1_690 {
        push(&mut reframer, 80);
    }
    // The logarithm of 80 samples is 4.382, which is reached after 2,191 periods.
    assert!(reframer.hold_s > 1.0 / 8_000.0, "{}", reframer.hold_s);
    for _ in 0..2 {
        push(&mut reframer, 80);
    }
    assert_eq!(reframer.hold_s, 0.0);
}

/// A reframer of 10 ms at 8 kHz after ten calls on time, and the time of the last.
fn settled() -> (Reframer, Instant) {
    let format = Format::new(8_000, 1).expect("mono");
    let mut reframer = Reframer::new(format, TEN).expect("10 ms");
    let mut now = Clock::new().now();
    for _ in 0..10 {
        now += TEN;
        reframer.push(&[0.5; 80], now);
        reframer.pop(&mut [0.0; 80]).expect("a frame");
    }
    (reframer, now)
}

#[test]
fn what_is_20_ms_off_adjusts_the_clock_and_more_does_not() {
    // Lateness in µs, and by how much the frame's time moves, in ns.
    let omega = std::f64::consts::TAU * 0.1 * 0.01;
    // The end of the frame moves, and the length of its samples changes.
    let moved = |us: f64| (std::f64::consts::SQRT_2 * omega - omega * omega) * us * 1e3;
    for (late_us, moved_ns) in [
        (0, 0.0),
        (19_990, moved(19_990.0)),
        (20_010, 0.0),
        (500_000, 0.0),
        (-9_000, moved(-9_000.0)),
        (-19_990, moved(-19_990.0)),
        // No sample is delivered before it is captured.
        (-20_010, -20_010_000.0),
    ] {
        let (mut reframer, last) = settled();
        let late = Duration::from_micros(i64::unsigned_abs(late_us));
        let on_time = last + TEN;
        let now = if late_us < 0 {
            on_time - late
        } else {
            on_time + late
        };
        reframer.push(&[0.5; 80], now);
        let captured = reframer.pop(&mut [0.0; 80]).expect("a frame");
        let ns = |at: Instant| at.duration_since(last - TEN * 5).as_secs_f64() * 1e9;
        let off = ns(captured.at) - ns(last) - moved_ns;
        assert!(off.abs() < 20.0, "{late_us}: {off}");
        assert_eq!(reframer.late_calls.is_some(), late_us > 20_000, "{late_us}");
        assert_eq!(reframer.dropped(), 0);
    }
}

#[test]
fn late_calls_have_60_ms_to_be_made_up_for_and_no_second_to_be_late() {
    // Every call is 100 ms late; the run begins with the first. Less 50 ms in the middle.
    let (mut reframer, last) = settled();
    let late = Duration::from_millis(100);
    for call in 1..=6u32 {
        let nearer = if call == 3 { TEN * 5 } else { Duration::ZERO };
        reframer.push(&[0.5; 80], last + TEN * call + late - nearer);
        let captured = reframer.pop(&mut [0.0; 80]).expect("a frame");
        // The clock goes on as if nothing was late.
        let off = captured.at.duration_since(last - TEN).as_secs_f64() - f64::from(call) * 0.01;
        assert!(off.abs() < 1e-7, "{call}: {off}");
    }
    // 60 ms after the first one the samples are lost: of the least lateness, half of it.
    reframer.push(&[0.5; 80], last + TEN * 7 + late);
    let captured = reframer.pop(&mut [0.0; 80]).expect("a frame");
    let moved = captured.at.duration_since(last + TEN * 6).as_secs_f64();
    assert!((moved - 0.050).abs() < 1e-6, "{moved}");
    assert!(reframer.late_calls.is_none());
    // What a device reports is believed at once, and so is what no device can hold.
    for (late_ms, is_reported) in [(100, true), (1_000, false), (2_000, false)] {
        let (mut reframer, last) = settled();
        let end = last + TEN + Duration::from_millis(late_ms);
        let now = if is_reported { end + TEN } else { end };
        reframer.push_at(&[0.5; 80], end, now);
        let captured = reframer.pop(&mut [0.0; 80]).expect("a frame");
        let off = captured.at.duration_since(end - TEN).as_secs_f64();
        assert!(off.abs() < 1e-7, "{late_ms}: {off}");
        assert_eq!(captured.delivered, now);
    }
}

#[test]
fn the_clock_follows_a_device_by_two_thousandths_and_no_further() {
    for (ppm, found_ppm) in [(1_000.0, 1_000.0), (-1_000.0, -1_000.0), (3_000.0, 2_000.0)] {
        let format = Format::new(8_000, 1).expect("mono");
        let mut reframer = Reframer::new(format, TEN).expect("10 ms");
        let start = Clock::new().now();
        for call in 1..=6_000 {
            let at_s = f64::from(call) * 0.01 * (1.0 + ppm / 1e6);
            reframer.push(&[0.5; 80], start + Duration::from_secs_f64(at_s));
            reframer.pop(&mut [0.0; 80]);
        }
        let clock = reframer.clock.expect("it runs");
        let ppm = (clock.frame_s * 8_000.0 - 1.0) * 1e6;
        assert!((ppm - found_ppm).abs() < 5.0, "{ppm} {found_ppm}");
    }
}

#[test]
fn a_second_waits_and_frames_have_2_5_to_60_ms() {
    let format = Format::new(8_000, 2).expect("stereo");
    let made = |us| Reframer::new(format, Duration::from_micros(us));
    let lengths = [2_499, 2_500, 60_000, 60_001];
    let frames = lengths.map(|us| made(us).map(|it| it.frame_samples()));
    assert_eq!(frames, [None, Some(40), Some(960), None]);
    let mut reframer = made(10_000).expect("10 ms");
    let mut now = Clock::new().now();
    for _ in 0..100 {
        now += TEN;
        reframer.push(&[0.5; 160], now);
    }
    assert_eq!(reframer.dropped(), 0, "a second");
    reframer.push(&[0.25; 2], now);
    assert_eq!(reframer.dropped(), 1);
    // The first frame is what comes after the sample that was dropped.
    let captured = reframer.pop(&mut [0.0; 160]).expect("a frame");
    let delivered = now - TEN * 98;
    assert_eq!(
        captured.delivered, delivered,
        "a sample is of the second call"
    );
}
