//! Reads the configuration, users and certificates again while the server runs.
//!
//! ```text
//! SIGHUP, API ─► Requests ───┐
//! every few seconds: stat ───┴► files that changed ─► Config ─► made ready ─► swapped in
//! ```
//!
//! One task reads, so reloads never overlap. A configuration is read, checked and made ready whole
//! before the first value is exchanged. A broken file changes nothing: the error names the file, and
//! the previous content stays in force. Connected clients stay connected.

mod configuration;
mod parts;
mod watched;

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};

use glassline_access::tls::{CertificateStore, FilesError};
use glassline_config::{Config, PemFiles};
use glassline_events::EventLog;
use glassline_ingest::ChangeError;
use glassline_runtime::{FaultPoint, Part, Supervisor, calendar};
use glassline_service::settings::{Cause, Settings};
use tokio::sync::watch;

pub(crate) use configuration::Configuration;
pub(crate) use parts::{Parts, of_video, room_bounds, transcoded};
use watched::{Files, Watched};

/// Reads the configuration with everything that overrides the file; an error is a text for people,
/// which names file, line and column.
pub type LoadConfig = dyn Fn() -> Result<Config, String> + Send + Sync;

/// The filter of the log, which belongs to the program that runs the server.
pub trait LogFilter: Send + Sync {
    /// Checks `log.filter` of a configuration.
    ///
    /// # Errors
    /// Returns what is wrong with the filter, for people.
    fn check(&self, filter: Option<&str>) -> Result<(), String>;

    /// Puts `log.filter` in force, which was checked before.
    fn set(&self, filter: Option<&str>);
}

/// How a running server reads its configuration again; by default, from the file that it was started
/// with.
#[derive(Clone, Default, derive_more::Debug)]
#[debug("Reloading {{ .. }}")]
pub struct Reloading {
    /// Reads the configuration; `None` reads the file and the environment.
    pub load: Option<Arc<LoadConfig>>,
    /// The filter of the log; `None` if a reload does not change it.
    pub log: Option<Arc<dyn LogFilter>>,
}

/// Interval at which files are checked. A change is read only once it is as old as this, so that no
/// file is read while it is being written.
const INTERVAL: Duration = Duration::from_secs(5);

/// The watched files, and the parts of the server that use their content.
#[derive(Debug)]
pub(crate) struct Reload {
    configuration: Option<Watched<Configuration>>,
    certificates: Vec<Watched<CertificateFiles>>,
    supervisor: Arc<Supervisor>,
    events: Arc<EventLog>,
}

#[derive(Debug)]
struct CertificateFiles {
    store: Arc<CertificateStore>,
    files: PemFiles,
}

/// The reason why a file was not read.
#[derive(Debug, thiserror::Error)]
enum Error {
    /// The text names the file.
    #[error("{0}")]
    Config(String),
    #[error("{}: {}", .0.display(), .1)]
    Part(PathBuf, String),
    #[error(transparent)]
    Certificate(#[from] FilesError),
    #[error(
        "{}: no user, token or provider is left, which would open every stream to everybody; \
         restart the server if that is meant",
        .0.display()
    )]
    NoUsers(PathBuf),
    #[error(
        "{}: no user or token with a role is left, which would open the admin port to everybody on this \
         machine; restart the server if that is meant",
        .0.display()
    )]
    NoOperators(PathBuf),
    #[error("{}: {}", .0.display(), .1)]
    Source(PathBuf, ChangeError),
}

impl Error {
    fn at(file: impl AsRef<Path>, problem: &impl ToString) -> Self {
        Self::Part(file.as_ref().to_owned(), problem.to_string())
    }
}

impl Reload {
    /// Prepares to reload the file of a server's `configuration`, if it has one, and those of its
    /// `certificates`. What becomes of them is noted in `events`.
    pub(crate) fn new(
        configuration: Option<Configuration>,
        certificates: &[(Arc<CertificateStore>, PemFiles)],
        supervisor: &Arc<Supervisor>,
        events: &Arc<EventLog>,
    ) -> Self {
        let certificates = certificates.iter().cloned();
        let certificates = certificates
            .map(|(store, files)| Watched::new(CertificateFiles { store, files }))
            .collect();
        Self {
            configuration: configuration.map(Watched::new),
            certificates,
            supervisor: Arc::clone(supervisor),
            events: Arc::clone(events),
        }
    }

    /// Checks the files every few seconds, and by request, until `stopped`.
    pub(crate) async fn run(mut self, settings: Arc<Settings>, mut stopped: watch::Receiver<bool>) {
        let mut ticks = tokio::time::interval(INTERVAL);
        let requests = &settings.requests;
        let mut made = requests.watch();
        loop {
            tokio::select! {
                _ = ticks.tick() => {}
                _ = made.changed() => {}
                _ = stopped.wait_for(|stop| *stop) => return,
            }
            // A request may come with a tick: then this look answers the request, too.
            let request = *made.borrow_and_update();
            let asked = requests.open(request);
            // The check runs on a blocking thread, because a file may be on a sleeping disk.
            let looked = tokio::task::spawn_blocking(move || {
                self.look(asked);
                self
            });
            match looked.await {
                Ok(same) => {
                    self = same;
                    if asked.is_some() {
                        requests.note_done(request);
                    }
                }
                Err(error) => {
                    tracing::error!(%error, "files are no longer checked for changes: restart the server");
                    return;
                }
            }
        }
    }

    /// Reads the files that have changed, or all of them if somebody `asked`.
    fn look(&mut self, asked: Option<Cause>) {
        let is_asked = asked.is_some();
        let (supervisor, events) = (&*self.supervisor, &*self.events);
        if let Some(configuration) = &mut self.configuration {
            configuration.files.cause = asked.unwrap_or_default();
            look_at(configuration, is_asked, "configuration", supervisor, events);
            let named = configuration.files.certificate_files();
            for watched in &mut self.certificates {
                let files = &mut watched.files.files;
                let now = named.iter().find(|it| it.section == files.section);
                if let Some(now) = now {
                    files.clone_from(now);
                }
            }
        }
        for watched in &mut self.certificates {
            let what = format!("certificate of {}", watched.files.files.section);
            look_at(watched, is_asked, &what, supervisor, events);
        }
    }
}

/// Looks at files of one kind. A panic is like a broken file: the previous content stays in force,
/// and the other files are looked at all the same.
fn look_at<T: Files>(
    watched: &mut Watched<T>,
    is_asked: bool,
    what: &str,
    supervisor: &Supervisor,
    events: &EventLog,
) {
    let looked = supervisor.catch(Part::Background, || {
        supervisor.fault_point(FaultPoint::Reload);
        watched.look(is_asked, what)
    });
    match looked {
        Ok(Some(event)) => events.note(event, Instant::now(), calendar::now()),
        Ok(None) => {}
        Err(error) => {
            tracing::error!(%error, "{what} not read again: the previous content stays in force");
        }
    }
}

impl Files for CertificateFiles {
    fn paths(&self) -> Vec<&Path> {
        vec![&self.files.certificate, &self.files.key]
    }

    fn read(&mut self) -> Result<bool, Error> {
        match self.files.load() {
            Ok(certificate) => Ok(self.store.replace(certificate)),
            Err(error) => {
                self.store.note_problem(error.to_string());
                Err(error.into())
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_request_that_comes_together_with_a_tick_is_answered() {
        let supervisor = Supervisor::start().expect("a thread");
        for turn in 0..200 {
            let settings = Arc::new(Settings::new(Config::default()));
            let reload = Reload::new(None, &[], &supervisor, &Arc::default());
            let (stop, stopped) = watch::channel(false);
            let running = tokio::spawn(reload.run(Arc::clone(&settings), stopped));
            // The first look is at once and so is the first tick: a request that comes meanwhile
            // waits together with that tick.
            tokio::task::yield_now().await;
            let number = settings.requests.ask(Cause::Api);
            std::thread::sleep(Duration::from_millis(3));
            let answered = settings.requests.done(number);
            let answered = tokio::time::timeout(INTERVAL / 2, answered).await;
            assert!(answered.is_ok(), "no answer in turn {turn}");
            stop.send_replace(true);
            running.await.expect("it ends");
        }
    }
}
