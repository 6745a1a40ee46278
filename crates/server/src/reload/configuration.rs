//! The configuration file: it is read, checked and made ready whole, and then put in force.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Instant;

use glassline_config::{Config, PemFiles, reason_for_restart};
use glassline_hub::StreamName;
use glassline_ingest::{Input, SourceSpec};
use glassline_runtime::calendar;
use glassline_service::settings::{Cause, Outcome, Reload};
use tokio::runtime::Handle;

use super::parts::Parts;
use super::watched::Files;
use super::{Error, LoadConfig};

/// The configuration, and all files that it was read from.
#[derive(derive_more::Debug)]
#[debug("Configuration {{ .. }}")]
pub(crate) struct Configuration {
    load: Arc<LoadConfig>,
    /// Configuration as it was read when the server started; `None` if it could not be read then.
    at_start: Option<Config>,
    /// Configuration as it was read last.
    loaded: Config,
    /// Sources that the server was started with beside those of the file, and which win over them.
    fixed: Vec<SourceSpec>,
    parts: Parts,
    /// The cause of the next reading.
    pub(super) cause: Cause,
    /// Keys that differ from what is in force, as they were last logged.
    unheeded: Vec<String>,
    /// Sources of the configuration whose streams clients publish, and which begin after that.
    waiting: Vec<StreamName>,
    /// All sources that the configuration in force wants.
    wanted: BTreeMap<StreamName, Input>,
}

impl Configuration {
    /// Prepares to read the configuration again of a server that was started with `config` and the
    /// sources `specs`; `None` if it was started without a file.
    pub(crate) fn new(
        config: &Config,
        specs: &[SourceSpec],
        load: Option<Arc<LoadConfig>>,
        parts: Parts,
    ) -> Option<Self> {
        let load = match (load, config.file()) {
            (Some(load), _) => load,
            (None, Some(file)) => of_file(file.to_owned()),
            (None, None) => return None,
        };
        let at_start = load().ok();
        let of_file = |spec: &&SourceSpec| {
            let of_file = at_start.as_ref().and_then(|it| it.sources.get(&spec.name));
            of_file == Some(&spec.input)
        };
        Some(Self {
            fixed: specs.iter().filter(|it| !of_file(it)).cloned().collect(),
            loaded: at_start.clone().unwrap_or_else(|| config.clone()),
            load,
            at_start,
            parts,
            cause: Cause::default(),
            unheeded: Vec::new(),
            waiting: Vec::new(),
            wanted: BTreeMap::new(),
        })
    }

    /// Returns the certificate files that the configuration in force names.
    pub(super) fn certificate_files(&self) -> Vec<PemFiles> {
        self.parts.running().certificate_files()
    }

    /// Reads everything, makes it ready, and puts it in force. Returns what has changed, and what
    /// only a restart heeds.
    ///
    /// # Errors
    /// Returns [`Error`] if anything of it cannot be put in force; then nothing has changed.
    fn renew(&mut self) -> Result<(Vec<String>, Vec<String>), Error> {
        let loaded = (self.load)().map_err(Error::Config)?;
        let file = file_of(&loaded);
        loaded
            .check_ports()
            .map_err(|error| Error::at(&file, &error))?;
        loaded
            .check_cluster()
            .map_err(|error| Error::at(&file, &error))?;
        self.parts.check(&loaded.auth, &file)?;
        let config = loaded.heeded_by(&self.parts.running());
        let mut sources = config.sources.clone();
        for spec in &self.fixed {
            sources.insert(spec.name.clone(), spec.input.clone());
        }
        let specs = sources.iter().map(|(name, input)| SourceSpec {
            name: name.clone(),
            input: input.clone(),
        });
        config
            .check_programs(&specs.collect::<Vec<_>>())
            .map_err(|error| Error::at(&file, &error))?;
        // Files are read on a thread that may block; sources are tasks.
        let renewing = self.parts.renew(config, sources.clone(), &file);
        let renewed = Handle::current().block_on(renewing)?;
        self.wanted = sources;
        self.wait_for(renewed.waiting);
        let needs_restart = match &self.at_start {
            Some(at_start) => loaded.keys_that_need_restart(at_start),
            None => Vec::new(),
        };
        let mut changed = loaded.keys_that_differ(&self.loaded);
        let heeded_before = self.loaded.heeded_by(&loaded);
        let heeded = heeded_before.keys_that_differ(&loaded);
        changed.retain(|key| heeded.contains(key));
        // What waits is not in force.
        let waits = |key: &String| {
            self.waiting
                .iter()
                .any(|it| *key == format!("sources.{it}"))
        };
        changed.retain(|key| !waits(key));
        if renewed.has_changed && changed.is_empty() {
            changed.push("the content of a file that it names".to_owned());
        }
        self.loaded = loaded;
        Ok((changed, needs_restart))
    }

    /// Notes which sources wait, and says so once.
    fn wait_for(&mut self, waiting: Vec<StreamName>) {
        for name in waiting.iter().filter(|it| !self.waiting.contains(it)) {
            tracing::warn!(
                stream = %name,
                "configuration: this source waits, because a client publishes the stream now; the \
                 source begins once that client has gone"
            );
        }
        self.waiting = waiting;
    }

    /// Says which keys the file has now that only a restart heeds, and why, once for each set of them.
    fn name_unheeded(&mut self, unheeded: &[String]) {
        if unheeded != self.unheeded && !unheeded.is_empty() {
            let file = file_of(&self.loaded);
            for (reason, keys) in by_reason(unheeded) {
                tracing::warn!(
                    "{}: heeded after a restart: {} ({reason})",
                    file.display(),
                    keys.join(", ")
                );
            }
        }
        self.unheeded = unheeded.to_vec();
    }
}

impl Files for Configuration {
    fn paths(&self) -> Vec<&Path> {
        self.loaded
            .files
            .read
            .iter()
            .map(PathBuf::as_path)
            .collect()
    }

    fn go_on(&mut self) -> Option<String> {
        if self.waiting.is_empty() {
            return None;
        }
        let trying = self.parts.try_sources(self.wanted.clone());
        match Handle::current().block_on(trying) {
            Ok(sources) => {
                self.wait_for(sources.waiting);
                let text = sources.text?;
                Some(format!("{text}: the stream was taken until now"))
            }
            Err(error) => {
                tracing::error!(%error, "a source that waited for its stream does not begin");
                self.waiting.clear();
                None
            }
        }
    }

    fn read(&mut self) -> Result<bool, Error> {
        let begin = Instant::now();
        let cause = std::mem::take(&mut self.cause);
        let renewed = self.renew();
        let took = begin.elapsed();
        let (outcome, changed, needs_restart) = match &renewed {
            Ok((changed, needs_restart)) => {
                self.name_unheeded(needs_restart);
                if !changed.is_empty() {
                    tracing::info!("configuration: changed {}", changed.join(", "));
                }
                let outcome = match changed.is_empty() {
                    true => Outcome::Unchanged,
                    false => Outcome::Applied,
                };
                (outcome, changed.clone(), needs_restart.clone())
            }
            Err(error) => {
                let refused = Outcome::Refused(error.to_string());
                (refused, Vec::new(), self.unheeded.clone())
            }
        };
        let reload = Reload {
            cause,
            outcome,
            changed,
            needs_restart,
            took,
        };
        self.parts.settings().history.note(reload, calendar::now());
        renewed.map(|(changed, _)| !changed.is_empty())
    }
}

fn of_file(file: PathBuf) -> Arc<LoadConfig> {
    Arc::new(move || Config::load(&file).map_err(|error| error.to_string()))
}

/// Returns the file of a configuration, for people.
fn file_of(config: &Config) -> PathBuf {
    let file = config.file().map(Path::to_owned);
    file.unwrap_or_else(|| PathBuf::from("the environment"))
}

/// Returns keys by the reasons why they need a restart. One line with all of them would be cut off.
fn by_reason(keys: &[String]) -> BTreeMap<&'static str, Vec<&str>> {
    let mut by_reason = BTreeMap::<_, Vec<&str>>::new();
    for key in keys {
        let of_reason = by_reason.entry(reason_for_restart(key)).or_default();
        of_reason.push(key);
    }
    by_reason
}
