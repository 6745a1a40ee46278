//! Share of a core that the transcoding of one stream and its ladder take, and time for one snapshot.
//!
//! `cargo bench -p glassline-transcode --bench transcode [-- FILE]`; each row is a minute of a tone in
//! the frames of `testdata`, again and again, or the first keyframe of FILE (of the demo) as an image.
//! Processor time is measured, not time that passes.

#[path = "../../../benches/figure.rs"]
mod figure;

use glassline_demux as demux;
use glassline_media::{Bitrate, Codec, MediaTime, Track};
use glassline_net::thread_cpu;
use glassline_transcode::{
    AccessUnit, AudioSource, AudioTranscoder, FrameSize, RungTarget, Settings, SizeLimit, Still,
    VideoTranscoder,
};

const SECONDS: f64 = 60.0;

fn main() {
    println!("{:<28} {:>14} {:>12}", "", "us per 20 ms", "of a core");
    let aac_16: &[u8] = include_bytes!("../testdata/aac_16000_1.aac");
    let aac_48: &[u8] = include_bytes!("../testdata/aac_48000_2.aac");
    let mp2: &[u8] = include_bytes!("../testdata/mp2_48000_2.mp2");
    let aac = |config: &str, channels| {
        Track::audio(Codec::Aac, channels).with_format_parameters(format!("config={config}"))
    };
    let pcm: Vec<u8> = (0..960)
        .flat_map(|n| (((n as f32 * 0.13).sin() * 9e3) as i16).to_be_bytes())
        .collect();
    row("AAC, 16 kHz, mono", &aac("1408", 1), &adts(aac_16), 0.064);
    row(
        "AAC, 48 kHz, stereo",
        &aac("1190", 2),
        &adts(aac_48),
        1024.0 / 48e3,
    );
    let track = Track::audio(Codec::MpegAudio, 2);
    row(
        "MP2, 48 kHz, stereo",
        &track,
        &mp2.chunks(288).collect::<Vec<_>>(),
        0.024,
    );
    let track = Track::audio(Codec::L16, 1).with_clock_rate(48_000);
    row("PCM, 48 kHz, mono", &track, &[&pcm[..]], 0.020);
    let mut words = std::env::args().skip(1);
    let demo = concat!(env!("CARGO_MANIFEST_DIR"), "/../../assets/demo.h264");
    let file = words.find(|word| !word.starts_with("--"));
    stills(file.as_deref().unwrap_or(demo));
    ladders(file.as_deref().unwrap_or(demo));
}

/// Prints what ladders below `file` take: one decoder, and an encoder for each rung.
fn ladders(file: &str) {
    println!(
        "\n{:<28} {:>14} {:>12}",
        "ladder", "ms per frame", "of a core"
    );
    let rung = |width, height, kbps: u64| RungTarget {
        size: FrameSize::new(width, height),
        bitrate: Bitrate::from_bps(kbps * 1_000),
    };
    let (hd, sd) = (rung(1280, 720, 2_000), rung(640, 360, 500));
    for (name, rungs) in [
        ("decoding alone", &[][..]),
        ("360p", &[sd]),
        ("720p", &[hd]),
        ("720p and 360p", &[hd, sd]),
    ] {
        let options = demux::Options {
            once: true,
            ..demux::Options::default()
        };
        let mut film = demux::open(&[file.into()], &options).expect("a file");
        let mut transcoder = VideoTranscoder::of_ladder(rungs);
        (0..rungs.len()).for_each(|place| transcoder.set_active(place, true));
        let (mut out, mut frames, mut end) = (Vec::new(), 0, MediaTime::ZERO);
        let before = thread_cpu();
        while let Some(frame) = film.next_frame().expect("good") {
            let unit = AccessUnit {
                data: &frame.data,
                time: frame.time,
                keyframe: frame.keyframe,
            };
            transcoder.push(unit, true, &mut out).expect("decoded");
            out.clear();
            (frames, end) = (frames + 1, frame.time + frame.duration);
        }
        let cpu = (thread_cpu() - before).as_secs_f64();
        let share = cpu / end.saturating_since(MediaTime::ZERO).as_secs_f64() * 100.0;
        let each = cpu * 1e3 / f64::from(frames);
        println!("{name:<28} {each:>14.2} {share:>10.1} %");
    }
}

/// Prints what images of the first keyframe of `file` take.
fn stills(file: &str) {
    let options = demux::Options {
        once: true,
        ..demux::Options::default()
    };
    let mut film = demux::open(&[file.into()], &options).expect("a file");
    let keyframe = film.next_frame().expect("good").expect("a frame");
    println!("\n{:<28} {:>14} {:>12}", "snapshot", "ms", "kB");
    for width in [None, Some(640), Some(192)] {
        let limit = SizeLimit {
            width,
            height: None,
        };
        let mut times: Vec<f64> = (0..21)
            .map(|_| {
                let before = thread_cpu();
                Still::of_h264(&keyframe.data, limit).expect("decoded");
                (thread_cpu() - before).as_secs_f64() * 1e3
            })
            .collect();
        times.sort_by(f64::total_cmp);
        let still = Still::of_h264(&keyframe.data, limit).expect("decoded");
        let name = format!("{} x {}", still.width, still.height);
        let kilobytes = still.jpeg.len() as f64 / 1e3;
        println!("{name:<28} {:>14.1} {kilobytes:>12.1}", times[10]);
        figure::print(&format!("snapshot, {name}"), times[10], "ms", "less", None);
    }
}

fn row(name: &str, track: &Track, units: &[&[u8]], seconds: f64) {
    let source = AudioSource::of(track).expect("transcodable");
    let mut transcoder = AudioTranscoder::new(source, Settings::default());
    let mut frames = Vec::new();
    let before = thread_cpu();
    let count = (SECONDS / seconds) as u32;
    for (unit, number) in units.iter().cycle().zip(0..count) {
        let time = MediaTime::from_nanos((f64::from(number) * seconds * 1e9) as i64);
        transcoder.push(unit, time, &mut frames).expect("audio");
        frames.clear();
    }
    let took = (thread_cpu() - before).as_secs_f64();
    let made = transcoder.counts().frames_out;
    let (per_frame, share) = (took / made as f64 * 1e6, took / SECONDS * 100.0);
    println!("{name:<28} {per_frame:>11.1} us {share:>10.2} %");
    figure::print(name, share, "% of a core", "less", None);
}

/// Splits a file of ADTS frames into access units.
fn adts(mut file: &[u8]) -> Vec<&[u8]> {
    let mut units = Vec::new();
    while let [_, _, _, b3, b4, b5, ..] = file {
        let bytes = usize::from(b3 & 3) << 11 | usize::from(*b4) << 3 | usize::from(b5 >> 5);
        units.push(&file[7..bytes]);
        file = &file[bytes..];
    }
    units
}
