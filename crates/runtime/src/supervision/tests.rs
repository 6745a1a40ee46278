use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use tokio::sync::watch;

use super::heartbeat::STUCK_LOOKS;
use super::restart_limit::RestartLimit;
use super::*;
use crate::Counter;

/// A thread that does in each turn what its script says.
struct Scripted {
    script: Vec<Step>,
    serving: bool,
    done: Arc<Done>,
}

#[derive(Clone, Copy)]
enum Step {
    Work,
    PanicForPeer,
    Panic,
    PanicAndAgainAnew,
}

#[derive(Default)]
struct Done {
    turns: AtomicUsize,
    dropped: AtomicUsize,
    anew: AtomicUsize,
}

impl PollingThread for Scripted {
    fn turn(&mut self) -> Turn {
        let Some(step) = self.script.first().copied() else {
            return Turn::Ended;
        };
        if let Step::PanicAndAgainAnew = step {
            panic!("as told");
        }
        self.script.remove(0);
        match step {
            Step::Work => {}
            Step::PanicForPeer => {
                self.serving = true;
                panic!("as told");
            }
            Step::Panic | Step::PanicAndAgainAnew => panic!("as told"),
        }
        self.done.turns.fetch_add(1, Ordering::Relaxed);
        Turn::Again
    }

    fn drop_served(&mut self) -> bool {
        let serves = std::mem::take(&mut self.serving);
        self.done
            .dropped
            .fetch_add(usize::from(serves), Ordering::Relaxed);
        serves
    }

    fn start_anew(&mut self) {
        if let Some(Step::PanicAndAgainAnew) = self.script.first() {
            panic!("as told");
        }
        self.done.anew.fetch_add(1, Ordering::Relaxed);
    }
}

fn play(script: &[Step]) -> (Arc<Supervisor>, Arc<Done>) {
    let supervisor = Supervisor::start().expect("a thread");
    let heartbeat = supervisor.register(Part::Shard, "shard-0");
    let done = Arc::new(Done::default());
    let thread = Scripted {
        script: script.to_vec(),
        serving: false,
        done: Arc::clone(&done),
    };
    supervisor.run(thread, &heartbeat);
    (supervisor, done)
}

fn counts(supervisor: &Supervisor, part: Part) -> (u64, u64) {
    let counters = supervisor.counters(part);
    (counters.panics.get(), counters.restarts.get())
}

#[test]
fn a_panic_for_one_peer_costs_that_peer() {
    let (supervisor, done) = play(&[Step::Work, Step::PanicForPeer, Step::Work]);
    assert_eq!(done.turns.load(Ordering::Relaxed), 2);
    assert_eq!(done.dropped.load(Ordering::Relaxed), 1);
    assert_eq!(done.anew.load(Ordering::Relaxed), 0);
    assert_eq!(counts(&supervisor, Part::Shard), (1, 0));
    assert_eq!(supervisor.failure(), None);
}

#[test]
fn peers_that_cause_panics_do_not_end_the_process() {
    let mut script = vec![Step::PanicForPeer; 100];
    script.push(Step::Work);
    let (supervisor, done) = play(&script);
    assert_eq!(done.turns.load(Ordering::Relaxed), 1);
    assert_eq!(supervisor.failure(), None);
}

#[test]
fn another_panic_starts_the_thread_anew() {
    let (supervisor, done) = play(&[Step::Panic, Step::Work]);
    assert_eq!(done.turns.load(Ordering::Relaxed), 1);
    assert_eq!(done.anew.load(Ordering::Relaxed), 1);
    assert_eq!(counts(&supervisor, Part::Shard), (1, 1));
    assert_eq!(supervisor.failure(), None);
}

#[test]
fn the_fifth_panic_within_a_minute_ends_the_process() {
    let (supervisor, done) = play(&[Step::Panic; 9]);
    assert_eq!(done.anew.load(Ordering::Relaxed), 4);
    let failure = supervisor.failure().expect("it fails");
    assert_eq!(failure, "shard-0 panicked five times within a minute");
}

#[test]
fn a_thread_that_cannot_start_anew_ends_the_process() {
    let (supervisor, _) = play(&[Step::PanicAndAgainAnew]);
    assert!(supervisor.failure().is_some());
}

#[test]
fn panics_with_pauses_between_them_are_allowed() {
    let mut limit = RestartLimit::default();
    let start = std::time::Instant::now();
    for number in 0..20 {
        assert!(limit.allows(start + Duration::from_secs(16 * number)));
    }
    let last = start + Duration::from_secs(16 * 19);
    assert!(!limit.allows(last + Duration::from_secs(1)));
}

#[test]
fn a_thread_without_progress_is_stuck_until_it_makes_progress() {
    let supervisor = Supervisor::start().expect("a thread");
    let heartbeat = supervisor.register(Part::Rtsp, "rtsp-0");
    heartbeat.beat();
    supervisor.look();
    assert_eq!(supervisor.stuck(None), None);
    for _ in 0..STUCK_LOOKS {
        supervisor.look();
    }
    let stuck = supervisor.stuck(Some(Part::Rtsp)).expect("stuck");
    assert_eq!(stuck.thread, "rtsp-0");
    assert!(stuck.quiet >= Duration::from_secs(5));
    assert_eq!(supervisor.stuck(Some(Part::Shard)), None);
    heartbeat.beat();
    supervisor.look();
    assert_eq!(supervisor.stuck(None), None);
    drop(heartbeat);
    supervisor.look();
    assert_eq!(supervisor.threads(), [], "it has ended");
}

#[tokio::test]
async fn a_task_that_panics_runs_again() {
    let supervisor = Supervisor::start().expect("a thread");
    let (stop, stopped) = watch::channel(false);
    let runs = Arc::new(AtomicUsize::new(0));
    let task = keep_running(
        Arc::clone(&supervisor),
        Part::Background.task("test task"),
        stopped.clone(),
        || {
            let (runs, mut stopped) = (Arc::clone(&runs), stopped.clone());
            let stop = stop.clone();
            async move {
                if runs.fetch_add(1, Ordering::Relaxed) == 0 {
                    panic!("as told");
                }
                stop.send_replace(true);
                let _ = stopped.wait_for(|stop| *stop).await;
            }
        },
    );
    task.await;
    assert_eq!(runs.load(Ordering::Relaxed), 2);
    assert_eq!(counts(&supervisor, Part::Background), (1, 1));
}

#[tokio::test]
async fn a_task_that_ends_again_and_again_ends_the_process() {
    let supervisor = Supervisor::start().expect("a thread");
    let (_stop, stopped) = watch::channel(false);
    let what = Part::Quic.task("QUIC listener");
    keep_running(Arc::clone(&supervisor), what, stopped, || async {}).await;
    let reason = supervisor.failed().await;
    assert_eq!(reason, "QUIC listener ended five times within a minute");
}

#[test]
fn a_watchdog_that_panics_looks_again() {
    let supervisor = Supervisor::start().expect("a thread");
    let heartbeat = supervisor.register(Part::Rtsp, "rtsp-0");
    for panics in 1..=6 {
        supervisor.inject_at(FaultPoint::Watchdog, Fault::Panic);
        let end = std::time::Instant::now() + Duration::from_secs(60);
        while counts(&supervisor, Part::Background).0 < panics {
            assert!(std::time::Instant::now() < end, "it looks no more");
            std::thread::sleep(Duration::from_millis(10));
        }
    }
    assert_eq!(supervisor.failure(), None);
    drop(heartbeat);
}

#[test]
fn a_thread_that_counts_its_own_turns_is_seen_to_make_progress() {
    static TURNS: Counter = Counter::new();
    let supervisor = Supervisor::new();
    supervisor.register_counted(Part::Log, "log", &TURNS);
    let quiet = || supervisor.threads()[0].quiet;
    supervisor.look();
    supervisor.look();
    assert!(quiet() > Duration::ZERO);
    TURNS.add(1);
    supervisor.look();
    assert_eq!(quiet(), Duration::ZERO);
    for _ in 0..STUCK_LOOKS {
        supervisor.look();
    }
    assert!(supervisor.threads()[0].is_stuck);
    assert_eq!(
        supervisor.stuck(None),
        None,
        "the reader of the log may have stopped"
    );
}
