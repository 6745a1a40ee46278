//! Audio of strangers on its way to browsers: any frames of any source, at any times within
//! some seconds, make Opus frames that follow each other without overlap, or a named error.
//!
//! The decoders are Symphonia's and libopus, so this target fuzzes them, too.

use glassline_media::{Bitrate, Codec, MediaTime, Track};
use glassline_transcode::{AudioSource, AudioTranscoder, Settings};

/// The least length of an Opus frame in ns, but for rounding.
const FRAME_NS: i64 = 19_999_990;

/// Most Opus frames of one coded frame: 16,384 samples at the lowest rate, and half a second of
/// silence before them.
const FRAMES_MAX: usize = 200;

/// Mono and stereo at several rates, HE-AAC, no configuration, 5.1, 7.1, channels that the frames
/// list.
const CONFIGURATIONS: [&str; 9] = [
    "1408", "1190", "1210", "1588", "2b118800", "xyzzy", "11b0", "12b8", "1180",
];

/// Numbers of Opus streams, and the channels of a packet.
const STREAMS: [(u8, &str); 3] = [
    (2, "num_streams=2;coupled_streams=0;channel_mapping=0,1"),
    (
        6,
        "num_streams=4;coupled_streams=2;channel_mapping=0,4,1,2,3,5",
    ),
    (
        8,
        "num_streams=5;coupled_streams=3;channel_mapping=0,6,1,2,3,4,5,7",
    ),
];

pub(crate) fn run(bytes: &[u8]) {
    let [kind, settings, rest @ ..] = bytes else {
        return;
    };
    let choice = usize::from(kind / 3);
    let track = match kind % 3 {
        0 => {
            let config = CONFIGURATIONS[choice % CONFIGURATIONS.len()];
            Track::audio(Codec::Aac, 1 + settings % 8)
                .with_format_parameters(format!("config={config}"))
        }
        1 if choice % 4 > 0 => {
            let (channels, streams) = STREAMS[choice % 4 - 1];
            Track::audio(Codec::MultiOpus, channels).with_format_parameters(streams)
        }
        1 => Track::audio(Codec::MpegAudio, 2),
        _ => {
            let rates = [8_000, 16_000, 44_100, 48_000, 96_000];
            Track::audio(Codec::L16, 1 + settings % 2).with_clock_rate(rates[choice % rates.len()])
        }
    };
    let source = AudioSource::of(&track).expect("all of these are transcoded");
    let settings = Settings {
        bitrate: Bitrate::from_bps(u64::from(*settings) * 2_000),
        complexity: 0,
    };
    let mut transcoder = AudioTranscoder::new(source, settings);
    let (mut rest, mut frames) = (rest, Vec::new());
    // Each record: the length of a frame, its time in units of 15 ms around 0, its bytes.
    while let [length, time, behind @ ..] = rest {
        let length = usize::from(*length) * 4;
        let (frame, next) = behind.split_at(length.min(behind.len()));
        let time = MediaTime::from_nanos((i64::from(*time) - 128) * 15_000_000);
        let before = frames.len();
        if let Err(error) = transcoder.push(frame, time, &mut frames) {
            assert!(!error.to_string().is_empty());
        }
        assert!(frames.len() - before < FRAMES_MAX);
        rest = next;
    }
    for pair in frames.windows(2) {
        assert!(pair[1].time.nanos() - pair[0].time.nanos() >= FRAME_NS);
    }
    let counts = transcoder.counts();
    assert_eq!(counts.frames_out, frames.len() as u64);
    assert!(counts.undecodable <= counts.frames_in);
}
