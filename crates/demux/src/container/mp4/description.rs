//! Parses sample entries, which describe the coding of a track (ISO/IEC 14496-12 §8.5.2 and
//! §12, 14496-14 §5.6, 14496-15; QuickTime File Format, "Audio sample descriptions").

use glassline_media::Codec;

use super::boxes::{InMemory, find};
use crate::audio::opus;
use crate::audio::pcm::Sample;
use crate::container::coding::Described;
use crate::container::describe::{self, SAMPLE_RATE_MAX};
use crate::container::pcm::SampleFormat;
use crate::error::{Fault, Reason, Warnings};

/// Bytes of a visual sample entry before the boxes in it.
const VISUAL_BYTES: usize = 78;

/// Describes the track of a sample entry; the inner error is the coding's name if it is
/// unknown.
pub(super) fn read(
    entry: &InMemory<'_>,
    warnings: &mut Warnings,
) -> Result<Result<Described, String>, Fault> {
    let named: String = entry
        .kind
        .iter()
        .map(|&letter| char::from(letter))
        .collect();
    let described = match &entry.kind {
        b"encv" | b"enca" => return Ok(Err("encrypted".to_owned())),
        b"avc1" | b"avc3" | b"hvc1" | b"hev1" | b"vp08" | b"vp09" | b"av01" | b"mp4v" | b"jpeg" => {
            read_frames(entry, warnings)?
        }
        _ => match read_audio(entry) {
            // The video of a film goes without such audio.
            Err(Fault {
                reason: reason @ Reason::OpusMapping { .. },
                ..
            }) => return Ok(Err(format!("{named}: {reason}"))),
            described => described?,
        },
    };
    Ok(described.ok_or(named))
}

fn read_frames(entry: &InMemory<'_>, warnings: &mut Warnings) -> Result<Option<Described>, Fault> {
    let short = |at: usize| {
        let bytes = entry.body.get(at..).and_then(<[u8]>::first_chunk);
        bytes.map_or(0, |&bytes| u32::from(u16::from_be_bytes(bytes)))
    };
    let size = (short(24), short(26));
    let boxes = entry.inside(VISUAL_BYTES)?;
    let record = |kind: &[u8; 4]| {
        let missing = || entry.damaged("the box that configures the decoder is missing");
        find(&boxes, kind).ok_or_else(missing)
    };
    let at = |found: &InMemory<'_>, described: Result<Described, Reason>| {
        described.map_err(|reason| Fault::at(found.offset, reason))
    };
    Ok(Some(match &entry.kind {
        b"avc1" | b"avc3" => {
            let found = record(b"avcC")?;
            let described = describe::h264(found.body, size, found.offset, warnings);
            at(&found, described)?
        }
        b"hvc1" | b"hev1" => {
            let found = record(b"hvcC")?;
            at(&found, describe::h265(found.body, size))?
        }
        b"av01" => {
            let found = record(b"av1C")?;
            at(&found, describe::av1(found.body, size))?
        }
        b"vp08" => describe::plain_frames(Codec::Vp8, size),
        b"vp09" => describe::vp9(size),
        b"jpeg" => describe::plain_frames(Codec::Jpeg, size),
        _ => {
            let stream = Elementary::read(&record(b"esds")?)?;
            match stream.object {
                0x20 => describe::mpeg4_visual(stream.specific, size),
                0x60..=0x65 | 0x6a => describe::plain_frames(Codec::MpegVideo, size),
                0x6c => describe::plain_frames(Codec::Jpeg, size),
                _ => return Ok(None),
            }
        }
    }))
}

/// Fields of an audio sample entry before the boxes in it.
struct Audio<'a> {
    rate: u32,
    channels: u8,
    bits: u32,
    /// Flags of linear samples in version 2: 1 is floating point, 2 is big-endian.
    flags: u32,
    boxes: Vec<InMemory<'a>>,
}

fn read_audio(entry: &InMemory<'_>) -> Result<Option<Described>, Fault> {
    let known: [&[u8; 4]; 20] = [
        b"mp4a", b".mp3", b"Opus", b"ac-3", b"samr", b"sawb", b"sowt", b"twos", b"raw ", b"in24",
        b"in32", b"fl32", b"fl64", b"lpcm", b"ipcm", b"fpcm", b"ulaw", b"alaw", b"NONE", b"fLaC",
    ];
    if !known.contains(&&entry.kind) {
        return Ok(None);
    }
    let audio = Audio::read(entry)?;
    let at = |described: Result<Described, Reason>| {
        described.map_err(|reason| Fault::at(entry.offset, reason))
    };
    let (rate, channels) = (audio.rate, audio.channels);
    Ok(Some(match &entry.kind {
        b"Opus" => {
            // Opus in ISO-BMFF, §4.3.2: version, channels, skipped samples, rate, gain, mapping.
            let specific = find(&audio.boxes, b"dOps").map(|found| found.body);
            let (family, channels, table) = match specific {
                Some([_, channels, _, _, _, _, _, _, _, _, family, table @ ..]) => {
                    (*family, *channels, table)
                }
                _ => (0, channels, &[][..]),
            };
            at(opus::streams(family, channels, table).map(|it| describe::opus(channels, it)))?
        }
        b"ac-3" => describe::ac3(rate, channels),
        b"fLaC" => {
            // Version and flags precede the blocks of metadata ("Encapsulation of FLAC in ISO Base
            // Media File Format", §3.3.2).
            let found = find(&audio.boxes, b"dfLa");
            let blocks = found.as_ref().and_then(|found| found.body.get(4..));
            at(describe::flac(blocks.unwrap_or_default()))?
        }
        b".mp3" => describe::mpeg_audio(rate, channels),
        b"samr" => describe::amr(false),
        b"sawb" => describe::amr(true),
        b"mp4a" => {
            let Some(found) = audio.elementary()? else {
                return Err(entry.damaged("the box that configures the decoder is missing"));
            };
            let stream = Elementary::read(&found)?;
            match stream.object {
                0x40 | 0x66..=0x68 => at(describe::aac(stream.specific, channels))?,
                0x69 | 0x6b => describe::mpeg_audio(rate, channels),
                0xdd => at(describe::vorbis(stream.specific))?,
                _ => return Ok(None),
            }
        }
        _ => match audio.format(entry.kind)? {
            Some(format) => describe::pcm(format, rate, channels),
            None => return Ok(None),
        },
    }))
}

impl<'a> Audio<'a> {
    fn read(entry: &InMemory<'a>) -> Result<Self, Fault> {
        let mut fields = entry.fields();
        fields.array::<8>()?;
        let [_, version, ..] = fields.array::<8>()?;
        let [c0, c1, b0, b1] = fields.array::<4>()?;
        fields.u32()?;
        let mut rate = fields.u32()? >> 16;
        let mut channels = u32::from(u16::from_be_bytes([c0, c1]));
        let mut bits = u32::from(u16::from_be_bytes([b0, b1]));
        let mut flags = 0;
        let skip = match version {
            1 => 44,
            2 => {
                fields.u32()?;
                // What is out of range ends as the nearest number.
                let exact = f64::from_be_bytes(fields.array()?) as u32;
                rate = exact;
                channels = fields.u32()?;
                fields.u32()?;
                bits = fields.u32()?;
                flags = fields.u32()?;
                64
            }
            _ => 28,
        };
        // A rate that does not fit the field is zero there; only codings that state no rate
        // themselves need it.
        if rate > SAMPLE_RATE_MAX || channels > 255 {
            return Err(entry.damaged("a track of audio has an impossible sampling rate"));
        }
        Ok(Self {
            rate: rate.max(1),
            channels: u8::try_from(channels).unwrap_or(u8::MAX).max(1),
            bits,
            flags,
            boxes: entry.inside(skip)?,
        })
    }

    /// Returns the descriptor of the elementary stream, which QuickTime puts one box deeper.
    fn elementary(&self) -> Result<Option<InMemory<'a>>, Fault> {
        let direct = find(&self.boxes, b"esds");
        match find(&self.boxes, b"wave") {
            Some(wave) if direct.is_none() => Ok(find(&wave.inside(0)?, b"esds")),
            _ => Ok(direct),
        }
    }

    fn format(&self, kind: [u8; 4]) -> Result<Option<SampleFormat>, Fault> {
        let mut little = false;
        if let Some(wave) = find(&self.boxes, b"wave") {
            let order = find(&wave.inside(0)?, b"enda");
            little = order.is_some_and(|order| order.body.ends_with(&[1]));
        }
        let mut bits = self.bits;
        if let Some(configuration) = find(&self.boxes, b"pcmC")
            && let &[_, _, _, _, flags, size, ..] = configuration.body
        {
            (little, bits) = (flags & 1 == 1, size.into());
        }
        let (float, big) = match &kind {
            b"lpcm" => (self.flags & 1 != 0, self.flags & 2 != 0),
            b"fl32" | b"fl64" | b"fpcm" => (true, !little),
            b"sowt" => (false, false),
            _ => (false, !little),
        };
        let sample = match (&kind, bits) {
            (b"ulaw", _) => Sample::MuLaw,
            (b"alaw", _) => Sample::ALaw,
            (b"raw " | b"NONE", 8) => Sample::Unsigned8,
            (b"sowt" | b"twos" | b"lpcm" | b"ipcm", 8) => {
                return Ok(Some(SampleFormat::Signed8));
            }
            (b"in24", _) => Sample::Signed24,
            (b"in32", _) => Sample::Signed32,
            (b"fl32", _) => Sample::Float32,
            (b"fl64", _) => Sample::Float64,
            (_, 64) if float => Sample::Float64,
            (_, 32) if float => Sample::Float32,
            (_, 32) => Sample::Signed32,
            (_, 24) => Sample::Signed24,
            (_, 16) => Sample::Signed16,
            _ => return Ok(None),
        };
        Ok(Some(match big {
            // A sample of one byte has no order.
            true if sample.bytes() > 1 => SampleFormat::Big(sample),
            _ => SampleFormat::Little(sample),
        }))
    }
}

/// Fields of an esds box (ISO/IEC 14496-1 §7.2.6).
struct Elementary<'a> {
    /// Object type indication, which names the coding.
    object: u8,
    /// Decoder-specific information (ISO/IEC 14496-1 §7.2.6.7).
    specific: &'a [u8],
}

impl<'a> Elementary<'a> {
    fn read(found: &InMemory<'a>) -> Result<Self, Fault> {
        const STREAM: u8 = 3;
        const DECODER: u8 = 4;
        const SPECIFIC: u8 = 5;
        let parse = || {
            let stream = descriptor(found.body.get(4..)?, STREAM)?;
            let flags = *stream.get(2)?;
            let mut skip = 3;
            if flags & 0x80 != 0 {
                skip += 2;
            }
            if flags & 0x40 != 0 {
                skip += 1 + usize::from(*stream.get(skip)?);
            }
            if flags & 0x20 != 0 {
                skip += 2;
            }
            let decoder = descriptor(stream.get(skip..)?, DECODER)?;
            let specific = descriptor(decoder.get(13..)?, SPECIFIC);
            Some(Self {
                object: *decoder.first()?,
                specific: specific.unwrap_or_default(),
            })
        };
        parse().ok_or_else(|| found.damaged("the descriptor of an elementary stream is damaged"))
    }
}

/// Returns the body of the first descriptor with this tag.
fn descriptor(bytes: &[u8], tag: u8) -> Option<&[u8]> {
    let mut rest = bytes;
    loop {
        let (&found, after) = rest.split_first()?;
        rest = after;
        let mut length = 0usize;
        for _ in 0..4 {
            let (&byte, after) = rest.split_first()?;
            rest = after;
            length = length << 7 | usize::from(byte & 0x7f);
            if byte & 0x80 == 0 {
                break;
            }
        }
        let body = rest.get(..length)?;
        if found == tag {
            return Some(body);
        }
        rest = &rest[length..];
    }
}
