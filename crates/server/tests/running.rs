//! A server on free ports of loopback, and HTTP to it.

use std::io::{Read, Write};
use std::net::{IpAddr, Ipv4Addr, SocketAddr, TcpStream};
use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, Instant};

use glassline_config::Config;
use glassline_hub::{Hub, Stream, StreamName};
use glassline_ingest::SourceSpec;
use glassline_server::{LoadConfig, Reloading, Server};
use tokio::net::TcpSocket;
use tokio::runtime::Runtime;

pub(crate) const STREAM: &str = "cam";

/// A running server, stopped when dropped.
pub(crate) struct Running {
    runtime: Runtime,
    server: Option<Server>,
}

impl Running {
    pub(crate) fn start(shards: usize) -> Self {
        Self::with(shards, |_| {})
    }

    /// Starts a server with a configuration that `change` modifies.
    pub(crate) fn with(shards: usize, change: impl FnOnce(&mut Config)) -> Self {
        Self::of(shards, Vec::new(), change)
    }

    /// Starts a server with sources of its own.
    pub(crate) fn with_sources(sources: Vec<SourceSpec>) -> Self {
        Self::of(1, sources, |_| {})
    }

    /// Starts a server with sources of its own, and a configuration that `change` modifies.
    pub(crate) fn with_sources_and(
        sources: Vec<SourceSpec>,
        change: impl FnOnce(&mut Config),
    ) -> Self {
        Self::of(1, sources, change)
    }

    /// Starts a server with this number of tokio's threads, of which tests may block all but one.
    pub(crate) fn with_workers(workers: usize) -> Self {
        Self::on(workers, 1, Vec::new(), |_| {})
    }

    fn of(shards: usize, sources: Vec<SourceSpec>, change: impl FnOnce(&mut Config)) -> Self {
        Self::on(1, shards, sources, change)
    }

    fn on(
        workers: usize,
        shards: usize,
        sources: Vec<SourceSpec>,
        change: impl FnOnce(&mut Config),
    ) -> Self {
        let free = SocketAddr::from((Ipv4Addr::LOCALHOST, 0));
        let mut config = Config {
            shards: Some(shards),
            ..Config::default()
        };
        config.http.address = free;
        config.media.address = free;
        config.admin.address = free;
        config.rtsp.address = Some(free);
        config.quic.address = Some(free);
        // Test machines pause at times, and skips that follow from that are no failure: tests of
        // skips set their own limit.
        config.webrtc.lag_ms = Some(10_000);
        change(&mut config);
        let reloading = Reloading {
            load: config.file().map(|file| of_file(file.to_owned(), &config)),
            log: None,
        };
        let runtime = tokio::runtime::Builder::new_multi_thread()
            .worker_threads(workers)
            .enable_all()
            .build()
            .expect("a runtime");
        let server = runtime
            .block_on(Server::start_with(config, sources, reloading))
            .expect("a server on free ports");
        Self {
            runtime,
            server: Some(server),
        }
    }

    /// Reads users and certificates again.
    pub(crate) fn reload(&self) {
        self.server.as_ref().expect("it runs").reload();
    }

    /// Reads all files again, and waits until that is done.
    pub(crate) fn reload_and_wait(&self) {
        let server = self.server.as_ref().expect("it runs");
        server.reload();
        self.runtime.block_on(server.reloaded());
    }

    /// Returns the stream called [`STREAM`], created if needed.
    pub(crate) fn stream(&self) -> Arc<Stream> {
        let name = StreamName::parse(STREAM).expect("a good name");
        self.hub().create(name).expect("room for a stream")
    }

    /// Returns the hub with the server's streams.
    pub(crate) fn hub(&self) -> &Hub {
        self.server.as_ref().expect("running").hub()
    }

    pub(crate) fn listener(&self, name: &str) -> SocketAddr {
        let listeners = self.server.as_ref().expect("running").listeners();
        let found = listeners.iter().find(|(listener, _)| *listener == name);
        found.expect("a listener of this name").1
    }

    /// Returns the address for RTSP clients.
    pub(crate) fn rtsp(&self) -> SocketAddr {
        self.listener("rtsp")
    }

    /// Returns the address for MoQ.
    pub(crate) fn quic(&self) -> SocketAddr {
        self.listener("quic")
    }

    /// Returns the SHA-256 of the QUIC certificate.
    pub(crate) fn fingerprint(&self) -> String {
        let server = self.server.as_ref().expect("running");
        server.quic_fingerprint().expect("it listens").to_string()
    }

    /// Returns the address for RTSP clients within TLS.
    pub(crate) fn rtsps(&self) -> SocketAddr {
        self.listener("rtsps")
    }

    pub(crate) fn request(
        &self,
        method: &str,
        path: &str,
        headers: &[(&str, &str)],
        body: &str,
    ) -> Response {
        self.request_from(Ipv4Addr::LOCALHOST, method, path, headers, body)
    }

    /// Sends the request from another address of loopback.
    pub(crate) fn request_from(
        &self,
        from: Ipv4Addr,
        method: &str,
        path: &str,
        headers: &[(&str, &str)],
        body: &str,
    ) -> Response {
        let mut text = head(method, path, headers);
        text += &format!("Content-Length: {}\r\n\r\n{body}", body.len());
        let stream = self.connect(from.into(), self.listener("http"));
        exchange(stream, &text).expect("an HTTP response")
    }

    /// Sends `text` unchanged; returns `None` if the server answers nothing.
    pub(crate) fn raw(&self, text: &str) -> Option<Response> {
        let stream = self.connect(Ipv4Addr::LOCALHOST.into(), self.listener("http"));
        exchange(stream, text)
    }

    /// Connects to the listener for viewers, from an address of loopback.
    pub(crate) fn connect_http(&self, from: Ipv4Addr) -> TcpStream {
        self.connect(from.into(), self.listener("http"))
    }

    pub(crate) fn get(&self, path: &str) -> Response {
        self.request("GET", path, &[], "")
    }

    /// Requests `path` on the listener for operators.
    pub(crate) fn admin(&self, path: &str) -> Response {
        self.admin_with(path, &[])
    }

    /// Requests `path` on the listener for operators, with more headers.
    pub(crate) fn admin_with(&self, path: &str, headers: &[(&str, &str)]) -> Response {
        self.admin_request("GET", path, headers)
    }

    /// Requests `path` on the listener for operators, as JSON.
    pub(crate) fn admin_json(&self, path: &str) -> Response {
        self.admin_with(path, &[("Accept", "application/json")])
    }

    /// Sends a POST without a body to the listener for operators.
    pub(crate) fn admin_post(&self, path: &str) -> Response {
        self.admin_request("POST", path, &[("Content-Length", "0")])
    }

    /// Sends a request without a body to the listener for operators.
    pub(crate) fn admin_request(
        &self,
        method: &str,
        path: &str,
        headers: &[(&str, &str)],
    ) -> Response {
        let stream = self.connect(Ipv4Addr::LOCALHOST.into(), self.listener("admin"));
        let request = head(method, path, headers) + "\r\n";
        exchange(stream, &request).expect("an HTTP response")
    }

    /// Sends a request with a body to the listener for operators.
    pub(crate) fn admin_send(
        &self,
        method: &str,
        path: &str,
        headers: &[(&str, &str)],
        body: &str,
    ) -> Response {
        let stream = self.connect(Ipv4Addr::LOCALHOST.into(), self.listener("admin"));
        let mut text = head(method, path, headers);
        text += &format!("Content-Length: {}\r\n\r\n{body}", body.len());
        exchange(stream, &text).expect("an HTTP response")
    }

    /// Waits until the server cannot go on, and returns the reason.
    pub(crate) fn failed(&self) -> String {
        let server = self.server.as_ref().expect("running");
        let limit = Duration::from_secs(30);
        self.runtime
            .block_on(async { tokio::time::timeout(limit, server.failed()).await })
            .expect("it fails")
    }

    /// Sends `text` to the RTSP port and returns what the server answers until it closes the
    /// connection or is silent for a while.
    pub(crate) fn raw_rtsp(&self, text: &str) -> String {
        let mut stream = self.connect(Ipv4Addr::LOCALHOST.into(), self.rtsp());
        stream
            .write_all(text.as_bytes())
            .expect("room for a request");
        let mut answer = Vec::new();
        let mut buffer = [0; 1024];
        while !String::from_utf8_lossy(&answer).contains("\r\n\r\n") {
            match stream.read(&mut buffer) {
                Ok(count @ 1..) => answer.extend_from_slice(&buffer[..count]),
                _ => break,
            }
        }
        String::from_utf8_lossy(&answer).into_owned()
    }

    /// Connects from an address of this machine.
    pub(crate) fn connect(&self, from: IpAddr, to: SocketAddr) -> TcpStream {
        let connecting = async {
            let listens_on_all = to.ip().is_unspecified();
            let to = if listens_on_all {
                (Ipv4Addr::LOCALHOST, to.port()).into()
            } else {
                to
            };
            let socket = TcpSocket::new_v4()?;
            socket.bind(SocketAddr::new(from, 0))?;
            socket.connect(to).await?.into_std()
        };
        let stream = self.runtime.block_on(connecting).expect("a connection");
        stream.set_nonblocking(false).expect("a blocking stream");
        stream
            .set_read_timeout(Some(Duration::from_secs(10)))
            .expect("a timeout");
        stream
    }

    /// Returns the number of sessions, and how many of these are half-open.
    pub(crate) fn sessions(&self) -> (u64, u64) {
        let server = self.get("/api/v1/server").json();
        let count = |name: &str| server[name].as_u64().expect("a count");
        (count("sessions"), count("half_open"))
    }

    /// Waits until there are `sessions` sessions, none of them half-open.
    pub(crate) fn await_sessions(&self, sessions: u64, limit: Duration) {
        let end = Instant::now() + limit;
        while self.sessions() != (sessions, 0) {
            let counts = self.sessions();
            assert!(
                Instant::now() < end,
                "{sessions} sessions expected, there are {counts:?} (total, half-open)"
            );
            std::thread::sleep(Duration::from_millis(20));
        }
    }

    /// Returns a metric's values with their labels.
    pub(crate) fn metric(&self, name: &str) -> Vec<(String, u64)> {
        let metrics = self.admin("/metrics").body;
        let prefix = format!("glassline_{name}");
        let lines = metrics
            .lines()
            .filter_map(|line| line.strip_prefix(&prefix));
        let split = |line: &'_ str| -> Option<(String, String)> {
            let (labels, value) = match line.strip_prefix('{') {
                Some(labelled) => labelled.split_once("} ")?,
                None => ("", line.strip_prefix(' ')?),
            };
            Some((labels.to_owned(), value.to_owned()))
        };
        lines
            .filter_map(split)
            .map(|(labels, value)| (labels, value.parse().expect("a count")))
            .collect()
    }

    /// Returns a metric's value for one part of the server.
    pub(crate) fn of_part(&self, name: &str, part: &str) -> u64 {
        let label = format!("part=\"{part}\"");
        let values = self.metric(name);
        let found = values.iter().find(|(labels, _)| *labels == label);
        found.expect("a part of this name").1
    }

    /// Returns a metric's sum over all labels.
    pub(crate) fn total(&self, name: &str) -> u64 {
        self.metric(name).iter().map(|(_, value)| value).sum()
    }
}

/// Reads a file again with what the tests themselves override.
fn of_file(file: PathBuf, started: &Config) -> Arc<LoadConfig> {
    let admin = started.admin.clone();
    Arc::new(move || {
        let mut config = Config::load(&file).map_err(|error| error.to_string())?;
        config.admin = admin.clone();
        config.webrtc.lag_ms = config.webrtc.lag_ms.or(Some(10_000));
        Ok(config)
    })
}

impl Drop for Running {
    fn drop(&mut self) {
        if let Some(server) = self.server.take() {
            self.runtime
                .block_on(server.shutdown(Duration::from_secs(5)));
        }
    }
}

impl Running {
    /// Ends the server, which gives its clients `grace` to leave.
    pub(crate) fn stop(mut self, grace: Duration) {
        let server = self.server.take().expect("running");
        self.runtime.block_on(server.shutdown(grace));
    }
}

/// A response of the server's HTTP API.
#[derive(Debug)]
pub(crate) struct Response {
    pub(crate) status: u16,
    headers: Vec<(String, String)>,
    pub(crate) body: String,
}

impl Response {
    pub(crate) fn header(&self, name: &str) -> Option<&str> {
        let found = self.headers.iter().find(|(header, _)| header == name);
        found.map(|(_, value)| value.as_str())
    }

    /// Returns the values of all headers of a name.
    pub(crate) fn headers_named(&self, name: &str) -> Vec<&str> {
        let found = self.headers.iter().filter(|(header, _)| header == name);
        found.map(|(_, value)| value.as_str()).collect()
    }

    pub(crate) fn json(&self) -> serde_json::Value {
        serde_json::from_str(&self.body).expect("JSON")
    }

    /// Asserts a problem document of `status` and returns it.
    pub(crate) fn problem(&self, status: u16) -> serde_json::Value {
        assert_eq!(self.status, status, "{}", self.body);
        assert_eq!(
            self.header("content-type"),
            Some("application/problem+json")
        );
        let problem = self.json();
        assert_eq!(problem["status"], status);
        problem
    }
}

/// Returns a request up to its last header. The host is `localhost` unless `headers` name another.
fn head(method: &str, path: &str, headers: &[(&str, &str)]) -> String {
    let mut text = format!("{method} {path} HTTP/1.1\r\nConnection: close\r\n");
    if !headers.iter().any(|(name, _)| *name == "Host") {
        text += "Host: localhost\r\n";
    }
    for (name, value) in headers {
        text += &format!("{name}: {value}\r\n");
    }
    text
}

/// One request, one response: the connection is closed behind it.
/// Sends a request and reads its response to the end of the connection.
pub(crate) fn exchange(mut stream: impl Read + Write, request: &str) -> Option<Response> {
    stream.write_all(request.as_bytes()).ok()?;
    let mut text = String::new();
    stream.read_to_string(&mut text).ok()?;
    let (head, body) = text.split_once("\r\n\r\n")?;
    let mut lines = head.lines();
    let status = lines.next()?.split(' ').nth(1)?.parse().ok()?;
    let headers = lines
        .filter_map(|line| line.split_once(": "))
        .map(|(name, value)| (name.to_ascii_lowercase(), value.to_owned()))
        .collect();
    Some(Response {
        status,
        headers,
        body: body.to_owned(),
    })
}
