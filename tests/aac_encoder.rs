//! FFmpeg decodes the AAC that cameras get.

use std::io::Write as _;
use std::process::{Command, Stdio};

use glassline_media::Bitrate;
use glassline_media::aac::RATES;
use glassline_transcode::{AAC_FRAME_SAMPLES, AacEncoder, AacSettings};
use libtest_mimic::Failed;

use crate::peers::{Peer, Test};

pub(crate) const TESTS: &[Test] =
    &[Test::of(&ffmpeg_decodes_what_is_encoded_for_cameras).needs(&[Peer::Ffmpeg])];

/// Encodes harmonics whose pitch glides as AAC, a frame of silence behind them, in ADTS.
fn encode_glide(settings: AacSettings, frames: usize) -> (Vec<f32>, Vec<u8>) {
    let mut phase = 0.0;
    let samples = (0..frames * AAC_FRAME_SAMPLES).map(|n| {
        phase += std::f64::consts::TAU * (150.0 + n as f64 * 0.004) / f64::from(settings.rate);
        let harmonics = (1..=8).map(|k| (phase * f64::from(k)).sin() / f64::from(k));
        (harmonics.sum::<f64>() * 0.3) as f32
    });
    let samples: Vec<_> = samples.collect();
    let mut encoder = AacEncoder::new(settings).expect("settings of AAC");
    let index = RATES.iter().position(|it| *it == settings.rate);
    let index = index.expect("a rate of AAC") as u8;
    let mut adts = Vec::new();
    let (whole, _) = samples.as_chunks::<AAC_FRAME_SAMPLES>();
    for frame in whole.iter().chain([&[0.0; AAC_FRAME_SAMPLES]]) {
        let coded = encoder.encode(frame);
        let length = coded.len() + 7;
        let channels = settings.channels << 6 | (length >> 11) as u8;
        adts.extend([0xff, 0xf1, 0x40 | index << 2, channels, (length >> 3) as u8]);
        adts.extend([(length << 5) as u8 | 0x1f, 0xfc]);
        adts.extend(coded);
    }
    (samples, adts)
}

fn ffmpeg_decodes_what_is_encoded_for_cameras() -> Result<(), Failed> {
    for (rate, channels, bps) in [
        (8_000, 1, 32_000),
        (16_000, 1, 24_000),
        (16_000, 2, 48_000),
        (22_050, 1, 64_000),
        (48_000, 2, 64_000),
        (96_000, 1, 500_000),
    ] {
        let settings = AacSettings {
            rate,
            channels,
            bitrate: Bitrate::from_bps(bps),
        };
        let (samples, adts) = encode_glide(settings, 30);
        let mut command = Command::new("ffmpeg");
        command.args(["-v", "warning", "-f", "aac", "-i", "-", "-f", "f32le", "-"]);
        let command = command.stdin(Stdio::piped()).stderr(Stdio::piped());
        let child = command.stdout(Stdio::piped()).spawn();
        let mut child = child.map_err(|error| error.to_string())?;
        let mut stdin = child.stdin.take().ok_or("no pipe")?;
        let writer = std::thread::spawn(move || stdin.write_all(&adts));
        let output = child
            .wait_with_output()
            .map_err(|error| error.to_string())?;
        let _ = writer.join();
        let said = String::from_utf8_lossy(&output.stderr);
        // The rates of raw AAC are estimated from its bits, which FFmpeg remarks on.
        let said: Vec<_> = said
            .lines()
            .filter(|it| !it.contains("Estimating duration"))
            .collect();
        if !said.is_empty() {
            return Err(format!("{settings:?}: {said:?}").into());
        }
        let (decoded, _) = output.stdout.as_chunks::<4>();
        let decoded = decoded.iter().map(|it| f32::from_le_bytes(*it));
        let first = decoded.step_by(usize::from(channels));
        let decoded: Vec<_> = first.skip(AAC_FRAME_SAMPLES).collect();
        let (mut energy, mut noise) = (0.0, 0.0);
        for (one, other) in samples.iter().zip(&decoded) {
            energy += f64::from(*one).powi(2);
            noise += f64::from(one - other).powi(2);
        }
        let ratio = 10.0 * (energy / noise).log10();
        if decoded.len() < samples.len() || ratio < 22.0 {
            let count = decoded.len();
            return Err(format!("{settings:?}: {ratio:.1} dB, {count} samples").into());
        }
    }
    Ok(())
}
