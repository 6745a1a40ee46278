use super::*;
use crate::call::frame::Delay;
use crate::plot::assert_well_formed;
use serde_json::Value;

/// Delays of every stage, and a waterfall of two steps.
fn report() -> Report {
    let table = |stage: Stage| {
        let mut delays = Delays::default();
        for us in [100, 5_100, 5_200, 41_000] {
            delays.record_us(us);
        }
        delays.record_lost();
        delays.table(stage)
    };
    let step = |stage, mean_ms| Waterfall {
        stage,
        error_ms: None,
        mean_ms,
        p5_ms: 0.5,
        p95_ms: 40.0,
    };
    let mut way = Delay::default();
    way.set(Stage::Network, 20_000_000);
    way.set(Stage::JitterBuffer, 10_000_000);
    let frame = |number: u32| Frame {
        timestamp: number * 480,
        at_s: f64::from(number) / 100.0,
        mouth_to_ear_ms: 30.0,
        error_ms: None,
        stages_ms: way,
    };
    let mut after = Delays::default();
    after.record_us(3_000);
    Report {
        source: "a <call> of 2 s".to_owned(),
        direction: None,
        peer: None,
        stages: Stage::ALL.into_iter().map(table).collect(),
        waterfall: vec![
            step(Stage::Network, 20.0),
            step(Stage::PreprocessSignal, 10.0),
        ],
        copies: vec![Copies::new(DuplicateReason::Redundant, &after)],
        frames: (0..200).map(frame).collect(),
        malformed: 2,
        notes: vec!["a.log:7: no number".to_owned()],
    }
}

/// Tools read these names.
#[test]
fn the_names_of_the_json_stay() {
    let json: Value = serde_json::from_str(&report().to_json()).expect("JSON");
    let stages = json["stages"].as_array().expect("an array");
    assert_eq!(stages.len(), Stage::ALL.len());
    for stage in stages {
        for name in [
            "count",
            "unmatched",
            "lost",
            "p50_ms",
            "p95_ms",
            "p99_ms",
            "max_ms",
        ] {
            assert!(stage[name].is_number(), "{name} in {stage}");
        }
        let row = stage["rows"][0].as_array().expect("an array");
        assert_eq!(row.len(), 3);
        assert!(stage["stage"].is_string());
    }
    assert_eq!(json["waterfall"][0]["stage"], "network");
    assert_eq!(json["frames"][0]["stages_ms"]["jitter_buffer"], 10.0);
    assert_eq!(json["copies"][0]["kind"], "redundant");
    assert_eq!(json["malformed"], 2);
}

#[test]
fn rows_and_text_have_every_table() {
    let report = report();
    let csv = report.to_csv();
    let columns = |line: &str| line.split(',').count();
    let heads = csv.lines().next().expect("a head");
    assert!(
        csv.lines().all(|line| columns(line) == columns(heads)),
        "{csv}"
    );
    assert!(
        csv.contains("network,bins,,4,,0,1,5.100,41.000,41.000,41.000,,\n"),
        "{csv}"
    );
    assert!(
        csv.contains("network,bins,(0-5],1,0.250000,,,,,,,,\n"),
        "{csv}"
    );
    let text = report.to_text(false);
    for stage in Stage::ALL {
        assert!(text.contains(stage.title()), "{stage}");
    }
    assert!(text.contains("|5                   |2                   |0.500000            |"));
    assert!(text.contains("1 redundant, p50 3.0, max 3.0 ms after"));
    assert!(text.contains("note: a.log:7: no number"));
    assert!(!text.contains('\x1b') && report.to_text(true).contains('\x1b'));
    // The second bar begins where the first ends.
    let bars: Vec<&str> = text.lines().filter(|it| it.contains('█')).collect();
    let blanks = |line: &str| line.chars().filter(|it| *it == '█').count();
    assert_eq!((blanks(bars[0]), blanks(bars[1])), (21, 11), "{text}");
}

#[test]
fn a_report_of_intervals_only_has_no_waterfall() {
    let mut report = report();
    report.waterfall.clear();
    report.frames.clear();
    report.stages.truncate(1);
    assert!(!report.to_text(false).contains("Mean delays of a frame"));
    let drawn = svg::draw(&report);
    assert_well_formed(&drawn);
    assert!(!drawn.contains("Mean delays of a frame") && drawn.contains("Capture interval"));
}

#[test]
fn the_chart_has_steps_frames_and_a_histogram_of_each_table() {
    let report = report();
    let drawn = svg::draw(&report);
    assert_well_formed(&drawn);
    assert!(drawn.contains("a &lt;call&gt;"));
    for stage in Stage::ALL {
        let title = crate::plot::escape(stage.title());
        assert!(drawn.contains(&title), "{stage}");
    }
    assert_eq!(
        drawn.matches("stroke-dasharray").count(),
        1,
        "one step is hollow"
    );
    assert!(drawn.matches("<rect").count() > 400, "two blocks a frame");
    assert!(!drawn.contains("NaN") && !drawn.contains("inf"));
    let mut empty = report;
    empty.stages.clear();
    empty.frames.clear();
    assert_well_formed(&svg::draw(&empty));
}
