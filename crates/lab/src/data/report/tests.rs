use super::*;
use crate::data::plan::Direction;

/// Samples of a steady sender and of its receiver, a second apart.
pub(crate) fn steady(seconds: u32, mbps: f64) -> (Vec<Sample>, Vec<Sample>) {
    let bytes = |at: u32| (f64::from(at) * mbps * 1e6 / 8.0) as u64;
    let sender = |at: u32| Sample {
        at_ms: f64::from(at) * 1e3,
        sent_bytes: bytes(at),
        rtt_ms: Some(20.0),
        cwnd_bytes: 4 << 20,
        in_flight_bytes: 250_000,
        peer_window_bytes: 12_000,
        cpu_s: Some(f64::from(at) * 0.5),
        retransmitted_bytes: u64::from(at) * 1000,
        ..Sample::default()
    };
    let receiver = |at: u32| Sample {
        at_ms: f64::from(at) * 1e3,
        received_bytes: bytes(at),
        received_messages: bytes(at) / 65_536,
        window_bytes: 256 << 10,
        cpu_s: Some(f64::from(at) * 0.25),
        ..Sample::default()
    };
    (
        (1..=seconds).map(sender).collect(),
        (1..=seconds).map(receiver).collect(),
    )
}

pub(crate) fn report(direction: Direction) -> Report {
    let (sender, receiver) = steady(3, 100.0);
    let (client, server) = match direction {
        Direction::Down => (receiver, sender),
        _ => (sender, receiver),
    };
    Report::new(Findings {
        label: "test".to_owned(),
        started: "2026-01-01T00:00:00Z".to_owned(),
        plan: Plan {
            direction,
            ..Plan::default()
        },
        impairment: None,
        client,
        server,
        path: Some(Path {
            local: PathEnd {
                r#type: "host".to_owned(),
                protocol: "udp".to_owned(),
                address: "127.0.0.1:1".to_owned(),
            },
            remote: PathEnd {
                r#type: "relay".to_owned(),
                protocol: "udp".to_owned(),
                address: "127.0.0.1:2".to_owned(),
            },
            relayed: true,
            relay: None,
            relay_protocol: None,
        }),
        cipher: Some("aes-128-gcm".to_owned()),
        zero_checksum: Some(true),
    })
}

#[test]
fn a_window_in_a_round_trip_is_found_to_be_the_bound() {
    for direction in [Direction::Up, Direction::Down] {
        let report = report(direction);
        assert!((report.goodput_mbps - 100.0).abs() < 0.1);
        // 256 KiB in 20 ms, which is the reference's own example.
        let bound = report.window_bound_mbps.expect("a round trip");
        assert!((bound - 104.8576).abs() < 1e-6, "{bound}");
        assert_eq!(report.bound, Bound::Window);
        assert_eq!(
            report.verdict,
            "100 Mbit/s, bounded by window/RTT: 256 KiB in 20.0 ms are 105 Mbit/s."
        );
        let cpu = report.cpu_s_per_gbit;
        assert!((cpu.sender.expect("known") - 5.0).abs() < 0.01);
        assert!((cpu.receiver.expect("known") - 2.5).abs() < 0.01);
        assert_eq!(report.intervals.len(), 3);
        assert!(
            report
                .intervals
                .iter()
                .all(|it| it.retransmitted_bytes == 1000)
        );
    }
}

#[test]
fn other_bounds_are_told_apart() {
    let found = |edit: fn(&mut Sample, &mut Sample)| {
        let (mut client, mut server) = steady(3, 100.0);
        for (sent, received) in client.iter_mut().zip(&mut server) {
            sent.peer_window_bytes = 64 << 20;
            received.window_bytes = 64 << 20;
            edit(sent, received);
        }
        let base = report(Direction::Up);
        Report::new(Findings {
            label: String::new(),
            started: String::new(),
            plan: base.plan,
            impairment: None,
            client,
            server,
            path: None,
            cipher: None,
            zero_checksum: None,
        })
        .bound
    };
    assert_eq!(found(|_, _| {}), Bound::Unknown);
    assert_eq!(found(|sent, _| busy(sent)), Bound::SenderCpu);
    assert_eq!(found(|_, received| busy(received)), Bound::ReceiverCpu);
    assert_eq!(
        found(|sent, _| {
            filled(sent);
            sent.lost_bytes = 5000;
        }),
        Bound::CongestionWindow
    );
    assert_eq!(
        found(|sent, _| sent.pacing_mbps = Some(110.0)),
        Bound::Pacing
    );
    assert_eq!(found(|sent, _| sent.starved = 9), Bound::Application);
}

/// Tools read these names.
#[test]
fn the_json_has_the_names_that_tools_read() {
    let report = report(Direction::Up);
    let json: serde_json::Value = serde_json::from_str(&report.to_json()).expect("JSON");
    for path in [
        "/intervals/0/goodput_mbps",
        "/intervals/0/messages_per_s",
        "/intervals/0/rtt_ms",
        "/intervals/0/cwnd_bytes",
        "/intervals/0/retransmitted_bytes",
        "/intervals/0/buffered_bytes",
        "/intervals/0/cpu_s_per_gbit/sender",
        "/goodput_mbps",
        "/cpu_s_per_gbit/sender",
        "/cpu_s_per_gbit/receiver",
        "/rtt_ms",
        "/window_bound_mbps",
        "/path/local/address",
        "/path/remote/type",
        "/path/relayed",
        "/cipher",
        "/zero_checksum",
        "/bound",
    ] {
        assert!(json.pointer(path).is_some_and(|it| !it.is_null()), "{path}");
    }
    let again: Report = serde_json::from_value(json).expect("our own");
    assert_eq!(again, report);
}

#[test]
fn the_csv_has_a_column_for_each_name() {
    let csv = report(Direction::Up).to_csv();
    let mut lines = csv.lines();
    let columns = lines.next().expect("a header").split(',').count();
    assert_eq!(lines.clone().count(), 3);
    assert!(lines.all(|line| line.split(',').count() == columns));
    assert!(csv.starts_with("direction,start_s,end_s,goodput_mbps,"));
}

#[test]
fn people_are_told_the_same() {
    let text = table::draw(&report(Direction::Down));
    for wanted in [
        "down",
        "100.0",
        "256 KiB in 20.0 ms",
        "aes-128-gcm, zero checksum",
    ] {
        assert!(text.contains(wanted), "{wanted}: {text}");
    }
    assert!(text.contains("host 127.0.0.1:1 → relay 127.0.0.1:2, udp, relayed by a TURN server"));
    let chart = svg::draw(&report(Direction::Up));
    assert!(chart.starts_with("<svg") && chart.ends_with("</svg>\n"));
    assert!(!chart.contains("NaN") && !chart.contains("inf"), "{chart}");
}

#[test]
fn a_test_that_never_got_going_has_a_report_all_the_same() {
    let report = Report::new(Findings {
        label: String::new(),
        started: String::new(),
        plan: Plan::default(),
        impairment: None,
        client: Vec::new(),
        server: Vec::new(),
        path: None,
        cipher: None,
        zero_checksum: None,
    });
    assert_eq!(report.goodput_mbps, 0.0);
    assert_eq!(report.bound, Bound::Unknown);
    assert!(!svg::draw(&report).contains("NaN"));
}

/// Sets the thread's processor time to nearly a whole core.
fn busy(sample: &mut Sample) {
    sample.cpu_s = Some(sample.at_ms * 0.95e-3);
}

fn filled(sent: &mut Sample) {
    sent.cwnd_bytes = sent.in_flight_bytes + 1000;
}
