use super::*;
use glassline_sim::Clock;
use proptest::prelude::*;

const PACKET: u64 = 1_200;

/// A path of one link whose queue is first in, first out, and whose peer reports each 100 ms.
struct Path {
    meter: PathMeter,
    start: Instant,
    ms: u64,
    kbps: u64,
    free_at_us: i64,
    number: u64,
    waiting: Vec<Passage>,
    reported_ms: u64,
    /// Whether a report is lost on its way back.
    loses_report: fn(u64) -> bool,
}

impl Path {
    fn new(kbps: u64) -> Self {
        Self {
            meter: PathMeter::default(),
            start: Clock::new().now(),
            ms: 0,
            kbps,
            free_at_us: 0,
            number: 0,
            waiting: Vec::new(),
            reported_ms: 0,
            loses_report: |_| false,
        }
    }

    fn now(&self) -> Instant {
        self.start + Duration::from_millis(self.ms)
    }

    /// Sends frames of `packets` packets at 25 fps for `ms`.
    fn frames(&mut self, packets: u64, ms: u64) {
        for _ in 0..ms / 40 {
            for _ in 0..packets {
                let took_us = i64::try_from(PACKET * 8_000 / self.kbps).expect("small");
                let at_us = i64::try_from(self.ms * 1_000).expect("soon");
                self.free_at_us = self.free_at_us.max(at_us) + took_us;
                let passage = Passage {
                    number: self.number,
                    sent: self.now(),
                    arrived_us: Some(7_000_000 + 25_000 + self.free_at_us),
                    bytes: PACKET,
                };
                self.number += 1;
                self.waiting.push(passage);
            }
            self.ms += 40;
            self.report();
        }
    }

    fn report(&mut self) {
        if self.ms < self.reported_ms + 100 {
            return;
        }
        self.reported_ms = self.ms;
        let now_us = i64::try_from(self.ms * 1_000).expect("soon") - 25_000;
        let is_there = |it: &Passage| it.arrived_us.is_some_and(|at| at - 7_000_000 <= now_us);
        let there = self.waiting.iter().position(|it| !is_there(it));
        let there = there.unwrap_or(self.waiting.len());
        let reported: Vec<_> = self.waiting.drain(..there).collect();
        if !(self.loses_report)(self.ms / 100) {
            self.meter.on_feedback(self.now(), reported);
        }
    }

    fn signs(&self) -> PathSigns {
        self.meter.signs(self.now()).expect("feedback")
    }

    fn train_kbps(&self) -> u64 {
        self.signs()
            .train
            .expect("frames of several packets")
            .rate
            .bps()
            / 1_000
    }
}

#[test]
fn frames_of_two_packets_measure_a_path_that_they_hardly_use() {
    for kbps in [700, 3_000, 20_000] {
        let mut path = Path::new(kbps);
        path.frames(2, 2_000);
        let found = path.train_kbps();
        assert!(found.abs_diff(kbps) * 20 <= kbps, "{found} of {kbps}");
        assert!(path.signs().standing < Duration::from_millis(20));
        let carried = path.signs().carried.bps() / 1_000;
        assert!((400..560).contains(&carried), "{carried}");
    }
}

#[test]
fn behind_the_queue_of_others_packets_that_left_together_still_measure_the_link() {
    let mut path = Path::new(4_000);
    path.frames(2, 1_000);
    for _ in 0..50 {
        // Half of the link's time is another flow's, whose queue has 200 ms.
        let (queue_us, others_us) = (200_000, 20_000);
        let now_us = i64::try_from(path.ms * 1_000).expect("soon");
        path.free_at_us = (path.free_at_us + others_us).max(now_us + queue_us);
        path.frames(2, 40);
    }
    assert!(path.signs().standing > Duration::from_millis(150));
    let burst = path.signs().burst.expect("frames of two packets");
    assert!(
        (3_600..4_400).contains(&(burst.rate.bps() / 1_000)),
        "{burst:?}"
    );
    let found = path.train_kbps();
    assert!(found < 700, "the others' packets are between: {found}");
}

#[test]
fn a_path_that_narrows_or_widens_is_seen_within_half_a_second() {
    let mut path = Path::new(5_000);
    path.frames(8, 3_000);
    path.kbps = 800;
    path.frames(8, 480);
    let found = path.train_kbps();
    assert!((750..1_000).contains(&found), "{found}");
    assert!(path.signs().queue > Duration::from_millis(100));
    let mut path = Path::new(600);
    path.frames(2, 3_000);
    path.kbps = 4_000;
    path.frames(2, 800);
    let found = path.train_kbps();
    assert!((3_500..4_200).contains(&found), "{found}");
}

#[test]
fn reports_that_are_lost_change_nothing() {
    let mut path = Path::new(3_000);
    path.loses_report = |number| number % 10 < 3;
    path.frames(6, 4_000);
    let found = path.train_kbps();
    assert!((2_800..3_200).contains(&found), "{found}");
    assert_eq!(path.signs().lost, 0);
}

#[test]
fn losses_of_a_queue_that_has_become_empty_are_not_those_of_a_policer() {
    for (queue_ms, found) in [(0, 0), (300, 300)] {
        let mut path = Path::new(3_000);
        path.frames(2, 1_000);
        let (sent, number) = (path.now(), path.number);
        let arrived_us = |ms: i64| Some(8_025_000 + ms * 1_000);
        let passage = |place: u64, arrived_us| Passage {
            number: number + place,
            sent,
            arrived_us,
            bytes: PACKET,
        };
        let lossy = |place| passage(place, arrived_us(queue_ms).filter(|_| place % 2 == 0));
        path.meter.on_feedback(sent, (0..10).map(lossy));
        let whole = (10..20).map(|place| passage(place, arrived_us(0)));
        path.meter.on_feedback(sent, whole);
        let signs = path.signs();
        let at_losses = u64::try_from(signs.queue_at_losses.as_millis()).expect("short");
        assert!(at_losses.abs_diff(found) < 10, "{signs:?}");
        assert!(signs.lost == 5 && signs.queue < Duration::from_millis(10));
    }
}

#[test]
fn single_packets_measure_nothing_and_old_signs_are_none() {
    let mut path = Path::new(3_000);
    path.frames(1, 2_000);
    assert_eq!(path.signs().train, None);
    let later = path.now() + KEPT * 2;
    assert_eq!(path.meter.signs(later), None);
}

proptest! {
    #[test]
    fn a_peer_may_report_anything(
        passages in prop::collection::vec(
            (any::<u16>(), any::<u16>(), prop::option::of(any::<i64>())), 0..200,
        ),
    ) {
        let start = Clock::new().now();
        let mut meter = PathMeter::default();
        let mut now = start;
        for (number, ms, arrived_us) in passages {
            now += Duration::from_millis(u64::from(ms) % 300);
            let passage = Passage {
                number: u64::from(number),
                sent: start + Duration::from_millis(u64::from(ms)),
                arrived_us: arrived_us.map(|it| it / 4),
                bytes: PACKET,
            };
            meter.on_feedback(now, [passage]);
            let signs = meter.signs(now).expect("feedback");
            prop_assert!(signs.lost <= signs.packets);
            prop_assert!(meter.reports.len() <= REPORTS_MAX);
        }
    }
}
