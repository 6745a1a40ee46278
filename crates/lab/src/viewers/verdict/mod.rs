//! Which side was the bottleneck: of a step from its evidence, of a run from its
//! steps.
//!
//! A server's limit is claimed only where the generator and the machine had
//! processor time left, because a starved generator or machine looks just like
//! a server that cannot keep up.

use serde::{Deserialize, Serialize};

use crate::viewers::step::{Step, delivered};

/// Who was at its limit.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Bottleneck {
    /// Nobody.
    #[default]
    None,
    /// The server could not keep up while everybody else could have.
    Server,
    /// A thread of the load generator used nearly a whole core.
    Generator,
    /// The machine's processors were taken, by whomever.
    Machine,
}

impl Bottleneck {
    /// As tables and JSON say it.
    pub const fn name(self) -> &'static str {
        match self {
            Self::None => "none",
            Self::Server => "server",
            Self::Generator => "generator",
            Self::Machine => "machine",
        }
    }
}

/// A thread of the generator that uses more of a core is short: bursts make it
/// late before its mean is 1.
const THREAD_BUSY: f64 = 0.85;

/// A thread that uses more of a core has no more to use.
const THREAD_FULL: f64 = 0.95;

/// With less idle time than this the machine is the limit, delivered or not.
const IDLE_MIN: f64 = 0.05;

/// With less idle time than this a shortfall may be the machine's.
const IDLE_LOW: f64 = 0.10;

/// More stolen time than this explains a shortfall.
const STOLEN_HIGH: f64 = 0.05;

/// A generator that was ready but not running for more of the time explains a
/// shortfall.
const WAITED_HIGH: f64 = 0.15;

/// What was seen in one step. Shares are of one core unless said otherwise; 1 is
/// a whole core.
#[derive(Clone, Debug)]
pub struct Evidence {
    /// Viewers asked for.
    pub viewers: usize,
    /// Viewers that had media.
    pub connected: usize,
    /// See [`Step::delivered_of_clock`].
    pub delivered_ratio: f64,
    /// Why the first viewer failed.
    pub first_failure: Option<String>,
    /// All of the generator.
    pub generator: f64,
    /// Its busiest thread.
    pub generator_thread: f64,
    /// How long that thread was ready to run and did not.
    pub generator_waited: f64,
    /// Cores of the machine.
    pub cores: usize,
    /// Of all cores' time, what nobody used, 0–1.
    pub machine_idle: f64,
    /// Of all cores' time, what the hypervisor took, 0–1.
    pub machine_stolen: f64,
    /// The server, if it was measured.
    pub server: Option<Server>,
}

/// What was seen of the server's process tree.
#[derive(Clone, Debug)]
pub struct Server {
    /// All its threads.
    pub cpu: f64,
    /// The busiest of them.
    pub thread: f64,
    /// What that one is called.
    pub thread_name: String,
    /// Cores that it may use.
    pub cores: usize,
    /// Of those cores' time, what nobody used, 0–1.
    pub cores_idle: f64,
}

/// What a step's evidence comes to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Judgement {
    /// Who was at its limit.
    pub bottleneck: Bottleneck,
    /// How that shows, in a sentence.
    pub reason: String,
}

/// Judges one step.
pub fn judge(seen: &Evidence) -> Judgement {
    let fine = delivered(seen.delivered_ratio, seen.connected, seen.viewers);
    let (bottleneck, reason) = generator(seen)
        .map(|reason| (Bottleneck::Generator, reason))
        .or_else(|| machine(seen, fine).map(|reason| (Bottleneck::Machine, reason)))
        .unwrap_or_else(|| match fine {
            true => (Bottleneck::None, all_is_well(seen)),
            false => (Bottleneck::Server, server(seen)),
        });
    Judgement { bottleneck, reason }
}

fn generator(seen: &Evidence) -> Option<String> {
    (seen.generator_thread > THREAD_BUSY).then(|| {
        format!(
            "the load generator's own thread used {} of a core: what is missing may be its fault; \
             load the server from several processes or machines",
            percent(seen.generator_thread)
        )
    })
}

fn machine(seen: &Evidence, fine: bool) -> Option<String> {
    let idle_min = if fine { IDLE_MIN } else { IDLE_LOW };
    if seen.machine_idle < idle_min {
        return Some(format!(
            "the machine's {} were {} busy: {}",
            cores(seen.cores),
            percent(1.0 - seen.machine_idle),
            shares(seen)
        ));
    }
    if fine {
        return None;
    }
    if seen.machine_stolen > STOLEN_HIGH {
        return Some(format!(
            "the hypervisor gave {} of the machine's time to others",
            percent(seen.machine_stolen)
        ));
    }
    if seen.generator_waited > WAITED_HIGH {
        return Some(format!(
            "the load generator was ready but waited for a processor {} of the time; give it a \
             core of its own",
            percent(seen.generator_waited)
        ));
    }
    let server = seen.server.as_ref()?;
    let room = server.cores as f64;
    // A core that is full without the server is full of somebody else.
    (server.cores_idle < IDLE_MIN && server.cpu < 0.7 * room).then(|| {
        format!(
            "the server's {} were busy with others' work: it got {} of {}",
            cores(server.cores),
            percent(server.cpu),
            percent(room)
        )
    })
}

fn server(seen: &Evidence) -> String {
    if seen.delivered_ratio >= Step::DELIVERED_MIN {
        let why = match &seen.first_failure {
            Some(reason) => format!("first failure: {reason}"),
            None => "the others still wait".to_owned(),
        };
        return format!(
            "{} of {} viewers have media; {why}",
            seen.connected, seen.viewers
        );
    }
    let delivered = format!(
        "the server delivered {:.3} of the media",
        seen.delivered_ratio
    );
    let Some(server) = &seen.server else {
        return format!(
            "{delivered} while machine and generator had processor time left ({})",
            shares(seen)
        );
    };
    if server.cpu >= THREAD_FULL * server.cores as f64 {
        return format!("{delivered} and used all of its {}", cores(server.cores));
    }
    if server.thread >= THREAD_FULL {
        return format!(
            "{delivered}; its thread `{}` used a whole core ({})",
            server.thread_name,
            percent(server.thread)
        );
    }
    format!(
        "{delivered} though it left processor time unused ({}): look for a lock, a queue or a \
         single sequential loop",
        shares(seen)
    )
}

fn all_is_well(seen: &Evidence) -> String {
    match &seen.server {
        Some(server) if server.thread >= THREAD_FULL => format!(
            "everything was delivered, but the server's thread `{}` is at its end ({} of a core)",
            server.thread_name,
            percent(server.thread)
        ),
        _ => format!("everything was delivered ({})", shares(seen)),
    }
}

/// Who used the processors, of one core each.
fn shares(seen: &Evidence) -> String {
    let busy = (1.0 - seen.machine_idle) * seen.cores as f64;
    let generator = percent(seen.generator);
    match &seen.server {
        Some(server) => format!(
            "server {}, generator {generator}, others {} of a core",
            percent(server.cpu),
            percent((busy - server.cpu - seen.generator).max(0.0))
        ),
        None => format!("generator {generator}, all {} of a core", percent(busy)),
    }
}

fn percent(share: f64) -> String {
    format!("{:.0} %", share * 100.0)
}

fn cores(count: usize) -> String {
    match count {
        1 => "1 core".to_owned(),
        count => format!("{count} cores"),
    }
}

/// What a run comes to, in a few sentences; `stopped` says why the ramp ended early.
pub fn summary(steps: &[Step], stopped: Option<&str>) -> String {
    let Some(first) = steps.first() else {
        return "Nothing was measured.".to_owned();
    };
    // A step below that was not delivered was a hiccup, and no limit.
    let mut text = match steps.iter().rposition(Step::is_delivered) {
        Some(best) => {
            let next = steps.get(best + 1);
            let limit = match next.or(Some(&steps[best])) {
                Some(step) if step.bottleneck != Bottleneck::None => limit_of(step),
                _ => "No limit was reached".to_owned(),
            };
            format!("{}. {limit}.", achieved(&steps[best]))
        }
        None => format!("{}.", limit_of(first)),
    };
    if first.rtp_clock_ratio > 1.0 {
        text += &format!(
            " The stream's RTP clock runs {:.1} times as fast as time, which is taken out of what \
             is said here.",
            first.rtp_clock_ratio
        );
    }
    if let Some(stopped) = stopped {
        text += &format!(" The ramp ended early: {stopped}.");
    }
    text
}

fn achieved(step: &Step) -> String {
    let cost = match step.server_cpu_ms_per_viewer_second {
        Some(cost) => format!(", {cost:.2} ms of server CPU per viewer-second"),
        None => String::new(),
    };
    let gap = match step.gap_ms.p99 {
        Some(gap) => format!(", p99 gap {gap:.0} ms"),
        None => String::new(),
    };
    format!(
        "{} viewers at delivered ratio {:.4}{gap}{cost}",
        step.viewers,
        step.delivered_of_clock()
    )
}

fn limit_of(step: &Step) -> String {
    let (viewers, reason) = (step.viewers, &step.reason);
    match step.bottleneck {
        Bottleneck::Server => format!("The server's limit is below {viewers} viewers: {reason}"),
        Bottleneck::None => format!("{viewers} viewers: {reason}"),
        short => format!(
            "The server's limit was not found, because at {viewers} viewers the {} was the \
             bottleneck: {reason}",
            short.name()
        ),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::viewers::step::example;

    /// A server that delivers on a machine with time left.
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
                "others' work",
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
                "at its end",
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
        // A hiccup below is no limit.
        let hiccup = [limited(25, Bottleneck::Server), example(50)];
        assert!(summary(&hiccup, None).contains("No limit"));
        // Delivered, but there is nothing left to deliver more with.
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
}
