//! FFmpeg reads what is recorded: files that grow, finished ones, segments of playlists, and spans.

use std::fs;
use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::time::{Duration, Instant};

use glassline_cmaf::{CutRule, FileWriter, Fragmenter, Output, RecordedFile, SpanBuilder, SpanCut};
use glassline_demux::Options;
use glassline_media::{
    DecodeLead, MediaTime, MediaUnit, Stamps, TrackIndex, UnitBuilder, WallClock,
};
use libtest_mimic::Failed;

use crate::peers::{Peer, Test};
use crate::process::output_folder;

pub(crate) const TESTS: &[Test] =
    &[
        Test::of(&ffmpeg_decodes_recordings_of_every_codec_without_a_warning)
            .needs(&[Peer::Ffmpeg]),
    ];

/// The recorded media: the name of the file, how FFmpeg makes it, and the streams whose decoded samples
/// must be those of the file.
const MATERIAL: [(&str, &str, &[&str]); 7] = [
    (
        "h264-aac.mp4",
        "VIDEO TONE -c:v libx264 -preset ultrafast -bf 0 -g 25 -c:a aac",
        &["v"],
    ),
    (
        "b-frames.mp4",
        "VIDEO -c:v libx264 -preset veryfast -bf 3 -g 50 -x264-params aud=1:b-pyramid=normal",
        &["v"],
    ),
    (
        "h265-opus.mkv",
        "VIDEO TONE -c:v libx265 -preset ultrafast -g 25 -x265-params log-level=error -c:a libopus",
        &["v"],
    ),
    (
        "vp9-opus.webm",
        "VIDEO TONE -c:v libvpx-vp9 -deadline realtime -cpu-used 8 -g 25 -c:a libopus",
        &["v"],
    ),
    (
        "av1-flac.mkv",
        "VIDEO TONE -c:v libaom-av1 -cpu-used 8 -usage realtime -g 25 -c:a flac -sample_fmt s16",
        &["v", "a"],
    ),
    (
        "vp8.webm",
        "VIDEO -c:v libvpx -deadline realtime -g 25",
        &["v"],
    ),
    ("ulaw.wav", "TONE -c:a pcm_mulaw -ar 8000 -ac 1", &["a"]),
];

const VIDEO: &str = "-f lavfi -i testsrc2=size=320x180:rate=25:duration=3";
const TONE: &str = "-f lavfi -i aevalsrc=0.3*sin(440*t*PI+2*t*t):s=48000:d=3";

/// Wall-clock time of the first unit.
const BEGIN: Duration = Duration::from_secs(1_800_000_000);

fn ffmpeg_decodes_recordings_of_every_codec_without_a_warning() -> Result<(), Failed> {
    let folder = output_folder().join("recorded");
    fs::create_dir_all(&folder)?;
    for (name, recipe, same) in MATERIAL {
        let source = folder.join(name);
        let recipe = recipe.replace("VIDEO", VIDEO).replace("TONE", TONE);
        ffmpeg(
            &format!("-y {recipe}"),
            None,
            &[source.as_os_str().as_ref()],
        )?;
        let recorded = record(&source).map_err(|why| format!("{name}: {why}"))?;
        for (kind, bytes) in recorded {
            let path = folder.join(format!("{name}.{kind}.mp4"));
            fs::write(&path, bytes)?;
            let null = ["-f", "null", "-"].map(Path::new);
            ffmpeg("", Some(&path), &null).map_err(|why| format!("{name}, {kind}: {why}"))?;
            if kind == "span" {
                continue;
            }
            for stream in same {
                let (sent, read) = (checksum(&source, stream)?, checksum(&path, stream)?);
                if sent != read {
                    return Err(format!("{name}, {kind}: other samples in stream {stream}").into());
                }
            }
            // Playlists keep the time from decoding to presentation, so that audio apart fits.
            let begin = begins_at(&path)?;
            if kind != "segments" && begin.abs() > 0.03 {
                return Err(format!("{name}, {kind}: begins at {begin} s").into());
            }
        }
    }
    Ok(())
}

/// Records a file in each form; returns the bytes of each with its name.
fn record(source: &Path) -> Result<Vec<(&'static str, Vec<u8>)>, String> {
    let once = Options {
        once: true,
        ..Options::default()
    };
    let opened = glassline_demux::open(&[source.to_owned()], &once);
    let mut demuxer = opened.map_err(|error| error.to_string())?;
    let tracks = demuxer.tracks().to_vec();
    let zero = Instant::now();
    let clock = WallClock::new(zero, BEGIN);
    let mut units = Vec::new();
    while let Some(frame) = demuxer.next_frame().map_err(|error| error.to_string())? {
        units.push(unit(&frame, zero));
    }
    let cut = |rule: CutRule| {
        let tracks = TrackIndex::enumerate(tracks.clone());
        let made = Fragmenter::new(tracks, rule, None);
        let mut fragmenter = made.map_err(|error| error.to_string())?;
        for unit in &units {
            let pushed = fragmenter.push(unit, &clock);
            pushed.map_err(|error| error.to_string())?;
        }
        fragmenter.flush();
        Ok::<_, String>(std::iter::from_fn(|| fragmenter.poll()).collect::<Vec<_>>())
    };
    let second = Duration::from_secs(1);
    let mut header = None;
    let mut growing = Vec::new();
    let mut writer: Option<FileWriter> = None;
    for output in cut(CutRule::recording(second, Duration::MAX))? {
        match (output, &header) {
            (Output::Header(new), _) => header = Some(new.header),
            (Output::Fragment(fragment), Some(header)) => {
                let writer = writer.get_or_insert_with(|| FileWriter::new(header, &fragment));
                if growing.is_empty() {
                    growing = writer.head().to_vec();
                }
                writer.add(&fragment);
                growing.extend(fragment.to_vec());
            }
            (other, _) => return Err(format!("{other:?}")),
        }
    }
    let end = writer.ok_or("no fragment")?.finish();
    let mut finished = growing.clone();
    finished.extend_from_slice(&end.tail);
    let at = end.patch.offset as usize;
    finished[at..at + end.patch.bytes.len()].copy_from_slice(&end.patch.bytes);
    let mut segments = Vec::new();
    for output in cut(CutRule::parts(second / 5, second * 2))? {
        match output {
            Output::Header(new) => segments.extend_from_slice(&new.header.segment()),
            Output::Fragment(fragment) => segments.extend(fragment.to_vec()),
            Output::Discontinuity(jump) => return Err(format!("{jump:?}")),
        }
    }
    let span = span(&finished).map_err(|error| error.to_string())?;
    Ok(vec![
        ("growing", growing),
        ("finished", finished),
        ("segments", segments),
        ("span", span),
    ])
}

/// Cuts from 1.3 to 2.6 seconds.
fn span(file: &[u8]) -> Result<Vec<u8>, glassline_cmaf::SpanError> {
    let (from, to) = (Duration::from_millis(1_300), Duration::from_millis(2_600));
    let mut builder = SpanBuilder::new(BEGIN + from..BEGIN + to, SpanCut::Exact);
    builder.add(&RecordedFile::open(file)?)?;
    let span = builder.finish()?;
    let mut bytes = span.head.to_vec();
    for slice in span.slices {
        let start = slice.offset as usize;
        bytes.extend_from_slice(&file[start..start + slice.bytes as usize]);
    }
    Ok(bytes)
}

fn unit(frame: &glassline_demux::Frame, zero: Instant) -> Arc<MediaUnit> {
    let due = zero + frame.time.saturating_since(MediaTime::ZERO);
    let stamps = Stamps::arrived(due);
    let mut builder = UnitBuilder::default();
    for part in frame.data.chunks(1100) {
        builder.push(part);
    }
    let unit = builder.build(frame.track, frame.time, frame.keyframe, stamps);
    let mut unit = unit.expect("a frame has bytes");
    unit.decode_lead = DecodeLead::between(frame.decode_time, frame.time);
    Arc::new(unit)
}

/// Runs FFmpeg; a warning is a failure.
fn ffmpeg(arguments: &str, input: Option<&Path>, output: &[&Path]) -> Result<String, String> {
    let mut command = Command::new("ffmpeg");
    command.args(["-nostdin", "-hide_banner", "-v", "warning"]);
    command.args(input.iter().flat_map(|input| [Path::new("-i"), input]));
    command.args(arguments.split_whitespace()).args(output);
    let ran = command.stdin(Stdio::null()).output();
    let ran = ran.map_err(|error| format!("ffmpeg: {error}"))?;
    let said = String::from_utf8_lossy(&ran.stderr);
    // Encoders remark on themselves, and WAV does not say which channel one channel is.
    let said: Vec<_> = said
        .lines()
        .filter(|line| input.is_some() && !line.starts_with("Guessed Channel Layout"))
        .collect();
    if !ran.status.success() || !said.is_empty() {
        return Err(format!("{}: {said:?}", ran.status));
    }
    Ok(String::from_utf8_lossy(&ran.stdout).into_owned())
}

/// Returns a checksum of the decoded samples of a stream.
fn checksum(path: &Path, stream: &str) -> Result<String, String> {
    let map = format!("-map 0:{stream}:0 -fps_mode passthrough");
    ffmpeg(&map, Some(path), &["-f", "md5", "-"].map(Path::new))
}

/// Returns when the first stream of a file begins, in seconds.
fn begins_at(path: &Path) -> Result<f64, String> {
    let mut command = Command::new("ffprobe");
    command.args([
        "-v",
        "error",
        "-show_entries",
        "format=start_time",
        "-of",
        "csv=p=0",
    ]);
    let ran = command.arg(path).output();
    let ran = ran.map_err(|error| format!("ffprobe: {error}"))?;
    let said = String::from_utf8_lossy(&ran.stdout).trim().to_owned();
    said.parse().map_err(|_| format!("ffprobe says {said:?}"))
}
