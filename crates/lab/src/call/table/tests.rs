use super::*;

/// A table of the study: its stage, microseconds in a unit of its values, and its rows.
type Study = (Stage, i64, &'static [(i64, u64, &'static str)]);

/// The eight tables that a study of a one-to-one WebRTC call (M98) printed. A range is
/// represented by a delay within it.
///
/// The study reports 24483 items in its send table; its rows sum to 24883, and its fractions
/// refer to those.
const STUDY: [Study; 8] = [
    (
        Stage::CaptureInterval,
        1000,
        &[
            (0, 53, "0.000906"),
            (1, 10, "0.000171"),
            (2, 5, "0.000085"),
            (3, 9, "0.000154"),
            (5, 1587, "0.027132"),
            (6, 11_015, "0.188320"),
            (7, 2593, "0.044332"),
            (8, 778, "0.013301"),
            (9, 219, "0.003744"),
            (10, 4677, "0.079961"),
            (11, 16_504, "0.282163"),
            (12, 18_447, "0.315382"),
            (13, 2143, "0.036638"),
            (14, 308, "0.005266"),
            (15, 40, "0.000684"),
            (16, 19, "0.000325"),
            (17, 9, "0.000154"),
            (18, 6, "0.000103"),
            (19, 8, "0.000137"),
            (20, 16, "0.000274"),
            (21, 10, "0.000171"),
            (22, 9, "0.000154"),
            (23, 10, "0.000171"),
            (24, 9, "0.000154"),
            (25, 3, "0.000051"),
            (27, 1, "0.000017"),
            (28, 1, "0.000017"),
            (29, 2, "0.000034"),
        ],
    ),
    (
        Stage::Encode,
        1,
        &[
            (0, 7722, "0.251008"),
            (1000, 22_421, "0.728806"),
            (2000, 604, "0.019633"),
            (3000, 14, "0.000455"),
            (4000, 3, "0.000098"),
        ],
    ),
    (
        Stage::Send,
        1000,
        &[
            (0, 15_035, "0.604228"),
            (1, 9485, "0.381184"),
            (2, 44, "0.001768"),
            (3, 50, "0.002009"),
            (4, 56, "0.002251"),
            (5, 27, "0.001085"),
            (6, 23, "0.000924"),
            (7, 24, "0.000965"),
            (8, 25, "0.001005"),
            (9, 16, "0.000643"),
            (10, 10, "0.000402"),
            (11, 5, "0.000201"),
            (12, 4, "0.000161"),
            (13, 11, "0.000442"),
            (14, 4, "0.000161"),
            (15, 12, "0.000482"),
            (16, 17, "0.000683"),
            (17, 14, "0.000563"),
            (18, 15, "0.000603"),
            (19, 1, "0.000040"),
            (20, 3, "0.000121"),
            (23, 1, "0.000040"),
            (41, 1, "0.000040"),
        ],
    ),
    (
        Stage::Network,
        1,
        &[
            (4000, 132, "0.004869"),
            (10_000, 5408, "0.199476"),
            (12_000, 7362, "0.271550"),
            (20_000, 4644, "0.171296"),
            (20_001, 6650, "0.245288"),
            (60_000, 2476, "0.091328"),
            (77_000, 382, "0.014090"),
            (100_001, 57, "0.002102"),
        ],
    ),
    (
        Stage::JitterBuffer,
        1000,
        &[
            (10, 214, "0.007890"),
            (20, 260, "0.009586"),
            (30, 816, "0.030085"),
            (40, 1796, "0.066217"),
            (50, 4149, "0.152970"),
            (60, 8162, "0.300925"),
            (70, 7775, "0.286657"),
            (80, 2409, "0.088818"),
            (90, 767, "0.028279"),
            (100, 298, "0.010987"),
            (110, 186, "0.006858"),
            (120, 63, "0.002323"),
            (130, 73, "0.002691"),
            (140, 32, "0.001180"),
            (150, 22, "0.000811"),
            (160, 22, "0.000811"),
            (170, 17, "0.000627"),
            (180, 7, "0.000258"),
            (190, 3, "0.000111"),
            (200, 4, "0.000147"),
            (210, 8, "0.000295"),
            (220, 12, "0.000442"),
            (230, 4, "0.000147"),
            (240, 7, "0.000258"),
            (250, 5, "0.000184"),
            (260, 2, "0.000074"),
            (270, 3, "0.000111"),
            (280, 4, "0.000147"),
            (290, 2, "0.000074"),
            (310, 1, "0.000037"),
        ],
    ),
    (
        Stage::PlayoutInterval,
        1000,
        &[
            (0, 5, "0.000094"),
            (1, 52, "0.000982"),
            (2, 43, "0.000812"),
            (3, 108, "0.002039"),
            (4, 182, "0.003437"),
            (5, 275, "0.005193"),
            (6, 291, "0.005495"),
            (7, 324, "0.006118"),
            (8, 1562, "0.029496"),
            (9, 12_318, "0.232608"),
            (10, 22_554, "0.425901"),
            (11, 12_362, "0.233439"),
            (12, 1569, "0.029628"),
            (13, 365, "0.006893"),
            (14, 321, "0.006062"),
            (15, 277, "0.005231"),
            (16, 149, "0.002814"),
            (17, 89, "0.001681"),
            (18, 55, "0.001039"),
            (19, 35, "0.000661"),
            (20, 12, "0.000227"),
            (21, 3, "0.000057"),
            (22, 2, "0.000038"),
            (23, 1, "0.000019"),
            (29, 1, "0.000019"),
            (35, 1, "0.000019"),
        ],
    ),
    (
        Stage::Mixer,
        1,
        &[
            (0, 37_538, "0.708839"),
            (1000, 14_400, "0.271919"),
            (2000, 601, "0.011349"),
            (3000, 127, "0.002398"),
            (4000, 75, "0.001416"),
            (5000, 76, "0.001435"),
            (6000, 49, "0.000925"),
            (7000, 47, "0.000888"),
            (8000, 21, "0.000397"),
            (9000, 18, "0.000340"),
            (10_000, 3, "0.000057"),
            (11_000, 2, "0.000038"),
        ],
    ),
    (
        Stage::Resample,
        1,
        &[(0, 52_889, "0.998716"), (1000, 68, "0.001284")],
    ),
];

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
    for (value, count, _) in study.2 {
        delays.record_many(value * study.1, *count);
    }
    delays
}

#[test]
fn the_studys_tables_come_out_to_the_last_digit() {
    for study in &STUDY {
        let stage = study.0;
        let rows = study.2.iter().zip(0..);
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
    for (study, wanted) in STUDY.iter().zip(wanted) {
        let table = delays(study).table(study.0);
        assert_eq!(table.count, wanted, "{}", study.0);
        let fractions: f64 = table.rows.iter().map(|row| row.2).sum();
        assert!((fractions - 1.0).abs() < 1e-9, "{}", study.0);
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
    let table = delays(&STUDY[4]).table(Stage::JitterBuffer);
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
    let json = serde_json::to_value(delays(&STUDY[3]).table(Stage::Network)).expect("JSON");
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
    let json = serde_json::to_value(delays(&STUDY[1]).table(Stage::Encode)).expect("JSON");
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
