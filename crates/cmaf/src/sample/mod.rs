//! Coded frames of the hub as samples of MP4.

mod flac;
mod nals;
mod obu;

use glassline_media::MediaUnit;

pub(crate) use flac::{Flac, Law};
pub(crate) use nals::{NalKinds, ParameterSets};
pub(crate) use obu::{Obu, obus};

/// The way from a coded frame to a sample. Coded bytes are copied once, into the fragment.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Conversion {
    /// NAL units get their length in place of start codes, without delimiters and without the
    /// parameter sets that the sample entry has.
    Nals(ParameterSets),
    /// A temporal unit goes without its delimiter.
    Av1,
    /// Frames stay as they are.
    Plain,
    /// Frames stay as they are, and each lasts this number of ticks.
    Frames(u32),
    /// Packets stay as they are, and state how long they last.
    Opus,
    /// Samples of PCM become a frame of FLAC.
    Flac(Flac),
}

impl Conversion {
    /// Appends the sample of a unit that is decoded at `ticks` of the track's timescale. Nothing is
    /// appended for a unit without media.
    pub(crate) fn append(&self, unit: &MediaUnit, ticks: u64, out: &mut Vec<u8>) {
        let Some(frame) = unit.coded_frame() else {
            // Only voices are forwarded, and a packet of Opus is a frame of it (RFC 7587 §4.2).
            unit.payloads()
                .for_each(|payload| out.extend_from_slice(payload));
            return;
        };
        match self {
            Self::Nals(sets) => {
                out.reserve(frame.byte_count() + nals::ROOM_BYTES);
                nals::append(frame.pieces(), sets, out);
            }
            Self::Av1 => {
                let mut skip = obu::delimiter_bytes(frame.pieces());
                for piece in frame.pieces() {
                    let left_out = skip.min(piece.len());
                    skip -= left_out;
                    out.extend_from_slice(&piece[left_out..]);
                }
            }
            Self::Plain | Self::Frames(_) | Self::Opus => {
                for piece in frame.pieces() {
                    out.extend_from_slice(piece);
                }
            }
            Self::Flac(flac) => flac.append(&frame.to_vec(), ticks, out),
        }
    }

    /// Returns how many ticks the audio of a unit lasts by itself; `None` if only the next unit tells.
    pub(crate) fn ticks(&self, unit: &MediaUnit) -> Option<u32> {
        match self {
            Self::Nals(_) | Self::Av1 | Self::Plain => None,
            Self::Frames(ticks) => Some(*ticks),
            Self::Opus => opus_ticks(unit),
            Self::Flac(flac) => {
                let bytes = unit.coded_frame().map_or(0, |frame| frame.byte_count());
                Some(flac.samples_of(bytes))
            }
        }
    }
}

/// Returns how many samples at 48 kHz a packet of Opus lasts (RFC 6716 §3.1, §3.2).
fn opus_ticks(unit: &MediaUnit) -> Option<u32> {
    let start = match unit.coded_frame() {
        Some(frame) => frame.pieces().next()?,
        None => unit.payload(0)?,
    };
    let &first = start.first()?;
    let frame = match first >> 3 {
        mode @ 0..12 => [480, 960, 1920, 2880][usize::from(mode & 3)],
        mode @ 12..16 => [480, 960][usize::from(mode & 1)],
        mode => [120, 240, 480, 960][usize::from(mode & 3)],
    };
    let frames = match first & 3 {
        0 => 1,
        1 | 2 => 2,
        _ => u32::from(start.get(1)? & 0x3f),
    };
    // A packet has at most 120 ms.
    Some(frame * frames).filter(|ticks| (1..=5760).contains(ticks))
}

#[cfg(test)]
mod tests {
    use std::time::Instant;

    use glassline_media::{MediaTime, Stamps, TrackIndex, UnitBuilder};

    use super::*;

    #[test]
    fn packets_of_opus_tell_their_length() {
        for (packet, ticks) in [
            (&[0xfc, 1, 2][..], Some(960)),
            (&[0x00][..], Some(480)),
            (&[0x18][..], Some(2880)),
            (&[0x81][..], Some(240)),
            (&[0xff, 3][..], Some(2880)),
            (&[0xff, 0][..], None),
            (&[0xff][..], None),
            (&[0xff, 63][..], None),
        ] {
            let mut builder = UnitBuilder::default();
            builder.push(packet);
            let stamps = Stamps::arrived(Instant::now());
            let unit = builder.build(TrackIndex(0), MediaTime::ZERO, true, stamps);
            assert_eq!(Conversion::Opus.ticks(&unit.expect("a packet")), ticks);
        }
    }
}
