//! A viewer behind a long round trip that loses packets: FEC packets make its frames whole in time.

use super::*;

/// Lateness up to which a frame is in time: a retransmission of a lost packet comes at least 300 ms late.
const IN_TIME: u64 = 200;

/// A single encoding at 1 Mbit/s over a round trip of 300 ms.
fn far(loss: f64, rebuilds: bool) -> Story {
    Story {
        rates: [1_000; 3],
        is_temporal: true,
        delay_ms: 150,
        loss,
        rebuilds,
        ..plain()
    }
}

/// The figures of a minute, without its first ten seconds.
#[derive(Debug)]
struct Figures {
    /// Part of the frames that were shown in time.
    in_time: f64,
    /// Bytes of FEC packets, as a part of all other bytes.
    fec: f64,
}

impl Figures {
    fn of(story: &Story, seed: u64) -> (Self, Outcome) {
        let outcome = Outcome::of(story, seed);
        let due = |it: &Shown| it.tag.number * 1_000 / FPS + story.delay_ms;
        let span = 10_000..story.ms;
        let shown: Vec<_> = outcome.shown(&span).collect();
        let in_time = shown.iter().filter(|it| it.ms <= due(it) + IN_TIME).count();
        let published = (span.end - span.start) * FPS / 1_000;
        let fec = outcome.world.fec_bytes() as f64;
        let figures = Self {
            in_time: in_time as f64 / published as f64,
            fec: fec / (outcome.world.sent as f64 - fec),
        };
        println!(
            "loss {}, rebuilds {}, seed {seed}: {figures:?}",
            story.loss, story.rebuilds
        );
        (figures, outcome)
    }
}

#[test]
fn a_far_viewer_has_its_frames_whole_in_time() {
    for (loss, missed_part) in [(0.02, 0.5), (0.05, 0.5)] {
        for seed in 0..3 {
            let (without, _) = Figures::of(&far(loss, false), seed);
            let (with, _) = Figures::of(&far(loss, true), seed);
            assert!(without.fec == 0.0 && with.fec > 0.0 && with.fec <= 0.2);
            let missed = |it: &Figures| 1.0 - it.in_time;
            assert!(missed(&with) <= missed_part * missed(&without));
        }
    }
}

#[test]
fn a_viewer_that_loses_nothing_or_is_near_gets_no_fec_packets() {
    let clean = far(0.0, true);
    let near = Story {
        delay_ms: 40,
        ..far(0.05, true)
    };
    let deaf = far(0.05, false);
    for story in [clean, near, deaf] {
        assert_eq!(Figures::of(&story, 1).0.fec, 0.0);
    }
}

#[test]
fn a_path_without_room_for_the_media_gets_hardly_any_fec_packets() {
    for seed in 0..2 {
        let story = Story {
            capacity: vec![(0, 700)],
            is_temporal: false,
            ..far(0.02, true)
        };
        let (figures, _) = Figures::of(&story, seed);
        assert!(figures.fec <= 0.03, "{figures:?}");
    }
}

#[test]
fn fec_packets_are_no_reason_for_a_lower_layer() {
    for (capacity, fec_least) in [(20_000, 0.05), (3_050, 0.0)] {
        for seed in 0..2 {
            let story = |rebuilds| Story {
                rates: [150, 500, 2_500],
                is_temporal: false,
                capacity: vec![(0, capacity)],
                ..far(0.02, rebuilds)
            };
            let lower = |outcome: &Outcome| {
                outcome.tell("far", seed);
                let shown = outcome.shown(&(10_000..60_000));
                shown.filter(|it| it.tag.layer < 2).count()
            };
            let (_, without) = Figures::of(&story(false), seed);
            let (figures, with) = Figures::of(&story(true), seed);
            assert!((fec_least..=0.2).contains(&figures.fec));
            let [with, without] = [with, without].map(|it| lower(&it));
            println!("{capacity} kbit/s: lower {with} of {without}");
            assert!(with <= without, "{with} frames of {without}");
        }
    }
}

#[test]
fn fec_packets_take_the_place_of_no_frame_where_the_path_has_hardly_room() {
    for seed in 0..3 {
        let story = |rebuilds| Story {
            capacity: vec![(0, 1_120)],
            ..far(0.02, rebuilds)
        };
        let (_, without) = Figures::of(&story(false), seed);
        let (figures, with) = Figures::of(&story(true), seed);
        let count = |outcome: &Outcome| outcome.shown(&(10_000..60_000)).count();
        let [with, without] = [with, without].map(|it| count(&it));
        println!("seed {seed}: {with} of {without} frames");
        assert!(figures.fec <= 0.03, "{figures:?}");
        assert!(with * 100 >= without * 97, "{with} frames of {without}");
    }
}

#[test]
fn a_viewer_gets_no_fec_packets_where_they_are_turned_off() {
    let mut world = World::new(far(0.05, true), 1);
    world.leave_unprotected();
    for ms in 0..30_000 {
        world.step(ms);
    }
    assert_eq!(world.fec_bytes(), 0);
}
