//! Our RTSP server with players of other projects: every type of file, every transport, and
//! publishers.

use std::fs;
use std::io::Write as _;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, PoisonError};
use std::thread;
use std::time::Duration;

use libtest_mimic::Failed;
use serde_json::Value;

use crate::peers::{Peer, Test};
use crate::ports::free_port;
use crate::process::{Running, output_folder};
use crate::server::{Server, glassline, rtsps_yaml};
use crate::webdriver::Browser;

const FFMPEG: &[Peer] = &[Peer::Ffmpeg];

pub(crate) const TESTS: &[Test] = &[
    Test::of(&ffmpeg_plays_every_type_of_file).needs(FFMPEG),
    Test::of(&gstreamer_plays_every_type_of_file).needs(&[Peer::Ffmpeg, Peer::RtspServer]),
    Test::of(&a_live_stream_comes_by_every_transport).needs(&[Peer::Ffmpeg, Peer::RtspServer]),
    Test::of(&gstreamer_plays_what_is_sealed_for_it).needs(&[Peer::Ffmpeg, Peer::RtspServer]),
    Test::of(&a_file_is_sought_in).needs(FFMPEG),
    Test::of(&another_of_our_servers_pulls_by_digest),
    Test::of(&ffmpeg_publishes_and_chromium_watches).needs(&[Peer::Ffmpeg, Peer::Chromium]),
    Test::of(&chromium_watches_files_of_the_folder).needs(&[Peer::Ffmpeg, Peer::Chromium]),
    Test::of(&gstreamer_publishes_and_chromium_watches).needs(&[Peer::RtspServer, Peer::Chromium]),
];

/// Long, for a debug build on two cores.
const PATIENCE: Duration = Duration::from_secs(30);

const FRAME: &[&str] = &["-f", "lavfi", "-i", "testsrc2=size=320x240:rate=25"];
const AUDIO: &[&str] = &["-f", "lavfi", "-i", "sine=frequency=440:sample_rate=48000"];
/// Length of the files. Keyframes come once a second.
const SECONDS: u32 = 3;

/// Players at a time; they wait most of the time.
const AT_ONCE: usize = 8;

/// Runs of GStreamer of which one must send a report.
const REPORTING_RUNS: usize = 4;

/// A type of file: its name, how ffmpeg makes it, and what a player must find in it.
struct Kind {
    file: &'static str,
    inputs: &'static [&'static [&'static str]],
    encode: &'static str,
    /// Names of the codecs in ffprobe.
    codecs: &'static [&'static str],
    /// GStreamer's depacketizer for the type.
    gstreamer: &'static str,
}

const KINDS: &[Kind] = &[
    kind("t.264", &[FRAME], "-c:v libx264 -g 25 -bf 0", &["h264"]),
    kind("b.264", &[FRAME], "-c:v libx264 -g 25 -bf 2", &["h264"]),
    kind(
        "t.265",
        &[FRAME],
        "-c:v libx265 -x265-params log-level=none:keyint=25",
        &["hevc"],
    ),
    kind("t.aac", &[AUDIO], "-c:a aac", &["aac"]),
    kind("t.ac3", &[AUDIO], "-c:a ac3", &["ac3"]),
    kind(
        "t.dv",
        &[FRAME],
        "-vf scale=720:576 -c:v dvvideo -pix_fmt yuv420p",
        &["dvvideo"],
    ),
    Kind {
        // Its parser and decoder are in the FFmpeg plug-in only.
        gstreamer: "rtpmp4vdepay",
        ..kind("t.m4e", &[FRAME], "-c:v mpeg4 -g 25 -f m4v", &["mpeg4"])
    },
    kind(
        "t.mkv",
        &[FRAME, AUDIO],
        "-c:v libx264 -g 25 -c:a aac",
        &["h264", "aac"],
    ),
    kind("t.mka", &[AUDIO], "-c:a flac", &["pcm_s16be"]),
    kind("t.flac", &[AUDIO], "-c:a flac", &["pcm_s16be"]),
    kind(
        "t.mov",
        &[FRAME, AUDIO],
        "-c:v libx264 -g 25 -c:a aac",
        &["h264", "aac"],
    ),
    Kind {
        gstreamer: "rtpmp4vdepay",
        ..kind(
            "t.avi",
            &[FRAME, AUDIO],
            "-c:v mpeg4 -g 25 -c:a libmp3lame",
            &["mpeg4", "mp3"],
        )
    },
    kind(
        "t.flv",
        &[FRAME, AUDIO],
        "-c:v libx264 -g 25 -bf 0 -c:a aac",
        &["h264", "aac"],
    ),
    kind("t.ivf", &[FRAME], "-c:v libvpx -g 25", &["vp8"]),
    kind("t.mp3", &[AUDIO], "-c:a libmp3lame", &["mp3"]),
    kind(
        "t.mp4",
        &[FRAME, AUDIO],
        "-c:v libx264 -g 25 -c:a aac",
        &["h264", "aac"],
    ),
    kind(
        "t.mpg",
        &[FRAME, AUDIO],
        "-c:v mpeg1video -c:a mp2 -f mpeg",
        &["mpeg1video", "mp2"],
    ),
    kind(
        "t.vob",
        &[FRAME, AUDIO],
        "-c:v mpeg2video -c:a ac3 -f vob",
        &["mpeg2video", "ac3"],
    ),
    kind("t.ogg", &[AUDIO], "-c:a libvorbis", &["vorbis"]),
    kind(
        "t.ogv",
        &[FRAME, AUDIO],
        "-c:v libtheora -c:a libvorbis",
        &["theora", "vorbis"],
    ),
    kind("t.opus", &[AUDIO], "-c:a libopus", &["opus"]),
    kind(
        "t.ts",
        &[FRAME, AUDIO],
        "-c:v libx264 -g 25 -bf 0 -c:a aac",
        &["h264", "aac"],
    ),
    kind(
        "opus.ts",
        &[FRAME, AUDIO],
        "-c:v libx264 -g 25 -bf 0 -c:a libopus",
        &["h264", "opus"],
    ),
    kind("t.wav", &[AUDIO], "-c:a pcm_s16le", &["pcm_s16be"]),
    kind(
        "t.webm",
        &[FRAME, AUDIO],
        "-c:v libvpx -g 25 -c:a libvorbis",
        &["vp8", "vorbis"],
    ),
];

const fn kind(
    file: &'static str,
    inputs: &'static [&'static [&'static str]],
    encode: &'static str,
    codecs: &'static [&'static str],
) -> Kind {
    Kind {
        file,
        inputs,
        encode,
        codecs,
        gstreamer: "parsebin",
    }
}

/// Makes a folder with a file of each type.
fn media_folder() -> Result<PathBuf, String> {
    let folder = output_folder().join("media");
    fs::create_dir_all(&folder).map_err(|error| format!("{}: {error}", folder.display()))?;
    for kind in KINDS {
        let path = folder.join(kind.file);
        if path.is_file() {
            continue;
        }
        let mut command = Command::new("ffmpeg");
        command.args(["-hide_banner", "-loglevel", "error", "-y"]);
        command.args(kind.inputs.iter().copied().flatten());
        command.args(["-t", &SECONDS.to_string()]);
        command.args(kind.encode.split(' ')).arg(&path);
        finish(kind.file, &mut command)?;
    }
    // Debian has no encoder for AMR: frames of 12.2 kbit/s whose bits are all zero.
    let mut amr = b"#!AMR\n".to_vec();
    for _ in 0..SECONDS * 50 {
        amr.push(0x3c);
        amr.extend([0; 31]);
    }
    let path = folder.join("t.amr");
    fs::write(&path, amr).map_err(|error| format!("{}: {error}", path.display()))?;
    Ok(folder)
}

/// Runs a program to its end; returns its standard output.
fn finish(what: &str, command: &mut Command) -> Result<String, String> {
    let output = command
        .stdin(Stdio::null())
        .output()
        .map_err(|error| format!("{what}: cannot start {command:?}: {error}"))?;
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    if output.status.success() {
        Ok(text)
    } else {
        let errors = String::from_utf8_lossy(&output.stderr);
        Err(format!("{what}: {command:?} failed:\n{text}\n{errors}"))
    }
}

fn serve_folder(folder: &Path) -> Result<Server, String> {
    let yaml = format!("rtsp:\n  media_folder: {}\n", folder.display());
    Server::configured(&yaml, &["demo"])
}

/// Codec names and numbers of packets of each track that ffprobe finds within two seconds.
fn probe(url: &str, transport: &str) -> Result<Vec<(String, u64)>, String> {
    let mut command = Command::new("timeout");
    command.args(["25", "ffprobe", "-hide_banner", "-loglevel", "error"]);
    command.args(["-rtsp_transport", transport, "-analyzeduration", "2000000"]);
    command.args(["-show_streams", "-count_packets", "-read_intervals", "%+2"]);
    command.args(["-of", "json", url]);
    let text = finish(url, &mut command)?;
    let json: Value = serde_json::from_str(&text).map_err(|error| format!("{error}: {text}"))?;
    // ffprobe shows the streams of a transport stream's program twice.
    let mut found: Vec<(String, u64)> = Vec::new();
    for stream in json["streams"].as_array().into_iter().flatten() {
        let codec = stream["codec_name"].as_str().unwrap_or("unknown");
        let packets = stream["nb_read_packets"].as_str();
        let packets = packets.and_then(|text| text.parse().ok()).unwrap_or(0);
        match found.iter_mut().find(|(known, _)| known == codec) {
            Some((_, known)) => *known = packets.max(*known),
            None => found.push((codec.to_owned(), packets)),
        }
    }
    Ok(found)
}

fn ffmpeg_plays_every_type_of_file() -> Result<(), Failed> {
    let folder = media_folder()?;
    let server = serve_folder(&folder)?;
    let amr = [("t.amr", &["amrnb"] as &[&str])];
    let kinds = KINDS.iter().map(|kind| (kind.file, kind.codecs));
    let failures = several(&kinds.chain(amr).collect::<Vec<_>>(), |(file, codecs)| {
        let url = server.rtsp_url(file);
        has_all(file, codecs, &probe(&url, "tcp")?)?;
        // Longer than the file: the repetition must decode as well.
        decodes(&url, "tcp", SECONDS + 1)
    });
    report(&failures)
}

/// Runs the same check on several files at a time, since each plays in real time; returns the
/// failures.
fn several<T: Copy + Sync>(
    items: &[T],
    test: impl Fn(T) -> Result<(), String> + Sync,
) -> Vec<String> {
    let (next, failures) = (AtomicUsize::new(0), Mutex::new(Vec::new()));
    let work = || {
        while let Some(item) = items.get(next.fetch_add(1, Ordering::Relaxed)) {
            let outcome = catch_unwind(AssertUnwindSafe(|| test(*item)));
            let outcome = outcome.unwrap_or_else(|_| Err("panicked".to_owned()));
            let mut failures = failures.lock().unwrap_or_else(PoisonError::into_inner);
            failures.extend(outcome.err());
        }
    };
    thread::scope(|scope| {
        for _ in 0..AT_ONCE {
            scope.spawn(work);
        }
    });
    failures
        .into_inner()
        .unwrap_or_else(PoisonError::into_inner)
}

/// Checks that `found` has some packets of each of `codecs`.
fn has_all(file: &str, codecs: &[&str], found: &[(String, u64)]) -> Result<(), String> {
    println!("{file}: {found:?}");
    // Names for which there is one decoder.
    let is = |name: &str, codec: &str| {
        name == codec
            || matches!(
                (name, codec),
                ("amr_nb", "amrnb") | ("mp2", "mp3") | ("mp3", "mp2")
            )
            || (name, codec) == ("mpeg2video", "mpeg1video")
    };
    let came = |codec: &str| {
        let mut found = found.iter();
        found.any(|(name, packets)| is(name, codec) && *packets > 10)
    };
    match codecs.iter().find(|codec| !came(codec)) {
        Some(codec) => Err(format!("{file}: no {codec} in {found:?}")),
        None => Ok(()),
    }
}

/// Decodes for some seconds; a message of the decoder is an error.
fn decodes(url: &str, transport: &str, seconds: u32) -> Result<(), String> {
    let mut command = Command::new("timeout");
    command.args(["40", "ffmpeg", "-hide_banner", "-loglevel", "error"]);
    command.args(["-rtsp_transport", transport, "-i", url]);
    command.args(["-t", &seconds.to_string(), "-f", "null", "-"]);
    let output = command
        .stdin(Stdio::null())
        .output()
        .map_err(|error| format!("ffmpeg: {error}"))?;
    let errors = String::from_utf8_lossy(&output.stderr);
    // The null muxer requires ascending times, which a repeated stream with B-frames does not
    // have. FFmpeg takes the next port where another program has the one that it tried.
    let harmless = [
        "non monotonically increasing",
        "bind failed: Address already in use",
    ];
    let complaints: Vec<&str> = errors
        .lines()
        .filter(|line| !harmless.iter().any(|it| line.contains(it)))
        .collect();
    if output.status.success() && complaints.is_empty() {
        Ok(())
    } else {
        let complaints = complaints.join("\n");
        Err(format!(
            "{url} by {transport}: {}\n{complaints}",
            output.status
        ))
    }
}

fn gstreamer_plays_every_type_of_file() -> Result<(), Failed> {
    let folder = media_folder()?;
    let server = serve_folder(&folder)?;
    let failures = several(&KINDS.iter().collect::<Vec<_>>(), |kind: &Kind| {
        gstreamer(&server.rtsp_url(kind.file), "tcp", kind.gstreamer)
    });
    report(&failures)
}

/// Receives 30 frames of the first track and passes them to `element`. Only their arrival counts:
/// GStreamer's goodbye depends on the order of its threads, and PAUSE and TEARDOWN have tests of
/// their own.
fn gstreamer(url: &str, protocols: &str, element: &str) -> Result<(), String> {
    gstreamer_until(url, protocols, element, 30)
}

/// Receives `frames` frames of the first track and passes them to `element`.
fn gstreamer_until(url: &str, protocols: &str, element: &str, frames: u32) -> Result<(), String> {
    let mut command = Command::new("timeout");
    command.args(["25", "gst-launch-1.0", "rtspsrc"]);
    command.arg(format!("location={url}"));
    command.args([&format!("protocols={protocols}"), "latency=100"]);
    // The tests' certificate is self-signed.
    command.args(["tls-validation-flags=0", "!"]);
    command.args([element, "!", "fakesink"]);
    command.arg(format!("num-buffers={frames}"));
    match finish(url, &mut command) {
        Err(reason) if !reason.contains("Got EOS from element") => Err(reason),
        _ => Ok(()),
    }
}

fn a_live_stream_comes_by_every_transport() -> Result<(), Failed> {
    let server = Server::serve(&["demo"])?;
    server.wait_for_state("demo", "live")?;
    let url = server.rtsp_url("demo");
    let mut failures = Vec::new();
    for transport in ["tcp", "udp", "http"] {
        match probe(&url, transport) {
            Ok(found) if found.len() == 2 && found.iter().all(|(_, packets)| *packets > 10) => {}
            Ok(found) => failures.push(format!("{transport}: {found:?}")),
            Err(reason) => failures.push(reason),
        }
        failures.extend(decodes(&url, transport, 3).err());
    }
    for protocols in ["tcp", "udp"] {
        failures.extend(gstreamer(&url, protocols, "parsebin").err());
    }
    // The scheme by which GStreamer tunnels RTSP through HTTP.
    let tunnelled = url.replace("rtsp://", "rtsph://");
    failures.extend(gstreamer(&tunnelled, "tcp", "parsebin").err());
    report(&failures)
}

/// GStreamer's `rtspsrc` takes the keys of a description, and announces its own for its reports.
fn gstreamer_plays_what_is_sealed_for_it() -> Result<(), Failed> {
    let folder = media_folder()?;
    let port = free_port()?;
    let media = format!("  media_folder: {}\n", folder.display());
    let server = Server::configured(&(rtsps_yaml(port) + &media), &["demo"])?;
    let url = |name: &str| format!("rtsps://127.0.0.1:{port}/{name}");
    server.wait_for_state("demo", "live")?;
    let mut tests = Vec::new();
    for protocols in ["tcp", "udp"] {
        for query in ["srtp", "srtp=gcm"] {
            tests.push((format!("demo?{query}"), protocols));
        }
        tests.push(("t.mkv?srtp".to_owned(), protocols));
    }
    // Plain RTP within TLS still works.
    tests.push(("demo".to_owned(), "tcp"));
    let tests: Vec<_> = tests.iter().collect();
    let mut failures = several(&tests, |(name, protocols)| {
        gstreamer(&url(name), protocols, "parsebin")
    });
    // FFmpeg has no MIKEY, and requests plain RTP in any case.
    failures.extend(decodes(&url("demo?srtp"), "tcp", 2).err());
    let count = |result: &str| {
        let labels = format!("glassline_rtsp_srtcp_total{{reason=\"{result}\"");
        server.metric(&labels)
    };
    // The first report is due within three seconds, but GStreamer 1.22 lets the reports of some
    // tracks go, which differ from one run to the next: none of them reaches a socket.
    for _ in 0..REPORTING_RUNS {
        let reporting = gstreamer_until(&url("demo?srtp"), "udp", "parsebin", 300);
        failures.extend(reporting.err());
        if count("opened")? > 0.0 {
            break;
        }
    }
    let (opened, refused) = (count("opened")?, count("refused")?);
    println!("reports: {opened} opened, {refused} refused");
    if opened < 1.0 || refused > 0.0 {
        failures.push(format!("reports: {opened} opened, {refused} refused"));
    }
    report(&failures)
}

fn a_file_is_sought_in() -> Result<(), Failed> {
    let folder = media_folder()?;
    let server = serve_folder(&folder)?;
    let url = server.rtsp_url("t.mkv");
    let mut command = Command::new("timeout");
    command.args(["25", "ffmpeg", "-hide_banner", "-loglevel", "error"]);
    command.args(["-rtsp_transport", "tcp", "-ss", "1.5", "-i", &url]);
    command.args([
        "-copyts", "-an", "-c", "copy", "-t", "1", "-f", "framecrc", "-",
    ]);
    let text = finish("seek", &mut command)?;
    // Lines like `0, decode time, presentation time, …` in ticks of 90 kHz; FFmpeg has no times
    // before the first sender report.
    let times: Vec<f64> = text
        .lines()
        .filter(|line| line.starts_with("0,"))
        .filter_map(|line| line.split(',').nth(2)?.trim().parse().ok())
        .filter(|ticks: &f64| *ticks >= 0.0)
        .map(|ticks| ticks / 90_000.0)
        .collect();
    // The keyframe before 1.5 s is at 1 s.
    if !times.is_empty() && times.iter().all(|time| (0.9..=2.6).contains(time)) {
        return Ok(());
    }
    Err(format!("{times:?}").into())
}

fn another_of_our_servers_pulls_by_digest() -> Result<(), Failed> {
    let users = output_folder().join("users.yml");
    // An earlier run may have left the file.
    let _ = fs::remove_file(&users);
    let arguments = ["user", "add", "viewer", "--read", "demo", "--file"];
    let mut adding = glassline(&arguments)
        .arg(&users)
        .stdin(Stdio::piped())
        .stdout(Stdio::null())
        .spawn()
        .map_err(|error| format!("glassline user add: {error}"))?;
    if let Some(mut stdin) = adding.stdin.take() {
        let told = stdin.write_all(b"a-password-of-some-length\n");
        told.map_err(|error| format!("glassline user add: {error}"))?;
    }
    let added = adding.wait().map_err(|error| error.to_string())?;
    if !added.success() {
        return Err(format!("glassline user add: {added}").into());
    }
    let yaml = format!("auth:\n  users_file: {}\n", users.display());
    let origin = Server::configured(&yaml, &["demo"])?;
    let address = origin.rtsp_url("demo");
    let with_password = address.replace("rtsp://", "rtsp://viewer:a-password-of-some-length@");
    let mut failures = Vec::new();
    for transport in ["tcp", "udp"] {
        let edge = Server::serve(&[&format!("copy={with_password}?transport={transport}")])?;
        match edge.wait_for_state("copy", "live") {
            Ok(entry) if entry["tracks"].as_array().map(Vec::len) == Some(2) => {}
            Ok(entry) => failures.push(format!("{transport}: {entry}")),
            Err(reason) => failures.push(format!("{transport}: {reason}")),
        }
    }
    let wrong = address.replace("rtsp://", "rtsp://viewer:another-password@");
    let edge = Server::serve(&[&format!("copy={wrong}")])?;
    let refused = edge.wait_for_state("copy", "down")?;
    let told = refused["detail"].as_str().unwrap_or_default();
    if !told.contains("refuses") {
        failures.push(format!("a wrong password gave {refused}"));
    }
    report(&failures)
}

fn ffmpeg_publishes_and_chromium_watches() -> Result<(), Failed> {
    let server = Server::serve(&["demo"])?;
    let mut failures = Vec::new();
    for transport in ["tcp", "udp"] {
        let name = format!("camera-{transport}");
        let mut command = Command::new("ffmpeg");
        command.args(["-hide_banner", "-loglevel", "warning", "-re"]);
        command.args(FRAME).args(["-re"]).args(AUDIO);
        command.args([
            "-c:v",
            "libx264",
            "-preset",
            "ultrafast",
            "-tune",
            "zerolatency",
        ]);
        command.args(["-pix_fmt", "yuv420p", "-g", "25"]);
        command.args(["-c:a", "libopus", "-b:a", "48k", "-ac", "2"]);
        command.args(["-rtsp_transport", transport, "-f", "rtsp"]);
        command.arg(server.rtsp_url(&name));
        let _publisher = Running::start("ffmpeg", command)?;
        if let Err(reason) = watched(&server, &name) {
            failures.push(reason);
        }
    }
    report(&failures)
}

fn gstreamer_publishes_and_chromium_watches() -> Result<(), Failed> {
    let server = Server::serve(&["demo"])?;
    let mut command = Command::new("gst-launch-1.0");
    let location = format!("location={}", server.rtsp_url("studio"));
    command.args(["-q", "videotestsrc", "is-live=true", "!"]);
    command.args(["video/x-raw,width=320,height=240,framerate=25/1", "!"]);
    command.args(["x264enc", "tune=zerolatency", "key-int-max=25", "!"]);
    command.args(["video/x-h264,profile=baseline", "!", "rtspclientsink"]);
    command.args([&location, "protocols=tcp"]);
    let _publisher = Running::start("gst-launch", command)?;
    watched(&server, "studio")?;
    Ok(())
}

/// Nobody plays the files before: the page itself starts them.
fn chromium_watches_files_of_the_folder() -> Result<(), Failed> {
    let folder = media_folder()?;
    let server = serve_folder(&folder)?;
    let mut failures = Vec::new();
    // H.264, and VP8 beside audio that no browser plays.
    for file in ["t.264", "t.webm"] {
        failures.extend(seen(&server, file).err());
    }
    report(&failures)
}

/// Checks that a browser shows moving video of stream `name`.
fn watched(server: &Server, name: &str) -> Result<(), String> {
    server.wait_for_state(name, "live")?;
    seen(server, name)
}

/// Checks that a browser shows moving video of stream `name`, which may begin only then.
fn seen(server: &Server, name: &str) -> Result<(), String> {
    let browser = Browser::start()?;
    browser.open(&server.url(&format!("/{name}")))?;
    let moving = "return glassline.state === 'live' && glassline.framesDecoded > 30";
    browser.wait_until(PATIENCE, moving)?;
    Ok(())
}

fn report(failures: &[String]) -> Result<(), Failed> {
    if failures.is_empty() {
        return Ok(());
    }
    Err(failures.join("\n").into())
}
