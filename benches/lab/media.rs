//! The streams that are measured: the built-in one, and the reference load.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use glassline_demux::{self as demux, annexb};
use glassline_media::{BurstBuilder, Kind, MediaTime, PAYLOAD_BYTES_MAX, Stamps};
use glassline_rtp::h264;

use crate::report;

/// A stream by name.
#[derive(Clone, Debug)]
pub(crate) struct Media {
    /// What tables call it, and the stream's name on the server.
    pub(crate) name: &'static str,
    /// What it is, in words.
    pub(crate) about: &'static str,
    /// Right side of `--source NAME=`.
    pub(crate) source: String,
    /// Its files, for the floor.
    pub(crate) files: Vec<PathBuf>,
}

/// The stream of `glassline demo`.
pub(crate) fn demo() -> Media {
    let assets = Path::new(env!("CARGO_MANIFEST_DIR")).join("assets");
    Media {
        name: "demo",
        about: "built in: 1280x720, 30 frames/s, 1.2 Mbit/s, Opus",
        source: "demo".to_owned(),
        files: vec![assets.join("demo.h264"), assets.join("demo.ogg")],
    }
}

/// The demo's sound alone: joining it brings next to no media.
pub(crate) fn sound() -> Media {
    let file = Path::new(env!("CARGO_MANIFEST_DIR")).join("assets/demo.ogg");
    Media {
        name: "sound",
        about: "Opus only",
        source: file.display().to_string(),
        files: vec![file],
    }
}

/// 1080p30 at a constant 3 Mbit/s with Opus at 64 kbit/s, a keyframe every two
/// seconds, noisy enough that every picture fills its share. Made by ffmpeg once
/// and kept. `None`, said on standard output, where ffmpeg is missing.
pub(crate) fn reference() -> Result<Option<Media>, String> {
    let folder = report::folder()?;
    let (video, audio) = (folder.join("reference.h264"), folder.join("reference.ogg"));
    if !video.is_file() || !audio.is_file() {
        let filter = "testsrc2=s=1920x1080:r=30,noise=alls=18:allf=t";
        let video_made = encode(
            &["-f", "lavfi", "-i", filter, "-t", "10", "-an"],
            &VIDEO_CODING,
            &video,
        )?;
        let tone = "sine=frequency=440:sample_rate=48000";
        let audio_made = video_made
            && encode(
                &["-f", "lavfi", "-i", tone, "-t", "10", "-vn"],
                &AUDIO_CODING,
                &audio,
            )?;
        if !audio_made {
            println!("skipped the 3 Mbit/s stream: ffmpeg is not installed");
            return Ok(None);
        }
    }
    Ok(Some(Media {
        name: "reference",
        about: "1920x1080, 30 frames/s, 3 Mbit/s, Opus 64 kbit/s",
        source: format!("{},{}", video.display(), audio.display()),
        files: vec![video, audio],
    }))
}

const VIDEO_CODING: [&str; 26] = [
    "-c:v",
    "libx264",
    "-profile:v",
    "baseline",
    "-preset",
    "veryfast",
    "-tune",
    "zerolatency",
    "-b:v",
    "3M",
    "-minrate",
    "3M",
    "-maxrate",
    "3M",
    "-bufsize",
    "1.5M",
    "-nal-hrd",
    "cbr",
    "-g",
    "60",
    "-sc_threshold",
    "0",
    "-x264-params",
    "repeat-headers=1:slices=1:sliced-threads=0",
    "-f",
    "h264",
];

const AUDIO_CODING: [&str; 12] = [
    "-c:a",
    "libopus",
    "-b:a",
    "64k",
    "-vbr",
    "off",
    "-ac",
    "2",
    "-frame_duration",
    "20",
    "-f",
    "ogg",
];

/// False if there is no ffmpeg.
fn encode(input: &[&str], coding: &[&str], output: &Path) -> Result<bool, String> {
    // Written aside: an interrupted run must not leave half a file.
    let unfinished = output.with_extension("unfinished");
    let status = Command::new("ffmpeg")
        .args(["-hide_banner", "-loglevel", "error", "-nostdin", "-y"])
        .args(input)
        .args(coding)
        .arg(&unfinished)
        .stdin(Stdio::null())
        .status();
    let status = match status {
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(false),
        status => status.map_err(|error| format!("ffmpeg: {error}"))?,
    };
    if !status.success() {
        return Err(format!("ffmpeg ended with {status}"));
    }
    std::fs::rename(&unfinished, output).map_err(|error| format!("ffmpeg: {error}"))?;
    Ok(true)
}

/// One access unit, cut into RTP payloads as the server cuts it.
#[derive(Debug)]
pub(crate) struct Unit {
    /// From the start of the clip.
    pub(crate) at: Duration,
    pub(crate) payloads: Vec<Vec<u8>>,
}

impl Unit {
    /// Stretches that one segmented send can carry: equal sizes, the last maybe
    /// shorter.
    pub(crate) fn runs(&self) -> impl Iterator<Item = &[Vec<u8>]> {
        self.payloads
            .chunk_by(|one, next| one.len() >= next.len())
            .flat_map(|falling| falling.split_inclusive(|payload| payload.len() < falling[0].len()))
    }
}

/// All access units of a clip in order, and how long it is.
pub(crate) fn packetise(files: &[PathBuf]) -> Result<(Vec<Unit>, Duration), String> {
    let options = demux::Options {
        once: true,
        ..demux::Options::default()
    };
    let mut source = demux::open(files, &options).map_err(|error| error.to_string())?;
    let kinds: Vec<Kind> = source.tracks().iter().map(|t| t.codec.kind()).collect();
    let mut units = Vec::new();
    let mut end = Duration::ZERO;
    while let Some(frame) = source.next_frame().map_err(|error| error.to_string())? {
        let at = frame.time.saturating_since(MediaTime::ZERO);
        end = end.max(at + frame.duration);
        let mut builder = BurstBuilder::default();
        match kinds.get(frame.track) {
            Some(Kind::Video) => {
                h264::packetise(annexb::nals(&frame.data), PAYLOAD_BYTES_MAX, &mut builder);
            }
            _ => builder.push(&frame.data),
        }
        let burst = builder.build(
            0,
            frame.time,
            frame.keyframe,
            Stamps::arrived(Instant::now()),
        );
        if let Some(burst) = burst {
            units.push(Unit {
                at,
                payloads: burst.payloads().map(<[u8]>::to_vec).collect(),
            });
        }
    }
    Ok((units, end))
}
