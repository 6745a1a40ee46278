//! Certificates that the server makes itself, and that clients pin by their SHA-256.
//!
//! ```text
//! age of the one in use   0 ─────────── 7 days ───────────── 10 days ─── 13 days
//!                         └ in use ─────┴ in use, the next    ┴ the next   └ clients refuse it
//!                                         one is announced      is in use
//! ```
//!
//! Both are kept in a file, so that a pin outlasts a restart.

use std::io;
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

use glassline_quic::{Fingerprint, Identity, IdentityError, SelfSigned};
use glassline_runtime::{private_file, small_file};
use serde::{Deserialize, Serialize};

/// Largest file that is read: two certificates with their keys have 2 kB.
const BYTES_MAX: u64 = 64 << 10;

/// Age at which the next certificate is made and announced.
const ANNOUNCED_AFTER: Duration = Duration::from_secs(7 * 86_400);

/// Age at which a certificate is replaced.
const REPLACED_AFTER: Duration = Duration::from_secs(10 * 86_400);

/// Longest step back of the calendar that a certificate outlives: it is valid from an hour before
/// it was made.
const STEP_BACK_MAX: Duration = Duration::from_secs(1800);

/// A certificate and when it was made.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
struct Kept {
    made_s: u64,
    #[serde(flatten)]
    certificate: SelfSigned,
}

/// The certificate in use, and the one after it once that is announced.
#[derive(Debug)]
pub(super) struct PinnedCertificates {
    /// Names that new certificates have.
    names: Vec<String>,
    /// File that keeps them; `None` keeps them as long as the process.
    file: Option<PathBuf>,
    /// The one in use first; empty before the first call of [`tend`](Self::tend).
    kept: Vec<Kept>,
}

impl PinnedCertificates {
    /// Reads what an earlier process kept in `file`. A file that cannot be used is replaced.
    pub(super) fn open(names: Vec<String>, file: Option<PathBuf>) -> Self {
        let kept = file.as_deref().map(read).unwrap_or_default();
        Self { names, file, kept }
    }

    /// Forgets certificates that are too old, and makes those that are due. Returns whether anything
    /// has changed.
    ///
    /// # Errors
    /// Returns [`IdentityError`] if no certificate can be made.
    pub(super) fn tend(&mut self, now: SystemTime) -> Result<bool, IdentityError> {
        let before = self.kept.len();
        self.kept
            .retain(|it| it.age(now).is_some_and(|age| age < REPLACED_AFTER));
        let is_due = match self.kept.as_slice() {
            [] => true,
            [only] => only.age(now).is_some_and(|age| age >= ANNOUNCED_AFTER),
            _ => false,
        };
        if is_due {
            self.kept.push(Kept::make(self.names.clone(), now)?);
        }
        let has_changed = is_due || self.kept.len() != before;
        if has_changed && let Err(error) = self.write() {
            tracing::warn!(%error, "the QUIC certificate cannot be kept: the next start has another pin");
        }
        Ok(has_changed)
    }

    /// Returns the certificate in use.
    ///
    /// # Errors
    /// Returns [`IdentityError`] if there is none.
    pub(super) fn present(&self) -> Result<Identity, IdentityError> {
        let none = || IdentityError::Generate("there is none yet".to_owned());
        self.kept.first().ok_or_else(none)?.certificate.identity()
    }

    /// Returns the SHA-256 of the certificate that comes next; `None` before it is announced.
    pub(super) fn next(&self) -> Option<Fingerprint> {
        let next = self.kept.get(1)?.certificate.identity().ok()?;
        Some(next.fingerprint())
    }

    fn write(&self) -> io::Result<()> {
        let Some(file) = &self.file else {
            return Ok(());
        };
        private_file::replace(file, &serde_json::to_string_pretty(&self.kept)?)
    }
}

impl Kept {
    fn make(names: Vec<String>, now: SystemTime) -> Result<Self, IdentityError> {
        let since_epoch = now.duration_since(SystemTime::UNIX_EPOCH);
        Ok(Self {
            made_s: since_epoch.unwrap_or_default().as_secs(),
            certificate: SelfSigned::make(names, now)?,
        })
    }

    /// Returns the age of the certificate; `None` if the calendar went back so far that clients take
    /// it for one of the future.
    fn age(&self, now: SystemTime) -> Option<Duration> {
        let made = SystemTime::UNIX_EPOCH + Duration::from_secs(self.made_s);
        match now.duration_since(made) {
            Ok(age) => Some(age),
            Err(back) => (back.duration() <= STEP_BACK_MAX).then_some(Duration::ZERO),
        }
    }
}

/// Returns the certificates of a file that can be used.
fn read(file: &Path) -> Vec<Kept> {
    let text = match small_file::read(file, BYTES_MAX) {
        Ok(text) => text,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Vec::new(),
        Err(error) => {
            let file = file.display();
            tracing::warn!(%file, %error, "the kept QUIC certificate cannot be read: clients need another pin");
            return Vec::new();
        }
    };
    let kept: Vec<Kept> = serde_json::from_slice(&text).unwrap_or_else(|error| {
        let file = file.display();
        tracing::warn!(%file, %error, "the kept QUIC certificate is damaged: clients need another pin");
        Vec::new()
    });
    let mut kept: Vec<Kept> = kept.into_iter().take(2).collect();
    kept.retain(|it| it.certificate.identity().is_ok() && it.made_s < u64::from(u32::MAX) * 4);
    kept
}

#[cfg(test)]
mod tests {
    use super::*;

    const DAY: Duration = Duration::from_secs(86_400);

    fn at(days: u32) -> SystemTime {
        SystemTime::UNIX_EPOCH + Duration::from_secs(1_800_000_000) + days * DAY
    }

    fn pins(pinned: &PinnedCertificates) -> (Fingerprint, Option<Fingerprint>) {
        let present = pinned.present().expect("there is one");
        (present.fingerprint(), pinned.next())
    }

    fn open(file: Option<&Path>) -> PinnedCertificates {
        PinnedCertificates::open(vec!["localhost".to_owned()], file.map(Path::to_owned))
    }

    #[test]
    fn a_certificate_is_announced_three_days_before_it_is_used() {
        let mut pinned = open(None);
        assert!(pinned.present().is_err());
        assert!(pinned.tend(at(0)).expect("made"));
        let (first, none) = pins(&pinned);
        assert_eq!(none, None);
        assert!(!pinned.tend(at(6)).expect("nothing is due"));
        assert!(pinned.tend(at(7)).expect("made"));
        let (present, next) = pins(&pinned);
        assert_eq!(present, first);
        assert!(!pinned.tend(at(9)).expect("nothing is due"));
        assert!(pinned.tend(at(10)).expect("replaced"));
        let (second, none) = pins(&pinned);
        assert_eq!((Some(second), none), (next, None));
        // From now on each serves for seven days.
        assert!(pinned.tend(at(14)).expect("made"));
        assert!(pinned.next().is_some_and(|third| third != second));
        // Nobody looked for a month: neither is left.
        assert!(pinned.tend(at(44)).expect("made"));
        assert_eq!(pinned.next(), None);
        // The calendar went back: clients would not accept it yet.
        let (late, _) = pins(&pinned);
        assert!(!pinned.tend(at(44) - STEP_BACK_MAX).expect("in use"));
        assert!(pinned.tend(at(43)).expect("made"));
        assert_ne!(pins(&pinned).0, late);
    }

    #[test]
    fn pins_outlast_a_restart() {
        let folder = std::env::temp_dir().join(format!("glassline-pins-{}", std::process::id()));
        let file = folder.join("api.moq.json");
        let mut before = open(Some(&file));
        before.tend(at(0)).expect("made");
        before.tend(at(8)).expect("announced");
        let mut after = open(Some(&file));
        assert!(!after.tend(at(8)).expect("nothing is due"));
        assert_eq!(pins(&after), pins(&before));
        std::fs::write(&file, "damaged").expect("ours");
        let mut fresh = open(Some(&file));
        assert!(fresh.tend(at(8)).expect("made"));
        assert_ne!(pins(&fresh).0, pins(&before).0);
        let again = open(Some(&file));
        assert_eq!(pins(&again), pins(&fresh));
        std::fs::remove_dir_all(folder).expect("ours");
    }

    #[cfg(unix)]
    #[test]
    fn a_pipe_and_a_device_in_the_place_of_the_file_hold_no_start_up() {
        let folder = std::env::temp_dir().join(format!("glassline-pipe-{}", std::process::id()));
        std::fs::create_dir_all(&folder).expect("a folder");
        let pipe = folder.join("api.moq.json");
        let made = std::process::Command::new("mkfifo").arg(&pipe).status();
        assert!(made.expect("mkfifo").success());
        for file in [&*pipe, Path::new("/dev/zero")] {
            assert!(read(file).is_empty(), "{}", file.display());
        }
        std::fs::remove_dir_all(folder).expect("ours");
    }
}
