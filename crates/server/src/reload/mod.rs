//! Reads the configuration, users and certificates again while the server runs.
//!
//! ```text
//! SIGHUP ─► Server::reload ─┐
//! every few seconds: stat ──┴► files that changed ─► Users, StoredSources, CertificateStore
//! ```
//!
//! A broken file changes nothing: the error names the file, and the previous content stays in
//! force. Connected clients stay connected.

mod configuration;
mod watched;

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};

use tokio::sync::watch;

use crate::config::{self, PemFiles};
use crate::events::EventLog;
use crate::ingest::ChangeError;
use crate::runtime::{FaultPoint, Part, Supervisor, calendar};
use crate::tls::{CertificateStore, FilesError};
pub(crate) use configuration::Configuration;
use watched::{Files, Watched};

/// Interval at which files are checked. A change is read only once it is as old as this, so that no
/// file is read while it is being written.
const INTERVAL: Duration = Duration::from_secs(5);

/// Requests to read all files again, counted, and how many of them are done.
#[derive(Debug, Default)]
pub(crate) struct Requests {
    made: watch::Sender<u64>,
    done: watch::Sender<u64>,
}

impl Requests {
    /// Asks for all files to be read again, soon.
    pub(crate) fn ask(&self) {
        self.made.send_modify(|made| *made += 1);
    }

    /// Waits until every request that was made before this call is done.
    pub(crate) async fn finished(&self) {
        let made = *self.made.borrow();
        // The sender is `self`, so the wait ends by a value.
        let _ = self.done.subscribe().wait_for(|done| *done >= made).await;
    }
}

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
    #[error(transparent)]
    Config(#[from] config::Error),
    #[error(transparent)]
    Certificate(#[from] FilesError),
    #[error(
        "{}: no users are left, which would open every stream to everybody; \
         restart the server if that is meant",
        .0.display()
    )]
    NoUsers(PathBuf),
    #[error(
        "{}: no user with a role is left, which would open the admin port to everybody on this \
         machine; restart the server if that is meant",
        .0.display()
    )]
    NoOperators(PathBuf),
    #[error("{}: {}", .0.display(), .1)]
    Source(PathBuf, ChangeError),
}

impl Reload {
    /// Prepares to reload the file of a server's `configuration`, if it has one, and those of its
    /// `certificates`. What becomes of them is noted in `events`.
    pub(crate) fn new(
        configuration: Option<Configuration>,
        certificates: &[(Arc<CertificateStore>, PemFiles)],
        (supervisor, events): (&Arc<Supervisor>, &Arc<EventLog>),
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
    pub(crate) async fn run(mut self, requests: Arc<Requests>, mut stopped: watch::Receiver<bool>) {
        let mut ticks = tokio::time::interval(INTERVAL);
        let mut made = requests.made.subscribe();
        // A request that came before is heard, too.
        made.mark_changed();
        loop {
            let is_asked = tokio::select! {
                _ = ticks.tick() => false,
                changed = made.changed() => changed.is_ok(),
                _ = stopped.wait_for(|stop| *stop) => return,
            };
            let request = *made.borrow_and_update();
            let is_asked = is_asked && request > *requests.done.borrow();
            // The check runs on a blocking thread, because a file may be on a sleeping disk.
            let looked = tokio::task::spawn_blocking(move || {
                self.look(is_asked);
                self
            });
            match looked.await {
                Ok(same) => {
                    self = same;
                    if is_asked {
                        requests.done.send_replace(request);
                    }
                }
                Err(error) => {
                    tracing::error!(%error, "files are no longer checked for changes: restart the server");
                    return;
                }
            }
        }
    }

    /// Reads the files that have changed, or all of them if `is_asked`.
    fn look(&mut self, is_asked: bool) {
        let watchers = (&*self.supervisor, &*self.events);
        if let Some(configuration) = &mut self.configuration {
            look_at(configuration, is_asked, "users and sources", watchers);
        }
        for watched in &mut self.certificates {
            let what = format!("certificate of {}", watched.files.files.section);
            look_at(watched, is_asked, &what, watchers);
        }
    }
}

/// Looks at files of one kind. A panic is like a broken file: the previous content stays in force,
/// and the other files are looked at all the same.
fn look_at<T: Files>(
    watched: &mut Watched<T>,
    is_asked: bool,
    what: &str,
    (supervisor, events): (&Supervisor, &EventLog),
) {
    let looked = supervisor.catch(Part::Background, || {
        supervisor.fault_point(FaultPoint::Reload);
        watched.look(is_asked, what)
    });
    match looked {
        Ok(Some(event)) => events.note(event, (Instant::now(), calendar::now())),
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
