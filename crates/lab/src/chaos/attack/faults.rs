//! Faults that only a server with debug assertions can be told to make.

use std::net::SocketAddr;
use std::time::Duration;

use super::{Attack, Concerns};
use crate::chaos::clock::unix_ms;
use crate::chaos::error::Error;
use crate::chaos::probe::{Answer, Probe};

/// Longest time until a shard that panicked serves again.
const SERVING_MAX: Duration = Duration::from_secs(1);

/// Steps of the calendar in ms: NTP corrections, a lost hour, years in both directions.
const STEPS_MS: [i64; 6] = [
    500,
    -500,
    3_600_000,
    -3_600_000,
    10 * 365 * 86_400_000,
    -10 * 365 * 86_400_000,
];

impl Attack<'_> {
    /// One of two shards panics.
    pub(super) fn panic_in_a_shard(&mut self) -> Result<(), Error> {
        let from = unix_ms();
        let admin = self.deployment.configuration.admin;
        if !self.inject(admin, "thread=shard-0&kind=panic") {
            return Ok(());
        }
        self.interrupted(from, Concerns::Everybody);
        let health = self.deployment.health();
        let begun = std::time::Instant::now();
        while health.ask().ms.is_none() && begun.elapsed() < 5 * SERVING_MAX {
            self.step(Duration::from_millis(10))?;
        }
        let took = begun.elapsed();
        let text = format!("healthy after {:.2} s", took.as_secs_f64());
        if took > self.deployment.plan.patience(SERVING_MAX) {
            self.late(text.clone());
        }
        self.note(text);
        self.wait(self.action.time.min(Duration::from_secs(5)))
    }

    /// The calendar of the server's process jumps to and fro, and ends where it was.
    pub(super) fn step_clock(&mut self) -> Result<(), Error> {
        let pause = self.action.time / 6;
        let admin = self.deployment.configuration.admin;
        for step in STEPS_MS {
            if !self.inject(admin, &format!("kind=calendar&step_ms={step}")) {
                return Ok(());
            }
            self.wait(pause)?;
        }
        Ok(())
    }

    /// Asks the admin port of a server for a fault; returns false if the server cannot make faults.
    pub(super) fn inject(&mut self, admin: SocketAddr, fault: &str) -> bool {
        let Answer { failure, .. } = Probe {
            name: "fault",
            address: admin,
            request: format!(
                "POST /api/v1/faults?{fault} HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Length: \
                 0\r\nConnection: close\r\n\r\n"
            ),
            wanted: "HTTP/1.1 202",
        }
        .ask();
        match failure {
            Some(failure) => {
                let text = format!("the server was built without debug assertions ({failure})");
                self.outcome.skipped = Some(text);
                false
            }
            None => {
                self.outcome.sent += 1;
                true
            }
        }
    }
}
