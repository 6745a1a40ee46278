//! The sources that run: each is started, changed and ended on its own.
//!
//! ```text
//! SourceSpec ─► Ready (files opened, images read) ─► stream of the hub ─► thread or task
//! change: the new source is made ready, the old one ends, the new one begins: the stream stays
//! ```

use std::collections::BTreeMap;
use std::sync::Arc;

use glassline_hub::{Hub, State, StreamName};
use glassline_runtime::{BlockingPool, Panicked};
use parking_lot::Mutex;
use tokio::sync::{oneshot, watch};

use super::shared_source::SharedSource;
use super::source_parts::{OPENING, Parts, Ready, Surroundings, prepare};
use super::stand_in::{self, AwayContent};
use super::{Away, SourceSpec, StartError};

/// The running sources: threads of files and tasks of cameras.
#[derive(Debug)]
pub struct Sources {
    services: stand_in::Services,
    surroundings: Surroundings,
    /// Becomes true when the server stops.
    stopped: watch::Receiver<bool>,
    permit: Permit,
    running: Mutex<BTreeMap<StreamName, RunningSource>>,
}

/// Says which sources run on this server, where several servers have the same.
#[derive(derive_more::Debug)]
#[debug("Permit")]
pub struct Permit {
    add: Box<AddSource>,
    remove: Box<dyn Fn(&StreamName) + Send + Sync>,
    is_elsewhere: Box<dyn Fn(&StreamName) -> bool + Send + Sync>,
}

type AddSource = dyn Fn(&StreamName) -> Option<watch::Receiver<bool>> + Send + Sync;

impl Permit {
    /// `add` returns what tells whether a source may run, or `None` for one that always runs;
    /// `remove` is called once the source is no longer there. `is_elsewhere` tells whether another
    /// server has the stream of a name, so that a source of this one waits for its turn.
    pub fn new(
        add: impl Fn(&StreamName) -> Option<watch::Receiver<bool>> + Send + Sync + 'static,
        remove: impl Fn(&StreamName) + Send + Sync + 'static,
        is_elsewhere: impl Fn(&StreamName) -> bool + Send + Sync + 'static,
    ) -> Self {
        Self {
            add: Box::new(add),
            remove: Box::new(remove),
            is_elsewhere: Box::new(is_elsewhere),
        }
    }
}

impl Default for Permit {
    /// Every source always runs.
    fn default() -> Self {
        Self::new(|_| None, |_| (), |_| false)
    }
}

/// One source with all that runs for it.
#[derive(Debug)]
struct RunningSource {
    /// The media that receivers get while the source is away, if there are any.
    away: Option<Away>,
    is_publisher: bool,
    /// Ends the source when dropped.
    end: oneshot::Sender<()>,
    parts: Parts,
}

/// A source whose files are open and whose images are read, so that it can begin at once.
pub struct Prepared {
    spec: SourceSpec,
    ready: Ready,
    away: Option<AwayContent>,
}

impl Prepared {
    /// Returns the name and the source.
    pub fn spec(&self) -> &SourceSpec {
        &self.spec
    }
}

/// The reason why a running source cannot be changed.
#[derive(Debug, thiserror::Error)]
pub enum ChangeError {
    /// The new source cannot be started; the old one goes on.
    #[error(transparent)]
    Start(#[from] StartError),
    /// A client publishes the stream.
    #[error("somebody publishes '{0}' now: choose another name, or end that publisher first")]
    Published(StreamName),
}

/// Makes a stream for each of `specs` and starts its source.
///
/// Files are read through once before anything starts. The built-in clip enters in the codes of
/// `surroundings` when its frames are captured. Sources end when `stopped` becomes true or its sender is dropped, or the
/// result is dropped. A source for which `permit` returns a channel runs only while that says true.
/// Needs a tokio runtime.
///
/// # Errors
/// Returns [`StartError`] if a source can never work: a file that is missing or broken, a name used
/// twice, more streams than the hub takes, a panic while a file is opened. A camera that does not answer is no error; the server
/// tries again until it does.
pub async fn spawn(
    hub: &Arc<Hub>,
    specs: Vec<SourceSpec>,
    surroundings: Surroundings,
    stopped: watch::Receiver<bool>,
    permit: Permit,
) -> Result<Sources, StartError> {
    let supervisor = Arc::clone(&surroundings.supervisor);
    let sources = Sources {
        services: stand_in::Services {
            hub: Arc::clone(hub),
            supervisor: Arc::clone(&supervisor),
            encoders: BlockingPool::new(1),
        },
        surroundings,
        stopped,
        permit,
        running: Mutex::default(),
    };
    let away = specs
        .iter()
        .filter_map(|spec| Some((spec.name.clone(), spec.input.away()?.clone())));
    check_fallbacks(&away.collect())?;
    let mut prepared = Vec::with_capacity(specs.len());
    let mut names = std::collections::BTreeSet::new();
    for spec in specs {
        if !names.insert(spec.name.clone()) {
            return Err(StartError::Twice { name: spec.name });
        }
        let away = load_image(&spec).await?;
        let (_, ready) = prepare(spec.clone(), &supervisor).await?;
        prepared.push(Prepared { spec, ready, away });
    }
    for source in prepared {
        sources.begin(source)?;
    }
    Ok(sources)
}

impl Sources {
    /// Makes a stream and starts its source.
    ///
    /// # Errors
    /// Returns [`ChangeError`] if the source cannot be started, or the stream has a publisher.
    pub async fn add(&self, spec: SourceSpec) -> Result<(), ChangeError> {
        let prepared = self.prepare(vec![spec], &[]).await?;
        for source in prepared {
            self.begin(source)?;
        }
        Ok(())
    }

    /// Makes sources ready that are to begin, each in place of the one that its stream has now, while
    /// those of the streams `ending` end. Nothing has changed until they [begin](Self::replace).
    ///
    /// # Errors
    /// Returns [`ChangeError`] if one of the sources cannot be started, or its stream has a publisher
    /// whom no source of this server expects.
    pub async fn prepare(
        &self,
        specs: Vec<SourceSpec>,
        ending: &[StreamName],
    ) -> Result<Vec<Prepared>, ChangeError> {
        self.check_fallbacks(&specs, ending)?;
        let mut prepared = Vec::with_capacity(specs.len());
        for spec in specs {
            let away = load_image(&spec).await?;
            let (_, ready) = prepare(spec.clone(), &self.services.supervisor).await?;
            if !matches!(ready, Ready::Publisher) && self.is_taken(&spec.name) {
                return Err(ChangeError::Published(spec.name));
            }
            prepared.push(Prepared { spec, ready, away });
        }
        Ok(prepared)
    }

    /// Returns whether a client publishes the stream `name` here, whom no source of this server expects.
    pub fn is_taken(&self, name: &StreamName) -> bool {
        let stream = self.services.hub.stream(name.as_str());
        let is_published = stream.is_some_and(|it| it.is_published());
        is_published && !self.has(name) && !(self.permit.is_elsewhere)(name)
    }

    /// Gives the stream of a running source another one, or begins one whose stream has none. Viewers
    /// stay, and see the new source as soon as it is there; those who cannot show its codecs are told
    /// to join again.
    ///
    /// # Errors
    /// Returns [`StartError`] if the stream cannot be made, or the source's thread cannot be started.
    pub async fn replace(&self, prepared: Prepared) -> Result<(), StartError> {
        let name = &prepared.spec.name;
        let is_publisher = matches!(prepared.ready, Ready::Publisher);
        let old = self.running.lock().remove(name);
        if let Some(old) = old {
            // A stream that clients publish is another one than a stream that the server fetches.
            let is_other = old.is_publisher != is_publisher;
            old.end().await;
            if is_other {
                self.services.hub.delete(name.as_str());
            }
        }
        if let Some(stream) = self.services.hub.stream(name.as_str())
            && !is_publisher
            && !stream.is_published()
        {
            stream.set_state(State::Connecting);
        }
        self.begin(prepared)
    }

    /// Ends a source and deletes its stream.
    pub async fn remove(&self, name: &StreamName) {
        let source = self.running.lock().remove(name);
        // Receivers learn first that the stream was deleted, and not that its source failed.
        self.services.hub.delete(name.as_str());
        if let Some(source) = source {
            source.end().await;
            (self.permit.remove)(name);
        }
    }

    /// Returns what a source needs of the server.
    pub(super) const fn surroundings(&self) -> &Surroundings {
        &self.surroundings
    }

    /// Returns whether the stream `name` has a running source.
    pub fn has(&self, name: &StreamName) -> bool {
        self.running.lock().contains_key(name)
    }

    /// Returns whether this server fetches the stream `name` itself, and no client publishes it.
    pub fn fetches(&self, name: &StreamName) -> bool {
        let running = self.running.lock();
        running.get(name).is_some_and(|source| !source.is_publisher)
    }

    /// Waits until every source has ended, which they do when the server stops.
    pub async fn join(&self) {
        let running = std::mem::take(&mut *self.running.lock());
        for source in running.into_values() {
            source.wait().await;
        }
    }

    /// Checks that no stream falls back to itself once `specs` run and the sources of `ending` do not.
    fn check_fallbacks(
        &self,
        specs: &[SourceSpec],
        ending: &[StreamName],
    ) -> Result<(), StartError> {
        let mut away: BTreeMap<_, _> = self
            .running
            .lock()
            .iter()
            .filter_map(|(name, source)| Some((name.clone(), source.away.clone()?)))
            .collect();
        away.retain(|name, _| !ending.contains(name));
        for spec in specs {
            match spec.input.away() {
                Some(new) => away.insert(spec.name.clone(), new.clone()),
                None => away.remove(&spec.name),
            };
        }
        check_fallbacks(&away)
    }

    /// Makes the stream, unless it is there, and starts the source.
    fn begin(&self, prepared: Prepared) -> Result<(), StartError> {
        let Prepared {
            spec,
            ready: source,
            away,
        } = prepared;
        let (name, hub) = (spec.name.clone(), &self.services.hub);
        let is_publisher = matches!(source, Ready::Publisher);
        let stream = match is_publisher {
            true => hub.reserve(name.clone()),
            false => hub.create(name.clone()),
        };
        let stream = stream.map_err(|source| StartError::Create {
            name: name.clone(),
            source,
        })?;
        stream.set_only_source(spec.input.only_source());
        stream.set_transcode(spec.input.transcode());
        stream.set_ladder(spec.input.ladder());
        let (end, until) = self.ending();
        let mut running = RunningSource {
            away: away.as_ref().map(|it| it.away.clone()),
            is_publisher,
            end,
            parts: Parts::default(),
        };
        if let Some(away) = away {
            let (stream, services) = (Arc::clone(&stream), self.services.clone());
            let standing_in = stand_in::run(stream, away, services, until.clone());
            running.parts.spawn(standing_in);
        }
        let surroundings = self.surroundings.clone();
        let permitted = match is_publisher {
            true => None,
            false => (self.permit.add)(&name),
        };
        let parts = &mut running.parts;
        // Whoever learns that the source publishes asks whether the server fetches it.
        let mut sources = self.running.lock();
        let started = match permitted {
            Some(permitted) => {
                let shared = SharedSource {
                    spec,
                    stream,
                    surroundings,
                    permitted,
                };
                parts.spawn(shared.run(source, until));
                Ok(())
            }
            None => parts.start(source, stream, surroundings, until),
        };
        started.map_err(|source| StartError::Thread {
            name: name.clone(),
            source,
        })?;
        sources.insert(name, running);
        Ok(())
    }

    /// Returns what ends a source when it is dropped, and what tells the source, which also ends with
    /// the server.
    fn ending(&self) -> (oneshot::Sender<()>, watch::Receiver<bool>) {
        let (end, ended) = oneshot::channel();
        let (stop, until) = watch::channel(false);
        let mut stopped = self.stopped.clone();
        tokio::spawn(async move {
            tokio::select! {
                // A dropped sender means that the server ends.
                _ = stopped.wait_for(|stop| *stop) => {}
                _ = ended => {}
            }
            stop.send_replace(true);
        });
        (end, until)
    }
}

impl RunningSource {
    /// Ends the source, and waits until it has ended.
    async fn end(self) {
        let Self { end, parts, .. } = self;
        drop(end);
        parts.wait().await;
    }

    /// Waits until the source has ended.
    async fn wait(self) {
        let Self { end, parts, .. } = self;
        parts.wait().await;
        drop(end);
    }
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

/// Reads the image of a placeholder; `None` if nothing is published in place of the source.
async fn load_image(spec: &SourceSpec) -> Result<Option<AwayContent>, StartError> {
    let Some(away) = spec.input.away().cloned() else {
        return Ok(None);
    };
    let name = || spec.name.clone();
    let loading = OPENING.run(move || AwayContent::load(away));
    match loading.await {
        Ok(Ok(content)) => Ok(Some(content)),
        Ok(Err(error)) => Err(StartError::Image {
            name: name(),
            source: Box::new(error),
        }),
        Err(_) => Err(StartError::Panicked {
            name: name(),
            source: Panicked,
        }),
    }
}
