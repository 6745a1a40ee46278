//! A viewer behind a narrow path, in virtual time: the sender, its session, the path in both directions
//! and the session of the viewer, with feedback, repairs and a decoder that needs whole frames.

use std::collections::BTreeMap;

use glassline_media::Bitrate;
use glassline_sim::{Conditions, Link};
use glassline_webrtc::{ControlPlan, ControlStart, Event, Received};

use super::*;

/// Frames a second of the stream.
const FPS: u64 = 30;
/// Frames from one keyframe to the next.
const GROUP: u64 = 2 * FPS;
/// Largest payload of a packet in bytes.
const PAYLOAD: usize = 1_150;
/// Bytes of IP and UDP headers.
const HEADERS: usize = 28;

/// A stream of 2.5 Mbit/s with a keyframe of 55 kB each 2 s.
fn frame_bytes(frame: u64) -> usize {
    match frame.is_multiple_of(GROUP) {
        true => 55_000,
        false => 9_660,
    }
}

/// Returns the packets of a frame; each begins with the frame's number.
fn payloads(frame: u64) -> Vec<Vec<u8>> {
    let mut left = frame_bytes(frame);
    let mut packets = Vec::new();
    while left > 0 {
        let size = left.clamp(8, PAYLOAD);
        let mut packet = vec![0x41; size];
        packet[..8].copy_from_slice(&frame.to_be_bytes());
        packets.push(packet);
        left = left.saturating_sub(size);
    }
    packets
}

/// The packets that arrived of each frame, and the frames that a decoder makes of them.
#[derive(Debug, Default)]
struct Decoder {
    /// Sequence numbers of the packets of the frames that are not whole.
    waiting: BTreeMap<u64, Vec<u64>>,
    /// The last frame that was decoded.
    last: Option<u64>,
    /// Times at which frames were decoded, in ms.
    shown: Vec<u64>,
}

impl Decoder {
    fn take(&mut self, frame: u64, sequence: u64, ms: u64) {
        if self.last.is_some_and(|last| frame <= last) {
            return;
        }
        let packets = self.waiting.entry(frame).or_default();
        if !packets.contains(&sequence) {
            packets.push(sequence);
        }
        while let Some(next) = self.decodable() {
            self.waiting.retain(|frame, _| *frame > next);
            self.last = Some(next);
            self.shown.push(ms);
        }
    }

    /// Returns the next frame that a decoder can decode.
    fn decodable(&self) -> Option<u64> {
        let is_whole = |frame: u64, packets: &Vec<u64>| packets.len() == payloads(frame).len();
        let mut whole = self
            .waiting
            .iter()
            .filter(|(frame, it)| is_whole(**frame, it));
        let (next, _) = whole.find(|(frame, _)| {
            frame.is_multiple_of(GROUP) || self.last.is_some_and(|last| last + 1 == **frame)
        })?;
        Some(*next)
    }
}

/// A viewer and the path to it.
struct Narrow {
    scene: Scene,
    sender: StreamSender,
    down: Link<Vec<u8>>,
    up: Link<Vec<u8>>,
    decoder: Decoder,
    frame: u64,
    /// Times at which the source was asked for a keyframe, at most once a second, in ms.
    asked: Vec<u64>,
}

fn path(kbps: u64) -> Conditions {
    let delay = Duration::from_millis(25);
    Conditions::limited(
        Bitrate::from_bps(kbps * 1_000),
        delay,
        Duration::from_millis(200),
    )
}

impl Narrow {
    fn new(control: Option<ControlPlan>, kbps: u64) -> Self {
        let mut scene = Scene::new();
        let (session, now) = (&mut scene.session, scene.start);
        if let Some(plan) = control {
            assert!(session.plan_congestion_control(plan, now));
        }
        let mut sender = scene.sender();
        scene.start(&mut sender, 0);
        Self {
            sender,
            down: Link::new(path(kbps), 1).starting_at(scene.start),
            up: Link::new(Conditions::delayed(Duration::from_millis(25)), 2)
                .starting_at(scene.start),
            scene,
            decoder: Decoder::default(),
            frame: 0,
            asked: Vec::new(),
        }
    }

    fn step(&mut self, ms: u64) {
        let now = self.scene.at(ms);
        while self.frame * 1_000 / FPS <= ms {
            let mut builder = UnitBuilder::default();
            for packet in payloads(self.frame) {
                builder.push(&packet);
            }
            let time = MediaTime::from_ticks(i64::try_from(self.frame).expect("soon"), FPS as u32);
            let keyframe = self.frame.is_multiple_of(GROUP);
            let unit = builder.build(VIDEO, time, keyframe, Stamps::arrived(now));
            let unit = unit.expect("packets");
            let unit = self.scene.publisher.push(unit, now).expect("a track");
            let unit = unit.expect("published");
            self.sender.offer(&unit, now, &self.scene.stream);
            self.frame += 1;
        }
        let is_recent = self.asked.last().is_some_and(|at| ms < at + 1_000);
        if !is_recent && self.scene.publisher.keyframe_wanted() {
            self.asked.push(ms);
        }
        self.feedback(ms);
        let batch = self.scene.outbox.batch(self.scene.route());
        let (session, counters) = (&mut self.scene.session, &self.scene.counters);
        self.sender.flush(session, batch, now, counters, |_| {});
        for datagram in self.scene.left() {
            self.down.send(now, datagram.len() + HEADERS, datagram);
        }
        // Answers to connectivity checks, and sender reports.
        let mut datagram = Vec::new();
        while self.scene.session.poll_transmit(&mut datagram).is_some() {
            self.down
                .send(now, datagram.len() + HEADERS, datagram.clone());
        }
        self.deliver(ms);
    }

    /// Hands over what the viewer has sent.
    fn feedback(&mut self, ms: u64) {
        let now = self.scene.at(ms);
        let viewer_address = self.scene.socket.local_addr().expect("bound");
        while let Some(arrival) = self.up.poll(now) {
            let mut datagram = arrival.datagram;
            let to = self.scene.server_address;
            let session = &mut self.scene.session;
            session
                .handle_datagram(now, viewer_address, to, &mut datagram)
                .expect("a report");
        }
        self.scene.session.handle_timeout(now);
        while let Some(event) = self.scene.session.poll_event() {
            // A keyframe comes when the stream has one.
            if let Event::Nack { sender, lost, .. } = event {
                let nack = Nack {
                    sender,
                    lost: &lost,
                };
                let counters = &self.scene.counters;
                self.sender.repair(&self.scene.stream, nack, now, counters);
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
            if let Ok(Received::Rtp {
                sequence, packet, ..
            }) = received
                && let Some(number) = packet.payload.first_chunk::<8>()
            {
                let frame = u64::from_be_bytes(*number);
                self.decoder.take(frame, sequence, ms);
            }
        }
        self.scene.viewer.handle_timeout(now);
        let mut datagram = Vec::new();
        while self.scene.viewer.poll_transmit(&mut datagram).is_some() {
            self.up
                .send(now, datagram.len() + HEADERS, datagram.clone());
        }
        while self.scene.viewer.poll_event().is_some() {}
    }
}

/// Which part of a run a figure is of, in ms.
type Span = std::ops::Range<u64>;

/// A run of a narrow time: 5 Mbit/s, 0.8 from 20 to 50 s, and 5 again.
struct Run {
    decoder: Decoder,
    /// Bytes offered to the path and datagrams that its queue dropped, in each second.
    seconds: Vec<Second>,
    /// Times at which the source was asked for a keyframe.
    asked: Vec<u64>,
}

#[derive(Clone, Copy, Debug)]
struct Second {
    kbps: u64,
    dropped: u64,
}

const NARROW: Span = 20_000..50_000;

fn run(control: Option<ControlPlan>, offset_ms: u64) -> Run {
    let mut narrow = Narrow::new(control, 5_000);
    let mut before = narrow.down.counts();
    let mut seconds = Vec::new();
    for ms in 0..80_000 {
        if ms == NARROW.start + offset_ms {
            narrow.down.set_conditions(path(800));
        }
        if ms == NARROW.end + offset_ms {
            narrow.down.set_conditions(path(5_000));
        }
        narrow.step(ms);
        if (ms + 1).is_multiple_of(1_000) {
            let counts = narrow.down.counts();
            seconds.push(Second {
                kbps: (counts.sent_bytes - before.sent_bytes) / 125,
                dropped: counts.dropped - before.dropped,
            });
            before = counts;
        }
    }
    Run {
        decoder: narrow.decoder,
        seconds,
        asked: narrow.asked,
    }
}

impl Run {
    /// Returns the number of frames shown in `span`.
    fn shown(&self, span: &Span) -> usize {
        let shown = self.decoder.shown.iter();
        shown.filter(|ms| span.contains(ms)).count()
    }

    /// Returns the longest time without a new frame within `span`, in ms.
    fn longest_gap(&self, span: &Span) -> u64 {
        let shown = self.decoder.shown.iter().copied();
        let within = shown.filter(|ms| span.contains(ms));
        let times: Vec<u64> = std::iter::once(span.start)
            .chain(within)
            .chain(std::iter::once(span.end))
            .collect();
        let gaps = times.windows(2).map(|pair| pair[1] - pair[0]);
        gaps.max().unwrap_or_default()
    }

    fn mean(&self, seconds: std::ops::Range<usize>, of: impl Fn(&Second) -> u64) -> u64 {
        let span = &self.seconds[seconds];
        span.iter().map(of).sum::<u64>() / span.len() as u64
    }
}

#[test]
fn a_viewer_on_a_narrow_path_gets_what_it_carries_and_comes_back_with_the_capacity() {
    for start in [ControlStart::WhenCongested, ControlStart::AtOnce] {
        let plan = ControlPlan {
            algorithm: Algorithm::Glide,
            start,
        };
        // The narrow time begins in another part of a group of frames each time.
        for offset_ms in [0, 370, 740, 1_110, 1_480, 1_850] {
            let run = run(Some(plan), offset_ms);
            let steady = NARROW.start + 6_000..NARROW.end;
            let fps = run.shown(&steady) as f64 / 24.0;
            let gap = run.longest_gap(&steady);
            let (offered, dropped) = (
                run.mean(26..50, |it| it.kbps),
                run.mean(26..50, |it| it.dropped),
            );
            let back = NARROW.end + offset_ms..NARROW.end + offset_ms + 5_000;
            let first = run.shown(&back);
            let later = run.shown(&(back.end..back.end + 20_000));
            println!(
                "{start:?}, {offset_ms} ms: {fps:.1} fps, longest gap {gap} ms, {offered} kbit/s offered, {dropped} dropped a second; back: {first} frames in 5 s, {later} in 20 s; first second {:?}",
                run.seconds[20]
            );
            let asked = run.asked.iter().filter(|ms| NARROW.contains(ms)).count();
            println!("{asked} keyframes were asked for");
            assert!(asked <= 9, "{start:?}, {offset_ms} ms: {asked} requests");
            // A group of frames carries 200 kB of 610, of which the keyframe has 55.
            assert!(fps >= 2.5, "{start:?}, {offset_ms} ms: {fps} fps");
            assert!(gap < 2_500, "{start:?}, {offset_ms} ms: {gap} ms");
            assert!(
                offered <= 900,
                "{start:?}, {offset_ms} ms: {offered} kbit/s"
            );
            assert!(
                dropped < 10,
                "{start:?}, {offset_ms} ms: {dropped} a second"
            );
            assert!(first >= 60, "{start:?}, {offset_ms} ms: {first} in 5 s");
            assert!(later >= 595, "{start:?}, {offset_ms} ms: {later} in 20 s");
        }
    }
}

#[test]
fn without_pacing_repairs_add_half_to_the_load_at_most() {
    let run = run(None, 0);
    let offered = run.mean(22..50, |it| it.kbps);
    // 2.44 Mbit/s by themselves, and half as much again with headers.
    assert!(offered < 4_100, "{offered} kbit/s");
    let back = NARROW.end..NARROW.end + 3_000;
    assert!(run.shown(&back) >= 30);
}
