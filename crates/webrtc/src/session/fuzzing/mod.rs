//! Driver of the fuzz target `established`: an authentic peer that sends anything.
//!
//! ```text
//! input ─► Attacker: RTCP, RTP, SCTP, alerts in the clear ─ sealed with its keys ─► Victim
//!                                                                     checked ◄─────┘
//! ```
//!
//! Both ends are sessions of this crate, connected in memory and in virtual time. The attacker's
//! bytes are sealed with the attacker's own keys, so the victim decrypts them and its handlers see
//! them. No other build of the crate can seal what a session did not make itself.

mod input;
mod side;

use std::collections::VecDeque;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::{Duration, Instant};

use glassline_congestion::Algorithm;
use glassline_media::{Codec, Track, VideoParameters, WallClock};
use glassline_sctp::channel::{Init, Message};

use super::{
    AcceptConfig, DataConfig, DialConfig, Kinds, REPAIRS_MAX, ReceiveMode, Secrets, SenderIndex,
    Session,
};
use crate::dtls::Certificate;
use crate::dtls::record::ContentType;
use crate::sdp::{OpusOptions, Redundancy};
use input::Input;
use side::Side;

/// Most operations of one input.
const STEPS_MAX: usize = 200;
/// Most bytes of a packet that the attacker seals.
const PLAINTEXT_MAX: usize = 1150;
/// Bytes of the SCTP common header (RFC 9260 §3.1).
const SCTP_HEADER: usize = 12;

/// Runs the operations that `bytes` describe between an attacker and a victim that have connected.
///
/// # Panics
/// A handler of the victim panics, or an invariant does not hold: decrypted bytes end a session only
/// by an alert of the peer, events name only what was sent, and buffers stay within their bounds.
pub fn established(bytes: &[u8]) {
    let mut input = Input(bytes);
    let options = input.byte();
    let mut scene = Scene::new(options);
    for _ in 0..STEPS_MAX {
        if input.0.is_empty() {
            break;
        }
        scene.step(&mut input);
        scene.check();
    }
    scene.pass_for(Duration::from_secs(2));
    scene.check();
}

/// The attacker and its victim.
struct Scene {
    now: Instant,
    attacker: Side,
    victim: Side,
    /// Whether the attacker sent an alert, which may end the session.
    alerted: bool,
    timestamp: u32,
}

fn certificate() -> Arc<Certificate> {
    Arc::new(Certificate::generate().expect("a certificate"))
}

thread_local! {
    static CERTIFICATES: [Arc<Certificate>; 2] = [certificate(), certificate()];
}

impl Scene {
    /// Connects two sessions. Bits of `options`: 1 the client attacks, 2 no data channels, 4 no
    /// retransmission format, 8 congestion control at the victim, 16 only counts what arrives.
    #[expect(clippy::disallowed_methods, reason = "virtual time may begin anywhere")]
    fn new(options: u8) -> Self {
        let now = Instant::now();
        let wall = WallClock::new(now, Duration::from_secs(1_700_000_000));
        let [ours, theirs] = CERTIFICATES.with(Clone::clone);
        let addresses = ["192.0.2.1:8189", "192.0.2.2:40000"];
        let addresses = addresses.map(|it| it.parse::<SocketAddr>().expect("an address"));
        let data = (options & 2 == 0).then(DataConfig::default);
        let tracks = [
            Track::h264(VideoParameters::default()),
            Track::audio(Codec::Opus, 2),
        ];
        let opus = OpusOptions {
            redundancy: Redundancy::Always,
            ..OpusOptions::default()
        };
        let mode = match options & 16 {
            0 => ReceiveMode::Open,
            _ => ReceiveMode::CountOnly,
        };
        let (mut client, mut offer) = Session::dial(
            DialConfig {
                certificate: theirs,
                local: vec![addresses[1]],
                turn_allocations: Vec::new(),
                data: data.clone(),
                secrets: Secrets::expand(&[1; 32]),
                wall,
                send: tracks.to_vec(),
                receive: Kinds::ALL,
                opus,
                mode,
            },
            now,
        );
        if options & 4 != 0 {
            offer = offer.replace(" rtx/90000", " unknown/90000");
        }
        let config = AcceptConfig {
            certificate: ours,
            local: vec![addresses[0].into()],
            secrets: Secrets::expand(&[2; 32]),
            wall,
            tracks: &tracks,
            receive: Kinds::ALL,
            opus,
            data,
        };
        let (server, answer) = Session::accept(config, &offer, now).expect("our own offer");
        client.set_answer(&answer, now).expect("our own answer");
        let side = |session, address| Side {
            session,
            address,
            queue: VecDeque::new(),
            numbered: 0,
            acked: 0,
            channel: None,
        };
        let (server, client) = (side(server, addresses[0]), side(client, addresses[1]));
        let (attacker, victim) = match options & 1 {
            0 => (server, client),
            _ => (client, server),
        };
        let mut scene = Self {
            now,
            attacker,
            victim,
            alerted: false,
            timestamp: 0,
        };
        scene.connect(options);
        scene
    }

    fn connect(&mut self, options: u8) {
        let now = self.now;
        if options & 8 != 0 {
            let congestion = Algorithm::BbrLossTolerant;
            self.victim
                .session
                .enable_congestion_control(congestion, now);
        }
        for side in [&mut self.attacker, &mut self.victim] {
            let channels = side.session.channels_mut();
            side.channel = channels.and_then(|it| it.open(Init::default(), now).ok());
        }
        let connected = |scene: &Self| {
            let opened = |side: &Side| {
                let info = side.session.channels().zip(side.channel);
                info.is_none_or(|(it, channel)| {
                    it.info(channel).is_some_and(|it| it.stream.is_some())
                })
            };
            let ends = [&scene.attacker, &scene.victim];
            ends.iter()
                .all(|side| side.session.is_connected() && opened(side))
        };
        for _ in 0..100 {
            self.pass_for(Duration::from_millis(20));
            if connected(self) {
                return;
            }
        }
        panic!("the ends did not connect: {:?}", self.victim.session);
    }

    fn step(&mut self, input: &mut Input<'_>) {
        match input.byte() % 12 {
            0 => {
                let packet = input.piece().to_vec();
                self.attack_with_rtcp(packet);
            }
            1 => {
                let (sender, mut packet) = (input.byte(), input.piece().to_vec());
                // Most packets name the SSRC of the media behind that of their sender.
                let senders = self.victim.session.senders();
                let about = &senders[usize::from(sender) % senders.len()];
                if let Some(field) = packet.get_mut(8..12) {
                    field.copy_from_slice(&about.ssrc.0.to_be_bytes());
                }
                // A request for lost packets names recent ones.
                if let (0, Some(next), Some([high, low])) =
                    (sender & 0x80, about.next_sequence(), packet.get_mut(12..14))
                {
                    let named = next.wrapping_sub(u64::from(*low)).to_be_bytes();
                    [*high, *low] = [named[6], named[7]];
                }
                self.attack_with_rtcp(packet);
            }
            2 => self.attack_with_chunks(input.piece()),
            3 => {
                let mask = input.piece();
                self.attack_with_changed_packet(mask);
            }
            4 => {
                let alert = input.piece();
                self.alerted = true;
                self.attack_with_record(ContentType::Alert, alert);
            }
            5 => {
                let (sender, marker) = (input.byte(), input.byte());
                let extension = input.piece();
                self.attack_with_rtp(sender, marker, extension, input.piece());
            }
            6 => {
                let (sender, count) = (input.byte(), input.word());
                let sender = usize::from(sender) % self.attacker.session.senders().len();
                self.attacker.session.skip(SenderIndex(sender), count);
            }
            7 => self.pass_for(Duration::from_millis(u64::from(input.byte()) * 4)),
            8 => self.show(input.byte()),
            9 => self.say(input.byte()),
            10 => {
                let sender = usize::from(input.byte());
                self.victim
                    .session
                    .request_keyframe(sender.into(), self.now);
            }
            _ => self.pass(),
        }
    }

    fn attack_with_rtcp(&mut self, mut packet: Vec<u8>) {
        // SRTCP leaves the header in the clear; with another version it would be no RTCP.
        if let Some(first) = packet.first_mut() {
            *first = 0x80 | (*first & 0x3f);
        }
        self.attacker.session.send_rtcp(packet);
        self.pass();
    }

    /// Sends chunks of SCTP behind a common header that the victim's association accepts.
    fn attack_with_chunks(&mut self, chunks: &[u8]) {
        let now = self.now;
        let Some(channels) = self.attacker.session.channels_mut() else {
            return;
        };
        let mut packet = vec![0; channels.mtu()];
        if channels.poll_transmit(now, &mut packet).is_none() {
            // A message makes a packet, whose header has the tag that was agreed.
            let said = self.attacker.channel;
            let sent = said.map(|it| channels.send(it, Message::binary(vec![0; 4]), now));
            if !matches!(sent, Some(Ok(()))) || channels.poll_transmit(now, &mut packet).is_none() {
                return;
            }
        }
        packet.truncate(SCTP_HEADER);
        packet[8..SCTP_HEADER].fill(0);
        packet.extend_from_slice(chunks);
        self.attack_with_record(ContentType::ApplicationData, &packet);
    }

    /// Changes the next packet that the attacker's association sends.
    fn attack_with_changed_packet(&mut self, mask: &[u8]) {
        let now = self.now;
        let Some(channels) = self.attacker.session.channels_mut() else {
            return;
        };
        let mut packet = vec![0; channels.mtu()];
        let Some(bytes) = channels.poll_transmit(now, &mut packet) else {
            return;
        };
        packet.truncate(bytes);
        packet[8..SCTP_HEADER].fill(0);
        for (byte, change) in packet[SCTP_HEADER..].iter_mut().zip(mask) {
            *byte ^= change;
        }
        self.attack_with_record(ContentType::ApplicationData, &packet);
    }

    fn attack_with_record(&mut self, content: ContentType, payload: &[u8]) {
        let sealer = self
            .attacker
            .session
            .dtls
            .as_mut()
            .and_then(|it| it.sealer());
        let Some(sealer) = sealer else {
            return;
        };
        let offset = sealer.payload_offset();
        let mut record = vec![0; payload.len() + sealer.overhead()];
        record[offset..offset + payload.len()].copy_from_slice(payload);
        if let Ok(bytes) = sealer.seal(content, &mut record, payload.len()) {
            record.truncate(bytes);
            self.deliver_to_victim(record);
        }
    }

    /// Seals an RTP packet with any header extension and payload.
    fn attack_with_rtp(&mut self, sender: u8, second: u8, extension: &[u8], payload: &[u8]) {
        let session = &mut self.attacker.session;
        let at = usize::from(sender) % session.senders().len();
        let Some(keys) = session.keys.as_mut() else {
            return;
        };
        let Some(stream) = session.senders[at].srtp_stream(sender & 0x40 != 0) else {
            return;
        };
        self.timestamp = self.timestamp.wrapping_add(u32::from(sender) * 90);
        let mut packet = vec![0x80, second, 0, 0];
        packet.extend_from_slice(&self.timestamp.to_be_bytes());
        packet.extend_from_slice(&[0; 4]);
        if sender & 0x80 != 0 {
            let words = extension.len() / 4;
            packet[0] |= 0x10;
            packet.extend_from_slice(&[0xbe, 0xde]);
            packet.extend_from_slice(&u16::try_from(words).unwrap_or(0).to_be_bytes());
            packet.extend_from_slice(&extension[..words * 4]);
        }
        if sender & 0x20 != 0 {
            packet[0] |= 0x20;
        }
        let header = packet.len();
        packet.extend_from_slice(payload);
        packet.resize(packet.len() + keys.outbound.overhead(), 0);
        let sealed = keys
            .outbound
            .seal_in_place(stream, header, payload.len(), &mut packet);
        if let Some(sealed) = sealed {
            packet.truncate(sealed.bytes);
            self.deliver_to_victim(packet);
        }
    }

    fn deliver_to_victim(&mut self, datagram: Vec<u8>) {
        self.victim.queue.push_back(datagram);
        self.pass();
    }

    /// The victim sends a few packets of media.
    fn show(&mut self, argument: u8) {
        let victim = &mut self.victim;
        let sender = SenderIndex(usize::from(argument & 1));
        for packet in 0..=argument >> 4 {
            let mut out = [0; 200];
            self.timestamp = self.timestamp.wrapping_add(90);
            let payload = [packet; 100];
            let (timestamp, marker) = (self.timestamp, packet == argument >> 4);
            let sealed = victim
                .session
                .seal(sender, timestamp, marker, &payload, self.now, &mut out);
            if let Some(sealed) = sealed {
                victim.numbered += 1;
                self.attacker.queue.push_back(out[..sealed.len].to_vec());
            }
        }
    }

    /// Both ends send a message each.
    fn say(&mut self, argument: u8) {
        for side in [&mut self.attacker, &mut self.victim] {
            let channel = side.channel;
            if let Some((channels, channel)) = side.session.channels_mut().zip(channel) {
                let message = Message::binary(vec![argument; 40 * usize::from(argument)]);
                // A closed channel, or a full buffer, refuses the message.
                let _ = channels.send(channel, message, self.now);
            }
        }
    }

    fn pass_for(&mut self, duration: Duration) {
        let end = self.now + duration;
        while self.now < end {
            self.pass();
            let sides = [&mut self.attacker, &mut self.victim];
            let next = sides
                .into_iter()
                .filter_map(|side| side.session.poll_timeout())
                .min();
            let step = Duration::from_millis(100);
            self.now = next
                .map_or(end, |at| at.clamp(self.now, self.now + step))
                .min(end);
            for side in [&mut self.attacker, &mut self.victim] {
                let due = side.session.poll_timeout().is_some_and(|at| at <= self.now);
                if due {
                    side.session.handle_timeout(self.now);
                }
            }
            self.now += Duration::from_micros(1);
        }
        self.pass();
    }

    /// Passes everything that is on its way.
    fn pass(&mut self) {
        for _ in 0..4 {
            self.attacker.send_to(&mut self.victim, self.now);
            self.victim.receive(self.attacker.address, self.now);
            self.victim.send_to(&mut self.attacker, self.now);
            self.attacker.receive(self.victim.address, self.now);
        }
    }

    fn check(&mut self) {
        let (now, victim) = (self.now, &mut self.victim);
        assert!(
            victim.session.is_connected() || self.alerted,
            "no alert came, and yet the session ended"
        );
        assert!(
            victim.acked <= victim.numbered,
            "acknowledged, but not sent"
        );
        assert_eq!(victim.session.events_dropped(), 0);
        for sender in victim.session.senders() {
            assert!(sender.counts().retransmitted <= REPAIRS_MAX + sender.counts().packets);
        }
        if let Some(counts) = victim.session.data_counts() {
            assert_eq!((counts.records.forged, counts.records.malformed), (0, 0));
            assert!(counts.refused <= counts.records.opened);
        }
        if let Some(channels) = victim.session.channels() {
            let report = channels.report();
            let config = glassline_sctp::Config::default();
            let window = u64::from(config.receive_window_max);
            assert!(
                report.unread + report.unassembled <= 2 * window,
                "{report:?}"
            );
            let buffered = report.buffered + report.unacknowledged;
            assert!(buffered <= config.send_buffer_max as u64, "{report:?}");
        }
        // A deadline that stays in the past would spin.
        for _ in 0..8 {
            if victim.session.poll_timeout().is_none_or(|at| at > now) {
                return;
            }
            victim.session.handle_timeout(now);
        }
        panic!("the victim's deadline does not move");
    }
}

#[cfg(test)]
mod tests {
    use glassline_sim::Rng;

    /// The seeds of the fuzz target, and inputs that are made of operations with short arguments.
    #[test]
    fn an_authentic_peer_may_send_anything() {
        let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/../../fuzz/seeds/established");
        for entry in std::fs::read_dir(folder).expect("the seeds are part of the checkout") {
            let path = entry.expect("a file").path();
            super::established(&std::fs::read(&path).expect("a readable seed"));
        }
        for seed in 0..24 {
            println!("seed {seed}");
            let mut rng = Rng::new(seed);
            let mut input = vec![seed as u8];
            for _ in 0..60 {
                let mut bytes = [0; 40];
                rng.fill(&mut bytes);
                // An argument's length is in its two first bytes.
                bytes[1] = 0;
                bytes[2] %= 36;
                input.extend_from_slice(&bytes);
            }
            super::established(&input);
        }
    }
}
