//! Key exchange for SRTP over RTSP (RFC 4567): MIKEY messages (RFC 3830) whose keys are not
//! encrypted, since TLS protects the connection around them.
//!
//! Reads and writes what GStreamer, gortsplib and cameras send: one pre-shared key message with
//! null encryption and a null MAC, one policy, and one traffic key with its salt.
//!
//! ```text
//! HDR, CS ID map ─► T (time) ─► RAND ─► SP (policy) ─► KEMAC (key)
//! ```

use std::fmt;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use glassline_media::{NtpTime, Ssrc};
use thiserror::Error;

/// Most streams in one message.
const STREAMS_MAX: usize = 64;

/// Longest message that is read, in bytes of base64.
const BYTES_MAX: usize = 4096;

/// Bytes of the longest master key with its salt.
const MASTER_BYTES_MAX: usize = Cipher::AesGcm256.master_bytes();

/// Payload types (RFC 3830 §6.1).
const LAST: u8 = 0;
const KEMAC: u8 = 1;
const TIME: u8 = 5;
const POLICY: u8 = 10;
const RANDOM: u8 = 11;

/// Cipher of SRTP and SRTCP packets.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Cipher {
    /// `AES_CM_128_HMAC_SHA1_80` (RFC 3711), which every peer supports.
    #[default]
    AesCm128,
    /// `AEAD_AES_128_GCM` (RFC 7714), with keys of 16 bytes.
    AesGcm128,
    /// `AEAD_AES_256_GCM` (RFC 7714), with keys of 32 bytes.
    AesGcm256,
}

impl Cipher {
    /// Returns the length of the master key, in bytes.
    pub const fn key_bytes(self) -> usize {
        match self {
            Self::AesCm128 | Self::AesGcm128 => 16,
            Self::AesGcm256 => 32,
        }
    }

    /// Returns the length of the master salt, in bytes.
    pub const fn salt_bytes(self) -> usize {
        match self {
            Self::AesCm128 => 14,
            Self::AesGcm128 | Self::AesGcm256 => 12,
        }
    }

    /// Returns the length of master key and master salt together, in bytes.
    pub const fn master_bytes(self) -> usize {
        self.key_bytes() + self.salt_bytes()
    }

    /// Returns the parameters of the cipher's policy (RFC 3830 §6.10.1, RFC 7714 §14.3): type,
    /// length and value of each. RTP and RTCP are both encrypted and authenticated.
    const fn policy(self) -> [[u8; 3]; 8] {
        let both = [[7, 1, 1], [8, 1, 1], [10, 1, 1]];
        let [rtp, rtcp, authenticated] = both;
        match self {
            Self::AesCm128 => [
                [0, 1, AES_CM],
                [1, 1, 16],
                [2, 1, HMAC_SHA1],
                [3, 1, 20],
                rtp,
                rtcp,
                authenticated,
                [11, 1, 10],
            ],
            Self::AesGcm128 | Self::AesGcm256 => {
                let key_bytes = if matches!(self, Self::AesGcm128) {
                    16
                } else {
                    32
                };
                [
                    [0, 1, AES_GCM],
                    [1, 1, key_bytes],
                    [2, 1, 0],
                    [3, 1, 0],
                    rtp,
                    rtcp,
                    authenticated,
                    [20, 1, 16],
                ]
            }
        }
    }
}

/// Values of the encryption and authentication algorithms in a policy.
const AES_CM: u8 = 1;
const AES_GCM: u8 = 6;
const HMAC_SHA1: u8 = 1;

/// The keys that protect the SRTP and SRTCP packets of one end.
#[derive(Clone, PartialEq, Eq)]
pub struct Keys {
    /// Identifier of the crypto session bundle (RFC 3830 §6.1), which names the exchange.
    pub csb_id: u32,
    /// SSRC and rollover counter of each stream.
    pub streams: Vec<(Ssrc, u32)>,
    /// The cipher that the keys are for.
    pub cipher: Cipher,
    /// Master key followed by the master salt, of the cipher's lengths.
    pub master: Vec<u8>,
}

impl fmt::Debug for Keys {
    /// Leaves the key out.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (csb_id, cipher, streams) = (self.csb_id, self.cipher, &self.streams);
        write!(f, "Keys({csb_id:08x}, {cipher:?}, {streams:?})")
    }
}

/// The reason why keys cannot be used. The peer is at fault; refuse its transport.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum Error {
    /// The text is not base64.
    #[error("the key management data is not base64")]
    Base64,
    /// The message ends early, or is longer than the bound.
    #[error("the MIKEY message ends within its {0}, or is longer than 4096 bytes")]
    Length(&'static str),
    /// The message uses an unknown way to exchange keys, or an unknown cipher.
    #[error("the MIKEY message has an unknown {what}: {value}")]
    Unknown {
        /// Name of the field.
        what: &'static str,
        /// Value of the field.
        value: u8,
    },
    /// The message holds no key.
    #[error("the MIKEY message holds no key")]
    NoKey,
}

impl Keys {
    /// Returns the message in base64, for `a=key-mgmt:mikey ` and for `data=`. `random`: 16
    /// unguessable bytes.
    pub fn to_base64(&self, time: NtpTime, random: &[u8; 16]) -> String {
        let count = self.streams.len().min(STREAMS_MAX);
        let mut out = vec![1, 0, TIME, 0];
        out.extend_from_slice(&self.csb_id.to_be_bytes());
        out.extend_from_slice(&[u8::try_from(count).unwrap_or(u8::MAX), 0]);
        for (ssrc, rollover_counter) in self.streams.iter().take(count) {
            out.push(0);
            out.extend_from_slice(&ssrc.0.to_be_bytes());
            out.extend_from_slice(&rollover_counter.to_be_bytes());
        }
        out.extend_from_slice(&[RANDOM, 0]);
        out.extend_from_slice(&time.0.to_be_bytes());
        out.extend_from_slice(&[POLICY, 16]);
        out.extend_from_slice(random);
        let policy = self.cipher.policy();
        out.extend_from_slice(&[KEMAC, 0, 0, 0, 24]);
        out.extend_from_slice(policy.as_flattened());
        // A traffic key without a lifetime, unencrypted, and no MAC.
        let master = &self.master[..self.master.len().min(MASTER_BYTES_MAX)];
        let length = u8::try_from(master.len()).unwrap_or(0);
        out.extend_from_slice(&[LAST, 0, 0, length + 4, 0, 0x20, 0, length]);
        out.extend_from_slice(master);
        out.push(0);
        STANDARD.encode(out)
    }

    /// Reads a message in base64.
    pub fn from_base64(text: &str) -> Result<Self, Error> {
        if text.len() > BYTES_MAX {
            return Err(Error::Length("text"));
        }
        let bytes = STANDARD.decode(text.trim()).map_err(|_| Error::Base64)?;
        Self::read(&bytes)
    }

    /// Returns the value of `KeyMgmt` with the message `base64` for the track at `url` (RFC
    /// 4567 §4.2); [`Keys::to_base64`] gives the message.
    pub fn header(base64: &str, url: &str) -> String {
        let url = url.replace('"', "%22");
        format!("prot=mikey;uri=\"{url}\";data=\"{base64}\"")
    }

    /// Returns the master key.
    pub fn key(&self) -> &[u8] {
        let bytes = self.cipher.key_bytes().min(self.master.len());
        &self.master[..bytes]
    }

    /// Returns the master salt.
    pub fn salt(&self) -> &[u8] {
        &self.master[self.key().len()..]
    }

    /// Reads `KeyMgmt: prot=mikey;uri="…";data="…"` (RFC 4567 §4.2); `None` if the header names
    /// another protocol.
    pub fn from_header(text: &str) -> Option<Result<Self, Error>> {
        let value = |key: &str| {
            text.split(';').find_map(|part| {
                let (name, value) = part.split_once('=')?;
                let found = name.trim().eq_ignore_ascii_case(key);
                found.then(|| value.trim().trim_matches('"'))
            })
        };
        let is_mikey = value("prot").is_some_and(|name| name.eq_ignore_ascii_case("mikey"));
        is_mikey.then(|| Self::from_base64(value("data").unwrap_or_default()))
    }

    fn read(bytes: &[u8]) -> Result<Self, Error> {
        let mut rest = Reader { bytes };
        let [version, kind, mut next, _] = rest.array("head")?;
        expect("version", version, 1)?;
        expect("data type", kind, 0)?;
        let csb_id = u32::from_be_bytes(rest.array("head")?);
        let [count, map] = rest.array("head")?;
        expect("CS ID map type", map, 0)?;
        if usize::from(count) > STREAMS_MAX {
            let (what, value) = ("number of streams", count);
            return Err(Error::Unknown { what, value });
        }
        let mut streams = Vec::new();
        for _ in 0..count {
            let [_policy] = rest.array("streams")?;
            let ssrc = Ssrc(u32::from_be_bytes(rest.array("streams")?));
            streams.push((ssrc, u32::from_be_bytes(rest.array("streams")?)));
        }
        let (mut cipher, mut master) = (Cipher::default(), None);
        while next != LAST {
            let [following] = rest.array("payload")?;
            match next {
                TIME => rest.skip_time()?,
                RANDOM => {
                    let [length] = rest.array("RAND")?;
                    rest.take(usize::from(length), "RAND")?;
                }
                POLICY => cipher = rest.policy()?,
                KEMAC => master = Some(rest.key()?),
                value => {
                    let what = "payload";
                    return Err(Error::Unknown { what, value });
                }
            }
            next = following;
        }
        let master: &[u8] = &master.ok_or(Error::NoKey)?;
        if master.len() != cipher.master_bytes() {
            return Err(Error::NoKey);
        }
        Ok(Self {
            csb_id,
            streams,
            cipher,
            master: master.to_vec(),
        })
    }
}

const fn expect(what: &'static str, value: u8, wanted: u8) -> Result<(), Error> {
    if value == wanted {
        return Ok(());
    }
    Err(Error::Unknown { what, value })
}

/// The unread bytes of a message.
struct Reader<'a> {
    bytes: &'a [u8],
}

impl<'a> Reader<'a> {
    fn take(&mut self, count: usize, what: &'static str) -> Result<&'a [u8], Error> {
        let (taken, rest) = self
            .bytes
            .split_at_checked(count)
            .ok_or(Error::Length(what))?;
        self.bytes = rest;
        Ok(taken)
    }

    fn array<const N: usize>(&mut self, what: &'static str) -> Result<[u8; N], Error> {
        let (taken, rest) = self.bytes.split_first_chunk().ok_or(Error::Length(what))?;
        self.bytes = rest;
        Ok(*taken)
    }

    /// Skips a timestamp: NTP times have 8 bytes, counters 4 (RFC 3830 §6.6).
    fn skip_time(&mut self) -> Result<(), Error> {
        let [kind] = self.array("T")?;
        let length = match kind {
            0 | 1 => 8,
            2 => 4,
            value => {
                let what = "time stamp type";
                return Err(Error::Unknown { what, value });
            }
        };
        self.take(length, "T").map(|_| ())
    }

    /// Reads a policy. Absent values have the defaults of RFC 3830 §6.10.1, which are those of
    /// [`Cipher::AesCm128`].
    ///
    /// The length of the authentication key is ignored, because GStreamer writes the tag's
    /// length there.
    fn policy(&mut self) -> Result<Cipher, Error> {
        let [_number, protocol, high, low] = self.array("SP")?;
        expect("security protocol", protocol, 0)?;
        let length = usize::from(u16::from_be_bytes([high, low]));
        let bytes = self.take(length, "SP")?;
        let mut parameters = Reader { bytes };
        let (mut encryption, mut key_bytes) = (AES_CM, 16);
        let (mut authentication, mut tag_bytes, mut aead_tag_bytes) = (HMAC_SHA1, 10, 16);
        while !parameters.bytes.is_empty() {
            let [kind, length] = parameters.array("SP")?;
            let value = parameters.take(usize::from(length), "SP")?;
            let value = *value.first().unwrap_or(&0);
            match kind {
                0 => encryption = value,
                1 => key_bytes = value,
                2 => authentication = value,
                7 => expect("encryption of SRTP", value, 1)?,
                8 => expect("encryption of SRTCP", value, 1)?,
                10 => expect("authentication of SRTP", value, 1)?,
                11 => tag_bytes = value,
                20 => aead_tag_bytes = value,
                _ => {}
            }
        }
        if encryption == AES_GCM {
            // GCM authenticates by itself, whatever the policy says about authentication.
            expect("tag length", aead_tag_bytes, 16)?;
            if key_bytes == 32 {
                return Ok(Cipher::AesGcm256);
            }
            expect("encryption key length", key_bytes, 16)?;
            return Ok(Cipher::AesGcm128);
        }
        expect("encryption algorithm", encryption, AES_CM)?;
        expect("encryption key length", key_bytes, 16)?;
        expect("authentication algorithm", authentication, HMAC_SHA1)?;
        expect("tag length", tag_bytes, 10)?;
        Ok(Cipher::AesCm128)
    }

    /// Reads one traffic key. The salt either follows the key within one field (GStreamer,
    /// gortsplib) or has a field of its own (RFC 3830 §6.13).
    fn key(&mut self) -> Result<Vec<u8>, Error> {
        let [encryption, high, low] = self.array("KEMAC")?;
        expect("key encryption", encryption, 0)?;
        let length = usize::from(u16::from_be_bytes([high, low]));
        let bytes = self.take(length, "KEMAC")?;
        let [mac] = self.array("KEMAC")?;
        expect("MAC algorithm", mac, 0)?;
        let mut data = Reader { bytes };
        let [_next, kind, high, low] = data.array("key data")?;
        let length = usize::from(u16::from_be_bytes([high, low]));
        let mut key = data.take(length, "key data")?.to_vec();
        match kind >> 4 {
            2 => {}
            3 => {
                let [high, low] = data.array("salt")?;
                let length = usize::from(u16::from_be_bytes([high, low]));
                key.extend_from_slice(data.take(length, "salt")?);
            }
            value => {
                let what = "key type";
                return Err(Error::Unknown { what, value });
            }
        }
        expect("key validity", kind & 15, 0)?;
        Ok(key)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// GStreamer's rtspclientsink 1.22, in SETUP.
    const GST: &str = "prot=mikey;uri=\"rtsp://127.0.0.1:28557/gst/stream=0\";data=\"AQAFAKcQgNMCAABFLolAAAAAAADnqew3AAAAAAsA7qvF+g0iY9gKEAYrJiRzY5K/5YdhrZA9ljMBAAAAFQABAQEBEAIBAQMBCgcBAQgBAQoBAQAAACIAIAAeZbn9JIXzz4Dymzu+83XpiYZN7mfdvo1ypJT5T4qRAA==\"";

    fn keys(streams: Vec<(Ssrc, u32)>) -> Keys {
        keys_with(Cipher::AesCm128, streams)
    }

    fn keys_with(cipher: Cipher, streams: Vec<(Ssrc, u32)>) -> Keys {
        Keys {
            csb_id: 7,
            streams,
            cipher,
            master: (0..=u8::MAX).take(cipher.master_bytes()).collect(),
        }
    }

    #[test]
    fn keys_of_gstreamer_are_read() {
        let keys = Keys::from_header(GST).expect("MIKEY").expect("keys");
        assert_eq!(keys.csb_id, 0xa710_80d3);
        let streams = [(Ssrc(0x452e_8940), 0), (Ssrc(0xe7a9_ec37), 0)];
        assert_eq!(keys.streams, streams);
        assert_eq!(keys.master[..4], [0x65, 0xb9, 0xfd, 0x24]);
        assert_eq!(keys.master[29], 0x91);
        assert_eq!((keys.cipher, keys.salt().len()), (Cipher::AesCm128, 14));
        assert!(!format!("{keys:?}").contains("65"), "the key stays within");
        assert_eq!(Keys::from_header("prot=sdp;data=\"AQ==\""), None);
    }

    #[test]
    fn what_cannot_be_used_is_named() {
        let text = keys(Vec::new()).to_base64(NtpTime(0), &[0; 16]);
        let bytes = STANDARD.decode(text).expect("base64");
        let with = |at: usize, value: u8| {
            let mut changed = bytes.clone();
            changed[at] = value;
            Keys::read(&changed)
        };
        let unknown = |what, value| Err(Error::Unknown { what, value });
        assert_eq!(with(0, 2), unknown("version", 2));
        assert_eq!(with(1, 4), unknown("data type", 4));
        assert_eq!(with(2, 7), unknown("payload", 7));
        assert_eq!(with(2, 0), Err(Error::NoKey));
        assert_eq!(with(45, 5), unknown("encryption algorithm", 5));
        assert_eq!(with(68, 1), unknown("key encryption", 1));
        assert_eq!(with(72, 0), unknown("key type", 0));
        assert_eq!(Keys::from_base64("$"), Err(Error::Base64));
        assert_eq!(Keys::from_base64(""), Err(Error::Length("head")));
        let long = "A".repeat(5000);
        assert_eq!(Keys::from_base64(&long), Err(Error::Length("text")));
        for end in 0..bytes.len() {
            assert!(Keys::read(&bytes[..end]).is_err(), "{end} bytes");
        }
    }

    proptest! {
        #[test]
        fn what_is_written_is_read_back(
            streams in prop::collection::vec(any::<(u32, u32)>(), 0..5),
            cipher in prop::sample::select(&[Cipher::AesCm128, Cipher::AesGcm128, Cipher::AesGcm256][..]),
            time: u64,
        ) {
            let streams = streams.into_iter().map(|(ssrc, rollover_counter)| (Ssrc(ssrc), rollover_counter));
            let keys = keys_with(cipher, streams.collect());
            let text = keys.to_base64(NtpTime(time), &[9; 16]);
            let header = Keys::header(&text, "rtsps://h/cam?x=1/trackID=0");
            prop_assert_eq!(Keys::from_header(&header), Some(Ok(keys.clone())));
            prop_assert_eq!(Keys::from_base64(&text), Ok(keys));
        }

        #[test]
        fn no_bytes_panic(bytes in prop::collection::vec(any::<u8>(), 0..80), at in 0usize..120, value: u8) {
            let _ = Keys::read(&bytes);
            let text = keys(vec![(Ssrc(1), 2)]).to_base64(NtpTime(0), &[0; 16]);
            let mut changed = STANDARD.decode(text).expect("base64");
            if let Some(byte) = changed.get_mut(at) {
                *byte = value;
            }
            let _ = Keys::read(&changed);
        }
    }
}
