//! SRTP and SRTCP (RFC 3711) with the profiles DTLS offers (RFC 5764, RFC 7714).
//!
//! Master keys come from DTLS ([`derive()`]), or one end's at a time from elsewhere, as
//! RTSP carries them ([`Outbound::with_master`], [`Inbound::with_master`]).
//!
//! [`Outbound`] owns every counter that makes a nonce, so that a nonce cannot
//! repeat; [`Inbound`] estimates the rollover counter and rejects replays.
//! Keys are expanded once per session: sealing a packet costs one pass of the
//! cipher and nothing is allocated.

mod inbound;
mod keys;
mod outbound;
mod replay;
#[cfg(test)]
mod tests;

pub use inbound::{Inbound, OpenError, Opened, RTP_SOURCES_MAX};
pub use outbound::{DuplicateSsrc, Outbound, SealedRtp, StreamId, Tag};

/// Bytes that SRTP adds to an RTP packet at most: the tag of AEAD (RFC 7714 §13.1).
pub const RTP_OVERHEAD_MAX: usize = 16;

/// Bytes that SRTCP adds to an RTCP packet at most: AEAD tag and index word.
pub const RTCP_OVERHEAD_MAX: usize = 20;

/// A protection profile, as negotiated by DTLS (RFC 5764 §4.1.2).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Profile {
    /// `SRTP_AES128_CM_HMAC_SHA1_80` (RFC 5764): four times the cost of GCM.
    Aes128CmSha1_80,
    /// `SRTP_AEAD_AES_128_GCM` (RFC 7714).
    AeadAes128Gcm,
    /// `SRTP_AEAD_AES_256_GCM` (RFC 7714): about 8 % dearer than 128 bits.
    AeadAes256Gcm,
}

impl Profile {
    /// Bytes of the master key (RFC 5764 §4.1.2, RFC 7714 §14.2).
    pub const fn key_bytes(self) -> usize {
        match self {
            Self::Aes128CmSha1_80 | Self::AeadAes128Gcm => 16,
            Self::AeadAes256Gcm => 32,
        }
    }

    /// Bytes of the master salt.
    pub const fn salt_bytes(self) -> usize {
        match self {
            Self::Aes128CmSha1_80 => 14,
            Self::AeadAes128Gcm | Self::AeadAes256Gcm => 12,
        }
    }

    /// Bytes that the exporter gives: two keys and two salts (RFC 5764 §4.2).
    pub const fn material_bytes(self) -> usize {
        2 * (self.key_bytes() + self.salt_bytes())
    }

    /// Bytes of the authentication tag.
    pub const fn tag_bytes(self) -> usize {
        match self {
            Self::Aes128CmSha1_80 => 10,
            Self::AeadAes128Gcm | Self::AeadAes256Gcm => 16,
        }
    }

    /// The name in the registry of DTLS-SRTP profiles.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Aes128CmSha1_80 => "SRTP_AES128_CM_HMAC_SHA1_80",
            Self::AeadAes128Gcm => "SRTP_AEAD_AES_128_GCM",
            Self::AeadAes256Gcm => "SRTP_AEAD_AES_256_GCM",
        }
    }
}

impl std::fmt::Display for Profile {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(self.name())
    }
}

/// Which half of the exported keys is ours (RFC 5764 §4.2).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Role {
    /// We sent the DTLS ClientHello.
    Client,
    /// We answered it.
    Server,
}

/// Keys have the wrong length for their profile.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{profile} needs {needed} bytes of keying material, got {got}")]
pub struct KeyError {
    /// The negotiated profile.
    pub profile: Profile,
    /// Bytes that it needs.
    pub needed: usize,
    /// Bytes given.
    pub got: usize,
}

/// Derives both directions from what DTLS exported (RFC 5764 §4.2):
/// client key, server key, client salt, server salt.
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
    let client = keys::Session::derive(profile, client_key, client_salt);
    let server = keys::Session::derive(profile, server_key, server_salt);
    let (ours, theirs) = match role {
        Role::Client => (client, server),
        Role::Server => (server, client),
    };
    Ok((Outbound::new(ours), Inbound::new(theirs)))
}

/// The session keys of one direction.
fn session_of(profile: Profile, key: &[u8], salt: &[u8]) -> Result<keys::Session, KeyError> {
    if (key.len(), salt.len()) != (profile.key_bytes(), profile.salt_bytes()) {
        return Err(KeyError {
            profile,
            needed: profile.key_bytes() + profile.salt_bytes(),
            got: key.len() + salt.len(),
        });
    }
    Ok(keys::Session::derive(profile, key, salt))
}
