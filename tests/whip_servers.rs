//! `glassline publish` to the WHIP servers of other WebRTC stacks.

use libtest_mimic::Failed;
use serde_json::Value;

use crate::peers::{self, Peer, Test};
use crate::process::{PATIENCE, Running, eventually};
use crate::server::glassline;

pub(crate) const TESTS: &[Test] = &[
    Test::of(&pion_without_rtx_gets_lost_packets_and_is_followed_by_twcc)
        .needs(&[Peer::PionWhipServer]),
    Test::of(&aiortc_decodes_and_is_followed_by_its_reports).needs(&[Peer::Aiortc]),
];

fn pion_without_rtx_gets_lost_packets_and_is_followed_by_twcc() -> Result<(), Failed> {
    let mut command = peers::go("whipserver")?;
    command.args(["-addr=127.0.0.1:0", "-loss=0.02"]);
    let server = Server::start("pion", command)?;
    let publisher = server.publish("demo")?;
    let seen = server.eventually(|seen| {
        let packets = |kind: &str| seen[kind]["packets"].as_u64().unwrap_or_default();
        packets("video") >= 3000 && packets("audio") >= 500
    })?;
    let video = &seen["video"];
    let count = |name: &str| video[name].as_u64().unwrap_or_default();
    // Of 3,000 packets, 60 are lost.
    if count("repeated") < 20 || count("missing") > 3 {
        return Err(format!("lost packets do not come again: {seen}").into());
    }
    let figures = server.end(publisher)?;
    let bytes = |name: &str| figures[name].as_u64().unwrap_or_default();
    let lost = bytes("lost_bytes") as f64 / bytes("wire_bytes") as f64;
    if figures["feedback"] != "transport-wide"
        || bytes("wire_bytes") < bytes("sent_bytes")
        || !(0.005..0.05).contains(&lost)
    {
        return Err(format!("feedback is not about the whole stream: {figures}").into());
    }
    Ok(())
}

fn aiortc_decodes_and_is_followed_by_its_reports() -> Result<(), Failed> {
    let server = Server::start("aiortc", peers::aiortc("aiortc_whip_server.py")?)?;
    let publisher = server.publish("test?size=320x180&fps=25")?;
    let seen = server.eventually(|seen| seen["video"].as_u64() >= Some(100))?;
    if seen["size"] != serde_json::json!([320, 180]) {
        return Err(format!("another picture: {seen}").into());
    }
    let figures = server.end(publisher)?;
    if figures["feedback"] != "receiver-reports" {
        return Err(format!("other feedback: {figures}").into());
    }
    Ok(())
}

/// A WHIP server that prints each second what it has.
struct Server {
    program: Running,
    url: String,
}

impl Server {
    fn start(name: &str, command: std::process::Command) -> Result<Self, Failed> {
        let program = Running::start(name, command)?;
        let url = program.wait_for_line(PATIENCE, |line| {
            line.strip_prefix("ready ").map(str::to_owned)
        })?;
        Ok(Self { program, url })
    }

    fn publish(&self, input: &str) -> Result<Running, Failed> {
        let command = glassline(&["publish", input, &self.url, "--json", "-", "--log", "warn"]);
        Ok(Running::start("publish", command)?)
    }

    /// Waits until the server has what it `wanted`, and returns that.
    fn eventually(&self, wanted: impl Fn(&Value) -> bool) -> Result<Value, Failed> {
        let latest = || {
            let printed = self.program.printed();
            let line = printed.lines().rev().find(|line| line.starts_with('{'))?;
            serde_json::from_str::<Value>(line).ok()
        };
        let seen = eventually(PATIENCE, || match latest() {
            Some(seen) if wanted(&seen) => Ok(seen),
            seen => Err(format!("{seen:?}")),
        });
        Ok(seen?)
    }

    /// Ends the publisher, and returns the figures that it prints.
    fn end(&self, mut publisher: Running) -> Result<Value, Failed> {
        publisher.signal("-INT")?;
        let status = publisher.wait(PATIENCE)?;
        let printed = publisher.printed();
        if status.code() != Some(130) {
            return Err(format!("{status}, not 130: {printed}").into());
        }
        crate::publish::figures(&printed)
    }
}
