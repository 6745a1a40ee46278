use super::*;
use crate::viewers::step::example;

/// Evidence of a server that delivers, on a machine with processor time left.
fn fine() -> Evidence {
    Evidence {
        viewers: 100,
        connected: 100,
        delivered_ratio: 0.9995,
        first_failure: None,
        generator: 0.15,
        generator_thread: 0.13,
        generator_waited: 0.01,
        cores: 2,
        machine_idle: 0.6,
        machine_stolen: 0.0,
        server: Some(Server {
            cpu: 0.5,
            thread: 0.3,
            thread_name: "shard-0".to_owned(),
            cores: 2,
            cores_idle: 0.6,
        }),
    }
}

fn server(change: fn(&mut Server)) -> Option<Server> {
    let mut server = fine().server?;
    change(&mut server);
    Some(server)
}

#[test]
fn each_shortage_is_told_from_the_others() {
    type Change = fn(&mut Evidence);
    let behind: Change = |e| e.delivered_ratio = 0.7;
    let cases: &[(&str, &[Change], Bottleneck, &str)] = &[
        ("all is well", &[], Bottleneck::None, "everything"),
        (
            "behind with time left",
            &[behind],
            Bottleneck::Server,
            "lock",
        ),
        (
            "behind, and a thread is full",
            &[behind, |e| e.server = server(|s| s.thread = 0.99)],
            Bottleneck::Server,
            "`shard-0`",
        ),
        (
            "behind on the one core it has, the machine idle elsewhere",
            &[behind, |e| {
                e.machine_idle = 0.4;
                e.server = server(|s| (s.cores, s.cores_idle, s.cpu) = (1, 0.0, 0.98));
            }],
            Bottleneck::Server,
            "all of its 1 core",
        ),
        (
            "behind on a core that somebody else uses",
            &[behind, |e| {
                e.server = server(|s| (s.cores, s.cores_idle, s.cpu) = (1, 0.01, 0.4));
            }],
            Bottleneck::Machine,
            "other processes",
        ),
        (
            "behind, not measured",
            &[behind, |e| e.server = None],
            Bottleneck::Server,
            "had processor time left",
        ),
        (
            "behind on a full machine",
            &[behind, |e| e.machine_idle = 0.02],
            Bottleneck::Machine,
            "2 cores were 98 % busy",
        ),
        (
            "behind on a nearly full machine",
            &[behind, |e| e.machine_idle = 0.08],
            Bottleneck::Machine,
            "others",
        ),
        (
            "delivered on a nearly full machine",
            &[|e| e.machine_idle = 0.08],
            Bottleneck::None,
            "everything",
        ),
        (
            "delivered on a full machine",
            &[|e| e.machine_idle = 0.01],
            Bottleneck::Machine,
            "99 % busy",
        ),
        (
            "behind with stolen time",
            &[behind, |e| e.machine_stolen = 0.12],
            Bottleneck::Machine,
            "hypervisor",
        ),
        (
            "delivered with stolen time",
            &[|e| e.machine_stolen = 0.12],
            Bottleneck::None,
            "everything",
        ),
        (
            "behind with a generator that waits for a core",
            &[behind, |e| e.generator_waited = 0.3],
            Bottleneck::Machine,
            "waited",
        ),
        (
            "a full generator, whatever else",
            &[behind, |e| {
                e.generator_thread = 0.9;
                e.machine_idle = 0.0;
                e.server = server(|s| s.thread = 1.0);
            }],
            Bottleneck::Generator,
            "90 % of a core",
        ),
        (
            "viewers turned away",
            &[|e| {
                e.connected = 60;
                e.first_failure = Some("503 too many".to_owned());
            }],
            Bottleneck::Server,
            "60 of 100 viewers have media; first failure: 503 too many",
        ),
        (
            "one of a hundred turned away",
            &[|e| e.connected = 99],
            Bottleneck::None,
            "everything",
        ),
        (
            "delivered with a full thread",
            &[|e| e.server = server(|s| s.thread = 0.99)],
            Bottleneck::None,
            "close to its limit",
        ),
    ];
    for (name, changes, bottleneck, word) in cases {
        let mut evidence = fine();
        for change in *changes {
            change(&mut evidence);
        }
        let judgement = judge(&evidence);
        assert_eq!(judgement.bottleneck, *bottleneck, "{name}: {judgement:?}");
        assert!(judgement.reason.contains(word), "{name}: {judgement:?}");
    }
}

proptest::proptest! {
    #[test]
    fn a_server_is_never_blamed_while_others_are_short(
        delivered in 0.0f64..1.1, thread in 0.0f64..1.0, idle in 0.0f64..1.0, cpu in 0.0f64..2.0
    ) {
        let mut evidence = fine();
        evidence.delivered_ratio = delivered;
        evidence.generator_thread = thread;
        evidence.machine_idle = idle;
        evidence.server = evidence.server.map(|server| Server { cpu, ..server });
        let blamed = judge(&evidence).bottleneck == Bottleneck::Server;
        proptest::prop_assert!(!blamed || (thread <= THREAD_BUSY && idle >= IDLE_LOW));
        proptest::prop_assert!(!blamed || delivered < Step::DELIVERED_MIN);
    }
}

fn limited(viewers: usize, bottleneck: Bottleneck) -> Step {
    Step {
        bottleneck,
        delivered_ratio: 0.6,
        reason: "because".to_owned(),
        ..example(viewers)
    }
}

#[test]
fn a_run_says_what_it_found_and_what_it_did_not() {
    let all = summary(&[example(25), example(50)], None);
    assert!(
        all.starts_with("50 viewers at delivered ratio 0.9995, p99 gap 41 ms"),
        "{all}"
    );
    assert!(
        all.contains("1.00 ms of server CPU") && all.contains("No limit"),
        "{all}"
    );
    let found = summary(&[example(25), limited(50, Bottleneck::Server)], None);
    assert!(
        found.contains("server's limit is below 50 viewers: because"),
        "{found}"
    );
    assert!(found.starts_with("25 viewers"), "{found}");
    let unfound = summary(&[example(25), limited(50, Bottleneck::Generator)], None);
    assert!(
        unfound.contains("was not found, because at 50 viewers the generator"),
        "{unfound}"
    );
    let at_once = summary(&[limited(25, Bottleneck::Machine)], Some("--max-cpu"));
    assert!(at_once.contains("was not found") && at_once.contains("early: --max-cpu"));
    // A disturbance in an earlier step is no limit.
    let hiccup = [limited(25, Bottleneck::Server), example(50)];
    assert!(summary(&hiccup, None).contains("No limit"));
    // The step is delivered, but no processor time is left for more.
    let full = Step {
        bottleneck: Bottleneck::Machine,
        ..example(50)
    };
    let full = summary(&[full], None);
    assert!(full.starts_with("50 viewers") && full.contains("at 50 viewers the machine"));
    assert_eq!(summary(&[], None), "Nothing was measured.");
}

#[test]
fn an_rtp_clock_that_runs_fast_is_told() {
    let fast = |delivered_ratio| Step {
        delivered_ratio,
        rtp_clock_ratio: crate::viewers::step::rtp_clock_ratio(30.0),
        ..example(25)
    };
    let text = summary(&[fast(30.0), fast(29.9)], None);
    assert!(text.contains("30.0 times as fast"), "{text}");
    assert!(text.contains("ratio 0.9967"), "{text}");
    assert!(fast(30.0).is_delivered() && !fast(15.0).is_delivered());
    assert!((crate::viewers::step::rtp_clock_ratio(1.003) - 1.0).abs() < 1e-9);
}
