//! A viewer that moves between the layers of a track, over a path that loses packets, in virtual time.

use std::collections::{BTreeMap, HashMap, VecDeque};

use glassline_media::{Codec, Layer};
use glassline_rtp::payload::{Depacketizer, Entry, FrameNumbers, Packetizer};
use glassline_webrtc::{Event, Received};

use super::*;

/// Time from one frame to the next in ms.
const FRAME_MS: u64 = 33;
/// Time that a datagram takes to the viewer in ms.
const DELAY_MS: u64 = 20;
/// Frames for which nothing else happens after a switch, in which the viewer gets all frames since the
/// keyframe of its new layer.
const CALM_FRAMES: u64 = 12;
/// Most bytes of the frames of each layer.
const FRAME_BYTES: [usize; 3] = [700, 2_000, 5_000];

/// Numbers by seed.
struct Random(u64);

impl Random {
    fn below(&mut self, bound: u64) -> u64 {
        self.0 = self
            .0
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) % bound
    }
}

/// Returns what stands before the tag of a frame.
fn head(codec: Codec, keyframe: bool) -> &'static [u8] {
    match (codec, keyframe) {
        (Codec::Vp8, true) => &[0x10, 2, 0, 0x9d, 1, 0x2a, 64, 0, 64, 0],
        (Codec::Vp8, false) => &[0x11, 2, 0],
        (Codec::Vp9, true) => &[0x82, 0x49, 0x83, 0x42, 0xff],
        (Codec::Vp9, false) => &[0x86, 0xff],
        (_, true) => &[
            0, 0, 0, 1, 0x67, 0x42, 0xc0, 0x1f, 0xda, 0, 0, 0, 1, 0x68, 0xce, 0x3c, 0x80, 0, 0, 0,
            1, 0x65, 0x88,
        ],
        (_, false) => &[0, 0, 0, 1, 0x41, 0x9a],
    }
}

/// Layer and number of a frame, and whether it is a keyframe.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
struct Tag {
    layer: usize,
    number: u64,
    keyframe: bool,
}

impl Tag {
    fn frame(self, codec: Codec, bytes: usize) -> Vec<u8> {
        let septet = |shift: u64| 0x80 | u8::try_from(self.number >> shift & 0x7f).expect("small");
        let layer = 0x80 | u8::try_from(self.layer).expect("small");
        let mut frame = head(codec, self.keyframe).to_vec();
        frame.extend([layer, septet(14), septet(7), septet(0)]);
        frame.resize(frame.len().max(bytes), 0xff);
        frame
    }

    fn of(codec: Codec, frame: &[u8], keyframe: bool) -> Self {
        let tag = &frame[head(codec, keyframe).len()..];
        let number = tag[1..4]
            .iter()
            .fold(0, |all, it| all << 7 | u64::from(it & 0x7f));
        Self {
            layer: usize::from(tag[0] & 0x7f),
            number,
            keyframe,
        }
    }
}

fn of_layer(layer: usize) -> TrackLayer {
    TrackLayer {
        track: VIDEO,
        layer: LayerIndex::of_encoding(layer),
    }
}

/// The publisher's side: three layers, with clocks that differ.
struct Publication {
    codec: Codec,
    packetizers: [Packetizer; 3],
    number: u64,
    /// Number of the frame before which no keyframe comes that nobody asked for.
    calm_until: u64,
    sent: HashMap<Tag, Vec<u8>>,
}

impl Publication {
    fn new(codec: Codec, random: &mut Random) -> Self {
        let mut packetizers = [(); 3].map(|()| Packetizer::new(&Track::new(codec)));
        for packetizer in &mut packetizers {
            // Each encoder has sent other numbers of frames before, near the end of the numbers.
            for _ in 0..0x7fe0 + random.below(60) {
                let mut builder = UnitBuilder::default();
                let packetized = packetizer.packetize(head(codec, false), &mut builder);
                packetized.expect("a frame");
            }
        }
        Self {
            codec,
            packetizers,
            number: 0,
            calm_until: 0,
            sent: HashMap::new(),
        }
    }

    /// Publishes the next frame of each layer at `ms`. Returns the units.
    fn publish(&mut self, scene: &mut Scene, random: &mut Random, ms: u64) -> Vec<Arc<MediaUnit>> {
        let wanted = scene.publisher.wanted_keyframes();
        let at = scene.at(ms);
        let mut units = Vec::new();
        for (layer, most) in FRAME_BYTES.into_iter().enumerate() {
            let is_asked = wanted.has(LayerIndex::of_encoding(layer));
            let is_due = random.below(60) == 0 && self.number >= self.calm_until;
            let keyframe = self.number == 0 || is_asked || is_due;
            let bytes = most * (1 + usize::from(keyframe));
            let bytes = bytes / 2 + random.below(bytes as u64 / 2) as usize;
            let tag = Tag {
                layer,
                number: self.number,
                keyframe,
            };
            let frame = tag.frame(self.codec, bytes);
            let mut builder = UnitBuilder::default();
            let packetized = self.packetizers[layer].packetize(&frame, &mut builder);
            packetized.expect("a frame");
            // The clock of each layer is up to 40 ms off.
            let time_ms = i64::try_from(ms + 20 * layer as u64).expect("soon");
            let time = MediaTime::from_ticks(time_ms, 1_000);
            let unit = builder.build(VIDEO, time, keyframe, Stamps::arrived(at));
            let mut unit = unit.expect("packets");
            unit.layer = LayerIndex::of_encoding(layer);
            let pushed = scene.publisher.push(unit, at).expect("announced");
            units.extend(pushed);
            self.sent.insert(tag, frame);
        }
        self.number += 1;
        units
    }
}

/// A packet as the viewer has it in the end.
struct Kept {
    timestamp: u32,
    marker: bool,
    payload: Vec<u8>,
}

/// The path to the viewer, and what the viewer keeps.
struct Path {
    random: Random,
    loss_percent: u64,
    under_way: VecDeque<(u64, Vec<u8>)>,
    kept: BTreeMap<u64, Kept>,
    repaired: usize,
}

impl Path {
    /// Moves everything that moves within a millisecond.
    fn step(&mut self, scene: &mut Scene, sender: &mut StreamSender, ms: u64) {
        let now = scene.at(ms);
        let batch = scene.outbox.batch(scene.route());
        sender.flush(&mut scene.session, batch, now, &scene.counters, |_| {});
        for datagram in scene.left() {
            if self.random.below(100) >= self.loss_percent {
                self.under_way.push_back((ms + DELAY_MS, datagram));
            }
        }
        let viewer_address = scene.socket.local_addr().expect("bound");
        scene.session.handle_timeout(now);
        let mut control = Vec::new();
        while scene.session.poll_transmit(&mut control).is_some() {
            self.under_way.push_back((ms + DELAY_MS, control.clone()));
        }
        while self.under_way.front().is_some_and(|(due, _)| *due <= ms) {
            let (_, mut datagram) = self.under_way.pop_front().expect("seen");
            let from = scene.server_address;
            let opened = scene
                .viewer
                .handle_datagram(now, from, viewer_address, &mut datagram);
            let Ok(Received::Rtp {
                sequence,
                repaired,
                packet,
                ..
            }) = opened
            else {
                continue;
            };
            self.repaired += usize::from(repaired);
            let kept = Kept {
                timestamp: packet.header.timestamp,
                marker: packet.header.marker,
                payload: packet.payload.to_vec(),
            };
            self.kept.entry(sequence).or_insert(kept);
        }
        scene.viewer.handle_timeout(now);
        while scene.viewer.poll_transmit(&mut control).is_some() {
            let to = scene.server_address;
            let handled = scene
                .session
                .handle_datagram(now, viewer_address, to, &mut control);
            handled.expect("a report");
        }
        while let Some(event) = scene.session.poll_event() {
            if let Event::Nack {
                sender: of, lost, ..
            } = event
            {
                let nack = Nack {
                    sender: of,
                    lost: &lost,
                };
                sender.repair(&scene.stream, nack, now, &scene.counters);
            }
        }
    }

    /// Decodes what the viewer has. Returns how often the layer changed. Frames are missing only if
    /// some were `skipped`, and then in front of a keyframe.
    fn check(&self, codec: Codec, sent: &HashMap<Tag, Vec<u8>>, skipped: usize) -> usize {
        let mut depacketizer = Depacketizer::new(&Track::new(codec)).expect("supported");
        let (mut numbers, mut frames) = (HashMap::new(), Vec::new());
        for (sequence, packet) in &self.kept {
            let of_packet = FrameNumbers::of(codec, &packet.payload).frame_id;
            let of_frame = *numbers.entry(packet.timestamp).or_insert(of_packet);
            assert_eq!(
                of_frame, of_packet,
                "all packets of a frame have one number"
            );
            depacketizer.push(*sequence, packet.timestamp, packet.marker, &packet.payload);
            frames.extend(std::iter::from_fn(|| depacketizer.poll()));
        }
        if skipped == 0 {
            let first = self.kept.first_key_value().expect("packets").0;
            let numbers = *first..*first + self.kept.len() as u64;
            assert!(self.kept.keys().copied().eq(numbers), "a number is missing");
            let counters = depacketizer.counters();
            let torn = (counters.damaged, counters.malformed, counters.lost);
            assert_eq!(torn, (0, 0, 0));
        }
        let mut changes = 0;
        let mut before: Option<(Tag, u32)> = None;
        for frame in &frames {
            let tag = Tag::of(codec, &frame.data, frame.entry == Entry::Keyframe);
            assert_eq!(Some(&frame.data), sent.get(&tag), "{tag:?}");
            let Some((last, timestamp)) = before.replace((tag, frame.timestamp)) else {
                assert!(tag.keyframe, "{tag:?} is first");
                continue;
            };
            let is_next = last.layer == tag.layer && last.number + 1 == tag.number;
            assert!(is_next || tag.keyframe, "{tag:?} follows {last:?}");
            changes += usize::from(last.layer != tag.layer);
            let step = frame.timestamp.wrapping_sub(timestamp).cast_signed();
            assert!(step > 0, "{tag:?} is {step} ticks after {last:?}");
            let [one, other] = [timestamp, frame.timestamp].map(|it| numbers[&it]);
            let distance = one
                .zip(other)
                .map(|(one, other)| other.wrapping_sub(one) & 0x7fff);
            let is_good = |distance| distance == 1 || skipped > 0 && tag.keyframe && distance < 500;
            assert!(
                distance.is_none_or(is_good),
                "{tag:?} is {distance:?} after {last:?}"
            );
        }
        changes
    }
}

fn layered(codec: Codec) -> Scene {
    let track = match codec {
        Codec::H264 => tracks().remove(0),
        codec => Track::new(codec),
    };
    let tracks = vec![track.with_layers(vec![Layer::default(); 3])];
    let receive = Kinds {
        audio: false,
        ..Kinds::ALL
    };
    Scene::streaming(tracks, receive)
}

/// The outcome for a viewer.
struct Watched {
    /// Number of times that its layer changed.
    changes: usize,
    /// Packets that were lost and came again.
    repaired: usize,
    /// Frames that were skipped.
    skipped: usize,
}

/// Sends a minute of three layers to a viewer whose best layer changes at any time; if `is_calm`, never
/// again before the viewer has the frames since a keyframe.
fn watch(codec: Codec, seed: u64, is_calm: bool) -> Watched {
    let mut random = Random(seed);
    let mut scene = layered(codec);
    let mut publication = Publication::new(codec, &mut random);
    let mut path = Path {
        random: Random(seed ^ 0x5eed),
        loss_percent: 3,
        under_way: VecDeque::new(),
        kept: BTreeMap::new(),
        repaired: 0,
    };
    scene.publisher.prefer(of_layer(2));
    let mut sender = scene.sender();
    scene.start(&mut sender, 0);
    let mut skipped = 0;
    for ms in 0..62_000 {
        if ms % FRAME_MS == 0 && ms < 60_000 {
            let units = publication.publish(&mut scene, &mut random, ms);
            for unit in units {
                // A shard reads no other layers.
                if sender.layers().any(|it| it == unit.track_layer()) {
                    skipped += sender.offer(&unit, scene.at(ms), &scene.stream);
                }
            }
            if publication.number >= publication.calm_until && random.below(15) == 0 {
                scene.publisher.prefer(of_layer(random.below(3) as usize));
                let now = scene.at(ms);
                sender.choose(&scene.session, &scene.stream, now);
                if is_calm {
                    publication.calm_until = publication.number + CALM_FRAMES;
                }
            }
        }
        if ms == 60_000 {
            // The last packets are repaired.
            path.loss_percent = 0;
        }
        path.step(&mut scene, &mut sender, ms);
    }
    Watched {
        changes: path.check(codec, &publication.sent, skipped),
        repaired: path.repaired,
        skipped,
    }
}

#[test]
fn a_viewer_that_moves_between_layers_gets_every_frame_with_numbers_that_go_on() {
    for codec in [Codec::Vp8, Codec::Vp9, Codec::H264] {
        let seen = watch(codec, 1, true);
        assert!(seen.changes > 20, "{codec}: {} changes", seen.changes);
        assert!(seen.repaired > 30, "{codec}: {} repaired", seen.repaired);
        assert_eq!(seen.skipped, 0, "{codec}");
    }
}

#[test]
fn a_viewer_that_moves_again_before_it_has_arrived_decodes_what_it_gets() {
    for codec in [Codec::Vp8, Codec::Vp9, Codec::H264] {
        let seen = watch(codec, 2, false);
        assert!(seen.changes > 20, "{codec}: {} changes", seen.changes);
    }
}

/// The units that come while a viewer waits for the keyframe of its next layer are those of its layer.
#[test]
fn a_viewer_moves_at_the_keyframe_that_the_hub_keeps_or_asks_for_one() {
    let (mut scene, mut random) = (layered(Codec::Vp8), Random(1));
    let mut publication = Publication::new(Codec::Vp8, &mut random);
    publication.publish(&mut scene, &mut random, 0);
    scene.publisher.prefer(of_layer(2));
    let mut sender = scene.sender();
    scene.start(&mut sender, 10);
    assert!(!sender.is_moving() && scene.publisher.wanted_keyframes().is_empty());
    let layers = |sender: &StreamSender| sender.layers().collect::<Vec<_>>();
    assert_eq!(layers(&sender), [of_layer(2)]);
    // The frame at 33 ms is no keyframe; those since 0 ms are kept.
    publication.publish(&mut scene, &mut random, 33);
    scene.publisher.prefer(of_layer(1));
    sender.choose(&scene.session, &scene.stream, scene.at(40));
    assert!(!sender.is_moving());
    assert_eq!(layers(&sender), [of_layer(1)]);
    // The stream has another source, which has one encoding and no keyframe yet.
    let single = vec![Track::new(Codec::Vp8)];
    let source = glassline_hub::SourceNote::default();
    scene.publisher = scene
        .stream
        .take_over(source, single, scene.at(50))
        .expect("free");
    sender.choose(&scene.session, &scene.stream, scene.at(50));
    assert!(sender.is_moving());
    assert_eq!(layers(&sender), [of_layer(1), VIDEO.into()]);
    assert!(scene.publisher.keyframe_wanted());
    scene.offer(&mut sender, VIDEO, 60, false, &[100]);
    assert!(
        sender.is_moving() && scene.publisher.keyframe_wanted(),
        "again"
    );
    scene.offer(&mut sender, VIDEO, 93, true, &[100]);
    assert!(!sender.is_moving());
    assert_eq!(layers(&sender), [VIDEO.into()]);
}

#[test]
fn a_viewer_begins_with_the_layer_that_its_offer_names_while_the_stream_has_it() {
    let (mut scene, mut random) = (layered(Codec::Vp8), Random(1));
    let mut publication = Publication::new(Codec::Vp8, &mut random);
    publication.publish(&mut scene, &mut random, 0);
    scene.publisher.prefer(of_layer(2));
    let mut sender = scene.sender();
    let named = LayerRequest {
        pin: Some(of_layer(0).layer),
        ..LayerRequest::default()
    };
    assert!(!sender.set_request(named, scene.at(0)), "nothing began");
    scene.start(&mut sender, 10);
    assert!(sender.settle_request(&scene.stream, scene.at(10)));
    assert_eq!(sender.wanted(&scene.stream), Some(of_layer(0)));
    sender.choose(&scene.session, &scene.stream, scene.at(10));
    let layers = |sender: &StreamSender| sender.layers().collect::<Vec<_>>();
    assert_eq!(layers(&sender), [of_layer(0)]);
    assert!(!sender.settle_request(&scene.stream, scene.at(10)));
    // The next source has one encoding.
    let single = vec![Track::new(Codec::Vp8)];
    let source = glassline_hub::SourceNote::default();
    let publisher = scene.stream.take_over(source, single, scene.at(50));
    scene.publisher = publisher.expect("free");
    sender.choose(&scene.session, &scene.stream, scene.at(50));
    assert_eq!(layers(&sender), [of_layer(0), VIDEO.into()]);
    scene.offer(&mut sender, VIDEO, 60, true, &[100]);
    assert_eq!(layers(&sender), [VIDEO.into()]);
}
