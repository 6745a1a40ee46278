//! What a server needs from its machine: a disk for its log, descriptors, somebody who reads.

use std::fs;
use std::process::{Command, Stdio};
use std::time::Duration;

use super::connections::HeldConnections;
use super::{Attack, Concerns, STRANGER};
use crate::chaos::clock::unix_ms;
use crate::chaos::deployment::LogTarget;
use crate::chaos::error::Error;

/// Descriptors that the server may still open while its table is full.
const DESCRIPTORS_LEFT: usize = 4;

/// Connections that strangers try to open while the table is full.
const CONNECTIONS: usize = 60;

/// Time after which every listener serves again when descriptors are free.
const SERVED_MAX: Duration = Duration::from_secs(5);

/// Bytes of the name in a request that the server's log repeats.
const LONG_NAME: usize = 700;

impl Attack<'_> {
    /// Restarts the server with a log on a full disk, causes lines, and restarts it as it was.
    pub(super) fn fill_disk(&mut self) -> Result<(), Error> {
        let from = unix_ms();
        self.deployment.kill_server();
        self.deployment.start_server(LogTarget::FullDisk)?;
        let caused = self.cause_log_lines();
        if let Some(how) = self.deployment.server_ended() {
            self.miss(format!("{how}, with a log on a full disk"));
        } else if !self.deployment.stop_server(Duration::from_secs(10)) {
            self.miss("SIGTERM did not end the server with a log on a full disk".to_owned());
        }
        caused?;
        self.deployment.start_server(LogTarget::File)?;
        self.interrupted(from, Concerns::Everybody);
        Ok(())
    }

    /// Nobody reads the server's log, while strangers cause lines.
    pub(super) fn stall_log(&mut self) -> Result<(), Error> {
        let log = self.deployment.server()?.log();
        log.pause();
        let caused = self.cause_log_lines();
        log.resume();
        caused
    }

    /// Announces streams with long names without rights, which the server logs.
    fn cause_log_lines(&mut self) -> Result<(), Error> {
        let target = self.deployment.configuration.rtsp;
        let sdp = "v=0\r\ns=x\r\nm=audio 0 RTP/AVP 0\r\n";
        let name = "b".repeat(LONG_NAME);
        self.repeat(|attack| {
            let mut held = HeldConnections::new(STRANGER)?;
            for _ in 0..10 {
                let number = attack.outcome.sent;
                let request = format!(
                    "ANNOUNCE rtsp://127.0.0.1/a/{number}{name} RTSP/1.0\r\nCSeq: \
                     1\r\nContent-Type: application/sdp\r\nContent-Length: {}\r\n\r\n{sdp}",
                    sdp.len()
                );
                held.open(target, request.as_bytes());
                attack.outcome.sent += 1;
            }
            attack.outcome.refused += held.refused as u64;
            attack.step(Duration::from_millis(50))
        })
    }

    /// Lowers the limit of the server's descriptors to a few more than it has open, and connects.
    pub(super) fn fill_descriptors(&mut self) -> Result<(), Error> {
        let id = self.deployment.server()?.id();
        let open = fs::read_dir(format!("/proc/{id}/fd")).map_or(0, Iterator::count);
        let limits = fs::read_to_string(format!("/proc/{id}/limits")).unwrap_or_default();
        let line = limits
            .lines()
            .find(|line| line.starts_with("Max open files"));
        let soft = line.and_then(|line| line.split_ascii_whitespace().nth(3));
        let Some(soft) = soft.map(str::to_owned) else {
            self.outcome.skipped = Some("the system does not tell the server's limits".to_owned());
            return Ok(());
        };
        if !set_descriptors(id, &(open + DESCRIPTORS_LEFT).to_string()) {
            self.outcome.skipped = Some("`prlimit` cannot change the server's limit".to_owned());
            return Ok(());
        }
        let filled = self.connect_for_a_while();
        if !set_descriptors(id, &soft) {
            self.note("the limit could not be set back".to_owned());
        }
        filled?;
        // Whatever was refused must be served again now.
        self.wait(Duration::from_secs(2))?;
        for probe in self.deployment.probes() {
            let answer = probe.ask_until_right(SERVED_MAX);
            if let Some(failure) = answer.failure {
                self.miss(format!(
                    "{} does not serve afterwards: {failure}",
                    probe.name
                ));
            }
        }
        Ok(())
    }

    fn connect_for_a_while(&mut self) -> Result<(), Error> {
        let configuration = self.deployment.configuration.clone();
        let targets = [configuration.http, configuration.rtsp, configuration.rtsps];
        let mut held = HeldConnections::new(STRANGER)?;
        for index in 0..CONNECTIONS {
            // The backlog takes them; whether the server does is its own matter.
            held.open(targets[index % targets.len()], b"G");
        }
        self.outcome.sent = CONNECTIONS as u64;
        self.outcome.refused = held.refused as u64;
        let before = self.outcome.notes.len();
        self.wait(self.action.time)?;
        let open = held.settle();
        self.outcome.notes.truncate(before);
        self.note(format!("{open} of {CONNECTIONS} connections were kept"));
        Ok(())
    }
}

/// Sets the soft limit of a process's descriptors.
fn set_descriptors(process: u32, soft: &str) -> bool {
    let mut command = Command::new("prlimit");
    command.args([format!("--pid={process}"), format!("--nofile={soft}:")]);
    let status = command.stdout(Stdio::null()).stderr(Stdio::null()).status();
    status.is_ok_and(|status| status.success())
}
