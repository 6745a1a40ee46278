//! SRTP within RTSPS, with keys for one client alone (RFC 3711, RFC 4567).
//!
//! ```text
//! DESCRIBE ─► Keyring: a fresh key for each track, sent in the description
//! SETUP ────► TrackSrtp: takes its track's key, and counts its packets from then on
//! Ring entry ─ TrackSrtp ─► bytes for one client ─► ConnectionWriter, DatagramWriter
//! a publisher's packets ─ TrackSrtp ─► Recording, whose reports go back sealed
//! ```
//!
//! A client with keys has a cost of its own: its packets are sealed for it one by one, while those
//! of all other clients are made once. The client has its own sequence numbers, too, because a key
//! must never seal two packets with one number. They begin in the lower half of their range (RFC
//! 3711 §3.3.1) and have no gaps, however long the client pauses or lags, so that it never loses
//! count of their wraps.

use glassline_media::{NtpTime, Ssrc, TrackIndex};
use glassline_rtp::{HEADER_BYTES, Header, Packet, write_header};
use glassline_rtsp::interleaved;
use glassline_rtsp::mikey::{Cipher, Keys};
use glassline_rtsp::server::Refusal;
use glassline_webrtc::srtp::{self, Inbound, Outbound, Profile, StreamIndex};

use super::framing::{Datagrams, HeaderTemplate, PacketRun};

/// Keys that a description announced, for the tracks that are set up next.
#[derive(Debug)]
pub struct Keyring {
    cipher: Cipher,
    tracks: Vec<Option<Keys>>,
}

/// Seals one track for one client, and opens the packets that the client sends for it.
#[derive(Debug)]
pub struct TrackSrtp {
    /// The server's key for this track.
    keys: Keys,
    ssrc: Ssrc,
    outbound: Outbound,
    stream: StreamIndex,
    /// Opens the client's packets; `None` if the client announced no keys.
    inbound: Option<Inbound>,
}

/// The result of opening a packet from a client.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Opened {
    /// The packet is authentic.
    Authentic,
    /// The client announced no keys, so the packet cannot be read.
    Unknown,
    /// The packet is not authentic, or is a replay.
    Refused,
}

impl Keyring {
    /// Draws a key for each of the tracks with these SSRCs.
    pub fn draw(cipher: Cipher, tracks: impl Iterator<Item = Ssrc>) -> Self {
        let tracks = tracks.map(|ssrc| Some(draw(cipher, ssrc)));
        Self {
            cipher,
            tracks: tracks.collect(),
        }
    }

    /// Returns the key management message (RFC 4567) for a track in the description.
    pub fn message(&self, track: TrackIndex, time: NtpTime) -> Option<String> {
        let keys = self.tracks.get(track.get())?.as_ref()?;
        Some(keys.to_base64(time, &rand::random()))
    }

    /// Returns a track's key, once; `None` if it was never announced, or is in use.
    fn take(&mut self, track: TrackIndex) -> Option<Keys> {
        self.tracks.get_mut(track.get())?.take()
    }
}

fn draw(cipher: Cipher, ssrc: Ssrc) -> Keys {
    Keys {
        csb_id: rand::random(),
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
    /// Returns the SRTP that the track had before, or a new one with the key that the client was
    /// told in the description. `keys` are the client's own, if its SETUP announces any.
    ///
    /// # Errors
    /// Returns an error if the client's keys have a wrong length.
    pub fn renew(
        before: Option<Box<Self>>,
        keyring: Option<&mut Keyring>,
        track: TrackIndex,
        ssrc: Ssrc,
        client_keys: Option<&Keys>,
    ) -> Result<Box<Self>, Refusal> {
        let fresh = || Self::new(keyring, track, ssrc).map(Box::new);
        // A track that continues keeps its count: under one key a count must never begin again.
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

    /// Creates the SRTP of `track`, whose packets have this SSRC, with the key that the client was
    /// told, or with a fresh one.
    ///
    /// # Errors
    /// Returns [`srtp::KeyError`] in theory only, since the keys are the server's own.
    pub fn new(
        keyring: Option<&mut Keyring>,
        track: TrackIndex,
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

    /// Sets the keys that the client seals its own packets with.
    ///
    /// # Errors
    /// Returns an error if the keys do not have their cipher's length.
    pub fn set_client_keys(&mut self, keys: &Keys) -> Result<(), srtp::KeyError> {
        let profile = profile(keys.cipher);
        self.inbound = Some(Inbound::with_master(profile, keys.key(), keys.salt())?);
        Ok(())
    }

    /// Returns whether the client announced its keys.
    pub fn knows_client(&self) -> bool {
        self.inbound.is_some()
    }

    /// Returns the key management message (RFC 4567) with the key that the client needs to open its
    /// packets.
    pub fn message(&self, time: NtpTime) -> String {
        let mut keys = self.keys.clone();
        keys.streams = vec![(self.ssrc, self.turns())];
        keys.to_base64(time, &rand::random())
    }

    /// Returns how often the sequence numbers have wrapped.
    fn turns(&self) -> u32 {
        u32::try_from(self.next_index() >> 16).unwrap_or(u32::MAX)
    }

    /// Returns the sequence number of the next packet.
    #[expect(
        clippy::cast_possible_truncation,
        reason = "the sequence number is the low 16 bits of the index"
    )]
    pub fn next_sequence(&self) -> u16 {
        self.next_index() as u16
    }

    fn next_index(&self) -> u64 {
        let index = self.outbound.next_index(self.stream);
        index.expect("its stream was added")
    }

    /// Seals packets of a unit as interleaved frames on `channel`, and appends them to `out`.
    pub fn interleave(
        &mut self,
        template: &HeaderTemplate,
        run: &PacketRun,
        channel: u8,
        out: &mut Vec<u8>,
    ) {
        let overhead = HEADER_BYTES + self.outbound.overhead();
        let whole =
            run.payload_bytes() + run.packet_count() * (overhead + interleaved::HEADER_BYTES);
        out.reserve(whole);
        for (header, payload) in template.packets(run) {
            let length = u16::try_from(overhead + payload.len())
                .expect("ingest cuts payloads far below 64 KiB");
            out.extend_from_slice(&interleaved::header(channel, length));
            self.append(&header, payload, out);
        }
    }

    /// Seals packets of a unit as datagrams.
    pub fn datagrams(&mut self, template: &HeaderTemplate, run: &PacketRun) -> Datagrams {
        let overhead = HEADER_BYTES + self.outbound.overhead();
        let whole = run.payload_bytes() + run.packet_count() * overhead;
        let mut datagrams = Datagrams::builder(whole);
        for (header, payload) in template.packets(run) {
            datagrams.add(|out| self.append(&header, payload, out));
        }
        datagrams.build()
    }

    /// Seals an RTCP packet; returns `None` if `packet` is not RTCP.
    pub fn control(&mut self, packet: &[u8]) -> Option<Vec<u8>> {
        let mut sealed = Vec::with_capacity(packet.len() + srtp::RTCP_OVERHEAD_MAX);
        sealed.extend_from_slice(packet);
        self.outbound.seal_rtcp(&mut sealed).then_some(sealed)
    }

    /// Opens an RTCP packet of the client.
    pub fn open_control(&mut self, packet: &[u8]) -> Opened {
        let Some(inbound) = &mut self.inbound else {
            return Opened::Unknown;
        };
        match inbound.open_rtcp(&mut packet.to_vec()) {
            Ok(_) => Opened::Authentic,
            Err(_) => Opened::Refused,
        }
    }

    /// Opens a packet of a client that publishes, into the buffer `clear`. Returns `None` if the
    /// client's keys do not open the packet.
    pub fn open<'a>(
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

    /// Seals one packet under the next sequence number, whatever number its header has.
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

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::time::Instant;

    use glassline_media::{MediaTime, Stamps, Track, UnitBuilder, VideoParameters};

    use super::super::numbers::NumberKeys;
    use super::*;

    const TRACK: TrackIndex = TrackIndex(0);

    fn template() -> HeaderTemplate {
        let track = Track::h264(VideoParameters::default());
        let numbers = NumberKeys::default().track("cam", TRACK);
        HeaderTemplate::new(&track, TRACK, numbers)
    }

    /// A run of three packets.
    fn run() -> PacketRun {
        let mut builder = UnitBuilder::default();
        for size in [900, 900, 100] {
            builder.push(&vec![7; size]);
        }
        let stamps = Stamps::arrived(Instant::now());
        let unit = builder.build(TRACK, MediaTime::ZERO, true, stamps);
        let unit = Arc::new(unit.expect("packets"));
        let mut runs = PacketRun::divide(&unit);
        runs.next().expect("packets")
    }

    /// Returns an end that was told the keys of `sealing` by the message in base64.
    fn opening(sealing: &TrackSrtp) -> TrackSrtp {
        let keys = Keys::from_base64(&sealing.message(NtpTime(0))).expect("our own message");
        assert_eq!(keys.streams, [(sealing.ssrc, sealing.turns())]);
        let mut opening = TrackSrtp::new(None, TRACK, Ssrc(1)).expect("own keys");
        assert!(!opening.knows_client());
        opening
            .set_client_keys(&keys)
            .expect("their length is right");
        assert!(opening.knows_client());
        opening
    }

    #[test]
    fn a_client_opens_what_was_sealed_for_it() {
        let (template, run) = (template(), run());
        let ssrc = template.numbers.ssrc;
        let mut sealing = TrackSrtp::new(None, TRACK, ssrc).expect("own keys");
        let mut opening = opening(&sealing);
        let first = sealing.next_sequence();
        assert!(first < 1 << 15);
        let mut interleaved = Vec::new();
        sealing.interleave(&template, &run, 6, &mut interleaved);
        let mut packets = Vec::new();
        let mut rest = &interleaved[..];
        while let [b'$', 6, high, low, behind @ ..] = rest {
            let length = usize::from(u16::from_be_bytes([*high, *low]));
            packets.push(behind[..length].to_vec());
            rest = &behind[length..];
        }
        assert!(rest.is_empty() && packets.len() == 3);
        let datagrams = sealing.datagrams(&template, &run);
        for (run, size) in datagrams.runs() {
            packets.extend(run.chunks(size).map(<[u8]>::to_vec));
        }
        assert_eq!(packets.len(), 6);
        let mut clear = Vec::new();
        for (place, sealed) in packets.iter().enumerate() {
            let opened = opening.open(false, sealed, &mut clear);
            let packet = Packet::parse(opened.expect("authentic")).expect("RTP");
            assert_eq!(Some(packet.payload), run.unit.payload(place % 3));
            assert_eq!(packet.header.ssrc, ssrc);
            let number = first + u16::try_from(place).expect("few");
            assert_eq!(packet.header.sequence, number);
            assert_eq!(packet.header.marker, place % 3 == 2);
        }
        assert_eq!(sealing.next_sequence(), first + 6);
        let mut forged = packets[0].clone();
        forged[20] ^= 1;
        assert!(opening.open(false, &forged, &mut clear).is_none());
    }

    #[test]
    fn reports_are_sealed_and_opened_with_the_same_keys() {
        let report = [0x80, 201, 0, 1, 0, 0, 0, 9];
        let mut sealing = TrackSrtp::new(None, TRACK, Ssrc(9)).expect("own keys");
        let mut stranger = TrackSrtp::new(None, TRACK, Ssrc(9)).expect("own keys");
        let mut opening = opening(&sealing);
        let sealed = sealing.control(&report).expect("RTCP");
        assert!(sealed.len() > report.len());
        assert_eq!(stranger.open_control(&sealed), Opened::Unknown);
        assert!(stranger.open(true, &sealed, &mut Vec::new()).is_none());
        let forged = stranger.control(&report).expect("RTCP");
        assert_eq!(opening.open_control(&forged), Opened::Refused);
        assert_eq!(opening.open_control(&sealed), Opened::Authentic);
        assert_eq!(opening.open_control(&sealed), Opened::Refused, "a replay");
        let sealed = sealing.control(&report).expect("RTCP");
        let mut clear = Vec::new();
        let opened = opening.open(true, &sealed, &mut clear);
        assert_eq!(opened, Some(&report[..]));
        assert!(sealing.control(&[1]).is_none());
    }

    #[test]
    fn a_track_has_the_key_of_its_description_once_and_goes_on_with_its_count() {
        let ssrcs = [Ssrc(4), Ssrc(5)];
        let mut keyring = Keyring::draw(Cipher::AesGcm256, ssrcs.into_iter());
        let time = NtpTime(0);
        let told = keyring.message(TRACK, time).expect("announced");
        let told = Keys::from_base64(&told).expect("our own message");
        assert_eq!(
            (told.cipher, &told.streams[..]),
            (Cipher::AesGcm256, &[(Ssrc(4), 0)][..])
        );
        assert!(keyring.message(TrackIndex(2), time).is_none());
        let renew = |before, keyring: Option<&mut Keyring>, ssrc| {
            let renewed = TrackSrtp::renew(before, keyring, TRACK, ssrc, None);
            renewed.expect("our own keys")
        };
        let mut first = renew(None, Some(&mut keyring), Ssrc(4));
        assert_eq!(first.keys.master, told.master);
        assert!(keyring.message(TRACK, time).is_none(), "in use");
        first.datagrams(&template(), &run());
        let next = first.next_sequence();
        let same = renew(Some(first), None, Ssrc(4));
        assert_eq!(same.next_sequence(), next);
        assert_eq!(same.keys.master, told.master);
        let other = renew(Some(same), None, Ssrc(6));
        assert_ne!(other.keys.master, told.master);
        let short = Keys {
            master: vec![1; 3],
            ..told.clone()
        };
        let refused = TrackSrtp::renew(None, None, TRACK, Ssrc(4), Some(&short));
        assert!(matches!(refused, Err(Refusal::NoKeys)));
    }
}
