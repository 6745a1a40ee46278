//! One nonce seals one packet, whatever is sealed in whatever order.
//!
//! The tests do not inspect how indices are counted. The key stream that a cipher adds to known
//! plaintext identifies the nonce: the first block of AES-GCM's key stream is the encryption of
//! nonce and block number, a permutation, so two packets under one key have the same first
//! block exactly if they have the same nonce.

use std::collections::HashMap;

use glassline_congestion::Algorithm;
use glassline_rtp as rtp;
// Named explicitly, because both globs below import one.
use glassline_sim::Rng;
use proptest::prelude::*;

use super::*;
use crate::srtp::Profile;
use crate::srtp::{self, Role};

/// Length of a cipher block in bytes; payloads here are at least as long.
const BLOCK: usize = 16;

/// Every nonce seen under one key, and the datagram for which it was used.
#[derive(Default)]
struct Ledger {
    rtp: HashMap<[u8; BLOCK], Vec<u8>>,
    /// SRTCP has its own key, and shows SSRC and index unencrypted.
    rtcp: HashMap<([u8; 4], u32), Vec<u8>>,
    /// Number of datagrams that were sent a second time, byte for byte.
    repeats: usize,
}

impl Ledger {
    /// Records an RTP datagram made from `plaintext`. Returns false if its nonce was used for
    /// another datagram.
    fn note(&mut self, datagram: &[u8], plaintext: &[u8]) -> bool {
        let header = rtp::Packet::header_len(datagram).expect("an RTP packet");
        let mut block = [0; BLOCK];
        let text = datagram[header..].iter().zip(plaintext);
        for (byte, (sealed, clear)) in block.iter_mut().zip(text) {
            *byte = sealed ^ clear;
        }
        match self.rtp.get(&block) {
            Some(first) if first == datagram => self.repeats += 1,
            Some(_) => return false,
            None => {
                self.rtp.insert(block, datagram.to_vec());
            }
        }
        true
    }

    /// Records an SRTCP datagram. Returns false if its nonce was used for another datagram.
    fn note_rtcp(&mut self, datagram: &[u8]) -> bool {
        let ssrc = datagram[4..8].try_into().expect("4 bytes");
        let word = datagram[datagram.len() - 4..].try_into().expect("4 bytes");
        let nonce = (ssrc, u32::from_be_bytes(word));
        let first = self.rtcp.insert(nonce, datagram.to_vec());
        first.is_none_or(|first| first == datagram)
    }
}

/// A packet that was sealed and may be requested again.
struct Sent {
    sender: usize,
    sequence: u64,
    timestamp: u32,
    marker: bool,
    payload: Vec<u8>,
}

/// How the second sealing of a packet differs from the first.
#[derive(Clone, Copy, Debug)]
enum Change {
    Nothing,
    Timestamp,
    Marker,
    Payload,
    Longer,
}

#[derive(Clone, Debug)]
enum Op {
    Seal {
        sender: usize,
        bytes: usize,
        marker: bool,
    },
    /// Seals into a buffer that is too small by this many bytes.
    Cramped {
        sender: usize,
        lacking: usize,
    },
    /// Seals again the packet that was sealed `back` packets ago.
    Repeat {
        back: usize,
        change: Change,
    },
    /// Seals again into a buffer that is too small.
    AgainCramped {
        back: usize,
    },
    /// Advances the time, so that reports are sent.
    Wait {
        ms: u64,
    },
    /// Skips `count` sequence numbers of a sender.
    Skip {
        sender: usize,
        count: u16,
    },
    RestartIce,
}

fn op() -> impl Strategy<Value = Op> {
    let change = prop_oneof![
        4 => Just(Change::Nothing),
        1 => Just(Change::Timestamp),
        1 => Just(Change::Marker),
        1 => Just(Change::Payload),
        1 => Just(Change::Longer),
    ];
    prop_oneof![
        12 => (0..2usize, BLOCK..80, any::<bool>())
            .prop_map(|(sender, bytes, marker)| Op::Seal { sender, bytes, marker }),
        1 => (0..2usize, 1..60usize).prop_map(|(sender, lacking)| Op::Cramped { sender, lacking }),
        8 => (0..700usize, change).prop_map(|(back, change)| Op::Repeat { back, change }),
        1 => (0..40usize).prop_map(|back| Op::AgainCramped { back }),
        1 => (0..1200u64).prop_map(|ms| Op::Wait { ms }),
        1 => (0..2usize, 0..1100u16).prop_map(|(sender, count)| Op::Skip { sender, count }),
        1 => Just(Op::RestartIce),
    ]
}

/// A connected server whose sealed packets are checked.
struct Watched {
    server: Session,
    now: Instant,
    end: Instant,
    ledger: Ledger,
    sent: Vec<Sent>,
    rng: Rng,
}

impl Watched {
    fn new(seed: u64, edit_offer: fn(&str) -> String) -> Self {
        let mut pair = Pair::connected(Setup {
            seed,
            edit_offer,
            edit_secrets: |secrets| {
                // Sequence numbers roll over after some packets.
                for track in &mut secrets.tracks {
                    track.sequence = u16::MAX - 40;
                    track.rtx_sequence = u16::MAX - 20;
                }
            },
            ..Setup::default()
        });
        if seed % 2 == 1 {
            // Packets are numbered, also those that are sent again.
            let now = pair.now();
            assert!(pair.server.enable_congestion_control(Algorithm::Glide, now));
        }
        Self {
            now: pair.now(),
            end: pair.now() + Duration::from_secs(14),
            server: pair.server.session,
            ledger: Ledger::default(),
            sent: Vec::new(),
            rng: Rng::new(seed),
        }
    }

    fn run(&mut self, op: &Op) -> bool {
        match *op {
            Op::Seal {
                sender,
                bytes,
                marker,
            } => self.seal(sender, bytes, marker),
            Op::Cramped { sender, lacking } => {
                let mut out = vec![0; (20 + 40 + 16usize).saturating_sub(lacking)];
                let payload = [7; 40];
                let sealed =
                    self.server
                        .seal(SenderIndex(sender), 1, false, &payload, self.now, &mut out);
                sealed.is_none_or(|sealed| self.ledger.note(&out[..sealed.len], &payload))
            }
            Op::Repeat { back, change } => self.again(back, change, 1500),
            Op::AgainCramped { back } => self.again(back, Change::Payload, 30),
            Op::Wait { ms } => {
                // The server gets no answer, and gives up after 20 s.
                self.now = (self.now + Duration::from_millis(ms)).min(self.end);
                self.server.handle_timeout(self.now);
                self.drain()
            }
            Op::Skip { sender, count } => {
                let next = |it: &Session| it.senders()[sender].next_sequence();
                let before = next(&self.server);
                let skips = self.server.skip(SenderIndex(sender), count);
                let by = next(&self.server).zip(before).map(|(now, then)| now - then);
                by == Some(if skips { u64::from(count) } else { 0 }) && skips == (count <= SKIP_MAX)
            }
            Op::RestartIce => {
                let ours = self.server.local_credentials().clone();
                let theirs = self.server.remote_credentials().expect("answered").clone();
                self.server.restart_ice(ours, theirs, self.now);
                self.drain()
            }
        }
    }

    fn seal(&mut self, sender: usize, bytes: usize, marker: bool) -> bool {
        let mut payload = vec![0; bytes];
        self.rng.fill(&mut payload);
        let timestamp = u32::try_from(self.rng.below(1 << 32)).expect("32 bits");
        let mut out = [0; 1500];
        let sealed = self
            .server
            .seal(
                SenderIndex(sender),
                timestamp,
                marker,
                &payload,
                self.now,
                &mut out,
            )
            .expect("connected, and room enough");
        let fresh = self.ledger.note(&out[..sealed.len], &payload);
        self.sent.push(Sent {
            sender,
            sequence: sealed.sequence,
            timestamp,
            marker,
            payload,
        });
        fresh
    }

    fn again(&mut self, back: usize, change: Change, room: usize) -> bool {
        let Some(place) = self.sent.len().checked_sub(back + 1) else {
            return true;
        };
        let Sent {
            sender,
            sequence,
            timestamp,
            marker,
            payload,
        } = &self.sent[place];
        let (mut timestamp, mut marker, mut payload) = (*timestamp, *marker, payload.clone());
        match change {
            Change::Nothing => {}
            Change::Timestamp => timestamp ^= 1,
            Change::Marker => marker = !marker,
            Change::Payload => payload[0] ^= 1,
            Change::Longer => payload.push(0),
        }
        let mut out = vec![0; room];
        let bytes = self.server.seal_retransmission(
            SenderIndex(*sender),
            *sequence,
            timestamp,
            marker,
            &payload,
            self.now,
            &mut out,
        );
        // A refusal must not leave a sealed packet behind either.
        let Some(bytes) = bytes else {
            return out.iter().all(|byte| *byte == 0) || room < 60;
        };
        let plaintext = match self.server.senders()[*sender].rtx {
            Some(_) => [&sender::wire(*sequence).to_be_bytes()[..], &payload].concat(),
            None => payload,
        };
        self.ledger.note(&out[..bytes], &plaintext)
    }

    fn drain(&mut self) -> bool {
        let mut out = Vec::new();
        let mut fresh = true;
        while self.server.poll_transmit(&mut out).is_some() {
            if kind(&out) == "rtcp" {
                fresh &= self.ledger.note_rtcp(&out);
            }
        }
        while self.server.poll_event().is_some() {}
        fresh
    }
}

fn without_rtx(sdp: &str) -> String {
    sdp.replace(" rtx/90000", " unknown/90000")
}

fn with_rtx(sdp: &str) -> String {
    sdp.to_owned()
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(48))]
    #[test]
    fn no_order_of_sealing_uses_a_nonce_for_two_packets(
        seed: u64, rtx: bool, ops in prop::collection::vec(op(), 1..900),
    ) {
        let mut watched = Watched::new(seed, if rtx { with_rtx } else { without_rtx });
        for (step, op) in ops.iter().enumerate() {
            prop_assert!(watched.run(op), "step {}: {:?}", step, op);
        }
        if rtx {
            prop_assert_eq!(watched.ledger.repeats, 0, "RTX has numbers of its own");
        }
    }
}

/// The 16 bits on the wire wrap twice for video, audio and the retransmissions of both.
#[test]
fn numbers_that_roll_over_bring_no_nonce_back() {
    for edit_offer in [with_rtx, without_rtx] {
        let mut watched = Watched::new(1, edit_offer);
        let rtx = watched.server.senders()[0].rtx.is_some();
        for round in 0..(2 << 16) + 100 {
            let sender = round & 1;
            assert!(watched.seal(sender, BLOCK, false), "packet {round}");
            assert!(watched.again(round % 200, Change::Nothing, 1500), "{round}");
        }
        let counts = watched.server.senders()[0].counts();
        assert!(counts.packets > 1 << 16, "{counts:?}");
        assert!(counts.retransmitted > 60_000, "{counts:?}");
        let nonces = watched.ledger.rtp.len();
        let repeats = watched.ledger.repeats;
        assert_eq!(repeats == 0, rtx, "{repeats} repeats of {nonces}");
    }
}

/// The failing twin: an end that counts again from the start under the same keys is detected.
#[test]
fn the_ledger_knows_a_nonce_that_comes_back() {
    let profile = Profile::AeadAes256Gcm;
    let material = [5; 2 * (32 + 12)];
    let mut ledger = Ledger::default();
    let mut seal = |payload: &[u8; 20], sequence| {
        let (mut outbound, _) =
            srtp::derive(profile, &material, Role::Server).expect("enough material");
        let stream = outbound.add_stream(Ssrc(9), sequence).expect("the first");
        let mut out = [0; 100];
        out[0] = 0x80;
        let sealed = outbound
            .seal(stream, 12, payload, 0, &mut out)
            .expect("room");
        ledger.note(&out[..sealed.bytes], payload)
    };
    assert!(seal(&[1; 20], 7));
    assert!(seal(&[1; 20], 7), "the same packet once more");
    assert!(seal(&[2; 20], 8));
    assert!(!seal(&[2; 20], 7), "another packet under the first nonce");
}
