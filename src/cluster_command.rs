//! `glassline cluster`: shows the cluster that a server is in, and drains the server.

use std::fmt::Write as _;
use std::process::ExitCode;
use std::time::Duration;

use clap::{Args, Subcommand};
use serde_json::Value;

use crate::api_command::text;
use crate::exit::Failure;
use crate::{logging, output};

/// Time between two requests with `--watch`.
const INTERVAL: Duration = Duration::from_secs(1);

/// Longest time for an answer.
const PATIENCE: Duration = Duration::from_secs(10);

#[derive(Debug, Subcommand)]
pub(crate) enum Action {
    /// Show the servers of the cluster, the streams with their owners, and what a server pulls.
    Status(StatusOptions),
    /// Let a server take no new publishers, and send those that are left away at a deadline.
    Drain(DrainOptions),
    /// Let a server that drains serve again.
    Resume(Server),
}

/// The server that is asked.
#[derive(Args, Debug)]
pub(crate) struct Server {
    /// URL of the server's admin port.
    #[arg(long, value_name = "URL", default_value = "http://127.0.0.1:9997")]
    admin: String,
    /// Token for the admin port.
    #[arg(
        long,
        value_name = "TOKEN",
        env = "GLASSLINE_ADMIN_TOKEN",
        hide_env_values = true
    )]
    token: Option<String>,
}

#[derive(Args, Debug)]
pub(crate) struct StatusOptions {
    #[command(flatten)]
    server: Server,
    /// Show the status again each second.
    #[arg(long)]
    watch: bool,
    /// Print the answer of the server as JSON.
    #[arg(long)]
    json: bool,
}

#[derive(Args, Debug)]
pub(crate) struct DrainOptions {
    #[command(flatten)]
    server: Server,
    /// Seconds for publishers to leave by themselves.
    #[arg(long, value_name = "S", default_value_t = 30, value_parser = clap::value_parser!(u64).range(..=86_400))]
    within: u64,
}

pub(crate) fn run(action: &Action, quiet: bool) -> Result<ExitCode, Failure> {
    let (server, said) = match action {
        Action::Status(options) => {
            status(options)?;
            return Ok(ExitCode::SUCCESS);
        }
        Action::Drain(DrainOptions { server, within }) => {
            let path = format!("/api/v1/cluster/drain?within_s={within}");
            server.ask("POST", &path)?;
            (server, format!("drains within {within} s"))
        }
        Action::Resume(server) => {
            server.ask("DELETE", "/api/v1/cluster/drain")?;
            (server, "serves".to_owned())
        }
    };
    if !quiet {
        output::print(&format!("the server at {} {said}\n", server.admin))?;
    }
    Ok(ExitCode::SUCCESS)
}

fn status(options: &StatusOptions) -> Result<(), Failure> {
    loop {
        let status = options.server.ask("GET", "/api/v1/cluster")?;
        let text = match options.json {
            true => output::json(&status),
            false => table(&status),
        };
        if !options.watch {
            return output::print(&text);
        }
        // A terminal shows one status at a time, a file all of them.
        match logging::stdout_is_terminal() {
            true => {
                output::clear()?;
                output::print(&text)?;
            }
            false => output::print(&format!("{text}\n"))?,
        }
        pause();
    }
}

#[expect(clippy::disallowed_methods, reason = "a command may wait")]
fn pause() {
    std::thread::sleep(INTERVAL);
}

impl Server {
    /// Asks the server, which must answer with JSON.
    fn ask(&self, method: &str, path: &str) -> Result<Value, Failure> {
        let url = format!("{}{path}", self.admin.trim_end_matches('/'));
        let agent: ureq::Agent = ureq::Agent::config_builder()
            .http_status_as_error(false)
            .timeout_global(Some(PATIENCE))
            .build()
            .into();
        let failed = |error: &dyn std::fmt::Display| {
            Failure::runtime(format_args!(
                "{url}: {error}; --admin names the server's listener for operators (`admin.address`)"
            ))
        };
        let mut request = ureq::http::Request::builder().method(method).uri(&url);
        if let Some(token) = &self.token {
            request = request.header("authorization", format!("Bearer {token}"));
        }
        let request = request.body(()).map_err(Failure::usage)?;
        let mut response = agent.run(request).map_err(|error| failed(&error))?;
        let is_good = response.status().is_success();
        let text = response.body_mut().read_to_string();
        let text = text.map_err(|error| failed(&error))?;
        let answer: Value = serde_json::from_str(&text).map_err(|error| failed(&error))?;
        match is_good {
            true => Ok(answer),
            false => {
                let detail = answer["detail"].as_str().unwrap_or("refused");
                Err(Failure::runtime(format_args!("{url}: {detail}")))
            }
        }
    }
}

/// Returns the status as lines for people.
fn table(status: &Value) -> String {
    let mut out = String::new();
    let engine = &status["engine"];
    let drains = match status["is_draining"].as_bool() {
        Some(true) => ", drains",
        _ => "",
    };
    let (node, region) = (text(&status["node"]), text(&status["region"]));
    let mut line = |cells: &[(usize, String)]| {
        let mut row = String::new();
        for (width, cell) in cells {
            let _ = write!(row, "{cell:<width$} ");
        }
        let _ = writeln!(out, "{}", row.trim_end());
    };
    let about = |what: &str| (8, what.to_owned());
    line(&[about("server"), (0, format!("{node} in {region}{drains}"))]);
    let server = engine["server"].as_str().map(|it| format!(" to {it}"));
    let failure = engine["failure"].as_str().map(|it| format!(": {it}"));
    let state = text(&engine["state"]) + &server.unwrap_or_default() + &failure.unwrap_or_default();
    line(&[about("NATS"), (0, state)]);
    let rows = |of: &str| status[of].as_array().cloned().unwrap_or_default();
    for warning in engine["warnings"].as_array().into_iter().flatten() {
        line(&[about("warning"), (0, text(warning))]);
    }
    let unproven = |node: &Value| match node["is_proven"].as_bool() {
        Some(false) => ", unproven: its record has no valid MAC, so its addresses are not used",
        _ => "",
    };
    for node in rows("nodes") {
        let viewers = format!("{} viewers", text(&node["viewers"]));
        let busy = node["busy_percent"].as_u64();
        let busy = busy.map_or_else(|| "-".to_owned(), |it| format!("{it} % busy"));
        line(&[
            about("node"),
            (20, text(&node["name"])),
            (10, text(&node["state"])),
            (14, viewers),
            (12, busy),
            (22, text(&node["quic"])),
            (0, text(&node["version"]) + unproven(&node)),
        ]);
    }
    for node in rows("nodes") {
        if let Some(ahead) = node["clock_ahead_s"].as_f64() {
            let side = if ahead < 0.0 { "behind" } else { "ahead of" };
            let name = text(&node["name"]);
            let told = format!(
                "the clock of {name} is {} s {side} this server's",
                ahead.abs()
            );
            line(&[about("warning"), (0, told)]);
        }
        if node["state"] == "stranger" {
            let name = text(&node["name"]);
            line(&[
                about("warning"),
                (0, format!("{name} has another cluster.secret")),
            ]);
        }
    }
    if let Some(count) = status["takeovers"].as_u64().filter(|it| *it > 0) {
        line(&[
            about("taken"),
            (
                0,
                format!("{count} streams over from servers that were gone"),
            ),
        ]);
    }
    for stream in rows("streams") {
        let epoch = format!("epoch {}", text(&stream["epoch"]));
        line(&[
            about("stream"),
            (20, text(&stream["name"])),
            (10, text(&stream["kind"])),
            (14, format!("at {}", text(&stream["owner"]))),
            (0, epoch),
        ]);
    }
    for pull in &rows("pulls") {
        line(&[
            about("pull"),
            (20, text(&pull["stream"])),
            (10, format!("from {}", text(&pull["from"]))),
            (0, brought(pull)),
        ]);
    }
    out
}

/// Returns the way of a pulled stream, how long its frames take, and how much came.
fn brought(pull: &Value) -> String {
    let path = pull["path"].as_array().into_iter().flatten();
    let path: Vec<&str> = path.filter_map(Value::as_str).collect();
    let mut told = format!("path {}", path.join(" → "));
    if let Some(delay) = pull["delay_ms"].as_f64() {
        let _ = write!(told, ", {delay} ms");
    }
    if let Some(bytes) = pull["bytes"].as_f64() {
        let _ = write!(told, ", {:.1} MB", bytes / 1e6);
    }
    told
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn the_status_has_a_line_for_each_server_stream_and_pull() {
        let status = json!({
            "node": "a", "region": "eu", "is_draining": true,
            "engine": {"state": "away", "server": null, "failure": "no route", "warnings": ["w"]},
            "nodes": [
                {"name": "b", "state": "dead", "viewers": 3, "quic": "b:1", "version": null},
                {"name": "c", "state": "serving", "viewers": 0, "quic": "c:1", "version": "1",
                 "busy_percent": 12, "clock_ahead_s": -45.2},
                {"name": "d", "state": "stranger", "viewers": null, "quic": null, "version": null},
                {"name": "e", "state": "serving", "viewers": 1, "quic": null, "version": "1",
                 "is_proven": false},
            ],
            "takeovers": 2,
            "streams": [{"name": "cam", "kind": "pushed", "owner": "b", "epoch": 7}],
            "pulls": [{"stream": "cam", "from": "b", "path": ["c", "b"], "bytes": 2_340_000,
                       "delay_ms": 3.25}],
        });
        let text = table(&status);
        let lines: Vec<String> = text
            .lines()
            .map(|line| line.split_whitespace().collect::<Vec<_>>().join(" "))
            .collect();
        let expected = [
            "server a in eu, drains",
            "NATS away: no route",
            "warning w",
            "node b dead 3 viewers - b:1 -",
            "node c serving 0 viewers 12 % busy c:1 1",
            "node d stranger - viewers - - -",
            "node e serving 1 viewers - - 1, unproven: its record has no valid MAC, so its addresses are not used",
            "warning the clock of c is 45.2 s behind this server's",
            "warning d has another cluster.secret",
            "taken 2 streams over from servers that were gone",
            "stream cam pushed at b epoch 7",
            "pull cam from b path c → b, 3.25 ms, 2.3 MB",
        ];
        assert_eq!(lines, expected);
    }
}
