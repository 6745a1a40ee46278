use super::*;
use crate::congestion::outcome::example;
use crate::plot::assert_well_formed;
use glassline_sim::Rng;

fn about() -> About {
    About {
        population: "study2019".to_owned(),
        population_version: 1,
        seed: 7,
        held_out: true,
        duration_s: 120.0,
        virtual_s_per_cpu_s: 950.0,
        started: "2026-11-21T10:00:00Z".to_owned(),
        version: "0.1.0".to_owned(),
        shares: Named::from([("home".to_owned(), 0.9), ("policed".to_owned(), 0.1)]),
    }
}

/// Two arms over sessions of two kinds; `glide` halves round trips and overhead.
fn outcomes(sessions: u64) -> Vec<Outcome> {
    let mut rng = Rng::new(1);
    let mut all = Vec::new();
    for session in 0..sessions {
        let stratum = if session % 10 == 0 { "policed" } else { "home" };
        let (rtt, rtx) = (80.0 + 400.0 * rng.unit(), 0.05 * rng.unit());
        for (arm, factor) in [("cubic", 1.0), ("glide", 0.5)] {
            let mut outcome = example(session, arm, stratum);
            outcome.transport_rtt_ms = rtt * factor;
            outcome.rtx_overhead = rtx * factor;
            outcome.has_policer = stratum == "policed";
            outcome.policer_drops = u64::from(outcome.has_policer) * 9;
            outcome.policed_after_s = (arm == "glide" && outcome.has_policer)
                .then_some(if session % 20 == 0 { 1.5 } else { 8.0 });
            all.push(outcome);
        }
    }
    all
}

#[test]
fn a_report_has_the_names_that_tools_read() {
    let report = Report::new(about(), &outcomes(60));
    let json: serde_json::Value = serde_json::from_str(&report.to_json()).expect("JSON");
    for key in ["population", "seed", "sessions", "arms", "versus_cubic"] {
        assert!(json.get(key).is_some(), "{key}");
    }
    assert_eq!(json["sessions"], 60);
    for metric in ["goodput_mbps", "app_rtt_ms", "transport_rtt_ms"] {
        for percentile in ["P10", "P25", "P50", "P75", "P90", "P95"] {
            assert!(json["arms"]["cubic"][metric][percentile].is_f64());
        }
    }
    for percentile in ["P25", "P50", "P75", "P90", "P95", "P99"] {
        assert!(json["arms"]["glide"]["rtx_overhead"][percentile].is_f64());
    }
    let change = &json["versus_cubic"]["glide"]["transport_rtt_ms"]["P95"];
    assert!((change["ratio"].as_f64().expect("a number") - 0.5).abs() < 1e-9);
    assert_eq!(change["ci95"].as_array().map(Vec::len), Some(2));
    let again: Report = serde_json::from_str(&report.to_json()).expect("it reads itself");
    assert_eq!(again.arms, report.arms);
}

#[test]
fn sessions_that_an_arm_has_not_finished_count_for_none() {
    let mut all = outcomes(60);
    all.retain(|it| it.arm == "cubic" || it.rank < 40);
    let report = Report::new(about(), &all);
    assert_eq!(report.sessions, 40);
    let part = outcomes(40);
    assert_eq!(Report::new(about(), &part).arms, report.arms);
}

#[test]
fn weights_give_a_stratum_back_its_share() {
    // Every tenth session is policed where one in a hundred should be.
    let mut all = outcomes(50);
    for outcome in &mut all {
        let is_policed = outcome.stratum == "policed";
        outcome.app_rtt_ms = if is_policed { 9000.0 } else { 300.0 };
    }
    let shares = [("home".to_owned(), 0.99), ("policed".to_owned(), 0.01)];
    let about = About {
        shares: Named::from(shares),
        ..about()
    };
    let report = Report::new(about, &all);
    assert!((report.strata["policed"].share - 0.01).abs() < 1e-9);
    assert_eq!(report.strata["policed"].sessions, 5);
    assert_eq!(report.arms["cubic"]["app_rtt_ms"]["P95"], 300.0);
}

#[test]
fn verdicts_on_policers_are_counted_where_there_are_some() {
    let mut all = outcomes(100);
    let wrong = all
        .iter_mut()
        .find(|it| it.arm == "glide" && !it.has_policer);
    wrong.expect("most are not policed").policed_after_s = Some(2.0);
    let health = Report::new(about(), &all).health;
    assert_eq!(health["glide"].policed, 10);
    assert_eq!(health["glide"].policed_found_ratio, Some(1.0));
    assert_eq!(health["glide"].policed_found_3s_ratio, Some(0.5));
    assert_eq!(health["glide"].policed_false_ratio, Some(1.0 / 90.0));
    assert_eq!(health["cubic"].policed_found_ratio, None);
}

#[test]
fn tables_and_charts_show_every_arm_and_metric() {
    let all = outcomes(60);
    let report = Report::new(about(), &all);
    let table = table::draw(&report, false);
    assert!(!table.contains('\x1b'));
    assert!(table::draw(&report, true).contains('\x1b'));
    let svg = svg::draw(&report, &all);
    assert_well_formed(&svg);
    assert!(!svg.contains("NaN") && !svg.contains("inf"), "{svg}");
    for metric in Metric::ALL {
        assert!(table.contains(metric.title()) && svg.contains(metric.title()));
    }
    for word in ["cubic", "glide", "policed", "home"] {
        assert!(table.contains(word) && svg.contains(word), "{word}");
    }
    assert!(table.contains("-50%*"), "{table}");
    let lines = csv(&all);
    let columns = |line: &str| line.split(',').count();
    assert!(
        lines
            .lines()
            .all(|line| columns(line) == columns(lines.lines().next().expect("a head")))
    );
    assert_eq!(lines.lines().count(), 121);
}

#[test]
fn nothing_at_all_is_drawn_without_a_mark() {
    let report = Report::new(about(), &[]);
    assert_eq!(report.sessions, 0);
    assert_well_formed(&svg::draw(&report, &[]));
    assert!(table::draw(&report, false).contains("Goodput"));
}

#[test]
fn many_deltas_become_a_curve_of_their_own() {
    let mut all = outcomes(20);
    for delta in ["0.02", "0.1", "0.5", "2"] {
        let of_it = outcomes(20).into_iter().filter(|it| it.arm == "glide");
        all.extend(of_it.map(|it| Outcome {
            arm: format!("copa:{delta}"),
            ..it
        }));
    }
    let svg = svg::draw(&Report::new(about(), &all), &all);
    assert_well_formed(&svg);
    assert!(
        svg.contains("delta: mean goodput") && svg.contains(">0.02<"),
        "{svg}"
    );
    assert!(!svg.contains(">copa:0.02<"), "no color is left for these");
}
