//! Ingest: publishes files, the built-in clip, cameras and publishers into the hub.
//!
//! ```text
//! SourceSpec ─► spawn ─┬► file: a thread, paced by due times ─┐
//!                      ├► pipe: a thread, paced by its writer ┤
//!                      ├► rtsp: a task, paced by the camera ──┴► hub::Publisher::push
//!                      └► stand_in: a task, while the source is away ─► hub::Stream::stand_in
//! ```
//!
//! Each source runs on its own. A source that fails, or panics, is tried again with growing pauses,
//! and its stream shows why it is down. Media is packetized once, here, into units whose accounted delay
//! begins at their origin: a frame's due time in a file, or the arrival of its first packet from a
//! network.

mod assembler;
mod backoff;
mod camera;
mod file;
mod frame_codes;
pub mod library;
pub(crate) mod moq;
mod pace;
mod pipe;
mod publishing;
pub(crate) mod rtsp;
mod spec;
mod stand_in;
mod tracks;
mod unit_packetizer;
mod units;
mod voice;
pub(crate) mod whip;

use std::collections::BTreeMap;
use std::sync::Arc;
use std::thread;

use glassline_hub::{CreateError, Hub, State, Stream, StreamName};
use tokio::sync::{Semaphore, watch};
use tokio::task::JoinHandle;

use crate::runtime::{FaultPoint, Panicked, Part, Supervisor};
use file::Clip;
use pipe::PipeSource;
use stand_in::AwayContent;

pub(crate) use assembler::Assembler;
#[cfg(any(test, fuzzing))]
#[doc(hidden)]
pub use assembler::fuzzing::assembler as fuzz_assembler;
pub(crate) use camera::{CameraConnection, Failure as CameraFailure, Purpose};
pub(crate) use pace::{Pace, Rate};
pub(crate) use publishing::Ended;
pub(crate) use tracks::with_sets;
pub(crate) use unit_packetizer::{UnitPacketizer, UnitTiming};
pub(crate) use units::Units;

pub use frame_codes::{FrameCode, FrameCodes};
pub use spec::{
    Away, FileSource, Input, PlaceholderKind, RtspSource, SourceSpec, SpecError, Transport,
};
pub use stand_in::ImageError;
pub use voice::{Voice, VoiceCounters};
pub use whip::{Arrivals, ArrivedLine, WhipCounters};

/// The running sources of the configuration: threads of files and tasks of cameras.
#[derive(Debug)]
pub struct Sources {
    tasks: Vec<JoinHandle<()>>,
    threads: Vec<thread::JoinHandle<()>>,
}

impl Sources {
    /// Waits until every source has ended, which they do when `stopped` becomes true.
    pub async fn join(self) {
        let threads = tokio::task::spawn_blocking(|| {
            for thread in self.threads {
                if thread.join().is_err() {
                    tracing::error!("a file source panicked");
                }
            }
        });
        for task in self.tasks.into_iter().chain([threads]) {
            if let Err(error) = task.await {
                tracing::error!(%error, "a source task failed");
            }
        }
    }

    fn start(
        &mut self,
        source: Ready,
        stream: Arc<Stream>,
        codes: FrameCodes,
        supervisor: &Arc<Supervisor>,
        stopped: watch::Receiver<bool>,
    ) -> std::io::Result<()> {
        let supervisor = Arc::clone(supervisor);
        match source {
            // The source has a thread of its own, not one of tokio's, because it runs until the
            // server stops.
            Ready::File(clip, source) => {
                let name = format!("file {}", stream.name());
                let heartbeat = supervisor.register(Part::Source, &name);
                let thread = thread::Builder::new().name(name);
                let stop = file::Stop { stopped, heartbeat };
                self.threads.push(thread.spawn(move || {
                    file::run(&clip, source, &stream, &codes, &supervisor, &stop);
                })?);
            }
            Ready::Pipe(source) => {
                let name = format!("pipe {}", stream.name());
                let heartbeat = supervisor.register(Part::Source, &name);
                let thread = thread::Builder::new().name(name);
                let stop = file::Stop { stopped, heartbeat };
                self.threads.push(thread.spawn(move || {
                    pipe::run(&source, &stream, &supervisor, stop);
                })?);
            }
            Ready::Publisher => {
                let detail = "nobody publishes yet".to_owned();
                stream.set_state(State::Down { detail });
            }
            Ready::Rtsp(camera) => {
                let life = camera::Life {
                    supervisor,
                    stopped,
                };
                self.tasks
                    .push(tokio::spawn(camera::run(camera, stream, life)));
            }
        }
        Ok(())
    }
}

/// Makes a stream for each of `specs` and starts its source.
///
/// Files are read through once before anything starts. The built-in clip enters in `codes` when its
/// frames are captured. Sources end when `stopped` becomes true or its sender is dropped. Needs a
/// tokio runtime.
///
/// # Errors
/// Returns [`StartError`] if a source can never work: a file that is missing or broken, a name used
/// twice, more streams than the hub takes, a panic while a file is opened. A camera that does not answer is no error; the server
/// tries again until it does.
pub(crate) async fn spawn(
    hub: &Arc<Hub>,
    specs: Vec<SourceSpec>,
    codes: &FrameCodes,
    supervisor: &Arc<Supervisor>,
    stopped: watch::Receiver<bool>,
) -> Result<Sources, StartError> {
    let away: BTreeMap<_, _> = specs
        .iter()
        .filter_map(|spec| Some((spec.name.clone(), spec.input.away()?.clone())))
        .collect();
    check_fallbacks(&away)?;
    let mut away = load_images(away).await?;
    let mut ready = Vec::with_capacity(specs.len());
    let mut names = std::collections::BTreeSet::new();
    for spec in specs {
        if !names.insert(spec.name.clone()) {
            return Err(StartError::Twice { name: spec.name });
        }
        ready.push(prepare(spec, supervisor).await?);
    }
    let mut sources = Sources {
        tasks: Vec::new(),
        threads: Vec::new(),
    };
    let services = stand_in::Services {
        hub: Arc::clone(hub),
        supervisor: Arc::clone(supervisor),
        encoders: Arc::new(Semaphore::new(1)),
    };
    for (name, source) in ready {
        let stream = if matches!(source, Ready::Publisher) {
            hub.reserve(name.clone())
        } else {
            hub.create(name.clone())
        };
        let stream = stream.map_err(|source| StartError::Create {
            name: name.clone(),
            source,
        })?;
        if let Some(away) = away.remove(&name) {
            let (stream, services) = (Arc::clone(&stream), services.clone());
            let standing_in = stand_in::run(stream, away, services, stopped.clone());
            sources.tasks.push(tokio::spawn(standing_in));
        }
        sources
            .start(source, stream, codes.clone(), supervisor, stopped.clone())
            .map_err(|source| StartError::Thread { name, source })?;
    }
    Ok(sources)
}

/// Checks that no stream falls back to itself, directly or by others.
fn check_fallbacks(away: &BTreeMap<StreamName, Away>) -> Result<(), StartError> {
    for name in away.keys() {
        let next = |name: &StreamName| away.get(name).and_then(|it| it.fallback.clone());
        let followed = std::iter::successors(next(name), next).take(away.len());
        if followed.into_iter().any(|fallback| fallback == *name) {
            return Err(StartError::Circle { name: name.clone() });
        }
    }
    Ok(())
}

/// Reads the images of placeholders.
async fn load_images(
    away: BTreeMap<StreamName, Away>,
) -> Result<BTreeMap<StreamName, AwayContent>, StartError> {
    let mut loaded = BTreeMap::new();
    for (name, away) in away {
        let loading = tokio::task::spawn_blocking(move || AwayContent::load(away));
        let content = match loading.await {
            Ok(content) => content.map_err(Box::new),
            Err(_) => {
                let source = Panicked;
                return Err(StartError::Panicked { name, source });
            }
        };
        let content = content.map_err(|source| StartError::Image {
            name: name.clone(),
            source,
        })?;
        loaded.insert(name, content);
    }
    Ok(loaded)
}

enum Ready {
    File(Clip, glassline_demux::Demuxer),
    Pipe(PipeSource),
    Rtsp(RtspSource),
    Publisher,
}

async fn prepare(
    spec: SourceSpec,
    supervisor: &Arc<Supervisor>,
) -> Result<(StreamName, Ready), StartError> {
    let clip = match spec.input {
        Input::Rtsp(camera) => return Ok((spec.name, Ready::Rtsp(camera))),
        Input::Publisher(_) => return Ok((spec.name, Ready::Publisher)),
        Input::Files(files) => match PipeSource::of(&files) {
            Some(pipe) => return Ok((spec.name, Ready::Pipe(pipe))),
            None => Clip::Files(files),
        },
        Input::Demo => Clip::Demo,
    };
    let name = spec.name.clone();
    let supervisor = Arc::clone(supervisor);
    let opening = tokio::task::spawn_blocking(move || {
        supervisor.catch(Part::Source, || {
            supervisor.fault_point(FaultPoint::OpenFile);
            clip.open().map(|source| (clip, source))
        })
    });
    let opened = match opening.await.unwrap_or(Err(Panicked)) {
        Ok(opened) => opened,
        Err(source) => return Err(StartError::Panicked { name, source }),
    };
    let (clip, source) = opened.map_err(|source| StartError::File {
        name,
        source: Box::new(source),
    })?;
    Ok((spec.name, Ready::File(clip, source)))
}

/// The reason why a source cannot be started.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum StartError {
    /// A file cannot be played.
    #[error("source '{name}': {source}")]
    File {
        /// Name of the stream.
        name: StreamName,
        /// The file, the byte, and what is wrong there.
        source: Box<glassline_demux::Error>,
    },
    /// A file cannot be played because of a mistake of the server.
    #[error(
        "source '{name}': opening the file: {source}; leave the source out until the mistake is fixed"
    )]
    Panicked {
        /// Name of the stream.
        name: StreamName,
        /// Says that the place of the panic is in the log.
        source: Panicked,
    },
    /// Two sources have the same stream name.
    #[error("two sources are called '{name}': give each stream one source")]
    Twice {
        /// Name of the stream.
        name: StreamName,
    },
    /// The image of a placeholder cannot be used.
    #[error("source '{name}': placeholder: {source}")]
    Image {
        /// Name of the stream.
        name: StreamName,
        /// The file, and what is wrong with it.
        source: Box<ImageError>,
    },
    /// A stream would stand in for itself.
    #[error(
        "source '{name}': its fallback leads back to it; name a stream that does not need '{name}'"
    )]
    Circle {
        /// Name of the stream.
        name: StreamName,
    },
    /// The hub refused the stream.
    #[error("source '{name}': {source} (limits.streams)")]
    Create {
        /// Name of the stream.
        name: StreamName,
        /// Reason why the hub refused the stream.
        source: CreateError,
    },
    /// The system has no thread to give.
    #[error("source '{name}': cannot start a thread: {source}")]
    Thread {
        /// Name of the stream.
        name: StreamName,
        /// The error that the system returned.
        source: std::io::Error,
    },
}

#[cfg(test)]
mod tests;
