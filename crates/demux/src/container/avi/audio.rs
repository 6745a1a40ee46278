//! The index of a track of audio.

use glassline_media::MediaTime;

use super::Chunk;
use super::headers::Stream;
use super::joined::{self, Joined, Part};
use super::video::ticks_ns;
use crate::audio::pcm::Sample as PcmSample;
use crate::audio::{ac3, mpeg_audio};
use crate::container::coding::Described;
use crate::container::describe::{self, SAMPLE_RATE_MAX};
use crate::container::indexed_track::{IndexedTrack, IndexedTrackBuilder, Sample};
use crate::container::pcm::SampleFormat;
use crate::error::{Fault, Reason, WarningReason, Warnings};
use crate::window::Window;

/// Nanoseconds by which counted times may differ from exact ones.
const TICK_NS: i64 = 1_000;

/// Bytes of a frame's header that are examined.
const HEAD_BYTES: usize = 16;

const PCM: u16 = 0x01;
const FLOAT: u16 = 0x03;
const A_LAW: u16 = 0x06;
const MU_LAW: u16 = 0x07;
const MPEG: u16 = 0x50;
const MP3: u16 = 0x55;
const AAC: u16 = 0xff;
const AC3: u16 = 0x2000;
const FLAC: u16 = 0xf1ac;

/// Builds the index; `None` if the coding is not played, or there is no frame. `parts`: the chunks
/// that the frames lie in, if they may cut frames.
pub(super) fn index(
    stream: &Stream,
    chunks: &[Chunk],
    window: &mut Window,
    parts: &mut Vec<Part>,
    warnings: &mut Warnings,
) -> Result<Option<IndexedTrack>, Fault> {
    let rate = stream.sample_rate();
    if rate == 0 || rate > SAMPLE_RATE_MAX {
        let reason = "a track of audio has an impossible sampling rate";
        return Err(Fault::whole(Reason::Damaged(reason)));
    }
    let start_ns = ticks_ns(stream, stream.start.into());
    match stream.tag() {
        MPEG | MP3 | AC3 => joined_frames(stream, chunks, window, parts, start_ns, warnings),
        AAC => {
            let described = describe::aac(stream.audio_configuration(), stream.channels());
            let described = described.map_err(Fault::whole)?;
            chunk_by_chunk(described, chunks, window, start_ns, warnings)
        }
        FLAC => {
            let described = describe::flac(stream.audio_configuration());
            let described = described.map_err(Fault::whole)?;
            chunk_by_chunk(described, chunks, window, start_ns, warnings)
        }
        _ => match samples(stream) {
            Some(described) => chunk_by_chunk(described, chunks, window, start_ns, warnings),
            None => Ok(None),
        },
    }
}

/// Describes PCM; `None` for other codings.
fn samples(stream: &Stream) -> Option<Described> {
    let format = match (stream.tag(), stream.bits()) {
        (PCM, 8) => SampleFormat::Little(PcmSample::Unsigned8),
        (PCM, 16) => SampleFormat::Little(PcmSample::Signed16),
        (PCM, 24) => SampleFormat::Little(PcmSample::Signed24),
        (PCM, 32) => SampleFormat::Little(PcmSample::Signed32),
        (FLOAT, 32) => SampleFormat::Little(PcmSample::Float32),
        (FLOAT, 64) => SampleFormat::Little(PcmSample::Float64),
        (A_LAW, _) => SampleFormat::Little(PcmSample::ALaw),
        (MU_LAW, _) => SampleFormat::Little(PcmSample::MuLaw),
        _ => return None,
    };
    let (rate, channels) = (stream.sample_rate(), stream.channels());
    Some(describe::pcm(format, rate, channels))
}

/// Indexes audio whose chunks have whole frames.
fn chunk_by_chunk(
    described: Described,
    chunks: &[Chunk],
    window: &mut Window,
    mut start_ns: i64,
    warnings: &mut Warnings,
) -> Result<Option<IndexedTrack>, Fault> {
    let mut builder = IndexedTrackBuilder::new(described, TICK_NS, None);
    for chunk in chunks {
        let sample = Sample {
            offset: chunk.offset,
            length: chunk.length.into(),
            start_ns,
            decode_ns: None,
            duration_ns: None,
            keyframe: true,
        };
        start_ns = builder.push(sample, window)?;
    }
    Ok(builder.finish(false, warnings))
}

/// Indexes audio whose chunks may cut frames.
fn joined_frames(
    stream: &Stream,
    chunks: &[Chunk],
    window: &Window,
    parts: &mut Vec<Part>,
    mut start_ns: i64,
    warnings: &mut Warnings,
) -> Result<Option<IndexedTrack>, Fault> {
    let mut before = 0;
    for chunk in chunks.iter().filter(|chunk| chunk.length > 0) {
        let length = chunk.length.into();
        parts.push(Part {
            before,
            offset: chunk.offset,
            length,
        });
        before += length;
    }
    if before == 0 {
        return Ok(None);
    }
    let joined = Joined::new(window.fork().into_data(), parts.clone());
    let mut audio = Window::new(Box::new(joined))?;
    let mut builder: Option<IndexedTrackBuilder> = None;
    let (mut at, mut skipped, mut first_skipped) = (0, 0, None);
    while at < before {
        let head = audio.peek(at, HEAD_BYTES)?;
        let Some(frame) = AudioFrame::parse(stream.tag(), head) else {
            first_skipped.get_or_insert(at);
            skipped += 1;
            at += 1;
            continue;
        };
        if at + u64::from(frame.bytes) > before {
            break;
        }
        let duration_ns = MediaTime::from_ticks(frame.samples.into(), frame.rate).nanos();
        let track = builder
            .get_or_insert_with(|| IndexedTrackBuilder::new(frame.describe(), TICK_NS, None));
        let offset = joined::BEGIN + at;
        track.push_timed(offset, frame.bytes.into(), start_ns, duration_ns, true)?;
        start_ns += duration_ns;
        at += u64::from(frame.bytes);
    }
    if first_skipped.is_some() {
        let at = chunks.first().map(|chunk| chunk.offset);
        warnings.add(at, WarningReason::Skipped(skipped));
    }
    Ok(builder.and_then(|builder| builder.finish(false, warnings)))
}

/// A frame of MPEG audio or AC-3, as its header describes it.
struct AudioFrame {
    bytes: u16,
    samples: u32,
    rate: u32,
    channels: u8,
    is_ac3: bool,
}

impl AudioFrame {
    fn parse(tag: u16, head: &[u8]) -> Option<Self> {
        if tag == AC3 {
            let header = ac3::Header::parse(head)?;
            return Some(Self {
                bytes: header.frame_bytes,
                samples: ac3::SAMPLES,
                rate: header.rate,
                channels: header.channels,
                is_ac3: true,
            });
        }
        let header = mpeg_audio::Header::parse(head)?;
        Some(Self {
            bytes: header.frame_bytes,
            samples: header.samples.into(),
            rate: header.rate,
            channels: header.channels,
            is_ac3: false,
        })
    }

    fn describe(&self) -> Described {
        match self.is_ac3 {
            true => describe::ac3(self.rate, self.channels),
            false => describe::mpeg_audio(self.rate, self.channels),
        }
    }
}
