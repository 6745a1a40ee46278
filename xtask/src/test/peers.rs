//! Installs the peers of the tests beside other steps.
//!
//! Installing waits for the network for most of its time, while lints compute. The program runs
//! itself a second time for it, so that what both print does not mix.

use std::fs::File;
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};

use crate::process;

/// An installation that is under way. Dropping it ends it.
pub(super) struct Installing {
    child: Child,
    log: PathBuf,
}

impl Installing {
    /// Begins to install, with a log in the target directory.
    ///
    /// # Errors The log cannot be written, or the program cannot start itself.
    pub(super) fn begin() -> Result<Self, String> {
        let log = process::target_directory().join("peers.log");
        println!(
            "installing the peers of the tests beside lints: {}",
            log.display()
        );
        let failed = |error: std::io::Error| format!("{}: {error}", log.display());
        std::fs::create_dir_all(process::target_directory()).map_err(failed)?;
        let output = File::create(&log).map_err(failed)?;
        let errors = output.try_clone().map_err(failed)?;
        let program = std::env::current_exe().map_err(|error| format!("this program: {error}"))?;
        let child = Command::new(program)
            .arg("peers")
            .stdin(Stdio::null())
            .stdout(output)
            .stderr(errors)
            .spawn()
            .map_err(|error| format!("cannot install peers: {error}"))?;
        Ok(Self { child, log })
    }

    /// Waits for the end, and prints what the installation printed.
    ///
    /// # Errors Peers are missing; the log says which, and how to get them.
    pub(super) fn end(mut self) -> Result<(), String> {
        let ended = self.child.wait();
        let log = std::fs::read(&self.log).unwrap_or_default();
        let log = String::from_utf8_lossy(&log);
        print!("{log}");
        let status = ended.map_err(|error| format!("waiting for peers: {error}"))?;
        match status.success() {
            true => Ok(()),
            false => Err(reason(&log)),
        }
    }
}

impl Drop for Installing {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// The last words of the program: the error with which it ended.
fn reason(log: &str) -> String {
    let error = log.rsplit_once("\nxtask: ").map_or(log, |it| it.1);
    error.trim_end().to_owned()
}

#[cfg(test)]
mod tests {
    use super::reason;

    #[test]
    fn the_reason_is_the_error_at_the_end() {
        let log = "$ go build\nxtask: mvn: not yet\nmore\nxtask: no Go\n    no Maven\n";
        assert_eq!(reason(log), "no Go\n    no Maven");
        assert_eq!(reason("killed"), "killed");
    }
}
