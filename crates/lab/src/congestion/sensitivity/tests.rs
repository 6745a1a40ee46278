use super::*;
use crate::congestion::outcome::{Outcome, example};
use crate::congestion::report::About;
use crate::plot::assert_well_formed;

/// A report of 20 sessions under CUBIC, Glide, and Glide with half of a constant, in which
/// application round trips are half of Glide's.
fn report(halved: &str) -> Report {
    let session = |rank: u64, arm: &str, app_rtt_ms: f64| Outcome {
        app_rtt_ms: app_rtt_ms + rank as f64,
        ..example(rank, arm, "home")
    };
    let outcomes: Vec<Outcome> = (0..20)
        .flat_map(|rank| {
            [
                session(rank, "cubic", 800.0),
                session(rank, "glide", 400.0),
                session(rank, halved, 200.0),
            ]
        })
        .collect();
    let about = About {
        population: "study2019".to_owned(),
        population_version: 2,
        seed: 1,
        held_out: false,
        duration_s: 120.0,
        virtual_s_per_cpu_s: 0.0,
        started: "2026-11-27T00:00:00Z".to_owned(),
        version: "0.1.0".to_owned(),
        shares: std::iter::once(("home".to_owned(), 1.0)).collect(),
    };
    Report::new(about, &outcomes)
}

#[test]
fn every_constant_is_an_arm_with_half_and_with_half_as_much_again() {
    for of in ["glide", "glide-coupled"] {
        let arms = arms(of).expect("arms of it");
        let names: Vec<&str> = arms.iter().map(|it| it.name.as_str()).collect();
        assert_eq!(names[..2], ["cubic", of]);
        assert!(names.contains(&format!("{of}:30ms").as_str()), "{names:?}");
        let longer = format!("{of}:queue.least_window=15000ms");
        assert!(names.contains(&longer.as_str()), "{names:?}");
        let mut once = names.clone();
        once.sort_unstable();
        once.dedup();
        assert_eq!(once.len(), names.len(), "no arm is there twice");
        assert_eq!(names.len(), 2 + variants(of).len());
    }
    assert!(arms("cubic").is_err(), "CUBIC takes no constants");
}

#[test]
fn figures_are_ratios_to_cubic_and_colors_tell_better_from_worse() {
    let halved = "glide:competition.fair=0.25";
    let report = report(halved);
    let found = Sensitivity::new(&report, "glide");
    assert_eq!(found.rows.len(), 1, "the others did not run");
    let row = &found.rows[0];
    let ratio = row.ratios[0].expect("CUBIC has answers").value;
    let base = found.base.ratios[0].expect("so has Glide").value;
    assert!((ratio - 209.0 / 809.0).abs() < 1e-9, "{ratio}");
    assert!((base - 409.0 / 809.0).abs() < 1e-9, "{base}");
    let table = found.table();
    assert!(table.contains("| as it is | 0.51 |"), "{table}");
    assert!(table.contains("| competition.fair 0.5 | 0.26 |"), "{table}");
    let csv = found.csv();
    let line = csv.lines().nth(2).expect("a line for it");
    assert!(
        line.starts_with("competition.fair,0.5,0.25,0.5,0.2583,"),
        "{csv}"
    );
    let columns: Vec<usize> = csv.lines().map(|it| it.split(',').count()).collect();
    assert_eq!(columns, [4 + 3 * FIGURES.len(); 3]);
    let svg = draw(&found, &report, "glide");
    assert_well_formed(&svg);
    assert!(svg.contains("competition.fair 0.5") && svg.ends_with("</svg>\n"));
    assert!(
        svg.contains(r##"fill="#1d5fd1" fill-opacity="0.80""##),
        "better"
    );
    assert!(!svg.contains(r##"fill="#d9680b""##), "nothing is worse");
}
