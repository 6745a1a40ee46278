use std::time::{Duration, Instant};

use glassline_media::Ssrc;

use super::{Config, Listener, Refused};
use crate::codec::{Format, L16};
use crate::jitter::Packet;
use crate::stamps::{DuplicateReason, Operation, Received};

/// Packets of 10 ms at 48 kHz.
const FRAMES: u32 = 480;

/// A listener with room for two voices, and what each voice says.
struct Room {
    listener: Listener<L16>,
    now: Instant,
    packets: u32,
}

impl Room {
    fn new() -> Self {
        let config = Config {
            streams_max: 2,
            ..Config::new(Format::new(48_000, 1).expect("a device's"))
        };
        let make = |format, _| Ok(L16::new(format));
        Self {
            listener: Listener::with_decoder(config, make).expect("a listener"),
            now: Instant::now(),
            packets: 0,
        }
    }

    /// Runs for `time` in which voices 0, 1, … have the given `levels`; returns which voices
    /// were refused a packet.
    fn run(&mut self, time: Duration, levels: &[f32]) -> Vec<bool> {
        let mut refused = vec![false; levels.len()];
        for _ in 0..time.as_millis() / 10 {
            for (voice, level) in levels.iter().enumerate() {
                let samples: Vec<f32> = (0..FRAMES)
                    .map(|at| if at % 96 < 48 { *level } else { -level })
                    .collect();
                let packet = Packet {
                    sequence: self.packets as u16,
                    timestamp: self.packets * FRAMES,
                    payload: L16::encode(&samples).into(),
                };
                let ssrc = Ssrc(voice as u32);
                let taken = self.listener.receive(ssrc, packet, Received::at(self.now));
                refused[voice] |= matches!(taken, Err(Refused::Streams));
            }
            let mut out = [0.0; FRAMES as usize];
            let now = self.now;
            self.listener.play(&mut out, now, &mut || now);
            self.packets += 1;
            self.now += Duration::from_millis(10);
        }
        refused
    }

    fn voices(&self) -> Vec<u32> {
        let report = self.listener.report(self.now);
        let mut voices: Vec<u32> = report.streams.iter().map(|it| it.ssrc.0).collect();
        voices.sort_unstable();
        voices
    }
}

#[test]
fn who_says_nothing_makes_room_for_who_comes() {
    let mut room = Room::new();
    let second = Duration::from_secs(1);
    assert_eq!(room.run(second, &[0.3, 0.0]), [false, false]);
    // Both may still begin to speak.
    assert_eq!(room.run(second, &[0.3, 0.0, 0.2]), [false, false, true]);
    assert_eq!(room.voices(), [0, 1]);
    assert!(room.listener.report(room.now).refused >= 100);
    // The silent one came six seconds ago.
    room.run(4 * second, &[0.3, 0.0, 0.2]);
    assert_eq!(room.voices(), [0, 2]);
    // Nobody who speaks makes room, however long.
    let refused = room.run(10 * second, &[0.3, 0.1, 0.2]);
    assert_eq!(refused, [false, true, false]);
    assert_eq!(room.voices(), [0, 2]);
}

#[test]
fn a_voice_that_left_is_forgotten_once() {
    let mut room = Room::new();
    room.run(Duration::from_millis(100), &[0.1]);
    assert!(!room.listener.remove(Ssrc(7)), "never heard");
    assert!(room.listener.remove(Ssrc(0)));
    assert!(!room.listener.remove(Ssrc(0)));
}

fn linear(config: Config) -> Listener<L16> {
    Listener::with_decoder(config, |format, _| Ok(L16::new(format))).expect("a listener")
}

fn device(rate: u32, channels: usize) -> Config {
    Config::new(Format::new(rate, channels).expect("a device's"))
}

/// A packet of 10 ms of an even level.
fn even(number: u32, level: f32) -> Packet {
    Packet {
        sequence: number as u16,
        timestamp: number * FRAMES,
        payload: L16::encode(&[level; FRAMES as usize]).into(),
    }
}

const TEN: Duration = Duration::from_millis(10);

#[test]
fn each_step_of_a_packet_has_its_time() {
    let config = Config {
        device_delay: Duration::from_millis(7),
        ..device(48_000, 2)
    };
    let mut listener = linear(config);
    let start = Instant::now();
    let mut played = Vec::new();
    for number in 0..100 {
        let now = start + TEN * number;
        let received = Received {
            arrived: now,
            opened: now + Duration::from_micros(10),
            inserted: now + Duration::from_micros(20),
        };
        let taken = listener.receive(Ssrc(9), even(number, 0.1), received);
        taken.expect("in order");
        // The device asks 1 ms later; whoever asks for the time waits for a millisecond.
        let now = now + Duration::from_millis(1);
        let mut time = now;
        let mut out = [0.0; 2 * FRAMES as usize];
        listener.play(&mut out, now, &mut || {
            time += Duration::from_millis(1);
            time
        });
        while let Some(stamps) = listener.poll_playout_stamps() {
            assert_eq!((stamps.called, stamps.pulled), (now, now));
            let third = Duration::from_millis(1);
            let took = [stamps.decode, stamps.mix, stamps.resample];
            assert_eq!(took, [third; 3]);
            let sent = start + TEN * (stamps.timestamp / 480) as u32;
            assert_eq!(stamps.arrived, sent);
            assert_eq!(stamps.opened, sent + Duration::from_micros(10));
            assert_eq!(stamps.inserted, sent + Duration::from_micros(20));
            assert_eq!(stamps.sequence, Some((stamps.timestamp / 480) as u16));
            assert_eq!(
                (stamps.ssrc, stamps.operation),
                (Ssrc(9), Operation::Normal)
            );
            assert_eq!(stamps.signal.total(), Duration::ZERO);
            let ahead = stamps.played - now;
            // Within the period, and behind the device.
            assert!(
                (Duration::from_millis(7)..Duration::from_millis(17)).contains(&ahead),
                "{ahead:?}"
            );
            played.push((stamps.timestamp, stamps.played));
        }
    }
    assert!(played.len() > 90, "{}", played.len());
    // What is a packet later in the stream is heard 10 ms later, once nothing is stretched.
    for pair in played[50..].windows(2) {
        assert_eq!(pair[1].0 - pair[0].0, 480);
        let apart = (pair[1].1 - pair[0].1).as_secs_f64();
        assert!((apart - 0.01).abs() < 1e-6, "{apart}");
    }
    let report = listener.report(start + TEN * 100);
    assert_eq!(report.streams.len(), 1);
    assert_eq!(report.streams[0].ssrc, Ssrc(9));
    assert!(report.streams[0].is_mixed);
    assert_eq!(report.streams[0].jitter.counts.packets, 100);
    // An even level of a tenth is 20 dB below full scale.
    assert_eq!((report.level_dbov, report.streams[0].level_dbov), (20, 20));
    assert_eq!((report.refused, report.stamps_dropped), (0, 0));
}

#[test]
fn what_is_pulled_and_not_yet_asked_for_waits() {
    let mut listener = linear(device(48_000, 2));
    let now = Instant::now();
    // Pulls have 120 frames.
    for (frames, waits) in [(100, 20), (20, 0), (1, 119), (239, 0), (0, 0), (121, 119)] {
        let mut out = vec![9.0; 2 * frames];
        listener.play(&mut out, now, &mut || now);
        assert!(out.iter().all(|it| *it == 0.0), "{frames}");
        let waiting = listener.report(now).waiting.as_secs_f64() * 48_000.0;
        assert!(
            (waiting - f64::from(waits)).abs() < 1e-3,
            "{frames}: {waiting}"
        );
    }
    // The same device keeps what waits, another one does not.
    let format = Format::new(48_000, 2).expect("stereo");
    listener.set_device(format, TEN);
    assert!(listener.report(now).waiting > Duration::ZERO);
    listener.set_device(Format::new(16_000, 1).expect("mono"), TEN);
    assert_eq!(listener.report(now).waiting, Duration::ZERO);
    // 2.5 ms are 40 frames now.
    listener.play(&mut [0.0; 30], now, &mut || now);
    let mut rest = [0.0; 200];
    listener.play(&mut rest, now, &mut || now);
    let waiting = listener.report(now).waiting;
    assert!(waiting < Duration::from_micros(2_500), "{waiting:?}");
    // At most a second is filled.
    let mut long = vec![9.0; 16_003];
    listener.play(&mut long, now, &mut || now);
    assert!(long.iter().all(|it| *it == 0.0));
    let frames = listener.report(now).waiting.as_secs_f64() * 16_000.0;
    assert!(frames < 40.0, "{frames}");
}

#[test]
fn what_the_echo_canceller_is_given_is_what_was_played_for_half_a_second() {
    let mut listener = linear(device(48_000, 1));
    let start = Instant::now();
    let mut heard = Vec::new();
    for number in 0..100 {
        let now = start + TEN * number;
        let level = 0.1 + f32::from(number as u16) / 1_000.0;
        listener
            .receive(Ssrc(1), even(number, level), Received::at(now))
            .expect("in order");
        let mut out = [0.0; FRAMES as usize];
        listener.play(&mut out, now, &mut || now);
        heard.extend(out);
    }
    let mut rendered = vec![7.0];
    listener.take_rendered(&mut rendered);
    assert_eq!(rendered.remove(0), 7.0);
    assert_eq!(rendered.len(), 24_000);
    assert_eq!(rendered, heard[24_000..]);
    listener.take_rendered(&mut rendered);
    assert_eq!(rendered.len(), 24_000, "once");
}

#[test]
fn one_voice_is_left_as_it_is_and_two_stay_within_full_scale() {
    let play = |voices: u32, mixed_max| {
        let mut listener = linear(Config {
            mixed_max,
            ..device(48_000, 1)
        });
        let start = Instant::now();
        let mut out = [0.0; FRAMES as usize];
        for number in 0..100 {
            let now = start + TEN * number;
            for voice in 0..voices {
                let level = 0.95 - 0.05 * voice as f32;
                listener
                    .receive(Ssrc(voice), even(number, level), Received::at(now))
                    .expect("in order");
            }
            listener.play(&mut out, now, &mut || now);
        }
        let report = listener.report(start);
        let is_mixed: Vec<bool> = report.streams.iter().map(|it| it.is_mixed).collect();
        (out[479], is_mixed)
    };
    let near = |(level, is_mixed): (f32, Vec<bool>), wanted: f32, mixed: &[bool]| {
        assert!((level - wanted).abs() < 0.01, "{level} {wanted}");
        assert_eq!(is_mixed, mixed);
    };
    near(play(1, 3), 0.95, &[true]);
    // The limiter holds the sum of 0.95 and 0.9 at its ceiling.
    near(play(2, 3), 0.9, &[true; 2]);
    near(play(2, 2), 0.9, &[true; 2]);
    // Of two only the louder one, which the limiter holds, too.
    near(play(2, 1), 0.9, &[true, false]);
    near(play(2, 0), 0.0, &[false; 2]);
}

#[test]
fn copies_in_red_replace_what_is_lost_and_no_red_is_refused() {
    let mut listener = linear(Config {
        jitter: crate::jitter::Config {
            delay_min: Duration::from_millis(30),
            ..crate::jitter::Config::default()
        },
        ..device(48_000, 1)
    });
    let start = Instant::now();
    for number in 0..100u32 {
        let now = start + TEN * number;
        let packet = even(number, 0.1);
        let before = even(number.saturating_sub(1), 0.1);
        let copy = glassline_rtp::red::Repeat {
            offset: FRAMES,
            payload: &before.payload,
        };
        let mut payload = Vec::new();
        glassline_rtp::red::write(96, &[copy], &packet.payload, &mut payload);
        let red = Packet {
            payload: payload.into(),
            ..packet
        };
        if number % 10 != 7 {
            listener
                .receive_red(Ssrc(1), red, Received::at(now))
                .expect("in order");
        }
        listener.play(&mut [0.0; FRAMES as usize], now, &mut || now);
    }
    let counts = |listener: &Listener<L16>| listener.report(start).streams[0].jitter.counts;
    // A block of RED has at most 1,023 bytes, and 960 bytes fit.
    assert!(counts(&listener).repeated >= 9, "{:?}", counts(&listener));
    assert_eq!(counts(&listener).packets, 90);
    let now = start + TEN * 100;
    let padding = Packet {
        payload: bytes::Bytes::new(),
        ..even(100, 0.0)
    };
    assert_eq!(
        listener.receive_red(Ssrc(1), padding, Received::at(now)),
        Ok(())
    );
    assert_eq!(counts(&listener).empty, 1);
    let broken = Packet {
        payload: vec![0x80 | 96].into(),
        ..even(101, 0.0)
    };
    let refused = listener.receive_red(Ssrc(1), broken, Received::at(now));
    assert!(matches!(refused, Err(Refused::Red(_))), "{refused:?}");
    // A packet that is there already.
    let again = listener.receive(Ssrc(1), even(99, 0.1), Received::at(now));
    let duplicate = crate::jitter::Refused::Duplicate;
    assert_eq!(again, Err(Refused::Packet(duplicate)));
}

#[test]
fn records_that_nobody_polls_are_bounded_and_counted() {
    let mut listener = linear(device(48_000, 1));
    let start = Instant::now();
    let packets = 1_100;
    let mut played = 0;
    for number in 0..packets {
        let now = start + TEN * number;
        listener
            .receive(Ssrc(1), even(number, 0.1), Received::at(now))
            .expect("in order");
        listener.play(&mut [0.0; FRAMES as usize], now, &mut || now);
        played = listener.taken;
    }
    assert_eq!(played, u64::from(packets * FRAMES));
    let kept = std::iter::from_fn(|| listener.poll_playout_stamps()).count();
    let report = listener.report(start + TEN * packets);
    let dropped = report.stamps_dropped as usize;
    assert_eq!(kept, super::STAMPS_MAX);
    let waiting = listener.pending.len() + report.streams[0].jitter.packets;
    assert!((dropped + kept + waiting).abs_diff(packets as usize) <= 2);
    assert!(dropped > 70, "{dropped}");
}

#[test]
fn a_packet_that_was_taken_and_never_played_is_told() {
    let mut listener = linear(device(48_000, 1));
    let start = Instant::now();
    // Seconds of packets while nobody asks: all but the last few are too many.
    for number in 0..300 {
        let received = Received {
            arrived: start + TEN * number,
            opened: start + TEN * number,
            inserted: start + TEN * number + Duration::from_micros(1),
        };
        listener
            .receive(Ssrc(4), even(number, 0.1), received)
            .expect("in order");
    }
    let now = start + TEN * 300;
    for pull in 0..20 {
        let now = now + TEN * pull;
        listener.play(&mut [0.0; FRAMES as usize], now, &mut || now);
    }
    let unplayed = listener.poll_unplayed().expect("the first");
    assert_eq!(unplayed.ssrc, Ssrc(4));
    // The last 256 of them are remembered.
    let number = unplayed.timestamp / FRAMES;
    assert!((30..50).contains(&number), "{number}");
    assert_eq!(unplayed.at, start + TEN * number);
    assert_eq!(unplayed.why, DuplicateReason::Late);
    let rest = std::iter::from_fn(|| listener.poll_unplayed()).count();
    assert_eq!(rest, 255);
}

#[test]
fn a_stream_may_be_replaced_after_exactly_five_seconds_of_silence() {
    let start = Instant::now();
    for (ms, is_taken) in [(4_999, false), (5_000, true)] {
        let mut listener = linear(Config {
            streams_max: 1,
            ..device(48_000, 1)
        });
        listener
            .receive(Ssrc(1), even(0, 0.1), Received::at(start))
            .expect("the first");
        let later = start + Duration::from_millis(ms);
        let taken = listener.receive(Ssrc(2), even(0, 0.1), Received::at(later));
        assert_eq!(taken.is_ok(), is_taken, "{ms}");
        let report = listener.report(later);
        assert_eq!(report.refused, u64::from(!is_taken));
        let ssrc = if is_taken { Ssrc(2) } else { Ssrc(1) };
        assert_eq!(report.streams[0].ssrc, ssrc);
    }
}

#[test]
fn the_arrival_stamps_of_512_packets_are_kept() {
    let mut listener = linear(device(48_000, 1));
    let start = Instant::now();
    let received = |number: u32| Received {
        arrived: start + TEN * number,
        opened: start + TEN * number,
        inserted: start + TEN * number + Duration::from_millis(1),
    };
    for number in 0..513 {
        let taken = listener.receive(Ssrc(1), even(number, 0.1), received(number));
        taken.expect("in order");
    }
    let stream = &listener.streams[0];
    assert_eq!(stream.received.len(), 512);
    assert_eq!(stream.received(received(1).inserted), received(1));
    // Of what is forgotten, one time stands for all.
    let first = received(0).inserted;
    assert_eq!(stream.received(first), Received::at(first));
}

#[test]
fn packets_that_begin_within_a_period_are_played_where_they_begin() {
    for (rate, off_us) in [(48_000, 1.0), (16_000, 32.0)] {
        let mut listener = linear(device(rate, 2));
        let start = Instant::now();
        let mut played = Vec::new();
        // 9 ms, which begin anywhere in pulls of 2.5 and periods of 10 ms.
        let mut packets = 0..300u32;
        for period in 0..250 {
            let now = start + TEN * period;
            let is_due = |it: &u32| *it * 9 <= period * 10;
            while let Some(number) = packets.clone().next().filter(is_due) {
                let packet = Packet {
                    sequence: number as u16,
                    timestamp: number * 432,
                    payload: L16::encode(&[0.1; 432]).into(),
                };
                let sent = start + Duration::from_millis(9) * number;
                let taken = listener.receive(Ssrc(1), packet, Received::at(sent));
                taken.expect("in order");
                packets.next();
            }
            let mut out = vec![0.0; 2 * rate as usize / 100];
            listener.play(&mut out, now, &mut || now);
            while let Some(stamps) = listener.poll_playout_stamps() {
                assert_eq!(stamps.called, now);
                played.push(stamps.played);
            }
        }
        assert!(played.len() > 250, "{}", played.len());
        for pair in played[100..].windows(2) {
            let apart_us = (pair[1] - pair[0]).as_secs_f64() * 1e6;
            assert!(
                (apart_us - 9_000.0).abs() <= 2.0 * off_us,
                "{rate}: {apart_us}"
            );
        }
    }
}
