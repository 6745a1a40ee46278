//! Jitter buffer: any packets at any times, with any pulls between them. Checks that the
//! output is valid audio and that memory is bounded.

use std::time::Duration;

use glassline_rtp::red;
use glassline_sim::Clock;
use glassline_voice::jitter::{Buffer, Config, Packet};
use glassline_voice::{Format, L16};

/// Packets of 20 ms at 8 kHz.
const FRAMES: u32 = 160;

pub(crate) fn run(bytes: &[u8]) {
    let Some((&first, mut rest)) = bytes.split_first() else {
        return;
    };
    let channels = 1 + usize::from(first & 1);
    let format = Format::new(8_000, channels).expect("a voice's");
    let mut buffer = Buffer::new(Config::default(), L16::new(format));
    let mut now = Clock::new().now();
    let (mut sequence, mut timestamp) = (u16::from(first) << 8, u32::from(first) << 24);
    while let Some((&operation, after)) = rest.split_first() {
        rest = after;
        let (kind, size) = (operation & 7, usize::from(operation >> 3));
        match kind {
            // The next packet, or one around it.
            0..=2 => {
                let away = if kind == 2 { size as i16 - 16 } else { 0 };
                let samples = vec![0.3; FRAMES as usize * channels];
                let packet = Packet {
                    sequence: sequence.wrapping_add_signed(away),
                    timestamp: timestamp.wrapping_add_signed(i32::from(away) * FRAMES as i32),
                    payload: L16::encode(&samples).into(),
                };
                let copy = [(FRAMES, packet.payload.clone())];
                let _ = buffer.insert_with(packet, &copy, now);
                sequence = sequence.wrapping_add(1);
                timestamp = timestamp.wrapping_add(FRAMES);
            }
            // Numbers and payload from the input, as RED too.
            3 => {
                let (raw, after) = rest.split_at(rest.len().min(6 + size));
                rest = after;
                let [a, b, c, d, e, f, payload @ ..] = raw else {
                    return;
                };
                let _ = red::blocks(payload);
                let packet = Packet {
                    sequence: u16::from_be_bytes([*a, *b]),
                    timestamp: u32::from_be_bytes([*c, *d, *e, *f]),
                    payload: payload.to_vec().into(),
                };
                let _ = buffer.insert(packet, now);
            }
            4 | 5 => {
                let mut out = vec![f32::NAN; 20 * (1 + size) * channels];
                buffer.pull(now, &mut out);
                assert!(out.iter().all(|sample| sample.abs() <= 1.0));
                now += Duration::from_micros(2_500) * (1 + size as u32);
            }
            6 => now += Duration::from_millis(10) * size as u32 * size as u32,
            _ => buffer.reset(),
        }
        let report = buffer.report(now);
        assert!(report.packets <= 2_000 && report.waiting < Duration::from_millis(600));
    }
}
