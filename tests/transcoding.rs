//! Audio that browsers cannot play, as viewers hear it.

use std::fs;
use std::process::Command;
use std::time::Duration;

use glassline_media::{Codec, Track};
use glassline_transcode::{AudioSource, Decoder};
use libtest_mimic::Failed;
use serde_json::Value;

use crate::browser::PATIENCE;
use crate::http;
use crate::peers::{Peer, Test};
use crate::process::{Running, eventually, output_folder};
use crate::server::Server;
use crate::webdriver::Browser;

pub(crate) const TESTS: &[Test] = &[
    Test::of(&chromium_hears_a_camera_with_aac_on_time).needs(&[Peer::Ffmpeg, Peer::Chromium]),
    Test::of(&the_page_says_why_there_is_no_audio).needs(&[Peer::Ffmpeg, Peer::Chromium]),
    Test::of(&chromium_plays_video_with_b_frames_that_is_encoded_again)
        .needs(&[Peer::Ffmpeg, Peer::Chromium]),
    Test::of(&decodes_what_ffmpeg_decodes).needs(&[Peer::Ffmpeg]),
    Test::of(&every_framing_is_transcoded_and_players_get_the_original)
        .needs(&[Peer::Ffmpeg, Peer::Chromium]),
];

/// Publishes video, and a tone encoded as `audio` says.
fn camera(url: &str, audio: &str) -> Result<Running, String> {
    let mut command = Command::new("ffmpeg");
    command.args(["-v", "error", "-re", "-f", "lavfi", "-i"]);
    command.args(["testsrc=size=320x240:rate=25", "-re", "-f", "lavfi", "-i"]);
    command.args(["sine=frequency=1000:sample_rate=48000,volume=6", "-g", "25"]);
    command.args(["-pix_fmt", "yuv420p", "-c:v", "libx264", "-bf", "0"]);
    command
        .args(["-preset", "ultrafast"])
        .args(audio.split(' '));
    command.args(["-f", "rtsp", "-rtsp_transport", "tcp", url]);
    Running::start("ffmpeg", command)
}

/// Returns the only transcoding of the server, if there is one.
fn transcoding(server: &Server) -> Result<Value, String> {
    let all = http::get_json(&server.admin_url("/api/v1/transcodings"))?;
    Ok(all["transcodings"][0].clone())
}

/// Returns whether the transcoding has a trouble that a busy machine does not explain.
pub(crate) fn has_own_trouble(view: &Value) -> bool {
    let trouble = view["trouble"].as_str();
    trouble.is_some_and(|it| !it.starts_with("this machine is too slow"))
}

/// Measures in the page how much of the received audio is the tone: the level of the strongest
/// frequency and where it lies. An audio context must run for it, so the page is clicked first.
const LISTEN: &str = "
    if (!window.tone) {
        const context = new AudioContext();
        const analyser = context.createAnalyser();
        analyser.fftSize = 4096;
        const tracks = document.getElementById('video').srcObject.getAudioTracks();
        context.createMediaStreamSource(new MediaStream(tracks)).connect(analyser);
        window.tone = { context, analyser, bins: new Float32Array(analyser.frequencyBinCount) };
    }
    const { context, analyser, bins } = window.tone;
    analyser.getFloatFrequencyData(bins);
    const loudest = bins.indexOf(Math.max(...bins));
    const hz = loudest * context.sampleRate / analyser.fftSize;
    return { hz, level: bins[loudest], state: context.state };";

fn hears_the_tone(browser: &Browser) -> Result<(), String> {
    browser.run("document.getElementById('sound').click()")?;
    eventually(PATIENCE, || {
        let heard = browser.run(LISTEN)?;
        let (hz, level) = (heard["hz"].as_f64(), heard["level"].as_f64());
        let is_tone = hz.is_some_and(|hz| (hz - 1_000.0).abs() < 30.0);
        match is_tone && level > Some(-40.0) {
            true => Ok(()),
            false => Err(format!("no tone of 1 kHz: {heard}")),
        }
    })
}

fn chromium_hears_a_camera_with_aac_on_time() -> Result<(), Failed> {
    let server = Server::serve(&["demo"])?;
    let _camera = camera(
        &server.rtsp_url("yard"),
        "-c:a aac -b:a 48k -ar 16000 -ac 1",
    )?;
    server.wait_for_state("yard", "live")?;
    let entry = http::get_json(&server.url("/api/v1/streams/yard"))?;
    let audio = &entry["tracks"][1];
    if audio["codec"] != "mpeg4-generic" || audio["browser"]["codec"] != "opus" {
        return Err(format!("the tracks are {entry}").into());
    }
    if transcoding(&server)? != Value::Null {
        return Err("transcoded although nobody watches".into());
    }
    let browser = Browser::start()?;
    browser.open(&server.url("/yard"))?;
    let live = "return glassline.state === 'live' && glassline.framesDecoded > 10";
    browser.wait_until(PATIENCE, live)?;
    hears_the_tone(&browser)?;
    let page = "return glassline.audioEnergy > 0 && glassline.audioNote === null";
    browser.wait_until(PATIENCE, page)?;
    let view = transcoding(&server)?;
    let says = view["from"] == "mpeg4-generic" && view["to"] == "opus";
    let decoded = view["sample_rate"] == 16_000 && view["channels"] == 1;
    let made = view["frames_out"].as_u64() > Some(50) && view["undecodable"] == 0;
    if !(says && decoded && made && view["viewers"] == 1) {
        return Err(format!("the transcoding is {view}").into());
    }
    println!("{view}");
    if view["delay_p50_ms"].is_null() || view["cpu_s"].as_f64() <= Some(0.0) {
        return Err(format!("its cost is not measured: {view}").into());
    }
    let metrics = http::get(&server.admin_url("/metrics"))?.body;
    for row in [
        "glassline_transcodings{stream=\"yard\",from=\"mpeg4-generic\",to=\"opus\"} 1",
        "glassline_transcodings_started_total 1",
    ] {
        if !metrics.contains(row) {
            return Err(format!("no {row} in the metrics").into());
        }
    }
    drop(browser);
    eventually(Duration::from_secs(60), || match transcoding(&server)? {
        Value::Null => Ok(()),
        view => Err(format!("it goes on without viewers: {view}")),
    })?;
    Ok(())
}

fn the_page_says_why_there_is_no_audio() -> Result<(), Failed> {
    let film = film_with_ac3()?;
    let server = Server::configured(
        "transcoding: {audio_streams: 0}",
        &[&format!("theatre={film}")],
    )?;
    let _camera = camera(&server.rtsp_url("yard"), "-c:a aac -b:a 48k")?;
    let browser = Browser::start()?;
    for (name, reason) in [
        ("theatre", "there is no decoder for AC-3"),
        ("yard", "turned off"),
    ] {
        server.wait_for_state(name, "live")?;
        browser.open(&server.url(&format!("/{name}")))?;
        let says = format!(
            "return glassline.state === 'live' && glassline.audioNote?.includes('{reason}') \
             && document.getElementById('audio-note').textContent.includes('{reason}')"
        );
        browser.wait_until(PATIENCE, &says)?;
        eventually(PATIENCE, || match server.printed().contains(reason) {
            true => Ok(()),
            false => Err(format!("the log does not say: {reason}")),
        })?;
    }
    Ok(())
}

fn chromium_plays_video_with_b_frames_that_is_encoded_again() -> Result<(), Failed> {
    let path = output_folder().join("b-frames.mp4").display().to_string();
    let mut command = Command::new("ffmpeg");
    command.args(["-v", "error", "-y", "-f", "lavfi", "-i"]);
    command.args(["testsrc2=size=640x360:rate=25", "-t", "10", "-g", "50"]);
    command.args(["-c:v", "libx264", "-bf", "3", "-pix_fmt", "yuv420p", &path]);
    let status = command
        .status()
        .map_err(|error| format!("ffmpeg: {error}"))?;
    if !status.success() {
        return Err(format!("ffmpeg made no {path}").into());
    }
    let server = Server::serve(&[&format!("film={path}")])?;
    server.wait_for_state("film", "live")?;
    let browser = Browser::start()?;
    browser.open(&server.url("/film"))?;
    let refused = "return glassline.state === 'refused' \
                   && document.getElementById('anyway').checkVisibility() \
                   && !document.getElementById('message').innerText.includes('Next try')";
    browser.wait_until(PATIENCE, refused)?;
    browser.screenshot("not-for-browsers")?;
    browser.run("document.getElementById('anyway').click()")?;
    let plays = "return glassline.state === 'live' && glassline.framesDecoded > 100 \
                 && glassline.width === 640 && glassline.height === 360";
    browser.wait_until(PATIENCE, plays)?;
    browser.screenshot("transcoded")?;
    let view = transcoding(&server)?;
    println!("{view}");
    // A busy machine leaves frames out, up to the next keyframe, and says so.
    let is_made = view["to"] == "H264" && view["frames_out"].as_u64() > Some(50);
    let is_whole = view["steps"] == 0 || !view["trouble"].is_null();
    if !is_made || !is_whole || has_own_trouble(&view) {
        return Err(format!("the transcoding is {view}").into());
    }
    Ok(())
}

/// Makes a film whose audio has no decoder, and returns its path.
fn film_with_ac3() -> Result<String, String> {
    let path = output_folder().join("film-ac3.mkv").display().to_string();
    let mut command = Command::new("ffmpeg");
    command.args(["-v", "error", "-y", "-f", "lavfi", "-i"]);
    command.args([
        "testsrc=size=320x240:rate=25",
        "-f",
        "lavfi",
        "-i",
        "sine=frequency=1000",
    ]);
    command.args([
        "-t", "10", "-g", "25", "-pix_fmt", "yuv420p", "-c:v", "libx264", "-bf", "0",
    ]);
    command.args(["-preset", "ultrafast", "-c:a", "ac3", "-b:a", "96k", &path]);
    let status = command
        .status()
        .map_err(|error| format!("ffmpeg: {error}"))?;
    match status.success() {
        true => Ok(path),
        false => Err(format!("ffmpeg made no {path}")),
    }
}

fn every_framing_is_transcoded_and_players_get_the_original() -> Result<(), Failed> {
    let server = Server::serve(&["demo"])?;
    let browser = Browser::start()?;
    for (name, audio, codec) in [
        ("aac", "-c:a aac -b:a 96k -ar 44100 -ac 2", "aac"),
        (
            "latm",
            "-c:a aac -b:a 48k -ar 32000 -ac 1 -rtpflags latm",
            "aac",
        ),
        ("mp2", "-c:a mp2 -b:a 96k -ar 48000 -ac 2", "mp2"),
        ("mp3", "-c:a libmp3lame -b:a 48k -ar 22050 -ac 1", "mp3"),
        ("pcm", "-c:a pcm_s16be -ar 16000 -ac 1", "pcm_s16be"),
    ] {
        let mut camera = camera(&server.rtsp_url(name), audio)?;
        server.wait_for_state(name, "live")?;
        browser.open(&server.url(&format!("/{name}")))?;
        let live = "return glassline.state === 'live' && glassline.framesDecoded > 10";
        browser.wait_until(PATIENCE, live)?;
        hears_the_tone(&browser).map_err(|reason| format!("{name}: {reason}"))?;
        let mut player = Command::new("ffprobe");
        player.args([
            "-v",
            "error",
            "-rtsp_transport",
            "tcp",
            "-select_streams",
            "a",
        ]);
        player.args(["-show_entries", "stream=codec_name", "-of", "csv=p=0"]);
        let output = player.arg(server.rtsp_url(name)).output();
        let output = output.map_err(|error| format!("ffprobe: {error}"))?;
        let played = String::from_utf8_lossy(&output.stdout).trim().to_owned();
        if played != codec {
            return Err(format!("a player gets {played:?}, not {codec}").into());
        }
        camera.terminate()?;
        camera.wait(Duration::from_secs(10))?;
    }
    Ok(())
}

/// Least ratio of signal to difference in dB between our decoder and FFmpeg's.
///
/// MP3 at 24 kHz differs in one scale factor band, which FFmpeg ends two lines earlier than LAME
/// does; MP2 is decoded in fixed point by FFmpeg.
fn least_ratio_db(encoder: &str, rate: u32) -> f64 {
    match (encoder, rate) {
        ("libmp3lame", 24_000) => 25.0,
        ("mp2", _) => 70.0,
        _ => 90.0,
    }
}

/// Every sample rate, mono and stereo, of every codec that is decoded.
fn decodes_what_ffmpeg_decodes() -> Result<(), Failed> {
    let folder = output_folder().join("decoders");
    fs::create_dir_all(&folder).map_err(|error| format!("{}: {error}", folder.display()))?;
    let low = [8_000, 11_025, 12_000];
    let high = [16_000, 22_050, 24_000, 32_000, 44_100, 48_000];
    let mut failures = Vec::new();
    for encoder in ["aac", "mp2", "libmp3lame"] {
        let rates = low.iter().filter(|_| encoder != "mp2").chain(&high);
        for (rate, channels) in rates.flat_map(|rate| [(*rate, 1u8), (*rate, 2)]) {
            let compared = compare(&folder, encoder, rate, channels);
            let name = format!("{encoder} at {rate} Hz, {channels} channels");
            match compared {
                Ok(ratio) if ratio >= least_ratio_db(encoder, rate) => {}
                Ok(ratio) => failures.push(format!("{name}: {ratio:.1} dB")),
                Err(reason) => failures.push(format!("{name}: {reason}")),
            }
        }
    }
    for (rate, channels) in [
        8_000, 16_000, 24_000, 32_000, 44_100, 48_000, 64_000, 96_000,
    ]
    .into_iter()
    .flat_map(|rate| [(rate, 6u8), (rate, 8)])
    {
        match compare(&folder, "aac", rate, channels) {
            Ok(ratio) if ratio >= least_ratio_db("aac", rate) => {}
            Ok(ratio) => failures.push(format!("AAC, {channels} at {rate} Hz: {ratio:.1} dB")),
            Err(reason) => failures.push(format!("AAC, {channels} at {rate} Hz: {reason}")),
        }
    }
    match failures.is_empty() {
        true => Ok(()),
        false => Err(failures.join("\n").into()),
    }
}

/// Returns what FFmpeg's filters are to do with several channels: the mixdown of RFC 7845, figures 7
/// and 9.
fn mixdown(channels: u8) -> &'static str {
    match channels {
        6 => {
            "pan=stereo|c0=0.529067*FL+0.374107*FC+0.458186*BL+0.264534*BR+0.374107*LFE\
             |c1=0.529067*FR+0.374107*FC+0.458186*BR+0.264534*BL+0.374107*LFE"
        }
        8 => {
            "pan=stereo\
             |c0=0.388631*FL+0.274804*FC+0.336565*SL+0.194316*SR+0.336565*BL+0.194316*BR+0.274804*LFE\
             |c1=0.388631*FR+0.274804*FC+0.336565*SR+0.194316*SL+0.336565*BR+0.194316*BL+0.274804*LFE"
        }
        _ => "anull",
    }
}

/// Encodes two seconds of sweeps and noise by FFmpeg and decodes them with both decoders. Returns the
/// ratio of signal to difference in dB.
fn compare(
    folder: &std::path::Path,
    encoder: &str,
    rate: u32,
    channels: u8,
) -> Result<f64, String> {
    let extension = match encoder {
        "aac" => "aac",
        "mp2" => "mp2",
        _ => "mp3",
    };
    let coded = folder.join(format!("{rate}-{channels}.{extension}"));
    let plain = coded.with_extension(format!("{extension}.f32"));
    let kbps = if rate < 16_000 { 16 } else { 32 } * u32::from(channels);
    let tones = (0..channels.max(2)).map(|number| match number {
        0 => "0.3*sin(2*PI*(200+90*t)*t)+0.1*random(0)".to_owned(),
        _ => format!(
            "0.3*sin(2*PI*{}*t)+0.1*random({number})",
            110 + 220 * u16::from(number)
        ),
    });
    let tones = tones.collect::<Vec<_>>().join("|");
    let layout = match channels {
        6 => "5.1",
        8 => "7.1",
        _ => "stereo",
    };
    let audio = format!("aevalsrc='{tones}':s={rate}:d=2:c={layout}");
    let run = |command: &mut Command| {
        let output = command
            .output()
            .map_err(|error| format!("ffmpeg: {error}"))?;
        match output.status.success() {
            true => Ok(()),
            false => Err(String::from_utf8_lossy(&output.stderr).into_owned()),
        }
    };
    let mut encode = Command::new("ffmpeg");
    encode.args(["-v", "error", "-y", "-f", "lavfi", "-i", &audio]);
    encode.args(["-ac", &channels.to_string(), "-c:a", encoder]);
    encode.args(["-b:a", &format!("{kbps}k"), "-id3v2_version", "0"]);
    // Noise that the decoder makes comes from one generator for all elements in FFmpeg.
    encode.args(["-aac_pns", "0"].iter().filter(|_| channels > 2));
    encode.args(["-write_xing", "0"].iter().filter(|_| extension == "mp3"));
    run(encode.arg(&coded))?;
    let mut decode = Command::new("ffmpeg");
    decode.args(["-v", "error", "-y", "-i"]).arg(&coded);
    decode.args(["-af", mixdown(channels)]);
    run(decode.args(["-f", "f32le"]).arg(&plain))?;
    let read = |path: &std::path::Path| fs::read(path).map_err(|error| error.to_string());
    let (file, reference) = (read(&coded)?, read(&plain)?);
    let reference = reference.as_chunks::<4>().0.iter();
    let reference: Vec<f32> = reference.map(|it| f32::from_le_bytes(*it)).collect();
    let decoded = decode_file(&file, extension, rate, channels)?;
    // The first frames depend on what the decoder assumes before them.
    let skipped = 4_096 * usize::from(channels.min(2));
    let (mut signal, mut difference) = (1e-9, 1e-9);
    for (ours, theirs) in decoded.iter().zip(&reference).skip(skipped) {
        signal += f64::from(*theirs).powi(2);
        difference += f64::from(ours - theirs).powi(2);
    }
    if decoded.len().abs_diff(reference.len()) > skipped || signal < 1.0 {
        let (ours, theirs) = (decoded.len(), reference.len());
        return Err(format!("{ours} samples, FFmpeg has {theirs}"));
    }
    Ok(10.0 * (signal / difference).log10())
}

fn decode_file(file: &[u8], extension: &str, rate: u32, channels: u8) -> Result<Vec<f32>, String> {
    let codec = match extension {
        "aac" => Codec::Aac,
        _ => Codec::MpegAudio,
    };
    // Without a configuration, AAC-LC at the clock rate is assumed.
    let track = Track::audio(codec, channels).with_clock_rate(rate);
    let source = AudioSource::of(&track).map_err(|error| error.to_string())?;
    let mut decoder = Decoder::new(&source).map_err(|error| error.to_string())?;
    let (mut all, mut samples, mut rest) = (Vec::new(), Vec::new(), file);
    while rest.len() > 7 {
        let (header, bytes) = match codec {
            Codec::Aac => {
                let high = usize::from(rest[3] & 3) << 11;
                (
                    7,
                    high | usize::from(rest[4]) << 3 | usize::from(rest[5] >> 5),
                )
            }
            _ => (0, mpeg_frame_bytes(rest)),
        };
        let Some(frame) = rest.get(header..bytes) else {
            break;
        };
        let format = decoder.decode(frame, &mut samples);
        let format = format.map_err(|error| error.to_string())?;
        if (format.rate, format.channels) != (rate, usize::from(channels.min(2))) {
            return Err(format!("{format:?}"));
        }
        all.extend_from_slice(&samples);
        rest = &rest[bytes..];
    }
    Ok(all)
}

/// Length of an MPEG audio frame of layer II or III in bytes, by its header.
fn mpeg_frame_bytes(header: &[u8]) -> usize {
    const KBPS: [[usize; 15]; 3] = [
        [
            0, 32, 48, 56, 64, 80, 96, 112, 128, 160, 192, 224, 256, 320, 384,
        ],
        [
            0, 32, 40, 48, 56, 64, 80, 96, 112, 128, 160, 192, 224, 256, 320,
        ],
        [0, 8, 16, 24, 32, 40, 48, 56, 64, 80, 96, 112, 128, 144, 160],
    ];
    let (is_first, is_layer_3) = (header[1] >> 3 & 3 == 3, header[1] >> 1 & 3 == 1);
    let halvings = match header[1] >> 3 & 3 {
        3 => 0,
        2 => 1,
        _ => 2,
    };
    let row = match (is_first, is_layer_3) {
        (true, false) => 0,
        (true, true) => 1,
        _ => 2,
    };
    let kbps = KBPS[row][usize::from(header[2] >> 4).min(14)];
    let rate = [44_100, 48_000, 32_000, 32_000][usize::from(header[2] >> 2 & 3)] >> halvings;
    let samples = if is_layer_3 && !is_first { 576 } else { 1_152 };
    samples / 8 * kbps * 1_000 / rate + usize::from(header[2] >> 1 & 1)
}
