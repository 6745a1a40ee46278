//! Tracks from the configuration records of containers (ISO/IEC 14496-15 and similar), which
//! Matroska and MP4 share.

use glassline_media::aac::AudioSpecificConfig;
use glassline_media::{Codec, OpusStreams, Track};

use super::coding::{Coding, Described, Timing};
use super::nals::{Nals, ParameterLists};
use super::pcm::{Pcm, SampleFormat};
use crate::audio::flac::ContainedFlac;
use crate::audio::opus;
use crate::audio::vorbis;
use crate::error::{Reason, Warnings};
use crate::legacy::theora;
use crate::parameters;

/// Width and height in pixels.
pub(crate) type Size = (u32, u32);

/// Highest sampling rate in Hz; a higher one in a container is damage.
pub(crate) const SAMPLE_RATE_MAX: u32 = 768_000;

fn video(codec: Codec, (width, height): Size, coding: Coding) -> Described {
    let mut track = Track::new(codec);
    (track.video.width, track.video.height) = (width, height);
    Described {
        track,
        coding,
        sample_rate: 0,
        timing: Timing::Container,
    }
}

fn audio(codec: Codec, channels: u8, rate: u32, timing: Timing) -> Described {
    let track = Track::audio(codec, channels);
    let own_rate = matches!(
        codec,
        Codec::L16 | Codec::Aac | Codec::Ac3 | Codec::Vorbis | Codec::Pcmu | Codec::Pcma
    );
    Described {
        track: match own_rate {
            true => track.with_clock_rate(rate),
            false => track,
        },
        coding: Coding::Plain(Vec::new()),
        sample_rate: rate,
        timing,
    }
}

/// Describes video whose frames containers store as RTP sends them.
pub(crate) fn plain_frames(codec: Codec, size: Size) -> Described {
    video(codec, size, Coding::Plain(Vec::new()))
}

/// Describes H.264 from its AVCDecoderConfigurationRecord (ISO/IEC 14496-15 §5.3.3.1).
pub(crate) fn h264(
    config: &[u8],
    size: Size,
    at: u64,
    warnings: &mut Warnings,
) -> Result<Described, Reason> {
    let damaged = || Reason::Damaged("the H.264 configuration is not an avcC record");
    let mut fields = Fields(config);
    let [version, _, _, _, lengths] = *fields.array().ok_or_else(damaged)?;
    if version != 1 {
        return Err(damaged());
    }
    let mut lists = ParameterLists::default();
    let sequences = fields.byte().ok_or_else(damaged)? & 0x1f;
    for _ in 0..sequences {
        lists.add(7, fields.sized().ok_or_else(damaged)?, false);
    }
    // A record that ends here has no picture parameter sets.
    for _ in 0..fields.byte().unwrap_or(0) {
        lists.add(8, fields.sized().ok_or_else(damaged)?, false);
    }
    let mut nals = Nals {
        h265: false,
        length_bytes: usize::from(lengths & 3) + 1,
        sets: Vec::new(),
    };
    let mut track = Track::new(Codec::H264);
    (track.video.width, track.video.height) = size;
    lists.check(&mut track, at, warnings)?;
    lists.fill(&mut nals, &mut track);
    Ok(Described {
        track,
        coding: Coding::Nals(nals),
        sample_rate: 0,
        timing: Timing::Container,
    })
}

/// Describes H.265 from its HEVCDecoderConfigurationRecord (ISO/IEC 14496-15 §8.3.3.1).
pub(crate) fn h265(config: &[u8], size: Size) -> Result<Described, Reason> {
    let damaged = || Reason::Damaged("the H.265 configuration is not an hvcC record");
    let mut fields = Fields(config);
    let head: [u8; 22] = *fields.array().ok_or_else(damaged)?;
    // Drafts of the record had version 0.
    if head[0] > 1 {
        return Err(damaged());
    }
    let mut lists = ParameterLists::default();
    for _ in 0..fields.byte().ok_or_else(damaged)? {
        let kind = fields.byte().ok_or_else(damaged)? & 0x3f;
        let count = fields.short().ok_or_else(damaged)?;
        for _ in 0..count {
            lists.add(kind, fields.sized().ok_or_else(damaged)?, true);
        }
    }
    let mut nals = Nals {
        h265: true,
        length_bytes: usize::from(head[21] & 3) + 1,
        sets: Vec::new(),
    };
    let mut described = video(Codec::H265, size, Coding::Plain(Vec::new()));
    lists.fill(&mut nals, &mut described.track);
    described.coding = Coding::Nals(nals);
    Ok(described)
}

/// Describes VP9, whose profile the first keyframe states.
pub(crate) fn vp9(size: Size) -> Described {
    plain_frames(Codec::Vp9, size)
}

/// Describes AV1 from its AV1CodecConfigurationRecord (AV1 in ISO-BMFF, §2.3).
pub(crate) fn av1(config: &[u8], size: Size) -> Result<Described, Reason> {
    let Some(([marker, first, second, _], headers)) = config.split_first_chunk::<4>() else {
        return Err(Reason::Damaged(
            "the AV1 configuration is not an av1C record",
        ));
    };
    if *marker != 0x81 {
        return Err(Reason::Damaged(
            "the AV1 configuration is not an av1C record",
        ));
    }
    let (profile, level, tier) = (first >> 5, first & 0x1f, second >> 7);
    let mut described = video(Codec::Av1, size, Coding::Av1(headers.to_vec()));
    described.track.format_parameters = format!("profile={profile};level-idx={level};tier={tier}");
    Ok(described)
}

/// Describes AV1 whose sequence headers are in the stream alone.
pub(crate) fn av1_in_stream(size: Size) -> Described {
    video(Codec::Av1, size, Coding::Av1(Vec::new()))
}

/// Describes MPEG-4 visual; `headers` begin with the visual object sequence.
pub(crate) fn mpeg4_visual(headers: &[u8], size: Size) -> Described {
    let coding = Coding::Visual(headers.to_vec());
    let mut described = video(Codec::Mpeg4Visual, size, coding);
    described.track.format_parameters = parameters::mpeg4_visual(headers);
    described
}

/// Describes Theora from its three headers, laced as those of Vorbis.
pub(crate) fn theora(laced: &[u8]) -> Result<Described, Reason> {
    let damaged = Reason::Damaged("the Theora headers are damaged");
    let [identification, _, setup] = vorbis::split_headers(laced).ok_or(damaged)?;
    let head = theora::Head::parse(identification).map_err(Reason::Damaged)?;
    theora_of(&head, identification, setup)
}

/// Describes Theora from its separate headers.
pub(crate) fn theora_of(
    head: &theora::Head,
    identification: &[u8],
    setup: &[u8],
) -> Result<Described, Reason> {
    let size = (head.width, head.height);
    let mut described = plain_frames(Codec::Theora, size);
    described.track.format_parameters = parameters::theora(head, identification, setup)
        .ok_or(Reason::Damaged("the Theora headers are too long"))?;
    Ok(described)
}

/// Describes Vorbis from its three headers, which Matroska and MP4 lace alike.
pub(crate) fn vorbis(laced: &[u8]) -> Result<Described, Reason> {
    let damaged = Reason::Damaged("the Vorbis headers are damaged");
    let [identification, _, setup] = vorbis::split_headers(laced).ok_or(damaged)?;
    vorbis_of(identification, setup)
}

/// Describes Vorbis from its separate headers.
pub(crate) fn vorbis_of(identification: &[u8], setup: &[u8]) -> Result<Described, Reason> {
    let headers = vorbis::Headers::parse(identification, setup).map_err(Reason::Damaged)?;
    let (channels, rate) = (headers.channels, headers.rate);
    let timing = Timing::Vorbis(headers, vorbis::Counter::default());
    let mut described = audio(Codec::Vorbis, channels, rate, timing);
    described.track.format_parameters = parameters::vorbis(identification, setup)
        .ok_or(Reason::Damaged("the Vorbis headers are too long"))?;
    Ok(described)
}

/// Describes Opus: of one or two channels, or of several `streams`.
pub(crate) fn opus(channels: u8, streams: Option<OpusStreams>) -> Described {
    let Some(streams) = streams else {
        return audio(Codec::Opus, channels.clamp(1, 2), opus::RATE, Timing::Opus);
    };
    let mut described = audio(Codec::MultiOpus, channels, opus::RATE, Timing::Opus);
    described.track.format_parameters = streams.to_string();
    described
}

/// Describes AAC from its AudioSpecificConfig. `channels`: number of channels that the
/// container states.
pub(crate) fn aac(config: &[u8], channels: u8) -> Result<Described, Reason> {
    let parsed = AudioSpecificConfig::parse(config);
    let parsed = parsed.ok_or(Reason::Damaged("the AAC configuration is damaged"))?;
    let channels = parsed.channels.unwrap_or(channels.max(1));
    let timing = Timing::Fixed(parsed.samples);
    let mut described = audio(Codec::Aac, channels, parsed.coded_rate, timing);
    described.track.clock_rate = parsed.rate;
    described.track.format_parameters = parameters::aac(config);
    Ok(described)
}

/// Describes FLAC, which becomes L16, from the metadata of FLAC files.
pub(crate) fn flac(config: &[u8]) -> Result<Described, Reason> {
    let flac = ContainedFlac::parse(config);
    let flac = flac.ok_or(Reason::Damaged("the FLAC configuration is damaged"))?;
    let mut described = audio(Codec::L16, flac.channels(), flac.rate(), Timing::Container);
    described.coding = Coding::Flac(flac);
    Ok(described)
}

/// Describes a track of AC-3.
pub(crate) fn ac3(rate: u32, channels: u8) -> Described {
    audio(Codec::Ac3, channels, rate, Timing::Ac3)
}

/// Describes MPEG-1 or MPEG-2 audio of any layer.
pub(crate) fn mpeg_audio(rate: u32, channels: u8) -> Described {
    audio(Codec::MpegAudio, channels, rate, Timing::MpegAudio)
}

/// Describes AMR, or AMR-WB with `wideband`: one frame of 20 ms per unit.
pub(crate) fn amr(wideband: bool) -> Described {
    let (codec, rate) = match wideband {
        true => (Codec::AmrWb, 16_000),
        false => (Codec::Amr, 8_000),
    };
    let mut described = audio(codec, 1, rate, Timing::Container);
    described.track.format_parameters = parameters::AMR.to_owned();
    described
}

/// Describes PCM samples: they become L16, unless RTP has a payload type of G.711 for them.
pub(crate) fn pcm(format: SampleFormat, rate: u32, channels: u8) -> Described {
    let codec = match format {
        SampleFormat::Little(sample) | SampleFormat::Big(sample) => sample.sent_as(rate, channels),
        SampleFormat::Signed8 | SampleFormat::Companded => Codec::L16,
    };
    let format = match codec {
        Codec::L16 => format,
        _ => SampleFormat::Companded,
    };
    let mut described = audio(codec, channels, rate, Timing::Container);
    described.coding = Coding::Pcm(Pcm { format, channels });
    described
}

/// Describes lines of text.
pub(crate) fn text() -> Described {
    Described {
        track: Track::new(Codec::T140),
        coding: Coding::Text,
        sample_rate: 0,
        timing: Timing::Container,
    }
}

/// Reads the fields of a record in order.
struct Fields<'a>(&'a [u8]);

impl<'a> Fields<'a> {
    fn array<const N: usize>(&mut self) -> Option<&'a [u8; N]> {
        let (array, rest) = self.0.split_first_chunk()?;
        self.0 = rest;
        Some(array)
    }

    fn byte(&mut self) -> Option<u8> {
        self.array().map(|[byte]| *byte)
    }

    fn short(&mut self) -> Option<u16> {
        self.array().copied().map(u16::from_be_bytes)
    }

    /// Reads bytes that follow their length in 16 bits.
    fn sized(&mut self) -> Option<&'a [u8]> {
        let length = self.short()?;
        let (bytes, rest) = self.0.split_at_checked(length.into())?;
        self.0 = rest;
        Some(bytes)
    }
}
