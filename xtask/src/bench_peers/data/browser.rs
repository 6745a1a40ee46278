//! Chromium as an end: with `bench data serve` through its page, or two connections in one page.

use std::fs;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::path::Path;
use std::process::Command;
use std::thread;
use std::time::{Duration, Instant};

use serde_json::Value;

use super::super::place::Cores;
use super::super::processor;
use super::super::running::Running;
use super::{Bench, Goodput, MESSAGE_BYTES, measured};
use crate::process;

/// Flags for a machine without screen, GPU and user; windows in the background are not throttled.
const FLAGS: [&str; 8] = [
    "--headless=new",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-dev-shm-usage",
    "--no-first-run",
    "--disable-backgrounding-occluded-windows",
    "--disable-renderer-backgrounding",
    "--disable-background-networking",
];

/// Longest result of a page, in bytes.
const BODY_BYTES_MAX: u64 = 64 << 10;

/// Runs a test between `bench data serve` and its page in Chromium; the figures are from our
/// report.
pub(super) fn with_ours(bench: &Bench, direction: &str) -> Result<Goodput, String> {
    let reports = bench.folder.join(format!("data-chromium-{direction}.json"));
    // A report of an earlier run must not be read as this run's.
    let _ = fs::remove_file(&reports);
    let (_serving, url) = bench.serve(Some(&reports))?;
    let url = format!(
        "{url}?direction={direction}&time={}&message_size={MESSAGE_BYTES}",
        bench.hold.as_secs()
    );
    let _browser = open(bench, &url)?;
    let deadline = Instant::now() + bench.patience();
    loop {
        let text = fs::read_to_string(&reports).unwrap_or_default();
        if let Some((line, _)) = text.split_once('\n') {
            return measured(line);
        }
        if Instant::now() > deadline {
            return Err(format!("the page at {url} ran no test"));
        }
        thread::sleep(Duration::from_millis(100));
    }
}

/// Runs a test between two connections in one page, whose processor times cannot be told apart.
pub(super) fn with_itself(bench: &Bench) -> Result<Goodput, String> {
    let failed = |error: std::io::Error| format!("serving a page to Chromium: {error}");
    let listener = TcpListener::bind("127.0.0.1:0").map_err(failed)?;
    let address = listener.local_addr().map_err(failed)?;
    let url = format!(
        "http://{address}/?time={}&size={MESSAGE_BYTES}",
        bench.hold.as_secs()
    );
    let browser = open(bench, &url)?;
    let page = include_str!("../../../../peers/goodput.html");
    let mut began = None;
    listener.set_nonblocking(true).map_err(failed)?;
    let deadline = Instant::now() + bench.patience();
    while Instant::now() < deadline {
        let Ok((stream, _)) = listener.accept() else {
            thread::sleep(Duration::from_millis(10));
            continue;
        };
        let now = processor::of_tree(browser.id());
        // Browsers open connections that they do not use.
        let Ok(request) = serve(stream, page) else {
            continue;
        };
        match request {
            Request::Begun => began = Some(now),
            Request::Result(value) => {
                let bytes = value["bytes"].as_f64().unwrap_or(0.0);
                let seconds = value["seconds"].as_f64().unwrap_or(0.0);
                if bytes <= 0.0 || seconds <= 0.0 {
                    return Err(format!("Chromium says {value}"));
                }
                let used = began.map(|began| now.saturating_sub(began).as_secs_f64());
                return Ok(Goodput {
                    mbps: bytes * 8e-6 / seconds,
                    both: used.map(|used| used / (bytes * 8e-9)),
                    ..Goodput::default()
                });
            }
            Request::Page => {}
        }
    }
    Err("Chromium's page gave no result".to_owned())
}

/// Starts a browser with a fresh profile.
fn open(bench: &Bench, url: &str) -> Result<Running, String> {
    let profile = bench.folder.join("chromium-profile");
    let _ = fs::remove_dir_all(&profile);
    let mut command = Command::new(program()?);
    command.args(FLAGS);
    command.arg(format!("--user-data-dir={}", profile.display()));
    command.arg(url);
    let log = bench.folder.join("data-chromium.log");
    Running::start(&command, &Cores::any(), Path::new(&log))
}

fn program() -> Result<std::path::PathBuf, String> {
    let names = ["chromium", "chromium-browser", "google-chrome"];
    let found = names.iter().find_map(|name| process::find(name));
    found.ok_or_else(|| "chromium is not on the PATH".to_owned())
}

/// Request of a page.
enum Request {
    Page,
    /// The page begins to count now.
    Begun,
    Result(Value),
}

/// Answers one request of our page.
fn serve(stream: TcpStream, page: &str) -> std::io::Result<Request> {
    stream.set_nonblocking(false)?;
    stream.set_read_timeout(Some(Duration::from_secs(5)))?;
    let mut reader = BufReader::new(stream.try_clone()?).take(BODY_BYTES_MAX);
    let mut first = String::new();
    reader.read_line(&mut first)?;
    let mut length = 0;
    loop {
        let mut line = String::new();
        reader.read_line(&mut line)?;
        if line.trim().is_empty() {
            break;
        }
        if let Some((name, value)) = line.split_once(':')
            && name.eq_ignore_ascii_case("content-length")
        {
            length = value.trim().parse().unwrap_or(0);
        }
    }
    let mut body = Vec::new();
    reader.take(length).read_to_end(&mut body)?;
    let (request, answer) = if first.starts_with("POST /begun") {
        (Request::Begun, "")
    } else if first.starts_with("POST /result") {
        let value = serde_json::from_slice(&body).unwrap_or(Value::Null);
        (Request::Result(value), "")
    } else {
        (Request::Page, page)
    };
    let head = format!(
        "HTTP/1.1 200 OK\r\ncontent-type: text/html; charset=utf-8\r\n\
         content-length: {}\r\nconnection: close\r\n\r\n",
        answer.len()
    );
    let mut stream = stream;
    stream.write_all(head.as_bytes())?;
    stream.write_all(answer.as_bytes())?;
    Ok(request)
}
