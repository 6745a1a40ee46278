//! The programs of the demonstration: started, started again, and ended with this one.

use std::fmt::Write as _;
use std::fs::{self, File};
use std::io::Write as _;
use std::net::{SocketAddr, TcpListener};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use super::CLIP;
use super::ask::get;
use crate::process;

/// Time after which a program that has ended is started again.
const AGAIN: Duration = Duration::from_secs(8);

/// Pause of the publisher before it goes to the next server.
const PUBLISH_AGAIN: Duration = Duration::from_millis(500);

/// Ends all programs when this one is gone, however it ended: each line has their ids. Ctrl-C reaches
/// them by itself; a program that was stopped (SIGSTOP) does not end until it is continued.
const REAPER: &str = "trap '' INT TERM HUP
while read -r line; do pids=$line; done
kill -CONT $pids 2>/dev/null
sleep 3
kill -TERM $pids 2>/dev/null
sleep 3
kill -KILL $pids 2>/dev/null
rm -rf \"$0\"";

/// Where a server of Glassline is reached.
#[derive(Clone)]
pub(super) struct NodeAddress {
    pub(super) name: String,
    http: SocketAddr,
    pub(super) rtsp: SocketAddr,
    pub(super) admin: SocketAddr,
}

/// A program that runs, or will run again.
struct Program {
    name: String,
    command: Vec<String>,
    child: Child,
    ended: Option<Instant>,
    is_stopped: bool,
}

/// The servers of NATS and of Glassline, with the publisher.
pub(super) struct Fleet {
    folder: PathBuf,
    binary: PathBuf,
    nodes: Vec<NodeAddress>,
    /// Address of the monitoring of a server of NATS.
    monitoring: Vec<SocketAddr>,
    programs: Vec<Program>,
    publisher: Option<Child>,
    /// Index of the server that the publisher goes to next, and when.
    next: (usize, Instant),
    reaper: Child,
}

impl Fleet {
    /// Starts three servers of NATS and three of Glassline.
    pub(super) fn start(binary: &Path, nats: &Path) -> Result<Self, String> {
        let name = format!("cluster-demo-{}", std::process::id());
        let folder = process::target_directory().join(name);
        let failed = |error: std::io::Error| format!("{}: {error}", folder.display());
        fs::create_dir_all(&folder).map_err(failed)?;
        let mut shell = Command::new("sh");
        shell
            .args(["-c", REAPER])
            .arg(&folder)
            .stdin(Stdio::piped());
        let reaper = shell.spawn().map_err(|error| format!("sh: {error}"))?;
        let mut fleet = Self {
            folder,
            binary: binary.to_owned(),
            nodes: Vec::new(),
            monitoring: Vec::new(),
            programs: Vec::new(),
            publisher: None,
            next: (0, Instant::now()),
            reaper,
        };
        let urls = fleet.start_nats(nats)?;
        fleet.start_nodes(&urls)?;
        Ok(fleet)
    }

    fn start_nats(&mut self, nats: &Path) -> Result<Vec<String>, String> {
        let [clients, routes, monitoring] = [free_ports()?, free_ports()?, free_ports()?];
        let routes = routes.map(|at| format!("nats://{at}"));
        for (index, client) in clients.iter().enumerate() {
            let name = format!("nats-{}", index + 1);
            let store = self.folder.join(&name).display().to_string();
            let own = [
                ("-a", "127.0.0.1".to_owned()),
                ("-p", client.port().to_string()),
                ("-m", monitoring[index].port().to_string()),
                ("-sd", store),
                ("--name", name.clone()),
                ("--cluster_name", "demo".to_owned()),
                ("--cluster", routes[index].clone()),
                ("--routes", routes.join(",")),
            ];
            let flags = own
                .into_iter()
                .flat_map(|(flag, value)| [flag.to_owned(), value]);
            let program = [nats.display().to_string(), "-js".to_owned()];
            self.run(name, program.into_iter().chain(flags).collect())?;
        }
        self.monitoring = monitoring.to_vec();
        Ok(clients.map(|at| format!("nats://{at}")).to_vec())
    }

    fn start_nodes(&mut self, nats: &[String]) -> Result<(), String> {
        let [http, media, rtsp] = [free_ports()?, free_ports()?, free_ports()?];
        let [quic, admin] = [free_ports()?, free_ports()?];
        let nats = nats.join("\", \"");
        for index in 0..3 {
            let name = format!("node-{}", index + 1);
            let yaml = format!(
                "http: {{address: {}}}\nmedia: {{address: {}}}\nrtsp: {{address: {}}}\nquic: \
                 {{address: {}}}\nadmin: {{address: {}}}\nsources: {{hall: demo}}\ncluster:\n  name: \
                 {name}\n  secret: of-this-demonstration-only\n  nats: {{servers: [\"{nats}\"]}}\n",
                http[index], media[index], rtsp[index], quic[index], admin[index]
            );
            let path = self.folder.join(format!("{name}.yml"));
            fs::write(&path, yaml).map_err(|error| format!("{}: {error}", path.display()))?;
            let binary = self.binary.display().to_string();
            let path = path.display().to_string();
            self.run(name.clone(), vec![binary, "serve".to_owned(), path])?;
            let (http, rtsp, admin) = (http[index], rtsp[index], admin[index]);
            self.nodes.push(NodeAddress {
                name,
                http,
                rtsp,
                admin,
            });
        }
        Ok(())
    }

    fn run(&mut self, name: String, command: Vec<String>) -> Result<(), String> {
        let child = self.spawn(&name, &command)?;
        self.programs.push(Program {
            name,
            command,
            child,
            ended: None,
            is_stopped: false,
        });
        self.tell_reaper();
        Ok(())
    }

    /// Starts a program whose output goes to a file of its own.
    fn spawn(&self, name: &str, command: &[String]) -> Result<Child, String> {
        let path = self.folder.join(format!("{name}.log"));
        let failed = |error: std::io::Error| format!("{name}: {error}");
        let log = File::options().create(true).append(true).open(path);
        let log = log.map_err(failed)?;
        let (program, arguments) = command.split_first().ok_or("no program")?;
        Command::new(program)
            .args(arguments)
            .env("NO_COLOR", "1")
            .stdin(Stdio::null())
            .stdout(log.try_clone().map_err(failed)?)
            .stderr(log)
            .spawn()
            .map_err(failed)
    }

    fn tell_reaper(&mut self) {
        let programs = self.programs.iter().filter(|it| it.ended.is_none());
        let ids = programs.map(|it| it.child.id());
        let ids = ids.chain(self.publisher.as_ref().map(Child::id));
        let line = ids.fold(String::new(), |line, id| format!("{line} {id}"));
        if let Some(pipe) = &mut self.reaper.stdin {
            // Without it, programs stay behind; there is nothing better to do.
            let _ = writeln!(pipe, "{line}");
        }
    }

    /// Starts what has ended again after some time, and says so.
    pub(super) fn keep(&mut self, say: &mut impl FnMut(&str)) -> Result<(), String> {
        let mut has_changed = false;
        for index in 0..self.programs.len() {
            let program = &mut self.programs[index];
            program.is_stopped = is_stopped(program.child.id());
            let status = program.child.try_wait().ok().flatten();
            match (status, program.ended) {
                (Some(status), None) => {
                    let again = AGAIN.as_secs();
                    say(&format!(
                        "{} ended: {status}; it starts again in {again} s",
                        program.name
                    ));
                    program.ended = Some(Instant::now());
                    has_changed = true;
                }
                (Some(_), Some(at)) if at.elapsed() >= AGAIN => {
                    let (name, command) = (program.name.clone(), program.command.clone());
                    let child = self.spawn(&name, &command)?;
                    say(&format!("{name} starts: process {}", child.id()));
                    let program = &mut self.programs[index];
                    (program.child, program.ended) = (child, None);
                    has_changed = true;
                }
                _ => {}
            }
        }
        if self.next.1 <= Instant::now() && self.publisher.is_none() && self.next.0 > 0 {
            self.publish()?;
            say(&format!("the publisher goes to {}", self.publisher_at()));
            has_changed = true;
        } else if self.has_lost_publisher() {
            if let Some(mut publisher) = self.publisher.take() {
                let _ = publisher.kill();
                let _ = publisher.wait();
            }
            say("the publisher has lost its server");
            self.next.1 = Instant::now() + PUBLISH_AGAIN;
            has_changed = true;
        }
        if has_changed {
            self.tell_reaper();
        }
        Ok(())
    }

    /// Starts the publisher, at the server that is next.
    pub(super) fn publish(&mut self) -> Result<(), String> {
        let node = self.nodes[self.next.0 % 3].clone();
        let url = format!("http://{}/{CLIP}/whip", node.http);
        let command = ["publish", "demo", &url, "--log", "warn"].map(str::to_owned);
        let binary = self.binary.display().to_string();
        let command: Vec<String> = std::iter::once(binary).chain(command).collect();
        self.publisher = Some(self.spawn("publisher", &command)?);
        self.next = (self.next.0 + 1, Instant::now() + PUBLISH_AGAIN);
        self.tell_reaper();
        Ok(())
    }

    /// The server that the publisher is at.
    fn publisher_at(&self) -> &str {
        &self.nodes[(self.next.0 + 2) % 3].name
    }

    /// Whether the publisher's server has ended, or the publisher itself: it would try the same server
    /// again, where a balancer leads to another one.
    fn has_lost_publisher(&mut self) -> bool {
        let at = self.publisher_at().to_owned();
        let server = self.programs.iter().find(|it| it.name == at);
        let is_gone = server.is_some_and(|it| it.ended.is_some());
        let publisher = self.publisher.as_mut();
        publisher.is_some_and(|it| is_gone || !matches!(it.try_wait(), Ok(None)))
    }

    pub(super) fn nodes(&self) -> impl Iterator<Item = NodeAddress> {
        self.nodes.iter().cloned()
    }

    pub(super) fn folder(&self) -> &Path {
        &self.folder
    }

    /// Process of the program of this name.
    pub(super) fn pid_of(&self, name: &str) -> Option<u32> {
        let program = self.programs.iter().find(|it| it.name == name)?;
        Some(program.child.id())
    }

    /// A program that was stopped by SIGSTOP.
    pub(super) fn stopped(&self) -> Option<&str> {
        let program = self.programs.iter().find(|it| it.is_stopped)?;
        Some(&program.name)
    }

    /// The server of NATS that leads the copies of the streams' records.
    pub(super) fn leader_of_nats(&self) -> Option<String> {
        self.monitoring.iter().find_map(|at| {
            let told = get(*at, "/jsz?streams=true")?;
            let accounts = told["account_details"].as_array()?;
            let streams = accounts
                .iter()
                .filter_map(|it| it["stream_detail"].as_array());
            let mut streams = streams.flatten();
            let records = streams.find(|it| it["name"] == "KV_glassline_streams")?;
            Some(records["cluster"]["leader"].as_str()?.to_owned())
        })
    }

    /// The text that a person reads first.
    pub(super) fn introduction(&self, binary: &Path) -> String {
        let mut text = String::from("\n");
        for node in &self.nodes {
            let pid = self.pid_of(&node.name).unwrap_or_default();
            let (name, http, admin) = (&node.name, node.http, node.admin);
            let _ = writeln!(
                text,
                "{name}  process {pid:<8} watch http://{http}/{CLIP}  operators http://{admin}"
            );
        }
        let leader = self.leader_of_nats().unwrap_or_default();
        for index in 1..=3 {
            let name = format!("nats-{index}");
            let pid = self.pid_of(&name).unwrap_or_default();
            let role = if name == leader {
                "leads the records"
            } else {
                ""
            };
            let _ = writeln!(
                text,
                "{}",
                format!("{name}  process {pid:<8} {role}").trim_end()
            );
        }
        let first = &self.nodes[0];
        let pid = |name: &str| self.pid_of(name).unwrap_or_default();
        let (node, nats, binary) = (pid(&first.name), pid(&leader), binary.display());
        let admin = first.admin;
        let _ = write!(
            text,
            "\n'{CLIP}' is published to node-1, and each server has a viewer of it. All have the \
             source 'hall'.\nIn another terminal:\n\n  {binary} cluster status --admin \
             http://{admin} --watch\n  kill -KILL {node}     # the publisher's server\n  kill -KILL \
             {nats}     # the leader of NATS\n  kill -STOP {node}; sleep 12; kill -CONT {node}\n  \
             kill -TERM {node}     # leaves the cluster first\n  {binary} cluster drain --admin \
             http://{admin} --within 60\n\nWhat has ended starts again after {} s. Logs are in {}. \
             Ctrl-C ends everything.\n",
            AGAIN.as_secs(),
            self.folder.display()
        );
        text
    }

    /// Ends all programs.
    pub(super) fn end(mut self) {
        for program in &mut self.programs {
            let id = program.child.id().to_string();
            let _ = Command::new("kill").args(["-INT", &id]).status();
        }
        if let Some(mut publisher) = self.publisher.take() {
            let _ = publisher.kill();
            let _ = publisher.wait();
        }
        drop(self.reaper.stdin.take());
        for program in &mut self.programs {
            let _ = program.child.wait();
        }
        let _ = self.reaper.wait();
    }
}

/// Whether a process was stopped (`T` in proc_pid_stat(5)); false where there is no /proc.
fn is_stopped(id: u32) -> bool {
    let stat = fs::read_to_string(format!("/proc/{id}/stat")).unwrap_or_default();
    let state = stat
        .rsplit(") ")
        .next()
        .and_then(|rest| rest.chars().next());
    state == Some('T')
}

/// Three ports of loopback that are free at this moment, and differ.
fn free_ports() -> Result<[SocketAddr; 3], String> {
    let failed = |error: std::io::Error| format!("no free port: {error}");
    let listen = || TcpListener::bind(("127.0.0.1", 0)).map_err(failed);
    let held = [listen()?, listen()?, listen()?];
    let at = |listener: &TcpListener| listener.local_addr().map_err(failed);
    Ok([at(&held[0])?, at(&held[1])?, at(&held[2])?])
}
