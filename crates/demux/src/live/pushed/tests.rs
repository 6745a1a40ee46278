use std::io::Cursor;

use glassline_media::{Kind, TrackIndex};
use proptest::prelude::*;

use super::*;
use crate::error::WarningReason;
use crate::{PipeDemuxer, annexb};

/// Three groups of pictures of H.264, and MPEG audio.
static FILM: &[u8] = include_bytes!("../../../samples/h264-mp2.ts");

const PACKET_BYTES: usize = 188;

/// Number of the packet with which the last keyframe begins.
const LAST_KEYFRAME: usize = 188;

/// Pushes the pieces, and returns the codecs' tracks and the frames.
fn push<'a>(pieces: impl IntoIterator<Item = &'a [u8]>) -> (Vec<Track>, Vec<Frame>) {
    let (tracks, frames, _) = push_all(pieces);
    (tracks, frames)
}

fn push_all<'a>(
    pieces: impl IntoIterator<Item = &'a [u8]>,
) -> (Vec<Track>, Vec<Frame>, Vec<Warning>) {
    let mut demuxer = PushedDemuxer::transport_stream(Path::new("test"));
    let mut frames = Vec::new();
    for piece in pieces {
        demuxer.push(piece).expect("a transport stream");
        frames.extend(std::iter::from_fn(|| demuxer.next_frame()));
    }
    demuxer.finish().expect("it has frames");
    frames.extend(std::iter::from_fn(|| demuxer.next_frame()));
    (demuxer.tracks().to_vec(), frames, demuxer.take_warnings())
}

/// Returns the bytes without the packets of these numbers.
fn without(bytes: &[u8], lost: &[usize]) -> Vec<u8> {
    let packets = bytes.chunks(PACKET_BYTES).enumerate();
    let kept = packets.filter(|(number, _)| !lost.contains(number));
    kept.flat_map(|(_, packet)| packet.to_vec()).collect()
}

fn video(frames: &[Frame]) -> Vec<&Frame> {
    let is_video = |frame: &&Frame| frame.track == TrackIndex(0);
    frames.iter().filter(is_video).collect()
}

#[test]
fn pushed_bytes_give_the_frames_that_a_pipe_gives() {
    for sample in [
        "h264-mp2.ts",
        "h265.ts",
        "opus.ts",
        "surround.ts",
        "unnamed.m2ts",
    ] {
        let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/samples/");
        let bytes = std::fs::read(format!("{folder}{sample}")).expect("a committed sample");
        let pipe = Box::new(Cursor::new(bytes.clone()));
        let mut pipe = PipeDemuxer::open(Path::new("test"), pipe, None).expect(sample);
        let piped = std::iter::from_fn(|| pipe.next_frame().expect("no damage"));
        let piped: Vec<_> = piped.collect();
        let (tracks, frames) = push(bytes.chunks(7 * PACKET_BYTES));
        assert_eq!(tracks, pipe.tracks(), "{sample}");
        assert_eq!(frames, piped, "{sample}");
    }
}

#[test]
fn a_receiver_that_joins_late_begins_at_a_keyframe_and_learns_the_tracks_first() {
    let mut demuxer = PushedDemuxer::transport_stream(Path::new("test"));
    let (mut frames, mut joined) = (Vec::new(), FILM[100 * PACKET_BYTES + 77..].chunks(1316));
    assert!(demuxer.tracks().is_empty() && demuxer.next_frame().is_none());
    while frames.len() < 20 {
        demuxer.push(joined.next().expect("more")).expect("packets");
        frames.extend(std::iter::from_fn(|| demuxer.next_frame()));
    }
    let kinds: Vec<_> = demuxer.tracks().iter().map(Track::kind).collect();
    assert_eq!(kinds, [Kind::Video, Kind::Audio]);
    let first = video(&frames)[0];
    assert!(first.keyframe && !first.after_loss);
}

#[test]
fn bytes_of_another_kind_end_the_demuxer_with_a_reason() {
    let mut demuxer = PushedDemuxer::transport_stream(Path::new("udp port 5000"));
    let noise = vec![0x55; 40 << 10];
    let refused = demuxer.push(&noise).expect_err("no packets").to_string();
    assert!(
        refused.contains("udp port 5000") && refused.contains("transport stream"),
        "{refused}"
    );
    let mut silent = PushedDemuxer::transport_stream(Path::new("test"));
    silent.push(&[]).expect("nothing");
    assert!(silent.finish().is_err());
}

#[test]
fn a_lost_packet_costs_its_frame_and_the_next_one_says_so() {
    let (_, whole) = push([FILM]);
    let is_within_a_frame = |packet: &[u8]| packet[1] == 1 && packet[2] == 0;
    let mut packets = FILM.chunks(PACKET_BYTES).enumerate().skip(20);
    let lost = packets
        .find(|(_, packet)| is_within_a_frame(packet))
        .map(|(number, _)| number);
    let lost = lost.expect("a frame of several packets");
    let (_, frames, warnings) = push_all([&*without(FILM, &[lost])]);
    let (whole, frames) = (video(&whole), video(&frames));
    let reasons: Vec<_> = warnings.iter().map(|it| &it.reason).collect();
    assert!(
        matches!(reasons[..], [WarningReason::MissingPackets(1), ..]),
        "{reasons:?}"
    );
    assert!(frames.len() < whole.len());
    let told: Vec<_> = frames.iter().filter(|it| it.after_loss).collect();
    assert_eq!(told.len(), 1);
    assert!(whole.iter().all(|it| !it.after_loss));
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(24))]

    #[test]
    fn it_makes_no_difference_how_the_bytes_are_cut(
        sizes in prop::collection::vec(1usize..5000, 1..20),
        lost in prop::collection::vec(0usize..291, 0..5),
        junk in prop::collection::vec(any::<u8>(), 0..300),
    ) {
        let mut bytes = without(FILM, &lost);
        let middle = bytes.len() / PACKET_BYTES / 2 * PACKET_BYTES;
        bytes.splice(middle..middle, junk);
        let mut rest = &bytes[..];
        let mut sizes = sizes.into_iter().cycle();
        let pieces = std::iter::from_fn(|| {
            let size = sizes.next()?.min(rest.len());
            let (piece, behind) = rest.split_at(size);
            rest = behind;
            (!piece.is_empty()).then_some(piece)
        });
        prop_assert_eq!(push(pieces), push([&*bytes]));
    }

    #[test]
    fn whatever_is_lost_frames_are_whole_and_are_back_with_the_next_keyframe(
        lost in prop::collection::vec(0usize..LAST_KEYFRAME, 1..60),
    ) {
        let (_, whole) = push([FILM]);
        let whole = video(&whole);
        let bytes = without(FILM, &lost);
        let mut demuxer = PushedDemuxer::transport_stream(Path::new("test"));
        let mut frames = Vec::new();
        let pushed = bytes.chunks(1316).try_for_each(|piece| {
            demuxer.push(piece)?;
            frames.extend(std::iter::from_fn(|| demuxer.next_frame()));
            Ok::<_, Error>(())
        });
        prop_assert!(pushed.and_then(|()| demuxer.finish()).is_ok());
        frames.extend(std::iter::from_fn(|| demuxer.next_frame()));
        prop_assert_eq!(demuxer.tracks()[0].kind(), Kind::Video);
        let frames = video(&frames);
        let slices = |frame: &Frame| -> Vec<Vec<u8>> {
            let is_slice = |nal: &&[u8]| matches!(nal[0] & 0x1f, 1 | 5);
            annexb::nals(&frame.data).filter(is_slice).map(<[u8]>::to_vec).collect()
        };
        let known: Vec<_> = whole.iter().map(|it| slices(it)).collect();
        for frame in &frames {
            prop_assert!(known.contains(&slices(frame)), "a frame with a hole");
        }
        let keyframe = whole.iter().rposition(|it| it.keyframe).expect("there are three");
        let tail: Vec<_> = frames.iter().rev().map(|it| slices(it)).collect();
        let wanted: Vec<_> = known[keyframe..].iter().rev().cloned().collect();
        prop_assert!(tail.starts_with(&wanted));
    }
}
