//! Receiving half of a call: packets of any stream with any numbers and payloads, plain or as
//! RED, periods of any length, devices that change or go away. Checks that the output is
//! valid audio and that memory is bounded.

use std::time::Duration;

use glassline_sim::Clock;
use glassline_voice::jitter::Packet;
use glassline_voice::listener::Config;
use glassline_voice::opus::{Concealment, RATE};
use glassline_voice::{Format, L16, Listener, Received, Ssrc};

/// Frames in a packet: 10 ms of linear samples, because decoding Opus is libopus's own code.
const FRAMES: u32 = RATE / 100;
const DEVICES: [(u32, usize); 4] = [(48_000, 1), (44_100, 2), (16_000, 1), (8_000, 2)];

fn device(number: usize) -> Format {
    let (rate, channels) = DEVICES[number % DEVICES.len()];
    Format::new(rate, channels).expect("a voice's")
}

pub(crate) fn run(bytes: &[u8]) {
    let Some((&first, mut rest)) = bytes.split_first() else {
        return;
    };
    let mut format = device(usize::from(first));
    let make = |format: Format, _: Concealment| Ok(L16::new(format));
    let mut config = Config::new(format);
    (config.streams_max, config.mixed_max) = (4, 2);
    let mut listener = Listener::with_decoder(config, make).expect("it makes decoders");
    let mut now = Clock::new().now();
    // Of each stream, what comes next.
    let mut numbers = [(u16::from(first) << 8, u32::from(first) << 24); 8];
    while let Some((&operation, after)) = rest.split_first() {
        rest = after;
        let (kind, size) = (operation & 7, usize::from(operation >> 3));
        match kind {
            // The next packet of a stream, or one around it.
            0 | 1 => {
                let stream = size & 7;
                let away = if kind == 1 {
                    (size >> 3) as i16 * 3 - 4
                } else {
                    0
                };
                let (sequence, timestamp) = &mut numbers[stream];
                let samples = vec![0.3; FRAMES as usize];
                let packet = Packet {
                    sequence: sequence.wrapping_add_signed(away),
                    timestamp: timestamp.wrapping_add_signed(i32::from(away) * FRAMES as i32),
                    payload: L16::encode(&samples).into(),
                };
                let _ = listener.receive(Ssrc(stream as u32), packet, Received::at(now));
                *sequence = sequence.wrapping_add(1);
                *timestamp = timestamp.wrapping_add(FRAMES);
            }
            // Numbers and payload from the input.
            2 | 3 => {
                let (raw, after) = rest.split_at(rest.len().min(7 + 2 * size));
                rest = after;
                let [ssrc, a, b, c, d, e, f, payload @ ..] = raw else {
                    return;
                };
                let packet = Packet {
                    sequence: u16::from_be_bytes([*a, *b]),
                    timestamp: u32::from_be_bytes([*c, *d, *e, *f]),
                    payload: payload.to_vec().into(),
                };
                let (ssrc, received) = (Ssrc(u32::from(*ssrc)), Received::at(now));
                let _ = match kind {
                    2 => listener.receive(ssrc, packet, received),
                    _ => listener.receive_red(ssrc, packet, received),
                };
            }
            // A period, and the time it takes.
            4 | 5 => {
                let frames = 1 + size * if kind == 4 { 16 } else { 300 };
                let mut out = vec![f32::NAN; frames * format.channels()];
                let mut time = now;
                listener.play(&mut out, now, &mut || {
                    time += Duration::from_micros(3);
                    time
                });
                assert!(out.iter().all(|sample| sample.abs() <= 1.0));
                now += Duration::from_secs_f64(frames as f64 / f64::from(format.rate()));
            }
            // The device is unplugged for a while, up to 10 s; another may come back.
            6 => {
                now += Duration::from_millis(10) * size as u32 * size as u32;
                if size & 1 == 1 {
                    format = device(size >> 1);
                    listener.set_device(format, Duration::from_millis(size as u64));
                }
            }
            _ => {
                listener.remove(Ssrc(size as u32));
            }
        }
        while listener.poll_playout_stamps().is_some() {}
        let report = listener.report(now);
        assert!(report.streams.len() <= 4);
        for stream in report.streams {
            let jitter = stream.jitter;
            assert!(jitter.packets <= 2_000 && jitter.waiting < Duration::from_millis(600));
        }
    }
}
