use std::net::SocketAddr;
use std::sync::Arc;

use aws_lc_rs::hkdf;
use glassline_media::{Kind, Ssrc, Track, TrackIndex, WallClock};
use zeroize::Zeroizing;

use glassline_sctp as sctp;

use crate::dtls::{Certificate, CipherChoice};
use crate::sdp::OpusOptions;
use crate::{TransportAddress, turn};

/// Most tracks that one session carries.
pub const TRACKS_MAX: usize = 8;

/// Configuration of the answering end: a server with one viewer, or the called end of a call.
#[derive(Debug)]
pub struct AcceptConfig<'a> {
    /// The certificate of this process.
    pub certificate: Arc<Certificate>,
    /// Addresses that are offered as host candidates; none may be unspecified (`0.0.0.0`). Those of
    /// TCP are offered as passive (RFC 6544 §4.5): the peer connects.
    pub local: Vec<TransportAddress>,
    /// All random values of this session.
    pub secrets: Secrets,
    /// Relation of `now` to the calendar, for NTP times in sender reports.
    pub wall: WallClock,
    /// Tracks that may be sent, in the order of [`Sender::track`](super::Sender::track); may be
    /// empty if the session carries only data or only receives.
    pub tracks: &'a [Track],
    /// Kinds of media to receive, if the peer sends them: one `m=` line of each kind,
    /// preferably one on which a track is sent.
    pub receive: Kinds,
    /// How the peer should send Opus.
    pub opus: OpusOptions,
    /// Data channels, if the peer offers them; `None` rejects them.
    pub data: Option<DataConfig>,
}

/// Configuration of the dialing end.
#[derive(Debug)]
pub struct DialConfig {
    /// The certificate of this process.
    pub certificate: Arc<Certificate>,
    /// Addresses that are offered as host candidates; none may be unspecified (`0.0.0.0`). If
    /// there is none, every path goes through `turn_allocations`.
    pub local: Vec<SocketAddr>,
    /// Allocations on TURN servers. Those that have no relayed address yet are omitted.
    pub turn_allocations: Vec<turn::Allocation>,
    /// All random values of this session.
    pub secrets: Secrets,
    /// Relation of `now` to the calendar, for NTP times in reports.
    pub wall: WallClock,
    /// Tracks to offer, in the order of [`Sender::track`](super::Sender::track); at most
    /// [`TRACKS_MAX`]. The peer may accept fewer.
    pub send: Vec<Track>,
    /// Kinds of media to receive. A kind that is sent as well is requested on the `m=` line of
    /// its first track and in that track's codec.
    pub receive: Kinds,
    /// How the peer should send Opus.
    pub opus: OpusOptions,
    /// The use of the media that is received.
    pub mode: ReceiveMode,
    /// Data channels. With [`Kinds::NONE`] and nothing to send, the session has only data.
    pub data: Option<DataConfig>,
}

impl AcceptConfig<'_> {
    /// Returns the configuration of a session without candidates, media and data, from which others
    /// differ.
    pub fn new(certificate: Arc<Certificate>, secrets: Secrets, wall: WallClock) -> Self {
        Self {
            certificate,
            local: Vec::new(),
            secrets,
            wall,
            tracks: &[],
            receive: Kinds::NONE,
            opus: OpusOptions::default(),
            data: None,
        }
    }
}

impl DialConfig {
    /// Returns the configuration of a session without candidates, media and data, from which others
    /// differ.
    pub fn new(certificate: Arc<Certificate>, secrets: Secrets, wall: WallClock) -> Self {
        Self {
            certificate,
            local: Vec::new(),
            turn_allocations: Vec::new(),
            secrets,
            wall,
            send: Vec::new(),
            receive: Kinds::NONE,
            opus: OpusOptions::default(),
            mode: ReceiveMode::Open,
            data: None,
        }
    }
}

/// A track of ours that is one of several encodings of a video.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SimulcastLayer {
    /// Index of the track in [`DialConfig::send`].
    pub track: TrackIndex,
    /// RID (RFC 8851) of 1 to 16 letters, digits, `-` and `_`; each layer has another one.
    pub rid: String,
}

/// Configuration of a session's data channels.
///
/// A session with data channels runs its DTLS handshake differently (see
/// [`dtls`](crate::dtls)), so they are configured at the start.
#[derive(Clone, Debug, Default)]
pub struct DataConfig {
    /// Ciphers that may protect the records.
    pub cipher: CipherChoice,
    /// SCTP association. Its `max_message_size` and ports are written into the SDP.
    pub association: sctp::Config,
    /// Limits on what the peer can make this end store.
    pub limits: sctp::channel::Limits,
}

/// Kinds of media to receive.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Kinds {
    /// Whether video is received.
    pub video: bool,
    /// Whether audio is received.
    pub audio: bool,
}

impl Kinds {
    /// Neither video nor audio.
    pub const NONE: Self = Self {
        video: false,
        audio: false,
    };
    /// Both video and audio.
    pub const ALL: Self = Self {
        video: true,
        audio: true,
    };
    /// Audio, but no video.
    pub const AUDIO: Self = Self {
        video: false,
        audio: true,
    };

    /// Returns the kinds to receive, video first.
    pub(super) fn iter(self) -> impl Iterator<Item = Kind> {
        let wanted = [(self.video, Kind::Video), (self.audio, Kind::Audio)];
        wanted
            .into_iter()
            .filter_map(|(wanted, kind)| wanted.then_some(kind))
    }
}

/// The use that a session makes of the RTP that it receives.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum ReceiveMode {
    /// Decrypts every packet and returns it.
    #[default]
    Open,
    /// Decrypts every packet, and offers the peer to send FEC packets (FlexFEC) with the video. The
    /// caller also takes the packets that are rebuilt from them:
    /// [`Session::poll_rebuilt`](super::Session::poll_rebuilt).
    Rebuild,
    /// Reads only the header, which is not encrypted. Statistics, transport feedback and NACK
    /// work; the payload is neither decrypted nor authenticated. This is for load generators,
    /// whose processor time belongs to the server under test. Retransmissions are still
    /// decrypted, because the number of the packet that they repair is inside; there are only
    /// as many as losses.
    CountOnly,
}

/// All random values that one session needs, drawn by the caller.
///
/// [`expand`](Self::expand) derives them from 32 random bytes; a test may set the fields.
#[derive(Clone, PartialEq, Eq)]
pub struct Secrets {
    /// ICE user fragment, 4–256 ICE characters (RFC 8839 §5.4). A caller that shares a socket
    /// among sessions finds the session of a STUN request by it.
    pub ufrag: String,
    /// ICE password, 22–256 ICE characters.
    pub pwd: String,
    /// Tie-breaker for ICE role conflicts (RFC 8445 §7.3.1.1).
    pub tie_breaker: u64,
    /// `sess-id` of the SDP origin (RFC 8866 §5.2).
    pub session_id: u64,
    /// RTCP canonical name (RFC 7022: random, per session).
    pub cname: String,
    /// SSRC of the reports of a session without senders.
    pub rtcp_ssrc: Ssrc,
    /// Random values of each track.
    pub tracks: Vec<TrackSecrets>,
    /// Random bytes for the SCTP association.
    pub sctp: [u8; 40],
    /// Key of the transactions of the checks that an ICE-lite end sends (RFC 7675). The peer must
    /// not be able to guess them.
    pub consent: [u8; 32],
}

/// Random values of one sender.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TrackSecrets {
    /// SSRC of the media.
    pub ssrc: Ssrc,
    /// SSRC of the retransmissions.
    pub rtx_ssrc: Ssrc,
    /// First sequence number, below 2¹⁵ so that a loss at the start cannot hide the first
    /// rollover from the receiver (RFC 3711 §3.3.1).
    pub sequence: u16,
    /// First sequence number of the retransmissions, below 2¹⁵.
    pub rtx_sequence: u16,
    /// SSRC of the FEC packets.
    pub fec_ssrc: Ssrc,
    /// First sequence number of the FEC packets, below 2¹⁵.
    pub fec_sequence: u16,
    /// Random offset of the RTP clock. The caller of [`Session::seal`](super::Session::seal)
    /// may add it to its timestamps.
    pub timestamp: u32,
}

impl Secrets {
    /// Expands 32 random bytes with HKDF-SHA-256 to all values that a session needs. The same
    /// seed gives the same secrets.
    pub fn expand(seed: &[u8; 32]) -> Self {
        let mut bytes = Expanded::new(seed);
        let ufrag = bytes.ice_characters(8);
        let pwd = bytes.ice_characters(24);
        let cname = bytes.ice_characters(16);
        let tie_breaker = u64::from_be_bytes(bytes.take());
        // Some parsers read sess-id as a signed number.
        let session_id = u64::from_be_bytes(bytes.take()) >> 2;
        let mut used = Vec::with_capacity(3 * TRACKS_MAX + 1);
        let rtcp_ssrc = bytes.ssrc(&mut used);
        let tracks = (0..TRACKS_MAX)
            .map(|_| TrackSecrets {
                ssrc: bytes.ssrc(&mut used),
                rtx_ssrc: bytes.ssrc(&mut used),
                sequence: u16::from_be_bytes(bytes.take()) >> 1,
                rtx_sequence: u16::from_be_bytes(bytes.take()) >> 1,
                fec_ssrc: bytes.ssrc(&mut used),
                fec_sequence: u16::from_be_bytes(bytes.take()) >> 1,
                timestamp: u32::from_be_bytes(bytes.take()),
            })
            .collect();
        Self {
            ufrag,
            pwd,
            tie_breaker,
            session_id,
            cname,
            rtcp_ssrc,
            tracks,
            sctp: bytes.take(),
            consent: bytes.take(),
        }
    }
}

impl std::fmt::Debug for Secrets {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Secrets")
            .field("ufrag", &self.ufrag)
            .finish_non_exhaustive()
    }
}

/// Pseudo-random bytes, taken from the front.
struct Expanded {
    bytes: Zeroizing<[u8; EXPANDED_BYTES]>,
    next: usize,
}

/// Number of bytes that a seed is expanded to.
const EXPANDED_BYTES: usize = 512;

/// Output length of the key derivation.
struct Length;

impl hkdf::KeyType for Length {
    fn len(&self) -> usize {
        EXPANDED_BYTES
    }
}

impl Expanded {
    fn new(seed: &[u8; 32]) -> Self {
        let mut bytes = Zeroizing::new([0; EXPANDED_BYTES]);
        hkdf::Salt::new(hkdf::HKDF_SHA256, b"glassline session secrets")
            .extract(seed)
            .expand(&[b"v1"], Length)
            .and_then(|okm| okm.fill(&mut *bytes))
            .expect("512 bytes are within HKDF-SHA-256's 8160");
        Self { bytes, next: 0 }
    }

    fn take<const N: usize>(&mut self) -> [u8; N] {
        let mut taken = [0; N];
        taken.copy_from_slice(&self.bytes[self.next..self.next + N]);
        self.next += N;
        taken
    }

    /// Returns characters of six random bits each (RFC 8839 §5.4: ALPHA, DIGIT, "+", "/").
    fn ice_characters(&mut self, count: usize) -> String {
        const ALPHABET: &[u8; 64] =
            b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
        (0..count)
            .map(|_| {
                let [byte] = self.take::<1>();
                char::from(ALPHABET[usize::from(byte & 63)])
            })
            .collect()
    }

    /// Returns an SSRC that is not used yet: two streams of one session with the same SSRC
    /// would use the same nonces.
    fn ssrc(&mut self, used: &mut Vec<u32>) -> Ssrc {
        let mut ssrc = u32::from_be_bytes(self.take());
        // Zero is a valid SSRC that much software takes for "none".
        while ssrc == 0 || used.contains(&ssrc) {
            ssrc = ssrc.wrapping_add(1);
        }
        used.push(ssrc);
        Ssrc(ssrc)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn expansion_is_deterministic_and_never_repeats_an_ssrc() {
        let secrets = Secrets::expand(&[7; 32]);
        assert_eq!(secrets, Secrets::expand(&[7; 32]));
        assert_ne!(secrets.ufrag, Secrets::expand(&[8; 32]).ufrag);
        let mut ssrcs: Vec<u32> = secrets
            .tracks
            .iter()
            .flat_map(|track| [track.ssrc.0, track.rtx_ssrc.0, track.fec_ssrc.0])
            .collect();
        ssrcs.push(secrets.rtcp_ssrc.0);
        ssrcs.sort_unstable();
        ssrcs.dedup();
        assert_eq!(ssrcs.len(), 3 * TRACKS_MAX + 1);
        assert!(secrets.tracks.iter().all(|track| track.sequence < 1 << 15));
    }
}
