//! AMR and AMR-WB payloads (RFC 4867 §4.4), octet-aligned: the codec mode request, a table of
//! contents, the frames. Packets are sent with one frame each.

use glassline_media::{Codec, Track, UnitBuilder};

use super::assembly::{AudioFormat, DropReason};
use super::{PacketizeError, UnsupportedFormat, parameter};

/// Codec mode request that requests nothing (§4.3.1).
const NO_REQUEST: u8 = 0xf0;
/// Bit of a table of contents entry: another entry follows.
const F: u8 = 0x80;
/// Bits of an entry that files have as well: frame type and quality.
const ENTRY: u8 = 0x7c;

/// Frame lengths in bytes by frame type (RFC 4867 §3.6: speech and comfort noise). Type 14 is
/// lost speech (AMR-WB), 15 is no data.
const NARROW: [Option<u8>; 16] = sizes([12, 13, 15, 17, 19, 20, 26, 31, 5], [None, None]);
/// Frame lengths of AMR-WB in bytes by frame type, as for [`NARROW`].
const WIDE: [Option<u8>; 16] = sizes([17, 23, 32, 36, 40, 46, 50, 58, 60], [Some(5), Some(0)]);

/// Builds a table of frame lengths. `first`: types 0 to 8; `further`: types 9, which is comfort
/// noise of AMR-WB, and 14.
const fn sizes(first: [u8; 9], further: [Option<u8>; 2]) -> [Option<u8>; 16] {
    let mut table = [None; 16];
    let mut kind = 0;
    while kind < first.len() {
        table[kind] = Some(first[kind]);
        kind += 1;
    }
    table[9] = further[0];
    table[14] = further[1];
    table[15] = Some(0);
    table
}

const fn table(codec: Codec) -> &'static [Option<u8>; 16] {
    match codec {
        Codec::AmrWb => &WIDE,
        _ => &NARROW,
    }
}

fn frame_bytes(codec: Codec, entry: u8) -> Option<usize> {
    table(codec)[usize::from(entry >> 3 & 0x0f)].map(usize::from)
}

/// Puts a frame into one payload. The frame begins with its table of contents entry, as in
/// files.
pub(super) fn packetize(
    codec: Codec,
    frame: &[u8],
    out: &mut UnitBuilder,
) -> Result<(), PacketizeError> {
    let malformed = |reason| Err(PacketizeError::Malformed { codec, reason });
    let Some((entry, speech)) = frame.split_first() else {
        return Ok(());
    };
    match frame_bytes(codec, *entry) {
        None => return malformed("a frame of a reserved type"),
        Some(bytes) if bytes != speech.len() => {
            return malformed("a frame of another length than its type has");
        }
        Some(_) => {}
    }
    out.wire_only(&[NO_REQUEST]);
    out.coded(&[entry & ENTRY]);
    out.coded(speech);
    out.end_packet();
    Ok(())
}

/// Splits payloads into frames.
#[derive(Debug)]
pub(super) struct Assembly {
    codec: Codec,
    /// Number of samples of a frame, which lasts 20 ms.
    frame_samples: u32,
}

impl Assembly {
    /// Checks the track's format parameters.
    ///
    /// # Errors
    /// [`UnsupportedFormat::Mode`] if frames are not octet-aligned, are interleaved, or have checksums.
    pub(super) fn new(track: &Track) -> Result<Self, UnsupportedFormat> {
        let codec = track.codec;
        let text = &track.format_parameters;
        let advice = "send octet-align=1, without crc, robust-sorting and interleaving";
        let refuse = |parameter: String| {
            Err(UnsupportedFormat::Mode {
                codec,
                parameter,
                advice,
            })
        };
        if parameter(text, "octet-align") != Some("1") {
            return refuse("octet-align=0".to_owned());
        }
        for name in ["crc", "robust-sorting", "interleaving"] {
            if let Some(value) = parameter(text, name).filter(|value| *value != "0") {
                return refuse(format!("{name}={value}"));
            }
        }
        if track.channels > 1 {
            return refuse(format!("{} channels", track.channels));
        }
        Ok(Self {
            codec,
            frame_samples: track.clock_rate / 50,
        })
    }
}

impl AudioFormat for Assembly {
    fn take(&mut self, payload: &[u8], units: &mut Vec<(u32, Vec<u8>)>) -> Result<(), DropReason> {
        let entries = payload.get(1..).ok_or(DropReason::Malformed)?;
        let last = entries.iter().position(|entry| entry & F == 0);
        let (entries, mut speech) = entries.split_at(last.ok_or(DropReason::Malformed)? + 1);
        for (entry, number) in entries.iter().zip(0u32..) {
            let bytes = frame_bytes(self.codec, *entry).ok_or(DropReason::Malformed)?;
            let (frame, rest) = speech
                .split_at_checked(bytes)
                .ok_or(DropReason::Malformed)?;
            speech = rest;
            let unit = [&[entry & ENTRY], frame].concat();
            units.push((self.frame_samples.wrapping_mul(number), unit));
        }
        Ok(())
    }
}
