//! SRTP and SRTCP (RFC 3711) with the profiles of DTLS-SRTP (RFC 5764, RFC 7714).
//!
//! Master keys come from DTLS ([`derive()`]), or for one direction at a time from elsewhere, as RTSP
//! carries them ([`Outbound::with_master`], [`Inbound::with_master`]).
//!
//! [`Outbound`] owns every counter that is part of a nonce, so that a nonce cannot repeat;
//! [`Inbound`] estimates the rollover counter and rejects replays. Keys are expanded once per
//! session: sealing a packet takes one pass of the cipher and no allocation.
//!
//! ```
//! use glassline_media::Ssrc;
//! use glassline_rtp::{HEADER_BYTES, Header, write_header};
//! use glassline_webrtc::srtp::{Inbound, Outbound, Profile};
//!
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! // DTLS or a key exchange agrees on these; they are never used twice.
//! let (key, salt) = ([1; 16], [2; 12]);
//! let mut outbound = Outbound::with_master(Profile::AeadAes128Gcm, &key, &salt)?;
//! let mut inbound = Inbound::with_master(Profile::AeadAes128Gcm, &key, &salt)?;
//! let stream = outbound.add_stream(Ssrc(7), 1000)?;
//!
//! let header = Header {
//!     marker: false,
//!     payload_type: 111,
//!     sequence: 0, // filled in when sealing
//!     timestamp: 960,
//!     ssrc: Ssrc(0), // filled in when sealing
//! };
//! let mut datagram = [0; 1200];
//! write_header(&mut datagram, &header, &[]);
//! let sealed = outbound
//!     .seal(stream, HEADER_BYTES, b"an Opus packet", 0, &mut datagram)
//!     .ok_or("the packet fits the buffer")?;
//!
//! let opened = inbound.open(HEADER_BYTES, &mut datagram[..sealed.bytes])?;
//! assert_eq!(opened.index, 1000);
//! assert_eq!(&datagram[opened.payload], b"an Opus packet");
//! # Ok(())
//! # }
//! ```

mod inbound;
mod keys;
mod outbound;
mod replay;
#[cfg(test)]
mod tests;

pub use inbound::{Inbound, OpenError, Opened, RTP_SOURCES_MAX};
pub use outbound::{DuplicateSsrc, Outbound, SealedRtp, StreamIndex, Tag};

/// Most bytes that SRTCP adds to an RTCP packet: AEAD tag and index word.
pub const RTCP_OVERHEAD_MAX: usize = 20;

/// An SRTP protection profile, as DTLS negotiates it (RFC 5764 §4.1.2).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, derive_more::Display)]
#[display("{}", self.name())]
pub enum Profile {
    /// `SRTP_AES128_CM_HMAC_SHA1_80` (RFC 5764); costs four times as much as GCM.
    Aes128CmSha1_80,
    /// `SRTP_AEAD_AES_128_GCM` (RFC 7714); the cheapest of the three profiles.
    AeadAes128Gcm,
    /// `SRTP_AEAD_AES_256_GCM` (RFC 7714); costs about 8 % more than 128 bits.
    AeadAes256Gcm,
}

impl Profile {
    /// Length of the master key in bytes (RFC 5764 §4.1.2, RFC 7714 §14.2).
    pub const fn key_bytes(self) -> usize {
        match self {
            Self::Aes128CmSha1_80 | Self::AeadAes128Gcm => 16,
            Self::AeadAes256Gcm => 32,
        }
    }

    /// Length of the master salt in bytes.
    pub const fn salt_bytes(self) -> usize {
        match self {
            Self::Aes128CmSha1_80 => 14,
            Self::AeadAes128Gcm | Self::AeadAes256Gcm => 12,
        }
    }

    /// Length of the exported keying material in bytes: two keys and two salts (RFC 5764 §4.2).
    pub const fn material_bytes(self) -> usize {
        2 * (self.key_bytes() + self.salt_bytes())
    }

    /// Length of the authentication tag in bytes.
    pub const fn tag_bytes(self) -> usize {
        match self {
            Self::Aes128CmSha1_80 => 10,
            Self::AeadAes128Gcm | Self::AeadAes256Gcm => 16,
        }
    }

    /// Returns the name in the registry of DTLS-SRTP profiles.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Aes128CmSha1_80 => "SRTP_AES128_CM_HMAC_SHA1_80",
            Self::AeadAes128Gcm => "SRTP_AEAD_AES_128_GCM",
            Self::AeadAes256Gcm => "SRTP_AEAD_AES_256_GCM",
        }
    }
}

/// DTLS role of this end, which decides which half of the exported keys it uses (RFC 5764
/// §4.2).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Role {
    /// This end sent the ClientHello.
    Client,
    /// The peer sent the ClientHello.
    Server,
}

/// Keys do not have the length that their profile needs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{profile} needs {needed} bytes of keying material, got {got}")]
pub struct KeyError {
    /// Profile that was negotiated.
    pub profile: Profile,
    /// Number of bytes that the profile needs.
    pub needed: usize,
    /// Number of bytes that were passed.
    pub got: usize,
}

/// Derives the contexts of both directions from the keying material that DTLS exported (RFC
/// 5764 §4.2): client key, server key, client salt, server salt.
///
/// # Errors
/// [`KeyError`] if `material` is shorter than the profile needs.
pub fn derive(
    profile: Profile,
    material: &[u8],
    role: Role,
) -> Result<(Outbound, Inbound), KeyError> {
    if material.len() < profile.material_bytes() {
        return Err(KeyError {
            profile,
            needed: profile.material_bytes(),
            got: material.len(),
        });
    }
    let (keys, salts) = material.split_at(2 * profile.key_bytes());
    let (client_key, server_key) = keys.split_at(profile.key_bytes());
    let (client_salt, server_salt) =
        salts[..2 * profile.salt_bytes()].split_at(profile.salt_bytes());
    let client = keys::SessionKeys::derive(profile, client_key, client_salt);
    let server = keys::SessionKeys::derive(profile, server_key, server_salt);
    let (ours, theirs) = match role {
        Role::Client => (client, server),
        Role::Server => (server, client),
    };
    Ok((Outbound::new(ours), Inbound::new(theirs)))
}

/// Derives the session keys of one direction.
fn session_keys(profile: Profile, key: &[u8], salt: &[u8]) -> Result<keys::SessionKeys, KeyError> {
    if (key.len(), salt.len()) != (profile.key_bytes(), profile.salt_bytes()) {
        return Err(KeyError {
            profile,
            needed: profile.key_bytes() + profile.salt_bytes(),
            got: key.len() + salt.len(),
        });
    }
    Ok(keys::SessionKeys::derive(profile, key, salt))
}
