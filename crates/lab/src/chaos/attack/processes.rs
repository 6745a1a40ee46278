//! Signals to the server, to publishers and to viewers.

use std::time::Duration;

use rand::Rng as _;

use super::{Attack, Concerns};
use crate::chaos::clock::unix_ms;
use crate::chaos::deployment::LogTarget;
use crate::chaos::error::Error;

/// Time of a planned pause between the end of a program and its start.
const PAUSE: Duration = Duration::from_millis(500);

/// Longest time until a server that was started again serves.
const SERVING_MAX: Duration = Duration::from_secs(1);

impl Attack<'_> {
    pub(super) fn kill_server(&mut self) -> Result<(), Error> {
        let from = unix_ms();
        self.deployment.kill_server();
        self.outcome.sent = 1;
        let serving = self.deployment.start_server(LogTarget::File)?;
        self.interrupted(from, Concerns::Everybody);
        let text = format!("serving after {:.2} s", serving.as_secs_f64());
        if serving > self.deployment.plan.patience(SERVING_MAX) {
            self.late(text.clone());
        }
        self.note(text);
        Ok(())
    }

    pub(super) fn stop_server(&mut self) -> Result<(), Error> {
        let from = unix_ms();
        self.deployment.server()?.signal("-STOP")?;
        let waited = self.wait(self.action.time);
        // The server must go on even if the run ends here.
        self.deployment.server()?.signal("-CONT")?;
        waited?;
        self.outcome.sent = 2;
        self.interrupted(from, Concerns::Everybody);
        Ok(())
    }

    pub(super) fn stop_viewers(&mut self) -> Result<(), Error> {
        let index = self.random.random_range(0..self.deployment.groups.len());
        let name = self.deployment.groups[index].name.to_owned();
        let from = unix_ms();
        self.deployment.groups[index].program.signal("-STOP")?;
        let waited = self.wait(self.action.time);
        self.deployment.groups[index].program.signal("-CONT")?;
        waited?;
        self.outcome.sent = 2;
        self.note(format!("the viewers '{name}'"));
        self.interrupted(from, Concerns::Group(name));
        Ok(())
    }

    pub(super) fn stop_publisher(&mut self) -> Result<(), Error> {
        let Some(index) = self.choose_publisher() else {
            return Ok(());
        };
        let origin = self.deployment.publishers[index].origin;
        let from = unix_ms();
        self.deployment.publishers[index].program.signal("-STOP")?;
        let waited = self.wait(self.action.time);
        self.deployment.publishers[index].program.signal("-CONT")?;
        waited?;
        self.outcome.sent = 2;
        self.note(format!("the publisher by {origin:?}"));
        self.interrupted(from, Concerns::Origin(origin));
        Ok(())
    }

    pub(super) fn kill_publisher(&mut self) -> Result<(), Error> {
        let Some(index) = self.choose_publisher() else {
            return Ok(());
        };
        let origin = self.deployment.publishers[index].origin;
        let from = unix_ms();
        self.deployment.publishers[index].program.kill();
        self.wait(PAUSE)?;
        self.deployment.start_publisher(origin)?;
        self.outcome.sent = 1;
        self.note(format!("the publisher by {origin:?}"));
        self.interrupted(from, Concerns::Origin(origin));
        // A server that has not noticed the death refuses the name until it does.
        self.wait(self.action.time)?;
        self.deployment.restart_ended_publishers()
    }

    fn choose_publisher(&mut self) -> Option<usize> {
        let count = self.deployment.publishers.len();
        if count == 0 {
            self.outcome.skipped = Some("there is no publisher".to_owned());
            return None;
        }
        Some(self.random.random_range(0..count))
    }
}
