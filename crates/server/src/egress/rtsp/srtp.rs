//! SRTP within RTSPS: keys of one client alone (RFC 3711, RFC 4567).
//!
//! ```text
//! DESCRIBE ─► Keyring: a fresh key for each track, told in the description
//! SETUP ────► TrackSrtp: takes its track's key, and counts its packets from then on
//! Ring entry ─ TrackSrtp ─► bytes that nobody else gets ─► ConnectionWriter, Udp
//! a publisher's packets ─ TrackSrtp ─► Recording, whose reports go back sealed
//! ```
//!
//! What a client with keys costs is its own: its packets are sealed for it one by one,
//! those of all others are still made once. Its sequence numbers are its own, too, since
//! they are half of what no key may seal twice: they begin in the lower half of their
//! range (RFC 3711 §3.3.1) and have no gaps, however long it pauses or lags, so that it
//! never loses count of their turns.

use glassline_media::{MediaUnit, NtpTime, Ssrc};
use glassline_rtp::{HEADER_BYTES, Header, Packet, write_header};
use glassline_rtsp::interleaved;
use glassline_rtsp::mikey::{Cipher, Keys};
use glassline_rtsp::server::Refusal;
use glassline_webrtc::srtp::{self, Inbound, Outbound, Profile, StreamId};

use super::framing::{Datagrams, Label};

/// Keys that a description told, for the tracks that are set up next.
#[derive(Debug)]
pub(crate) struct Keyring {
    cipher: Cipher,
    tracks: Vec<Option<Keys>>,
}

/// What seals one track for one client, and opens what the client says of it.
#[derive(Debug)]
pub(crate) struct TrackSrtp {
    /// Ours.
    keys: Keys,
    ssrc: Ssrc,
    outbound: Outbound,
    stream: StreamId,
    /// With the client's own keys; without, what it sends cannot be read.
    inbound: Option<Inbound>,
}

/// What came of a packet of a client's.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Opened {
    /// It is the client's.
    Authentic,
    /// The client told no keys.
    Unknown,
    /// It is not what the client sealed, or came before.
    Refused,
}

impl Keyring {
    /// Draws a key for each of the tracks that have these SSRCs.
    pub(crate) fn draw(cipher: Cipher, tracks: impl Iterator<Item = Ssrc>) -> Self {
        let tracks = tracks.map(|ssrc| Some(draw(cipher, ssrc)));
        Self {
            cipher,
            tracks: tracks.collect(),
        }
    }

    /// What the description says of a track's key.
    pub(crate) fn message(&self, track: usize, time: NtpTime) -> Option<String> {
        let keys = self.tracks.get(track)?.as_ref()?;
        Some(keys.to_base64(time, &rand::random()))
    }

    /// The track's key, once; `None` if it was never told, or is in use.
    fn take(&mut self, track: usize) -> Option<Keys> {
        self.tracks.get_mut(track)?.take()
    }
}

fn draw(cipher: Cipher, ssrc: Ssrc) -> Keys {
    Keys {
        bundle: rand::random(),
        streams: vec![(ssrc, 0)],
        cipher,
        master: (0..cipher.master_bytes()).map(|_| rand::random()).collect(),
    }
}

const fn profile(cipher: Cipher) -> Profile {
    match cipher {
        Cipher::AesCm128 => Profile::Aes128CmSha1_80,
        Cipher::AesGcm128 => Profile::AeadAes128Gcm,
        Cipher::AesGcm256 => Profile::AeadAes256Gcm,
    }
}

impl TrackSrtp {
    /// The SRTP that the track had, or one with the key that the client was told, with the
    /// keys of the client if it sends any in SETUP.
    ///
    /// # Errors
    /// Keys of the client that seal nothing.
    pub(crate) fn renew(
        before: Option<Box<Self>>,
        keyring: Option<&mut Keyring>,
        track: usize,
        ssrc: Ssrc,
        client_keys: Option<&Keys>,
    ) -> Result<Box<Self>, Refusal> {
        let fresh = || Self::new(keyring, track, ssrc).map(Box::new);
        // One that goes on keeps its count: under one key it never begins again.
        let mut srtp = before
            .filter(|srtp| srtp.ssrc == ssrc)
            .map_or_else(fresh, Ok)
            .map_err(|_| Refusal::Internal)?;
        if let Some(keys) = client_keys {
            let set = srtp.set_client_keys(keys);
            set.map_err(|_| Refusal::NoKeys)?;
        }
        Ok(srtp)
    }

    /// A seal for `track`, whose packets have this SSRC, under the key that the client
    /// was told of it, or a fresh one.
    ///
    /// # Errors
    /// [`srtp::KeyError`]: never, since the keys are ours.
    pub(crate) fn new(
        keyring: Option<&mut Keyring>,
        track: usize,
        ssrc: Ssrc,
    ) -> Result<Self, srtp::KeyError> {
        let cipher = keyring
            .as_ref()
            .map_or_else(Cipher::default, |it| it.cipher);
        let told = keyring.and_then(|keyring| keyring.take(track));
        let mut keys = told.unwrap_or_else(|| draw(cipher, ssrc));
        keys.streams = vec![(ssrc, 0)];
        let profile = profile(keys.cipher);
        let mut outbound = Outbound::with_master(profile, keys.key(), keys.salt())?;
        let first = rand::random::<u16>() >> 1;
        let stream = outbound.add_stream(ssrc, first);
        let stream = stream.expect("the first stream has no double");
        Ok(Self {
            keys,
            ssrc,
            outbound,
            stream,
            inbound: None,
        })
    }

    /// What the client seals its own packets with.
    ///
    /// # Errors
    /// Keys that are not as long as their cipher's.
    pub(crate) fn set_client_keys(&mut self, keys: &Keys) -> Result<(), srtp::KeyError> {
        let profile = profile(keys.cipher);
        self.inbound = Some(Inbound::with_master(profile, keys.key(), keys.salt())?);
        Ok(())
    }

    /// The client said what it seals with.
    pub(crate) fn knows_client(&self) -> bool {
        self.inbound.is_some()
    }

    /// What the client is to open its packets with from now on.
    pub(crate) fn message(&self, time: NtpTime) -> String {
        let mut keys = self.keys.clone();
        keys.streams = vec![(self.ssrc, self.turns())];
        keys.to_base64(time, &rand::random())
    }

    /// How often its sequence numbers have wrapped.
    fn turns(&self) -> u32 {
        u32::try_from(self.next_index() >> 16).unwrap_or(u32::MAX)
    }

    /// The number of the packet that it seals next.
    #[expect(
        clippy::cast_possible_truncation,
        reason = "the sequence number is the low 16 bits of the index"
    )]
    pub(crate) fn next_sequence(&self) -> u16 {
        self.next_index() as u16
    }

    fn next_index(&self) -> u64 {
        let index = self.outbound.next_index(self.stream);
        index.expect("its stream was added")
    }

    /// TrackSrtps a burst behind `out` as it goes within an RTSP connection, on `channel`.
    pub(crate) fn interleave(
        &mut self,
        label: &Label,
        burst: &MediaUnit,
        channel: u8,
        out: &mut Vec<u8>,
    ) {
        let overhead = HEADER_BYTES + self.outbound.overhead();
        let whole =
            burst.payload_bytes() + burst.packet_count() * (overhead + interleaved::HEADER_BYTES);
        out.reserve(whole);
        for (header, payload) in label.packets(burst) {
            let length = u16::try_from(overhead + payload.len())
                .expect("ingest cuts payloads far below 64 KiB");
            out.extend_from_slice(&interleaved::header(channel, length));
            self.append(&header, payload, out);
        }
    }

    /// TrackSrtps a burst into datagrams.
    pub(crate) fn datagrams(&mut self, label: &Label, burst: &MediaUnit) -> Datagrams {
        let overhead = HEADER_BYTES + self.outbound.overhead();
        let whole = burst.payload_bytes() + burst.packet_count() * overhead;
        let mut datagrams = Datagrams::builder(whole);
        for (header, payload) in label.packets(burst) {
            datagrams.add(|out| self.append(&header, payload, out));
        }
        datagrams.build()
    }

    /// TrackSrtps RTCP; `None` for what is none.
    pub(crate) fn control(&mut self, packet: &[u8]) -> Option<Vec<u8>> {
        let mut sealed = Vec::with_capacity(packet.len() + srtp::RTCP_OVERHEAD_MAX);
        sealed.extend_from_slice(packet);
        self.outbound.seal_rtcp(&mut sealed).then_some(sealed)
    }

    /// Opens RTCP of the client.
    pub(crate) fn open_control(&mut self, packet: &[u8]) -> Opened {
        let Some(inbound) = &mut self.inbound else {
            return Opened::Unknown;
        };
        match inbound.open_rtcp(&mut packet.to_vec()) {
            Ok(_) => Opened::Authentic,
            Err(_) => Opened::Refused,
        }
    }

    /// Opens a packet of a client that publishes, into `clear`; `None` for what its keys
    /// do not open.
    pub(crate) fn open<'a>(
        &mut self,
        control: bool,
        packet: &[u8],
        clear: &'a mut Vec<u8>,
    ) -> Option<&'a [u8]> {
        let inbound = self.inbound.as_mut()?;
        clear.clear();
        clear.extend_from_slice(packet);
        let end = if control {
            inbound.open_rtcp(clear).ok()?
        } else {
            let header_bytes = Packet::header_len(packet).ok()?;
            inbound.open(header_bytes, clear).ok()?.payload.end
        };
        clear.get(..end)
    }

    /// One packet, with the next number whatever its header says.
    fn append(&mut self, header: &Header, payload: &[u8], out: &mut Vec<u8>) {
        let start = out.len();
        let mut head = [0; HEADER_BYTES];
        write_header(&mut head, header, &[]);
        out.extend_from_slice(&head);
        let sealed_bytes = payload.len() + self.outbound.overhead();
        out.resize(start + HEADER_BYTES + sealed_bytes, 0);
        let sealed = self
            .outbound
            .seal(self.stream, HEADER_BYTES, payload, 0, &mut out[start..]);
        debug_assert!(sealed.is_some(), "there is room, and 2⁴⁸ packets are years");
        if sealed.is_none() {
            out[start + HEADER_BYTES..].fill(0);
        }
    }
}
