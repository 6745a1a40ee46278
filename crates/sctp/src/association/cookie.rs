//! The state cookie: everything that the end that receives an INIT must remember, handed to
//! the peer for safekeeping and authenticated with a key of our own (RFC 9260 §5.1.3). An
//! INIT therefore takes no memory.

use std::time::Duration;

use blake2::Blake2sMac256;
use blake2::digest::{FixedOutput, KeyInit, Mac, Update};
use glassline_media::fields::{u16_at, u32_at};

use crate::chunk::parameter::Extensions;

/// Bytes of a cookie's content, without the authentication code behind it.
const CONTENT_BYTES: usize = 8 + 7 * 4 + 2 * 2 + 1;
/// Bytes of the authentication code: keyed BLAKE2s (RFC 7693).
const MAC_BYTES: usize = 32;
/// Bytes of a whole cookie: content and authentication code.
pub(super) const COOKIE_BYTES: usize = CONTENT_BYTES + MAC_BYTES;

/// The fields of an INIT or INIT ACK that describe its sender (RFC 9260 §3.3.2).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct PeerParameters {
    /// Verification tag that packets to the peer must bear; not zero once known.
    pub(super) tag: u32,
    /// First TSN that the peer sends.
    pub(super) initial_tsn: u32,
    /// Receive window that the peer announces (a_rwnd), in bytes.
    pub(super) window: u32,
    /// Streams that the peer sends on.
    pub(super) outbound: u16,
    /// Streams that the peer accepts from us.
    pub(super) inbound: u16,
    /// Protocol extensions that the peer supports.
    pub(super) extensions: Extensions,
}

/// The content of a state cookie.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Cookie {
    /// When the cookie was made: time since the association object was created.
    pub(super) made: Duration,
    /// The peer, as its INIT described it.
    pub(super) peer: PeerParameters,
    /// Verification tag that our INIT ACK announced.
    pub(super) own_tag: u32,
    /// Initial TSN that our INIT ACK announced.
    pub(super) own_tsn: u32,
    /// Tie-tags, which recognize a peer that restarted (RFC 9260 §5.2.2).
    pub(super) tie_tags: TieTags,
}

/// The tie-tags of a cookie: both ends' verification tags at the time of the INIT (RFC 9260
/// §5.2.2), zero if there was no association.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct TieTags {
    /// Our verification tag at the time of the INIT.
    pub(super) own: u32,
    /// The peer's verification tag at the time of the INIT.
    pub(super) peer: u32,
}

/// The tag and first TSN with which we begin an association.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct OwnInit {
    /// Verification tag that packets to us must bear; not zero.
    pub(super) tag: u32,
    /// First TSN that we send.
    pub(super) initial_tsn: u32,
}

impl Cookie {
    /// Serializes the cookie and appends its authentication code under `key`.
    pub(super) fn seal(&self, key: &[u8; 32]) -> [u8; COOKIE_BYTES] {
        let mut content = [0; CONTENT_BYTES];
        let micros = u64::try_from(self.made.as_micros()).unwrap_or(u64::MAX);
        content[..8].copy_from_slice(&micros.to_be_bytes());
        let words = [
            self.peer.tag,
            self.peer.initial_tsn,
            self.peer.window,
            self.own_tag,
            self.own_tsn,
            self.tie_tags.own,
            self.tie_tags.peer,
        ];
        for (place, word) in content[8..36].chunks_exact_mut(4).zip(words) {
            place.copy_from_slice(&word.to_be_bytes());
        }
        content[36..38].copy_from_slice(&self.peer.outbound.to_be_bytes());
        content[38..40].copy_from_slice(&self.peer.inbound.to_be_bytes());
        content[40] = bits(self.peer.extensions);
        let mut sealed = [0; COOKIE_BYTES];
        sealed[..CONTENT_BYTES].copy_from_slice(&content);
        let code = keyed(key, b"cookie", &content).finalize_fixed();
        sealed[CONTENT_BYTES..].copy_from_slice(&code);
        sealed
    }

    /// Reads a cookie. Returns `None` unless [`seal`](Self::seal) made it with the same
    /// `key`.
    pub(super) fn open(bytes: &[u8], key: &[u8; 32]) -> Option<Self> {
        if bytes.len() != COOKIE_BYTES {
            return None;
        }
        let (content, code) = bytes.split_at(CONTENT_BYTES);
        // The comparison takes constant time.
        keyed(key, b"cookie", content).verify_slice(code).ok()?;
        let micros = u64::from(u32_at(content, 0)) << 32 | u64::from(u32_at(content, 4));
        Some(Self {
            made: Duration::from_micros(micros),
            peer: PeerParameters {
                tag: u32_at(content, 8),
                initial_tsn: u32_at(content, 12),
                window: u32_at(content, 16),
                outbound: u16_at(content, 36),
                inbound: u16_at(content, 38),
                extensions: extensions(content[40]),
            },
            own_tag: u32_at(content, 20),
            own_tsn: u32_at(content, 24),
            tie_tags: TieTags {
                own: u32_at(content, 28),
                peer: u32_at(content, 32),
            },
        })
    }
}

/// Derives the tag and first TSN for the association that would replace an existing one
/// (RFC 9260 §5.2.2). The values are unpredictable without `key`, and the same INIT always
/// gives the same values, so nothing has to be remembered between INIT and COOKIE ECHO.
pub(super) fn derive_restart(key: &[u8; 32], peer_tag: u32, own_tag: u32) -> OwnInit {
    let mut seed = [0; 8];
    seed[..4].copy_from_slice(&peer_tag.to_be_bytes());
    seed[4..].copy_from_slice(&own_tag.to_be_bytes());
    let drawn = keyed(key, b"renew", &seed).finalize_fixed();
    OwnInit {
        tag: u32_at(&drawn, 0).max(1),
        initial_tsn: u32_at(&drawn, 4),
    }
}

/// Returns a BLAKE2s MAC over `purpose` and `content`; `purpose` separates the uses of one
/// key.
fn keyed(key: &[u8; 32], purpose: &[u8], content: &[u8]) -> Blake2sMac256 {
    let mut mac = <Blake2sMac256 as KeyInit>::new(key.into());
    Update::update(&mut mac, purpose);
    Update::update(&mut mac, content);
    mac
}

/// Packs the extensions into the low four bits of a byte.
fn bits(it: Extensions) -> u8 {
    u8::from(it.forward_tsn)
        | u8::from(it.re_config) << 1
        | u8::from(it.interleaving) << 2
        | u8::from(it.zero_checksum) << 3
}

/// Unpacks what [`bits`] packed.
const fn extensions(bits: u8) -> Extensions {
    Extensions {
        forward_tsn: bits & 1 != 0,
        re_config: bits & 2 != 0,
        interleaving: bits & 4 != 0,
        zero_checksum: bits & 8 != 0,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_cookie_opens_with_its_key_unchanged_only() {
        let cookie = Cookie {
            made: Duration::from_micros(123_456_789),
            peer: PeerParameters {
                tag: 1,
                initial_tsn: 2,
                window: 3,
                outbound: 4,
                inbound: 5,
                extensions: extensions(0b1010),
            },
            own_tag: 6,
            own_tsn: 7,
            tie_tags: TieTags { own: 8, peer: 9 },
        };
        let sealed = cookie.seal(&[1; 32]);
        assert_eq!(Cookie::open(&sealed, &[1; 32]), Some(cookie));
        assert_eq!(Cookie::open(&sealed, &[2; 32]), None);
        assert_eq!(Cookie::open(&sealed[1..], &[1; 32]), None);
        for at in 0..COOKIE_BYTES {
            let mut forged = sealed;
            forged[at] ^= 1;
            assert_eq!(Cookie::open(&forged, &[1; 32]), None, "byte {at}");
        }
    }
}
