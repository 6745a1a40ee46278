//! Cost of a call: microseconds of one core for each 10 ms, capture and playout.
//!
//! `cargo bench -p glassline-voice --bench call [-- 'AEC, NS, AGC, LowDelay, Ms10, 48000']`;
//! prints the mean of the middle half over a minute of speech-like audio, and its share of a
//! core. With an argument only the rows whose names begin with it are run.

#![expect(clippy::disallowed_methods, reason = "a bench reads the clock")]

#[path = "../../../benches/figure.rs"]
mod figure;

use std::time::{Duration, Instant};

use glassline_voice::jitter::Packet;
use glassline_voice::opus::{Frame, Purpose};
use glassline_voice::{Format, Listener, Received, Speaker, Ssrc, listener, preprocess, speaker};

const RATE: u32 = 48_000;
const FRAMES: u32 = 6_000;
const TEN: Duration = Duration::from_millis(10);

fn main() {
    let only = std::env::args().skip(1).find(|it| !it.starts_with("--"));
    let is_wanted = |name: &str| only.as_deref().is_none_or(|it| name.starts_with(it));
    println!(
        "{:<44} {:>12} {:>12} {:>8}",
        "", "capture", "playout", "of a core"
    );
    for (name, preprocess) in [
        ("no pre-processing", preprocess::Config::OFF),
        ("AEC, NS, AGC", preprocess::Config::default()),
    ] {
        for purpose in [Purpose::LowDelay, Purpose::Voip] {
            for frame in [Frame::Ms10, Frame::Ms20] {
                for device in [RATE, 44_100] {
                    let name = format!("{name}, {purpose:?}, {frame:?}, {device} Hz");
                    if !is_wanted(&name) {
                        continue;
                    }
                    let format = Format::new(device, 1).expect("voice");
                    let mut config = speaker::Config::new(format);
                    config.preprocess = preprocess;
                    config.opus.purpose = purpose;
                    config.opus.frame = frame;
                    let (capture, playout) = leg(config);
                    let share = (capture + playout) / 10_000.0 * 100.0;
                    println!("{name:<44} {capture:>9.1} us {playout:>9.1} us {share:>7.2} %");
                    figure::print(&name, share, "% of a core", "less", None);
                }
            }
        }
    }
}

/// Microseconds for each 10 ms of capture and of playout, each the mean of the middle half.
fn leg(config: speaker::Config) -> (f64, f64) {
    let device = config.device;
    let mut speaker = Speaker::new(config).expect("a speaker");
    let mut listener = Listener::new(listener::Config::new(device)).expect("a listener");
    let period = device.rate() as usize / 100;
    let mut now = Instant::now();
    let (mut captures, mut playouts) = (Vec::new(), Vec::new());
    let mut out = vec![0.0; period];
    let mut rendered = Vec::new();
    let mut sequence = 0u16;
    for frame in 0..FRAMES {
        let at = |sample: usize| (frame as usize * period + sample) as f32 / device.rate() as f32;
        let samples: Vec<f32> = (0..period).map(|it| voice(at(it))).collect();
        now += TEN;
        let begun = Instant::now();
        speaker.rendered(&rendered);
        speaker.capture(&samples, now);
        let mut packets = Vec::new();
        // As if nothing took any time: all that is there is due.
        while let Some(packet) = speaker.poll(&mut || now) {
            packets.push(packet);
        }
        captures.push(begun.elapsed());
        let begun = Instant::now();
        for packet in packets {
            let packet = Packet {
                sequence,
                timestamp: packet.timestamp as u32,
                payload: packet.payload,
            };
            sequence = sequence.wrapping_add(1);
            let _ = listener.receive(Ssrc(1), packet, Received::at(now));
        }
        listener.play(&mut out, now, &mut || now);
        rendered.clear();
        listener.take_rendered(&mut rendered);
        playouts.push(begun.elapsed());
        while listener.poll_playout_stamps().is_some() {}
    }
    (middle(&captures), middle(&playouts))
}

/// Mean of the middle half, which preemption does not disturb, over pairs of frames, because
/// a packet may hold two.
fn middle(times: &[Duration]) -> f64 {
    let mut pairs: Vec<f64> = times
        .chunks_exact(2)
        .map(|it| (it[0] + it[1]).as_secs_f64() * 1e6 / 2.0)
        .collect();
    pairs.sort_by(f64::total_cmp);
    let half = &pairs[pairs.len() / 4..pairs.len() * 3 / 4];
    half.iter().sum::<f64>() / half.len() as f64
}

/// A speech-like signal: harmonics of changing level, and noise.
fn voice(at: f32) -> f32 {
    let turns = std::f32::consts::TAU * 140.0 * at;
    let swell = 0.5 + 0.5 * (8.0 * at).sin();
    let hiss = (at * 78_123.0).sin() * (at * 31_337.0).cos() * 0.01;
    let tone: f32 = (1..8).map(|it| (turns * it as f32).sin() / it as f32).sum();
    0.2 * swell * tone + hiss
}
