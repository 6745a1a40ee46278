//! A live upload in virtual time: an encoder that follows its target bitrate, the send queue,
//! a congestion controller with its pacer, and a link whose conditions change.
//!
//! It has a loop of its own instead of `glassline_sim::Simulation`: a packet is a number,
//! there is no core at the far end, and the encoder runs every millisecond.

use super::*;
use bytes::Bytes;
use glassline_congestion::{Algorithm, Flow, Pacer};
use glassline_media::{MediaTime, TrackIndex};
use glassline_sim::{Conditions, Link};
use std::collections::BTreeMap;
use std::time::Duration;

const MILLI: Duration = Duration::from_millis(1);
const PACKET: u64 = 1200;
const FPS: u32 = 30;
/// Of the way, there and back together.
const DELAY: Duration = Duration::from_millis(20);

/// The data that the transport has in hand: as much as one window, so that the rest waits where it can
/// be dropped.
struct Transport {
    flow: Flow,
    pacer: Pacer,
    link: Link<u64>,
    /// Acknowledgements on their way back.
    acks: Vec<(Instant, u64)>,
    /// Packets out, their bytes.
    out: BTreeMap<u64, u64>,
    next: u64,
    waiting: u64,
    written: u64,
}

impl Transport {
    fn new(conditions: Conditions, start: Instant) -> Self {
        Self {
            flow: Flow::new(Algorithm::Copa.start(PACKET)),
            pacer: Pacer::new(PACKET),
            link: Link::new(conditions, 7).starting_at(start),
            acks: Vec::new(),
            out: BTreeMap::new(),
            next: 0,
            waiting: 0,
            written: 0,
        }
    }

    fn path(&self) -> Path {
        Path {
            backlog_bytes: self.waiting + self.flow.in_flight(),
            written_bytes_total: self.written,
            deliverable: self.flow.deliverable_rate(),
            app_limited: self.flow.is_app_limited(),
            policed: self.flow.controller().path_model().policed,
        }
    }

    fn has_room(&self) -> bool {
        self.waiting < self.flow.window()
    }

    fn advance(&mut self, now: Instant) {
        while let Some(arrival) = self.link.poll(now) {
            self.acks.push((arrival.at + DELAY, arrival.datagram));
        }
        let due: Vec<u64> = self
            .acks
            .iter()
            .filter(|ack| ack.0 <= now)
            .map(|ack| ack.1)
            .collect();
        self.acks.retain(|ack| ack.0 > now);
        if !due.is_empty() {
            self.flow.on_acked(now, due.iter().copied(), Duration::ZERO);
            for number in &due {
                self.out.remove(number);
            }
            self.recover(now, due.into_iter().max().unwrap_or(0));
        }
        while self.waiting > 0 && self.flow.allowance() >= PACKET {
            let rate = self.flow.pacing_rate();
            if self.pacer.allowance(now, rate) < PACKET {
                return;
            }
            let bytes = self.waiting.min(PACKET);
            self.waiting -= bytes;
            self.flow.on_sent(now, self.next, bytes);
            self.pacer.sent(bytes);
            self.link
                .send(now, usize::try_from(bytes).expect("small"), self.next);
            self.out.insert(self.next, bytes);
            self.next += 1;
        }
        if self.waiting == 0 {
            self.flow.on_app_limited();
        }
    }

    /// Three packets behind the newest is lost (RFC 9002 §6.1.1), and sent again.
    fn recover(&mut self, now: Instant, newest: u64) {
        let lost: Vec<u64> = self
            .out
            .range(..newest.saturating_sub(2))
            .map(|it| *it.0)
            .collect();
        for number in &lost {
            self.waiting += self.out.remove(number).unwrap_or(0);
        }
        if !lost.is_empty() {
            self.flow.on_lost(now, lost, false);
        }
    }
}

struct Upload {
    dispatch: Dispatch,
    transport: Transport,
    start: Instant,
    now: Instant,
    frame: u32,
    since_keyframe: u32,
    /// Waits of frames before they were handed over, the longest of this stretch.
    worst: Duration,
    sent: u64,
}

impl Upload {
    fn new(rule: Rule, conditions: Conditions) -> Self {
        let rate = Bitrate::from_bps;
        let config = Config {
            rule,
            bitrate: BitrateRange {
                min: rate(200_000),
                max: rate(3_000_000),
            },
            start: rate(1_000_000),
            queue: queue::Config::of(rule),
        };
        let start = Instant::now();
        Self {
            dispatch: Dispatch::new(&config, &[Kind::Video, Kind::Audio]),
            transport: Transport::new(conditions, start),
            start,
            now: start,
            frame: 0,
            since_keyframe: u32::MAX,
            worst: Duration::ZERO,
            sent: 0,
        }
    }

    /// Films for so long.
    fn film(&mut self, seconds: u64) {
        self.worst = Duration::ZERO;
        self.sent = 0;
        let end = self.now + Duration::from_secs(seconds);
        while self.now < end {
            self.now += MILLI;
            if self.now >= self.start + Duration::from_secs(1) * self.frame / FPS {
                self.make();
            }
            self.transport.advance(self.now);
            self.dispatch.observe(self.now, &self.transport.path());
            while let Some(action) = self.dispatch.next(self.now, self.transport.has_room()) {
                if let SendAction::Send { unit, .. } = action {
                    let bytes = unit.data.len() as u64;
                    self.transport.waiting += bytes;
                    self.transport.written += bytes;
                    self.sent += bytes;
                    self.worst = self.worst.max(self.now - unit.made);
                }
            }
        }
    }

    /// A frame of the target's size, four times that if a keyframe, and audio.
    fn make(&mut self) {
        let asked = self.dispatch.take_keyframe_request();
        let keyframe = asked || self.since_keyframe >= 2 * FPS;
        self.since_keyframe = if keyframe { 0 } else { self.since_keyframe + 1 };
        let mean = self.dispatch.target().bps() / 8 / u64::from(FPS);
        let bytes = if keyframe { mean * 4 } else { mean * 19 / 20 };
        for (track, bytes) in [(0, bytes), (1, 200)] {
            let unit = Unit {
                track: TrackIndex(track),
                time: MediaTime::ZERO + (self.now - self.start),
                keyframe: keyframe || track == 1,
                data: Bytes::from(vec![0; usize::try_from(bytes).expect("small")]),
                made: self.now,
            };
            self.dispatch.push(self.now, unit);
        }
        self.frame += 1;
    }

    fn target_kbps(&self) -> u64 {
        self.dispatch.target().bps() / 1000
    }
}

fn link(kbps: u64) -> Conditions {
    let rate = Bitrate::from_bps(kbps * 1000);
    Conditions::limited(rate, DELAY, Duration::from_millis(300))
}

#[test]
fn the_bitrate_settles_below_what_the_path_carries_and_follows_it() {
    let mut upload = Upload::new(Rule::Coupled, link(2000));
    upload.film(40);
    let settled = upload.target_kbps();
    assert!((1200..2400).contains(&settled), "{settled}");
    // A quarter of the path.
    upload.transport.link.set_conditions(link(500));
    upload.film(15);
    upload.film(10);
    let narrow = upload.target_kbps();
    // It may stand a little above while it probes.
    assert!((250..600).contains(&narrow), "{narrow}");
    assert!(
        upload.worst < Duration::from_millis(600),
        "{:?}",
        upload.worst
    );
    // And all of it again.
    upload.transport.link.set_conditions(link(2000));
    upload.film(60);
    let wide = upload.target_kbps();
    assert!((1200..2400).contains(&wide), "{wide}");
}

#[test]
fn on_a_wide_path_the_most_is_made_and_nothing_dropped() {
    for rule in Rule::ALL {
        let mut upload = Upload::new(rule, link(20_000));
        upload.film(60);
        assert_eq!(upload.target_kbps(), 3000, "{rule}");
        let broken = upload.dispatch.queue().dropped();
        assert_eq!(broken.units(), 0, "{rule}: {broken:?}");
    }
}

#[test]
fn the_backlog_alone_also_keeps_to_the_path() {
    let mut upload = Upload::new(Rule::Study, link(1000));
    upload.film(90);
    let before = upload.sent;
    // What waited leaves with it.
    upload.film(30);
    let kbps = upload.sent * 8 / 30 / 1000;
    assert!((700..=1150).contains(&kbps), "{kbps}, {before} before");
    assert!(upload.dispatch.queue().bytes() < 800_000);
}

#[test]
fn after_an_outage_frames_are_fresh() {
    let mut conditions = link(2000);
    let outage = Duration::from_secs(20)..Duration::from_secs(50);
    conditions.outages = vec![outage];
    let mut upload = Upload::new(Rule::Coupled, conditions);
    upload.film(49);
    let dropped = upload.dispatch.queue().dropped();
    assert!(dropped.late_units > 300, "{dropped:?}");
    assert!(upload.dispatch.queue().bytes() < 1_000_000);
    upload.film(3);
    upload.film(10);
    assert!(upload.sent > 200_000, "it goes on: {}", upload.sent);
    let limit = queue::Config::of(Rule::Coupled).delay_max;
    assert!(upload.worst <= limit, "{:?}", upload.worst);
}
