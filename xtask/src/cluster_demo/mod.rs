//! `cargo xtask cluster-demo`: three servers that agree through three servers of NATS, on this
//! machine, with commands that kill parts of them, and what follows from that.
//!
//! ```text
//!  publisher ─► node-1 ─┐                 ┌─ nats-1
//!  viewer ◄──── node-2 ─┼─ who has what ──┼─ nats-2
//!  viewer ◄──── node-3 ─┘                 └─ nats-3
//! ```
//!
//! `observer` prints what the servers say, `viewer` watches at each of them, `fleet` has the
//! programs. A program that ends is started again after some seconds.

mod ask;
mod fleet;
mod observer;
mod viewer;

use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use crate::{Failure, install, process};
use fleet::Fleet;
use observer::Observer;

/// The stream that is published and watched.
const CLIP: &str = "clip";

/// Time between two looks at the servers.
const LOOK: Duration = Duration::from_millis(200);

/// Time in which all servers start on a busy machine.
const PATIENCE: Duration = Duration::from_secs(120);

/// The options that were asked for.
struct Options {
    binary: Option<PathBuf>,
    tours: bool,
}

/// A step of the tour.
struct Step {
    /// Time before the step.
    after: Duration,
    /// Returns the signal to send and the process; `None` ends the tour.
    what: fn(&Fleet, &Observer) -> Option<(&'static str, u32)>,
}

/// Runs the demonstration until Ctrl-C, or to the end of the tour.
pub(crate) fn run(arguments: &[String]) -> Result<(), Failure> {
    let options = read(arguments)?;
    let nats = install::nats()?;
    let binary = match options.binary {
        Some(binary) => binary,
        None => {
            install::build_tools()?;
            let build = ["build", "--profile", "demo", "--package", "glassline"];
            process::run(&mut process::cargo(&build))?;
            process::target_directory().join("demo/glassline")
        }
    };
    let began = Instant::now();
    let mut fleet = Fleet::start(&binary, &nats)?;
    let mut observer = Observer::new(began);
    wait_until_they_know_each_other(&mut fleet, &mut observer)?;
    fleet.publish()?;
    let stop = Arc::new(AtomicBool::new(false));
    let viewers: Vec<_> = fleet
        .nodes()
        .map(|node| viewer::watch(node, began, Arc::clone(&stop)))
        .collect();
    println!("{}", fleet.introduction(&binary));
    let outcome = show(&mut fleet, &mut observer, options.tours);
    stop.store(true, Ordering::Relaxed);
    fleet.end();
    for viewer in viewers {
        // A viewer that panicked has said so.
        let _ = viewer.join();
    }
    outcome
}

fn read(arguments: &[String]) -> Result<Options, Failure> {
    let mut options = Options {
        binary: None,
        tours: false,
    };
    let mut rest = arguments.iter();
    while let Some(argument) = rest.next() {
        match argument.as_str() {
            "--tour" => options.tours = true,
            "--binary" => match rest.next() {
                Some(path) => options.binary = Some(PathBuf::from(path)),
                None => return Err(Failure::usage("--binary needs a path")),
            },
            other => {
                return Err(Failure::usage(format!(
                    "cluster-demo knows no `{other}`: give --tour, --binary PATH"
                )));
            }
        }
    }
    Ok(options)
}

fn wait_until_they_know_each_other(
    fleet: &mut Fleet,
    observer: &mut Observer,
) -> Result<(), Failure> {
    let deadline = Instant::now() + PATIENCE;
    while !observer.all_serve(fleet) {
        fleet.keep(&mut |line| observer.say(line))?;
        if Instant::now() > deadline {
            let logs = fleet.folder().display();
            return Err(
                format!("the servers do not find each other; {logs} has their logs").into(),
            );
        }
        std::thread::sleep(LOOK);
    }
    Ok(())
}

/// Prints what changes; runs the tour if one is wanted.
fn show(fleet: &mut Fleet, observer: &mut Observer, tours: bool) -> Result<(), Failure> {
    let mut steps = TOUR.iter();
    let mut next = steps.next();
    let mut since = Instant::now();
    loop {
        fleet.keep(&mut |line| observer.say(line))?;
        observer.look(fleet);
        if let Some(step) = next.filter(|step| tours && since.elapsed() >= step.after) {
            let Some((signal, pid)) = (step.what)(fleet, observer) else {
                return Ok(());
            };
            observer.say(&format!("$ kill {signal} {pid}"));
            let mut kill = std::process::Command::new("kill");
            let status = kill.args([signal, &pid.to_string()]).status();
            status.map_err(|error| format!("kill: {error}"))?;
            since = Instant::now();
            next = steps.next();
        }
        std::thread::sleep(LOOK);
    }
}

/// The steps of the tour, one after the other. The last step is its end.
const TOUR: [Step; 6] = [
    Step {
        after: Duration::from_secs(6),
        what: |fleet, observer| Some(("-KILL", fleet.pid_of(&observer.owner(CLIP)?)?)),
    },
    Step {
        after: Duration::from_secs(18),
        what: |fleet, _| Some(("-KILL", fleet.pid_of(&fleet.leader_of_nats()?)?)),
    },
    Step {
        after: Duration::from_secs(18),
        what: |fleet, observer| Some(("-STOP", fleet.pid_of(&observer.owner(CLIP)?)?)),
    },
    Step {
        after: Duration::from_secs(12),
        what: |fleet, _| Some(("-CONT", fleet.pid_of(fleet.stopped()?)?)),
    },
    Step {
        after: Duration::from_secs(10),
        what: |fleet, observer| Some(("-TERM", fleet.pid_of(&observer.owner("hall")?)?)),
    },
    Step {
        after: Duration::from_secs(25),
        what: |_, _| None,
    },
];
