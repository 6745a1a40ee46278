use std::ops::Range;

use glassline_media::Ssrc;
use glassline_rtp::SequenceExtender;

use super::keys::{ENCRYPTED, SessionKeys, rtcp_ssrc};
use super::replay::{ReplayCheck, ReplayWindow};
use super::{KeyError, Profile, session_keys};

/// Most SSRCs under which one peer may send, for RTP and for RTCP each.
///
/// A peer in a call with screen, camera, audio and their retransmissions needs six; the limit
/// only keeps a hostile peer from using up memory.
pub const RTP_SOURCES_MAX: usize = 32;

/// Opens the packets that are received: estimates the rollover counter, authenticates,
/// decrypts, and rejects replays.
#[derive(derive_more::Debug)]
#[debug("Inbound {{ sources: {:?}, .. }}", self.rtp.len())]
pub struct Inbound {
    keys: SessionKeys,
    rtp: Vec<SourceState>,
    rtcp: Vec<SourceState>,
}

/// An SSRC and the replay window of its packets.
struct SourceState {
    ssrc: [u8; 4],
    window: ReplayWindow,
}

/// An authentic packet, decrypted in place.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Opened {
    /// 48-bit packet index: rollover counter and sequence number.
    pub index: u64,
    /// Range of the payload within the datagram.
    pub payload: Range<usize>,
}

/// The reason why a packet was not opened. The peer or the network is at fault; drop and count the
/// packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum OpenError {
    /// The packet is shorter than header and tag.
    #[error("shorter than its header and tag")]
    Short,
    /// SRTCP without the E flag, that is without encryption, which DTLS-SRTP peers never send.
    #[error("SRTCP without encryption")]
    Clear,
    /// The packet was received before.
    #[error("replayed")]
    Replayed,
    /// The packet is older than the replay window of 128 packets.
    #[error("older than the replay window")]
    Stale,
    /// The tag is wrong: the packet is forged, damaged, or sealed under other keys.
    #[error("authentication failed")]
    Forged,
    /// The peer uses more than [`RTP_SOURCES_MAX`] SSRCs.
    #[error("too many SSRCs")]
    TooManySources,
}

impl Inbound {
    pub(super) fn new(keys: SessionKeys) -> Self {
        Self {
            keys,
            rtp: Vec::new(),
            rtcp: Vec::new(),
        }
    }

    /// Creates a context from a master key and its salt (RFC 3711 §4.3).
    ///
    /// # Errors
    /// [`KeyError`] if the lengths are not those of the profile.
    pub fn with_master(profile: Profile, key: &[u8], salt: &[u8]) -> Result<Self, KeyError> {
        session_keys(profile, key, salt).map(Self::new)
    }

    /// Opens one RTP packet whose unencrypted header has `header_bytes` bytes (at least 12).
    ///
    /// # Errors
    /// [`OpenError`]. The bytes of the datagram are undefined then.
    pub fn open(&mut self, header_bytes: usize, packet: &mut [u8]) -> Result<Opened, OpenError> {
        let sequence = packet.get(2..4).and_then(|bytes| bytes.try_into().ok());
        let ssrc = packet.get(8..12).and_then(|bytes| bytes.try_into().ok());
        let (Some(sequence), Some(ssrc)) = (sequence, ssrc) else {
            return Err(OpenError::Short);
        };
        if packet.len() < header_bytes + self.keys.rtp.tag_bytes() {
            return Err(OpenError::Short);
        }
        let sequence = u16::from_be_bytes(sequence);
        let position = self.rtp.iter().position(|source| source.ssrc == ssrc);
        let window = position.map_or_else(ReplayWindow::default, |at| self.rtp[at].window);
        // The index nearest to the highest one so far (RFC 3711 §3.3.1); a stream begins with
        // rollover counter zero.
        let index = window.highest().map_or(u64::from(sequence), |highest| {
            SequenceExtender::near(highest, sequence)
        });
        fresh(window.check(index))?;
        if position.is_none() && self.rtp.len() >= RTP_SOURCES_MAX {
            return Err(OpenError::TooManySources);
        }
        let payload_bytes = self
            .keys
            .rtp
            .open_rtp(ssrc, index, header_bytes, packet)
            .ok_or(OpenError::Forged)?;
        accept(&mut self.rtp, position, ssrc, index);
        Ok(Opened {
            index,
            payload: header_bytes..header_bytes + payload_bytes,
        })
    }

    /// Opens one RTCP compound packet. Returns its length in bytes; it stands at the front of
    /// `packet`.
    ///
    /// # Errors
    /// [`OpenError`]. The bytes of the datagram are undefined then.
    pub fn open_rtcp(&mut self, packet: &mut [u8]) -> Result<usize, OpenError> {
        let word = self.keys.rtcp.rtcp_word(packet).ok_or(OpenError::Short)?;
        let ssrc = rtcp_ssrc(packet).ok_or(OpenError::Short)?;
        if word & ENCRYPTED == 0 {
            return Err(OpenError::Clear);
        }
        let index = u64::from(word & !ENCRYPTED);
        let position = self.rtcp.iter().position(|source| source.ssrc == ssrc);
        if let Some(at) = position {
            fresh(self.rtcp[at].window.check(index))?;
        } else if self.rtcp.len() >= RTP_SOURCES_MAX {
            return Err(OpenError::TooManySources);
        }
        let bytes = self
            .keys
            .rtcp
            .open_rtcp(word, packet)
            .ok_or(OpenError::Forged)?;
        accept(&mut self.rtcp, position, ssrc, index);
        Ok(bytes)
    }

    /// Returns the SSRCs from which authentic RTP was received.
    pub fn sources(&self) -> impl Iterator<Item = Ssrc> + '_ {
        self.rtp
            .iter()
            .map(|source| Ssrc(u32::from_be_bytes(source.ssrc)))
    }
}

fn fresh(check: ReplayCheck) -> Result<(), OpenError> {
    match check {
        ReplayCheck::Fresh => Ok(()),
        ReplayCheck::Replayed => Err(OpenError::Replayed),
        ReplayCheck::Stale => Err(OpenError::Stale),
    }
}

fn accept(sources: &mut Vec<SourceState>, position: Option<usize>, ssrc: [u8; 4], index: u64) {
    if let Some(at) = position {
        sources[at].window.accept(index);
    } else {
        let mut window = ReplayWindow::default();
        window.accept(index);
        sources.push(SourceState { ssrc, window });
    }
}
