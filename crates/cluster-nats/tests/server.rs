//! `nats-server` processes with files in a folder of their own.

use std::fs::{self, File};
use std::net::TcpStream;
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};

use crate::ports::{free_port, free_ports};

/// The reason why there is no server to test against; `None` if there is one.
pub(crate) fn absence() -> Option<String> {
    if std::env::var_os("GLASSLINE_TEST_NO_PEERS").is_some() {
        return Some("run without peers".to_owned());
    }
    program().err()
}

fn program() -> Result<PathBuf, String> {
    let own = std::env::current_exe().map_err(|error| error.to_string())?;
    let mut folders = own.ancestors().map(|it| it.join("peers/go/nats-server"));
    let found = folders.find(|path| path.is_file());
    found.ok_or_else(|| {
        "there is no peers/go/nats-server in the target folder; `cargo xtask test` builds it with Go"
            .to_owned()
    })
}

/// One server; killed when it is dropped.
pub(crate) struct Server {
    folder: PathBuf,
    pub(crate) port: u16,
    process: Option<Child>,
}

impl Server {
    /// Starts a server alone; `more` is added to its configuration.
    pub(crate) fn alone(more: &str) -> Result<Self, String> {
        let mut server = Self::new("alone", more, "")?;
        server.start()?;
        Ok(server)
    }

    fn new(name: &str, more: &str, sync: &str) -> Result<Self, String> {
        static NUMBER: AtomicU32 = AtomicU32::new(0);
        let number = NUMBER.fetch_add(1, Ordering::Relaxed);
        let folder = format!("glassline-nats-{}-{number}-{name}", std::process::id());
        let folder = std::env::temp_dir().join(folder);
        fs::create_dir_all(&folder).map_err(|error| error.to_string())?;
        let port = free_port()?;
        let store = folder.join("store");
        let text = format!(
            "server_name: {name}\nlisten: \"127.0.0.1:{port}\"\n\
             jetstream {{ store_dir: {store:?}, max_file_store: 1GB, max_memory_store: 64MB {sync} \
             }}\n{more}\n"
        );
        fs::write(folder.join("nats.conf"), text).map_err(|error| error.to_string())?;
        Ok(Self {
            folder,
            port,
            process: None,
        })
    }

    /// Starts the process, and waits until it listens.
    pub(crate) fn start(&mut self) -> Result<(), String> {
        let failed = |error: std::io::Error| format!("nats-server: {error}");
        let log = File::options()
            .create(true)
            .append(true)
            .open(self.folder.join("log"))
            .map_err(failed)?;
        let mut command = Command::new(program()?);
        command.arg("-c").arg(self.folder.join("nats.conf"));
        command.stdout(Stdio::null()).stderr(log);
        // One thread each: three servers and the tests share the machine.
        command.env("GOMAXPROCS", "1");
        self.process = Some(command.spawn().map_err(failed)?);
        let began = Instant::now();
        while TcpStream::connect(("127.0.0.1", self.port)).is_err() {
            let process = self.process.as_mut().map(Child::try_wait);
            let is_over = matches!(process, Some(Ok(Some(_)) | Err(_)));
            if is_over || began.elapsed() > Duration::from_secs(30) {
                return Err(format!("nats-server does not listen: {}", self.log()));
            }
            std::thread::sleep(Duration::from_millis(20));
        }
        Ok(())
    }

    pub(crate) fn log(&self) -> String {
        fs::read_to_string(self.folder.join("log")).unwrap_or_default()
    }

    /// Kills the process at once.
    pub(crate) fn kill(&mut self) {
        if let Some(mut process) = self.process.take() {
            let _ = process.kill();
            let _ = process.wait();
        }
    }

    pub(crate) fn url(&self) -> String {
        format!("nats://127.0.0.1:{}", self.port)
    }

    pub(crate) fn folder(&self) -> &std::path::Path {
        &self.folder
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        self.kill();
        let _ = fs::remove_dir_all(&self.folder);
    }
}

/// Three servers that keep three copies.
pub(crate) struct Cluster(pub(crate) Vec<Server>);

impl Cluster {
    pub(crate) fn start(sync: &str) -> Result<Self, String> {
        let routes: [u16; 3] = free_ports()?;
        let mut servers = Vec::new();
        for (number, port) in routes.iter().enumerate() {
            let all = routes.map(|route| format!("\"nats://127.0.0.1:{route}\""));
            let all = all.join(", ");
            let more =
                format!("cluster {{ name: tests, listen: \"127.0.0.1:{port}\", routes: [{all}] }}");
            servers.push(Server::new(&format!("n{number}"), &more, sync)?);
        }
        for server in &mut servers {
            server.start()?;
        }
        Ok(Self(servers))
    }

    pub(crate) fn urls(&self) -> Vec<String> {
        self.0.iter().map(Server::url).collect()
    }
}
