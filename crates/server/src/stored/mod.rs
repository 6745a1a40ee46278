//! Sources, users and tokens that were made over the API, and are kept in a file of the server's own.
//!
//! ```text
//! PUT, DELETE ─► Permitted: may a caller name this? ─► StateFile ─► ingest::Sources ─► hub
//! start       ─► StateFile ─► Permitted ─► ingest::Sources
//! configure   ─► what the operator's file has now ─► ingest::Sources
//! users, tokens ◄► StateFile ─► auth::Users
//! ```
//!
//! The operator's configuration is never written, and its names win. What runs is in the file: the
//! file is written first, and again as it was if the source cannot be started.

mod cameras;
mod configured;
mod kept_logins;
mod load_test;
mod login_rights;
mod logins;
mod permitted;
mod restart;
mod state_file;
mod trial;

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::{Arc, LazyLock};

use glassline_access::auth::Users;
use glassline_config::{ApiSources, SourceKeys};
use glassline_hub::StreamName;
use glassline_ingest::stream_names;
use glassline_ingest::{ChangeError, Input, SourceSpec, Sources, SpecError};
use glassline_runtime::{BlockingPool, Current, Panicked};
use parking_lot::Mutex;
use tokio::sync::Semaphore;

use crate::talk::Loudspeakers;
use permitted::{NotPermitted, Permitted};
use state_file::StateFile;

pub(crate) use load_test::{LoadTest, LoadTestError, StoredLoadTest};
pub(crate) use login_rights::Rights;
pub(crate) use logins::{LoginsError, StoredLogins, UserChange};
pub use state_file::StateFileError;
pub(crate) use trial::TrialRefusal;

/// The file of everything that was made over the API, held by the one change that is made at a time.
type SharedFile = Arc<tokio::sync::Mutex<StateFile>>;

/// Changes of operators that wait for the disk or hash a password at a time: whoever asks and hangs up
/// has no more of them.
const CHANGING_MAX: usize = 4;

/// Threads for such changes, of all servers of the process.
static CHANGING: LazyLock<BlockingPool> = LazyLock::new(|| BlockingPool::new(CHANGING_MAX));

/// The objects that were made over the API.
#[derive(Clone, Debug)]
pub(crate) struct Stored {
    pub(crate) sources: Arc<StoredSources>,
    pub(crate) logins: Arc<StoredLogins>,
    /// The last load test of this server.
    pub(crate) load_test: Arc<StoredLoadTest>,
}

impl Stored {
    /// Reads the file at `path`, starts the sources that are in it, and gives its users and tokens to
    /// `users`.
    ///
    /// # Errors
    /// Returns [`StateFileError`] if the file cannot be read.
    pub(crate) async fn load(
        path: Option<PathBuf>,
        limits: &ApiSources,
        configured: &[SourceSpec],
        services: Services,
        users: &Arc<Users>,
    ) -> Result<Self, StateFileError> {
        let load_test = StoredLoadTest::load(path.as_deref());
        let file = StateFile::open(path)?;
        let content = file.content().clone();
        if let Some(told) = file.summary() {
            tracing::info!("{told}");
        }
        let file = Arc::new(tokio::sync::Mutex::new(file));
        let logins = StoredLogins::load(Arc::clone(&file), &content, users);
        let kept = content.sources;
        let sources = StoredSources::load(file, kept, limits, configured, services).await;
        Ok(Self {
            sources: Arc::new(sources),
            logins: Arc::new(logins),
            load_test: Arc::new(load_test),
        })
    }
}

impl Stored {
    /// Runs a change on a thread that may wait for the disk.
    ///
    /// # Errors
    /// Returns [`Panicked`] if the change panics.
    pub(crate) async fn change<T: Send + 'static>(
        &self,
        change: impl FnOnce() -> T + Send + 'static,
    ) -> Result<T, Panicked> {
        CHANGING.run(change).await
    }
}

/// All sources of streams: those of the configuration, and those that were made over the API.
#[derive(Debug)]
pub(crate) struct StoredSources {
    configured: Mutex<BTreeMap<StreamName, Input>>,
    permitted: Current<Permitted>,
    running: Arc<Sources>,
    loudspeakers: Arc<Loudspeakers>,
    stored: Mutex<BTreeMap<StreamName, StoredSource>>,
    file: SharedFile,
    /// Holds the trials of sources that run at the same time.
    trials: Arc<Semaphore>,
}

/// One source that was made over the API.
#[derive(Clone, Debug)]
struct StoredSource {
    keys: SourceKeys,
    /// The reason why the source does not run, although it is kept.
    problem: Option<String>,
}

/// A source as operators see it.
#[derive(Clone, Debug)]
pub(crate) struct NamedSource {
    pub(crate) name: StreamName,
    /// Form of the configuration, with the password hidden.
    pub(crate) source: String,
    /// The input of the source; `None` if its text can no longer be read.
    pub(crate) input: Option<Input>,
    /// Whether the source is of the configuration, and can only be changed there.
    pub(crate) is_configured: bool,
    /// The reason why the source does not run.
    pub(crate) problem: Option<String>,
}

/// Most sources that may be made over the API.
const SOURCES_MAX: usize = 10_000;

/// Most bytes of a source, as the file has it.
const SOURCE_BYTES_MAX: usize = 8 << 10;

/// Whether a change is for a source that must exist, or must not.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Expected {
    #[default]
    Any,
    Absent,
    Present,
}

/// The change that was made to the source.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Put {
    Created,
    Changed,
}

/// The reason why a source was not made, changed or deleted.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub(crate) enum StoredError {
    /// The configuration has a source of this name.
    #[error(
        "the configuration has the source '{0}', and only its file can change it: choose another name, or remove the source there"
    )]
    Configured(StreamName),
    /// There is no such source.
    #[error("there is no source '{0}'; GET /api/v1/sources lists them")]
    Absent(StreamName),
    /// There is a source already.
    #[error("there is a source '{0}' already")]
    Present(StreamName),
    /// The source has too many bytes.
    #[error(
        "the source has {0} bytes, and one that is made over the API has {SOURCE_BYTES_MAX} at most: shorten its URL"
    )]
    TooLong(usize),
    /// There are too many sources.
    #[error("there are {SOURCES_MAX} sources of the API already: delete one first")]
    TooMany,
    /// The source cannot be understood.
    #[error(transparent)]
    Spec(#[from] SpecError),
    /// The caller must not name this.
    #[error(transparent)]
    NotPermitted(#[from] NotPermitted),
    /// The source cannot be started.
    #[error(transparent)]
    Change(#[from] ChangeError),
    /// The source is kept, and does not run.
    #[error(
        "the source '{0}' does not run: GET /api/v1/sources/{0} says why; change it, or delete it"
    )]
    Stopped(StreamName),
    /// A client publishes the stream, so that the server has nothing to dial.
    #[error(
        "clients publish '{0}', and the server cannot dial them: end the publisher's session, and it may publish again"
    )]
    NotFetched(StreamName),
    /// The file cannot be written.
    #[error("not kept: {0}")]
    File(#[from] StateFileError),
}

/// The running parts of the server that learn of sources.
#[derive(Debug)]
pub(crate) struct Services {
    pub(crate) running: Arc<Sources>,
    pub(crate) loudspeakers: Arc<Loudspeakers>,
}

impl StoredSources {
    /// Starts the sources of the file. A source that cannot be started is kept and shown with its
    /// problem.
    async fn load(
        file: SharedFile,
        kept: BTreeMap<String, SourceKeys>,
        limits: &ApiSources,
        configured: &[SourceSpec],
        services: Services,
    ) -> Self {
        let configured = configured
            .iter()
            .map(|spec| (spec.name.clone(), spec.input.clone()));
        let sources = Self {
            configured: Mutex::new(configured.collect()),
            permitted: Current::new(Permitted::new(limits)),
            running: services.running,
            loudspeakers: services.loudspeakers,
            stored: Mutex::default(),
            file,
            trials: Arc::new(Semaphore::new(trial::TRIALS_MAX)),
        };
        for (name, keys) in kept {
            let name = match stream_names::parse(&name) {
                Ok(name) => name,
                Err(error) => {
                    tracing::error!(%error, "a source that was made over the API is left out");
                    continue;
                }
            };
            let problem = sources.start(&name, &keys).await.err();
            let problem = problem.map(|error| error.to_string());
            if let Some(problem) = &problem {
                tracing::error!(stream = %name, "the source that was made over the API does not run: {problem}");
            }
            sources
                .stored
                .lock()
                .insert(name, StoredSource { keys, problem });
        }
        sources
    }

    /// Replaces what callers may name from now on. Sources that were made before go on.
    pub(crate) fn set_limits(&self, limits: &ApiSources) {
        self.permitted.replace(Permitted::new(limits));
    }

    /// Returns all sources by name. A stored source whose name the configuration took has its entry
    /// besides that of the configuration, with the problem.
    pub(crate) fn list(&self) -> Vec<NamedSource> {
        let mut all = self.configured_sources();
        all.extend(
            self.stored
                .lock()
                .iter()
                .map(|(name, stored)| stored.named(name)),
        );
        all.sort_by(|a, b| a.name.cmp(&b.name));
        all
    }

    /// Returns where the source of the stream `name` was named: `configuration` or `api`; `None` if the
    /// stream has no source of its own.
    pub(crate) fn origin(&self, name: &StreamName) -> Option<&'static str> {
        if self.is_configured(name) {
            return Some("configuration");
        }
        self.stored.lock().contains_key(name).then_some("api")
    }

    /// Returns the source of the stream `name`; that of the configuration if there are two.
    ///
    /// # Errors
    /// Returns [`StoredError::Absent`] if there is none.
    pub(crate) fn get(&self, name: &StreamName) -> Result<NamedSource, StoredError> {
        let mut named = self.list();
        named.retain(|it| it.name == *name);
        named.sort_by_key(|it| !it.is_configured);
        let found = named.into_iter().next();
        found.ok_or_else(|| StoredError::Absent(name.clone()))
    }

    /// Makes the source of the stream `name`, or changes it. Viewers of a changed source stay.
    ///
    /// # Errors
    /// Returns [`StoredError`] with what is wrong; everything is then as before.
    pub(crate) async fn put(
        &self,
        name: &StreamName,
        keys: SourceKeys,
        expected: Expected,
    ) -> Result<Put, StoredError> {
        // What takes long, and changes nothing, is done before others have to wait.
        let bytes = serde_json::to_string(&keys).map_or(0, |it| it.len());
        if bytes > SOURCE_BYTES_MAX {
            return Err(StoredError::TooLong(bytes));
        }
        let input = self.permitted.get().check(keys.input()?).await?;
        let mut file = self.file.lock().await;
        if self.is_configured(name) {
            return Err(StoredError::Configured(name.clone()));
        }
        let before = self.stored.lock().get(name).cloned();
        match (&before, expected) {
            (Some(_), Expected::Absent) => return Err(StoredError::Present(name.clone())),
            (None, Expected::Present) => return Err(StoredError::Absent(name.clone())),
            (None, _) if self.stored.lock().len() >= SOURCES_MAX => {
                return Err(StoredError::TooMany);
            }
            _ => {}
        }
        let content = file.content().clone();
        let mut changed = content.clone();
        changed.sources.insert(name.to_string(), keys.clone());
        file.write(&changed)?;
        let is_running = before.as_ref().is_some_and(|it| it.problem.is_none());
        if let Err(error) = self.run(name, input, is_running).await {
            if is_running && !self.running.has(name) {
                // The old source ended before the new one failed.
                let problem = Some(error.to_string());
                self.stored
                    .lock()
                    .entry(name.clone())
                    .and_modify(|it| it.problem = problem);
            }
            file.write_back(&content)?;
            return Err(error);
        }
        let problem = None;
        self.stored
            .lock()
            .insert(name.clone(), StoredSource { keys, problem });
        Ok(match before {
            Some(_) => Put::Changed,
            None => Put::Created,
        })
    }

    /// Deletes the source of the stream `name` and the stream, whose viewers and publisher end.
    ///
    /// # Errors
    /// Returns [`StoredError`] if there is no such source, or the file cannot be written.
    pub(crate) async fn delete(&self, name: &StreamName) -> Result<(), StoredError> {
        let mut file = self.file.lock().await;
        let stored = self.stored.lock().get(name).cloned();
        let is_configured = self.is_configured(name);
        let Some(stored) = stored else {
            return Err(match is_configured {
                true => StoredError::Configured(name.clone()),
                false => StoredError::Absent(name.clone()),
            });
        };
        let mut content = file.content().clone();
        content.sources.remove(name.as_str());
        file.write(&content)?;
        self.stored.lock().remove(name);
        // One that does not run has no stream: the name may be that of another's.
        if stored.problem.is_none() {
            self.loudspeakers.set(name, None);
            self.running.remove(name).await;
        }
        Ok(())
    }

    /// Starts a source that the file has.
    async fn start(&self, name: &StreamName, keys: &SourceKeys) -> Result<(), StoredError> {
        if self.is_configured(name) {
            return Err(StoredError::Configured(name.clone()));
        }
        let input = self.permitted.get().limit(keys.input()?).await?;
        self.run(name, input, false).await
    }

    /// Starts a source, or changes the one that is running.
    async fn run(
        &self,
        name: &StreamName,
        input: Input,
        is_running: bool,
    ) -> Result<(), StoredError> {
        let spec = SourceSpec {
            name: name.clone(),
            input: input.clone(),
        };
        if is_running {
            for source in self.running.prepare(vec![spec], &[]).await? {
                let replaced = self.running.replace(source).await;
                replaced.map_err(ChangeError::Start)?;
            }
        } else {
            self.running.add(spec).await?;
        }
        self.loudspeakers.set(name, Some(&input));
        Ok(())
    }
}

impl StoredSource {
    fn named(&self, name: &StreamName) -> NamedSource {
        let input = self.keys.input();
        NamedSource {
            name: name.clone(),
            source: match &input {
                Ok(input) => input.to_string(),
                Err(_) => String::new(),
            },
            input: input.ok(),
            is_configured: false,
            problem: self.problem.clone(),
        }
    }
}
