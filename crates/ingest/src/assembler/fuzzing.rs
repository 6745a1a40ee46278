//! Driver of the fuzz target `assembler`: RTP packets of a source, with any numbers, times and
//! payloads, become media units on one timeline.

use std::sync::Arc;
use std::time::{Duration, Instant};

use glassline_hub::{Hub, StreamName, Subscription, Wake};
use glassline_media::{Codec, MediaUnit, PAYLOAD_BYTES_MAX, Track, TrackIndex, VideoParameters};

use glassline_rtp::receive::Received;
use glassline_rtp::reorder::ReceivedPacket;

use super::Assembler;

/// Most packets of one input.
const PACKETS_MAX: usize = 400;

/// Runs the operations that `bytes` describe: packets of up to two tracks, sender reports, time.
///
/// # Panics
/// The assembler or the hub panics, or an invariant does not hold: units have packets that fit, of
/// tracks that exist, from packets that arrived; what is remembered of arrivals is bounded; units
/// reach a reader in the order of their numbers.
pub fn assembler(bytes: &[u8]) {
    let Some((&options, mut rest)) = bytes.split_first() else {
        return;
    };
    let Some(mut scene) = Scene::new(options) else {
        return;
    };
    for _ in 0..PACKETS_MAX {
        let Some((head, after)) = rest.split_first_chunk::<8>() else {
            break;
        };
        rest = after;
        let count = usize::from(head[7]).min(rest.len());
        let (payload, after) = rest.split_at(count);
        rest = after;
        scene.step(head, payload);
        scene.check();
    }
}

struct NoWake;

impl Wake for NoWake {
    fn wake(&self) {}
}

struct Scene {
    start: Instant,
    now: Instant,
    assembler: Assembler,
    publisher: glassline_hub::Publisher,
    reader: Subscription,
    /// Number of the next packet, and its timestamp, of each track.
    next: [(u64, u32); 2],
    given: usize,
    taken: usize,
    out: Vec<MediaUnit>,
}

/// A track of any codec, and one of Opus unless the highest bit of `options` is set.
fn tracks(options: u8) -> Vec<Track> {
    let codecs: Vec<_> = Codec::all().collect();
    let first = match usize::from(options & 0x7f) % (codecs.len() + 1) {
        // Parameter sets from the description, which keyframes without any get.
        0 => Track::h264(VideoParameters {
            sps: vec![0x67, 0x42, 0xc0, 0x1f, 0xda],
            pps: vec![0x68, 0xce, 0x3c, 0x80],
            ..VideoParameters::default()
        }),
        other => Track::new(codecs[other - 1]),
    };
    match options & 0x80 {
        0 => vec![first, Track::audio(Codec::Opus, 2)],
        _ => vec![first],
    }
}

impl Scene {
    fn new(options: u8) -> Option<Self> {
        let tracks = tracks(options);
        let assembler = Assembler::new(tracks).ok()?;
        let start = Instant::now();
        let name = StreamName::parse("source").expect("a good name");
        let stream = Hub::default().create(name).expect("room for one");
        let publisher = stream.publish(assembler.tracks().to_vec(), start);
        Some(Self {
            start,
            now: start,
            assembler,
            publisher: publisher.expect("nobody else publishes"),
            reader: stream.subscribe(Arc::new(NoWake)),
            next: [(1 << 16, u32::MAX - 90_000), (1 << 16, 0)],
            given: 0,
            taken: 0,
            out: Vec::new(),
        })
    }

    /// `head`: what happens; a bit for the marker; by how many ms the clock moves; by how much
    /// sequence number (1 byte) and timestamp (3 bytes, signed) move.
    fn step(&mut self, head: &[u8; 8], payload: &[u8]) {
        let [kind, ms, sequence, high, middle, low, bits, _] = *head;
        self.now += Duration::from_millis(u64::from(ms));
        let track = usize::from(kind & 1) % self.assembler.tracks().len();
        let ticks = i32::from_be_bytes([high, middle, low, 0]) >> 8;
        let next = &mut self.next[track];
        next.1 = next.1.wrapping_add_signed(ticks << (bits & 7));
        if kind & 6 == 6 {
            let mut ntp = [0; 8];
            let count = payload.len().min(8);
            ntp[..count].copy_from_slice(&payload[..count]);
            let ntp = u64::from_be_bytes(ntp);
            let timestamp = next.1;
            let report = Received::Report { ntp, timestamp };
            let track = TrackIndex(track);
            self.assembler.take(track, report, &mut self.out);
            return;
        }
        // Numbers go on, with gaps; a source that begins anew goes on above all earlier ones.
        next.0 += 1 + u64::from(sequence & 0x3f) * u64::from(sequence >> 7);
        let track = TrackIndex(track);
        let packet = ReceivedPacket {
            sequence: next.0,
            timestamp: next.1,
            marker: bits & 8 != 0,
            payload,
            received: self.now,
        };
        self.given += payload.len();
        self.assembler
            .take(track, Received::Packet(packet), &mut self.out);
        self.publish();
    }

    fn publish(&mut self) {
        if let Some(tracks) = self.assembler.take_redescribed() {
            let described = self.publisher.describe(tracks);
            described.expect("the codecs stay the same");
        }
        for unit in self.out.drain(..) {
            assert!(unit.track.get() < self.assembler.tracks().len());
            assert!(self.start <= unit.stamps.origin && unit.stamps.origin <= self.now);
            assert!(unit.packet_count() > 0);
            for payload in unit.payloads() {
                assert!(!payload.is_empty() && payload.len() <= PAYLOAD_BYTES_MAX);
            }
            if let Some(frame) = unit.coded_frame() {
                self.taken += frame.to_vec().len();
            }
            let _ = self.assembler.starts(&unit);
            let published = self.publisher.push(unit, self.now);
            let published = published.expect("a track that was announced");
            let published = published.expect("nothing stands in");
            assert!(published.stamps.published == self.now);
        }
    }

    fn check(&mut self) {
        // Start codes, parameter sets and headers of JPEG are added: less than a packet's worth for
        // every few bytes.
        assert!(self.taken <= 16_384 + 1_400 * self.given, "more than came");
        let mut units = Vec::new();
        self.reader.poll(&mut units);
        for pair in units.windows(2) {
            if pair[0].track == pair[1].track {
                assert_eq!(pair[0].index + 1, pair[1].index);
                let packets = pair[0].packet_count() as u64;
                assert_eq!(pair[0].first_packet + packets, pair[1].first_packet);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use glassline_sim::Rng;

    /// The seeds of the fuzz target, and random packets.
    #[test]
    fn any_packets_of_a_source_become_units_or_nothing() {
        let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/../../fuzz/seeds/assembler");
        for entry in std::fs::read_dir(folder).expect("the seeds are part of the checkout") {
            let path = entry.expect("a file").path();
            super::assembler(&std::fs::read(&path).expect("a readable seed"));
        }
        for seed in 0..200 {
            println!("seed {seed}");
            let mut input = vec![0; 4_000];
            Rng::new(seed).fill(&mut input);
            input[0] = seed as u8;
            super::assembler(&input);
        }
    }
}
