//! A viewer of a track with three layers whose path changes, in virtual time.

mod decoder;
mod far;
mod temporal;
mod world;

use decoder::Shown;
use world::{FPS, Story, World, plain};

/// The outcome of a story.
struct Outcome {
    world: World,
}

impl Outcome {
    fn of(story: &Story, seed: u64) -> Self {
        let mut world = World::new(story.clone(), seed);
        for ms in 0..story.ms {
            world.step(ms);
        }
        Self { world }
    }

    fn shown(&self, span: &std::ops::Range<u64>) -> impl Iterator<Item = &Shown> {
        let shown = self.world.decoder.shown.iter();
        shown.filter(|it| span.contains(&it.ms))
    }

    /// Returns the times at which another layer is shown than before.
    fn switches(&self) -> Vec<(u64, u8)> {
        let shown = &self.world.decoder.shown;
        let changed = shown
            .windows(2)
            .filter(|it| it[0].tag.layer != it[1].tag.layer);
        changed.map(|it| (it[1].ms, it[1].tag.layer)).collect()
    }

    /// Returns the longest time without a new frame, in ms.
    fn longest_gap(&self, span: std::ops::Range<u64>) -> u64 {
        let times: Vec<u64> = std::iter::once(span.start)
            .chain(self.shown(&span).map(|it| it.ms))
            .chain(std::iter::once(span.end))
            .collect();
        let gaps = times.windows(2).map(|it| it[1] - it[0]);
        gaps.max().unwrap_or_default()
    }

    /// Returns the 99th percentile of the time by which live frames come later than on an empty path.
    fn late_p99(&self, span: std::ops::Range<u64>) -> u64 {
        let due = |it: &&Shown| it.tag.number * 1_000 / FPS + self.world.delay_ms();
        let mut late: Vec<u64> = self
            .shown(&span)
            .map(|it| it.ms.saturating_sub(due(&it)))
            .collect();
        late.sort_unstable();
        late.get(late.len().saturating_sub(1) * 99 / 100)
            .copied()
            .unwrap_or(u64::MAX)
    }

    fn kbps(&self, span: std::ops::Range<u64>) -> u64 {
        let tenths = &self.world.tenths[(span.start / 100) as usize..(span.end / 100) as usize];
        tenths.iter().sum::<usize>() as u64 * 8 / (span.end - span.start)
    }

    fn tell(&self, name: &str, seed: u64) {
        let world = &self.world;
        println!(
            "{name}, seed {seed}: switches {:?}, asked {:?}, padding {:.2} % of {} kB, {} frames; {:?}",
            self.switches(),
            world.asked,
            world.padding as f64 * 100.0 / world.sent as f64,
            world.sent / 1_000,
            world.decoder.shown.len(),
            world.reasons
        );
    }
}

#[test]
fn a_viewer_whose_path_narrows_gets_a_lower_layer_within_a_second() {
    for seed in 0..6 {
        let story = Story {
            capacity: vec![(0, 5_000), (10_000 + seed * 370, 800)],
            ms: 30_000,
            ..plain()
        };
        let outcome = Outcome::of(&story, seed);
        outcome.tell("2.5 to 0.8", seed);
        let offered = outcome.kbps(11_000 + seed * 400..20_000);
        let late = outcome.late_p99(10_000..30_000);
        let gap = outcome.longest_gap(10_000..30_000);
        println!("offered {offered} kbit/s, {late} ms late, longest gap {gap} ms");
        assert!(outcome.switches().len() <= 2);
        assert!(offered <= 800 && late <= 400, "{offered} kbit/s, {late} ms");
    }
}

#[test]
fn a_viewer_whose_path_widens_gets_the_best_layer_within_five_seconds() {
    for seed in 0..8 {
        let wide = 20_000 + seed * 330;
        let story = Story {
            rates: [150, 500, 1_250],
            capacity: vec![(0, 500), (wide, 3_000)],
            jitter_ms: if seed % 4 < 2 { 0 } else { 10 },
            ms: wide + 7_000,
            has_groups: seed % 2 == 0,
            ..plain()
        };
        let outcome = Outcome::of(&story, seed);
        outcome.tell("0.5 to 3", seed);
        let best = outcome
            .shown(&(wide..wide + 7_000))
            .find(|it| it.tag.layer == 2);
        println!(
            "best at {:?}, gap {}",
            best.map(|it| it.ms),
            outcome.longest_gap(wide..wide + 7_000)
        );
        assert!(best.is_some_and(|it| it.ms < wide + 5_000));
    }
}

#[test]
fn a_steady_path_has_one_switch_at_most_and_little_padding() {
    for kbps in [300, 800, 1_500, 2_700, 4_000] {
        let story = Story {
            capacity: vec![(0, kbps)],
            ..plain()
        };
        let outcome = Outcome::of(&story, 1);
        outcome.tell(&format!("steady {kbps}"), 1);
        assert!(outcome.switches().len() <= 1, "{kbps}");
        let padding = outcome.world.padding as f64 / outcome.world.sent as f64;
        assert!(padding < 0.03, "{kbps}: {padding}");
    }
}

#[test]
fn losses_of_a_radio_and_of_feedback_move_nobody() {
    let stories = [
        (
            "2 % loss",
            Story {
                loss: 0.02,
                ..plain()
            },
        ),
        (
            "jitter",
            Story {
                jitter_ms: 20,
                capacity: vec![(0, 6_000)],
                ..plain()
            },
        ),
        (
            "30 % of the feedback lost",
            Story {
                feedback_loss: 0.3,
                ..plain()
            },
        ),
    ];
    for (name, story) in stories {
        for seed in 1..5 {
            let outcome = Outcome::of(&story, seed);
            outcome.tell(name, seed);
            assert_eq!(outcome.switches(), [], "{name}");
        }
    }
}

#[test]
fn a_policer_is_found_within_three_seconds() {
    let story = Story {
        policed_kbps: Some(2_000),
        ms: 30_000,
        ..plain()
    };
    let outcome = Outcome::of(&story, 1);
    outcome.tell("policed", 1);
    let first = outcome.switches().first().copied();
    assert!(first.is_some_and(|(ms, _)| ms < 3_000), "{first:?}");
}
