//! Access units into RTP payloads and back, one format a codec.
//!
//! ```text
//! demux::Frame.data ─► Packetiser::packetise ─► BurstBuilder (payloads) ─► hub
//! packets in order ─► Depacketiser ─► Unit.data, the same bytes
//! ```
//!
//! What goes in is what [`Packetiser::packetise`] says for each codec, the same
//! whatever container or network it came from. What comes out fits
//! [`PAYLOAD_BYTES_MAX`] and holds nothing of a receiver.

use glassline_media::{BurstBuilder, Codec, PAYLOAD_BYTES_MAX, Track, annexb};

use crate::h264;

mod depacketiser;
pub mod h265;

pub use crate::h264::Counters;
pub use depacketiser::{Depacketiser, Unit, Unreceivable};

/// Cuts the access units of one track into payloads.
///
/// Keeps what a format counts from unit to unit, such as VP8's picture number.
#[derive(Clone, Debug)]
pub struct Packetiser {
    codec: Codec,
}

/// An access unit that the codec's payload format cannot carry; it is to be
/// counted and left out.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Unsendable {
    /// A unit that cannot be cut is longer than a datagram takes.
    #[error("a packet of {bytes} bytes does not fit a datagram, which takes {max}")]
    TooLong {
        /// Its size.
        bytes: usize,
        /// What fits.
        max: usize,
    },
    /// The bytes are not what the codec says.
    #[error("not an access unit of {codec}: {reason}")]
    Malformed {
        /// What it should be.
        codec: Codec,
        /// What is wrong with it.
        reason: &'static str,
    },
    /// No payload format is known for the codec.
    #[error("{0} cannot be sent over RTP")]
    NoFormat(Codec),
}

impl Packetiser {
    /// For units of `track`.
    pub fn new(track: &Track) -> Self {
        Self { codec: track.codec }
    }

    /// Appends the payloads of one access unit to `out`: none if there is nothing
    /// to send of it.
    ///
    /// H.264: Annex-B bytes. Opus: a packet. G.711: samples.
    ///
    /// # Errors
    /// [`Unsendable`]; `out` may hold a part of the unit then, and is to be dropped.
    pub fn packetise(&mut self, unit: &[u8], out: &mut BurstBuilder) -> Result<(), Unsendable> {
        match self.codec {
            Codec::H264 => h264::packetise(annexb::nals(unit), PAYLOAD_BYTES_MAX, out),
            Codec::H265 => h265::packetise(annexb::nals(unit), PAYLOAD_BYTES_MAX, out),
            Codec::Opus | Codec::Pcmu | Codec::Pcma | Codec::L16 | Codec::T140 => whole(unit, out)?,
            codec => return Err(Unsendable::NoFormat(codec)),
        }
        Ok(())
    }
}

/// The value of one of a track's format parameters (SDP's `a=fmtp`), named in any
/// case, such as `sizelength`; quotes around it are removed.
pub fn parameter<'a>(parameters: &'a str, name: &str) -> Option<&'a str> {
    parameters.split(';').find_map(|part| {
        let (key, value) = part.split_once('=')?;
        let found = key.trim().eq_ignore_ascii_case(name);
        found.then(|| value.trim().trim_matches('"'))
    })
}

/// `bytes` in as few pieces of at most `room` bytes (at least 1) as there can be,
/// all of one size but for a shorter last: segmentation offload takes such in one
/// call.
fn equal_pieces(bytes: &[u8], room: usize) -> std::slice::Chunks<'_, u8> {
    let count = bytes.len().div_ceil(room.max(1)).max(1);
    bytes.chunks(bytes.len().div_ceil(count).max(1))
}

/// A unit that is a payload as it is, and cannot be cut.
fn whole(unit: &[u8], out: &mut BurstBuilder) -> Result<(), Unsendable> {
    if unit.len() > PAYLOAD_BYTES_MAX {
        return Err(Unsendable::TooLong {
            bytes: unit.len(),
            max: PAYLOAD_BYTES_MAX,
        });
    }
    out.push(unit);
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_cannot_be_cut_must_fit() {
        let mut opus = Packetiser::new(&Track::audio(Codec::Opus, 2));
        let mut out = BurstBuilder::default();
        assert_eq!(opus.packetise(&[1; 1150], &mut out), Ok(()));
        assert_eq!(out.packet_count(), 1);
        let refused = opus.packetise(&[1; 1151], &mut out);
        assert!(
            matches!(refused, Err(Unsendable::TooLong { bytes: 1151, .. })),
            "{refused:?}"
        );
    }
}
