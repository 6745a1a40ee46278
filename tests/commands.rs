//! The command line: exit codes, and messages that say what to change.

use std::fs;
use std::net::TcpListener;
use std::path::Path;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use glassline_access::auth::{Account, Name};
use libtest_mimic::Failed;

use crate::peers::Test;
use crate::process::eventually;
use crate::server::{Server, run_to_end, write_file};

pub(crate) const TESTS: &[Test] = &[
    Test::of(&a_missing_file_is_named),
    Test::of(&a_truncated_file_is_named_with_the_byte),
    Test::of(&a_port_in_use_is_named),
    Test::of(&an_unknown_key_gets_a_suggestion),
    Test::of(&config_check_is_silent_about_a_good_file),
    Test::of(&config_check_tries_what_a_file_names),
    Test::of(&a_wrong_flag_is_a_usage_error),
    Test::of(&trace_names_a_stream_that_is_not_there),
    Test::of(&sighup_has_users_read_again),
    Test::of(&sigterm_drains),
];

/// Lock of the ports that a program listens at unless told otherwise.
static USUAL_PORTS: Mutex<()> = Mutex::new(());

fn a_missing_file_is_named() -> Result<(), Failed> {
    let _ports = USUAL_PORTS.lock().unwrap_or_else(PoisonError::into_inner);
    fails_with(
        &["serve", "--source", "cam=/nowhere/picture.h264"],
        1,
        &["/nowhere/picture.h264"],
    )
}

fn a_truncated_file_is_named_with_the_byte() -> Result<(), Failed> {
    let clip = Path::new(env!("CARGO_MANIFEST_DIR")).join("assets/demo.ogg");
    let whole = fs::read(&clip).map_err(|error| format!("{}: {error}", clip.display()))?;
    let path = write_file("truncated.ogg", &whole[..60])?;
    let _ports = USUAL_PORTS.lock().unwrap_or_else(PoisonError::into_inner);
    fails_with(
        &["serve", "--source", &format!("cam={path}")],
        1,
        &["truncated.ogg", "byte"],
    )
}

fn a_port_in_use_is_named() -> Result<(), Failed> {
    let taken = TcpListener::bind(("127.0.0.1", 0)).map_err(|error| error.to_string())?;
    let port = taken
        .local_addr()
        .map_err(|error| error.to_string())?
        .port();
    let text = format!(
        "http: {{address: \"127.0.0.1:{port}\"}}\n\
         media: {{address: \"127.0.0.1:0\"}}\nadmin: {{address: \"127.0.0.1:0\"}}\n\
         rtsp: {{address: \"127.0.0.1:0\"}}\n"
    );
    let path = write_file("port-in-use.yml", text.as_bytes())?;
    let words = [port.to_string(), "http".to_owned(), "change".to_owned()];
    fails_with(&["serve", &path], 1, &words.each_ref().map(String::as_str))
}

fn an_unknown_key_gets_a_suggestion() -> Result<(), Failed> {
    let path = write_file("unknown-key.yml", b"http:\n  adress: 127.0.0.1:8889\n")?;
    let words = ["unknown-key.yml:2", "adress", "did you mean 'address'"];
    fails_with(&["config", "check", &path], 2, &words)?;
    fails_with(&["serve", &path], 2, &words)
}

fn config_check_is_silent_about_a_good_file() -> Result<(), Failed> {
    let path = write_file(
        "good.yml",
        b"http: {address: \"127.0.0.1:8889\"}\nsources: {cam: demo}\n",
    )?;
    let (status, printed) = run_to_end(&["config", "check", &path])?;
    if status.success() {
        Ok(())
    } else {
        Err(format!("{status}: {printed}").into())
    }
}

/// Name of a file of this process: several runs of the tests share a folder.
fn unique(name: &str) -> String {
    format!("{name}-{}.yml", std::process::id())
}

fn config_check_tries_what_a_file_names() -> Result<(), Failed> {
    let taken = TcpListener::bind(("127.0.0.1", 0)).map_err(|error| error.to_string())?;
    let taken = taken.local_addr().map_err(|error| error.to_string())?;
    // Nobody listens there after this line.
    let closed = TcpListener::bind(("127.0.0.1", 0)).and_then(|it| it.local_addr());
    let closed = closed.map_err(|error| error.to_string())?;
    let file = |http: &str, sources: &str| {
        format!(
            "{{http: {{address: '{http}'}}, media: {{address: '127.0.0.1:0'}}, \
             admin: {{address: '127.0.0.1:0'}}, rtsp: {{address: '127.0.0.1:0'}}, \
             quic: {{address: '127.0.0.1:0'}}, sources: {{{sources}}}}}"
        )
    };
    let text = file(
        &taken.to_string(),
        &format!("cam: 'rtsp://{closed}/live', film: nowhere.mp4, show: demo"),
    );
    let path = write_file(&unique("trial-bad"), text.as_bytes())?;
    let http = format!("FAIL http.address: cannot listen on TCP {taken}");
    let words = [
        &http,
        "FAIL sources.cam: rtsp://",
        "FAIL sources.film",
        "nowhere.mp4",
        "ok   sources.show: demo plays",
        "ok   media.address",
    ];
    fails_with(&["config", "check", "--try", &path], 3, &words)?;
    let path = write_file(
        "trial-good.yml",
        file("127.0.0.1:0", "show: demo").as_bytes(),
    )?;
    let (status, printed) = run_to_end(&["config", "check", "--try", &path])?;
    if !status.success() || printed.contains("FAIL") {
        return Err(format!("{status}: {printed}").into());
    }
    let collision = file("127.0.0.1:8999", "").replacen("127.0.0.1:0", "127.0.0.1:8999", 2);
    let path = write_file(&unique("trial-ports"), collision.as_bytes())?;
    let words = ["http.address", "admin.address", "8999"];
    fails_with(&["config", "check", &path], 2, &words)?;
    fails_with(&["serve", &path], 1, &words)
}

fn a_wrong_flag_is_a_usage_error() -> Result<(), Failed> {
    fails_with(&["serve", "--sauce", "x"], 2, &["--sauce"])
}

fn trace_names_a_stream_that_is_not_there() -> Result<(), Failed> {
    let server = Server::serve(&["demo"])?;
    fails_with(
        &["trace", "nothing", "--url", &server.url("")],
        1,
        &["nothing"],
    )
}

fn sighup_has_users_read_again() -> Result<(), Failed> {
    let entry = |name: &str| {
        let name = Name::parse(name).expect("a name");
        Account::new(name, "a-password", &[5; 16]).to_yaml()
    };
    let file = write_file("hangup-users.yml", entry("ann").as_bytes())?;
    let server = Server::configured(&format!("auth:\n  users_file: {file}\n"), &["demo"])?;
    let says_after = |users: &str, words: &str| {
        write_file("hangup-users.yml", users.as_bytes())?;
        server.hang_up()?;
        eventually(Duration::from_secs(20), || {
            let printed = server.printed();
            let mut lines = printed.lines();
            let line = lines.find(|line| line.contains(words));
            line.map(str::to_owned)
                .ok_or_else(|| format!("does not say {words:?}:\n{printed}"))
        })
    };
    let broken = says_after("- name: [", "configuration not read again")?;
    if !broken.contains(&file) {
        return Err(format!("does not name {file}: {broken}").into());
    }
    says_after("# nobody", "no user, token or provider is left")?;
    says_after(&entry("bob"), "configuration read again")?;
    Ok(())
}

fn sigterm_drains() -> Result<(), Failed> {
    let mut server = Server::serve(&["demo"])?;
    server.wait_for_state("demo", "live")?;
    let status = server.stop(Duration::from_secs(15))?;
    if status.success() {
        Ok(())
    } else {
        Err(format!("ended with {status}").into())
    }
}

/// Checks that our binary ends with `exit_code` and prints all of `words`, without a panic.
fn fails_with(arguments: &[&str], exit_code: i32, words: &[&str]) -> Result<(), Failed> {
    let (status, printed) = run_to_end(arguments)?;
    if status.code() != Some(exit_code) {
        return Err(format!("exit code {exit_code} expected, {status}: {printed}").into());
    }
    match words.iter().find(|word| !printed.contains(**word)) {
        None if !printed.contains("panicked") => Ok(()),
        missing => Err(format!("no word of {missing:?} in: {printed}").into()),
    }
}
