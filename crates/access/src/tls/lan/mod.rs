//! Certificates for a local network: a small private authority on this machine.
//!
//! ```text
//!  state folder: root.key.pem, root.pem ─► root certificate, which people trust once per device
//!                    │ signs, for 13 days
//!                    ▼
//!  addresses and names of this machine ─► leaf.pem ─► CertificateStore
//! ```
//!
//! The root may vouch for private addresses and names only, so that whoever steals its key cannot
//! pretend to be a web site. A leaf is made anew when the machine's addresses change, and in time.

mod authority;
mod names;

use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use parking_lot::RwLock;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use thiserror::Error;
use tokio::sync::watch;

use super::state_folder::{StateFolder, state_folder};
use super::{CertificateStore, StateError};
use authority::LanAuthority;

pub use authority::RootCertificate;
pub use names::LanNames;
pub(super) use names::is_host_name;

/// Interval at which the machine's addresses are looked at.
const INTERVAL: Duration = Duration::from_secs(15);

/// A certificate of this server's own private authority.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct Lan {
    /// More private addresses and names of this machine, like `cam.lan` or that of a container's
    /// host.
    pub names: Vec<String>,
}

/// The reason why the private authority has no certificate.
#[derive(Debug, Error)]
pub enum LanError {
    /// Keys cannot be kept.
    #[error(transparent)]
    State(#[from] StateError),
    /// A file of the authority contains something else.
    #[error(
        "tls.lan: {file} in the state folder is damaged; restore the folder `lan`, or remove it, \
         and trust the new root certificate on all devices"
    )]
    Damaged {
        /// Name of the file in the folder.
        file: &'static str,
    },
    /// A certificate cannot be made.
    #[error("tls.lan: cannot make a certificate: {0}")]
    Make(#[from] rcgen::Error),
    /// TLS rejects a certificate of the authority.
    #[error("tls.lan: {0}")]
    Tls(#[from] rustls::Error),
}

/// Fills a [`CertificateStore`] with leaves of this machine's private authority.
#[derive(Debug)]
pub struct LanSource {
    authority: LanAuthority,
    added: Vec<String>,
    names: RwLock<LanNames>,
    store: Arc<CertificateStore>,
}

impl LanSource {
    /// Opens the authority in the `configured` state folder, or that of the environment, and makes
    /// the first leaf.
    ///
    /// # Errors
    /// Returns [`LanError`] with what to do.
    pub fn open(settings: &Lan, configured: Option<&Path>) -> Result<Self, LanError> {
        let now = SystemTime::now();
        let folder = StateFolder::open(&state_folder(configured)?, "lan")?;
        let source = Self {
            authority: LanAuthority::open(folder, now)?,
            added: settings.names.clone(),
            names: RwLock::default(),
            store: CertificateStore::empty("tls.lan"),
        };
        source.renew(now)?;
        Ok(source)
    }

    /// Returns the store that has the leaf.
    pub const fn store(&self) -> &Arc<CertificateStore> {
        &self.store
    }

    /// Returns the certificate that devices must trust.
    pub const fn root(&self) -> &RootCertificate {
        self.authority.root()
    }

    /// Returns the names that the present leaf has.
    pub fn names(&self) -> LanNames {
        self.names.read().clone()
    }

    /// Looks at the machine's addresses and at the calendar every few seconds until `stopped`, and
    /// makes a leaf when that is needed.
    pub async fn keep(self: Arc<Self>, mut stopped: watch::Receiver<bool>) {
        let mut ticks = tokio::time::interval(INTERVAL);
        loop {
            tokio::select! {
                _ = ticks.tick() => {}
                _ = stopped.wait_for(|stop| *stop) => return,
            }
            // A disk may be slow.
            let source = Arc::clone(&self);
            let renewed =
                tokio::task::spawn_blocking(move || source.renew(SystemTime::now())).await;
            match renewed {
                Ok(Ok(())) => {}
                Ok(Err(error)) => {
                    if self.store.note_problem(error.to_string()) {
                        tracing::error!(%error, "no new certificate: the previous one stays in use");
                    }
                }
                Err(error) => tracing::error!(%error, "making a certificate ended in a panic"),
            }
        }
    }

    /// Makes a leaf if the machine's names have changed or the present leaf is due at `now`.
    fn renew(&self, now: SystemTime) -> Result<(), LanError> {
        let (names, others) = LanNames::of_machine(&self.added).split(self.authority.host());
        let current = self.store.current();
        let is_good = current.is_some_and(|leaf| !authority::is_due(&leaf, now));
        if is_good && self.names() == names {
            return Ok(());
        }
        let leaf = match self.authority.kept_leaf(&names, now) {
            Some(leaf) => leaf,
            None => self.authority.issue(&names, now)?,
        };
        self.store.replace(leaf);
        tracing::info!(names = %names.to_texts().join(", "), "certificate of the private authority in use");
        let refused = others.to_texts().join(", ");
        if !refused.is_empty() {
            tracing::warn!(names = %refused, "not in the certificate, because a private authority vouches for private names only: name certificate files for public ones");
        }
        *self.names.write() = names;
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::path::PathBuf;

    struct Folder(PathBuf);

    impl Folder {
        fn new(name: &str) -> Self {
            let name = format!("glassline-lan-{name}-{}", std::process::id());
            Self(std::env::temp_dir().join(name))
        }

        fn open(&self, names: &[&str]) -> LanSource {
            let names = names.iter().map(|name| (*name).to_owned()).collect();
            LanSource::open(&Lan { names }, Some(&self.0)).expect("an authority")
        }
    }

    impl Drop for Folder {
        fn drop(&mut self) {
            // The system empties its own folder some day, too.
            let _ = std::fs::remove_dir_all(&self.0);
        }
    }

    fn leaf(source: &LanSource) -> Vec<u8> {
        let current = source.store().current().expect("a leaf");
        current.chain()[0].to_vec()
    }

    #[test]
    fn root_and_leaf_stay_over_a_restart_and_a_new_name_makes_a_new_leaf() {
        let folder = Folder::new("restart");
        let first = folder.open(&[]);
        let again = folder.open(&[]);
        assert_eq!(first.root(), again.root());
        assert_eq!(leaf(&first), leaf(&again));
        let named = folder.open(&["cam.lan", "media.example"]);
        assert_eq!(first.root(), named.root());
        assert_ne!(leaf(&first), leaf(&named));
        assert!(named.names().hosts.contains("cam.lan"));
        assert!(
            !named.names().hosts.contains("media.example"),
            "the root may not"
        );
    }

    #[test]
    fn a_leaf_is_replaced_before_its_end_and_when_the_calendar_goes_back() {
        let folder = Folder::new("renewal");
        let source = folder.open(&[]);
        let first = leaf(&source);
        let now = SystemTime::now();
        let day = Duration::from_secs(86_400);
        source.renew(now + 9 * day).expect("nothing to do");
        assert_eq!(leaf(&source), first);
        source.renew(now + 11 * day).expect("a new leaf");
        let second = leaf(&source);
        assert_ne!(second, first);
        source.renew(now).expect("a new leaf");
        assert_ne!(leaf(&source), second, "it is of the future");
    }

    #[test]
    fn damaged_files_are_named() {
        let folder = Folder::new("damaged");
        drop(folder.open(&[]));
        std::fs::write(folder.0.join("lan/root.key.pem"), "no key").expect("ours");
        let opened = LanSource::open(&Lan::default(), Some(&folder.0));
        let error = opened.expect_err("damaged").to_string();
        assert!(error.contains("root.key.pem"), "{error}");
    }
}
