//! The configuration file: its users and sources change while the server runs, the rest is compared.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use tokio::runtime::Handle;

use super::Error;
use super::watched::Files;
use crate::auth::Users;
use crate::config::Config;
use crate::ingest::SourceSpec;
use crate::stored::StoredSources;

/// The configuration file, and the file of users that it names.
#[derive(Debug)]
pub(crate) struct Configuration {
    file: PathBuf,
    users_file: Option<PathBuf>,
    /// What the file had when the server started; `None` if it could not be read then.
    at_start: Option<Config>,
    /// Sources of the command line, which win over those of the file.
    fixed: Vec<SourceSpec>,
    users: Arc<Users>,
    /// Whether a read token, an identity provider or a webhook is in force, which protect streams
    /// even without users.
    has_tokens: bool,
    /// Whether tokens close the admin port even without users that have a role.
    has_operator_tokens: bool,
    sources: Arc<StoredSources>,
    /// Keys that differ from what is in force, as they were last logged.
    unheeded: Vec<String>,
}

impl Configuration {
    /// Prepares to read the file of a server that was started with `config` and the sources `specs`;
    /// `None` if it was started without a file.
    pub(crate) fn new(
        config: &Config,
        specs: &[SourceSpec],
        users: &Arc<Users>,
        sources: &Arc<StoredSources>,
    ) -> Option<Self> {
        let file = config.file.clone()?;
        // The command line is over the file, so that only the file itself tells what it had.
        let at_start = Config::load(&file).ok();
        let of_file = |spec: &&SourceSpec| {
            let of_file = at_start.as_ref().and_then(|it| it.sources.get(&spec.name));
            of_file == Some(&spec.input)
        };
        Some(Self {
            fixed: specs.iter().filter(|it| !of_file(it)).cloned().collect(),
            file,
            users_file: config.auth.users_file.clone(),
            at_start,
            users: Arc::clone(users),
            has_tokens: config.auth.guards_reading(),
            has_operator_tokens: !config.auth.tokens.is_empty() || config.auth.jwt.is_some(),
            sources: Arc::clone(sources),
            unheeded: Vec::new(),
        })
    }

    /// Says which keys the file has now that only a restart heeds, once for each set of them.
    fn name_unheeded(&mut self, now: &Config) {
        let unheeded = match &self.at_start {
            Some(at_start) => at_start.keys_that_differ(now),
            None => Vec::new(),
        };
        if unheeded != self.unheeded && !unheeded.is_empty() {
            tracing::warn!(
                "{}: these keys have changed and are heeded after a restart: {}",
                self.file.display(),
                unheeded.join(", ")
            );
        }
        self.unheeded = unheeded;
    }
}

impl Files for Configuration {
    fn paths(&self) -> Vec<&Path> {
        let files = [Some(&self.file), self.users_file.as_ref()];
        files.into_iter().flatten().map(PathBuf::as_path).collect()
    }

    fn read(&mut self) -> Result<bool, Error> {
        let config = Config::load(&self.file)?;
        let accounts = &config.auth.users;
        let file = config.auth.users_file.as_ref().unwrap_or(&self.file);
        if !self.has_tokens && self.users.would_open_streams(accounts) {
            return Err(Error::NoUsers(file.clone()));
        }
        if !self.has_operator_tokens && self.users.would_open_admin(accounts) {
            return Err(Error::NoOperators(file.clone()));
        }
        let mut wanted = config.sources.clone();
        for spec in &self.fixed {
            wanted.insert(spec.name.clone(), spec.input.clone());
        }
        // Files are read on a thread that may block, sources are tasks.
        let differences = Handle::current().block_on(self.sources.configure(wanted));
        let differences = differences.map_err(|error| Error::Source(self.file.clone(), error))?;
        if !differences.is_empty() {
            tracing::info!("sources: {differences}");
        }
        let has_other_users = self.users.replace(accounts);
        self.users_file.clone_from(&config.auth.users_file);
        self.name_unheeded(&config);
        Ok(has_other_users || !differences.is_empty())
    }
}
