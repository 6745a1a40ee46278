use std::io::Cursor;

use glassline_media::Codec;
use proptest::prelude::*;

use crate::container::transport::packet::PACKET_BYTES;
use crate::error::NotApart;
use crate::{Demuxer, Error, Format, Frame, Input, MediaTime, Options, PipeDemuxer, WarningReason};

const CLIP: &[u8] = include_bytes!("../../../../samples/h264-mp2.ts");
const H265: &[u8] = include_bytes!("../../../../samples/h265.ts");
const OPUS: &[u8] = include_bytes!("../../../../samples/opus.ts");
const UNNAMED: &[u8] = include_bytes!("../../../../samples/unnamed.m2ts");
const SURROUND: &[u8] = include_bytes!("../../../../samples/surround.ts");
const MPEG2: &[u8] = include_bytes!("../../../../samples/mpeg2.ts");

fn opened(bytes: &[u8], once: bool) -> Result<Demuxer, Error> {
    let input = Input {
        name: "clip.ts".into(),
        format: Format::MpegTs,
        data: Box::new(Cursor::new(bytes.to_vec())),
    };
    let options = Options {
        once,
        ..Options::default()
    };
    Demuxer::new(vec![input], &options)
}

fn frames(demuxer: &mut Demuxer, count: usize) -> Vec<Frame> {
    let next = || demuxer.next_frame().expect("memory can be read");
    std::iter::from_fn(next).take(count).collect()
}

fn piped(bytes: &[u8]) -> Result<Vec<Frame>, Error> {
    let pipe = Box::new(Cursor::new(bytes.to_vec()));
    let mut demuxer = PipeDemuxer::open("pipe".as_ref(), pipe, None)?;
    let mut frames = Vec::new();
    while let Some(frame) = demuxer.next_frame()? {
        frames.push(frame);
    }
    Ok(frames)
}

fn codecs(demuxer: &Demuxer) -> Vec<Codec> {
    demuxer.tracks().iter().map(|track| track.codec).collect()
}

fn of_track(frames: &[Frame], track: usize) -> Vec<&Frame> {
    frames.iter().filter(|it| it.track.get() == track).collect()
}

#[test]
fn a_recording_is_taken_apart_into_the_frames_that_ffprobe_counts() {
    let mut demuxer = opened(CLIP, true).expect("a good file");
    assert_eq!(codecs(&demuxer), [Codec::H264, Codec::MpegAudio]);
    let video = demuxer.tracks()[0].video.clone();
    assert_eq!((video.width, video.height), (128, 96));
    assert!(video.reordered && !video.sps.is_empty());
    assert_eq!(demuxer.warnings(), []);
    let frames = frames(&mut demuxer, usize::MAX);
    let video = of_track(&frames, 0);
    assert_eq!(video.len(), 60);
    let keyframes = video.iter().filter(|it| it.keyframe);
    let keyframes = keyframes.map(|it| (it.time.nanos() + 500_000) / 1_000_000);
    assert!(keyframes.eq([0, 800, 1600]));
    let mut times: Vec<i64> = video.iter().map(|it| it.time.nanos()).collect();
    times.sort_unstable();
    for (place, time) in times.iter().enumerate() {
        let expected = place as i64 * 40_000_000;
        assert!((time - expected).abs() < 20_000, "{place}: {time}");
    }
    let audio = of_track(&frames, 1);
    assert!((98..=101).contains(&audio.len()), "{}", audio.len());
    for pair in audio.windows(2) {
        assert_eq!(pair[1].time.nanos() - pair[0].time.nanos(), 24_000_000);
    }
}

#[test]
fn every_frame_begins_with_a_start_code_and_keyframes_have_their_sets() {
    for (bytes, sets) in [(CLIP, [7, 8].as_slice()), (H265, &[32, 33, 34])] {
        let mut demuxer = opened(bytes, true).expect("a good file");
        let h265 = demuxer.tracks()[0].codec == Codec::H265;
        for frame in of_track(&frames(&mut demuxer, usize::MAX), 0) {
            let nals: Vec<u8> = crate::annexb::nals(&frame.data)
                .map(|nal| match h265 {
                    true => nal[0] >> 1 & 0x3f,
                    false => nal[0] & 0x1f,
                })
                .collect();
            assert!(!nals.is_empty());
            assert!(!frame.keyframe || sets.iter().all(|it| nals.contains(it)));
        }
    }
}

#[test]
fn a_pipe_brings_the_same_units_as_the_file() {
    for bytes in [CLIP, H265] {
        let mut demuxer = opened(bytes, true).expect("a good file");
        let whole = frames(&mut demuxer, usize::MAX);
        let piped = piped(bytes).expect("a good pipe");
        for track in 0..demuxer.tracks().len() {
            let strip = |it: &&Frame| {
                let nals = crate::annexb::nals(&it.data);
                (it.keyframe, nals.map(<[u8]>::to_vec).collect::<Vec<_>>())
            };
            let file: Vec<_> = of_track(&whole, track).iter().map(strip).collect();
            let pipe: Vec<_> = of_track(&piped, track).iter().map(strip).collect();
            // Of a file, audio before the first frame of video is left out.
            assert!(pipe.ends_with(&file) && pipe.len() <= file.len() + 5);
        }
    }
}

#[test]
fn other_video_is_sent_as_a_whole() {
    let demuxer = opened(MPEG2, true).expect("a good file");
    assert_eq!(codecs(&demuxer), [Codec::MpegTs]);
    let warned = demuxer.warnings().iter().map(|it| it.reason.clone());
    let reason = WarningReason::SentWhole(NotApart::OtherVideo("MPEG-1/2 video"));
    assert!(warned.into_iter().any(|it| it == reason));
    let error = piped(MPEG2).map(drop).expect_err("nothing that is played");
    assert!(error.to_string().contains("H.264"), "{error}");
}

/// Sets the scrambling bits of all packets of streams, not of tables.
fn scramble(bytes: &[u8], pid: impl Fn(u16) -> bool) -> Vec<u8> {
    let mut bytes = bytes.to_vec();
    for packet in bytes.chunks_mut(PACKET_BYTES) {
        if pid(u16::from_be_bytes([packet[1] & 0x1f, packet[2]])) {
            packet[3] |= 0x80;
        }
    }
    bytes
}

#[test]
fn a_scrambled_stream_says_that_it_is_scrambled() {
    let is_media = |pid| (0x100..0x200).contains(&pid);
    let all = scramble(CLIP, is_media);
    let told = |demuxer: &Demuxer| {
        let warned = demuxer.warnings().iter();
        warned.map(|it| it.reason.clone()).collect::<Vec<_>>()
    };
    let demuxer = opened(&all, true).expect("it is sent as a whole");
    assert_eq!(codecs(&demuxer), [Codec::MpegTs]);
    let whole = WarningReason::SentWhole(NotApart::Scrambled);
    assert!(told(&demuxer).contains(&whole), "{:?}", told(&demuxer));
    let repeated: Vec<u8> = std::iter::repeat_n(all, 20).flatten().collect();
    let error = piped(&repeated)
        .map(drop)
        .expect_err("nothing can be played");
    assert!(error.to_string().contains("scrambled"), "{error}");
    let video = scramble(CLIP, |pid| pid == 0x100);
    let demuxer = opened(&video, true).expect("its audio can be heard");
    assert_eq!(codecs(&demuxer), [Codec::MpegAudio]);
    let reason = WarningReason::Scrambled { pid: 0x100 };
    assert!(told(&demuxer).contains(&reason), "{:?}", told(&demuxer));
}

#[test]
fn opus_is_taken_out_behind_its_control_headers() {
    let mut demuxer = opened(OPUS, true).expect("a good file");
    assert_eq!(codecs(&demuxer), [Codec::Opus]);
    let all = frames(&mut demuxer, usize::MAX);
    assert_eq!(all.len(), 51, "as many packets as ffprobe counts");
    for pair in all.windows(2) {
        let between = pair[1].time.nanos() - pair[0].time.nanos();
        assert!((between - 20_000_000).abs() < 1_000_000, "{between}");
    }
    let piped = piped(OPUS).expect("a good pipe");
    assert!(
        piped
            .iter()
            .map(|it| &it.data)
            .eq(all.iter().map(|it| &it.data))
    );
}

#[test]
fn opus_of_six_channels_is_taken_out_with_its_streams() {
    let mut demuxer = opened(SURROUND, true).expect("a good file");
    let track = &demuxer.tracks()[0];
    assert_eq!((track.codec, track.channels), (Codec::MultiOpus, 6));
    let streams = "num_streams=4;coupled_streams=2;channel_mapping=0,4,1,2,3,5";
    assert_eq!(track.format_parameters, streams);
    let all = frames(&mut demuxer, usize::MAX);
    assert_eq!(all.len(), 16, "as many packets as ffprobe counts");
    let piped = piped(SURROUND).expect("a good pipe");
    assert!(
        piped
            .iter()
            .map(|it| &it.data)
            .eq(all.iter().map(|it| &it.data))
    );
}

/// FFmpeg declares AAC as private data in files for Blu-ray players.
#[test]
fn aac_that_is_declared_as_private_data_is_heard() {
    let mut demuxer = opened(UNNAMED, true).expect("a good file");
    assert_eq!(codecs(&demuxer), [Codec::Aac]);
    let all = frames(&mut demuxer, usize::MAX);
    assert_eq!(all.len(), 20, "as many packets as ffprobe counts");
}

#[test]
fn a_seek_begins_at_a_keyframe_and_loops_join() {
    let mut demuxer = opened(CLIP, false).expect("a good file");
    let at = |ms: i64| MediaTime::from_nanos(ms * 1_000_000);
    demuxer.seek(at(1_000)).expect("memory can be read");
    let sought = frames(&mut demuxer, 400);
    let video = of_track(&sought, 0);
    assert!(video[0].keyframe);
    assert_eq!((video[0].time.nanos() + 500_000) / 1_000_000, 800);
    let mut last = [i64::MIN; 2];
    for frame in &sought {
        let decode = frame.decode_time.nanos();
        assert!(decode >= last[frame.track.get()]);
        last[frame.track.get()] = decode;
    }
    assert!(
        last[0] > demuxer.duration().as_nanos() as i64,
        "a second pass"
    );
}

#[test]
fn missing_and_doubled_packets_do_not_end_a_recording() {
    let mut packets: Vec<&[u8]> = CLIP.chunks(PACKET_BYTES).collect();
    packets.remove(200);
    packets.insert(100, packets[99]);
    let mut demuxer = opened(&packets.concat(), true).expect("one packet less");
    let warned = demuxer.warnings().iter().map(|it| it.reason.clone());
    assert!(
        warned
            .into_iter()
            .any(|it| matches!(it, WarningReason::MissingPackets(1)))
    );
    let frames = frames(&mut demuxer, usize::MAX);
    assert!((59..=60).contains(&of_track(&frames, 0).len()));
}

#[test]
fn packets_of_192_and_204_bytes_are_read() {
    let whole = {
        let mut demuxer = opened(CLIP, true).expect("a good file");
        frames(&mut demuxer, usize::MAX)
    };
    for (before, behind) in [(4, 0), (0, 16)] {
        let mut bytes = Vec::new();
        for packet in CLIP.chunks(PACKET_BYTES) {
            bytes.extend(vec![0x11; before]);
            bytes.extend(packet);
            bytes.extend(vec![0x22; behind]);
        }
        let mut demuxer = opened(&bytes, true).expect("a good file");
        assert_eq!(frames(&mut demuxer, usize::MAX), whole);
        let piped = piped(&bytes).expect("a good pipe");
        assert_eq!(of_track(&piped, 0).len(), of_track(&whole, 0).len());
    }
}

#[test]
fn a_recording_that_begins_within_a_frame_begins_at_its_first_keyframe() {
    let cut = &CLIP[60 * PACKET_BYTES..];
    let mut bytes = CLIP[..3 * PACKET_BYTES].to_vec();
    bytes.extend(cut);
    let mut demuxer = opened(&bytes, true).expect("a file without its beginning");
    let warned = demuxer.warnings().iter().map(|it| it.reason.clone());
    assert!(
        warned
            .into_iter()
            .any(|it| matches!(it, WarningReason::BeforeKeyframe(_)))
    );
    let frames = frames(&mut demuxer, usize::MAX);
    assert!(of_track(&frames, 0)[0].keyframe);
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(40))]
    #[test]
    fn damage_fails_with_a_reason_or_plays(
        damage in prop::collection::vec((0usize..52_000, any::<u8>()), 0..60),
        cut in 600usize..52_000,
    ) {
        let mut bytes = CLIP.to_vec();
        for (at, with) in damage {
            if let Some(byte) = bytes.get_mut(at) {
                *byte = with;
            }
        }
        bytes.truncate(cut);
        match opened(&bytes, false) {
            Ok(mut demuxer) => {
                let middle = MediaTime::ZERO + demuxer.duration() / 2;
                for to in [MediaTime::ZERO, middle] {
                    demuxer.seek(to).expect("memory can be read");
                    let mut last = vec![i64::MIN; demuxer.tracks().len()];
                    for frame in frames(&mut demuxer, 300) {
                        prop_assert!(!frame.data.is_empty());
                        let decode = frame.decode_time.nanos();
                        prop_assert!(decode >= last[frame.track.get()]);
                        last[frame.track.get()] = decode;
                    }
                }
            }
            Err(error) => prop_assert!(!error.to_string().is_empty()),
        }
        if let Err(error) = piped(&bytes) {
            prop_assert!(!error.to_string().is_empty());
        }
    }
}
