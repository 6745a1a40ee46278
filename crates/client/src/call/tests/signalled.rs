//! Calls signalled by HTTP, over bad paths.

use glassline_trust::Trust;

use super::*;

/// The longest delay of a mark over a bad path.
const LONGEST: Duration = Duration::from_millis(600);

/// Devices whose microphone captures marks.
fn marked() -> Audio {
    Audio {
        marks: Some(Marks::default()),
        ..QUIET
    }
}

/// Tests of sound in real time, which need a machine that has nothing else to do.
mod alone {
    use super::*;

    #[test]
    fn over_a_bad_path_with_copies_the_chirps_still_come() {
        let (late, outcome) = chirps_over_a_bad_path();
        judge_in_time(late, outcome);
    }
}

fn chirps_over_a_bad_path() -> (u64, Result<(), String>) {
    let config = Config {
        redundancy: true,
        ..light()
    };
    let server = Server::start(([127, 0, 0, 1], 0).into(), config.clone()).expect("loopback");
    let ask = Dial {
        url: server.url().parse().expect("ours"),
        trust: Trust::System,
        token: None,
        impairment: Some(
            "delay=20ms jitter=clean loss=5% seed=3"
                .parse()
                .expect("known"),
        ),
    };
    let dialled = dial(&ask, &config).expect("a call");
    let called = server.poll().expect("it came");
    // One at a time, and who is second is told.
    let refused = dial(&ask, &config).expect_err("busy").to_string();
    assert!(
        refused.contains("503") && refused.contains("in progress"),
        "{refused}"
    );
    let mut near = End::start("bad-path-near", dialled.transport, &config, marked());
    let mut far = End::start("bad-path-far", called.transport, &config, marked());
    far.wait_until("enough", |call| {
        let speaking = call.figures().speaking;
        speaking.is_some_and(|it| it.frames > 700)
    });
    near.end().expect("no trouble");
    far.wait_until("the other hung up", |call| call.ended().is_some());
    // The path loses one goodbye in twenty: DTLS sends alerts once (RFC 6347 §4.2.7).
    let ended = far.end();
    assert!(
        matches!(ended, Ok(Ended::ByPeer) | Err(CallError::Vanished { .. })),
        "{ended:?}"
    );
    let delays = far.delays(&near, Marks::default(), 48_000, LONGEST);
    println!("{delays:?}");
    let late = far.loudspeaker.underruns();
    if delays.iter().flatten().count() < 3 {
        return (late, Err(format!("{delays:?}")));
    }
    let least = delays
        .iter()
        .flatten()
        .fold(f64::INFINITY, |a, b| a.min(*b));
    assert!(least > 40.0, "the path is in it: {delays:?}");
    let report = far.call.figures().listening.expect("it listened");
    let counts = report.streams[0].jitter.counts;
    assert!(counts.repeated > 0, "copies were played: {counts:?}");
    drop(called.slot);
    // Another one may call now.
    dial(&ask, &config).expect("free again");
    (late, Ok(()))
}

#[test]
fn who_vanishes_is_named() {
    let config = light();
    let server = Server::start(([127, 0, 0, 1], 0).into(), config.clone()).expect("loopback");
    let ask = Dial {
        url: server.url().parse().expect("ours"),
        trust: Trust::System,
        token: None,
        impairment: Some("delay=1ms".parse().expect("known")),
    };
    let dialled = dial(&ask, &config).expect("a call");
    let called = server.poll().expect("it came");
    let near = End::start("cut-near", dialled.transport, &config, marked());
    let far = End::start("cut-far", called.transport, &config, marked());
    for end in [&near, &far] {
        end.wait_until("it hears something", |call| {
            let listening = call.figures().listening;
            listening.is_some_and(|it| !it.streams.is_empty())
        });
    }
    // The cable is cut.
    drop(dialled.between);
    for mut end in [near, far] {
        end.wait_until("it notices", |call| call.ended().is_some());
        let text = match end.end() {
            Err(error @ CallError::Vanished { .. }) => error.to_string(),
            other => panic!("{other:?}"),
        };
        assert!(text.starts_with("the peer vanished"), "{text}");
        assert!(text.contains("127.0.0.1"), "{text}");
    }
}
