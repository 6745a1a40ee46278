use glassline_media::Ssrc;
use smallvec::SmallVec;

use super::keys::SessionKeys;
use super::{KeyError, Profile, session_keys};

/// Seals the packets that are sent.
///
/// # No nonce twice
/// A nonce consists of key, SSRC and packet index. This type is the only holder of its keys (it is
/// not `Clone`), and the only one to count an SSRC's indices
/// ([`add_stream`](Self::add_stream) refuses an SSRC a second time). Every method that seals new
/// bytes takes `&mut self` and increments the count before it returns, even when sealing fails. So
/// one nonce seals at most one new packet.
///
/// [`reseal`](Self::reseal) repeats an old nonce and therefore returns its bytes only if the tag
/// equals the first one: the tag authenticates header and payload, so equal tags mean equal
/// packets, and the network learns nothing that it has not already seen.
#[derive(derive_more::Debug)]
#[debug("Outbound {{ streams: {:?}, .. }}", self.streams.len())]
pub struct Outbound {
    keys: SessionKeys,
    streams: SmallVec<[Stream; 4]>,
    rtcp_index: u32,
}

/// A stream: its SSRC and the index of its next packet.
struct Stream {
    ssrc: [u8; 4],
    next: u64,
}

/// A stream registered with [`Outbound::add_stream`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct StreamIndex(usize);

/// The first bytes of an authentication tag; equal tags mean equal packets.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Tag(u64);

/// A sealed packet in the caller's buffer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SealedRtp {
    /// Length of the packet in bytes, header and tag included.
    pub bytes: usize,
    /// 48-bit packet index: rollover counter and sequence number.
    pub index: u64,
    /// Tag of the packet; keep it if the packet may be sealed again.
    pub tag: Tag,
}

/// An SSRC is registered twice; two streams with the same SSRC would share nonces.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("SSRC {0} is already sealed under these keys; draw another")]
pub struct DuplicateSsrc(pub Ssrc);

/// Range of the sequence number within the fixed header (RFC 3550 §5.1).
const SEQUENCE: std::ops::Range<usize> = 2..4;
/// Range of the SSRC within the fixed header.
const SSRC: std::ops::Range<usize> = 8..12;
/// End of packet indices, which have 48 bits (RFC 3711 §3.3.1).
const INDEX_END: u64 = 1 << 48;
/// Largest SRTCP index, a field of 31 bits (RFC 3711 §3.4).
const RTCP_INDEX_MAX: u32 = 0x7fff_ffff;

impl Outbound {
    pub(super) fn new(keys: SessionKeys) -> Self {
        Self {
            keys,
            streams: SmallVec::new(),
            rtcp_index: 0,
        }
    }

    /// Creates a context from a master key and its salt (RFC 3711 §4.3). Nobody else may use
    /// them, and they may not be passed twice: each context counts from the start.
    ///
    /// # Errors
    /// [`KeyError`] if the lengths are not those of the profile.
    pub fn with_master(profile: Profile, key: &[u8], salt: &[u8]) -> Result<Self, KeyError> {
        session_keys(profile, key, salt).map(Self::new)
    }

    /// Registers a stream that starts at sequence number `first`.
    ///
    /// # Errors
    /// [`DuplicateSsrc`] if the SSRC is registered already.
    pub fn add_stream(&mut self, ssrc: Ssrc, first: u16) -> Result<StreamIndex, DuplicateSsrc> {
        let bytes = ssrc.0.to_be_bytes();
        if self.streams.iter().any(|stream| stream.ssrc == bytes) {
            return Err(DuplicateSsrc(ssrc));
        }
        self.streams.push(Stream {
            ssrc: bytes,
            next: u64::from(first),
        });
        Ok(StreamIndex(self.streams.len() - 1))
    }

    /// Reads what sealing needs, see [`Session::prefetch`](crate::Session::prefetch).
    pub(crate) fn prefetch(&self) -> u64 {
        let streams = self.streams.iter().map(|stream| stream.next).sum::<u64>();
        streams ^ self.overhead() as u64
    }

    /// Returns the number of bytes that sealing adds to an RTP packet.
    pub fn overhead(&self) -> usize {
        self.keys.rtp.tag_bytes()
    }

    /// Returns the 48-bit index of the stream's next packet: how often its sequence numbers
    /// have wrapped, and the next number. `None` if there is no such stream.
    pub fn next_index(&self, stream: StreamIndex) -> Option<u64> {
        self.streams.get(stream.0).map(|stream| stream.next)
    }

    /// Skips the stream's next `count` indices: nothing is ever sealed under them. Returns the
    /// index behind them; `None` if the indices are used up, or there is no such stream.
    pub fn skip(&mut self, stream: StreamIndex, count: u16) -> Option<u64> {
        let stream = self.streams.get_mut(stream.0)?;
        let next = stream.next + u64::from(count);
        (next < INDEX_END).then(|| {
            stream.next = next;
            next
        })
    }

    /// Seals `payload` behind the RTP header of `header_bytes` bytes with which `out` begins;
    /// fills in sequence number and SSRC.
    ///
    /// `padding` bytes (RFC 3550 §5.1) follow the payload; the caller sets the padding bit of
    /// the header.
    ///
    /// Returns `None` if `out` is too small or the stream's 2⁴⁸ indices are used up.
    pub fn seal(
        &mut self,
        stream: StreamIndex,
        header_bytes: usize,
        payload: &[u8],
        padding: u8,
        out: &mut [u8],
    ) -> Option<SealedRtp> {
        let bytes = header_bytes + payload.len() + usize::from(padding) + self.overhead();
        let out = out.get_mut(..bytes)?;
        let (ssrc, index) = self.take_index(stream, out)?;
        self.keys
            .rtp
            .seal_rtp(ssrc, index, header_bytes, payload, padding, out)?;
        Some(self.sealed(index, out))
    }

    /// Like [`seal`](Self::seal), with `payload_bytes` bytes of payload already behind the
    /// header.
    pub fn seal_in_place(
        &mut self,
        stream: StreamIndex,
        header_bytes: usize,
        payload_bytes: usize,
        out: &mut [u8],
    ) -> Option<SealedRtp> {
        let bytes = header_bytes + payload_bytes + self.overhead();
        let out = out.get_mut(..bytes)?;
        let (ssrc, index) = self.take_index(stream, out)?;
        self.keys
            .rtp
            .seal_rtp_in_place(ssrc, index, header_bytes, out)?;
        Some(self.sealed(index, out))
    }

    /// Produces the bytes of an earlier packet again.
    ///
    /// Returns `None`, with `out` cleared, unless header and payload are those for which `tag`
    /// was made; also for an index that was not used yet.
    pub fn reseal(
        &self,
        stream: StreamIndex,
        index: u64,
        tag: Tag,
        header_bytes: usize,
        payload: &[u8],
        out: &mut [u8],
    ) -> Option<usize> {
        let bytes = header_bytes + payload.len() + self.overhead();
        let out = out.get_mut(..bytes)?;
        let stream = self.streams.get(stream.0)?;
        if index >= stream.next {
            return None;
        }
        write_index(out, stream.ssrc, index)?;
        self.keys
            .rtp
            .seal_rtp(stream.ssrc, index, header_bytes, payload, 0, out)?;
        if self.sealed(index, out).tag != tag {
            out.fill(0);
            return None;
        }
        Some(bytes)
    }

    /// Seals an RTCP compound packet, and appends tag and index.
    ///
    /// Returns false, and `packet` must not be sent, for a packet under 8 bytes or after 2³¹
    /// packets.
    pub fn seal_rtcp(&mut self, packet: &mut Vec<u8>) -> bool {
        if self.rtcp_index >= RTCP_INDEX_MAX {
            return false;
        }
        self.rtcp_index += 1;
        self.keys.rtcp.seal_rtcp(self.rtcp_index, packet).is_some()
    }

    /// Takes the next index of a stream permanently and writes it into the header.
    fn take_index(&mut self, stream: StreamIndex, out: &mut [u8]) -> Option<([u8; 4], u64)> {
        let stream = self.streams.get_mut(stream.0)?;
        let index = stream.next;
        if index >= INDEX_END {
            return None;
        }
        stream.next += 1;
        write_index(out, stream.ssrc, index)?;
        Some((stream.ssrc, index))
    }

    fn sealed(&self, index: u64, out: &[u8]) -> SealedRtp {
        let start = out.len() - self.overhead();
        let mut tag = [0; 8];
        tag.copy_from_slice(&out[start..start + 8]);
        SealedRtp {
            bytes: out.len(),
            index,
            tag: Tag(u64::from_ne_bytes(tag)),
        }
    }
}

// The sequence number is the low 16 bits of the index.
fn write_index(out: &mut [u8], ssrc: [u8; 4], index: u64) -> Option<()> {
    out.get_mut(SEQUENCE)?
        .copy_from_slice(&(index as u16).to_be_bytes());
    out.get_mut(SSRC)?.copy_from_slice(&ssrc);
    Some(())
}
