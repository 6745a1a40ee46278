//! Three servers that agree through NATS, with a publisher and a good viewer at each: started by the
//! first action that needs them, and kept for the others.
//!
//! ```text
//! NATS ─┬─ n0 ◄─ publisher      each server hands further pulls to those that pull already,
//!       ├─ n1 ◄─ pull ─ n0      so that one of them is a relay
//!       └─ n2 ◄─ pull ─ n1
//! ```

use std::net::{SocketAddr, TcpListener, UdpSocket};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Arc;
use std::time::{Duration, Instant};

use parking_lot::Mutex;

use super::configuration::{udp_and_tcp, write};
use super::error::Error;
use super::probe::{Probe, http_get};
use super::program::{Log, Program};
use super::watch::Sample;

/// Number of servers in the cluster.
pub(super) const NODES: usize = 3;

/// Secret that the servers share.
pub(super) const SECRET: &str = "shared-by-the-servers-of-the-fleet";

/// Name of the published stream.
pub(super) const STREAM: &str = "event";

/// Longest wait until all viewers have video at the start.
const START_MAX: Duration = Duration::from_secs(60);

/// Time between two looks at something that is waited for.
const LOOK: Duration = Duration::from_millis(50);

/// Servers of a cluster, and what runs around them. Dropping it kills all.
#[derive(Debug)]
pub(super) struct Fleet {
    program: PathBuf,
    folder: PathBuf,
    nats_port: u16,
    nats: Option<Program>,
    pub(super) nodes: [Member; NODES],
    _publisher: Program,
    _viewers: Program,
    samples: Arc<Mutex<Option<Sample>>>,
}

/// A server of the fleet.
#[derive(Debug)]
pub(super) struct Member {
    pub(super) name: String,
    addresses: Addresses,
    program: Option<Program>,
}

/// Addresses of one server.
#[derive(Clone, Copy, Debug)]
struct Addresses {
    http: SocketAddr,
    media: SocketAddr,
    quic: SocketAddr,
    admin: SocketAddr,
}

impl Addresses {
    fn choose() -> Result<Self, Error> {
        let tcp = || TcpListener::bind(("127.0.0.1", 0));
        // All are held at the same time, so that they differ.
        let (http, admin, quic) = (tcp()?, tcp()?, UdpSocket::bind(("127.0.0.1", 0))?);
        let (media, _media_tcp) = udp_and_tcp()?;
        Ok(Self {
            http: http.local_addr()?,
            media: media.local_addr()?,
            quic: quic.local_addr()?,
            admin: admin.local_addr()?,
        })
    }
}

impl Fleet {
    /// Starts everything, and waits until each viewer has video. `None` if this machine has no
    /// nats-server on its path.
    pub(super) fn start(program: &Path, folder: &Path) -> Result<Option<Self>, Error> {
        if Command::new("nats-server")
            .arg("--version")
            .output()
            .is_err()
        {
            return Ok(None);
        }
        let folder = folder.join("fleet");
        std::fs::create_dir_all(&folder)?;
        let nats_port = TcpListener::bind(("127.0.0.1", 0))?.local_addr()?.port();
        let nats = start_nats(&folder, nats_port)?;
        let mut nodes = Vec::new();
        for number in 0..NODES {
            nodes.push(Member {
                name: format!("n{number}"),
                addresses: Addresses::choose()?,
                program: None,
            });
        }
        let [a, b, c] = <[Member; NODES]>::try_from(nodes).expect("as many as names");
        let mut nodes = [a, b, c];
        for node in &mut nodes {
            let yaml = yaml(&node.name, SECRET, node.addresses, nats_port, "");
            let file = folder.join(format!("{}.yml", node.name));
            write(&file, &yaml)?;
            node.program = Some(serve(program, &folder, &node.name)?);
        }
        let at = |index: usize, path: &str| {
            format!("http://{}/{STREAM}/{path}", nodes[index].addresses.http)
        };
        let mut publish = Command::new(program);
        publish.args(["--quiet", "publish", "demo", &at(0, "whip")]);
        let mut watch = Command::new(program);
        watch.args(["--quiet", "bench", "chaos-viewers"]);
        watch.args((0..NODES).map(|index| format!("{}?noredirect", at(index, "whep"))));
        for node in &nodes {
            let health = node.health();
            health.ask_until_right(START_MAX);
        }
        let log = |name: &str| folder.join(format!("{name}.log"));
        let publisher = Program::start("publisher", publish, Log::File(&log("publisher")), |_| {})?;
        let samples = Arc::<Mutex<Option<Sample>>>::default();
        let kept = Arc::clone(&samples);
        let viewers = Program::start("viewers", watch, Log::File(&log("viewers")), move |line| {
            if let Ok(sample) = serde_json::from_str(line) {
                *kept.lock() = Some(sample);
            }
        })?;
        let fleet = Self {
            program: program.to_owned(),
            folder,
            nats_port,
            nats: Some(nats),
            nodes,
            _publisher: publisher,
            _viewers: viewers,
            samples,
        };
        match fleet.wait_for_video(START_MAX) {
            Some(_) => Ok(Some(fleet)),
            None => Err(Error::NoVideo {
                group: "fleet".to_owned(),
                seconds: START_MAX.as_secs(),
                reason: format!("see the logs in {}", fleet.folder.display()),
            }),
        }
    }

    /// Waits until every viewer has video in a sample that begins from now on. Returns how long that
    /// took; `None` if it takes longer than `most`.
    pub(super) fn wait_for_video(&self, most: Duration) -> Option<Duration> {
        let (begun, since_ms) = (Instant::now(), super::clock::unix_ms());
        while begun.elapsed() < most {
            if self.has_video(since_ms) {
                return Some(begun.elapsed());
            }
            std::thread::sleep(LOOK);
        }
        None
    }

    /// Whether each viewer received frames in the newest sample, which began at `since_ms` or later.
    pub(super) fn has_video(&self, since_ms: u64) -> bool {
        let sample = self.samples.lock();
        sample.as_ref().is_some_and(|it| {
            let has_frames = it.frames.len() == NODES && it.frames.iter().all(|count| *count > 0);
            it.from_ms >= since_ms && it.frozen == 0 && has_frames
        })
    }

    /// The server that has the claim of the stream.
    pub(super) fn owner(&self) -> Option<usize> {
        let owns = |it: &Member| it.metric("cluster_streams_owned") == Some(1.0);
        self.nodes.iter().position(owns)
    }

    /// A server that pulls the stream, and from which another one pulls it.
    pub(super) fn relay(&self) -> Option<usize> {
        let last = |it: &Member| it.metric("cluster_path_nodes");
        // The stream has passed three servers where it came through the relay.
        let depth = self.nodes.each_ref().map(last);
        let has_end = depth.contains(&Some(3.0));
        depth.iter().position(|it| has_end && *it == Some(2.0))
    }

    /// Pulls that all servers together have begun.
    pub(super) fn pulls(&self) -> Option<f64> {
        let counts = self.nodes.iter().map(|it| it.metric("cluster_pulls_total"));
        counts.sum()
    }

    /// Starts a server again, whose process has ended.
    pub(super) fn start_node(&mut self, index: usize) -> Result<(), Error> {
        let node = &mut self.nodes[index];
        node.program = Some(serve(&self.program, &self.folder, &node.name)?);
        node.health().ask_until_right(START_MAX);
        Ok(())
    }

    /// Starts another server, under a name and with a secret.
    pub(super) fn stranger(&self, name: &str, secret: &str) -> Result<Program, Error> {
        let yaml = yaml(name, secret, Addresses::choose()?, self.nats_port, "");
        write(&self.folder.join("stranger.yml"), &yaml)?;
        serve(&self.program, &self.folder, "stranger")
    }

    /// Replaces NATS by one without any record.
    pub(super) fn empty_store(&mut self) -> Result<(), Error> {
        self.nats = None;
        // What was never made needs no removal.
        let _ = std::fs::remove_dir_all(self.folder.join("nats"));
        self.nats = Some(start_nats(&self.folder, self.nats_port)?);
        Ok(())
    }

    /// Writes the file of a server anew, with further lines, and tells the server to read it.
    pub(super) fn reload(&self, index: usize, more: &str) -> Result<(), Error> {
        let node = &self.nodes[index];
        let yaml = yaml(&node.name, SECRET, node.addresses, self.nats_port, more);
        write(&self.folder.join(format!("{}.yml", node.name)), &yaml)?;
        node.program()?.signal("-HUP")
    }
}

impl Member {
    /// The server's process; an error if there is none.
    pub(super) fn program(&self) -> Result<&Program, Error> {
        self.program.as_ref().ok_or_else(|| Error::NotServing {
            seconds: 0,
            log: PathBuf::from(format!("{}.log", self.name)),
        })
    }

    /// Kills the server, so that it says goodbye to nobody.
    pub(super) fn kill(&mut self) {
        self.program = None;
    }

    /// Ends the server by SIGTERM; returns false if it had to be killed.
    pub(super) fn terminate(&mut self, patience: Duration) -> bool {
        let program = self.program.take();
        program.is_none_or(|mut it| it.terminate(patience))
    }

    /// The address of the server's admin port.
    pub(super) const fn admin(&self) -> SocketAddr {
        self.addresses.admin
    }

    fn health(&self) -> Probe {
        Probe {
            name: "fleet",
            address: self.addresses.http,
            request: http_get("/readyz", "none"),
            wanted: "HTTP/1.1 200",
        }
    }

    /// The answer of the server's admin port; empty if there is none.
    pub(super) fn told(&self, path: &str) -> String {
        Probe {
            name: "fleet",
            address: self.addresses.admin,
            request: http_get(path, "none"),
            wanted: "HTTP/1.1 200",
        }
        .whole()
        .unwrap_or_default()
    }

    /// A figure of the server without labels.
    fn metric(&self, name: &str) -> Option<f64> {
        let told = self.told("/metrics");
        let wanted = format!("glassline_{name} ");
        let line = told.lines().find_map(|line| line.strip_prefix(&wanted));
        line?.trim().parse().ok()
    }
}

fn start_nats(folder: &Path, port: u16) -> Result<Program, Error> {
    let mut command = Command::new("nats-server");
    command.args(["--addr", "127.0.0.1", "--jetstream", "--port"]);
    command.arg(port.to_string());
    command.arg("--store_dir").arg(folder.join("nats"));
    let log = folder.join("nats.log");
    Program::start("nats-server", command, Log::File(&log), |_| {})
}

fn serve(program: &Path, folder: &Path, name: &str) -> Result<Program, Error> {
    let mut command = Command::new(program);
    command
        .arg("serve")
        .arg(folder.join(format!("{name}.yml")))
        .env("NO_COLOR", "1");
    let log = folder.join(format!("{name}.log"));
    Program::start(name, command, Log::File(&log), |_| {})
}

fn yaml(name: &str, secret: &str, at: Addresses, nats_port: u16, more: &str) -> String {
    format!(
        "shards: 1\nhttp: {{address: '{}'}}\nmedia: {{address: '{}'}}\nquic: {{address: '{}'}}\n\
         admin: {{address: '{}'}}\nrtsp: {{address: null}}\ncluster: {{name: {name}, secret: \
         {secret}, nats: 'nats://127.0.0.1:{nats_port}', drain_s: 3, pulls_per_stream: 1}}\n{more}",
        at.http, at.media, at.quic, at.admin
    )
}
