//! `glassline doctor`: a healthy server, and each fault that it is for, in network namespaces.

use std::io::{Read as _, Write as _};
use std::net::TcpListener;
use std::process::Command;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use libtest_mimic::Failed;
use serde_json::Value;

use crate::namespace::{HERE, INTERFACE, Neighbor, drop_udp};
use crate::peers::{Peer, Test, script, system_python};
use crate::ports::{free_port, free_ports};
use crate::process::Running;
use crate::server::{Server, glassline, run_to_end, write_file};

pub(crate) const TESTS: &[Test] = &[
    Test::of(&a_healthy_configuration_publishes_and_plays),
    Test::of(&a_stream_in_a_folder_is_examined),
    Test::of(&a_server_is_examined_by_ipv6_and_by_a_name_of_both_versions).needs(&[Peer::Ipv6]),
    Test::of(&each_fault_is_found_in_network_namespaces)
        .needs(&[Peer::Namespaces])
        .in_namespace(LONG),
];

/// Long, for eight runs of a debug build on a busy machine.
const LONG: Duration = Duration::from_secs(240);

/// Time in which doctor must have found everything.
const DOCTOR_MAX_MS: u64 = 10_000;

/// The findings of doctor.
struct Findings {
    code: Option<i32>,
    report: Value,
}

impl Findings {
    /// Runs doctor, with `--json`, to its end.
    fn read(command: Command) -> Result<Self, String> {
        let mut running = Running::start("doctor", command)?;
        let status = running.wait(LONG)?;
        let printed = running.printed();
        let begin = printed.find('{').unwrap_or(0);
        let report = serde_json::from_str(&printed[begin..]);
        let report: Value = report.map_err(|error| format!("{error} in: {printed}"))?;
        let took = report["elapsed_ms"].as_u64().unwrap_or(u64::MAX);
        if took > DOCTOR_MAX_MS {
            return Err(format!("doctor took {took} ms: {printed}"));
        }
        Ok(Self {
            code: status.code(),
            report,
        })
    }

    /// Findings of `severity`, those of `check` only unless it is empty.
    fn all(&self, check: &str, severity: &str) -> Vec<&Value> {
        let findings = self.report["findings"].as_array().into_iter().flatten();
        let fits = |it: &&Value| it["severity"] == severity;
        let findings = findings.filter(fits);
        findings
            .filter(|it| check.is_empty() || it["check"] == check)
            .collect()
    }

    /// Checks that one finding of `check` has `severity` and all of `words`, and says why it matters
    /// and what to change.
    fn has(&self, check: &str, severity: &str, words: &[&str]) -> Result<(), String> {
        let found = self.all(check, severity);
        let fits = |it: &&&Value| {
            let text = it.to_string();
            words.iter().all(|word| text.contains(word))
                && ["why", "change"]
                    .iter()
                    .all(|key| it[*key].as_str().is_some_and(|text| !text.is_empty()))
        };
        if found.iter().any(|it| fits(&it)) {
            return Ok(());
        }
        Err(format!(
            "no {severity} of {check} with {words:?} in:\n{:#}",
            self.report
        ))
    }

    /// Checks that nothing has failed.
    fn is_healthy(&self) -> Result<(), String> {
        if self.code == Some(0) && self.all("", "failure").is_empty() {
            return Ok(());
        }
        Err(format!("{:?}: {:#}", self.code, self.report))
    }

    /// Checks for exit code 3.
    fn has_failed(&self) -> Result<&Self, String> {
        match self.code {
            Some(3) => Ok(self),
            code => Err(format!("exit code {code:?}: {:#}", self.report)),
        }
    }
}

/// A configuration with the address of HTTP, and free ports for all else.
fn configuration(http: &str, more: &str) -> Result<String, String> {
    let [media, admin, rtsp, quic] = free_ports()?;
    let text = format!(
        "http: {{address: '{http}'}}\nmedia: {{address: '127.0.0.1:{media}'}}\n\
         admin: {{address: '127.0.0.1:{admin}'}}\nrtsp: {{address: '127.0.0.1:{rtsp}'}}\n\
         quic: {{address: '127.0.0.1:{quic}'}}\n{more}"
    );
    write_file(
        &format!("doctor-{}-{media}.yml", std::process::id()),
        text.as_bytes(),
    )
}

fn a_healthy_configuration_publishes_and_plays() -> Result<(), Failed> {
    let http = format!("127.0.0.1:{}", free_port()?);
    let file = configuration(&http, "sources: {cam: demo}\n")?;
    let (status, printed) = run_to_end(&["doctor", &file])?;
    for words in [
        "no server runs",
        "sources.cam",
        "takes a published stream",
        "WHIP over UDP",
        "WHIP over TCP",
        "MoQ over UDP",
        "first picture",
        "UDP answers",
        "TCP too",
        "in order; ",
    ] {
        if status.code() != Some(0) || !printed.contains(words) {
            return Err(format!("{status}: no word of {words:?} in:\n{printed}").into());
        }
    }
    Ok(())
}

/// The pages, media, RTSP and MoQ of a server on every address; its API names the ports.
fn a_stream_in_a_folder_is_examined() -> Result<(), Failed> {
    let server = Server::serve(&["site/cam=demo"])?;
    server.wait_for_state("site/cam", "live")?;
    let url = server.url("/");
    let page = server.url("/site/cam");
    for (arguments, words) in [
        (vec!["doctor", "site/cam", "--url", &url], "live: H264"),
        (vec!["doctor", &page], "first picture"),
    ] {
        let (status, printed) = run_to_end(&arguments)?;
        let is_whole = printed.contains("site/cam over UDP") && printed.contains(words);
        if !status.success() || !is_whole {
            return Err(format!("{arguments:?}: {status}\n{printed}").into());
        }
    }
    Ok(())
}

fn a_server_is_examined_by_ipv6_and_by_a_name_of_both_versions() -> Result<(), Failed> {
    let yaml = "http: {address: '[::]:0'}\nmedia: {address: '[::]:0'}\nrtsp: {address: '[::]:0'}\n\
                quic: {address: '[::]:0'}\ncors: {origins: ['https://site.test']}\n";
    let server = Server::configured(yaml, &["demo=demo"])?;
    for host in ["[::1]", "localhost"] {
        let url = server.url("/demo").replace("127.0.0.1", host);
        let mut command = glassline(&["doctor", "--json", "--origin", "https://site.test"]);
        command.arg(url);
        let findings = Findings::read(command)?;
        findings.is_healthy()?;
        for check in ["tcp", "media", "whep", "rtsp", "quic", "cors", "clock"] {
            if findings.all(check, "ok").is_empty() {
                return Err(format!("{host}: nothing of {check}: {:#}", findings.report).into());
            }
        }
        let clocks = findings.all("clock", "ok");
        if !clocks.iter().any(|it| it.to_string().contains("by RTCP")) {
            return Err(format!("{host}: {:#}", findings.report).into());
        }
    }
    let mut command = glassline(&["doctor", "--json", "--origin", "https://other.test"]);
    command.args(["--rtsp-port", &free_port()?.to_string()]);
    command.arg(server.url("/demo"));
    let findings = Findings::read(command)?;
    let failed = findings.has_failed()?;
    failed.has(
        "cors",
        "failure",
        &["origins: [\\\"https://other.test\\\"]"],
    )?;
    failed.has("rtsp", "failure", &["no RTSP at this port", "/tcp"])?;
    Ok(())
}

/// A test of one fault.
type Fault = fn(&Neighbor) -> Result<(), String>;

/// Faults that are examined at the same time; each has a server of its own.
const TOGETHER: usize = 2;

/// Examines two faults at a time: more of them would wait for each other's processor.
fn each_fault_is_found_in_network_namespaces() -> Result<(), Failed> {
    let neighbor = Neighbor::start()?;
    let neighbor = &neighbor;
    let faults: [Fault; 8] = [
        // Those that take longest come first.
        wrong_advertised_address,
        blocked_udp,
        expired_certificate,
        nothing_is_wrong,
        small_buffers,
        port_in_use,
        no_segmentation,
        clock_five_seconds_off,
    ];
    let next = AtomicUsize::new(0);
    let examine = || {
        let mut wrong = Vec::new();
        while let Some(fault) = faults.get(next.fetch_add(1, Ordering::Relaxed)) {
            wrong.extend(fault(neighbor).err());
        }
        wrong
    };
    let wrong: Vec<String> = thread::scope(|scope| {
        let running: Vec<_> = (0..TOGETHER).map(|_| scope.spawn(examine)).collect();
        let joined = running.into_iter().map(thread::ScopedJoinHandle::join);
        joined
            .flat_map(|it| it.unwrap_or_else(|_| vec!["panicked".to_owned()]))
            .collect()
    });
    match wrong.is_empty() {
        true => Ok(()),
        false => Err(wrong.join("\n").into()),
    }
}

/// A server of the built-in stream that the neighbor reaches.
fn server(media: &str) -> Result<Server, String> {
    let yaml = format!("http: {{address: '{HERE}:0'}}\nmedia: {{{media}}}\n");
    Server::configured(&yaml, &["demo=demo"])
}

/// Runs doctor in the neighbor's namespace for the page of the stream.
fn from_outside(neighbor: &Neighbor, server: &Server) -> Result<Findings, String> {
    let url = server.url("/demo").replace("127.0.0.1", HERE);
    let mut command = neighbor.command(env!("CARGO_BIN_EXE_glassline"));
    command
        .args(["doctor", "--json", &url])
        .env("NO_COLOR", "1");
    Findings::read(command)
}

fn at_here() -> String {
    format!("address: '{HERE}:0'")
}

fn nothing_is_wrong(neighbor: &Neighbor) -> Result<(), String> {
    let server = server(&at_here())?;
    let findings = from_outside(neighbor, &server)?;
    findings.is_healthy()?;
    let (played, media) = (findings.all("whep", "ok"), findings.all("media", "ok"));
    match (played.is_empty(), media.len()) {
        (false, 1) => Ok(()),
        _ => Err(format!("not played: {:#}", findings.report)),
    }
}

fn wrong_advertised_address(neighbor: &Neighbor) -> Result<(), String> {
    let server = server(&format!("{}, advertise: ['172.17.0.2']", at_here()))?;
    let findings = from_outside(neighbor, &server)?;
    let advice = format!("advertise: [{HERE}]");
    let words = ["172.17.0.2", "containers", &advice];
    findings.has_failed()?.has("media", "failure", &words)
}

fn blocked_udp(neighbor: &Neighbor) -> Result<(), String> {
    let server = server(&at_here())?;
    let port = server.media().port();
    drop_udp(Some(port))?;
    let findings = from_outside(neighbor, &server)?;
    let rule = format!("ufw allow {port}/udp");
    let words = ["UDP is blocked", "TCP of the same port answers", &rule];
    findings.has_failed()?.has("media", "failure", &words)
}

/// A process that may administer networks gets any buffer that it asks for, and no other does.
fn small_buffers(_: &Neighbor) -> Result<(), String> {
    let file = configuration(&format!("127.0.0.1:{}", free_port()?), "")?;
    let mut command = Command::new("setpriv");
    command.args(["--bounding-set", "-all", "--inh-caps", "-all"]);
    command.arg(env!("CARGO_BIN_EXE_glassline"));
    command.args(["doctor", "--json", &file]);
    let findings = Findings::read(command)?;
    let limit = std::fs::read_to_string("/proc/sys/net/core/rmem_max").unwrap_or_default();
    if limit
        .trim()
        .parse::<u64>()
        .is_ok_and(|limit| limit >= 8 << 20)
    {
        println!("net.core.rmem_max of this machine is large already");
        return findings.is_healthy();
    }
    let words = ["net.core.rmem_max", "instead of 8 MiB", "sysctl -w"];
    findings.has("buffers", "warning", &words)
}

/// The files are found to have expired, and so is what the server shows.
fn expired_certificate(neighbor: &Neighbor) -> Result<(), String> {
    let data = concat!(env!("CARGO_MANIFEST_DIR"), "/crates/server/tests/data/");
    let port = free_port()?;
    let yaml = format!(
        "http: {{address: '{HERE}:0'}}\nhttps: {{address: '{HERE}:{port}'}}\n\
         tls: {{certificate: {data}expired.pem, key: {data}expired.key.pem}}\n"
    );
    let _server = Server::configured(&yaml, &["demo=demo"])?;
    let mut command = neighbor.command(env!("CARGO_BIN_EXE_glassline"));
    let url = format!("https://{HERE}:{port}/");
    command.args(["doctor", "--json", &url]);
    let findings = Findings::read(command)?;
    let words = ["the certificate expired", "renew the files"];
    let failed = findings.has_failed()?;
    failed.has("certificate", "failure", &words)?;
    let tls = format!(
        "https: {{address: '127.0.0.1:{}'}}\n\
         tls: {{certificate: {data}expired.pem, key: {data}expired.key.pem}}\n",
        free_port()?
    );
    let file = configuration(&format!("127.0.0.1:{}", free_port()?), &tls)?;
    let mut command = glassline(&["doctor", "--json"]);
    command.arg(file);
    let findings = Findings::read(command)?;
    let words = ["expired.pem", "expired"];
    let failed = findings.has_failed()?;
    failed.has("certificate", "failure", &words)
}

fn port_in_use(_: &Neighbor) -> Result<(), String> {
    let taken = TcpListener::bind(("127.0.0.1", 0)).map_err(|error| error.to_string())?;
    let address = taken.local_addr().map_err(|error| error.to_string())?;
    let file = configuration(&address.to_string(), "")?;
    let mut command = glassline(&["doctor", "--json"]);
    command.arg(file);
    let findings = Findings::read(command)?;
    let process = format!("process {}", std::process::id());
    let words = ["http.address", &process, "another port"];
    let failed = findings.has_failed()?;
    failed.has("ports", "failure", &words)?;
    // The other listeners are tried nevertheless.
    match findings.all("", "failure").len() {
        1 => Ok(()),
        _ => Err(format!("more has failed: {:#}", findings.report)),
    }
}

/// Turns UDP segmentation off at the interface, as some drivers and operators do.
fn no_segmentation(_: &Neighbor) -> Result<(), String> {
    let mut command = Command::new(system_python());
    command.arg(script("interface_feature.py"));
    command.args([INTERFACE, "tx-udp-segmentation", "off"]);
    let mut turning = Running::start("interface_feature", command)?;
    let status = turning.wait(LONG)?;
    if !status.success() {
        return Err(format!("{status}: {}", turning.printed()));
    }
    let file = configuration(&format!("127.0.0.1:{}", free_port()?), "")?;
    let mut command = glassline(&["doctor", "--json"]);
    command.arg(file);
    let findings = Findings::read(command)?;
    let advice = format!("ethtool -K {INTERFACE} tx-udp-segmentation on");
    findings.has("segmentation", "warning", &[INTERFACE, &advice])
}

/// A web server whose clock is five seconds ahead.
fn clock_five_seconds_off(neighbor: &Neighbor) -> Result<(), String> {
    let listener = TcpListener::bind((HERE, 0)).map_err(|error| error.to_string())?;
    let address = listener.local_addr().map_err(|error| error.to_string())?;
    thread::spawn(move || {
        for stream in listener.incoming().flatten() {
            let mut stream = stream;
            let _ = stream.read(&mut [0; 2048]);
            let date = http_date(SystemTime::now() + Duration::from_secs(5));
            let answer = format!(
                "HTTP/1.1 200 OK\r\nDate: {date}\r\nContent-Length: 2\r\n\
                 Connection: close\r\n\r\n{{}}"
            );
            // A probe that only connects has closed already.
            let _ = stream.write_all(answer.as_bytes());
        }
    });
    let begun = Instant::now();
    let mut command = neighbor.command(env!("CARGO_BIN_EXE_glassline"));
    command.args(["doctor", "--json", &format!("http://{address}/")]);
    let findings = Findings::read(command)?;
    let words = ["5 s ahead of this machine's clock", "timedatectl"];
    let failed = findings.has_failed()?;
    failed
        .has("clock", "failure", &words)
        .map_err(|reason| format!("{reason} after {:?}", begun.elapsed()))
}

/// Writes a time as HTTP does (RFC 9110 §5.6.7).
fn http_date(time: SystemTime) -> String {
    const MONTHS: [&str; 12] = [
        "Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec",
    ];
    const DAYS: [&str; 7] = ["Thu", "Fri", "Sat", "Sun", "Mon", "Tue", "Wed"];
    let unix = time
        .duration_since(UNIX_EPOCH)
        .unwrap_or_default()
        .as_secs();
    let (days, seconds) = (unix / 86_400, unix % 86_400);
    let weekday = DAYS[(days % 7) as usize];
    let (mut year, mut left) = (1970, days);
    let is_leap =
        |year: u64| year.is_multiple_of(4) && !year.is_multiple_of(100) || year.is_multiple_of(400);
    while left >= 365 + u64::from(is_leap(year)) {
        left -= 365 + u64::from(is_leap(year));
        year += 1;
    }
    let february = 28 + u64::from(is_leap(year));
    let mut month = 0;
    for length in [31, february, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31] {
        if left < length {
            break;
        }
        left -= length;
        month += 1;
    }
    format!(
        "{weekday}, {:02} {} {year} {:02}:{:02}:{:02} GMT",
        left + 1,
        MONTHS[month],
        seconds / 3600,
        seconds / 60 % 60,
        seconds % 60
    )
}
