//! The API for operators: what it serves is what its document says, and a shell does the same.

use std::process::Command;
use std::time::Duration;

use libtest_mimic::Failed;
use serde_json::Value;

use crate::http;
use crate::peers::{self, Peer, Test};
use crate::process::{Running, eventually};
use crate::server::{Server, run_to_end};

pub(crate) const TESTS: &[Test] = &[
    Test::of(&schemathesis_finds_what_the_document_says).needs(&[Peer::Schemathesis]),
    Test::of(&a_shell_makes_a_stream_that_survives_a_kill),
];

/// The checks of the comparison: statuses, types, headers and bodies of answers with the document,
/// refusals of what the document does not allow, and that nothing makes the server fail. Whether a
/// source that fits its schema is accepted is left out: most texts are no source.
const CHECKS: &str = "not_a_server_error,status_code_conformance,content_type_conformance,\
     response_headers_conformance,response_schema_conformance,negative_data_rejection,\
     unsupported_method,allow_header_conformance,use_after_free";

/// Statuses that refuse what the document does not allow. 412 is the right one for a condition that
/// is not `*` (RFC 9110 §15.5.13), and is not among those that Schemathesis expects by itself.
const SETTINGS: &str = "[checks.negative_data_rejection]\n\
     expected-statuses = [\"400\", \"403\", \"404\", \"405\", \"409\", \"412\", \"415\", \"422\"]\n";

/// A folder for the file of a server, removed when dropped.
struct Folder(std::path::PathBuf);

impl Folder {
    fn new(name: &str) -> std::io::Result<Self> {
        let name = format!("glassline-api-{}-{name}", std::process::id());
        let folder = std::env::temp_dir().join(name);
        std::fs::create_dir_all(&folder)?;
        Ok(Self(folder))
    }

    fn yaml(&self) -> String {
        format!("admin: {{state_file: {}/api.json}}\n", self.0.display())
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

fn schemathesis_finds_what_the_document_says() -> Result<(), Failed> {
    let folder = Folder::new("schemathesis")?;
    // Users and tokens that the walk makes close the port to everybody else.
    let token = "0123456789abcdef-walk";
    let auth = format!("auth: {{tokens: [{{name: walk, role: admin, token: {token}}}]}}\n");
    let server = Server::configured(&(folder.yaml() + &auth), &["demo"])?;
    eventually(Duration::from_secs(60), || {
        // The port for viewers asks for nothing.
        let demo = http::get_json(&server.url("/api/v1/streams/demo"))?;
        match demo["state"] == "live" {
            true => Ok(()),
            false => Err(format!("not live: {demo}")),
        }
    })?;
    std::fs::write(folder.0.join("schemathesis.toml"), SETTINGS)?;
    let mut command = Command::new(peers::schemathesis()?);
    command.current_dir(&folder.0).env("NO_COLOR", "1");
    command.args(["run", &server.admin_url("/openapi.json")]);
    command.args(["--header", &format!("Authorization: Bearer {token}")]);
    command.args(["--phases", "examples,coverage,fuzzing", "--checks", CHECKS]);
    command.args([
        "--max-examples",
        "10",
        "--seed",
        "1",
        "--generation-database",
        "none",
    ]);
    // A search for cameras takes ten seconds where it is asked to.
    command.args(["--request-timeout", "30"]);
    command.args(["--exclude-path", "/api/v1/faults", "--warnings", "off"]);
    let mut walk = Running::start("schemathesis", command)?;
    let status = walk.wait(Duration::from_secs(180))?;
    let printed = walk.printed();
    if !status.success() {
        return Err(format!("schemathesis ended with {status}: {printed}").into());
    }
    println!("{printed}");
    Ok(())
}

fn a_shell_makes_a_stream_that_survives_a_kill() -> Result<(), Failed> {
    let folder = Folder::new("shell")?;
    let mut server = Server::configured(&folder.yaml(), &[])?;
    let url = server.admin_url("");
    let api = |arguments: &[&str]| {
        let arguments = [&["api"], arguments, &["--url", &url]].concat();
        run_to_end(&arguments)
    };
    let expect = |arguments: &[&str], code: i32, told: &str| {
        let (status, printed) = api(arguments)?;
        match status.code() == Some(code) && printed.contains(told) {
            true => Ok(()),
            false => Err(format!(
                "{arguments:?}: {status}, not {code} with '{told}': {printed}"
            )),
        }
    };
    expect(&["create", "studio", "demo"], 0, "studio: made, demo")?;
    expect(&["create", "studio", "demo"], 1, "already")?;
    expect(&["change", "other", "demo"], 1, "there is no source")?;
    expect(&["create", "bad", "rtsp://169.254.169.254/"], 1, "metadata")?;
    expect(&["list", "sources", "--where", "origin=api"], 0, "studio")?;
    expect(&["list", "streams", "--where", "page"], 2, "KEY=VALUE")?;
    server.kill_and_start_again()?;
    server.wait_for_state("studio", "live")?;
    let (status, printed) = api(&["show", "studio", "--json"])?;
    let shown: Value = serde_json::from_str(&printed)?;
    if !status.success()
        || shown["stream"]["status"] != "live"
        || shown["source"]["origin"] != "api"
    {
        return Err(format!("{status}: {printed}").into());
    }
    expect(&["delete", "studio"], 0, "studio: deleted")?;
    expect(&["show", "studio"], 1, "no stream called 'studio'")?;
    expect(&["token", "set", "look", "--role", "viewer"], 1, "admin")?;
    let (_, token) = api(&["token", "set", "ci", "--role", "admin"])?;
    expect(&["list", "streams"], 1, "requires a role")?;
    let with_token = ["list", "tokens", "--token", token.trim()];
    expect(&with_token, 0, "ci    admin")?;
    Ok(())
}
