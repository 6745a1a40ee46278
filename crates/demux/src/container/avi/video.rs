//! The index of a track of video.

use glassline_media::{Codec, Track};

use super::Chunk;
use super::headers::Stream;
use crate::FrameRate;
use crate::container::coding::{Coding, Described, Timing};
use crate::container::describe;
use crate::container::indexed_track::{IndexedTrack, IndexedTrackBuilder, Sample};
use crate::container::nals::Nals;
use crate::elementary::display_order::DisplayOrder;
use crate::elementary::grammar::first_facts;
use crate::elementary::h264::H264;
use crate::error::{Fault, Warnings};
use crate::window::Window;

/// Bytes of a frame in which its first slice is searched for.
const SLICE_SEARCH_BYTES: usize = 4096;

/// Builds the index; `None` if the coding is not played, or there is no frame.
pub(super) fn index(
    stream: &Stream,
    chunks: &[Chunk],
    window: &mut Window,
    warnings: &mut Warnings,
) -> Result<Option<IndexedTrack>, Fault> {
    let Some(described) = describe(stream, chunks, window, warnings)? else {
        return Ok(None);
    };
    // A chunk without bytes repeats the frame before, so a frame's number is not its time.
    let frames = chunks.iter().zip(u64::from(stream.start)..);
    let frames: Vec<(&Chunk, u64)> = frames.filter(|(chunk, _)| chunk.length > 0).collect();
    let shown = match &described.coding {
        Coding::Nals(nals) => {
            let start = |bytes: &[u8]| nals.annexb_start(bytes);
            places_in_output_order(&frames, window, start)?
        }
        Coding::AnnexB(_) => places_in_output_order(&frames, window, <[u8]>::to_vec)?,
        _ => None,
    };
    let is_h264 = described.track.codec == Codec::H264;
    let rate = FrameRate::new(stream.rate.into(), stream.scale.into());
    let mut builder = IndexedTrackBuilder::new(described, 1_000, rate);
    let duration_ns = Some(ticks_ns(stream, 1)).filter(|&ns| ns > 0);
    for (place, (chunk, ticks)) in frames.iter().enumerate() {
        let shown_ticks = match &shown {
            Some(places) => frames[places[place]].1,
            None => *ticks,
        };
        let sample = Sample {
            offset: chunk.offset,
            length: chunk.length.into(),
            start_ns: ticks_ns(stream, shown_ticks),
            decode_ns: Some(ticks_ns(stream, *ticks)),
            duration_ns,
            // A file without an index says nothing; each frame of JPEG and H.264 does itself.
            keyframe: chunk.keyframe.unwrap_or(place == 0) || is_h264 || is_jpeg(stream),
        };
        builder.push(sample, window)?;
    }
    Ok(builder.finish(true, warnings))
}

/// Returns the time of a number of ticks in ns.
pub(super) fn ticks_ns(stream: &Stream, ticks: u64) -> i64 {
    let ns = u128::from(ticks) * u128::from(stream.scale) * 1_000_000_000;
    i64::try_from(ns / u128::from(stream.rate)).unwrap_or(i64::MAX)
}

fn is_jpeg(stream: &Stream) -> bool {
    matches!(&stream.compression(), b"MJPG" | b"JPEG" | b"AVRN" | b"LJPG")
}

/// Describes the track; `None` if its coding is not played.
fn describe(
    stream: &Stream,
    chunks: &[Chunk],
    window: &mut Window,
    warnings: &mut Warnings,
) -> Result<Option<Described>, Fault> {
    if is_h264(stream)
        && let Some(described) = with_lengths(stream, chunks, window, warnings)?
    {
        return Ok(Some(described));
    }
    Ok(plain(stream))
}

fn is_h264(stream: &Stream) -> bool {
    matches!(
        &stream.compression(),
        b"H264" | b"X264" | b"AVC1" | b"DAVC" | b"VSSH"
    )
}

/// Describes H.264 whose NAL units have lengths, as in MP4, with the record of MP4 behind the header
/// of the format; `None` if they have start codes. Programs that copy streams without converting them
/// write such files.
fn with_lengths(
    stream: &Stream,
    chunks: &[Chunk],
    window: &mut Window,
    warnings: &mut Warnings,
) -> Result<Option<Described>, Fault> {
    let Some(first) = chunks.iter().find(|chunk| chunk.length > 0) else {
        return Ok(None);
    };
    let start = window.peek(first.offset, 4.min(first.length as usize))?;
    if matches!(start, [0, 0, 1, ..] | [0, 0, 0, 1]) {
        return Ok(None);
    }
    let (record, size) = (stream.video_configuration(), stream.size());
    Ok(describe::h264(record, size, first.offset, warnings).ok())
}

/// Describes a track whose frames need no conversion; `None` if its coding is not played.
fn plain(stream: &Stream) -> Option<Described> {
    let size = stream.size();
    let configuration = stream.video_configuration();
    Some(match &stream.compression() {
        _ if is_h264(stream) => {
            let mut track = Track::new(Codec::H264);
            (track.video.width, track.video.height) = size;
            Described {
                track,
                coding: Coding::AnnexB(Nals::with_start_codes()),
                sample_rate: 0,
                timing: Timing::Container,
            }
        }
        _ if is_jpeg(stream) => describe::plain_frames(Codec::Jpeg, size),
        b"XVID" | b"DIVX" | b"DX50" | b"FMP4" | b"MP4V" | b"MP4S" | b"M4S2" | b"3IV2" | b"RMP4" => {
            describe::mpeg4_visual(configuration, size)
        }
        b"MPG1" | b"MPG2" | b"MPEG" => describe::plain_frames(Codec::MpegVideo, size),
        b"VP80" => describe::plain_frames(Codec::Vp8, size),
        b"VP90" => describe::vp9(size),
        _ => return None,
    })
}

/// Returns for each frame of H.264 in decoding order its place in output order; `None` if a frame
/// does not tell. `start`: converts the first bytes of a frame to start codes.
fn places_in_output_order(
    frames: &[(&Chunk, u64)],
    window: &mut Window,
    start: impl Fn(&[u8]) -> Vec<u8>,
) -> Result<Option<Vec<usize>>, Fault> {
    let mut grammar = H264::default();
    let mut order = DisplayOrder::default();
    let mut places = vec![0; frames.len()];
    let mut next = 0;
    for (number, (chunk, _)) in frames.iter().enumerate() {
        let count = SLICE_SEARCH_BYTES.min(chunk.length as usize);
        let bytes = start(window.peek(chunk.offset, count)?);
        let Some(facts) = first_facts(&mut grammar, &bytes) else {
            return Ok(None);
        };
        order.push(number, facts.output_order, |shown| {
            places[shown] = next;
            next += 1;
        });
    }
    order.finish(|shown| {
        places[shown] = next;
        next += 1;
    });
    Ok(Some(places))
}
