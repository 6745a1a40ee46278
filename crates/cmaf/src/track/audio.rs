//! AAC (ISO/IEC 14496-14 §5.6), Opus ("Encapsulation of Opus in ISO Base Media File Format") and FLAC
//! ("Encapsulation of FLAC in ISO Base Media File Format").
//!
//! PCM and G.711 become FLAC, which browsers play; they play no PCM in MP4.

use bytes::BufMut as _;
use glassline_media::aac::{AudioSpecificConfig, from_hex};
use glassline_media::{Codec, Kind, Track};

use super::{CmafTrack, Described};
use crate::boxes::{BoxKind, Fields, HEAD_BYTES, put_box, put_full_box};
use crate::sample::{Conversion, Flac, Law};

/// Rate of Opus in Hz.
const OPUS_RATE: u32 = 48_000;

/// Most channels of a frame of FLAC.
const FLAC_CHANNELS_MAX: u8 = 8;

/// Highest sampling rate of FLAC in Hz that its header has room for.
const FLAC_RATE_MAX: u32 = 655_350;

/// Describes AAC from the configuration in its format parameters (RFC 3640 §4.1).
pub(super) fn aac(track: &Track) -> Result<Described, &'static str> {
    let mut parameters = track.format_parameters.split(';').map(str::trim);
    let config = parameters.find_map(|it| {
        let (name, value) = it.split_once('=')?;
        name.eq_ignore_ascii_case("config").then_some(value)
    });
    let config = config.ok_or("its format parameters have no `config`")?;
    let config = from_hex(config).ok_or("its `config` is not hexadecimal")?;
    let parsed = AudioSpecificConfig::parse(&config).ok_or("its `config` is damaged")?;
    if config.len() > 64 {
        return Err("its `config` is longer than 64 bytes");
    }
    let channels = parsed.channels.unwrap_or(track.channels);
    let frame = u64::from(parsed.samples) * u64::from(parsed.rate);
    let frame = frame / u64::from(parsed.coded_rate.max(1));
    Ok(Described {
        track: audio_track(b"mp4a", parsed.rate, channels, |out| {
            put_full_box(out, b"esds", 0, 0, |out| put_descriptors(out, &config));
        }),
        conversion: Conversion::Frames(u32::try_from(frame).unwrap_or(1024)),
    })
}

/// Appends the descriptors of an elementary stream (ISO/IEC 14496-1 §7.2.6), whose lengths are below
/// 128.
fn put_descriptors(out: &mut Vec<u8>, config: &[u8]) {
    let length = config.len() as u8;
    out.put_slice(&[3, length + 23, 0, 0, 0]);
    // MPEG-4 audio, an audio stream; buffer and bit rates are not stated.
    out.put_slice(&[4, length + 15, 0x40, 0x15]);
    out.put_bytes(0, 11);
    out.put_slice(&[5, length]);
    out.put_slice(config);
    out.put_slice(&[6, 1, 2]);
}

/// Describes Opus of one or two channels.
pub(super) fn opus(track: &Track) -> Described {
    let channels = track.channels.clamp(1, 2);
    Described {
        track: audio_track(b"Opus", OPUS_RATE, channels, |out| {
            put_box(out, b"dOps", |out| {
                // A live stream is joined in its middle: there is nothing to skip.
                out.put_slice(&[0, channels, 0, 0]);
                out.put_u32(OPUS_RATE);
                out.put_slice(&[0, 0, 0]);
            });
        }),
        conversion: Conversion::Opus,
    }
}

/// Describes PCM or G.711 that becomes FLAC.
pub(super) fn flac(track: &Track) -> Result<Described, &'static str> {
    let (rate, channels) = (track.clock_rate, track.channels);
    if !(1..=FLAC_CHANNELS_MAX).contains(&channels) {
        return Err("it has none or more than 8 channels");
    }
    if !(1..=FLAC_RATE_MAX).contains(&rate) {
        return Err("its sampling rate is zero or above 655,350 Hz");
    }
    let law = match track.codec {
        Codec::Pcmu => Law::Mu,
        Codec::Pcma => Law::A,
        _ => Law::Linear,
    };
    let flac = Flac::new(law, channels);
    Ok(Described {
        track: audio_track(b"fLaC", rate, channels, |out| {
            put_full_box(out, b"dfLa", 0, 0, |out| {
                out.put_u8(0x80);
                out.put_uint(Flac::STREAM_INFO_BYTES as u64, 3);
                flac.put_stream_info(out, rate);
            });
        }),
        conversion: Conversion::Flac(flac),
    })
}

fn audio_track(
    kind: &BoxKind,
    rate: u32,
    channels: u8,
    configuration: impl FnOnce(&mut Vec<u8>),
) -> CmafTrack {
    let mut entry = Vec::new();
    put_box(&mut entry, kind, |out| {
        // ISO/IEC 14496-12 §12.2.3: reserved bytes, data reference, channels, 16 bits a sample, and the
        // rate, where it fits.
        out.put_bytes(0, 6);
        out.put_u16(1);
        out.put_bytes(0, 8);
        out.put_u16(channels.into());
        out.put_u16(16);
        out.put_u32(0);
        out.put_u32(u16::try_from(rate).map_or(0, |rate| u32::from(rate) << 16));
        configuration(out);
    });
    CmafTrack {
        kind: Kind::Audio,
        timescale: rate,
        size: (0, 0),
        entry: entry.into(),
    }
}

/// Returns the number of channels that an audio sample entry states.
pub(super) fn channels(entry: &[u8]) -> Option<u16> {
    Fields(entry.get(HEAD_BYTES + 16..)?).u16()
}
