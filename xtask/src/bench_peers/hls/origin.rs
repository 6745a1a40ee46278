//! The servers of HLS that are compared, and how they are started.

use std::fs;
use std::net::TcpStream;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use super::super::place::Placement;
use super::super::running::Running;
use super::super::server::{self, Lab};
use crate::{install, process};

/// Longest wait for a server to be ready.
const PATIENCE: Duration = Duration::from_secs(40);

/// A server of HLS.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Server {
    Nginx,
    MediaMtx,
    Glassline,
}

/// Properties of the stream, and of the connections of its viewers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Load {
    pub(super) is_secure: bool,
    /// Duration of a part.
    pub(super) part_ms: u32,
}

/// A server that is ready.
pub(super) struct Origin {
    /// URL of the multivariant playlist.
    pub(super) url: String,
    /// Port of plain HTTP.
    pub(super) http: u16,
    /// Processes, ended in this order; the server is the last one.
    running: Vec<Running>,
}

impl Server {
    /// All servers in order of measurement, the one that others are compared with first.
    pub(super) const ALL: [Self; 3] = [Self::Nginx, Self::MediaMtx, Self::Glassline];

    pub(super) const fn name(self) -> &'static str {
        match self {
            Self::Nginx => "nginx",
            Self::MediaMtx => "mediamtx",
            Self::Glassline => "glassline",
        }
    }
}

impl Load {
    const fn scheme(self) -> &'static str {
        match self.is_secure {
            true => "https",
            false => "http",
        }
    }

    /// The load in a few words.
    pub(super) fn words(self) -> String {
        format!("{} {} ms", self.scheme().to_uppercase(), self.part_ms)
    }
}

impl Origin {
    /// Id of the server's first process.
    pub(super) fn process(&self) -> u32 {
        self.running.last().map_or(0, Running::id)
    }
}

/// Starts a server, and waits until it serves. `replica` is the folder of nginx's files.
pub(super) fn start(
    server: Server,
    lab: &Lab,
    place: &Placement,
    load: Load,
    replica: &Path,
) -> Result<Origin, String> {
    match server {
        Server::Nginx => nginx(lab, place, load, replica),
        Server::MediaMtx => mediamtx(lab, place, load),
        Server::Glassline => glassline(lab, place, load),
    }
}

fn glassline(lab: &Lab, place: &Placement, load: Load) -> Result<Origin, String> {
    let [http, https, media, admin] = server::free_ports()?;
    let [certificate, key] = certificate();
    let yaml = format!(
        "hls: {{part_ms: {}}}\nhttps: {{address: '127.0.0.1:{https}'}}\n\
         tls: {{certificate: '{}', key: '{}'}}\n",
        load.part_ms,
        certificate.display(),
        key.display()
    );
    let path = lab.folder.join("hls-glassline.yml");
    write(&path, &yaml)?;
    let files = (lab.media.video.display(), lab.media.audio.display());
    let mut command = Command::new(&lab.glassline);
    command.arg("serve").arg(&path);
    command.args(["--source", &format!("reference={},{}", files.0, files.1)]);
    command.args(["--rtsp", "0", "--quic", "0"]);
    for (flag, port) in [("--http", http), ("--media", media), ("--admin", admin)] {
        command.args([flag, &port.to_string()]);
    }
    if place.server.is_single() {
        command.args(["--shards", "1"]);
    }
    let mut running = Running::start(&command, &place.server, &lab.log("hls-glassline", place))?;
    running.wait_until(PATIENCE, || server::is_live(admin))?;
    let port = if load.is_secure { https } else { http };
    Ok(Origin {
        url: format!(
            "{}://127.0.0.1:{port}/reference/hls/index.m3u8",
            load.scheme()
        ),
        http,
        running: vec![running],
    })
}

fn mediamtx(lab: &Lab, place: &Placement, load: Load) -> Result<Origin, String> {
    let [rtsp, http] = server::free_ports()?;
    let [certificate, key] = certificate();
    let off = ["rtmp", "webrtc", "srt", "moq"].map(|it| format!("{it}: no\n"));
    let yaml = format!(
        "logLevel: warn\n{}rtspAddress: 127.0.0.1:{rtsp}\nrtspTransports: [tcp]\n\
         hlsAddress: 127.0.0.1:{http}\nhlsEncryption: {}\nhlsServerCert: '{}'\nhlsServerKey: '{}'\n\
         hlsVariant: lowLatency\nhlsPartDuration: {}ms\nhlsSegmentDuration: 2s\n\
         hlsAlwaysRemux: yes\npaths:\n  reference:\n",
        off.concat(),
        if load.is_secure { "yes" } else { "no" },
        certificate.display(),
        key.display(),
        load.part_ms
    );
    let path = lab.folder.join("hls-mediamtx.yml");
    write(&path, &yaml)?;
    let mut command = Command::new(install::mediamtx()?);
    command.arg(&path).current_dir(&lab.folder);
    let mut running = Running::start(&command, &place.server, &lab.log("hls-mediamtx", place))?;
    let publisher = server::publish_to_mediamtx(lab, place, &mut running, rtsp)?;
    Ok(Origin {
        url: format!("{}://127.0.0.1:{http}/reference/index.m3u8", load.scheme()),
        http,
        running: vec![publisher, running],
    })
}

/// Starts nginx as an administrator does who sends files: their handles are kept, connections, too.
fn nginx(lab: &Lab, place: &Placement, load: Load, replica: &Path) -> Result<Origin, String> {
    let [port] = server::free_ports()?;
    let folder = lab.folder.join("hls-nginx");
    fs::create_dir_all(&folder).map_err(|error| format!("{}: {error}", folder.display()))?;
    let folder = folder.display();
    let [certificate, key] = certificate();
    let (tls, certificates) = match load.is_secure {
        false => ("", String::new()),
        true => (
            " ssl",
            format!(
                "ssl_certificate {};\nssl_certificate_key {};\n",
                certificate.display(),
                key.display()
            ),
        ),
    };
    let temporary = ["client_body", "proxy", "fastcgi", "uwsgi", "scgi"]
        .map(|it| format!("{it}_temp_path {folder}/{it};\n"));
    let workers = if place.server.is_single() {
        "1"
    } else {
        "auto"
    };
    let text = format!(
        "user root;\npid {folder}/nginx.pid;\nworker_processes {workers};\n\
         events {{ worker_connections 4096; }}\nhttp {{\naccess_log off;\nsendfile on;\n\
         tcp_nopush on;\nkeepalive_requests 1000000;\nopen_file_cache max=4096;\n{}\
         server {{\nlisten 127.0.0.1:{port}{tls} backlog=1024;\n{certificates}root {};\n}}\n}}\n",
        temporary.concat(),
        replica.display()
    );
    let path = lab.folder.join("hls-nginx.conf");
    write(&path, &text)?;
    let program = process::find("nginx").ok_or("nginx is not on the PATH")?;
    let mut command = Command::new(program);
    command
        .args(["-e", "stderr", "-g", "daemon off;", "-c"])
        .arg(&path);
    let mut running = Running::start(&command, &place.server, &lab.log("hls-nginx", place))?;
    running.wait_until(PATIENCE, || TcpStream::connect(("127.0.0.1", port)).is_ok())?;
    Ok(Origin {
        url: format!("{}://127.0.0.1:{port}/index.m3u8", load.scheme()),
        http: port,
        running: vec![running],
    })
}

/// Certificate and key that all servers have.
fn certificate() -> [PathBuf; 2] {
    let folder = process::root().join("crates/server/tests/data");
    ["localhost.pem", "localhost.key.pem"].map(|name| folder.join(name))
}

fn write(path: &Path, text: &str) -> Result<(), String> {
    fs::write(path, text).map_err(|error| format!("{}: {error}", path.display()))
}
