use super::*;

fn experiment(methods: &[Method]) -> Experiment {
    Experiment {
        clients: 3,
        bitrate_bps: 1_000_000,
        fps: 50,
        packet_bytes: 500,
        duration: Duration::from_millis(200),
        rounds: 1,
        methods: methods.to_vec(),
    }
}

#[derive(Default)]
struct Turns(Vec<(Method, usize)>);

impl Watcher for Turns {
    fn begins(&mut self, method: Method, turn: Position) {
        self.0.push((method, turn.round));
    }
}

fn measured(experiment: &Experiment) -> Report {
    experiment.check().expect("it fits");
    run(experiment, &mut Turns::default(), &AtomicBool::new(false)).expect("loopback")
}

#[test]
#[cfg(target_os = "linux")]
fn every_way_delivers_whole_frames_and_is_counted() {
    let report = measured(&experiment(&Method::ALL));
    assert_eq!(report.packets_per_frame, 5);
    for figures in &report.methods {
        let name = &figures.method;
        if let Some(reason) = &figures.skipped {
            assert!(reason.contains("io_uring"), "{name}: {reason}");
            continue;
        }
        assert_eq!(figures.frames_damaged, 0, "{name}");
        // Machines that run tests are busy, and a late frame is missed.
        let delivered = figures.delivered_ratio.expect("measured");
        assert!(delivered > 0.2 && delivered <= 1.0, "{name}: {delivered}");
        let calls = figures.system_calls_per_packet.expect("measured");
        let wanted = match name.as_str() {
            "two-sends" | "two-sends-nagle" | "two-sends-more" => 2.0,
            "writev-packet" | "send-packet" => 1.0,
            // Five sends, and setting and clearing the cork.
            "cork" => 1.4,
            "writev-frame" | "send-frame" => 0.2,
            // The frame is written into the file once for three connections.
            "sendfile-frame" => 0.2 + 0.2 / 3.0,
            "splice-frame" => 0.4 + 0.2 / 3.0,
            "uring-frame" => 0.2 / 3.0,
            _ => calls,
        };
        assert!((calls - wanted).abs() < 0.02, "{name}: {calls}");
        let copied = figures.copied_bytes_per_byte.expect("measured");
        let wanted = match name.as_str() {
            name if name.starts_with("two-sends") || name.starts_with("writev") => 0.0,
            // The frame is copied twice: framed, and written into the file.
            "sendfile-frame" | "splice-frame" => 2.0 / 3.0,
            _ => 1.0 / 3.0,
        };
        assert!((copied - wanted).abs() < 0.01, "{name}: {copied}");
        assert!(
            figures.cpu_ns_per_packet.expect("measured") > 10.0,
            "{name}"
        );
        assert!(figures.gap_ms.is_some() && figures.rounds.len() == 1);
        assert!(
            figures.verdict.contains("system calls a packet"),
            "{}",
            figures.verdict
        );
    }
    let zero_copy = report
        .methods
        .iter()
        .find(|it| it.method == "zerocopy-frame");
    let copied = zero_copy.and_then(|it| it.zero_copy_copied_ratio);
    assert_eq!(copied, Some(1.0), "loopback copies");
    let svg = draw(&report);
    crate::plot::assert_well_formed(&svg);
    assert!(!svg.contains("NaN") && !svg.contains("inf"));
    let again: Report = serde_json::from_str(&report.to_json()).expect("our own JSON");
    assert_eq!(again.methods.len(), report.methods.len());
    let lines: Vec<_> = report
        .to_csv()
        .lines()
        .map(|it| it.matches(", ").count())
        .collect();
    assert!(
        lines.len() == 14 && lines.iter().all(|count| *count == 9),
        "{lines:?}"
    );
    for figures in report.methods.iter().filter(|it| it.skipped.is_none()) {
        assert_eq!(
            line(figures).chars().count(),
            columns(),
            "{}",
            line(figures)
        );
    }
}

#[test]
fn another_method_begins_each_round() {
    let both = [Method::SendFrame, Method::SendPacket];
    let wanted = Experiment {
        rounds: 2,
        duration: Duration::from_millis(20),
        ..experiment(&both)
    };
    let mut turns = Turns::default();
    let report = run(&wanted, &mut turns, &AtomicBool::new(false)).expect("loopback");
    let [first, second] = both;
    assert_eq!(turns.0, [(first, 0), (second, 0), (second, 1), (first, 1)]);
    assert!(report.methods.iter().all(|it| it.rounds.len() == 2));
}

#[test]
fn a_stopped_run_says_what_it_did_not_measure() {
    let wanted = experiment(&[Method::SendFrame]);
    let report = run(&wanted, &mut Turns::default(), &AtomicBool::new(true)).expect("loopback");
    assert_eq!(report.methods[0].cpu_ns_per_packet, None);
    assert!(report.methods[0].verdict.starts_with("Not measured"));
    crate::plot::assert_well_formed(&draw(&report));
}

#[test]
fn what_does_not_fit_is_refused_with_its_range() {
    let good = experiment(&[Method::SendFrame]);
    let cases: [(Experiment, &str); 6] = [
        (
            Experiment {
                clients: 0,
                ..good.clone()
            },
            "between 1 and 20000",
        ),
        (
            Experiment {
                fps: 0,
                ..good.clone()
            },
            "frames a second",
        ),
        (
            Experiment {
                packet_bytes: 63,
                ..good.clone()
            },
            "between 64 and",
        ),
        (
            Experiment {
                bitrate_bps: 1 << 40,
                ..good.clone()
            },
            "system call gathers",
        ),
        (
            Experiment {
                rounds: 0,
                ..good.clone()
            },
            "no rounds",
        ),
        (
            Experiment {
                methods: Vec::new(),
                ..good.clone()
            },
            "no methods",
        ),
    ];
    for (experiment, wanted) in cases {
        let error = experiment.check().expect_err(wanted).to_string();
        assert!(error.contains(wanted), "{error}");
    }
    assert_eq!(
        Experiment {
            bitrate_bps: 1,
            ..good
        }
        .packets_per_frame(),
        1
    );
}
