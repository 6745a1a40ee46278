//! Busy loops beside tests, as other work on a build server.

use std::process::{Child, Command, Stdio};

/// Processes that compute without end. Dropping this value ends them.
#[derive(Debug, Default)]
pub(super) struct Load(Vec<Child>);

impl Load {
    /// Starts `count` busy loops, or as many as can be started.
    pub(super) fn start(count: u32) -> Self {
        let mut load = Self::default();
        for _ in 0..count {
            let mut busy = Command::new("sh");
            busy.args(["-c", "while :; do :; done"])
                .stdin(Stdio::null());
            load.0.extend(busy.spawn());
        }
        load
    }
}

impl Drop for Load {
    fn drop(&mut self) {
        for child in &mut self.0 {
            let _ = child.kill();
            let _ = child.wait();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn busy_loops_end_with_the_value() {
        let mut load = Load::start(2);
        assert_eq!(load.0.len(), 2);
        let runs = |child: &mut Child| matches!(child.try_wait(), Ok(None));
        assert!(load.0.iter_mut().all(runs));
        let ids: Vec<u32> = load.0.iter().map(Child::id).collect();
        drop(load);
        for id in ids {
            assert!(!std::path::Path::new(&format!("/proc/{id}/stat")).exists());
        }
    }
}
