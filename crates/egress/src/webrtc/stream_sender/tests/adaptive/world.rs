//! The world of a story: publisher, sender, session, the path in both directions, and a viewer that
//! reports each packet and decodes whole frames.

use glassline_media::{Bitrate, Codec, Layer, Temporal};
use glassline_sim::{Conditions, Link, Loss, Policer};
use glassline_webrtc::{ControlPlan, ControlStart, Event, ReceiveMode};

use super::super::*;
use super::decoder::Decoder;

pub(super) const FPS: u64 = 30;
/// Frames from one keyframe to the next.
const GROUP: u64 = 2 * FPS;
/// Largest payload of a packet in bytes.
const PAYLOAD: usize = 1_150;
/// Bytes of IP and UDP headers.
const HEADERS: usize = 28;
/// Time from the request for a keyframe to the keyframe, in ms.
const ANSWER_MS: u64 = 80;
/// Size of a datagram of padding: header with an extension, padding, tag.
const PADDING_DATAGRAM: usize = 291;

/// Payload rates of the layers in kbit/s.
pub(super) type Rates = [u64; 3];

/// Events of the path and of the publisher.
#[derive(Clone)]
pub(super) struct Story {
    pub(super) rates: Rates,
    /// Capacity in kbit/s from a time on, in ms.
    pub(super) capacity: Vec<(u64, u64)>,
    pub(super) loss: f64,
    /// One-way delay of each direction.
    pub(super) delay_ms: u64,
    /// Whether the viewer takes FEC packets.
    pub(super) rebuilds: bool,
    pub(super) jitter_ms: u64,
    /// Share of feedback that is lost.
    pub(super) feedback_loss: f64,
    pub(super) policed_kbps: Option<u64>,
    /// Whether the publisher makes a keyframe each two seconds, or only when asked.
    pub(super) has_groups: bool,
    /// Whether the rates are those of temporal layers of one encoding in VP8: of a stream of such frames.
    pub(super) is_temporal: bool,
    pub(super) ms: u64,
}

pub(super) fn plain() -> Story {
    Story {
        rates: [150, 500, 2_500],
        capacity: vec![(0, 20_000)],
        loss: 0.0,
        delay_ms: 25,
        rebuilds: false,
        jitter_ms: 0,
        feedback_loss: 0.0,
        policed_kbps: None,
        has_groups: true,
        is_temporal: false,
        ms: 60_000,
    }
}

/// Layer and number of a frame, as they stand in the first bytes of each packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Tag {
    /// Number of the frame; frames of all layers with one number are of one time.
    pub(super) number: u64,
    pub(super) layer: u8,
    pub(super) keyframe: bool,
}

impl Tag {
    /// Returns the number of the frame to which a frame of a temporal layer refers.
    pub(super) fn reference(self) -> Option<u64> {
        let distance = [4, 2, 1][usize::from(self.layer)];
        self.number.checked_sub(distance)
    }

    /// Returns the place of the frame, which refers to one of the layer below.
    fn temporal(self) -> Temporal {
        Temporal {
            layer: self.layer,
            needs: self.layer.saturating_sub(1),
            opens: self.layer,
            discardable: self.layer == 2,
        }
    }

    fn bytes(self) -> [u8; 8] {
        let kind = u64::from(self.layer) << 1 | u64::from(self.keyframe);
        (kind << 40 | self.number).to_be_bytes()
    }

    pub(super) fn read(bytes: [u8; 8]) -> Self {
        let word = u64::from_be_bytes(bytes);
        Self {
            number: word & 0xff_ffff_ffff,
            layer: (word >> 41) as u8,
            keyframe: word >> 40 & 1 == 1,
        }
    }

    /// Returns the packets of the frame. A keyframe is five times as large as another frame.
    pub(super) fn payloads(self, rates: &Rates) -> Vec<Vec<u8>> {
        let mean = rates[usize::from(self.layer)] * 1_000 / 8 / FPS;
        let usual = mean * GROUP / (GROUP + 4);
        let bytes = if self.keyframe { 5 * usual } else { usual };
        let mut left = usize::try_from(bytes).expect("small");
        let mut packets = Vec::new();
        while left > 0 {
            let mut packet = vec![0x41; left.clamp(8, PAYLOAD)];
            packet[..8].copy_from_slice(&self.bytes());
            left = left.saturating_sub(packet.len());
            packets.push(packet);
        }
        packets
    }
}

pub(super) struct World {
    story: Story,
    pub(super) scene: Scene,
    sender: StreamSender,
    down: Link<Vec<u8>>,
    up: Link<Vec<u8>>,
    feedback: u64,
    seed: u64,
    pub(super) decoder: Decoder,
    frame: u64,
    /// Number of the keyframe that began the present group, where layers are temporal ones.
    group: u64,
    /// When each layer makes the keyframe that was asked for.
    answers: [Option<u64>; 3],
    pub(super) asked: [u64; 3],
    pub(super) padding: usize,
    pub(super) sent: usize,
    /// Bytes that left in each 100 ms.
    pub(super) tenths: Vec<usize>,
    pub(super) reasons: Vec<(u64, String)>,
}

fn conditions(story: &Story, kbps: u64) -> Conditions {
    let delay = Duration::from_millis(story.delay_ms);
    let rate = Bitrate::from_bps(kbps * 1_000);
    let mut conditions = Conditions::limited(rate, delay, Duration::from_millis(200));
    conditions.loss = Loss::Random(story.loss);
    conditions.jitter = Duration::from_millis(story.jitter_ms);
    conditions.policer = story.policed_kbps.map(|kbps| Policer {
        rate: Bitrate::from_bps(kbps * 1_000),
        burst_bytes: 30_000,
    });
    conditions
}

fn of_layer(layer: usize) -> TrackLayer {
    TrackLayer {
        track: VIDEO,
        layer: LayerIndex::of_encoding(layer),
    }
}

impl World {
    pub(super) fn new(story: Story, seed: u64) -> Self {
        let track = match story.is_temporal {
            true => Track::new(Codec::Vp8),
            false => tracks().remove(0).with_layers(vec![Layer::default(); 3]),
        };
        let tracks = vec![track];
        let receive = Kinds {
            audio: false,
            ..Kinds::ALL
        };
        let mode = match story.rebuilds {
            true => ReceiveMode::Rebuild,
            false => ReceiveMode::Open,
        };
        let mut scene = Scene::received(tracks, receive, mode);
        let plan = ControlPlan {
            algorithm: Algorithm::Glide,
            start: ControlStart::WhenCongested,
        };
        assert!(scene.session.plan_congestion_control(plan, scene.start));
        if !story.is_temporal {
            scene.publisher.prefer(of_layer(2));
        }
        let is_temporal = story.is_temporal;
        let mut world = Self {
            sender: scene.sender(),
            down: Link::new(conditions(&story, story.capacity[0].1), seed).starting_at(scene.start),
            up: Link::new(
                Conditions::delayed(Duration::from_millis(story.delay_ms)),
                seed ^ 99,
            )
            .starting_at(scene.start),
            scene,
            story,
            feedback: 0,
            seed,
            decoder: Decoder::new(is_temporal),
            group: 0,
            frame: 0,
            answers: [Some(0); 3],
            asked: [0; 3],
            padding: 0,
            sent: 0,
            tenths: Vec::new(),
            reasons: Vec::new(),
        };
        world.publish(0);
        world.scene.start(&mut world.sender, 0);
        assert_eq!(world.scene.session.has_congestion_control(), !is_temporal);
        world
    }

    /// Publishes the frame that is due of an encoding with the temporal layers 0, 2, 1, 2.
    fn publish_temporal(&mut self, ms: u64) {
        let keyframe = self.answers[0].is_some_and(|at| at <= ms)
            || self.story.has_groups && self.frame.is_multiple_of(GROUP);
        if keyframe {
            (self.answers[0], self.group) = (None, self.frame);
        }
        let place = usize::try_from((self.frame - self.group) % 4).expect("small");
        let tag = Tag {
            number: self.frame,
            layer: [0, 2, 1, 2][place],
            keyframe,
        };
        let id = 0x8000 | u16::try_from(self.frame & 0x7fff).expect("15 bits");
        let mut builder = UnitBuilder::default();
        for packet in tag.payloads(&self.story.rates) {
            builder.wire_only(&[0x90, 0x80]);
            builder.wire_only(&id.to_be_bytes());
            builder.coded(&packet[..packet.len().min(PAYLOAD - 4)]);
            builder.end_packet();
        }
        let ticks = i64::try_from(self.frame).expect("soon");
        let time = MediaTime::from_ticks(ticks, u32::try_from(FPS).expect("small"));
        let now = self.scene.at(ms);
        let unit = builder.build(VIDEO, time, keyframe, Stamps::arrived(now));
        let mut unit = unit.expect("packets");
        unit.temporal = tag.temporal();
        let unit = self.scene.publisher.push(unit, now).expect("a track");
        let unit = unit.expect("published");
        self.sender.offer(&unit, now, &self.scene.stream);
        self.frame += 1;
    }

    /// Publishes the frames that are due.
    fn publish(&mut self, ms: u64) {
        let now = self.scene.at(ms);
        let wanted = self.scene.publisher.wanted_keyframes();
        for layer in 0..3 {
            let of_layer = match self.story.is_temporal {
                true => LayerIndex(u8::try_from(layer).expect("small")),
                false => LayerIndex::of_encoding(layer),
            };
            if wanted.has(of_layer) && self.answers[layer].is_none() {
                self.answers[layer] = Some(ms + ANSWER_MS);
                self.asked[layer] += 1;
            }
        }
        while self.frame * 1_000 / FPS <= ms {
            if self.story.is_temporal {
                self.publish_temporal(ms);
                continue;
            }
            for layer in 0..3 {
                let is_asked = self.answers[layer].is_some_and(|at| at <= ms);
                let tag = Tag {
                    number: self.frame,
                    layer: u8::try_from(layer).expect("small"),
                    keyframe: is_asked || self.story.has_groups && self.frame.is_multiple_of(GROUP),
                };
                if tag.keyframe {
                    self.answers[layer] = None;
                }
                let mut builder = UnitBuilder::default();
                for packet in tag.payloads(&self.story.rates) {
                    builder.push(&packet);
                }
                let ticks = i64::try_from(self.frame).expect("soon");
                let time = MediaTime::from_ticks(ticks, u32::try_from(FPS).expect("small"));
                let unit = builder.build(VIDEO, time, tag.keyframe, Stamps::arrived(now));
                let mut unit = unit.expect("packets");
                unit.layer = LayerIndex::of_encoding(layer);
                let unit = self.scene.publisher.push(unit, now).expect("a track");
                let unit = unit.expect("published");
                if self.sender.layers().any(|it| it == unit.track_layer()) {
                    self.sender.offer(&unit, now, &self.scene.stream);
                }
            }
            self.frame += 1;
        }
    }

    /// Returns the delay of the path in ms.
    pub(super) const fn delay_ms(&self) -> u64 {
        self.story.delay_ms
    }

    /// Turns repairs ahead of losses off, as the configuration can.
    pub(super) fn leave_unprotected(&mut self) {
        self.sender.delivery.is_protected = false;
    }

    /// Returns the bytes of FEC packets that have left.
    pub(super) fn fec_bytes(&self) -> u64 {
        self.scene.counters.fec_bytes.get()
    }

    pub(super) fn step(&mut self, ms: u64) {
        let changed = self
            .story
            .capacity
            .iter()
            .find(|(at, _)| *at == ms && ms > 0);
        if let Some((_, kbps)) = changed {
            self.down.set_conditions(conditions(&self.story, *kbps));
        }
        self.publish(ms);
        self.report(ms);
        let now = self.scene.at(ms);
        let batch = self.scene.outbox.batch(self.scene.route());
        let (session, counters) = (&mut self.scene.session, &self.scene.counters);
        self.sender.flush(session, batch, now, counters, |_| {});
        let mut left = self.scene.left();
        let mut datagram = Vec::new();
        for it in &left {
            let is_padding = it.len() == PADDING_DATAGRAM && it[0] & 0x20 != 0;
            self.padding += if is_padding { it.len() } else { 0 };
        }
        while self.scene.session.poll_transmit(&mut datagram).is_some() {
            left.push(datagram.clone());
        }
        let bytes: usize = left.iter().map(|it| it.len() + HEADERS).sum();
        self.sent += bytes;
        let tenth = usize::try_from(ms / 100).expect("soon");
        self.tenths.resize(tenth + 1, 0);
        self.tenths[tenth] += bytes;
        for datagram in left {
            self.down.send(now, datagram.len() + HEADERS, datagram);
        }
        self.deliver(ms);
    }

    /// Hands over what the viewer has sent.
    fn report(&mut self, ms: u64) {
        let now = self.scene.at(ms);
        let viewer_address = self.scene.socket.local_addr().expect("bound");
        while let Some(arrival) = self.up.poll(now) {
            let mut datagram = arrival.datagram;
            let to = self.scene.server_address;
            let session = &mut self.scene.session;
            let _ = session.handle_datagram(now, viewer_address, to, &mut datagram);
        }
        self.scene.session.handle_timeout(now);
        while let Some(event) = self.scene.session.poll_event() {
            match event {
                Event::Nack { sender, lost, .. } => {
                    let nack = Nack {
                        sender,
                        lost: &lost,
                    };
                    let counters = &self.scene.counters;
                    self.sender.repair(&self.scene.stream, nack, now, counters);
                }
                Event::ReceiverReport {
                    sender,
                    cumulative_lost,
                    rtt,
                    ..
                } => {
                    let report = ReceptionReport {
                        sender,
                        cumulative_lost,
                        round_trip: rtt,
                    };
                    let session = &mut self.scene.session;
                    self.sender.on_reception(report, session, now);
                }
                Event::TransportFeedback { .. } => {
                    let (session, stream) = (&mut self.scene.session, &self.scene.stream);
                    if self.sender.adapt_layers(session, stream, now) {
                        self.sender.choose(session, stream, now);
                        let report = self.sender.layer_report().expect("layers");
                        let to = self
                            .sender
                            .wanted(&self.scene.stream)
                            .expect("layers")
                            .layer;
                        self.reasons
                            .push((ms, format!("{to:?}: {}", report.reason)));
                    }
                }
                _ => {}
            }
        }
    }

    /// Hands over what reaches the viewer.
    fn deliver(&mut self, ms: u64) {
        let now = self.scene.at(ms);
        let viewer_address = self.scene.socket.local_addr().expect("bound");
        while let Some(arrival) = self.down.poll(now) {
            let mut datagram = arrival.datagram;
            let from = self.scene.server_address;
            let viewer = &mut self.scene.viewer;
            let received = viewer.handle_datagram(now, from, viewer_address, &mut datagram);
            if let Ok(received) = received {
                self.decoder.on_received(&received, &self.story, ms);
            }
            let mut rebuilt = Vec::new();
            while let Some(received) = self.scene.viewer.poll_rebuilt(now, &mut rebuilt) {
                self.decoder.on_received(&received, &self.story, ms);
            }
        }
        self.scene.viewer.handle_timeout(now);
        let mut datagram = Vec::new();
        while self.scene.viewer.poll_transmit(&mut datagram).is_some() {
            self.feedback += 1;
            let draw = (self.feedback ^ self.seed).wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 40;
            if draw as f64 / (1_u64 << 24) as f64 >= self.story.feedback_loss {
                self.up
                    .send(now, datagram.len() + HEADERS, datagram.clone());
            }
        }
        while self.scene.viewer.poll_event().is_some() {}
    }
}
