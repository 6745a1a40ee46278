//! A cache of nginx in front of a server, with the configuration of the guide as it stands there.

use std::fs;
use std::net::TcpStream;
use std::path::PathBuf;
use std::process::Command;
use std::time::{Duration, Instant};

use libtest_mimic::Failed;
use serde_json::{Value, json};

use crate::browser::{PATIENCE, ensure};
use crate::peers::{self, Peer, Test};
use crate::ports::free_port;
use crate::process::{Running, eventually, output_folder};
use crate::server::{Server, glassline, unique};

pub(crate) const TESTS: &[Test] = &[
    Test::of(&requests_at_the_server_do_not_grow_with_viewers).needs(&[Peer::Nginx]),
    Test::of(&a_thousand_viewers_ask_no_more_of_the_server_than_ten)
        .needs(&[Peer::Nginx])
        .soak(),
];

const GUIDE: &str = include_str!("../docs/guides/hls.md");

/// Most requests a second of one stream at the server: twice a second a playlist and a part, of video and of
/// audio. Playlists have other addresses every five minutes, and viewers from before and from after such a
/// moment ask for each twice.
const REQUESTS_MAX: f64 = 16.0;

/// Longest time of one load.
const LOAD: Duration = Duration::from_secs(180);

/// A cache with the guide's configuration. Dropping it ends it.
struct Nginx {
    running: Running,
    port: u16,
    folder: PathBuf,
}

impl Nginx {
    /// Starts the cache in front of `server`.
    fn in_front_of(server: &Server) -> Result<Self, String> {
        let port = free_port()?;
        let name = format!("{}-{}", std::process::id(), unique("nginx"));
        let folder = output_folder().join(name);
        let failed = |error: std::io::Error| format!("{}: {error}", folder.display());
        fs::create_dir_all(&folder).map_err(failed)?;
        let file = folder.join("nginx.conf");
        let address = server.url("").replace("http://", "");
        fs::write(
            &file,
            configuration(&address, port, &folder.display().to_string())?,
        )
        .map_err(failed)?;
        let mut command = Command::new(peers::installed("nginx")?);
        command
            .args(["-e", "stderr", "-g", "daemon off;", "-c"])
            .arg(&file);
        let nginx = Self {
            running: Running::start("nginx", command)?,
            port,
            folder,
        };
        eventually(PATIENCE, || {
            TcpStream::connect(("127.0.0.1", port)).map_err(|error| error.to_string())
        })?;
        Ok(nginx)
    }

    fn url(&self, path: &str) -> String {
        format!("http://127.0.0.1:{}{path}", self.port)
    }
}

impl Drop for Nginx {
    fn drop(&mut self) {
        // Its workers would outlive a program that is killed.
        let _ = self.running.terminate();
        let _ = self.running.wait(PATIENCE);
        let _ = fs::remove_dir_all(&self.folder);
    }
}

/// Puts the guide's lines for `http` and for `server` where an administrator puts them.
fn configuration(server: &str, port: u16, folder: &str) -> Result<String, String> {
    let block = GUIDE
        .split_once("```nginx\n")
        .and_then(|(_, rest)| rest.split_once("```"))
        .ok_or("the guide has no configuration of nginx")?
        .0;
    for name in ["GLASSLINE:8889", "/var/cache/hls"] {
        if !block.contains(name) {
            return Err(format!("the guide's configuration names no {name}"));
        }
    }
    let block = block
        .replace("GLASSLINE:8889", server)
        .replace("/var/cache/hls", &format!("{folder}/cache"));
    let locations = block.find("location ").ok_or("no location in the guide")?;
    let (of_http, of_server) = block.split_at(locations);
    let temporary = ["client_body", "proxy", "fastcgi", "uwsgi", "scgi"]
        .map(|it| format!("{it}_temp_path {folder}/{it};\n"));
    Ok(format!(
        "user root;\npid {folder}/nginx.pid;\nworker_rlimit_nofile 20000;\n\
         events {{ worker_connections 8192; }}\n\
         http {{\naccess_log off;\n{}{of_http}\
         server {{\nlisten 127.0.0.1:{port} backlog=4096;\n{of_server}}}\n}}\n",
        temporary.concat()
    ))
}

/// The observation of viewers behind the cache.
struct Loaded {
    /// Requests at the server a second.
    at_server: f64,
    /// Requests of all viewers a second.
    of_viewers: f64,
    step: Value,
}

/// Loads the cache with `viewers` for at least `hold`, by a program of its own.
fn load(server: &Server, nginx: &Nginx, viewers: usize, hold: &str) -> Result<Loaded, String> {
    let report = output_folder().join(unique("hls-cache.json"));
    let ramp = viewers.to_string();
    let url = nginx.url("/demo/hls/index.m3u8");
    let mut command = glassline(&["bench", "viewers", &url, "--ramp", &ramp, "--hold", hold]);
    command.args(["--max-cpu", "100", "--json"]).arg(&report);
    let requests = || -> Result<f64, String> {
        let playlists = server.metric("glassline_hls_playlists_total")?;
        Ok(playlists + server.metric("glassline_hls_files_total")?)
    };
    let (before, began) = (requests()?, Instant::now());
    let mut running = Running::start("bench-viewers", command)?;
    let status = running.wait(LOAD)?;
    let (after, seconds) = (requests()?, began.elapsed().as_secs_f64());
    let printed = running.printed();
    let text = fs::read_to_string(&report)
        .map_err(|error| format!("no report ({error}): {status}: {printed}"))?;
    let _ = fs::remove_file(&report);
    let mut report: Value = serde_json::from_str(&text).map_err(|error| error.to_string())?;
    let steps = report["steps"].as_array_mut();
    let step = steps.and_then(Vec::pop).ok_or("a report without steps")?;
    let each = step["hls"]["requests_per_viewer_second"].as_f64();
    let loaded = Loaded {
        at_server: (after - before) / seconds,
        of_viewers: each.ok_or("no requests in the report")? * viewers as f64,
        step,
    };
    println!(
        "{viewers} viewers: {:.0} requests/s of viewers, {:.1} at the server; {} stalls, {} ms behind live",
        loaded.of_viewers,
        loaded.at_server,
        loaded.step["hls"]["stalls"],
        loaded.step["hls"]["latency_p50_ms"],
    );
    Ok(loaded)
}

/// Compares loads of `few` and of `many` viewers of one cache.
fn compare([few, many]: [usize; 2], hold: &str) -> Result<(), Failed> {
    // Ten requests a second of each viewer, for a debug build.
    let server = Server::configured("hls: {part_ms: 500}\n", &["demo=demo"])?;
    server.wait_for_state("demo", "live")?;
    let nginx = Nginx::in_front_of(&server)?;
    let first = load(&server, &nginx, few, hold)?;
    let second = load(&server, &nginx, many, hold)?;
    for (viewers, loaded) in [(few, &first), (many, &second)] {
        let connected = loaded.step["connected"].as_u64();
        ensure(
            connected == Some(viewers as u64),
            "all viewers play",
            &loaded.step,
        )?;
        ensure(loaded.at_server > 1.0, "the server is asked", &loaded.step)?;
    }
    let rates = json!([first.at_server, second.at_server, second.of_viewers]);
    let is_independent = second.at_server <= REQUESTS_MAX;
    ensure(is_independent, "requests at the server grow", &rates)?;
    let is_load = second.of_viewers >= 4.0 * second.at_server;
    ensure(is_load, "the viewers ask for more than the server", &rates)
}

fn requests_at_the_server_do_not_grow_with_viewers() -> Result<(), Failed> {
    compare([5, 50], "6s")
}

fn a_thousand_viewers_ask_no_more_of_the_server_than_ten() -> Result<(), Failed> {
    compare([10, 1_000], "30s")
}
