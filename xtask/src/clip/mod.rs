//! Draws and encodes the built-in demo clip: `assets/demo.h264`, `assets/demo.ogg`.
//!
//! ```text
//! frame ─ 2 loops ─► ffmpeg, x264 ─── the second ─► demo.h264 ─► ffmpeg ─ gray ─► code read back
//! audio ─── 3 loops ─► ffmpeg, libopus ─ the middle ─► demo.ogg ──► played twice, seam compared
//! ```
//!
//! `ffmpeg` with libx264 and libopus is the only tool; all video and audio is computed here.
//! Encoders need some time to settle, so they get more than one loop: the quality of the loop
//! that is kept is even, and its first audio packet continues its last.

mod audio;
mod canvas;
mod lettering;
mod ogg;
mod pattern;

use std::fs;
use std::io::{Read, Write};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use canvas::{HEIGHT, WIDTH};
use pattern::{CELL_WIDTH, CELLS, CODE_TOP, Painter};

/// Frame rate of the clip, in frames per second.
const FPS: u32 = 30;
/// Frames of one loop.
const FRAMES: u16 = 300;
/// Frames from one keyframe to the next.
const KEYFRAME_DISTANCE: usize = 30;
/// Opus packets of one loop.
const PACKETS: usize = 500;
/// Most bytes of both files together, since they are part of the binary.
const BYTES_MAX: u64 = 2_000_000;

/// Draws, encodes and verifies the clip; with `--check`, only verifies the existing files.
///
/// `args`: optionally `--check`, optionally the directory (else `assets`).
pub(crate) fn run(args: &[String]) -> Result<(), String> {
    let mut check_only = false;
    let mut directory = Path::new(env!("CARGO_MANIFEST_DIR")).join("../assets");
    for arg in args {
        match arg.as_str() {
            "--check" => check_only = true,
            flag if flag.starts_with('-') => {
                return Err(format!(
                    "unknown flag {flag}; usage: clip [--check] [DIRECTORY]"
                ));
            }
            path => directory = PathBuf::from(path),
        }
    }
    let (video, audio) = (directory.join("demo.h264"), directory.join("demo.ogg"));
    if !check_only {
        fs::create_dir_all(&directory).map_err(|e| format!("{}: {e}", directory.display()))?;
        encode_video(&video)?;
        encode_audio(&audio)?;
    }
    check_video(&video)?;
    check_audio(&audio)?;
    let size = |path: &Path| fs::metadata(path).map_or(0, |meta| meta.len());
    let total = size(&video) + size(&audio);
    if total > BYTES_MAX {
        return Err(format!("the clip has {total} bytes, more than {BYTES_MAX}"));
    }
    let (video, audio) = (size(&video), size(&audio));
    println!("demo.h264 {video} bytes, demo.ogg {audio} bytes: all frame codes read back");
    Ok(())
}

/// Constrained baseline, a keyframe each second, one slice a frame, no
/// look-ahead, parameter sets before every keyframe.
fn encode_video(path: &Path) -> Result<(), String> {
    let size = format!("{WIDTH}x{HEIGHT}");
    let rate = FPS.to_string();
    let colors = "scale=out_color_matrix=bt709:out_range=tv:\
                   flags=accurate_rnd+full_chroma_int,format=yuv420p";
    let x264 = "keyint=30:min-keyint=30:scenecut=0:slices=1:sliced-threads=0:threads=1:\
                repeat-headers=1:aud=0:ref=2:colorprim=bt709:transfer=bt709:colormatrix=bt709:\
                range=tv:force-cfr=1";
    let mut command = ffmpeg();
    command.args([
        "-f", "rawvideo", "-pix_fmt", "rgb24", "-s", &size, "-r", &rate, "-i", "-",
    ]);
    command.args([
        "-vf",
        colors,
        "-c:v",
        "libx264",
        "-profile:v",
        "baseline",
        "-level",
        "3.1",
    ]);
    command.args([
        "-preset",
        "slower",
        "-tune",
        "zerolatency",
        "-x264-params",
        x264,
    ]);
    command.args(["-b:v", "1150k", "-maxrate", "1400k", "-bufsize", "1400k"]);
    // The encoder's signature (an SEI with its whole command line) is of no use to a viewer.
    command
        .args(["-bsf:v", "filter_units=remove_types=6", "-f", "h264"])
        .arg(path);
    feed(command, |ffmpeg| {
        let painter = Painter::new();
        let mut rgb = Vec::with_capacity(WIDTH * HEIGHT * 3);
        for number in (0..FRAMES).chain(0..FRAMES) {
            painter.frame(number).write_rgb24(&mut rgb);
            ffmpeg.write_all(&rgb)?;
        }
        Ok(())
    })?;
    let both = fs::read(path).map_err(|e| format!("{}: {e}", path.display()))?;
    // Each keyframe begins with its sequence parameter set, NAL type 7.
    let starts = both.windows(5).enumerate();
    let mut keyframes = starts.filter(|(_, at)| at.starts_with(&[0, 0, 0, 1]) && at[4] & 31 == 7);
    let (second, _) = keyframes
        .nth(usize::from(FRAMES) / KEYFRAME_DISTANCE)
        .ok_or("the encoder did not write a keyframe a second")?;
    fs::write(path, &both[second..]).map_err(|e| format!("{}: {e}", path.display()))
}

fn encode_audio(path: &Path) -> Result<(), String> {
    let long = path.with_extension("three-loops.ogg");
    let mut command = ffmpeg();
    command.args(["-f", "f32le", "-ar", "48000", "-ac", "2", "-i", "-"]);
    command.args(["-c:a", "libopus", "-b:a", "64k", "-vbr", "constrained"]);
    command
        .args([
            "-application",
            "audio",
            "-frame_duration",
            "20",
            "-f",
            "ogg",
        ])
        .arg(&long);
    feed(command, |ffmpeg| {
        let samples = (0..3 * audio::LOOP_SAMPLES).flat_map(audio::sample);
        ffmpeg.write_all(&samples.flat_map(f32::to_le_bytes).collect::<Vec<u8>>())
    })?;
    let file = fs::read(&long).map_err(|e| format!("{}: {e}", long.display()))?;
    fs::remove_file(&long).map_err(|e| format!("{}: {e}", long.display()))?;
    let mut whole = ogg::Audio::read(&file)?;
    let end = whole.packets.len().min(2 * PACKETS);
    whole.packets = whole.packets.drain(..end).skip(PACKETS).collect();
    fs::write(path, whole.write()).map_err(|e| format!("{}: {e}", path.display()))
}

/// Decodes the clip and reads the code of every frame as a viewer's page does.
fn check_video(path: &Path) -> Result<(), String> {
    const MARGIN_MIN: i32 = 70;
    let strip = format!(
        "crop={WIDTH}:{}:0:{CODE_TOP},format=gray",
        HEIGHT - CODE_TOP
    );
    let mut command = ffmpeg();
    command
        .arg("-i")
        .arg(path)
        .args(["-vf", &strip, "-fps_mode", "passthrough"]);
    command.args(["-f", "rawvideo", "-"]);
    let gray = output(command, b"")?;
    let rows = HEIGHT - CODE_TOP;
    let frames: Vec<&[u8]> = gray.chunks_exact(WIDTH * rows).collect();
    if frames.len() != usize::from(FRAMES) {
        return Err(format!(
            "{}: {} frames, not {FRAMES}",
            path.display(),
            frames.len()
        ));
    }
    for (number, frame) in (0..FRAMES).zip(frames) {
        let centre =
            |cell: usize| i32::from(frame[rows / 2 * WIDTH + cell * CELL_WIDTH + CELL_WIDTH / 2]);
        let middle = (centre(0) + centre(1)) / 2;
        for (cell, white) in pattern::code_cells(number).into_iter().enumerate() {
            let above = centre(cell) - middle;
            let margin = if white { above } else { -above };
            if margin < MARGIN_MIN {
                return Err(format!(
                    "{}: frame {number}, cell {cell} of {CELLS}: margin {margin}, less than {MARGIN_MIN}",
                    path.display()
                ));
            }
        }
    }
    Ok(())
}

/// Plays the audio twice, and compares the seam with the computed audio.
fn check_audio(path: &Path) -> Result<(), String> {
    const ERROR_MAX: f32 = 0.02;
    let file = fs::read(path).map_err(|e| format!("{}: {e}", path.display()))?;
    let mut audio = ogg::Audio::read(&file)?;
    if audio.packets.len() != PACKETS {
        let count = audio.packets.len();
        return Err(format!(
            "{}: {count} packets, not {PACKETS}",
            path.display()
        ));
    }
    audio.packets.extend_from_within(..);
    let mut command = ffmpeg();
    command.args(["-f", "ogg", "-i", "-", "-f", "f32le", "-"]);
    let played = output(command, &audio.write())?;
    let samples: Vec<f32> = played
        .as_chunks()
        .0
        .iter()
        .map(|bytes| f32::from_le_bytes(*bytes))
        .collect();
    let seam = audio::LOOP_SAMPLES - audio::RATE / 10..audio::LOOP_SAMPLES + audio::RATE / 10;
    if samples.len() < 2 * seam.end {
        return Err(format!(
            "{}: only {} samples",
            path.display(),
            samples.len() / 2
        ));
    }
    let mut energy = 0.0;
    for index in seam.clone() {
        for (channel, meant) in audio::sample(index).into_iter().enumerate() {
            energy += (samples[index * 2 + channel] - meant).powi(2);
        }
    }
    let error = (energy / (2 * seam.len()) as f32).sqrt();
    if error > ERROR_MAX {
        return Err(format!(
            "{}: the seam is off by {error} RMS",
            path.display()
        ));
    }
    Ok(())
}

fn ffmpeg() -> Command {
    let mut command = Command::new("ffmpeg");
    command.args(["-hide_banner", "-loglevel", "error", "-nostdin", "-y"]);
    command
}

/// Runs `command`, writing to its standard input.
fn feed(
    mut command: Command,
    write: impl FnOnce(&mut dyn Write) -> std::io::Result<()>,
) -> Result<(), String> {
    let mut child = command
        .stdin(Stdio::piped())
        .spawn()
        .map_err(|error| missing(&error))?;
    let written = match child.stdin.take() {
        Some(mut stdin) => write(&mut stdin),
        None => Ok(()),
    };
    let status = child.wait().map_err(|e| format!("ffmpeg: {e}"))?;
    if !status.success() {
        return Err(format!(
            "ffmpeg failed ({status}); it needs libx264 and libopus"
        ));
    }
    written.map_err(|e| format!("ffmpeg: {e}"))
}

/// Runs `command` with `input`, and returns what it writes.
fn output(mut command: Command, input: &[u8]) -> Result<Vec<u8>, String> {
    let mut child = command
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .map_err(|error| missing(&error))?;
    let (stdin, stdout) = (child.stdin.take(), child.stdout.take());
    let mut out = Vec::new();
    let read = std::thread::scope(|scope| {
        if let Some(mut stdin) = stdin {
            // The exit status shows a decoder that stops early.
            scope.spawn(move || stdin.write_all(input).ok());
        }
        stdout.map_or(Ok(0), |mut stdout| stdout.read_to_end(&mut out))
    });
    let status = child.wait().map_err(|e| format!("ffmpeg: {e}"))?;
    read.map_err(|e| format!("ffmpeg: {e}"))?;
    if status.success() {
        Ok(out)
    } else {
        Err(format!("ffmpeg failed ({status})"))
    }
}

fn missing(error: &std::io::Error) -> String {
    format!("ffmpeg cannot be started ({error}): apt-get install ffmpeg")
}
