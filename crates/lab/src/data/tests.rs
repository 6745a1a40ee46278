//! Tests with both ends in this process, over loopback.

use std::net::{Ipv4Addr, SocketAddr};
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use glassline_client::trust::Trust;

use super::plan::Direction;
use super::*;

fn run(plan: &Plan, impairment: Option<&str>) -> Result<Report, DialError> {
    let loopback = SocketAddr::from((Ipv4Addr::LOCALHOST, 0));
    let server = Server::start(loopback, Arc::new(Unattended)).expect("loopback");
    let dial = Dial {
        url: server.url().parse().expect("a URL"),
        trust: Trust::System,
        impairment: impairment.map(|text| text.parse().expect("an impairment")),
        relays: Relays::NONE,
        label: "test".to_owned(),
    };
    measure(&dial, plan, &AtomicBool::new(false), |_, _| {})
}

fn short(direction: Direction) -> Plan {
    Plan {
        direction,
        time_ms: 600,
        interval_ms: 200,
        ..Plan::default()
    }
}

#[test]
fn messages_go_up_down_and_both_ways() {
    for direction in [Direction::Up, Direction::Down, Direction::Both] {
        let report = run(&short(direction), None).expect("loopback");
        assert!(report.goodput_mbps > 1.0, "{direction}: {report:?}");
        assert_eq!(report.cipher.as_deref().map(str::is_empty), Some(false));
        assert_eq!(report.zero_checksum, Some(true));
        let path = report.path.as_ref().expect("connected");
        assert!(!path.relayed && path.local.r#type == "host", "{path:?}");
        assert!(report.cpu_s_per_gbit.sender.is_some_and(|it| it > 0.0));
        assert!(report.cpu_s_per_gbit.receiver.is_some_and(|it| it > 0.0));
        let ways = if direction == Direction::Both { 2 } else { 1 };
        assert!(report.intervals.len() >= 2 * ways, "{report:?}");
        assert!(report.rtt_ms.is_some());
    }
}

#[test]
fn every_flag_that_both_ends_must_know_is_known() {
    let plan = Plan {
        message_size: 1000,
        high_water: 64 << 10,
        low_water: 16 << 10,
        window: Some(128 << 10),
        channels: 3,
        unordered: true,
        max_retransmits: Some(2),
        cipher: Some("chacha20-poly1305".to_owned()),
        congestion: Some("standard".to_owned()),
        udp_buffer: None,
        no_offload: true,
        ..short(Direction::Both)
    };
    let report = run(&plan, None).expect("loopback");
    assert!(report.goodput_mbps > 0.1, "{report:?}");
    assert_eq!(report.cipher.as_deref(), Some("chacha20-poly1305"));
    let names: [fn(&mut Plan); 2] = [
        |plan| plan.cipher = Some("rot13".to_owned()),
        |plan| plan.congestion = Some("none".to_owned()),
    ];
    for spoil in names {
        let mut plan = short(Direction::Up);
        spoil(&mut plan);
        let error = run(&plan, None).expect_err("no such thing");
        assert!(matches!(error, DialError::Plan(_)), "{error}");
    }
}

#[test]
fn an_impairment_stands_between_the_ends() {
    let plan = Plan {
        window: Some(128 << 10),
        time_ms: 2000,
        interval_ms: 500,
        ..Plan::default()
    };
    let report = run(&plan, Some("rtt=40ms")).expect("loopback");
    let rtt = report.rtt_ms.expect("a round trip");
    assert!(rtt >= 40.0, "{rtt}");
    let bound = report.window_bound_mbps.expect("of it");
    assert!(
        bound < 26.3 && report.goodput_mbps < bound * 1.05,
        "{report:?}"
    );
    assert!(report.goodput_mbps > 0.1);
}

#[test]
fn only_plans_with_offers_are_taken() {
    let loopback = SocketAddr::from((Ipv4Addr::LOCALHOST, 0));
    let server = Server::start(loopback, Arc::new(Unattended)).expect("loopback");
    let agent: ureq::Agent = ureq::Agent::config_builder()
        .http_status_as_error(false)
        .build()
        .into();
    let post = |kind: &str, body: &str| {
        let sent = agent
            .post(server.url())
            .header("content-type", kind)
            .send(body);
        sent.expect("an answer").status().as_u16()
    };
    let plan = |plan: &str, sdp: &str| format!(r#"{{"plan":{plan},"sdp":"{sdp}"}}"#);
    let json = "application/json";
    assert_eq!(post("text/plain", &plan("{}", "v=0")), 415);
    assert_eq!(post(json, "[]"), 400);
    assert_eq!(post(json, &plan(r#"{"time_ms":1}"#, "v=0")), 400);
    assert_eq!(post(json, &plan("{}", "v=0")), 400);
    let page = agent.get(server.url()).call().expect("an answer");
    assert_eq!(page.status(), 200);
}

#[test]
fn a_server_that_is_none_is_said() {
    let dial = Dial {
        url: "http://127.0.0.1:9/data".parse().expect("a URL"),
        trust: Trust::System,
        impairment: None,
        relays: Relays::NONE,
        label: String::new(),
    };
    let stop = AtomicBool::new(false);
    let error = measure(&dial, &short(Direction::Up), &stop, |_, _| {});
    let error = error.expect_err("nobody listens there");
    assert!(error.to_string().contains("127.0.0.1:9"), "{error}");
}
