use super::*;
use glassline_congestion::TrainRate;

const MS: Duration = Duration::from_millis(1);

fn kbps(kbps: u64) -> Bitrate {
    Bitrate::from_bps(kbps * 1_000)
}

fn rungs() -> [Rung; 3] {
    [(1, 150), (2, 500), (3, 2_500)].map(|(layer, rate)| Rung {
        layer: LayerIndex(layer),
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
                carried: kbps(2_700),
                has_gap: false,
                standing: Duration::ZERO,
                queue: Duration::ZERO,
                packets: 100,
                lost: 0,
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
            self.choice.padding(0, next, self.now);
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
    assert_eq!(viewer.pass(300), (2, 1));
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
    assert_eq!(viewer.pass(1_500), (1, 0), "the probe fails");
    viewer.signs.queue = Duration::ZERO;
    assert_eq!(viewer.pass(600), (1, 0), "not at once");
    assert_eq!(viewer.pass(2_500), (3, 1));
}

#[test]
fn a_pin_and_the_size_of_the_element_bound_the_layer() {
    let mut viewer = Viewer::new(3);
    viewer.choice.wish.height = Some(200);
    assert_eq!(viewer.pass(100), (2, 1));
    assert_eq!(viewer.choice.reason(), Reason::Element(200));
    viewer.choice.wish.pin = Some(LayerIndex(1));
    assert_eq!(viewer.pass(100), (1, 1));
    viewer.choice.wish = Wish::default();
    assert_eq!(viewer.pass(100), (3, 1));
    assert_eq!(viewer.choice.reason(), Reason::Best);
}
