//! WAV files: RIFF, and RF64 for those above 4 GB (Microsoft RIFF 1.0 and
//! `WAVEFORMATEXTENSIBLE`; EBU Tech 3306).
//!
//! Samples lie at regular offsets, so there is no index. Audio that RTP has a payload type for,
//! G.711 at 8 kHz, stays as it is; all other audio becomes L16.

use glassline_media::{Codec, MediaTime, PAYLOAD_BYTES_MAX, Track};

use crate::Data;
use crate::audio::pcm::Sample;
use crate::error::{Fault, Reason, WarningReason, Warnings};
use crate::length::Length;
use crate::reader::{Reader, Unit};
use crate::window::{Window, read_unit};

/// Units per second: 20 ms each, or less.
const UNITS_PER_SECOND: u32 = 50;

/// Most chunks before the samples. Real files have a dozen.
const CHUNKS_MAX: usize = 4096;

/// Size of a chunk whose writer could not seek back to write the true one.
const SIZE_UNKNOWN: u32 = u32::MAX;

const RATES: std::ops::RangeInclusive<u32> = 1_000..=768_000;
const CHANNELS_MAX: u16 = 16;

/// A reader of the audio of a WAV file.
pub(crate) struct Wav {
    data: Box<dyn Data>,
    layout: Layout,
    tracks: [Track; 1],
    /// Samples of each channel before the next unit.
    next: u64,
}

/// Format and location of the samples.
#[derive(Clone, Copy, Debug)]
struct Layout {
    format: WavFormat,
    offset: u64,
    /// Number of samples of each channel.
    samples: u64,
}

/// Fields of the `fmt ` chunk.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct WavFormat {
    sample: Sample,
    rate: u32,
    channels: u8,
}

impl Wav {
    /// Reads chunks until the location of the samples is known.
    pub(crate) fn open(data: Box<dyn Data>, warnings: &mut Warnings) -> Result<Self, Fault> {
        let mut window = Window::new(data)?;
        let layout = Chunks::read(&mut window)?.layout(window.file_bytes(), warnings)?;
        Ok(Self {
            data: window.into_data(),
            layout,
            tracks: [layout.format.track()],
            next: 0,
        })
    }

    fn start_ns(&self, sample: u64) -> i64 {
        let sample = i64::try_from(sample).unwrap_or(i64::MAX);
        MediaTime::from_ticks(sample, self.layout.format.rate).nanos()
    }
}

impl Reader for Wav {
    fn tracks(&self) -> &[Track] {
        &self.tracks
    }

    fn length(&self) -> Length {
        let samples = i64::try_from(self.layout.samples).unwrap_or(i64::MAX);
        Length::from_ticks(samples, self.layout.format.rate)
    }

    fn next_unit(&mut self) -> Result<Option<Unit>, Fault> {
        let Layout {
            format,
            offset,
            samples,
        } = self.layout;
        let count = format.unit_samples().min(samples - self.next);
        if count == 0 {
            return Ok(None);
        }
        let block = format.block_bytes();
        let length = usize::try_from(count * block).unwrap_or(usize::MAX);
        let bytes = read_unit(&mut self.data, offset + self.next * block, length)?;
        let data = if format.stays() {
            bytes
        } else {
            format.sample.to_l16(&bytes)
        };
        let start_ns = self.start_ns(self.next);
        self.next += count;
        let end_ns = self.start_ns(self.next);
        Ok(Some(Unit::in_turn(start_ns..end_ns, true, data)))
    }

    fn seek(&mut self, to_ns: i64) -> Result<(), Fault> {
        let Layout {
            format, samples, ..
        } = self.layout;
        let sample = MediaTime::from_nanos(to_ns.max(0)).ticks(format.rate);
        let sample = u64::try_from(sample).unwrap_or(0);
        self.next = (sample - sample % format.unit_samples()).min(samples);
        Ok(())
    }

    fn fork(&self) -> Box<dyn Reader> {
        Box::new(Self {
            data: self.data.fork(),
            layout: self.layout,
            tracks: self.tracks.clone(),
            next: 0,
        })
    }
}

impl WavFormat {
    /// Returns the length in bytes of one sample of every channel in the file.
    fn block_bytes(self) -> u64 {
        self.sample.bytes() as u64 * u64::from(self.channels)
    }

    fn codec(self) -> Codec {
        self.sample.sent_as(self.rate, self.channels)
    }

    /// Returns whether RTP has a payload type for the samples as they are.
    fn stays(self) -> bool {
        self.codec() != Codec::L16
    }

    /// Returns the number of samples of each channel in one unit, which fits a packet; at least
    /// one.
    fn unit_samples(self) -> u64 {
        let bytes = match self.stays() {
            true => 1,
            false => 2 * u64::from(self.channels),
        };
        (PAYLOAD_BYTES_MAX as u64 / bytes).min(u64::from(self.rate / UNITS_PER_SECOND))
    }

    fn track(self) -> Track {
        Track::audio(self.codec(), self.channels).with_clock_rate(self.rate)
    }

    /// Parses a `fmt ` chunk.
    fn parse(chunk: &[u8]) -> Result<Self, Reason> {
        let &[
            t0,
            t1,
            c0,
            c1,
            r0,
            r1,
            r2,
            r3,
            _,
            _,
            _,
            _,
            block0,
            block1,
            _,
            _,
            ref more @ ..,
        ] = chunk
        else {
            return Err(Reason::Damaged("the fmt chunk has fewer than 16 bytes"));
        };
        let tag = match u16::from_le_bytes([t0, t1]) {
            EXTENSIBLE => extended_tag(more)?,
            tag => tag,
        };
        let rate = u32::from_le_bytes([r0, r1, r2, r3]);
        if !RATES.contains(&rate) {
            return Err(Reason::Damaged(
                "the sampling rate is not within 1 to 768 kHz",
            ));
        }
        let channels = u16::from_le_bytes([c0, c1]);
        let channels = match u8::try_from(channels) {
            Ok(count) if (1..=CHANNELS_MAX).contains(&channels) => count,
            _ => return Err(Reason::Damaged("the channels are not 1 to 16")),
        };
        let block = u16::from_le_bytes([block0, block1]);
        let bytes = match block % u16::from(channels) {
            0 => block / u16::from(channels),
            _ => 0,
        };
        let sample = match (tag, bytes) {
            (PCM, 1) => Sample::Unsigned8,
            (PCM, 2) => Sample::Signed16,
            (PCM, 3) => Sample::Signed24,
            (PCM, 4) => Sample::Signed32,
            (FLOAT, 4) => Sample::Float32,
            (FLOAT, 8) => Sample::Float64,
            (A_LAW, 1) => Sample::ALaw,
            (MU_LAW, 1) => Sample::MuLaw,
            (PCM | FLOAT | A_LAW | MU_LAW, _) => {
                return Err(Reason::Damaged("samples have no usual number of bytes"));
            }
            _ => return Err(other_coding(tag)),
        };
        Ok(Self {
            sample,
            rate,
            channels,
        })
    }
}

const PCM: u16 = 1;
const FLOAT: u16 = 3;
const A_LAW: u16 = 6;
const MU_LAW: u16 = 7;
const EXTENSIBLE: u16 = 0xfffe;

/// Returns the format tag in the sub-format. `more`: the bytes behind the 16 that every `fmt `
/// chunk has.
fn extended_tag(more: &[u8]) -> Result<u16, Reason> {
    // KSDATAFORMAT_SUBTYPE, which is the same for all formats but for its first two bytes.
    const SUBTYPE: [u8; 14] = [0, 0, 0, 0, 0x10, 0, 0x80, 0, 0, 0xaa, 0, 0x38, 0x9b, 0x71];
    match more.get(8..24) {
        Some([low, high, rest @ ..]) if *rest == SUBTYPE => Ok(u16::from_le_bytes([*low, *high])),
        Some(_) => Err(other_coding(EXTENSIBLE)),
        None => Err(Reason::Damaged(
            "the extended fmt chunk has fewer than 40 bytes",
        )),
    }
}

fn other_coding(tag: u16) -> Reason {
    let found = match tag {
        0x02 => "WAV with Microsoft ADPCM",
        0x11 => "WAV with IMA ADPCM",
        0x31 => "WAV with GSM speech",
        0x50 | 0x55 => "WAV with MPEG audio",
        0xff | 0x1600 | 0x1610 => "WAV with AAC",
        0x160..=0x163 => "WAV with Windows Media audio",
        0x2000 => "WAV with AC-3",
        _ => "WAV with a coding that is not known",
    };
    let instead = "write samples instead (ffmpeg: -c:a pcm_s16le)";
    Reason::Refused { found, instead }
}

/// Contents of the chunks of a file.
struct Chunks {
    format: WavFormat,
    /// Offset of the samples, and the length of their chunk in bytes; 0 and [`SIZE_UNKNOWN`]
    /// are not interpreted.
    data: (u64, u64),
    /// Offset of the file's end according to its first chunk.
    riff_end: u64,
}

impl Chunks {
    fn read(window: &mut Window) -> Result<Self, Fault> {
        let head = window.peek(0, 12)?;
        let (big, size) = match head {
            [b'R', b'I', b'F', b'F', size @ ..] => (false, size),
            [b'R', b'F', b'6', b'4', size @ ..] | [b'B', b'W', b'6', b'4', size @ ..] => {
                (true, size)
            }
            _ => return Err(Fault::at(0, Reason::Damaged("it does not begin with RIFF"))),
        };
        let riff_bytes = size
            .first_chunk()
            .map_or(0, |size| u32::from_le_bytes(*size));
        let (mut format, mut data, mut long) = (None, None, None);
        let mut at = 12u64;
        for _ in 0..CHUNKS_MAX {
            let &[n0, n1, n2, n3, s0, s1, s2, s3] = window.peek(at, 8)? else {
                break;
            };
            let (name, size) = ([n0, n1, n2, n3], u32::from_le_bytes([s0, s1, s2, s3]));
            let body = at + 8;
            let mut bytes = u64::from(size);
            match &name {
                b"fmt " if format.is_none() => {
                    let chunk = window.peek(body, bytes.min(40) as usize)?;
                    format =
                        Some(WavFormat::parse(chunk).map_err(|reason| Fault::at(body, reason))?);
                }
                b"ds64" if big => long = Some(LongSizes::parse(window.peek(body, 16)?, body)?),
                b"data" if data.is_none() => {
                    if let Some(long) = long.filter(|_| size == SIZE_UNKNOWN) {
                        bytes = long.data;
                    }
                    data = Some((body, bytes));
                }
                _ => {}
            }
            if let (Some(format), Some(data)) = (format, data) {
                let riff = long.map_or(u64::from(riff_bytes), |long| long.riff);
                let riff_end = riff.saturating_add(8);
                return Ok(Self {
                    format,
                    data,
                    riff_end,
                });
            }
            // Chunks begin at even offsets.
            at = body.saturating_add(bytes).saturating_add(bytes & 1);
        }
        Err(Fault::at(
            at,
            Reason::Damaged(match (format, data) {
                (None, _) => "there is no fmt chunk",
                _ => "there is no data chunk",
            }),
        ))
    }

    fn layout(self, file_bytes: u64, warnings: &mut Warnings) -> Result<Layout, Fault> {
        let (offset, said) = self.data;
        let there = file_bytes.saturating_sub(offset);
        // A writer that could not seek back leaves both sizes as they were before the first
        // sample.
        let streamed = said == 0 && !(offset + 1..=file_bytes).contains(&self.riff_end)
            || said == SIZE_UNKNOWN.into();
        let bytes = if streamed { there } else { said.min(there) };
        if !streamed && said > there {
            let reason = WarningReason::TruncatedSamples(said - there);
            warnings.add(Some(offset), reason);
        }
        let block = self.format.block_bytes();
        if bytes % block > 0 {
            let reason = WarningReason::TruncatedFrame;
            warnings.add(Some(offset + bytes - bytes % block), reason);
        }
        let samples = bytes / block;
        if samples == 0 {
            let what = "it has no samples".into();
            return Err(Fault::at(offset, Reason::NothingToPlay(what)));
        }
        Ok(Layout {
            format: self.format,
            offset,
            samples,
        })
    }
}

/// Sizes of 64 bits (EBU Tech 3306 §4).
#[derive(Clone, Copy)]
struct LongSizes {
    riff: u64,
    data: u64,
}

impl LongSizes {
    fn parse(chunk: &[u8], at: u64) -> Result<Self, Fault> {
        let long = |place: usize| {
            let bytes = chunk.get(place..place + 8)?;
            Some(u64::from_le_bytes(bytes.try_into().ok()?))
        };
        match (long(0), long(8)) {
            (Some(riff), Some(data)) => Ok(Self { riff, data }),
            _ => {
                let reason = Reason::Damaged("the ds64 chunk has fewer than 16 bytes");
                Err(Fault::at(at, reason))
            }
        }
    }
}
