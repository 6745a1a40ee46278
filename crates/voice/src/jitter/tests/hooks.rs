//! Codecs that recover, conceal and generate comfort noise themselves.

use bytes::Bytes;

use super::*;

/// Stub of a codec with all features: a payload is a level, 0 announces silence. A packet
/// repeats its predecessor's level in its second byte.
#[derive(Debug, Default)]
struct FullCodec {
    recovered: usize,
    concealed: usize,
    comforted: usize,
}

const FRAMES: usize = 160;

impl Decoder for FullCodec {
    fn format(&self) -> Format {
        mono()
    }

    fn frames(&self, payload: &[u8]) -> Option<usize> {
        (payload != [254]).then_some(FRAMES)
    }

    fn decode(&mut self, payload: &[u8], out: &mut Vec<f32>) -> Result<(), crate::Undecodable> {
        match payload {
            [255, ..] => Err(crate::Undecodable),
            _ => {
                out.resize(out.len() + FRAMES, f32::from(payload[0]) / 256.0);
                Ok(())
            }
        }
    }

    fn recover(&mut self, following: &[u8], frames: usize, out: &mut Vec<f32>) -> bool {
        let Some(level) = following.get(1) else {
            return false;
        };
        self.recovered += 1;
        out.resize(out.len() + frames, f32::from(*level) / 256.0);
        true
    }

    fn conceal(&mut self, frames: usize, out: &mut Vec<f32>) -> bool {
        self.concealed += frames;
        out.resize(out.len() + frames, 0.25);
        true
    }

    fn comfort(&mut self, frames: usize, out: &mut Vec<f32>) -> bool {
        self.comforted += frames;
        out.resize(out.len() + frames, 0.001);
        true
    }

    fn begins_silence(&self, payload: &[u8]) -> bool {
        payload[0] == 0
    }
}

fn call(
    path: impl FnMut(u64) -> Option<Duration> + 'static,
    payload: &'static [u8],
) -> Call<FullCodec> {
    // Waits for two packets, so that what follows a loss is there when it is missed.
    let config = Config {
        delay_min: millis(45),
        ..Config::default()
    };
    let mut call = Call::with(FullCodec::default(), config, path);
    call.payload = Bytes::from_static(payload);
    call
}

#[test]
fn what_the_next_packet_repeats_replaces_a_lost_one() {
    let mut call = call(
        |packet| (packet % 10 != 7).then_some(millis(20)),
        &[128, 64],
    );
    call.run(millis(20_000));
    let report = call.report();
    let counts = report.counts;
    assert!(counts.recovered >= 98, "{counts:?}");
    assert!(report.concealed_ratio() < 0.002, "{counts:?}");
    assert!(call.buffer.decoder().recovered >= 98);
}

#[test]
fn the_codecs_concealment_is_asked_where_nothing_repeats() {
    let mut call = call(|packet| (packet % 10 != 7).then_some(millis(20)), &[128]);
    call.run(millis(20_000));
    let concealed = call.buffer.decoder().concealed;
    let counts = call.report().counts;
    assert!(concealed >= 97 * FRAMES, "{concealed}");
    assert_eq!(counts.recovered, 0);
    let share = call.report().concealed_ratio();
    assert!((0.09..0.12).contains(&share), "{share}");
}

#[test]
fn a_sender_that_falls_silent_is_neither_late_nor_lost() {
    // The payload says so; then nothing comes for 400 ms, as Opus does.
    let mut call = call(|packet| (packet % 20 == 0).then_some(millis(20)), &[0]);
    // Numbers count what is sent only.
    let mut sent = 0u16;
    for _ in 0..2_000 {
        call.step();
        for (_, packet) in &mut call.flying {
            if packet.sequence >= 64_000 || packet.sequence < 20_000 {
                packet.sequence = 30_000 + sent;
                sent += 1;
            }
        }
    }
    let counts = call.report().counts;
    assert_eq!((counts.frames_concealed, counts.lost), (0, 0), "{counts:?}");
    assert!(counts.frames_comfort > 140_000, "{counts:?}");
    assert!(call.buffer.decoder().comforted > 140_000);
    assert!(call.report().delay < millis(80), "{:?}", call.report());
}

#[test]
fn what_the_codec_does_not_take_is_concealed() {
    let mut call = call(steady, &[128]);
    call.run(millis(2_000));
    call.payload = Bytes::from_static(&[255]);
    call.run(millis(20));
    call.payload = Bytes::from_static(&[128]);
    call.run(millis(1_000));
    let counts = call.report().counts;
    assert_eq!(counts.undecodable, 1, "{counts:?}");
    assert!((19.0..41.0).contains(&concealed_ms(counts)), "{counts:?}");
    // Not even how long it is.
    call.payload = Bytes::from_static(&[254]);
    call.run(millis(100));
    assert!(call.report().counts.undecodable >= 5);
}

#[test]
fn copies_in_later_packets_are_played_where_the_packet_is_missing() {
    let mut buffer = Buffer::new(
        Config {
            delay_min: millis(60),
            ..Config::default()
        },
        L16::new(mono()),
    );
    let clock = Clock::new();
    let mut out = [0.0; 80];
    for packet in 0u16..500 {
        let now = clock.now() + PACKET * u32::from(packet);
        let timestamp = u32::from(packet) * 160;
        if packet % 5 != 3 {
            let packet = Packet {
                sequence: packet,
                timestamp,
                payload: tone(),
            };
            let earlier = [(160, tone())];
            buffer.insert_with(packet, &earlier, now).expect("in time");
        }
        for pull in 0..2 {
            buffer.pull(now + PULL * pull, &mut out);
        }
    }
    let report = buffer.report(clock.now() + PACKET * 500);
    let counts = report.counts;
    assert!(counts.repeated >= 95, "{counts:?}");
    assert!(report.concealed_ratio() < 0.005, "{counts:?}");
}

/// Packets of which those numbered 10 to 19 are left out for a pause; the sender announces
/// it or not, and its numbers go on without them or not.
fn paused(announces: bool, counts_on: bool) -> Counts {
    let mut buffer = Buffer::new(Config::default(), FullCodec::default());
    let clock = Clock::new();
    let mut out = [0.0; 80];
    let mut sequence = 100;
    for packet in 0u16..40 {
        let now = clock.now() + PACKET * u32::from(packet);
        let is_pause = (10..20).contains(&packet);
        if !is_pause {
            let level = if announces && packet == 9 { 0 } else { 128 };
            let packet = Packet {
                sequence,
                timestamp: u32::from(packet) * 160,
                payload: Bytes::copy_from_slice(&[level]),
            };
            buffer.insert(packet, now).expect("in time");
        }
        if !is_pause || counts_on {
            sequence += 1;
        }
        for pull in 0..2 {
            buffer.pull(now + PULL * pull, &mut out);
        }
    }
    buffer.report(clock.now() + PACKET * 40).counts
}

#[test]
fn a_pause_is_silence_if_it_was_announced_and_the_rest_of_it_if_no_number_is_missing() {
    // All 200 ms but what still waits when the pause begins.
    let whole = 1_400..=1_600;
    let announced = paused(true, false);
    assert!(whole.contains(&announced.frames_comfort), "{announced:?}");
    assert_eq!((announced.frames_concealed, announced.lost), (0, 0));
    // Nothing is heard of its other packets, which are missing by their numbers.
    let lost = paused(true, true);
    assert!(whole.contains(&lost.frames_comfort), "{lost:?}");
    assert_eq!(lost.lost, 10);
    // Until the next packet shows that nothing is missing, the last one is late.
    let silent = paused(false, false);
    assert!(silent.frames_concealed > 1_000, "{silent:?}");
    assert_eq!(silent.lost, 0);
    let missing = paused(false, true);
    assert!(missing.frames_concealed > 1_000, "{missing:?}");
    assert_eq!((missing.lost, missing.frames_comfort), (10, 0));
}

#[test]
fn a_gap_between_packets_in_hand_is_silence_if_no_number_is_missing() {
    for (step, comfort, concealed) in [(1, 480, 0), (2, 0, 480)] {
        let config = Config {
            delay_min: millis(200),
            ..Config::default()
        };
        let mut buffer = Buffer::new(config, FullCodec::default());
        let now = Clock::new().now();
        // Packets of 20 ms; 60 ms lie between the second and the third.
        for (number, at_ms) in [(0u16, 0u32), (1, 20), (1 + step, 100), (2 + step, 120)] {
            let packet = Packet {
                sequence: number,
                timestamp: at_ms * 8,
                payload: Bytes::from_static(&[128]),
            };
            let at = now + Duration::from_millis(u64::from(at_ms));
            buffer.insert(packet, at).expect("in time");
        }
        let mut out = [0.0; 80];
        // All is there, and the first is due 200 ms after it came.
        for pull in 0..14 {
            buffer.pull(now + millis(200) + PULL * pull, &mut out);
        }
        let counts = buffer.report(now).counts;
        assert_eq!(counts.frames_comfort > 0, comfort > 0, "{step}: {counts:?}");
        assert_eq!(counts.frames_concealed, concealed, "{step}: {counts:?}");
    }
}
