//! Congestion control by transport-wide feedback, over a bottleneck.

use std::collections::VecDeque;

use glassline_congestion::Algorithm;
use glassline_media::Bitrate;
use glassline_sim::Loss;

use super::*;

const PACKET: usize = 1100;
/// Longest time that a frame waits, as in the server for paced viewers: beyond it a viewer
/// skips.
const WAIT_MAX: Duration = Duration::from_millis(500);

/// Path of 2 Mbit/s, 25 ms each way, with a queue of one second.
fn narrow() -> Conditions {
    Conditions::limited(Bitrate::from_bps(2_000_000), ms(25), ms(1000))
}

/// A source of 30 frames a second with a keyframe of fivefold size every two seconds. Frames
/// that waited too long are dropped until the next keyframe.
struct Camera {
    mbps: f64,
    frames: u32,
    waiting: VecDeque<Frame>,
    skipping: bool,
    skipped: u32,
}

struct Frame {
    number: u32,
    made: Instant,
    packets: usize,
    sent: usize,
}

impl Camera {
    fn new(mbps: f64) -> Self {
        Self {
            mbps,
            frames: 0,
            waiting: VecDeque::new(),
            skipping: false,
            skipped: 0,
        }
    }

    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        clippy::cast_precision_loss,
        reason = "a few packets"
    )]
    fn film(&mut self, now: Instant) {
        let key = self.frames.is_multiple_of(60);
        let weight = if key { 5.0 } else { 55.0 / 59.0 };
        let bytes = self.mbps * 125_000.0 / 30.0 * weight;
        let number = self.frames;
        self.frames += 1;
        let late = |frame: &Frame| now - frame.made > WAIT_MAX;
        if self.waiting.front().is_some_and(late) {
            let keep = usize::from(self.waiting[0].sent > 0);
            self.skipped += u32::try_from(self.waiting.len() - keep).expect("few");
            self.waiting.truncate(keep);
            self.skipping = true;
        }
        self.skipping &= !key;
        if self.skipping {
            self.skipped += 1;
            return;
        }
        self.waiting.push_back(Frame {
            number,
            made: now,
            packets: (bytes / PACKET as f64).ceil() as usize,
            sent: 0,
        });
    }

    /// Sends as much as the budget allows.
    fn send(&mut self, pair: &mut Pair) {
        while let Some(frame) = self.waiting.front_mut() {
            let now = pair.now();
            let budget = pair.server.budget(now);
            if budget.is_some_and(|bytes| bytes < PACKET as u64 + 50) {
                return;
            }
            frame.sent += 1;
            let last = frame.sent == frame.packets;
            let timestamp = frame.number * 3000;
            if last {
                self.waiting.pop_front();
            }
            pair.send(0, timestamp, last, &[7; PACKET]);
        }
        pair.server.set_app_limited();
    }
}

/// Results of a run.
#[derive(Debug)]
struct Seen {
    /// Queue in the bottleneck in ms: mean and 95th percentile.
    mean: u128,
    p95: u128,
    /// Received rate in Mbit/s.
    mbps: f64,
    skipped: u32,
    report: Option<PathReport>,
}

fn run(algorithm: Option<Algorithm>, conditions: Conditions, mbps: f64, seconds: u64) -> Seen {
    let mut pair = Pair::connected(Setup {
        conditions: Conditions::delayed(ms(25)),
        ..Setup::default()
    });
    pair.network.link_mut(End::A).set_conditions(conditions);
    if let Some(algorithm) = algorithm {
        let now = pair.now();
        assert!(
            pair.server.enable_congestion_control(algorithm, now),
            "feedback is agreed to"
        );
    }
    let mut camera = Camera::new(mbps);
    let mut queues = Vec::new();
    let mut before = 0;
    for tick in 0..seconds * 1000 {
        if tick % 33 == 0 {
            camera.film(pair.now());
        }
        camera.send(&mut pair);
        pair.run_for(ms(1));
        if tick == seconds * 250 {
            before = pair.network.link(End::A).counts().delivered_bytes;
        }
        if tick > seconds * 250 {
            let now = pair.now();
            queues.push(pair.network.link(End::A).queue_delay(now).as_millis());
        }
    }
    queues.sort_unstable();
    let delivered = pair.network.link(End::A).counts().delivered_bytes - before;
    #[expect(clippy::cast_precision_loss, reason = "a few megabytes")]
    let mbps = delivered as f64 / 125_000.0 / (seconds as f64 * 0.75);
    Seen {
        mean: queues.iter().sum::<u128>() / queues.len() as u128,
        p95: queues[queues.len() * 95 / 100],
        mbps,
        skipped: camera.skipped,
        report: pair.server.path_report(),
    }
}

#[test]
fn a_stream_too_large_for_the_path_fills_its_queue_without_congestion_control() {
    let none = run(None, narrow(), 3.0, 20);
    assert!(none.mean > 900, "{none:?}");
    for algorithm in [
        Algorithm::Bbr,
        Algorithm::Copa,
        Algorithm::CopaCompetitive,
        Algorithm::Glide,
    ] {
        let seen = run(Some(algorithm), narrow(), 3.0, 20);
        assert!(seen.mean < 150 && seen.p95 < 450, "{algorithm}: {seen:?}");
        assert!(seen.mbps > 0.5, "{algorithm}: {seen:?}");
        let report = seen.report.expect("steered");
        assert_eq!(report.lost_bytes, 0, "{algorithm}");
        let carried = report.deliverable.expect("measured").mbps();
        assert!((1.8..2.2).contains(&carried), "{algorithm}: {carried}");
    }
}

#[test]
fn a_stream_that_fits_arrives_whole_under_every_congestion_control() {
    let none = run(None, narrow(), 1.2, 15);
    for algorithm in Algorithm::ALL {
        let seen = run(Some(algorithm), narrow(), 1.2, 15);
        assert_eq!(seen.skipped, 0, "{algorithm}: {seen:?}");
        assert!(seen.mbps > 0.98 * none.mbps, "{algorithm}: {seen:?}");
        assert!(seen.p95 <= none.p95 + 30, "{algorithm}: {seen:?}");
    }
}

#[test]
fn round_trips_are_the_path_s_though_feedback_comes_in_bunches() {
    let report = run(Some(Algorithm::Copa), narrow(), 1.0, 5).report;
    let least = report.and_then(|report| report.least_round_trip);
    // 50 ms of path, and 5 ms to serialize a packet.
    assert!(
        least.is_some_and(|least| (ms(50)..ms(60)).contains(&least)),
        "{least:?}"
    );
}

#[test]
fn lost_feedback_leaves_nothing_in_flight_for_ever() {
    let mut pair = Pair::connected(Setup::default());
    let lossy = Conditions::delayed(ms(25)).with_loss(Loss::Random(0.4));
    pair.network.link_mut(End::B).set_conditions(lossy);
    let now = pair.now();
    assert!(pair.server.enable_congestion_control(Algorithm::Bbr, now));
    let mut camera = Camera::new(2.0);
    for tick in 0..10_000 {
        if tick % 33 == 0 {
            camera.film(pair.now());
        }
        camera.send(&mut pair);
        pair.run_for(ms(1));
    }
    assert!(camera.skipped < 60, "{}", camera.skipped);
    let report = pair.server.path_report().expect("steered");
    assert!(report.in_flight < 200_000, "{report:?}");
}

#[test]
fn a_silent_path_is_tried_with_a_few_packets_and_used_again_when_it_is_back() {
    let mut pair = Pair::connected(Setup::default());
    let now = pair.now();
    assert!(pair.server.enable_congestion_control(Algorithm::Copa, now));
    let mut camera = Camera::new(2.0);
    let film = |pair: &mut Pair, camera: &mut Camera, ticks: u32| {
        let before = pair.network.link(End::A).counts().sent;
        for tick in 0..ticks {
            if tick % 33 == 0 {
                camera.film(pair.now());
            }
            camera.send(pair);
            pair.run_for(ms(1));
        }
        pair.network.link(End::A).counts().sent - before
    };
    film(&mut pair, &mut camera, 3000);
    let dead = Conditions::delayed(ms(25)).with_loss(Loss::Random(1.0));
    pair.network.link_mut(End::B).set_conditions(dead);
    film(&mut pair, &mut camera, 2000);
    let silent = film(&mut pair, &mut camera, 4000);
    assert!(
        (2..60).contains(&silent),
        "{silent} packets in four seconds"
    );
    let back = Conditions::delayed(ms(25));
    pair.network.link_mut(End::B).set_conditions(back);
    film(&mut pair, &mut camera, 4000);
    let before = camera.skipped;
    let sent = film(&mut pair, &mut camera, 4000);
    assert!(sent > 700, "{sent} packets in four seconds");
    assert_eq!(camera.skipped, before);
}

#[test]
fn what_replaces_lost_packets_keeps_to_the_rate_alone() {
    let mut pair = Pair::connected(Setup {
        conditions: Conditions::delayed(ms(25)),
        ..Setup::default()
    });
    let now = pair.now();
    assert!(pair.server.enable_congestion_control(Algorithm::Glide, now));
    assert_eq!(pair.server.repair_budget(now), pair.server.budget(now));
    let mut camera = Camera::new(2.0);
    for tick in 0..2_000 {
        if tick % 33 == 0 {
            camera.film(pair.now());
        }
        camera.send(&mut pair);
        pair.run_for(ms(1));
    }
    let dead = Conditions::delayed(ms(25)).with_loss(Loss::Random(1.0));
    pair.network.link_mut(End::A).set_conditions(dead);
    let whole = PACKET as u64 + 50;
    let send_within = |pair: &mut Pair, budget: fn(&mut Session, Instant) -> Option<u64>| {
        let mut bytes = 0;
        for _ in 0..100 {
            let now = pair.now();
            while budget(&mut pair.server, now).is_some_and(|left| left >= whole) {
                pair.send(0, 0, false, &[7; PACKET]);
                bytes += PACKET as u64;
            }
            pair.run_for(ms(1));
        }
        bytes
    };
    for _ in 0..5 {
        send_within(&mut pair, Session::budget);
    }
    // Nothing was reported for long, so no new packet may leave.
    let now = pair.now();
    assert!(pair.server.budget(now) < Some(whole));
    assert_eq!(pair.server.repair_at(whole, now), Some(now));
    let rate = pair.server.path_report().and_then(|it| it.pacing);
    let rate = rate.expect("feedback came").bps();
    let sent = send_within(&mut pair, Session::repair_budget);
    let now = pair.now() - ms(1);
    assert!(pair.server.repair_at(whole, now) > Some(now));
    // 100 ms at that rate, and the burst with which they begin.
    let most = rate / 80 + (32 << 10) + whole;
    assert!((most * 9 / 10..most).contains(&sent), "{sent} of {most}");
}

#[test]
fn where_feedback_is_lost_a_packet_leaves_now_and_then_although_the_window_is_full() {
    let mut pair = Pair::connected(Setup {
        conditions: Conditions::delayed(ms(25)),
        ..Setup::default()
    });
    let now = pair.now();
    assert!(pair.server.enable_congestion_control(Algorithm::Glide, now));
    let mut camera = Camera::new(2.0);
    for tick in 0..2_000 {
        if tick % 33 == 0 {
            camera.film(pair.now());
        }
        camera.send(&mut pair);
        pair.run_for(ms(1));
    }
    let deaf = Conditions::delayed(ms(25)).with_loss(Loss::Random(1.0));
    pair.network.link_mut(End::B).set_conditions(deaf);
    let whole = PACKET as u64 + 50;
    let mut left = Vec::new();
    for tick in 0..900 {
        let now = pair.now();
        while pair.server.budget(now).is_some_and(|it| it >= whole) {
            pair.send(0, 0, false, &[7; PACKET]);
            left.push(tick);
        }
        if left.last() == Some(&tick) {
            let next = pair.server.budget_at(whole, now);
            assert!(next.is_some_and(|at| at > now), "{next:?}");
        }
        pair.run_for(ms(1));
    }
    let late: Vec<i32> = left.into_iter().filter(|tick| *tick >= 300).collect();
    assert!((5..=7).contains(&late.len()), "{late:?}");
}

#[test]
fn a_frame_leaves_at_once_on_a_wide_path_and_in_small_bursts_on_a_narrow_one() {
    let narrow = Conditions::limited(Bitrate::from_bps(4_000_000), ms(25), ms(200));
    for (conditions, is_narrow) in [(Conditions::delayed(ms(25)), false), (narrow, true)] {
        let mut pair = Pair::connected(Setup {
            conditions,
            ..Setup::default()
        });
        let now = pair.now();
        assert!(pair.server.enable_congestion_control(Algorithm::Glide, now));
        let mut camera = Camera::new(2.0);
        let whole = PACKET as u64 + 50;
        let frame = 8 * whole;
        for tick in 0..1_950 {
            if tick % 33 == 0 {
                camera.film(pair.now());
            }
            camera.send(&mut pair);
            pair.run_for(ms(1));
        }
        pair.run_for(ms(30));
        let mut together = 0;
        let now = pair.now();
        while pair.server.budget(now).is_some_and(|it| it >= whole) {
            pair.send(0, 0, false, &[7; PACKET]);
            together += 1;
        }
        let next = pair.server.budget_at(whole, now).expect("paced");
        let chunk = pair.server.frame_at(whole, || frame, now).expect("paced");
        if is_narrow {
            assert_eq!((together, next), (2, chunk));
        } else {
            assert!(together * whole >= frame, "{together} packets");
            assert!(next < chunk && chunk <= now + ms(6), "{next:?} {chunk:?}");
        }
    }
}

#[test]
fn a_peer_that_tells_nothing_is_not_steered() {
    let mut pair = Pair::connected(Setup {
        edit_offer: |offer| offer.replace("transport-cc", "nothing"),
        ..Setup::default()
    });
    let now = pair.now();
    assert!(!pair.server.enable_congestion_control(Algorithm::Copa, now));
    assert_eq!(pair.server.budget(now), None);
    assert_eq!(pair.server.budget_at(1200, now), None);
    assert_eq!(pair.server.repair_budget(now), None);
    assert_eq!(pair.server.repair_at(1200, now), None);
    assert_eq!(pair.server.path_report(), None);
}

#[test]
fn feedback_about_audio_alone_steers_nothing() {
    fn for_audio_alone(offer: &str) -> String {
        let (before, video_and_audio) = offer.split_once("m=video").expect("video");
        let (video, audio) = video_and_audio.split_once("m=audio").expect("audio");
        let video = video.replace("transport-cc", "nothing");
        format!("{before}m=video{video}m=audio{audio}")
    }
    let mut pair = Pair::connected(Setup {
        edit_offer: for_audio_alone,
        ..Setup::default()
    });
    let [video, audio] = pair.server.senders() else {
        panic!("two tracks");
    };
    assert!(audio.may_number() && !video.may_number());
    let now = pair.now();
    assert!(!pair.server.enable_congestion_control(Algorithm::Glide, now));
}

/// Packets that are sent again under their first number say nothing of the round trip.
#[test]
fn repeated_packets_count_as_lost_and_do_not_lengthen_the_round_trip() {
    let mut pair = Pair::connected(Setup {
        conditions: Conditions::delayed(ms(25)),
        edit_offer: |offer| offer.replace(" rtx/90000", " unknown/90000"),
        ..Setup::default()
    });
    let lossy = Conditions::delayed(ms(25)).with_loss(Loss::Random(0.1));
    pair.network.link_mut(End::A).set_conditions(lossy);
    let now = pair.now();
    assert!(pair.server.enable_congestion_control(Algorithm::Glide, now));
    pair.stream(10, 6);
    pair.run_for(ms(500));
    let sent = pair.server.senders()[0].counts();
    assert!(sent.retransmitted > 150, "{sent:?}");
    let report = pair.server.path_report().expect("controlled");
    let lost = report.lost_bytes as f64 / report.sent_bytes as f64;
    assert!((0.07..0.13).contains(&lost), "{lost} of 10 %: {report:?}");
    let round_trip = report.round_trip.expect("feedback came");
    assert!(round_trip < ms(53), "{round_trip:?} of 50 ms");
}
