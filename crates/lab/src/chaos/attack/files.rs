//! Broken files that the server is told to read again, and logins with wrong passwords.

use std::time::Duration;

use rand::Rng as _;

use super::connections::ConnectionFlood;
use super::{Attack, STRANGER};
use crate::chaos::configuration::{Configuration, read, write};
use crate::chaos::error::Error;
use crate::chaos::plan::Strength;
use crate::chaos::probe::{Probe, http_get};

/// Time that the server has to read its files again.
const RELOAD: Duration = Duration::from_millis(500);

/// Longest time of a right login.
const LOGIN_MAX: Duration = Duration::from_millis(100);

/// Most processor time of the server while strangers try passwords, in percent of a core.
const LOGIN_CPU_MAX_PERCENT: f64 = 30.0;

/// Time after which a server that read broken files must still, or again, accept a right login.
const ACCEPTED_MAX: Duration = Duration::from_secs(5);

/// Time between two right logins.
const LOGIN_INTERVAL: Duration = Duration::from_millis(250);

/// Contents that no file of the server may have. Empty files are missing: they are whole, and say
/// that there are no users.
const BROKEN: [&str; 3] = ["- name: [", "\u{0}\u{1}\u{2}", "users: {anna: {}}\n"];

impl Attack<'_> {
    /// Breaks users, certificate and configuration one after the other.
    pub(super) fn reload_broken_files(&mut self) -> Result<(), Error> {
        let configuration = self.deployment.configuration.clone();
        let login = self.login();
        for path in [
            &configuration.users,
            &configuration.certificate,
            &configuration.file,
        ] {
            let good = read(path)?;
            let broken = BROKEN[self.random.random_range(0..BROKEN.len())];
            write(path, broken)?;
            let told = self.deployment.server()?.signal("-HUP");
            let waited = self.wait(RELOAD);
            let answer = login.ask_until_right(ACCEPTED_MAX);
            // The files are whole again before anything ends the run.
            write(path, &good)?;
            told?;
            waited?;
            self.outcome.sent += 1;
            if let Some(failure) = answer.failure {
                let name = path.file_name().unwrap_or_default().display();
                self.miss(format!(
                    "with {name} = {broken:?} a right login gets {failure}"
                ));
            }
        }
        self.deployment.server()?.signal("-HUP")?;
        self.wait(RELOAD)?;
        if let Some(failure) = login.ask_until_right(ACCEPTED_MAX).failure {
            self.miss(format!(
                "after whole files were read again a login gets {failure}"
            ));
        }
        Ok(())
    }

    /// Wrong logins at a rate, and right ones beside them.
    pub(super) fn try_passwords(&mut self) -> Result<(), Error> {
        let http = self.deployment.configuration.http;
        let wrong = Configuration::basic("not the password");
        let request = http_get("/api/v1/streams", &wrong);
        let mut flood = ConnectionFlood::new(STRANGER, http, self.action.rate, request.as_bytes())?;
        let login = self.login();
        // The first login is hashed; later ones show what a client waits for.
        let mut longest = 0.0_f64;
        let mut failure = login.ask().failure;
        let server = self.server_cpu();
        let begun = std::time::Instant::now();
        let mut next = begun;
        self.repeat(|_| {
            flood.send();
            if next.elapsed() >= LOGIN_INTERVAL {
                next = std::time::Instant::now();
                let answer = login.ask();
                longest = longest.max(answer.ms.unwrap_or(0.0));
                failure = answer.failure.or(failure.take());
            }
            Ok(())
        })?;
        let cpu = self.server_cpu().zip(server).map(|(now, before)| {
            now.saturating_sub(before).as_secs_f64() / begun.elapsed().as_secs_f64() * 100.0
        });
        let (tried, answered, refused) = flood.counts();
        self.outcome.sent = tried;
        self.outcome.answered = answered;
        self.outcome.refused = refused;
        self.note(format!("a right login took {longest:.0} ms at most"));
        if let Some(failure) = failure {
            self.late(format!("a right login gets {failure}"));
        }
        let longest_ms = self.deployment.plan.patience(LOGIN_MAX).as_millis();
        if longest > longest_ms as f64 {
            self.late(format!(
                "a right login took {longest:.0} ms, not {longest_ms} ms"
            ));
        }
        if let Some(cpu) = cpu {
            self.note(format!("the server used {cpu:.0} % of a core"));
            // The figure is of a build for users, which the smoke does not have.
            let plan = &self.deployment.plan;
            let is_judged = plan.strength != Strength::Smoke && plan.viewers <= IDLE_VIEWERS_MAX;
            if cpu > LOGIN_CPU_MAX_PERCENT && is_judged {
                self.miss(format!(
                    "{cpu:.1} % of a core, not {LOGIN_CPU_MAX_PERCENT} % at most"
                ));
            }
        }
        Ok(())
    }

    /// Processor time of the server so far.
    fn server_cpu(&self) -> Option<Duration> {
        let id = self.deployment.server().ok()?.id();
        let mut process = crate::meter::Process::of(id).ok()?;
        let usage = process.look().ok()?;
        Some(usage.since(&crate::meter::Usage::default()))
    }

    /// A request with the right password.
    fn login(&self) -> Probe {
        let configuration = &self.deployment.configuration;
        let right = Configuration::basic(&configuration.password);
        Probe {
            name: "login",
            address: configuration.http,
            request: http_get("/api/v1/streams", &right),
            wanted: "HTTP/1.1 200",
        }
    }
}

/// Most good viewers whose own processor time is small beside that of logins.
const IDLE_VIEWERS_MAX: usize = 20;
