//! Quality of the AAC encoder beside FFmpeg's, and the processor time that it takes.
//!
//! `cargo bench -p glassline-transcode --bench aac [-- FILE]`: FILE is anything that FFmpeg reads, such
//! as speech; without it, a voice of harmonics that glide. Both encoders get the same samples, and
//! FFmpeg decodes both. The signal-to-noise ratio is that of the whole, and the mean of those of 20 ms
//! with a signal.

#[path = "../../../benches/figure.rs"]
mod figure;

use std::io::Write as _;
use std::process::{Command, Stdio};

use glassline_media::Bitrate;
use glassline_media::aac::RATES;
use glassline_net::thread_cpu;
use glassline_transcode::{AAC_FRAME_SAMPLES, AacEncoder, AacSettings};

/// Sample rates in Hz, and bit rates in kbit/s.
const ROWS: [(u32, &[u64]); 4] = [
    (8_000, &[16, 24, 32]),
    (16_000, &[24, 32, 48, 64]),
    (24_000, &[32, 64]),
    (48_000, &[64, 96]),
];

fn main() {
    let mut words = std::env::args().skip(1);
    let file = words.find(|word| !word.starts_with("--"));
    println!("         |  glassline                       |  ffmpeg -c:a aac");
    println!("rate bps | kbit/s     SNR 20 ms   of a core | kbit/s     SNR 20 ms");
    for (rate, bitrates) in ROWS {
        let samples = match &file {
            Some(file) => decode(&["-i", file], &[], rate),
            None => voice(rate),
        };
        let seconds = samples.len() as f64 / f64::from(rate);
        for kbps in bitrates {
            let (ours, cpu) = encode(&samples, rate, kbps * 1_000);
            let theirs = encode_by_ffmpeg(&samples, rate, kbps * 1_000);
            let figures = |adts: &[u8]| {
                let decoded = decode(&["-f", "aac", "-i", "-"], adts, rate);
                let decoded = decoded.get(AAC_FRAME_SAMPLES..).unwrap_or_default();
                let (whole, short) = ratios(&samples, decoded, rate as usize / 50);
                let kbps = 8.0 * adts.len() as f64 / seconds / 1e3;
                format!("{kbps:>6.1} {whole:>7.1} {short:>5.1}")
            };
            let share = 100.0 * cpu / seconds;
            let (ours, theirs) = (figures(&ours), figures(&theirs));
            println!("{rate:>5} {kbps:>2} | {ours} {share:>9.2} % | {theirs}");
            let name = format!("AAC encoder, {rate} Hz, {kbps} kbit/s");
            figure::print(&name, share, "% of a core", "less", None);
        }
    }
}

/// Ten seconds of a voice: harmonics of a pitch that glides, louder and softer.
fn voice(rate: u32) -> Vec<i16> {
    let mut phase = 0.0;
    let sample = (0..10 * rate).map(|n| {
        let time = f64::from(n) / f64::from(rate);
        phase += std::f64::consts::TAU * (140.0 + 40.0 * (2.0 * time).sin()) / f64::from(rate);
        let harmonics = (1..=20).filter(|k| f64::from(*k) * 180.0 < f64::from(rate) / 2.0);
        let sum: f64 = harmonics
            .map(|k| (phase * f64::from(k)).sin() / f64::from(k))
            .sum();
        (sum * 6e3 * (1.0 + 0.9 * (9.0 * time).sin())) as i16
    });
    sample.collect()
}

/// Encodes into a file of ADTS frames. Returns it, and the processor time in seconds.
fn encode(samples: &[i16], rate: u32, bps: u64) -> (Vec<u8>, f64) {
    let settings = AacSettings {
        rate,
        channels: 1,
        bitrate: Bitrate::from_bps(bps),
    };
    let mut encoder = AacEncoder::new(settings).expect("a rate of AAC");
    let index = RATES.iter().position(|it| *it == rate).expect("listed") as u8;
    let (mut adts, mut cpu) = (Vec::new(), 0.0);
    // What fills the last frame, and another one that brings it out of the decoder.
    let mut padded = samples.to_vec();
    padded.resize(
        samples.len().next_multiple_of(AAC_FRAME_SAMPLES) + AAC_FRAME_SAMPLES,
        0,
    );
    let (frames, _) = padded.as_chunks::<AAC_FRAME_SAMPLES>();
    for frame in frames {
        let frame = frame.map(|it| f32::from(it) / 32_768.0);
        let before = thread_cpu();
        let coded = encoder.encode(&frame);
        cpu += (thread_cpu() - before).as_secs_f64();
        let length = coded.len() + 7;
        adts.extend([
            0xff,
            0xf1,
            0x40 | index << 2,
            0x40 | (length >> 11) as u8,
            (length >> 3) as u8,
            (length << 5) as u8 | 0x1f,
            0xfc,
        ]);
        adts.extend(coded);
    }
    (adts, cpu)
}

fn encode_by_ffmpeg(samples: &[i16], rate: u32, bps: u64) -> Vec<u8> {
    let bytes: Vec<_> = samples.iter().flat_map(|it| it.to_le_bytes()).collect();
    let (rate, bps) = (rate.to_string(), bps.to_string());
    let input = ["-f", "s16le", "-ac", "1", "-ar", &rate, "-i", "-"];
    let output = ["-c:a", "aac", "-b:a", &bps, "-f", "adts", "-"];
    ffmpeg(&[&input[..], &output].concat(), &bytes)
}

fn decode(input: &[&str], bytes: &[u8], rate: u32) -> Vec<i16> {
    let rate = rate.to_string();
    let output = ["-f", "s16le", "-ac", "1", "-ar", &rate, "-"];
    let bytes = ffmpeg(&[input, &output].concat(), bytes);
    let (pairs, _) = bytes.as_chunks::<2>();
    pairs.iter().map(|it| i16::from_le_bytes(*it)).collect()
}

fn ffmpeg(arguments: &[&str], input: &[u8]) -> Vec<u8> {
    let mut command = Command::new("ffmpeg");
    command.args(["-v", "error"]).args(arguments);
    let command = command.stdin(Stdio::piped()).stdout(Stdio::piped());
    let mut child = command.spawn().expect("ffmpeg is installed");
    let mut stdin = child.stdin.take().expect("piped");
    let input = input.to_vec();
    let writer = std::thread::spawn(move || stdin.write_all(&input));
    let output = child.wait_with_output().expect("it runs");
    // It may not read all of a file that it was told to ignore.
    let _ = writer.join();
    output.stdout
}

/// Returns the signal-to-noise ratio of the whole in dB, and the mean of those of windows that are
/// louder than −50 dB.
fn ratios(signal: &[i16], decoded: &[i16], window: usize) -> (f64, f64) {
    let energies = |signal: &[i16], decoded: &[i16]| {
        let pairs = signal.iter().zip(decoded);
        pairs.fold((0.0, 1e-9), |(signal, noise), (one, other)| {
            let (one, other) = (f64::from(*one), f64::from(*other));
            (signal + one * one, noise + (one - other).powi(2))
        })
    };
    let db = |(signal, noise): (f64, f64)| 10.0 * (signal / noise).log10();
    let windows = signal
        .chunks_exact(window)
        .zip(decoded.chunks_exact(window));
    let windows = windows.map(|(signal, decoded)| energies(signal, decoded));
    let loud = windows.filter(|(signal, _)| *signal > window as f64 * 1e4);
    let of_each: Vec<_> = loud.map(db).collect();
    let mean = of_each.iter().sum::<f64>() / of_each.len().max(1) as f64;
    (db(energies(signal, decoded)), mean)
}
