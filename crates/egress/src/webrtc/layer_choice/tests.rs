use super::*;
use glassline_congestion::TrainRate;

const MS: Duration = Duration::from_millis(1);

fn kbps(kbps: u64) -> Bitrate {
    Bitrate::from_bps(kbps * 1_000)
}

fn rungs() -> [Rung; 3] {
    [(1, 150), (2, 500), (3, 2_500)].map(|(layer, rate)| Rung {
        selection: Selection::whole(LayerIndex(layer)),
        rate: kbps(rate),
        height: Some(180 << (layer - 1)),
    })
}

/// A viewer with a path of which each feedback says the same.
struct Viewer {
    choice: LayerChoice,
    now: Instant,
    signs: PathSigns,
    waited: Duration,
}

impl Viewer {
    fn new(layer: u8) -> Self {
        let now = Instant::now();
        Self {
            choice: LayerChoice::new(LayerIndex(layer), now),
            now,
            signs: PathSigns {
                newest: 0,
                train: None,
                burst: None,
                carried: kbps(2_700),
                has_gap: false,
                standing: Duration::ZERO,
                queue: Duration::ZERO,
                packets: 100,
                lost: 0,
                lost_runs: 0,
                queue_at_losses: Duration::ZERO,
            },
            waited: Duration::ZERO,
        }
    }

    fn train(&mut self, rate: u64) {
        self.signs.train = Some(TrainRate {
            rate: kbps(rate),
            best: kbps(rate),
            bytes: 20_000,
        });
    }

    /// Decides each 100 ms for `ms`; returns the layer, and counts the changes.
    fn pass(&mut self, ms: u64) -> (u8, usize) {
        let mut changes = 0;
        for _ in 0..ms / 100 {
            self.now += 100 * MS;
            let rungs = rungs();
            let next = self.signs.newest + 10;
            self.choice.padding(0, next, false, self.now);
            self.signs.newest = next;
            let is_other = self.choice.decide(&Situation {
                rungs: &rungs,
                signs: self.signs,
                waited: self.waited,
                sent: 0,
                may_probe: true,
                now: self.now,
            });
            changes += usize::from(is_other);
        }
        (self.choice.layer().0, changes)
    }
}

#[test]
fn a_queue_that_stands_moves_a_viewer_to_what_the_path_carries_and_says_why() {
    let mut viewer = Viewer::new(3);
    viewer.train(800);
    assert_eq!(viewer.pass(1_000), (3, 0), "nothing stands");
    viewer.signs.standing = 100 * MS;
    assert_eq!(viewer.pass(300), (2, 1));
    let reason = viewer.choice.reason().to_string();
    assert_eq!(reason, "the path carries 0.8 of 2.7 Mbit/s");
    viewer.train(100);
    assert_eq!(viewer.pass(300), (1, 1));
    assert_eq!(viewer.pass(3_000), (1, 0), "there is no lower one");
}

#[test]
fn a_keyframe_that_takes_its_time_on_a_path_that_fits_moves_nobody() {
    let mut viewer = Viewer::new(3);
    viewer.train(3_000);
    viewer.waited = 200 * MS;
    viewer.signs.standing = 100 * MS;
    assert_eq!(viewer.pass(2_000), (3, 0));
}

#[test]
fn losses_of_a_radio_move_nobody_and_those_of_a_policer_do() {
    let mut viewer = Viewer::new(3);
    viewer.train(20_000);
    (viewer.signs.lost, viewer.signs.carried) = (4, kbps(2_400));
    assert_eq!(viewer.pass(5_000), (3, 0));
    (viewer.signs.lost, viewer.signs.carried) = (20, kbps(2_000));
    viewer.signs.lost_runs = 1;
    assert_eq!(viewer.pass(5_000), (3, 0), "one moment");
    viewer.signs.lost_runs = 8;
    assert_eq!(
        viewer.pass(500),
        (3, 0),
        "some moments within half a second"
    );
    assert_eq!(viewer.pass(400), (2, 1));
}

#[test]
fn a_viewer_moves_up_once_a_probe_has_held_and_later_after_failures() {
    let mut viewer = Viewer::new(3);
    viewer.train(300);
    viewer.signs.standing = 100 * MS;
    assert_eq!(viewer.pass(300), (1, 1));
    viewer.signs.standing = Duration::ZERO;
    assert_eq!(viewer.pass(5_000), (1, 0));
    viewer.train(5_000);
    viewer.signs.queue = 100 * MS;
    assert_eq!(viewer.pass(300), (1, 0), "the probe fails");
    viewer.signs.queue = Duration::ZERO;
    assert_eq!(viewer.pass(1_800), (1, 0), "not at once");
    assert_eq!(viewer.pass(800), (2, 1), "where the best layer failed");
    assert_eq!(viewer.pass(2_000), (3, 1));
}

#[test]
fn a_viewer_beside_a_flow_that_fills_the_queue_gets_what_that_flow_leaves() {
    let mut viewer = Viewer::new(3);
    // Trains say what is sent, as packets of the other flow come between.
    viewer.train(800);
    (viewer.signs.standing, viewer.signs.queue) = (200 * MS, 210 * MS);
    assert_eq!(viewer.pass(300), (2, 1));
    viewer.train(500);
    assert_eq!(viewer.pass(300), (1, 1));
    viewer.train(150);
    assert_eq!(viewer.pass(1_500), (1, 0));
    viewer.signs.burst = Some(TrainRate {
        rate: kbps(4_000),
        best: kbps(4_000),
        bytes: 3_000,
    });
    assert_eq!(viewer.pass(1_500), (2, 1));
    viewer.train(500);
    (viewer.signs.carried, viewer.signs.lost) = (kbps(500), 2);
    let (_, longest) = probes(&mut viewer, 60, |viewer| {
        let is_probing = viewer.choice.is_probing();
        viewer.signs.queue = if is_probing { 350 * MS } else { 210 * MS };
    });
    assert!(viewer.choice.layer().0 == 2 && longest < 4, "{longest}");
    (viewer.signs.standing, viewer.signs.queue) = (Duration::ZERO, Duration::ZERO);
    viewer.train(4_000);
    assert_eq!(viewer.pass(20_000), (3, 1), "the other flow is gone");
}

#[test]
fn a_viewer_that_is_back_on_the_best_layer_falls_as_soon_as_one_that_was_always_there() {
    let mut viewer = Viewer::new(3);
    viewer.train(800);
    (viewer.signs.standing, viewer.signs.queue) = (200 * MS, 210 * MS);
    assert_eq!(viewer.pass(300), (2, 1));
    assert_eq!(viewer.pass(2_500), (2, 0), "the queue is that of others");
    (viewer.signs.standing, viewer.signs.queue) = (Duration::ZERO, Duration::ZERO);
    viewer.train(4_000);
    viewer.signs.burst = viewer.signs.train;
    assert_eq!(viewer.pass(3_500), (3, 1), "within four seconds");
    assert_eq!(viewer.pass(6_000), (3, 0));
    viewer.train(800);
    viewer.signs.burst = viewer.signs.train;
    (viewer.signs.standing, viewer.signs.queue) = (200 * MS, 210 * MS);
    assert_eq!(viewer.pass(300), (2, 1));
}

#[test]
fn a_pin_and_the_size_of_the_element_bound_the_layer() {
    let mut viewer = Viewer::new(3);
    viewer.choice.request.height = Some(200);
    assert_eq!(viewer.pass(100), (2, 1));
    assert_eq!(viewer.choice.reason(), Reason::Element(200));
    viewer.choice.request.pin = Some(LayerIndex(1));
    assert_eq!(viewer.pass(100), (1, 1));
    viewer.choice.request = LayerRequest::default();
    assert_eq!(viewer.pass(100), (3, 1));
    assert_eq!(viewer.choice.reason(), Reason::Best);
}

#[test]
fn behind_jitter_a_viewer_moves_up_by_packets_that_left_together() {
    for (standing, is_up) in [(5, true), (28, false)] {
        let mut viewer = Viewer::new(3);
        viewer.train(300);
        viewer.signs.standing = 100 * MS;
        assert_eq!(viewer.pass(300), (1, 1));
        viewer.signs.burst = Some(TrainRate {
            rate: kbps(5_000),
            best: kbps(5_000),
            bytes: 20_000,
        });
        (viewer.signs.standing, viewer.signs.queue) = (standing * MS, 50 * MS);
        let (layer, _) = viewer.pass(15_000);
        assert_eq!(layer == 3, is_up, "a queue of {standing} ms");
    }
}

#[test]
fn a_path_that_stood_is_no_policer_afterwards() {
    for (queue_at_losses, is_back) in [(1_500, true), (0, false)] {
        let mut viewer = Viewer::new(3);
        viewer.train(5_000);
        (viewer.signs.lost, viewer.signs.lost_runs) = (60, 8);
        viewer.signs.carried = kbps(20);
        viewer.signs.queue_at_losses = queue_at_losses * MS;
        assert_eq!(viewer.pass(1_300), (1, 1));
        (viewer.signs.lost, viewer.signs.lost_runs) = (0, 0);
        viewer.signs.queue_at_losses = Duration::ZERO;
        let (layer, _) = viewer.pass(5_000);
        assert_eq!(layer == 3, is_back, "{queue_at_losses} ms");
    }
}

#[test]
fn a_flow_that_overruns_the_queue_for_a_moment_moves_nobody() {
    let mut viewer = Viewer::new(3);
    viewer.signs.carried = kbps(2_000);
    (viewer.signs.lost, viewer.signs.lost_runs) = (15, 8);
    (viewer.signs.queue, viewer.signs.queue_at_losses) = (40 * MS, 40 * MS);
    assert_eq!(viewer.pass(800), (3, 0));
    viewer.signs.lost = 0;
    assert_eq!(viewer.pass(1_000), (3, 0));
    viewer.signs.lost = 15;
    assert_eq!(viewer.pass(1_300), (2, 1), "and for longer");
}

/// Counts the probes that begin within `seconds`, and the longest one in steps of 100 ms. `change` says
/// what the path tells before each step.
fn probes(viewer: &mut Viewer, seconds: u64, mut change: impl FnMut(&mut Viewer)) -> (u32, u32) {
    let (mut count, mut length, mut longest) = (0, 0, 0);
    for _ in 0..seconds * 10 {
        change(viewer);
        viewer.pass(100);
        let is_on = viewer.choice.is_probing();
        count += u32::from(is_on && length == 0);
        length = if is_on { length + 1 } else { 0 };
        longest = longest.max(length);
    }
    (count, longest)
}

#[test]
fn single_trains_that_promise_anything_are_not_believed_again_and_again() {
    let mut viewer = Viewer::new(3);
    viewer.train(300);
    viewer.signs.standing = 100 * MS;
    viewer.pass(300);
    viewer.signs.standing = Duration::ZERO;
    let mut best = 1_000;
    let (count, _) = probes(&mut viewer, 60, |viewer| {
        best += 200;
        viewer.train(500);
        viewer.signs.train = viewer.signs.train.map(|it| TrainRate {
            best: kbps(best),
            ..it
        });
        let queue = if viewer.choice.is_probing() { 150 } else { 10 };
        viewer.signs.queue = queue * MS;
    });
    assert!((3..=7).contains(&count), "{count}");
    assert_eq!(viewer.choice.layer().0, 1);
}

#[test]
fn behind_a_policer_a_probe_comes_late_lasts_a_second_and_ends_with_the_first_losses() {
    let mut viewer = Viewer::new(3);
    viewer.train(20_000);
    viewer.signs.carried = kbps(2_000);
    viewer.pass(1_000);
    (viewer.signs.lost, viewer.signs.lost_runs) = (20, 8);
    assert_eq!(viewer.pass(900), (2, 1));
    (viewer.signs.lost, viewer.signs.lost_runs) = (0, 0);
    assert_eq!(probes(&mut viewer, 30, |_| {}).0, 0);
    let mut is_over = false;
    let (count, longest) = probes(&mut viewer, 10, |viewer| {
        // The first five steps pass by the policer's burst.
        let is_on = viewer.choice.is_probing();
        is_over |= is_on && viewer.signs.lost == 0 && viewer.signs.newest % 50 == 0;
        viewer.signs.lost = if is_on && is_over { 9 } else { 0 };
    });
    assert!(count == 1 && longest < 8, "{count}, {longest}");
    assert_eq!(viewer.choice.layer().0, 2);
    let (_, longest) = probes(&mut viewer, 70, |_| {});
    assert!((9..=11).contains(&longest), "{longest}");
    assert_eq!(viewer.choice.layer().0, 3, "the policer is gone");
}

#[test]
fn a_probe_that_trains_speak_against_is_short_and_a_whole_one_follows_if_it_holds() {
    let lengths = |train, queue| {
        let mut viewer = Viewer::new(3);
        viewer.train(300);
        viewer.signs.standing = 100 * MS;
        viewer.pass(300);
        viewer.signs.standing = Duration::ZERO;
        let mut lengths = Vec::new();
        viewer.train(train);
        viewer.signs.train = viewer.signs.train.map(|it| TrainRate {
            best: kbps(9_000),
            ..it
        });
        let mut began = None;
        for _ in 0..150 {
            viewer.now += 10 * MS;
            let next = viewer.signs.newest + 1;
            let rungs = rungs();
            let padding = viewer.choice.padding(0, next, false, viewer.now);
            viewer.signs.newest = next;
            viewer.signs.queue = if padding > 0 { queue } else { Duration::ZERO };
            let is_on = viewer.choice.is_probing();
            if let Some(at) = began.filter(|_| !is_on) {
                lengths.push(viewer.now - at);
            }
            began = is_on.then_some(began.unwrap_or(viewer.now));
            let is_other = viewer.choice.decide(&Situation {
                rungs: &rungs,
                signs: viewer.signs,
                waited: Duration::ZERO,
                sent: 0,
                may_probe: true,
                now: viewer.now,
            });
            if is_other {
                break;
            }
        }
        (lengths, viewer.choice.layer().0)
    };
    // The probe has 2.95 Mbit/s: 50 ms of queue at 2.2 are up to 147 ms of probe.
    let (held, layer) = lengths(2_200, Duration::ZERO);
    assert_eq!((held.len(), layer), (2, 3), "{held:?}");
    assert!(held[0] >= 100 * MS && held[0] < 170 * MS, "{held:?}");
    assert!(held[1] >= 180 * MS, "{held:?}");
    let (whole, layer) = lengths(3_000, Duration::ZERO);
    assert_eq!((whole.len(), layer), (1, 3), "{whole:?}");
    let (failed, layer) = lengths(2_200, 40 * MS);
    assert_eq!((failed.len(), layer), (1, 1), "{failed:?}");
}

#[test]
fn a_few_bytes_of_trains_promise_the_next_layer_and_no_better_one() {
    for (bytes, layer) in [(1_500, 2), (20_000, 3)] {
        let mut viewer = Viewer::new(3);
        viewer.train(200);
        viewer.signs.standing = 100 * MS;
        assert_eq!(viewer.pass(300), (1, 1));
        viewer.signs.standing = Duration::ZERO;
        viewer.train(5_000);
        viewer.signs.train = viewer.signs.train.map(|it| TrainRate { bytes, ..it });
        while viewer.pass(100).1 == 0 {}
        assert_eq!(viewer.choice.layer().0, layer, "{bytes}");
    }
}

#[test]
fn losses_that_stay_on_a_lower_layer_speak_against_no_better_one() {
    let lossy = |lost: u64| {
        let mut viewer = Viewer::new(3);
        viewer.train(800);
        viewer.signs.standing = 100 * MS;
        viewer.pass(1_000);
        viewer.signs.standing = Duration::ZERO;
        (viewer.signs.lost, viewer.signs.lost_runs) = (lost, lost);
        (viewer, lost)
    };
    for (mut viewer, lost) in [lossy(0), lossy(8), lossy(14)] {
        viewer.pass(10_000);
        viewer.train(4_000);
        assert_eq!(viewer.pass(10_000).0, 3, "{lost} of a hundred");
        // The losses are as many as before.
        viewer.signs.carried = kbps(2_500);
        assert_eq!(viewer.pass(10_000), (3, 0), "{lost} of a hundred");
        // A third more is lost beside them.
        (viewer.signs.lost, viewer.signs.lost_runs) = (lost + 33, 20);
        (viewer.signs.queue, viewer.signs.carried) = (100 * MS, kbps(1_500));
        assert!(viewer.pass(2_000).0 < 3, "{lost} of a hundred");
    }
    let (mut viewer, _) = lossy(0);
    viewer.pass(10_000);
    viewer.train(4_000);
    (viewer.signs.lost, viewer.signs.lost_runs) = (8, 8);
    let mut layers = (0..5).map(|_| viewer.pass(100).0);
    assert!(layers.all(|it| it == 2), "losses that begin with a probe");
}
