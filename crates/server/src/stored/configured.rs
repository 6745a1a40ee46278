//! The sources of the operator's configuration, which may change while the server runs.

use std::collections::BTreeMap;
use std::fmt;

use futures_util::future::join_all;
use glassline_hub::StreamName;
use glassline_ingest::{ChangeError, Input, Prepared, SourceSpec};
use parking_lot::MutexGuard;

use super::{NamedSource, StoredError, StoredSources};

/// How the sources of a configuration differ from those before.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Differences {
    added: Vec<StreamName>,
    changed: Vec<StreamName>,
    removed: Vec<StreamName>,
    /// New sources whose streams somebody publishes here: they wait until that is over.
    pub(crate) waiting: Vec<StreamName>,
}

impl Differences {
    fn between(before: &BTreeMap<StreamName, Input>, after: &BTreeMap<StreamName, Input>) -> Self {
        let named = |names: Vec<&StreamName>| names.into_iter().cloned().collect();
        let is_new = |name: &&StreamName| !before.contains_key(*name);
        let is_other = |(name, input): &(&StreamName, &Input)| {
            before.get(*name).is_some_and(|before| before != *input)
        };
        let is_gone = |name: &&StreamName| !after.contains_key(*name);
        Self {
            added: named(after.keys().filter(is_new).collect()),
            changed: named(
                after
                    .iter()
                    .filter(is_other)
                    .map(|(name, _)| name)
                    .collect(),
            ),
            removed: named(before.keys().filter(is_gone).collect()),
            waiting: Vec::new(),
        }
    }

    /// Leaves the new sources out whose streams are taken.
    fn leave_out(&mut self, is_taken: impl Fn(&StreamName) -> bool) {
        self.waiting = self.added.extract_if(.., |name| is_taken(name)).collect();
    }

    /// Returns whether none takes effect.
    pub(crate) fn is_empty(&self) -> bool {
        self.added.is_empty() && self.changed.is_empty() && self.removed.is_empty()
    }
}

impl fmt::Display for Differences {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let kinds = [
            ("added", &self.added),
            ("changed", &self.changed),
            ("removed", &self.removed),
        ];
        let mut separator = "";
        for (kind, names) in kinds.into_iter().filter(|(_, names)| !names.is_empty()) {
            let names: Vec<&str> = names.iter().map(StreamName::as_str).collect();
            write!(f, "{separator}{kind} {}", names.join(", "))?;
            separator = "; ";
        }
        Ok(())
    }
}

impl StoredSources {
    /// Makes the sources of the configuration those of `wanted`. All are made ready before the first
    /// one ends; viewers of a source that is changed stay. A source that was made over the API gives
    /// way to one of its name, and runs again once the configuration has none. A new source whose
    /// stream a client publishes is left out: the caller tries again later.
    ///
    /// # Errors
    /// Returns [`ChangeError`] if one of the new sources cannot be started; then nothing has changed.
    /// A thread that the system refuses is found late: the sources before are started again.
    pub(crate) async fn configure(
        &self,
        wanted: BTreeMap<StreamName, Input>,
    ) -> Result<Differences, ChangeError> {
        // Held for the time of the change, as for every other one.
        let _file = self.file.lock().await;
        let before = self.configured().clone();
        let mut differences = Differences::between(&before, &wanted);
        differences.leave_out(|name| {
            let is_fetched = wanted.get(name).is_some_and(|it| !it.is_published());
            is_fetched && self.running.is_taken(name)
        });
        let prepared = self.make_ready(&differences, &wanted).await?;
        if let Err(error) = self.carry_out(&differences, prepared).await {
            let back = Differences::between(&self.configured(), &before);
            let restored = match self.make_ready(&back, &before).await {
                Ok(prepared) => self.carry_out(&back, prepared).await,
                Err(error) => Err(error),
            };
            if let Err(error) = restored {
                tracing::error!(%error, "the sources of the configuration before cannot be started again");
            }
            return Err(error);
        }
        Ok(differences)
    }

    /// Opens the sources that are new in `wanted`.
    async fn make_ready(
        &self,
        differences: &Differences,
        wanted: &BTreeMap<StreamName, Input>,
    ) -> Result<Vec<Prepared>, ChangeError> {
        let new = differences.added.iter().chain(&differences.changed);
        let specs = new.filter_map(|name| {
            let input = wanted.get(name)?.clone();
            let name = name.clone();
            Some(SourceSpec { name, input })
        });
        let (specs, removed) = (specs.collect(), &differences.removed);
        self.running.prepare(specs, removed).await
    }

    async fn carry_out(
        &self,
        differences: &Differences,
        prepared: Vec<Prepared>,
    ) -> Result<(), ChangeError> {
        // All end at the same time: each camera may take a second for its goodbye.
        for name in &differences.removed {
            self.configured().remove(name);
            self.loudspeakers.set(name, None);
        }
        let removing = differences.removed.iter();
        join_all(removing.map(|name| self.running.remove(name))).await;
        for name in &differences.removed {
            self.run_stored(name).await;
        }
        let replacing = prepared.into_iter().map(async |source| {
            let spec = source.spec().clone();
            self.configured().remove(&spec.name);
            let replaced = self.running.replace(source).await;
            if replaced.is_ok() {
                self.loudspeakers.set(&spec.name, Some(&spec.input));
                if let Some(stored) = self.stored.lock().get_mut(&spec.name) {
                    stored.problem = Some(StoredError::Configured(spec.name.clone()).to_string());
                }
                self.configured().insert(spec.name, spec.input);
            }
            replaced
        });
        for replaced in join_all(replacing).await {
            replaced?;
        }
        Ok(())
    }

    /// Starts the source that was made over the API under `name`, if there is one, since the
    /// configuration no longer has the name.
    async fn run_stored(&self, name: &StreamName) {
        let Some(keys) = self.stored.lock().get(name).map(|it| it.keys.clone()) else {
            return;
        };
        let problem = self.start(name, &keys).await.err();
        let problem = problem.map(|error| error.to_string());
        if let Some(problem) = &problem {
            tracing::error!(stream = %name, "the source that was made over the API does not run: {problem}");
        }
        if let Some(stored) = self.stored.lock().get_mut(name) {
            stored.problem = problem;
        }
    }

    /// Returns whether the configuration has a source of this name.
    pub(super) fn is_configured(&self, name: &StreamName) -> bool {
        self.configured().contains_key(name)
    }

    /// Returns the sources of the configuration as operators see them.
    pub(super) fn configured_sources(&self) -> Vec<NamedSource> {
        let configured = self.configured();
        let sources = configured.iter().map(|(name, input)| NamedSource {
            name: name.clone(),
            source: input.to_string(),
            input: Some(input.clone()),
            is_configured: true,
            problem: None,
        });
        sources.collect()
    }

    pub(super) fn configured(&self) -> MutexGuard<'_, BTreeMap<StreamName, Input>> {
        self.configured.lock()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sources(all: &[(&str, &str)]) -> BTreeMap<StreamName, Input> {
        let all = all.iter().map(|(name, input)| {
            let name = StreamName::parse(name).expect("a name");
            (name, Input::parse(input).expect("a source"))
        });
        all.collect()
    }

    #[test]
    fn differences_are_named() {
        let before = sources(&[
            ("gate", "rtsp://10.0.0.1/"),
            ("film", "a.h264"),
            ("door", "demo"),
        ]);
        let after = sources(&[("film", "b.h264"), ("door", "demo"), ("yard", "publisher")]);
        let differences = Differences::between(&before, &after);
        assert_eq!(
            differences.to_string(),
            "added yard; changed film; removed gate"
        );
        assert!(Differences::between(&after, &after).is_empty());
    }
}
