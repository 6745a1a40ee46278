//! Sources by command: a program that the server starts, whose standard output is played.
//!
//! ```text
//! CommandSource ─► Process (own group, own environment) ─ stdout ─► Output ─► PipeDemuxer ─► …
//!                       │                                 stderr ─► LastWords ─► reason of the end
//!                       └─ when the source ends: SIGTERM to the group, then SIGKILL
//! ```
//!
//! Each run has a thread, which starts the program and waits for its end: a program whose thread is
//! gone is killed by the system, so that it does not outlive the server.

mod last_words;
mod output;
mod process;

use std::path::Path;
use std::sync::Arc;
use std::thread;
use std::time::Instant;

use glassline_hub::{State, Stream};
use glassline_runtime::{Part, Supervisor};
use tokio::sync::{oneshot, watch};

use super::CommandSource;
use super::file::{Failure, Stop};
use super::on_demand::OnDemand;
use super::pipe::PipeMedia;
use super::pulled::{PullEnd, Pulled};
use process::{Process, StartFailure};

/// A program that runs while its stream is needed.
pub(super) struct Command {
    source: CommandSource,
    stream: Arc<Stream>,
    supervisor: Arc<Supervisor>,
    /// The run that has not ended yet.
    run: Option<Run>,
}

/// The thread of one run.
struct Run {
    /// Ends the run when true, or dropped.
    stop: watch::Sender<bool>,
    ended: oneshot::Receiver<RunEnd>,
}

/// How a run ended.
struct RunEnd {
    detail: String,
    is_lasting: bool,
    live_since: Option<Instant>,
}

impl Command {
    pub(super) const fn new(
        source: CommandSource,
        stream: Arc<Stream>,
        supervisor: Arc<Supervisor>,
    ) -> Self {
        Self {
            source,
            stream,
            supervisor,
            run: None,
        }
    }

    /// Starts a thread that runs the program once.
    fn begin(&self) -> std::io::Result<Run> {
        let (stop, stopped) = watch::channel(false);
        let (end, ended) = oneshot::channel();
        let name = format!("program {}", self.stream.name());
        let heartbeat = self.supervisor.register(Part::Source, &name);
        let stop_signal = Arc::new(Stop { stopped, heartbeat });
        let (source, stream) = (self.source.clone(), Arc::clone(&self.stream));
        let supervisor = Arc::clone(&self.supervisor);
        thread::Builder::new().name(name).spawn(move || {
            // An error means that nobody waits for the end.
            let _ = end.send(run_once(&source, &stream, &supervisor, &stop_signal));
        })?;
        Ok(Run { stop, ended })
    }
}

impl Pulled for Command {
    const KIND: &'static str = "program";

    fn shown(&self) -> String {
        self.source.to_string()
    }

    async fn pull(
        &mut self,
        on_demand: &OnDemand<'_>,
        live_since: &mut Option<Instant>,
    ) -> PullEnd {
        let run = match self.begin() {
            Ok(run) => self.run.insert(run),
            Err(error) => {
                return PullEnd::Failed {
                    detail: format!("cannot start a thread for the program: {error}"),
                    is_lasting: false,
                };
            }
        };
        tokio::select! {
            ended = &mut run.ended => {
                self.run = None;
                let Ok(RunEnd { detail, is_lasting, live_since: since }) = ended else {
                    return PullEnd::Failed {
                        detail: "the program's thread ended".to_owned(),
                        is_lasting: false,
                    };
                };
                *live_since = since;
                PullEnd::Failed { detail, is_lasting }
            }
            () = on_demand.unneeded() => {
                self.part().await;
                self.stream.set_state(State::Idle);
                PullEnd::Unneeded
            }
        }
    }

    async fn part(&mut self) {
        if let Some(run) = &mut self.run {
            run.stop.send_replace(true);
            let _ = (&mut run.ended).await;
            self.run = None;
        }
    }
}

/// Starts the program, plays what it writes, and returns why that ended. Blocks its thread.
fn run_once(
    source: &CommandSource,
    stream: &Arc<Stream>,
    supervisor: &Supervisor,
    stop: &Arc<Stop>,
) -> RunEnd {
    let mut live_since = None;
    let mut process = match Process::start(source) {
        Ok(process) => process,
        Err(failure) => {
            return RunEnd {
                is_lasting: matches!(failure, StartFailure::Absent { .. }),
                detail: failure.to_string(),
                live_since,
            };
        }
    };
    tracing::info!(stream = %stream.name(), process = process.id(), "program started");
    let played = play(
        source,
        &mut process,
        stream,
        supervisor,
        stop,
        &mut live_since,
    );
    let detail = process.end(played.err(), stop);
    RunEnd {
        detail,
        is_lasting: false,
        live_since,
    }
}

/// Plays what the program writes until it writes no more.
fn play(
    source: &CommandSource,
    process: &mut Process,
    stream: &Arc<Stream>,
    supervisor: &Supervisor,
    stop: &Arc<Stop>,
    live_since: &mut Option<Instant>,
) -> Result<(), Failure> {
    let name = process.name().to_owned();
    let media = PipeMedia {
        name: Path::new(&name),
        protocol: "program",
        fps: source.fps,
    };
    let output = process.output(stop);
    let mut rest = Some(output.map_err(|error| media.failed(error))?);
    while let Some(input) = rest {
        // Bytes that make the server panic end the program, like bytes that are damaged.
        let played = supervisor.catch(Part::Source, || media.play(input, stream, stop, live_since));
        rest = played.map_err(Failure::from).flatten()?;
    }
    Ok(())
}
