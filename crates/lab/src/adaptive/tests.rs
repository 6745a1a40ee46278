//! Short runs of cases, with bounds that hold today.

use std::sync::Arc;
use std::time::Duration;

use glassline_webrtc::Certificate;

use super::*;

/// Plays the beginning of a case.
fn beginning(name: &str, seconds: u64, arm: Arm) -> Run {
    let mut case = named(name).expect("a case");
    case.duration = Duration::from_secs(seconds);
    let certificate = Arc::new(Certificate::generate().expect("randomness"));
    play(&case, arm, 1, &certificate)
}

#[test]
fn a_viewer_on_a_wide_path_gets_the_best_layer_and_every_frame() {
    for arm in Arm::ALL {
        let run = beginning("steady", 10, arm);
        let figures = &run.viewers[0].figures;
        assert!(figures.shown_ratio > 0.95, "{arm}: {figures:?}");
        assert_eq!(figures.torn, 0.0, "{arm}");
    }
}

#[test]
fn a_path_that_falls_is_seen_and_without_control_the_video_stands() {
    // 25 s, of which the path carries 0.8 Mbit/s for the last five.
    let [ours, plain, oracle] = [Arm::Ours, Arm::Plain, Arm::Oracle].map(|arm| {
        let run = beginning("drop", 25, arm);
        run.viewers[0].figures.clone()
    });
    assert!(ours.fit_s.is_some_and(|it| it < 4.0), "{ours:?}");
    assert!(ours.stall_ms_max < 4_000.0, "{ours:?}");
    assert!(plain.fit_s.is_none(), "{plain:?}");
    assert!(plain.stall_ms_max > 3_000.0, "{plain:?}");
    assert!(oracle.fit_s.is_some_and(|it| it < 0.5), "{oracle:?}");
    assert!(oracle.stall_ms_max < 300.0, "{oracle:?}");
    for figures in [&ours, &plain, &oracle] {
        assert_eq!(figures.torn, 0.0, "{figures:?}");
    }
}

#[test]
fn losses_are_repaired_and_a_viewer_whose_feedback_is_lost_keeps_its_video() {
    for (name, arm) in [
        ("loss", Arm::Ours),
        ("loss", Arm::Gcc),
        ("feedback", Arm::Ours),
    ] {
        let run = beginning(name, 10, arm);
        let figures = &run.viewers[0].figures;
        assert!(figures.shown_ratio > 0.95, "{name}, {arm}: {figures:?}");
        assert!(figures.stall_ms_max < 600.0, "{name}, {arm}: {figures:?}");
        assert_eq!(figures.torn, 0.0, "{name}, {arm}");
    }
}

#[test]
fn below_the_lowest_layer_a_lost_packet_of_a_keyframe_is_not_passed_by_newer_frames() {
    let case = named("below").expect("a case");
    let certificate = Arc::new(Certificate::generate().expect("randomness"));
    let runs = (1..=8).map(|seed| play(&case, Arm::Ours, seed, &certificate));
    let stalls: Vec<f64> = runs.map(|it| it.viewers[0].figures.stall_ms_max).collect();
    let mean = stalls.iter().sum::<f64>() / stalls.len() as f64;
    assert!(mean < 1_500.0, "{stalls:?}");
}

#[test]
fn a_server_that_estimates_as_libwebrtc_finds_a_wide_path_within_seconds() {
    let run = beginning("steady", 10, Arm::Gcc);
    let viewer = &run.viewers[0];
    let last = viewer.samples.last().expect("samples");
    assert!(last.estimate_mbps.is_some_and(|it| it > 1.4), "{last:?}");
    assert_eq!(last.layer_mbps, Some(1.25));
    assert!(viewer.figures.padding_ratio > 0.0, "probes");
}

#[test]
fn several_flows_share_a_path_each_way_and_tcp_flows_fill_it() {
    for name in ["5.3", "5.4", "5.7"] {
        let run = beginning(name, 6, Arm::Oracle);
        for viewer in &run.viewers {
            let figures = &viewer.figures;
            assert!(figures.received_mbps > 0.05, "{name}: {figures:?}");
            assert_eq!(figures.torn, 0.0, "{name}");
        }
    }
    let alone = beginning("5.6", 10, Arm::Oracle);
    let queue = alone.viewers[0].figures.queue_ms_p95;
    assert!(queue > 100.0, "the other flow fills the queue: {queue} ms");
}

#[test]
fn the_same_seed_gives_the_same_figures_and_another_seed_others() {
    let mut case = named("bursts").expect("a case");
    case.duration = Duration::from_secs(5);
    let certificate = Arc::new(Certificate::generate().expect("randomness"));
    for arm in Arm::ALL {
        let figures = |seed| {
            play(&case, arm, seed, &certificate).viewers[0]
                .figures
                .clone()
        };
        assert_eq!(figures(7), figures(7), "{arm}");
        assert_ne!(figures(7), figures(8), "{arm}");
    }
}

#[test]
fn a_report_has_every_run_and_says_which_targets_were_missed() {
    let mut case = named("drop").expect("a case");
    case.duration = Duration::from_secs(3);
    case.targets = vec![
        Target::at_most(Figure::Torn, 0.0),
        Target::at_most(Figure::DelayMsP95, 1.0),
    ];
    let plan = Plan {
        cases: vec![case],
        arms: vec![Arm::Ours, Arm::Oracle],
        seeds: 3..5,
    };
    let mut steps = Vec::new();
    let stop = std::sync::atomic::AtomicBool::new(false);
    let played = plan.play(2, &stop, |done, all| steps.push((done, all)));
    assert_eq!(steps, [(1, 4), (2, 4), (3, 4), (4, 4)]);
    let report = Report::new("now".to_owned(), &plan, &played);
    let kept: Vec<bool> = report.cases[0]
        .targets
        .iter()
        .map(|it| it.is_kept)
        .collect();
    assert_eq!(kept, [true, false]);
    let table = report.to_table();
    assert!(table.contains("1 of 2 targets kept"), "{table}");
    assert!(table.contains("delay P95, ms"), "{table}");
    assert_eq!(report.to_csv().lines().count(), 1 + 4);
    let columns: Vec<usize> = report
        .to_csv()
        .lines()
        .map(|line| line.split(',').count())
        .collect();
    assert!(
        columns.iter().all(|count| *count == columns[0]),
        "{columns:?}"
    );
    let json: serde_json::Value = serde_json::from_str(&report.to_json()).expect("JSON");
    assert_eq!(json["cases"][0]["arms"][1]["arm"], "oracle");
    let runs: Vec<_> = played.iter().map(|it| (it.arm, &it.run)).collect();
    let svg = draw(&plan.cases[0], &[runs[0], runs[2]]);
    crate::plot::assert_well_formed(&svg);
    assert!(svg.contains("oracle") && svg.contains("frames/s"));

    stop.store(true, std::sync::atomic::Ordering::Relaxed);
    assert!(plan.play(2, &stop, |_, _| {}).is_empty());
}

/// Plays the beginning of a case with several seeds; returns the figures of each run.
fn seeds(name: &str, seconds: u64) -> Vec<Figures> {
    let mut case = named(name).expect("a case");
    case.duration = Duration::from_secs(seconds);
    let certificate = Arc::new(Certificate::generate().expect("randomness"));
    let play = |seed| play(&case, Arm::Ours, seed, &certificate);
    let mut runs = (1..=4).map(play);
    runs.by_ref()
        .map(|run| run.viewers[0].figures.clone())
        .collect()
}

#[test]
fn losses_feedback_and_other_flows_take_no_layer_that_the_path_carries() {
    for (name, seconds) in [("bursts", 30), ("feedback", 20), ("beside", 30)] {
        for figures in seeds(name, seconds) {
            assert!(figures.layer_ratio > 0.9, "{name}: {figures:?}");
            assert!(figures.stall_ms_max < 600.0, "{name}: {figures:?}");
            assert!(figures.fps_min > 25.0, "{name}: {figures:?}");
        }
    }
}

#[test]
fn behind_a_policer_a_viewer_stays_on_the_layer_that_passes() {
    for figures in seeds("policed", 20) {
        assert!(figures.switches <= 1.0, "{figures:?}");
        assert!(figures.loss_late_ratio < 0.01, "{figures:?}");
        assert!(figures.fps_min > 25.0, "{figures:?}");
    }
}

#[test]
fn a_path_that_was_taken_for_a_policer_is_found_wide_again_within_seconds() {
    let times = seeds("quarter", 40).into_iter().map(|it| it.rise_s);
    let times: Vec<_> = times.map(|it| it.expect("all frames again")).collect();
    let mean = times.iter().sum::<f64>() / times.len() as f64;
    assert!(mean < 7.0, "{times:?} s");
}

#[test]
fn jitter_makes_no_probe_after_the_other() {
    for figures in seeds("5.1", 40) {
        assert!(figures.padding_ratio < 0.04, "{figures:?}");
        assert!(figures.queue_ms_p95 < 150.0, "{figures:?}");
        assert!(figures.switches <= 2.0, "{figures:?}");
    }
}

#[test]
fn half_of_a_stream_is_shown_sooner_where_no_frame_refers_to_every_other_one() {
    let runs = |name| {
        let all = seeds(name, 45);
        let is_whole = |it: &Figures| it.torn == 0.0 && it.fps_min > 6.0;
        assert!(all.iter().all(is_whole), "{all:?}");
        all
    };
    // Of a few seeds the worst ones are chance.
    let wait = |of: &[Figures]| of.iter().map(|it| it.wait_ms_p99).sum::<f64>() / of.len() as f64;
    let (all, without) = (runs("half"), runs("half-b"));
    let (late, sooner) = (wait(&all), wait(&without));
    assert!(sooner < 0.95 * late, "{sooner} ms, {late} ms");
}
