//! What jitter buffers do to speech: WAV files for a judge who listens.
//!
//! ```text
//! cargo run --release -p glassline-lab --example voice_quality -- SPEECH.s16 FOLDER
//! ```
//!
//! `SPEECH.s16` is one channel of raw 16-bit samples at 48 kHz. FOLDER receives, for each
//! path and contender, `PATH-CONTENDER.s16` at 16 kHz and a line of `conditions.csv`.
//! `peers/voice_quality.py` makes the speech, runs this and scores what comes out.

use std::error::Error;
use std::fmt::Write as _;
use std::path::Path;
use std::time::Duration;

use bytes::Bytes;
use glassline_lab::jitter::{EncodedSpeech, NetEq, Ours, Pace, PlayedSpeech, Stream, Version};
use glassline_sim::{Delays, Family};
use glassline_voice::opus::{self, Concealment, Config, Frame, Purpose};
use glassline_voice::{Bitrate, Encoder as _, Format};

const INTERVAL: Duration = Duration::from_millis(20);
/// Sample rate of the output, in Hz: wide-band PESQ needs 16 kHz.
const OUTPUT_HZ: u32 = 16_000;

/// Encoding of the speech into packets, with its name in file names.
struct Coding {
    name: &'static str,
    purpose: Purpose,
    frame: Frame,
    bps: u64,
    /// Expected loss, 0–1; more than 0 switches in-band FEC on.
    expected_loss: f64,
    /// Whether each packet also carries a copy of the one before (RED), which doubles the bits.
    repeats: bool,
    concealment: Concealment,
}

/// The first coding is the one that jitter buffers are compared with.
const CODINGS: &[Coding] = &[
    Coding {
        frame: Frame::Ms20,
        ..voip("voip-20-32", 32_000)
    },
    voip("voip-10-32", 32_000),
    Coding {
        expected_loss: 0.05,
        ..voip("voip-10-32-fec", 32_000)
    },
    Coding {
        repeats: true,
        ..voip("voip-10-32-red", 32_000)
    },
    low_delay("low-10-32", 32_000),
    low_delay("low-10-48", 48_000),
    Coding {
        repeats: true,
        ..low_delay("low-10-24-red", 24_000)
    },
    Coding {
        repeats: true,
        ..low_delay("low-10-32-red", 32_000)
    },
];

const fn voip(name: &'static str, bps: u64) -> Coding {
    Coding {
        name,
        purpose: Purpose::Voip,
        frame: Frame::Ms10,
        bps,
        expected_loss: 0.0,
        repeats: false,
        concealment: Concealment::Deep,
    }
}

const fn low_delay(name: &'static str, bps: u64) -> Coding {
    Coding {
        purpose: Purpose::LowDelay,
        ..voip(name, bps)
    }
}

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
    let voip = packets(&speech, &CODINGS[0])?;
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
    for coding in CODINGS {
        let packets = packets(&speech, coding)?;
        for (path, loss) in [
            ("codec", 0.0),
            ("loss-1", 0.01),
            ("loss-2", 0.02),
            ("loss-5", 0.05),
        ] {
            let interval = coding.frame.duration();
            let delays = Delays::of_family(Family::Clean, 1, packets.len(), interval);
            let stream = Stream {
                delays: &delays.losing(loss, 5),
                interval,
            };
            let spoken = EncodedSpeech {
                payloads: packets.clone(),
                make: decoder(coding.concealment),
                rate: OUTPUT_HZ,
                repeats: coding.repeats,
            };
            keep(
                folder,
                path,
                coding.name,
                &ours().play_speech(&stream, &spoken),
                &mut table,
            )?;
        }
    }
    std::fs::write(folder.join("conditions.csv"), table)?;
    Ok(())
}

/// Plays one stream through every jitter buffer.
fn all(stream: &Stream<'_>, payloads: &[Bytes]) -> Vec<(&'static str, PlayedSpeech)> {
    let spoken = |concealment| EncodedSpeech {
        payloads: payloads.to_vec(),
        make: decoder(concealment),
        rate: OUTPUT_HZ,
        repeats: false,
    };
    let (classic, deep) = (spoken(Concealment::Classic), spoken(Concealment::Deep));
    let neteq = |version| NetEq {
        version,
        ..NetEq::default()
    };
    let mut heard = Vec::new();
    for pace in Pace::ALL {
        let mut ours = ours();
        ours.config.pace = pace;
        heard.push((pace.name(), ours.play_speech(stream, &classic)));
    }
    heard.push(("even-deep", ours().play_speech(stream, &deep)));
    for (name, version) in [("neteq-m98", Version::M98), ("neteq-2026", Version::Y2026)] {
        heard.push((name, neteq(version).play_speech(stream, &classic)));
    }
    heard
}

fn ours() -> Ours {
    let mut ours = Ours::default();
    // Opus timestamps count at 48 kHz; this stream counts samples at the playout rate.
    ours.config.clock_rate = Some(OUTPUT_HZ);
    ours
}

fn decoder(concealment: Concealment) -> Box<dyn Fn() -> opus::Decoder> {
    let format = Format::new(OUTPUT_HZ, 1).expect("16 kHz are a voice's");
    Box::new(move || opus::Decoder::new(format, concealment).expect("Opus plays at 16 kHz"))
}

fn packets(speech: &[f32], coding: &Coding) -> Result<Vec<Bytes>, Box<dyn Error>> {
    let mut encoder = opus::Encoder::new(Config {
        purpose: coding.purpose,
        frame: coding.frame,
        bitrate: Bitrate::from_bps(coding.bps),
        fec: coding.expected_loss > 0.0,
        expected_loss: coding.expected_loss,
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
    heard: &PlayedSpeech,
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
