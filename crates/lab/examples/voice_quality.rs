//! What jitter buffers do to speech: WAV files for a judge who listens.
//!
//! ```text
//! cargo run --release -p glassline-lab --example voice_quality -- SPEECH.s16 FOLDER
//! ```
//!
//! `SPEECH.s16` is one channel of raw 16-bit samples at 48 kHz. FOLDER receives, for each
//! path and contender, `PATH-CONTENDER.s16` at 16 kHz and a line of `conditions.csv`.
//! `lab/peers/voice_quality.py` makes the speech, runs this and scores what comes out.

use std::error::Error;
use std::fmt::Write as _;
use std::path::Path;
use std::time::Duration;

use bytes::Bytes;
use glassline_lab::jitter::{Heard, NetEq, Ours, Spoken, Stream, Version};
use glassline_sim::{Delays, Family};
use glassline_voice::opus::{self, Concealment, Config, Frame, Purpose};
use glassline_voice::{Bitrate, Encoder as _, Format};

const INTERVAL: Duration = Duration::from_millis(20);
/// Wide-band PESQ listens at 16 kHz.
const HEARD_HZ: u32 = 16_000;

fn main() -> Result<(), Box<dyn Error>> {
    let mut arguments = std::env::args().skip(1);
    let (Some(speech), Some(folder)) = (arguments.next(), arguments.next()) else {
        return Err("usage: voice_quality SPEECH.s16 FOLDER".into());
    };
    let speech = read(Path::new(&speech))?;
    let folder = Path::new(&folder);
    std::fs::create_dir_all(folder)?;
    let mut table =
        "path,contender,wait_mean_ms,wait_p95_ms,concealed_ratio,stretched_ratio\n".to_owned();
    let voip = packets(&speech, Purpose::Voip, Frame::Ms20, 32_000)?;
    for (path, family, seed, loss) in [
        ("clean", Family::Clean, 1, 0.0),
        ("ar98", Family::Ar98, 1, 0.0),
        ("ar98-2", Family::Ar98, 2, 0.0),
        ("mixed", Family::Mixed, 1, 0.0),
        ("ar90", Family::Ar90, 1, 0.0),
        ("ar98-loss", Family::Ar98, 1, 0.01),
    ] {
        let delays = Delays::of_family(family, seed, voip.len(), INTERVAL).losing(loss, 5);
        let stream = Stream {
            delays: &delays,
            interval: INTERVAL,
        };
        for (name, heard) in all(&stream, &voip) {
            keep(folder, path, name, &heard, &mut table)?;
        }
    }
    // What the codec alone does, at the default of short packets and at VoIP's.
    for (name, purpose, frame, bitrate) in [
        ("voip-20-32", Purpose::Voip, Frame::Ms20, 32_000),
        ("voip-10-32", Purpose::Voip, Frame::Ms10, 32_000),
        ("low-delay-10-32", Purpose::LowDelay, Frame::Ms10, 32_000),
        ("low-delay-10-48", Purpose::LowDelay, Frame::Ms10, 48_000),
    ] {
        let packets = packets(&speech, purpose, frame, bitrate)?;
        let mut decoder = decoder(Concealment::Classic)();
        let mut samples = Vec::new();
        for packet in packets {
            glassline_voice::Decoder::decode(&mut decoder, &packet, &mut samples)?;
        }
        let heard = Heard {
            samples,
            ..Heard::default()
        };
        keep(folder, "codec", name, &heard, &mut table)?;
    }
    std::fs::write(folder.join("conditions.csv"), table)?;
    Ok(())
}

/// Everybody on one stream.
fn all(stream: &Stream<'_>, payloads: &[Bytes]) -> Vec<(&'static str, Heard)> {
    let spoken = |concealment| Spoken {
        payloads: payloads.to_vec(),
        make: decoder(concealment),
        rate: HEARD_HZ,
    };
    let mut ours = Ours::default();
    // Opus's timestamps count 48 kHz, the stream here counts what is heard.
    ours.config.clock_rate = Some(HEARD_HZ);
    let (classic, deep) = (spoken(Concealment::Classic), spoken(Concealment::Deep));
    let neteq = |version| NetEq {
        version,
        ..NetEq::default()
    };
    vec![
        ("glassline", ours.hear(stream, &classic)),
        ("glassline-deep", ours.hear(stream, &deep)),
        ("neteq-m98", neteq(Version::M98).hear(stream, &classic)),
        ("neteq-2026", neteq(Version::Y2026).hear(stream, &classic)),
    ]
}

fn decoder(concealment: Concealment) -> Box<dyn Fn() -> opus::Decoder> {
    let format = Format::new(HEARD_HZ, 1).expect("16 kHz are a voice's");
    Box::new(move || opus::Decoder::new(format, concealment).expect("Opus plays at 16 kHz"))
}

fn packets(
    speech: &[f32],
    purpose: Purpose,
    frame: Frame,
    bps: u64,
) -> Result<Vec<Bytes>, Box<dyn Error>> {
    let mut encoder = opus::Encoder::new(Config {
        purpose,
        frame,
        bitrate: Bitrate::from_bps(bps),
        ..Config::default()
    })?;
    let mut packets = Vec::new();
    let mut payload = Vec::new();
    for frame in speech.chunks_exact(encoder.frame_samples()) {
        encoder.encode(frame, &mut payload)?;
        packets.push(Bytes::copy_from_slice(&payload));
    }
    Ok(packets)
}

fn keep(
    folder: &Path,
    path: &str,
    name: &str,
    heard: &Heard,
    table: &mut String,
) -> Result<(), Box<dyn Error>> {
    let bytes = heard.samples.iter().flat_map(|sample| {
        let value = (sample * 32_767.0).round().clamp(-32_768.0, 32_767.0);
        (value as i16).to_le_bytes()
    });
    let bytes: Vec<u8> = bytes.collect();
    std::fs::write(folder.join(format!("{path}-{name}.s16")), bytes)?;
    let wait = heard.outcome.wait();
    writeln!(
        table,
        "{path},{name},{:.1},{:.1},{:.5},{:.5}",
        wait.mean, wait.p95, heard.outcome.concealed_ratio, heard.outcome.stretched_ratio
    )?;
    Ok(())
}

fn read(path: &Path) -> Result<Vec<f32>, Box<dyn Error>> {
    let bytes = std::fs::read(path).map_err(|error| format!("{}: {error}", path.display()))?;
    let samples = bytes.as_chunks::<2>().0.iter();
    Ok(samples
        .map(|bytes| f32::from(i16::from_le_bytes(*bytes)) / 32_768.0)
        .collect())
}
