//! AAC in LATM (RFC 6416 §6, encoding name `MP4A-LATM`), which some cameras send: each packet is
//! an audioMuxElement, or a fragment of one. It is received only, with its configuration in the
//! session description.

use std::fmt::Write as _;

use glassline_media::aac::{AudioSpecificConfig, from_hex};
use glassline_media::{Bits, Codec, Track};

use super::assembly::{AudioFormat, DropReason};
use super::{UnsupportedFormat, parameter};

/// Value of the parameter `mode` of an AAC track whose packets are in LATM. RFC 3640 has no such
/// mode; the encoding name of the session description is not kept beside the codec.
const MODE: &str = "MP4A-LATM";

/// Longest access unit in bytes, as of the payload format that AAC is sent on with.
const UNIT_BYTES_MAX: usize = (1 << 13) - 1;

/// Bits of a StreamMuxConfig before its AudioSpecificConfig (ISO/IEC 14496-3, table 1.42): version,
/// framing, subframes, programs, layers.
const CONFIG_START: usize = 15;

/// Returns whether the packets of an AAC track are in LATM.
pub(super) fn is_mode_of(track: &Track) -> bool {
    parameter(&track.format_parameters, "mode") == Some(MODE)
}

/// Turns the format parameters of an `MP4A-LATM` track into those of an AAC track, with the
/// AudioSpecificConfig as `config` and a `mode` by which [`Depacketizer`](super::Depacketizer)
/// knows the packets.
///
/// # Errors
/// [`UnsupportedFormat::Mode`] if the configuration is in the packets, or has several frames,
/// programs or layers.
pub fn latm_parameters(parameters: &str) -> Result<String, UnsupportedFormat> {
    let refuse = |parameter: String| UnsupportedFormat::Mode {
        codec: Codec::Aac,
        parameter,
        advice: "send mode=AAC-hbr, or MP4A-LATM with cpresent=0 and one frame in each element",
    };
    // RFC 6416 §7.3: present in the packets unless said otherwise.
    if parameter(parameters, "cpresent") != Some("0") {
        return Err(refuse("MP4A-LATM, cpresent=1".to_owned()));
    }
    let text = parameter(parameters, "config").unwrap_or_default();
    let config = from_hex(text).as_deref().and_then(audio_specific_config);
    let config = config.ok_or_else(|| refuse(format!("MP4A-LATM, config={text}")))?;
    let mut described = format!("streamtype=5;profile-level-id=1;mode={MODE};config=");
    for byte in config {
        let _ = write!(described, "{byte:02x}");
    }
    Ok(described)
}

/// Returns the AudioSpecificConfig within a StreamMuxConfig that has one frame, one program and one
/// layer of variable length; `None` for others.
fn audio_specific_config(mux: &[u8]) -> Option<Vec<u8>> {
    let mut bits = Bits::new(mux);
    // Version 0 and the same framing for all.
    if bits.take(2)? != 1 || bits.take(6 + 4 + 3)? != 0 {
        return None;
    }
    // What follows the configuration does not matter to it, and is cut off below.
    let mut bytes = Vec::new();
    while let Some(byte) = bits.take(8) {
        bytes.push(byte as u8);
    }
    AudioSpecificConfig::parse(&bytes)?;
    let length = config_bits(&bytes)?;
    let mut behind = Bits::new(mux);
    behind.skip(CONFIG_START + length);
    if behind.take(3)? != 0 {
        return None;
    }
    bytes.truncate(length.div_ceil(8));
    let unused = bytes.len() * 8 - length;
    if let Some(last) = bytes.last_mut() {
        *last = *last >> unused << unused;
    }
    Some(bytes)
}

/// Returns the length in bits of the AudioSpecificConfig at the start of `bytes`, which is not
/// written there (ISO/IEC 14496-3, tables 1.15 and 4.1). `None` for kinds with more fields.
fn config_bits(bytes: &[u8]) -> Option<usize> {
    let mut bits = Bits::new(bytes);
    let object = bits.take(5)?;
    let explicit_rate = bits.take(4)? == 15;
    let has_band_replication = matches!(object, 5 | 29);
    // Object type, rate, channels, and the three flags of GASpecificConfig.
    let length = 5 + 4 + 4 + 3 + if has_band_replication { 4 + 5 } else { 0 };
    (object != 31 && !explicit_rate).then_some(length)
}

/// Joins the fragments of audioMuxElements and takes the access unit out of each.
#[derive(Debug, Default)]
pub(super) struct Assembly {
    /// A unit of which fragments are missing; empty if there is none.
    open: Vec<u8>,
    size: usize,
}

impl AudioFormat for Assembly {
    fn take(&mut self, payload: &[u8], units: &mut Vec<(u32, Vec<u8>)>) -> Result<(), DropReason> {
        if self.open.is_empty() {
            let (size, bytes) = unit_size(payload).ok_or(DropReason::Malformed)?;
            if size == 0 {
                return Err(DropReason::Malformed);
            }
            self.size = size;
            self.open.extend_from_slice(bytes);
        } else {
            self.open.extend_from_slice(payload);
        }
        if self.open.len() < self.size {
            return Ok(());
        }
        let mut unit = std::mem::take(&mut self.open);
        // Other data may follow the unit.
        unit.truncate(self.size);
        units.push((0, unit));
        Ok(())
    }

    fn on_loss(&mut self) -> bool {
        !std::mem::take(&mut self.open).is_empty()
    }

    fn pending_bytes(&self) -> usize {
        self.open.len()
    }
}

/// Reads the length of an access unit, a sum of bytes of which the last is below 255 (table 1.44).
/// Returns the length and what follows; `None` if it is cut off or longer than a unit may be.
fn unit_size(payload: &[u8]) -> Option<(usize, &[u8])> {
    let mut size = 0;
    for (index, byte) in payload.iter().enumerate() {
        size += usize::from(*byte);
        if *byte < 255 {
            return (size <= UNIT_BYTES_MAX).then(|| (size, &payload[index + 1..]));
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    /// As FFmpeg 5.1 writes it for 48 kHz in stereo.
    const FFMPEG: &str = "profile-level-id=41;cpresent=0;config=400023203fc0";

    #[test]
    fn the_configuration_of_the_audio_is_taken_out_of_that_of_the_multiplex() {
        let described = latm_parameters(FFMPEG);
        assert_eq!(
            described.as_deref(),
            Ok("streamtype=5;profile-level-id=1;mode=MP4A-LATM;config=1190")
        );
        // Explicit band replication: 24 kHz coded, 48 kHz played.
        let described = latm_parameters("cpresent=0;config=40005623101fe0");
        assert_eq!(
            described.as_deref(),
            Ok("streamtype=5;profile-level-id=1;mode=MP4A-LATM;config=2b118800")
        );
    }

    #[test]
    fn what_is_not_received_is_named_with_advice() {
        for refused in [
            "config=400023203fc0",
            "cpresent=1",
            "cpresent=0",
            "cpresent=0;config=xyz",
            "cpresent=0;config=c00023203fc0",
            "cpresent=0;config=410023203fc0",
            "cpresent=0;config=4000",
        ] {
            let error = latm_parameters(refused).expect_err(refused).to_string();
            assert!(
                error.contains("MP4A-LATM") && error.contains("AAC-hbr"),
                "{error}"
            );
        }
    }

    fn take(assembly: &mut Assembly, payload: &[u8]) -> (bool, Vec<Vec<u8>>) {
        let mut units = Vec::new();
        let taken = assembly.take(payload, &mut units);
        (
            taken.is_ok(),
            units.into_iter().map(|(_, unit)| unit).collect(),
        )
    }

    #[test]
    fn units_are_cut_out_and_fragments_joined() {
        let mut assembly = Assembly::default();
        assert_eq!(
            take(&mut assembly, b"\x03abc"),
            (true, vec![b"abc".to_vec()])
        );
        assert_eq!(
            take(&mut assembly, b"\x03abc?"),
            (true, vec![b"abc".to_vec()])
        );
        assert_eq!(take(&mut assembly, b"\x05ab"), (true, Vec::new()));
        assert_eq!(assembly.pending_bytes(), 2);
        assert_eq!(take(&mut assembly, b"cde"), (true, vec![b"abcde".to_vec()]));
        let long = [&[255, 255, 2][..], &[b'x'; 512]].concat();
        assert_eq!(take(&mut assembly, &long), (true, vec![vec![b'x'; 512]]));
    }

    #[test]
    fn damaged_elements_are_dropped_and_the_next_one_is_whole() {
        let mut assembly = Assembly::default();
        for damaged in [&b""[..], b"\x00", b"\xff\xff", &[255; 40]] {
            assert_eq!(
                take(&mut assembly, damaged),
                (false, Vec::new()),
                "{damaged:?}"
            );
        }
        take(&mut assembly, b"\x05ab");
        assert!(assembly.on_loss());
        assert!(!assembly.on_loss(), "nothing was open");
        assert_eq!(take(&mut assembly, b"\x01a"), (true, vec![b"a".to_vec()]));
    }
}
