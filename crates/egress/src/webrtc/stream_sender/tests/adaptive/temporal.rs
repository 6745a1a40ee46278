//! A viewer of one encoding with three temporal layers.

use std::collections::BTreeSet;

use super::world::Tag;
use super::{FPS, Outcome, Story, plain};

/// 1.1 Mbit/s at 30 frames a second, 600 kbit/s at 15, and 400 kbit/s at 7.5.
fn layered() -> Story {
    Story {
        rates: [1_600, 800, 1_000],
        is_temporal: true,
        ..plain()
    }
}

impl Outcome {
    fn fps(&self, span: std::ops::Range<u64>) -> f64 {
        let seconds = (span.end - span.start) as f64 / 1e3;
        self.shown(&span).count() as f64 / seconds
    }

    /// Panics if PictureIDs have a gap where sequence numbers have none and no keyframe follows.
    fn assert_numbered(&self) {
        let numbers: Vec<_> = self.world.decoder.numbers.iter().collect();
        for pair in numbers.windows(2) {
            let [(first, (before, id)), (second, (tag, next))] = [pair[0], pair[1]];
            let step = u16::from(before.number != tag.number);
            let follows = *next == (id + step) & 0x7fff;
            let is_next = first + 1 == *second && !tag.keyframe;
            assert!(follows || !is_next, "{before:?} {id}, {tag:?} {next}");
        }
    }

    /// Returns the frames from `number` on that refer to one of which no packet came: the viewer was sent what
    /// it cannot decode.
    fn torn(&self, number: u64) -> Vec<Tag> {
        let arrived: BTreeSet<Tag> = self.world.decoder.numbers.values().map(|it| it.0).collect();
        let numbers: BTreeSet<u64> = arrived.iter().map(|it| it.number).collect();
        let refers = |it: &Tag| it.reference().is_some_and(|it| numbers.contains(&it));
        let torn = arrived.iter().filter(|it| !it.keyframe && !refers(it));
        let torn = torn.filter(|it| it.number >= number);
        torn.copied().collect()
    }
}

#[test]
fn a_viewer_whose_path_narrows_gets_fewer_frames_evenly_and_all_of_them_later() {
    for seed in 0..4 {
        // Between two keyframes, which come each two seconds.
        let (narrow, wide) = (10_500 + seed * 270, 20_000 + seed * 330);
        let story = Story {
            capacity: vec![(0, 5_000), (narrow, 950), (wide, 3_000)],
            ms: wide + 12_000,
            ..layered()
        };
        let outcome = Outcome::of(&story, seed);
        outcome.tell("temporal layers", seed);
        outcome.assert_numbered();
        assert_eq!(outcome.torn(0), [], "no frame that cannot be decoded");
        let before = outcome.fps(5_000..narrow);
        let meanwhile = narrow + 3_000..wide;
        let (during, gap) = (
            outcome.fps(meanwhile.clone()),
            outcome.longest_gap(meanwhile),
        );
        let after = outcome.fps(wide + 6_000..wide + 12_000);
        let pause = outcome.longest_gap(narrow..wide + 12_000);
        println!("{before:.1}, {during:.1} (gap {gap} ms), {after:.1} fps; pause {pause} ms");
        assert!(before > FPS as f64 - 1.0 && after > FPS as f64 - 1.0);
        // A keyframe takes 330 ms on the narrow path.
        assert!((13.0..17.0).contains(&during) && gap < 500);
        assert!(pause < 700);
        let asked = outcome.world.asked[0];
        assert!(asked <= 1, "{asked} keyframes");
    }
}

#[test]
fn losses_and_reordering_tear_no_frame_of_a_thinned_viewer() {
    for seed in 0..4 {
        let story = Story {
            capacity: vec![(0, 800)],
            loss: 0.02,
            jitter_ms: 8,
            ms: 30_000,
            ..layered()
        };
        let outcome = Outcome::of(&story, seed);
        outcome.tell("temporal layers with losses", seed);
        outcome.assert_numbered();
        let counters = &outcome.world.scene.counters;
        let (unknown, late) = (counters.unrepairable.get(), counters.dropped_repairs.get());
        let (fps, gap) = (
            outcome.fps(5_000..30_000),
            outcome.longest_gap(5_000..30_000),
        );
        println!("{fps:.1} fps, gap {gap} ms, {late} repairs too late");
        // Before the path is known, its queue may drop whole frames.
        assert_eq!(outcome.torn(2 * FPS), []);
        assert_eq!(unknown, 0, "every packet that was sent is found");
        assert!(fps > 6.0, "{fps:.1} fps");
    }
}

/// A path that becomes much narrower, and wide again.
struct Narrowed {
    name: &'static str,
    kbps: u64,
    has_groups: bool,
    /// Longest time without a new frame from a second after the change on.
    gap_max: u64,
}

const NARROWED: [Narrowed; 3] = [
    Narrowed {
        name: "the lowest layer just fits",
        kbps: 450,
        has_groups: false,
        gap_max: 1_000,
    },
    // A keyframe alone takes 950 ms, and the lowest layer does not fit.
    Narrowed {
        name: "a quarter",
        kbps: 275,
        has_groups: false,
        gap_max: 1_500,
    },
    Narrowed {
        name: "a quarter, with a keyframe each two seconds",
        kbps: 275,
        has_groups: true,
        gap_max: 1_500,
    },
];

#[test]
fn a_viewer_whose_path_becomes_much_narrower_sees_frames_go_on_and_all_of_them_soon_after() {
    for narrowed in &NARROWED {
        for seed in 0..2 {
            let (narrow, wide) = (10_500 + seed * 270, 30_000 + seed * 330);
            let story = Story {
                capacity: vec![(0, 5_000), (narrow, narrowed.kbps), (wide, 5_000)],
                has_groups: narrowed.has_groups,
                ms: wide + 10_000,
                ..layered()
            };
            let outcome = Outcome::of(&story, seed);
            outcome.assert_numbered();
            let settled = narrow.next_multiple_of(100) + 1_000;
            let offered = outcome.kbps(settled..settled + 4_000);
            let gap = outcome.longest_gap(settled..wide);
            let back = outcome.fps(wide + 5_000..wide + 10_000);
            let asked = outcome.world.asked[0];
            println!(
                "{}, seed {seed}: {offered} kbit/s offered, longest gap {gap} ms, {back:.1} fps after 5 s, {asked} keyframes; {:?}",
                narrowed.name, outcome.world.reasons
            );
            assert!(offered <= narrowed.kbps * 5 / 4, "{offered} kbit/s");
            assert!(gap < narrowed.gap_max, "{gap} ms");
            assert!(back > FPS as f64 - 1.0, "{back:.1} fps");
            assert!(asked <= 7, "one each four seconds at most: {asked}");
        }
    }
}
