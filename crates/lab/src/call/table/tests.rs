use super::*;

/// The eight tables that a study of a one-to-one WebRTC call (M98) printed: a stage with the microseconds
/// in a unit of its values, and rows of value, count and fraction. A range is represented by a delay
/// within it.
///
/// The study reports 24483 items in its send table; its rows sum to 24883, and its fractions
/// refer to those.
const STUDY: &str = include_str!("study.txt");

/// A table of the study.
struct Study {
    stage: Stage,
    unit_us: i64,
    rows: Vec<(i64, u64, &'static str)>,
}

fn study() -> Vec<Study> {
    let number = |text: &str| text.parse::<i64>().expect("a number");
    let table = |text: &'static str| {
        let mut lines = text.lines().map(|line| line.split(' ').collect::<Vec<_>>());
        let head = lines.next().expect("a head");
        let stage = Stage::ALL.into_iter().find(|it| it.as_str() == head[0]);
        Study {
            stage: stage.expect("a stage"),
            unit_us: number(head[1]),
            rows: lines
                .map(|row| (number(row[0]), number(row[1]).unsigned_abs(), row[2]))
                .collect(),
        }
    };
    STUDY.split("\n\n").map(table).collect()
}

const NAMES: [&str; 8] = [
    "(0-5]",
    "(5-10]",
    "(10-15]",
    "(15-20]",
    "(20-35]",
    "(35-60]",
    "(60-100]",
    "(100-...]",
];

fn delays(study: &Study) -> Delays {
    let mut delays = Delays::default();
    for (value, count, _) in &study.rows {
        delays.record_many(value * study.unit_us, *count);
    }
    delays
}

#[test]
fn the_studys_tables_come_out_to_the_last_digit() {
    for study in &study() {
        let stage = study.stage;
        let rows = study.rows.iter().zip(0..);
        let wanted = rows.map(|((value, count, fraction), place): (_, usize)| {
            let value = match stage.unit() {
                Unit::Bins => NAMES[place].to_owned(),
                _ => value.to_string(),
            };
            // The study's format, written by hand: left-aligned in columns of twenty.
            let pad = |text: &str| format!("{text}{}", " ".repeat(20 - text.len()));
            let count = pad(&count.to_string());
            format!("|{}|{count}|{}|", pad(&value), pad(fraction))
        });
        let text = delays(study).table(stage).to_rows();
        let found: Vec<&str> = text.lines().skip(2).collect();
        assert_eq!(found, wanted.collect::<Vec<_>>(), "{stage}");
    }
}

#[test]
fn counts_are_sums_of_rows_whatever_a_report_says() {
    let wanted = [
        58_491, 30_764, 24_883, 27_111, 27_123, 52_956, 52_957, 52_957,
    ];
    for (study, wanted) in study().iter().zip(wanted) {
        let table = delays(study).table(study.stage);
        assert_eq!(table.count, wanted, "{}", study.stage);
        let fractions: f64 = table.rows.iter().map(|row| row.2).sum();
        assert!((fractions - 1.0).abs() < 1e-9, "{}", study.stage);
    }
}

#[test]
fn the_heads_are_the_studys() {
    let text = Delays::default().table(Stage::Send).to_rows();
    let dashes = "-".repeat(20);
    let head = "|Delay               |Item Count          |The percentage      |";
    assert_eq!(text, format!("{head}\n|{dashes}|{dashes}|{dashes}|\n"));
}

#[test]
fn quantiles_are_the_nearest_ranks() {
    // Recomputed from the study's rows: mean 62.8, p50 60, p95 90, p99 120, max 310.
    let table = delays(&study()[4]).table(Stage::JitterBuffer);
    let found = [table.p50_ms, table.p95_ms, table.p99_ms, table.max_ms];
    assert_eq!(found, [60.0, 90.0, 120.0, 310.0].map(Some));
    let mean = table.mean_ms.expect("measured");
    assert!((mean - 62.8).abs() < 0.05, "{mean}");
    let figures = table.figures();
    let wanted =
        "27123 items: p50 60.000, p95 90.000, p99 120.000, max 310.000 ms; 0 unmatched, 0 lost";
    assert_eq!(figures, wanted);
}

#[test]
fn nothing_is_left_out_of_the_denominator() {
    let mut delays = Delays::default();
    for ms in [1, 34, 35, 36, 20_000, 36_000_000] {
        delays.record_us(ms * 1000);
    }
    let table = delays.table(Stage::CaptureInterval);
    assert_eq!(table.count, 6);
    assert_eq!(table.rows.len(), 6);
    assert_eq!(table.rows[5].0, Value::Number(3_600_000));
    assert_eq!(table.max_ms, Some(36e6));
}

#[test]
fn less_than_nothing_is_not_among_the_fast() {
    let mut delays = Delays::default();
    for us in [-2_500, -1, 0, 5_000, 5_001, 100_000, 100_001] {
        delays.record_us_within(us, Duration::from_micros(2_600));
    }
    let table = delays.table(Stage::Network);
    let rows: Vec<_> = table.rows.iter().map(|row| (&row.0, row.1)).collect();
    assert_eq!(
        rows[..3],
        [
            (&Value::Range("(...-0)"), 2),
            (&Value::Range("(0-5]"), 2),
            (&Value::Range("(5-10]"), 1),
        ]
    );
    assert_eq!(
        rows[7..],
        [
            (&Value::Range("(60-100]"), 1),
            (&Value::Range("(100-...]"), 1),
        ]
    );
    assert!(table.figures().contains(" ms ± 2.600;"));
    let intervals = delays.table(Stage::Send);
    assert_eq!(intervals.rows[0].0, Value::Number(-3));
    assert_eq!(intervals.rows[1].0, Value::Number(-1));
}

#[test]
fn what_was_not_measured_is_none_and_not_zero() {
    let mut delays = Delays::default();
    assert!(delays.is_absent());
    delays.record_lost();
    assert!(!delays.is_absent());
    let json = serde_json::to_value(delays.table(Stage::Decode)).expect("plain data");
    assert_eq!(json["p50_ms"], serde_json::Value::Null);
    assert_eq!(json["lost"], 1);
    assert!(json.get("error_ms").is_none());
}

/// Tools read these names.
#[test]
fn the_names_of_the_json_stay() {
    let json = serde_json::to_value(delays(&study()[3]).table(Stage::Network)).expect("JSON");
    assert_eq!(json["stage"], "network");
    assert_eq!(json["unit"], "bins");
    for name in [
        "count",
        "unmatched",
        "lost",
        "p50_ms",
        "p95_ms",
        "p99_ms",
        "max_ms",
    ] {
        assert!(json[name].is_number(), "{name} in {json}");
    }
    assert_eq!(json["rows"][1][0], "(5-10]");
    assert_eq!(json["rows"][1][1], 5408);
    let json = serde_json::to_value(delays(&study()[1]).table(Stage::Encode)).expect("JSON");
    assert_eq!(json["rows"][1][0], 1000);
}

proptest::proptest! {
    #[test]
    fn any_delays_are_all_in_the_rows(
        values in proptest::collection::vec((proptest::num::i64::ANY, 0..u64::from(u32::MAX)), 0..100)
    ) {
        let mut delays = Delays::default();
        let mut halves = [Delays::default(), Delays::default()];
        for (place, (us, times)) in values.iter().enumerate() {
            delays.record_many(*us, *times);
            halves[place % 2].record_many(*us, *times);
        }
        let [mut one, other] = halves;
        one.merge(&other);
        proptest::prop_assert_eq!(&one, &delays);
        for stage in [Stage::Send, Stage::Encode, Stage::Network] {
            let table = delays.table(stage);
            let sum: u64 = table.rows.iter().map(|row| row.1).sum();
            proptest::prop_assert_eq!(sum, table.count);
            proptest::prop_assert!(table.p50_ms <= table.p95_ms && table.p95_ms <= table.p99_ms);
            // What is kept of a long delay is rounded down.
            proptest::prop_assert!(table.p99_ms <= table.max_ms.or(table.p99_ms));
        }
    }
}
