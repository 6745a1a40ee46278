use std::net::SocketAddr;
use std::sync::Arc;

use aws_lc_rs::hkdf;
use glassline_media::{Kind, Ssrc, Track, WallClock};

use glassline_sctp as sctp;

use crate::dtls::{Certificate, CipherChoice};
use crate::sdp::OpusOptions;
use crate::turn;

/// Tracks that one session carries at most.
pub const TRACKS_MAX: usize = 8;

/// What the answering end needs: a server for one viewer, the called end of a call.
#[derive(Debug)]
pub struct AcceptConfig<'a> {
    /// The process's certificate.
    pub certificate: Arc<Certificate>,
    /// Addresses to offer as host candidates; never unspecified (`0.0.0.0`).
    pub local: Vec<SocketAddr>,
    /// Everything random of this session.
    pub secrets: Secrets,
    /// For the NTP times of sender reports.
    pub wall: WallClock,
    /// What may be sent, in the order of [`Sender::track`](super::Sender::track).
    /// May be empty where data is all there is.
    pub tracks: &'a [Track],
    /// What is received, if the peer sends it: one `m=` line of each kind, and one that
    /// a track is sent on where it can be.
    pub receive: Kinds,
    /// How Opus is to come.
    pub opus: OpusOptions,
    /// Data channels, if the peer offers them; `None` turns them down.
    pub data: Option<DataConfig>,
}

/// What the dialling end needs.
#[derive(Debug)]
pub struct DialConfig {
    /// The process's certificate.
    pub certificate: Arc<Certificate>,
    /// Addresses to offer as host candidates; never unspecified (`0.0.0.0`). None, and
    /// every path goes through `relays`.
    pub local: Vec<SocketAddr>,
    /// Allocations on TURN servers; those without an address yet are left out.
    pub relays: Vec<turn::Relay>,
    /// Everything random of this session.
    pub secrets: Secrets,
    /// For the NTP times of reports.
    pub wall: WallClock,
    /// What to offer, in the order of [`Sender::track`](super::Sender::track); at most
    /// [`TRACKS_MAX`]. The peer may take less.
    pub send: Vec<Track>,
    /// What to ask for. A kind that is sent, too, is asked for on the `m=` line of its
    /// first track and in that track's coding.
    pub receive: Kinds,
    /// How Opus is to come.
    pub opus: OpusOptions,
    /// What to do with the media that comes.
    pub mode: ReceiveMode,
    /// Data channels; with [`Kinds::NONE`] nothing else.
    pub data: Option<DataConfig>,
}

/// How a session carries data channels.
///
/// A session with data runs its DTLS handshake a little differently (see
/// [`dtls`](crate::dtls)), so it is asked for at the start.
#[derive(Clone, Debug, Default)]
pub struct DataConfig {
    /// What protects the records.
    pub cipher: CipherChoice,
    /// The association; its `max_message_size` is announced, and its ports are the
    /// SDP's.
    pub association: sctp::Config,
    /// What the peer can make this end hold.
    pub limits: sctp::channel::Limits,
}

/// Kinds of media that a client asks for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Kinds {
    /// Frames.
    pub video: bool,
    /// Audio.
    pub audio: bool,
}

impl Kinds {
    /// Neither.
    pub const NONE: Self = Self {
        video: false,
        audio: false,
    };
    /// Video and audio.
    pub const ALL: Self = Self {
        video: true,
        audio: true,
    };
    /// Audio alone.
    pub const AUDIO: Self = Self {
        video: false,
        audio: true,
    };

    /// Those wanted, frames first.
    pub(super) fn iter(self) -> impl Iterator<Item = Kind> {
        let wanted = [(self.video, Kind::Video), (self.audio, Kind::Audio)];
        wanted
            .into_iter()
            .filter_map(|(wanted, kind)| wanted.then_some(kind))
    }
}

/// What a receiver does with RTP.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum ReceiveMode {
    /// Decrypt every packet and hand it out.
    #[default]
    Open,
    /// Read the clear header only: statistics, transport feedback and NACK work,
    /// the payload stays sealed and unchecked. For load generators, whose
    /// processor time belongs to the server under test. Retransmissions are
    /// still opened (there are as many as losses): which packet one repairs is
    /// written inside.
    CountOnly,
}

/// Everything random that one session needs, drawn by the shell.
///
/// [`expand`](Self::expand) makes it from 32 bytes; a test may fill the fields.
#[derive(Clone, PartialEq, Eq)]
pub struct Secrets {
    /// ICE user fragment, 4–256 ICE characters (RFC 8839 §5.4). A shell that
    /// shares one socket among sessions finds them by it.
    pub ufrag: String,
    /// ICE password, 22–256 ICE characters.
    pub pwd: String,
    /// Settles ICE role conflicts (RFC 8445 §7.3.1.1).
    pub tie_breaker: u64,
    /// `sess-id` of the SDP origin (RFC 8866 §5.2).
    pub session_id: u64,
    /// RTCP's canonical name (RFC 7022: random, per session).
    pub cname: String,
    /// SSRC under which a session without senders reports.
    pub rtcp_ssrc: Ssrc,
    /// One per track.
    pub tracks: Vec<TrackSecrets>,
    /// What the SCTP association needs.
    pub sctp: [u8; 40],
}

/// The random numbers of one sender.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TrackSecrets {
    /// SSRC of the media.
    pub ssrc: Ssrc,
    /// SSRC of its retransmissions.
    pub rtx_ssrc: Ssrc,
    /// First sequence number, below 2¹⁵ so that a loss at the start cannot hide
    /// the first rollover from the receiver (RFC 3711 §3.3.1).
    pub sequence: u16,
    /// First sequence number of the retransmissions, below 2¹⁵.
    pub rtx_sequence: u16,
    /// An offset for the RTP clock; the caller of
    /// [`Session::seal`](super::Session::seal) may add it to its timestamps.
    pub timestamp: u32,
}

impl Secrets {
    /// Stretches 32 random bytes (HKDF-SHA-256) to all that a session needs.
    /// The same seed gives the same secrets.
    pub fn expand(seed: &[u8; 32]) -> Self {
        let mut bytes = Expanded::new(seed);
        let ufrag = bytes.ice_characters(8);
        let pwd = bytes.ice_characters(24);
        let cname = bytes.ice_characters(16);
        let tie_breaker = u64::from_be_bytes(bytes.take());
        // Some parsers read sess-id as a signed number.
        let session_id = u64::from_be_bytes(bytes.take()) >> 2;
        let mut used = Vec::with_capacity(2 * TRACKS_MAX + 1);
        let rtcp_ssrc = bytes.ssrc(&mut used);
        let tracks = (0..TRACKS_MAX)
            .map(|_| TrackSecrets {
                ssrc: bytes.ssrc(&mut used),
                rtx_ssrc: bytes.ssrc(&mut used),
                sequence: u16::from_be_bytes(bytes.take()) >> 1,
                rtx_sequence: u16::from_be_bytes(bytes.take()) >> 1,
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

/// A stretch of pseudo-random bytes, consumed from the front.
struct Expanded {
    bytes: [u8; EXPANDED_BYTES],
    next: usize,
}

const EXPANDED_BYTES: usize = 512;

struct Length;

impl hkdf::KeyType for Length {
    fn len(&self) -> usize {
        EXPANDED_BYTES
    }
}

impl Expanded {
    fn new(seed: &[u8; 32]) -> Self {
        let mut bytes = [0; EXPANDED_BYTES];
        hkdf::Salt::new(hkdf::HKDF_SHA256, b"glassline session secrets")
            .extract(seed)
            .expand(&[b"v1"], Length)
            .and_then(|okm| okm.fill(&mut bytes))
            .expect("512 bytes are within HKDF-SHA-256's 8160");
        Self { bytes, next: 0 }
    }

    fn take<const N: usize>(&mut self) -> [u8; N] {
        let mut taken = [0; N];
        taken.copy_from_slice(&self.bytes[self.next..self.next + N]);
        self.next += N;
        taken
    }

    /// Six random bits a character (RFC 8839 §5.4: ALPHA, DIGIT, "+", "/").
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

    /// An SSRC not yet used: two streams of one session must differ, else their
    /// nonces would meet.
    fn ssrc(&mut self, used: &mut Vec<u32>) -> Ssrc {
        let mut ssrc = u32::from_be_bytes(self.take());
        // Zero is a legal SSRC that too much software takes for "none".
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
            .flat_map(|track| [track.ssrc.0, track.rtx_ssrc.0])
            .collect();
        ssrcs.push(secrets.rtcp_ssrc.0);
        ssrcs.sort_unstable();
        ssrcs.dedup();
        assert_eq!(ssrcs.len(), 2 * TRACKS_MAX + 1);
        assert!(secrets.tracks.iter().all(|track| track.sequence < 1 << 15));
    }
}
