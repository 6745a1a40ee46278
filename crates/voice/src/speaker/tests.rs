use bytes::Bytes;

use super::*;
use crate::codec::{L16, Unencodable};
use crate::preprocess;

const TEN: Duration = Duration::from_millis(10);

/// Stub of an encoder: linear samples of one channel. A payload of silence only announces it,
/// and one that begins with more than 0.9 cannot be encoded.
#[derive(Debug)]
struct Linear {
    frame_samples: usize,
    bitrate: Bitrate,
    expected_loss: f64,
}

impl Encoder for Linear {
    fn frame_samples(&self) -> usize {
        self.frame_samples
    }

    fn encode(&mut self, samples: &[f32], payload: &mut Vec<u8>) -> Result<(), Unencodable> {
        payload.clear();
        if samples[0] > 0.9 {
            return Err(Unencodable {
                samples: samples.len(),
            });
        }
        match samples.iter().all(|it| *it == 0.0) {
            true => payload.push(0),
            false => payload.extend(L16::encode(samples)),
        }
        Ok(())
    }

    fn look_ahead(&self) -> Duration {
        Duration::from_micros(2_500)
    }

    fn is_silence(&self, payload: &[u8]) -> bool {
        payload.len() == 1
    }

    fn set_bitrate(&mut self, bitrate: Bitrate) {
        self.bitrate = bitrate;
    }

    fn set_expected_loss(&mut self, ratio: f64) {
        self.expected_loss = ratio;
    }
}

fn config() -> Config {
    Config {
        preprocess: preprocess::Config::OFF,
        timestamp_first: 5_000,
        ..Config::new(Format::new(48_000, 1).expect("mono"))
    }
}

fn speaker(config: Config, frame_samples: usize) -> Speaker<Linear> {
    let encoder = Linear {
        frame_samples,
        bitrate: Bitrate::from_bps(0),
        expected_loss: 0.0,
    };
    Speaker::with_encoder(config, encoder).expect("a speaker")
}

/// Captures 10 ms of an even level that end at `now`, and returns the packet that this makes.
fn say(speaker: &mut Speaker<Linear>, level: f32, now: Instant) -> Option<Outgoing> {
    speaker.capture(&[level; FRAME], now);
    let mut time = now;
    speaker.poll(&mut || {
        let at = time;
        time += Duration::from_millis(1);
        at
    })
}

#[test]
fn a_frame_becomes_a_packet_with_the_times_of_each_step() {
    let mut speaker = speaker(
        Config {
            device_delay: Duration::from_millis(3),
            ..config()
        },
        480,
    );
    let start = Instant::now();
    for number in 1..=5 {
        let now = start + TEN * number;
        let outgoing = say(&mut speaker, 0.1, now).expect("10 ms");
        assert_eq!(outgoing.payload, L16::encode(&[0.1; FRAME]));
        let timestamp = 5_000 + 480 * u64::from(number - 1);
        assert_eq!(outgoing.timestamp, timestamp);
        assert_eq!(outgoing.marker, number == 1, "of a talkspurt the first");
        assert_eq!(outgoing.level_dbov, 20);
        let ms = |ms: u64| now + Duration::from_millis(ms);
        let stamps = outgoing.stamps;
        assert_eq!((stamps.timestamp, stamps.duration), (timestamp, TEN));
        let captured = start + TEN * (number - 1) - Duration::from_millis(3);
        let off = captured.max(stamps.captured) - captured.min(stamps.captured);
        assert!(off < Duration::from_nanos(10), "{off:?}");
        assert_eq!(stamps.delivered, now);
        // The clock is asked whether the frame is due, and after each step.
        let steps = [
            stamps.framed,
            stamps.preprocessed,
            stamps.encode_began,
            stamps.encoded,
        ];
        assert_eq!(steps, [ms(1), ms(2), ms(3), ms(4)]);
        assert!(stamps.encoded_something && stamps.sent.is_none());
        assert_eq!(stamps.signal.encode, Duration::from_micros(2_500));
        assert_eq!(stamps.signal.total(), Duration::from_micros(2_500));
    }
    assert_eq!(speaker.poll_timeout(), None);
    assert_eq!(speaker.poll_unsent(), None);
    let report = speaker.report();
    let wanted = Report {
        frames: 5,
        packets: 5,
        bytes: 5 * 960,
        level_dbov: 20,
        signal: report.signal,
        ..Report::default()
    };
    assert_eq!(report, wanted);
    assert_eq!(report.signal.total(), Duration::from_micros(2_500));
}

#[test]
fn frames_of_a_longer_packet_wait_for_each_other() {
    let mut speaker = speaker(config(), 960);
    let start = Instant::now();
    assert_eq!(say(&mut speaker, 0.1, start + TEN), None);
    let waits = speaker.poll_unsent().expect("half of a packet");
    assert_eq!((waits.timestamp, waits.duration), (5_000, TEN));
    assert!(!waits.encoded_something);
    let outgoing = say(&mut speaker, 0.1, start + 2 * TEN).expect("20 ms");
    assert_eq!(outgoing.timestamp, 5_000);
    assert_eq!(outgoing.stamps.duration, 2 * TEN);
    assert_eq!(outgoing.stamps.captured, waits.captured);
    assert_eq!(outgoing.payload.len(), 1_920);
    assert_eq!(say(&mut speaker, 0.1, start + 3 * TEN), None);
    let outgoing = say(&mut speaker, 0.1, start + 4 * TEN).expect("20 ms");
    assert_eq!(outgoing.timestamp, 5_960);
    let report = speaker.report();
    assert_eq!((report.frames, report.packets, report.bytes), (4, 2, 3_840));
    // Who does not ask for the others loses the oldest of them.
    for number in 5..=5 + 2 * 70 {
        say(&mut speaker, 0.1, start + TEN * number);
    }
    let kept: Vec<_> = std::iter::from_fn(|| speaker.poll_unsent()).collect();
    assert_eq!(kept.len(), 64);
    for pair in kept.windows(2) {
        assert_eq!(pair[1].timestamp - pair[0].timestamp, 960);
    }
}

#[test]
fn silence_is_announced_once_and_speech_begins_with_a_marker() {
    let mut speaker = speaker(config(), 480);
    let start = Instant::now();
    let levels = [0.1, 0.0, 0.0, 0.0, 0.1, 0.1, 0.0, 0.1];
    let mut sent = Vec::new();
    for (number, level) in (1..).zip(levels) {
        let outgoing = say(&mut speaker, level, start + TEN * number);
        sent.push(outgoing.map(|it| (it.payload.len(), it.marker)));
    }
    let speech = |marker| Some((960, marker));
    let announced = Some((1, false));
    let wanted = [
        speech(true),
        announced,
        None,
        None,
        speech(true),
        speech(false),
        announced,
        speech(true),
    ];
    assert_eq!(sent, wanted);
    let report = speaker.report();
    assert_eq!((report.frames, report.packets, report.silent), (8, 6, 2));
    assert_eq!(report.bytes, 4 * 960 + 2);
    let unsent: Vec<_> = std::iter::from_fn(|| speaker.poll_unsent())
        .map(|it| it.timestamp)
        .collect();
    assert_eq!(unsent, [5_960, 6_440]);
    // What cannot be encoded is counted, and the next frame is a packet of its own.
    assert_eq!(say(&mut speaker, 0.95, start + TEN * 9), None);
    assert_eq!(speaker.report().failed, 1);
    let next = say(&mut speaker, 0.1, start + TEN * 10).expect("10 ms");
    assert_eq!((next.payload.len(), next.timestamp), (960, 5_000 + 9 * 480));
}

#[test]
fn a_pause_of_more_than_15_ms_is_a_gap_in_the_timestamps() {
    for (pause_us, ticks) in [(0, 0), (15_000, 0), (15_100, 725), (500_000, 24_000)] {
        let mut speaker = speaker(config(), 480);
        let start = Instant::now();
        // A device that reports its times is believed at once.
        let mut capture = |last: Instant| {
            speaker.capture_at(&[0.5; FRAME], last, last + Duration::from_millis(1));
            let now = last + Duration::from_millis(1);
            speaker.poll(&mut || now)
        };
        capture(start + TEN).expect("10 ms");
        let pause = Duration::from_micros(pause_us);
        let outgoing = capture(start + 2 * TEN + pause).expect("10 ms");
        let is_gap = ticks > 0;
        let after = outgoing.timestamp - 5_480;
        if pause_us > 20_000 {
            assert!(after.abs_diff(ticks) <= 1, "{pause_us}: {after}");
        } else {
            // What is below 20 ms moves the clock by less than a hundredth.
            assert_eq!(after, 0, "{pause_us}");
        }
        let is_lost = pause_us > 20_000;
        assert_eq!(speaker.report().gaps, u64::from(is_lost), "{pause_us}");
        assert_eq!(outgoing.marker, is_lost, "{pause_us}");
        // The first sample after a gap is silent, and the last is nearly whole.
        let first = i16::from_be_bytes([outgoing.payload[0], outgoing.payload[1]]);
        assert_eq!(first == 0, is_lost, "{pause_us}: {is_gap}");
        let last = i16::from_be_bytes([outgoing.payload[958], outgoing.payload[959]]);
        let wanted = if is_lost { 0.5 * 479.0 / 480.0 } else { 0.5 } * 32_767.0;
        assert!(
            (f64::from(last) - wanted).abs() <= 1.0,
            "{pause_us}: {last}"
        );
    }
}

#[test]
fn a_frame_begins_a_gap_if_it_is_more_than_15_ms_later_than_expected() {
    let start = Instant::now();
    for (late_us, ticks, gaps) in [
        (0, 0, 0),
        (15_000, 0, 0),
        (15_001, 720, 1),
        (20_000, 960, 1),
    ] {
        let mut speaker = speaker(config(), 480);
        speaker.packet.push(0.5);
        assert_eq!(speaker.timestamp_at(start), 5_000);
        let late = start + TEN + Duration::from_micros(late_us);
        assert_eq!(speaker.timestamp_at(late), 5_480 + ticks, "{late_us}");
        assert_eq!(speaker.report.gaps, gaps);
        assert_eq!(speaker.packet.is_empty(), gaps == 1, "no packet spans it");
        assert_eq!(speaker.gain == 0.0, gaps == 1);
        assert_eq!(speaker.timestamp_at(late + TEN), 5_960 + ticks);
    }
}

#[test]
fn who_is_muted_fades_over_a_frame_and_back_again() {
    let stereo = Config {
        opus: opus::Config {
            channels: 2,
            ..opus::Config::default()
        },
        ..config()
    };
    let mut speaker = speaker(stereo, 960);
    let start = Instant::now();
    let samples = |outgoing: &Outgoing| -> Vec<f32> {
        let words = outgoing.payload.as_chunks::<2>().0.iter();
        words
            .map(|it| f32::from(i16::from_be_bytes(*it)) / 32_767.0)
            .collect()
    };
    let is_near = |it: &[f32], wanted: f32| it.iter().all(|it| (it - wanted).abs() < 1e-4);
    let spoken = say(&mut speaker, 0.5, start + TEN).expect("10 ms");
    assert!(is_near(&samples(&spoken), 0.5));
    speaker.set_muted(true);
    assert!(speaker.report().is_muted);
    let falls = samples(&say(&mut speaker, 0.5, start + 2 * TEN).expect("10 ms"));
    for (frame, pair) in falls.chunks_exact(2).enumerate() {
        assert!(is_near(pair, 0.5 * (1.0 - frame as f32 / 480.0)), "{frame}");
    }
    let silent = say(&mut speaker, 0.5, start + 3 * TEN).expect("the announcement");
    assert_eq!(silent.payload.len(), 1);
    assert!(say(&mut speaker, 0.5, start + 4 * TEN).is_none());
    speaker.set_muted(false);
    assert!(!speaker.report().is_muted);
    let rises = samples(&say(&mut speaker, 0.5, start + 5 * TEN).expect("10 ms"));
    for (frame, pair) in rises.chunks_exact(2).enumerate() {
        assert!(is_near(pair, 0.5 * frame as f32 / 480.0), "{frame}");
    }
    let spoken = say(&mut speaker, 0.5, start + 6 * TEN).expect("10 ms");
    assert!(is_near(&samples(&spoken), 0.5));
}

#[test]
fn red_repeats_as_many_packets_as_were_asked_for() {
    let red = Red {
        payload_type: 111,
        copies: 2,
    };
    let mut speaker = speaker(
        Config {
            red: Some(red),
            ..config()
        },
        480,
    );
    let start = Instant::now();
    let payload = |number: u32| Bytes::from(L16::encode(&[0.01 * number as f32; FRAME]));
    for number in 1..=5u32 {
        let outgoing = say(&mut speaker, 0.01 * number as f32, start + TEN * number);
        let outgoing = outgoing.expect("10 ms");
        let blocks = red::blocks(&outgoing.payload).expect("RED");
        let found: Vec<_> = blocks.iter().map(|it| (it.offset, it.payload)).collect();
        let all: Vec<_> = (number.saturating_sub(2).max(1)..=number)
            .map(|it| (480 * (number - it), payload(it)))
            .collect();
        let wanted: Vec<_> = all.iter().map(|(offset, it)| (*offset, &it[..])).collect();
        assert_eq!(found, wanted, "{number}");
    }
    let bytes = 960 * (1 + 2 + 3 * 3);
    // Headers have one byte for the last block and four for each other.
    assert_eq!(speaker.report().bytes, bytes + 5 + 4 * (1 + 3 * 2));
    for (copies, is_right) in [(0, false), (1, true), (4, true), (5, false)] {
        let red = Some(Red { copies, ..red });
        let made = Speaker::new(Config { red, ..config() });
        let wanted = (!is_right).then_some(ConfigError::Copies(copies));
        assert_eq!(made.err(), wanted);
    }
    let mut three = config();
    three.opus.channels = 3;
    let refused = ConfigError::Opus(opus::Error::Channels(3));
    assert_eq!(Speaker::new(three).err(), Some(refused));
}

#[test]
fn a_device_of_another_format_is_converted() {
    let stereo = Format::new(16_000, 2).expect("stereo");
    let mut speaker = speaker(
        Config {
            device: stereo,
            ..config()
        },
        480,
    );
    let mut now = Instant::now();
    let mut sent = Vec::new();
    for _ in 0..50 {
        now += TEN;
        // Half a frame at the end is no sample; the channels are 0.2 and 0.4.
        let mut samples = [0.2, 0.4].repeat(160);
        samples.push(0.9);
        speaker.capture(&samples, now);
        while let Some(outgoing) = speaker.poll(&mut || now) {
            sent.push(outgoing);
        }
    }
    assert!((48..=50).contains(&sent.len()), "{}", sent.len());
    let last = sent.last().expect("many");
    let level = f32::from(i16::from_be_bytes([last.payload[500], last.payload[501]])) / 32_767.0;
    assert!((level - 0.3).abs() < 1e-3, "{level}");
    // Half of 64 samples.
    let delay = Duration::from_millis(2);
    assert_eq!(speaker.report().signal.resample, delay);
    speaker.set_device(Format::new(48_000, 1).expect("mono"), TEN);
    assert_eq!(speaker.report().signal.resample, Duration::ZERO);
    assert_eq!(speaker.config.device_delay, TEN);
    speaker.set_bitrate(Bitrate::from_bps(9_000));
    speaker.set_expected_loss(0.25);
    assert_eq!(speaker.encoder.bitrate, Bitrate::from_bps(9_000));
    assert_eq!(speaker.encoder.expected_loss, 0.25);
}

#[test]
fn what_is_no_number_is_silence_and_what_nobody_takes_is_dropped() {
    let mut speaker = speaker(config(), 480);
    let start = Instant::now();
    speaker.capture(&[f32::NAN; FRAME], start + TEN);
    let now = start + TEN;
    let outgoing = speaker.poll(&mut || now);
    assert_eq!(outgoing, None, "nobody has spoken yet");
    assert_eq!(speaker.report().silent, 1);
    for number in 2..=103 {
        speaker.capture(&[0.5; FRAME], start + TEN * number);
    }
    assert_eq!(speaker.report().dropped, 2 * FRAME as u64);
    assert_eq!(speaker.poll_timeout(), Some(start + TEN * 4));
}

#[test]
fn the_chain_before_the_encoder_is_told_what_is_played() {
    let with_echo = Config {
        preprocess: preprocess::Config {
            echo: true,
            ..preprocess::Config::OFF
        },
        ..config()
    };
    let mut speaker = speaker(with_echo, 480);
    speaker.set_stream_delay(TEN);
    let mut rng = glassline_sim::Rng::new(1);
    let start = Instant::now();
    let mut level = 0;
    for number in 1..=300 {
        let noise: Vec<f32> = (0..FRAME).map(|_| rng.unit() as f32 - 0.5).collect();
        speaker.rendered(&noise);
        let now = start + TEN * number;
        speaker.capture(&noise, now);
        if let Some(outgoing) = speaker.poll(&mut || now) {
            level = outgoing.level_dbov;
        }
    }
    // An even distribution up to a half is at −10.8 dBov; 20 dB of the echo are gone.
    assert!(level > 30, "{level}");
    let report = speaker.report();
    assert!(
        report.echo.enhancement_db.expect("it is on") > 5.0,
        "{report:?}"
    );
    assert_eq!(report.level_dbov.clamp(30, 127), report.level_dbov);
    // 46 and 384 samples.
    let delay = Duration::from_secs_f64(430.0 / 48_000.0);
    assert_eq!(report.signal.preprocess, delay);
    // What the device cancels is not cancelled again.
    let hardware = preprocess::Hardware {
        echo: true,
        ..preprocess::Hardware::default()
    };
    let other = self::speaker(
        Config {
            hardware,
            ..with_echo
        },
        480,
    );
    assert_eq!(other.report().signal.preprocess, Duration::ZERO);
}
