use super::*;
use crate::{Capacity, Loss};

const STUDY: &str = include_str!("../../populations/study2019.toml");
const ANCHORS: &str = include_str!("../../populations/anchors.toml");
const PAGE: &str = include_str!("../../../../docs/benchmarks/populations.md");
const SAMPLE: Sample = Sample::Tuning(1);

/// Returns the study with short sessions: most of the cost of drawing one is its trace.
fn study() -> Population {
    let population = Population::parse(STUDY).expect("study2019.toml");
    population.lasting(Duration::from_secs(2))
}

fn index_of(population: &Population, name: &str) -> usize {
    let mut strata = population.strata();
    strata.position(|stratum| stratum.name == name).expect(name)
}

/// Returns a digest of all plain numbers of a session.
fn digest(scenario: &Scenario) -> String {
    format!("{scenario:?}")
}

#[test]
fn strata_come_in_their_shares_all_along() {
    let population = study();
    let mut had = vec![0u32; population.strata().len()];
    let mut seeds = std::collections::HashSet::new();
    for index in 0..2000u32 {
        let session = population.session(SAMPLE, index.into());
        assert!(seeds.insert(session.seed), "session {index} came before");
        had[session.stratum] += 1;
        for (had, stratum) in had.iter().zip(population.strata()) {
            let due = stratum.share * f64::from(index + 1);
            assert!((f64::from(*had) - due).abs() < 2.0, "{index} {stratum:?}");
            if index % 1000 == 999 {
                assert!((f64::from(*had) - due).abs() < 1e-6, "{stratum:?}");
            }
        }
    }
}

#[test]
fn a_session_is_the_same_whoever_asks() {
    let (one, other) = (study(), study());
    for index in [0, 7, 1234] {
        let session = one.session(SAMPLE, index);
        assert_eq!(digest(&session), digest(&other.session(SAMPLE, index)));
        let by_rank = other.session_of(SAMPLE, session.stratum, session.rank);
        assert_eq!(Some(digest(&session)), by_rank.as_ref().map(digest));
    }
    assert!(one.session_of(SAMPLE, 99, 0).is_none());
}

#[test]
fn samples_share_no_session() {
    let population = study();
    let mut seeds = std::collections::HashSet::new();
    for seed in 0..10 {
        for sample in [Sample::Tuning(seed), Sample::HoldOut(seed)] {
            for index in 0..50 {
                assert!(seeds.insert(population.session(sample, index).seed));
            }
        }
    }
    let next = STUDY.replace("\nversion = ", "\nversion = 9");
    let next = Population::parse(&next).expect("study2019 with another version");
    assert!(seeds.insert(next.session(Sample::Tuning(0), 0).seed));
    assert_ne!(next.digest(), population.digest());
}

#[test]
fn parameters_are_spread_evenly_within_a_stratum() {
    // Long enough for all competitors to start.
    let population = study().lasting(Duration::from_secs(31));
    let home = index_of(&population, "home");
    let sessions: Vec<_> = (0..256)
        .filter_map(|rank| population.session_of(SAMPLE, home, rank))
        .collect();
    // Of 256 points one falls into each 256th of a dimension.
    let with_rival = sessions
        .iter()
        .filter(|session| !session.competitors.is_empty());
    assert_eq!(with_rival.count(), 64);
    let short = sessions
        .iter()
        .filter(|session| session.round_trip.as_secs_f64() < 0.070);
    assert_eq!(short.count(), 128);
}

#[test]
fn the_share_above_the_cap_is_what_the_knob_says() {
    for wanted in [0.55, 0.66, 0.72] {
        let knobs = Knobs {
            capacity_above_cap: Some(wanted),
            ..study().knobs()
        };
        let population = study().with_knobs(knobs).expect("within reach");
        let above = (0..1000)
            .map(|index| population.session(SAMPLE, index))
            .filter(|session| session.capacity > session.application.bitrate_max)
            .count();
        assert!(
            (above as f64 / 1000.0 - wanted).abs() < 0.01,
            "{above} of 1000 for {wanted}"
        );
    }
}

#[test]
fn the_other_knobs_reach_the_sessions() {
    let population = study();
    let knobs = Knobs {
        queue_scale: 2.0 * population.knobs().queue_scale,
        abr_knee: Duration::from_millis(1500),
        bitrate_min: Bitrate::from_bps(300_000),
        ..population.knobs()
    };
    let turned = study().with_knobs(knobs).expect("sensible knobs");
    assert_eq!(turned.knobs(), knobs);
    assert_ne!(turned.digest(), population.digest());
    let lte = index_of(&population, "lte");
    let [before, after] =
        [&population, &turned].map(|it| it.session_of(SAMPLE, lte, 3).expect("a session"));
    assert!(
        before
            .uplink
            .queue_bytes
            .abs_diff(after.uplink.queue_bytes / 2)
            <= 1
    );
    assert_eq!(before.downlink.queue_bytes, after.downlink.queue_bytes);
    assert_eq!(after.application.abr_knee, Duration::from_millis(1500));
    assert_eq!(after.application.bitrate_min, Bitrate::from_bps(300_000));
    let impossible = Knobs {
        capacity_above_cap: Some(0.99),
        ..knobs
    };
    let error = study().with_knobs(impossible).expect_err("policed is 6 %");
    assert!(matches!(error, PopulationError::Capacity { .. }), "{error}");
}

#[test]
fn policed_sessions_have_a_faster_link_before_the_policer() {
    let population = study();
    let policed = index_of(&population, "policed");
    for rank in 0..100 {
        let session = population
            .session_of(SAMPLE, policed, rank)
            .expect("a session");
        let policer = session.uplink.policer.expect("a policer");
        assert_eq!(policer.rate, session.capacity);
        let access = session.uplink.capacity.mean().expect("a rate");
        let ratio = access.mbps() / policer.rate.mbps();
        assert!((1.299..4.001).contains(&ratio), "{ratio}");
    }
}

#[test]
fn anchors_are_what_their_names_promise() {
    let population = Population::parse(ANCHORS).expect("anchors.toml");
    let anchor = |name| {
        let stratum = index_of(&population, name);
        population
            .session_of(SAMPLE, stratum, 5)
            .expect("a session")
    };
    let deep = anchor("second-of-queue");
    assert_eq!(deep.uplink.queue_bytes, 250_000);
    assert_eq!(deep.uplink.delay, Duration::from_millis(20));
    assert!(matches!(deep.uplink.capacity, Capacity::Rate(rate) if rate.bps() == 2_000_000));
    let policer = anchor("policed").uplink.policer.expect("a policer");
    assert_eq!(
        (policer.rate.bps(), policer.burst_bytes),
        (1_500_000, 30_000)
    );
    let access = anchor("policed").uplink.capacity.mean();
    assert_eq!(access, Some(Bitrate::from_bps(20_000_000)));
    assert_eq!(anchor("random-loss").uplink.loss, Loss::Random(0.02));
    assert_eq!(anchor("shared").competitors.len(), 1);
    assert!(matches!(
        anchor("lte").uplink.capacity,
        Capacity::Trace { .. }
    ));
}

#[test]
fn what_is_no_population_is_refused_by_name() {
    for (from, to, reason) in [
        ("format = 1", "format = 9", "the file has format 9"),
        ("queue_scale", "queue_size", "unknown field `queue_size`"),
        ("share = 0.18", "share = 0.2", "add up to 1.04"),
        (
            "name = \"lte\"",
            "name = \"home\"",
            "home: name: another stratum has the same name",
        ),
        (
            "rate_mbps = { log_normal = { median = 9, sigma = 0.8, min = 0.8, max = 80 } }",
            "rate_mbps = { log_normal = { median = 9, sigma = 2 } }",
            "home: uplink.rate_mbps: its values go from 0.00",
        ),
        (
            "rtt_ms = {",
            "rtt_ms = 'short' #",
            "a number or one of uniform",
        ),
        (
            "access_ratio = { uniform = [1.3, 4] }",
            "access_ratio = 0.5",
            "policed: uplink.policer.access_ratio",
        ),
        (
            "capacity_above_cap = ",
            "capacity_above_cap = 1 #",
            "cannot be reached",
        ),
        (
            "bitrate_start_kbps = 1000",
            "bitrate_start_kbps = 9000",
            "9000 is not within",
        ),
    ] {
        assert!(STUDY.contains(from), "{from}");
        let error = Population::parse(&STUDY.replace(from, to))
            .expect_err(to)
            .to_string();
        assert!(error.contains(reason), "{to}: {error}");
    }
}

/// Returns a population whose stratum `home` has traces recorded in two places.
fn recorded() -> String {
    let rate = "rate_mbps = { log_normal = { median = 9, sigma = 0.8, min = 0.8, max = 80 } }";
    let traces = STUDY.replace(rate, "traces = [\"slow\", \"fast\"]");
    let traces = traces.replace("capacity_above_cap = ", "# ");
    traces.replacen("scaled = true", "scaled = false", 1)
}

fn read(name: &str) -> Result<String, String> {
    match name {
        "slow" => Ok("6\n12\n".into()),
        "fast" => Ok("1\n2\n3\n".into()),
        _ => Err("no such file".into()),
    }
}

#[test]
fn recorded_traces_are_drawn_evenly_and_from_anywhere() {
    let population = Population::parse_with(&recorded(), read).expect("two traces");
    let home = index_of(&population, "home");
    let session = |rank| {
        population
            .session_of(SAMPLE, home, rank)
            .expect("a session")
    };
    let sessions: Vec<_> = (0..64).map(session).collect();
    let slow = sessions
        .iter()
        .filter(|session| session.capacity.bps() == 2_000_000);
    assert_eq!(slow.count(), 32);
    let mut offsets = std::collections::HashSet::new();
    for session in &sessions {
        let Capacity::Trace { schedule, offset } = &session.uplink.capacity else {
            panic!("{session:?}");
        };
        assert_eq!(schedule.mean(), session.capacity);
        assert!(*offset < schedule.period());
        offsets.insert(*offset);
    }
    assert!(offsets.len() > 60);
    let edited = |name: &str| read(name).map(|trace| trace + "13\n");
    let edited = Population::parse_with(&recorded(), edited).expect("two traces");
    assert_ne!(edited.digest(), population.digest());
}

#[test]
fn traces_that_cannot_be_had_are_named() {
    let error = |text: &str, read: fn(&str) -> Result<String, String>| {
        Population::parse_with(text, read)
            .expect_err("no population")
            .to_string()
    };
    let text = recorded();
    let unread = Population::parse(&text).expect_err("no files").to_string();
    assert_eq!(unread, "trace `slow`: recorded traces are not read here");
    assert_eq!(
        error(&text.replace("fast", "gone"), read),
        "trace `gone`: no such file"
    );
    let broken = error(&text, |_| Ok("1\nx".into()));
    assert!(broken.starts_with("trace `slow`: line 2: `x`"), "{broken}");
    for (from, to, reason) in [
        (
            "scaled = false",
            "scaled = true",
            "home: scaled: a recorded trace",
        ),
        (
            "traces = [",
            "rate_mbps = 3\ntraces = [",
            "home: uplink.traces: cannot be combined with rate_mbps",
        ),
        (
            "[\"slow\", \"fast\"]",
            "[]",
            "home: uplink.rate_mbps: is missing",
        ),
        (
            "queue_ms = {",
            "policer = { access_ratio = 2, burst_ms = 9 }\nqueue_ms = {",
            "cannot be combined with fading",
        ),
    ] {
        let found = error(&text.replacen(from, to, 1), read);
        assert!(found.contains(reason), "{found}");
    }
}

#[test]
fn the_example_in_the_documentation_is_a_population() {
    let (_, example) = PAGE.split_once("```toml\n").expect("an example");
    let (example, _) = example.split_once("```").expect("an end of it");
    let population = Population::parse(example).expect("docs/benchmarks/populations.md");
    assert_eq!(
        population.session(SAMPLE, 0).application.abr_knee,
        Duration::from_secs(3)
    );
    // Every key is described.
    for key in [
        "jitter_ms",
        "batch_ms",
        "mark_above_ms",
        "policer",
        "fading",
        "markov",
        "outages",
    ] {
        assert!(PAGE.contains(&format!("| `{key}`")), "{key}");
    }
}

#[test]
fn outages_come_as_often_and_last_as_long_as_the_table_says() {
    let text = ANCHORS.replacen(
        "\n[stratum.downlink]\n",
        "\n[stratum.uplink.outages]\nevery_s = 5\nfor_ms = [200, 400]\n\n[stratum.downlink]\n",
        1,
    );
    let population = Population::parse(&text).expect("anchors with outages");
    let population = population.lasting(Duration::from_secs(3_600));
    let session = population.session_of(SAMPLE, 0, 3).expect("a session");
    let outages = &session.uplink.outages;
    assert!(
        (600..800).contains(&outages.len()),
        "{} in an hour",
        outages.len()
    );
    for outage in outages {
        let length = outage.end - outage.start;
        assert!((200..=400).contains(&length.as_millis()), "{outage:?}");
        assert!(outage.start < Duration::from_secs(3_600), "{outage:?}");
    }
    assert!(outages.is_sorted_by(|one, next| one.end <= next.start));
    let lengths: Duration = outages.iter().map(|it| it.end - it.start).sum();
    let mean = lengths.as_millis() / outages.len() as u128;
    assert!((280..320).contains(&mean), "{mean} ms");
}

#[test]
fn a_hundred_strata_are_allowed_and_no_more() {
    let stratum = |index: usize, count: usize| {
        format!(
            "\n[[stratum]]\nname = \"s{index}\"\nshare = {}\nrtt_ms = 40\n[stratum.uplink]\n\
             rate_mbps = 5\nqueue_ms = 100\n[stratum.downlink]\nrate_mbps = 20\nqueue_ms = 100\n",
            1.0 / count as f64
        )
    };
    let (head, _) = ANCHORS.split_once("\n[[stratum]]").expect("a head");
    let with = |count: usize| {
        let strata: String = (0..count).map(|index| stratum(index, count)).collect();
        Population::parse(&format!("{head}\n{strata}")).map(|it| it.strata().len())
    };
    let most = 100;
    assert_eq!(with(most).expect("as many as allowed"), most);
    assert!(with(most + 1).is_err() && with(0).is_err());
}
