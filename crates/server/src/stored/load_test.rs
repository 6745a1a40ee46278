//! The last load test of this server, which the dashboard lays over the present load.
//!
//! The file stands beside the one of everything else that was made over the API: a load test may be
//! lost, sources and users may not. So a file that cannot be read is told in the log, and the server
//! starts without a load test.

use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use glassline_runtime::{is_deceptive, private_file, small_file};
use parking_lot::Mutex;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::state_file::StateFileError;

/// Most steps of a load test.
const STEPS_MAX: usize = 500;

/// Most characters of each text.
const CHARS_MAX: usize = 600;

/// Largest file that is read, in bytes: four times what the bounds above allow.
const BYTES_MAX: u64 = 1 << 20;

/// Most viewers of a step, and most percent of one core.
const VIEWERS_MAX: u32 = 10_000_000;
const PERCENT_MAX: f64 = 1e6;

/// A run of `glassline bench viewers`: what is kept of its report. Other members of a report are
/// ignored.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub(crate) struct LoadTest {
    /// Name of the run.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub(crate) label: String,
    /// Protocol of the viewers, like `whep`.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub(crate) protocol: String,
    /// Begin of the run in UTC (RFC 3339); empty if it is not known.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub(crate) started: String,
    /// Summary of the run.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub(crate) verdict: String,
    /// Steps of the ramp. At least one has a figure of the server.
    pub(crate) steps: Vec<LoadStep>,
}

/// A number of viewers, and what they cost the server.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub(crate) struct LoadStep {
    /// Number of viewers.
    pub(crate) viewers: u32,
    /// Processor time of the server, in percent of one core; absent if it was not measured.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) server_cpu_percent: Option<f64>,
    /// Part of the media that the viewers received, of 1; absent if it was not measured.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) delivered_ratio: Option<f64>,
}

/// The reason why a load test is not taken.
#[derive(Debug, thiserror::Error)]
pub(crate) enum LoadTestError {
    #[error("it has {0} steps, and {STEPS_MAX} are kept at most: make the steps of --ramp larger")]
    Steps(usize),
    #[error(
        "no step has `server_cpu_percent`: run `glassline bench viewers` on the machine of the \
         server, with --server-pid"
    )]
    NothingMeasured,
    #[error("step {step}: `{member}` is {value}, which nothing can have measured")]
    Absurd {
        step: usize,
        member: &'static str,
        value: f64,
    },
    #[error("not kept: {0}")]
    File(#[from] StateFileError),
}

impl LoadTest {
    /// Checks the figures, and shortens the texts.
    fn checked(mut self) -> Result<Self, LoadTestError> {
        if self.steps.len() > STEPS_MAX {
            return Err(LoadTestError::Steps(self.steps.len()));
        }
        for (index, step) in self.steps.iter().enumerate() {
            let figures = [
                ("viewers", Some(f64::from(step.viewers)), VIEWERS_MAX.into()),
                ("server_cpu_percent", step.server_cpu_percent, PERCENT_MAX),
                ("delivered_ratio", step.delivered_ratio, 1e3),
            ];
            for (member, value, most) in figures {
                let value = value.unwrap_or_default();
                if !(0.0..=most).contains(&value) {
                    let step = index + 1;
                    return Err(LoadTestError::Absurd {
                        step,
                        member,
                        value,
                    });
                }
            }
        }
        let is_measured = |it: &LoadStep| it.server_cpu_percent.is_some();
        if !self.steps.iter().any(is_measured) {
            return Err(LoadTestError::NothingMeasured);
        }
        let texts = [
            &mut self.label,
            &mut self.protocol,
            &mut self.started,
            &mut self.verdict,
        ];
        for text in texts {
            let visible = text.chars().filter(|it| !is_deceptive(*it));
            *text = visible.take(CHARS_MAX).collect();
        }
        Ok(self)
    }
}

/// The last load test, in memory and in its file.
#[derive(Debug)]
pub(crate) struct StoredLoadTest {
    path: Option<PathBuf>,
    kept: Mutex<Kept>,
}

#[derive(Debug, Default)]
struct Kept {
    load_test: Option<Arc<LoadTest>>,
    /// Counts the changes, so that pages know when to ask again.
    changes: u64,
}

impl StoredLoadTest {
    /// Reads the load test beside the file at `state_file`.
    pub(super) fn load(state_file: Option<&Path>) -> Self {
        let path = state_file.map(|it| it.with_extension("load-test.json"));
        let load_test = path.as_deref().and_then(|path| match read(path) {
            Ok(load_test) => load_test.map(Arc::new),
            Err(error) => {
                let path = path.display();
                tracing::warn!(%path, %error, "the last load test cannot be read: a new one replaces it");
                None
            }
        });
        let kept = Mutex::new(Kept {
            load_test,
            changes: 0,
        });
        Self { path, kept }
    }

    /// Returns the last load test, if there is one.
    pub(crate) fn latest(&self) -> Option<Arc<LoadTest>> {
        self.kept.lock().load_test.clone()
    }

    /// Returns the number of changes since the server started; `None` if there is no load test.
    pub(crate) fn changes(&self) -> Option<u64> {
        let kept = self.kept.lock();
        kept.load_test.as_ref().map(|_| kept.changes)
    }

    /// Keeps `load_test` in place of the one before.
    ///
    /// # Errors
    /// Returns [`LoadTestError`] if it has no figures that can be shown, or cannot be kept. The one
    /// before is then still there.
    pub(crate) fn put(&self, load_test: LoadTest) -> Result<(), LoadTestError> {
        let load_test = load_test.checked()?;
        let path = self.path.as_ref().ok_or(StateFileError::NoPath)?;
        let text = serde_json::to_string(&load_test).expect("plain data");
        let mut kept = self.kept.lock();
        private_file::replace(path, &text).map_err(|error| unusable(path, error))?;
        kept.load_test = Some(Arc::new(load_test));
        kept.changes += 1;
        Ok(())
    }

    /// Forgets the load test. Returns whether there was one.
    ///
    /// # Errors
    /// Returns [`StateFileError`] if the file cannot be removed. The load test is then still there.
    pub(crate) fn remove(&self) -> Result<bool, StateFileError> {
        let mut kept = self.kept.lock();
        if kept.load_test.is_none() {
            return Ok(false);
        }
        if let Some(path) = &self.path {
            match std::fs::remove_file(path) {
                Err(error) if error.kind() != io::ErrorKind::NotFound => {
                    return Err(unusable(path, error));
                }
                _ => {}
            }
        }
        kept.load_test = None;
        kept.changes += 1;
        Ok(true)
    }
}

fn unusable(path: &Path, source: io::Error) -> StateFileError {
    StateFileError::Unusable {
        path: path.to_owned(),
        source,
    }
}

/// Reads and checks the file at `path`; `None` without one.
fn read(path: &Path) -> Result<Option<LoadTest>, Box<dyn std::error::Error>> {
    let text = match small_file::read(path, BYTES_MAX) {
        Ok(text) => text,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        Err(error) => return Err(error.into()),
    };
    let load_test: LoadTest = serde_json::from_slice(&text)?;
    Ok(Some(load_test.checked()?))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn load_test(steps: &[(u32, Option<f64>)]) -> LoadTest {
        let steps = steps.iter().map(|(viewers, percent)| LoadStep {
            viewers: *viewers,
            server_cpu_percent: *percent,
            delivered_ratio: Some(1.0),
        });
        LoadTest {
            label: "a\nrun".repeat(300),
            protocol: "whep".to_owned(),
            started: String::new(),
            verdict: String::new(),
            steps: steps.collect(),
        }
    }

    #[test]
    fn the_last_load_test_survives_a_restart_and_can_be_removed() {
        let folder = std::env::temp_dir().join(format!("glassline-load-{}", std::process::id()));
        let state_file = folder.join("api.json");
        let stored = StoredLoadTest::load(Some(&state_file));
        assert_eq!(stored.latest(), None);
        stored
            .put(load_test(&[(10, Some(1.0))]))
            .expect("the folder is made");
        stored.put(load_test(&[(20, Some(2.0))])).expect("kept");
        assert_eq!(stored.changes(), Some(2));
        let again = StoredLoadTest::load(Some(&state_file));
        let latest = again.latest().expect("it was kept");
        assert_eq!(latest.steps[0].viewers, 20);
        assert_eq!(latest.label.chars().count(), CHARS_MAX);
        assert!(!latest.label.contains('\n'));
        assert!(again.remove().expect("removed"));
        assert!(!again.remove().expect("it is gone"));
        assert_eq!(StoredLoadTest::load(Some(&state_file)).latest(), None);
        // A damaged file is no reason not to start.
        std::fs::write(state_file.with_extension("load-test.json"), "{").expect("ours");
        assert_eq!(StoredLoadTest::load(Some(&state_file)).latest(), None);
        std::fs::remove_dir_all(folder).expect("ours");
    }

    #[test]
    fn what_cannot_be_shown_is_refused_with_its_reason() {
        let stored = StoredLoadTest::load(None);
        let cases = [
            (load_test(&[]), "no step has"),
            (load_test(&[(1, None)]), "--server-pid"),
            (load_test(&[(1, Some(1.0)); 501]), "501 steps"),
            (load_test(&[(1, Some(-1.0))]), "step 1"),
            (load_test(&[(1, Some(1.0)), (1, Some(1e9))]), "step 2"),
            (load_test(&[(1, Some(1.0))]), "admin.state_file"),
        ];
        for (load_test, told) in cases {
            let error = stored.put(load_test).expect_err(told).to_string();
            assert!(error.contains(told), "{error}");
        }
        assert_eq!(stored.latest(), None);
    }
}
