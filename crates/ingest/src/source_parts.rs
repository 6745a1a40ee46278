//! The threads and tasks that a source consists of while it runs.

use std::sync::{Arc, LazyLock};
use std::thread;

use glassline_demux as demux;
use glassline_hub::{State, Stream, StreamName};
use glassline_latency::FrameCodes;
use glassline_runtime::{BlockingPool, FaultPoint, Panicked, Part, Supervisor};
use tokio::sync::watch;
use tokio::task::JoinHandle;

use super::command::Command;
use super::file::{self, Clip};
use super::pipe::{self, PipeSource};
use super::{CameraSource, CommandSource, Input, SourceSpec, StartError, UdpPorts, camera, pulled};

/// Files of sources that are opened and read through at a time. A trial of a source may end before its
/// file is read.
const OPENING_MAX: usize = 4;

/// Threads that open files of sources, for all servers of the process.
pub(super) static OPENING: LazyLock<BlockingPool> =
    LazyLock::new(|| BlockingPool::new(OPENING_MAX));

/// The tasks and the thread of one source.
#[derive(Debug, Default)]
pub(super) struct Parts {
    tasks: Vec<JoinHandle<()>>,
    thread: Option<thread::JoinHandle<()>>,
}

/// The parts of the server that a source needs while it runs.
#[derive(Clone, Debug)]
pub struct Surroundings {
    /// Frame codes that sources with drawn numbers enter.
    pub codes: FrameCodes,
    /// Watches the tasks of sources.
    pub supervisor: Arc<Supervisor>,
    /// The UDP ports that cameras may take; `None` for any.
    pub udp_ports: Option<UdpPorts>,
}

/// A source that can be started.
pub(super) enum Ready {
    File(Clip, Box<glassline_demux::Demuxer>),
    Pipe(PipeSource),
    Camera(Box<CameraSource>),
    Command(Box<CommandSource>),
    Publisher,
}

impl Parts {
    /// Starts a task that belongs to the source.
    pub(super) fn spawn(&mut self, task: impl Future<Output = ()> + Send + 'static) {
        self.tasks.push(tokio::spawn(task));
    }

    /// Starts a source, which ends when `stopped` becomes true or its sender is dropped.
    pub(super) fn start(
        &mut self,
        source: Ready,
        stream: Arc<Stream>,
        surroundings: Surroundings,
        stopped: watch::Receiver<bool>,
    ) -> std::io::Result<()> {
        let Surroundings {
            codes,
            supervisor,
            udp_ports,
        } = surroundings;
        match source {
            // The source has a thread of its own, not one of tokio's, because it runs until the
            // server stops.
            Ready::File(clip, source) => {
                let name = format!("file {}", stream.name());
                let heartbeat = supervisor.register(Part::Source, &name);
                let thread = thread::Builder::new().name(name);
                let stop = file::Stop { stopped, heartbeat };
                self.thread = Some(thread.spawn(move || {
                    file::run(&clip, *source, &stream, &codes, &supervisor, &stop);
                })?);
            }
            Ready::Pipe(source) => {
                let name = format!("pipe {}", stream.name());
                let heartbeat = supervisor.register(Part::Source, &name);
                let thread = thread::Builder::new().name(name);
                let stop = file::Stop { stopped, heartbeat };
                self.thread = Some(thread.spawn(move || {
                    pipe::run(&source, &stream, &supervisor, stop);
                })?);
            }
            Ready::Command(source) => {
                let life = pulled::Life {
                    supervisor: Arc::clone(&supervisor),
                    stopped,
                    idle: source.on_demand,
                };
                let command = Command::new(*source, Arc::clone(&stream), supervisor);
                let running = pulled::run(command, stream, life);
                self.tasks.push(tokio::spawn(running));
            }
            Ready::Publisher => {
                if !stream.is_published() {
                    let detail = "nobody publishes yet".to_owned();
                    stream.set_state(State::Down { detail });
                }
            }
            Ready::Camera(camera) => {
                let life = camera::Life {
                    supervisor,
                    udp_ports,
                    stopped,
                };
                let pulling = camera::run(*camera, stream, life);
                self.tasks.push(tokio::spawn(pulling));
            }
        }
        Ok(())
    }

    /// Waits until the source has ended.
    pub(super) async fn wait(self) {
        let thread = self.thread.map(|thread| {
            tokio::task::spawn_blocking(|| {
                if thread.join().is_err() {
                    tracing::error!("a file source panicked");
                }
            })
        });
        for task in self.tasks.into_iter().chain(thread) {
            if let Err(error) = task.await {
                tracing::error!(%error, "a source task failed");
            }
        }
    }
}

pub(super) async fn prepare(
    spec: SourceSpec,
    supervisor: &Arc<Supervisor>,
) -> Result<(StreamName, Ready), StartError> {
    let clip = match spec.input {
        Input::Camera(camera) => return Ok((spec.name, Ready::Camera(Box::new(camera)))),
        Input::Command(command) => return Ok((spec.name, Ready::Command(Box::new(command)))),
        Input::Publisher(_) => return Ok((spec.name, Ready::Publisher)),
        Input::Files(files) => match PipeSource::of(&files) {
            Some(pipe) => return Ok((spec.name, Ready::Pipe(pipe))),
            None => Clip::Files(files),
        },
        Input::Demo => Clip::Demo,
    };
    let name = spec.name.clone();
    let supervisor = Arc::clone(supervisor);
    let opening = OPENING.run(move || {
        supervisor.catch(Part::Source, || {
            supervisor.fault_point(FaultPoint::OpenFile);
            clip.open().map(|source| (clip, source))
        })
    });
    let opened = match opening.await.unwrap_or(Err(Panicked)) {
        Ok(opened) => opened,
        Err(source) => return Err(StartError::Panicked { name, source }),
    };
    let (clip, source) = opened.map_err(|source| match source.reason {
        demux::Reason::UnknownExtension => StartError::Kind {
            name,
            path: source.path,
        },
        _ => StartError::File {
            name,
            source: Box::new(source),
        },
    })?;
    Ok((spec.name, Ready::File(clip, Box::new(source))))
}
