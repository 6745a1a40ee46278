//! Certificates over ACME, from Pebble, the ACME server that Let's Encrypt tests clients with.

use std::fs;
use std::io::{Read, Write};
use std::net::TcpStream;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use libtest_mimic::Failed;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, ServerName};
use rustls::{ClientConfig, ClientConnection, RootCertStore, StreamOwned};
use serde_json::{Value, json};

use crate::http;
use crate::peers::{self, Peer, Test};
use crate::ports::{free_port, free_ports};
use crate::process::{Running, eventually, output_folder};
use crate::server::{Server, write_file};

/// Long, for a debug build on a busy machine.
const PATIENCE: Duration = Duration::from_secs(240);

const NEEDS: &[Peer] = &[Peer::Pebble];

pub(crate) const TESTS: &[Test] = &[
    Test::of(&names_are_verified_by_http_and_the_certificate_stays_over_a_restart).needs(NEEDS),
    Test::of(&names_are_verified_within_tls).needs(NEEDS),
    Test::of(&a_certificate_is_renewed_while_connections_stay).needs(NEEDS),
    Test::of(&a_refusal_and_a_failed_challenge_say_what_to_do).needs(NEEDS),
];

/// Ports of the server under test to which the authority connects.
#[derive(Clone, Copy)]
struct Verified {
    http: u16,
    https: u16,
}

impl Verified {
    fn new() -> Result<Self, String> {
        let [http, https] = free_ports()?;
        Ok(Self { http, https })
    }
}

/// A running Pebble with a DNS server that answers every name with 127.0.0.1.
struct Authority {
    _pebble: Running,
    _dns: Running,
    directory: String,
    management: u16,
}

impl Authority {
    /// Starts an authority whose certificates last `validity_s` seconds.
    fn start(verified: Verified, validity_s: u32) -> Result<Self, String> {
        let [port, management, dns, dns_management] = free_ports()?;
        let local = |port: u16| format!("127.0.0.1:{port}");
        let mut command = std::process::Command::new(peers::go_binary("pebble-challtestsrv")?);
        command.args([
            "-dnsserver",
            &local(dns),
            "-management",
            &local(dns_management),
        ]);
        command.args(["-defaultIPv4", "127.0.0.1", "-defaultIPv6", ""]);
        for unused in ["-http01", "-https01", "-tlsalpn01", "-doh"] {
            command.args([unused, ""]);
        }
        let resolver = Running::start("pebble-dns", command)?;
        let profile = json!({"description": "of the tests", "validityPeriod": validity_s});
        let config = json!({"pebble": {
            "listenAddress": local(port),
            "managementListenAddress": local(management),
            "certificate": data("localhost.pem"),
            "privateKey": data("localhost.key.pem"),
            "httpPort": verified.http,
            "tlsPort": verified.https,
            "domainBlocklist": ["blocked.example"],
            "retryAfter": {"authz": 1, "order": 1},
            "keyAlgorithm": "ecdsa",
            "profiles": {"default": profile, "shortlived": profile},
        }});
        let name = format!("pebble-{port}.json");
        let path = write_file(&name, config.to_string().as_bytes())?;
        let mut command = peers::go("pebble")?;
        command.args(["-config", &path, "-dnsserver", &local(dns)]);
        command
            .env("PEBBLE_VA_NOSLEEP", "1")
            .env("PEBBLE_AUTHZREUSE", "0");
        let pebble = Running::start("pebble", command)?;
        for port in [port, management] {
            let connect = || TcpStream::connect(local(port)).map_err(|error| error.to_string());
            eventually(PATIENCE, connect)?;
        }
        Ok(Self {
            _pebble: pebble,
            _dns: resolver,
            directory: format!("https://localhost:{port}/dir"),
            management,
        })
    }

    /// Returns the root of all certificates that the authority issues.
    fn root(&self) -> Result<RootCertStore, String> {
        let trusted = store(&fs::read(data("localhost.pem")).map_err(|error| error.to_string())?)?;
        let mut connection = Connection::open(self.management, "localhost", trusted)?;
        store(connection.get("/roots/0")?.as_bytes())
    }
}

/// The configuration of a server that orders a certificate.
struct Ordering<'a> {
    directory: &'a str,
    names: &'a [&'a str],
    challenge: &'a str,
    /// Folder of the account and the certificate.
    state: PathBuf,
}

impl Ordering<'_> {
    fn start(&self, ports: Verified) -> Result<Server, String> {
        let yaml = json!({
            "https": {"address": format!("127.0.0.1:{}", ports.https)},
            "state_folder": self.state,
            "tls": {"acme": {
                "names": self.names,
                "directory": self.directory,
                "challenge": self.challenge,
                "roots": data("localhost.pem"),
            }},
        });
        // JSON is YAML.
        Server::configured_on(
            [ports.http, free_port()?],
            &yaml.to_string(),
            &["demo=demo"],
        )
    }
}

/// A connection to a server within TLS, which serves one request after the other.
struct Connection(StreamOwned<ClientConnection, TcpStream>);

impl Connection {
    /// Connects and verifies that the certificate is of `roots` and for `name`.
    fn open(port: u16, name: &str, roots: RootCertStore) -> Result<Self, String> {
        let failed = |error: &dyn std::fmt::Display| format!("{name}: {error}");
        let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
        let config = ClientConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()
            .map_err(|error| failed(&error))?
            .with_root_certificates(roots)
            .with_no_client_auth();
        let server_name = ServerName::try_from(name.to_owned()).map_err(|error| failed(&error))?;
        let session = ClientConnection::new(Arc::new(config), server_name);
        let mut session = session.map_err(|error| failed(&error))?;
        let mut socket = TcpStream::connect(("127.0.0.1", port)).map_err(|error| failed(&error))?;
        let timeout = socket.set_read_timeout(Some(PATIENCE));
        timeout.map_err(|error| failed(&error))?;
        while session.is_handshaking() {
            session
                .complete_io(&mut socket)
                .map_err(|error| failed(&error))?;
        }
        Ok(Self(StreamOwned::new(session, socket)))
    }

    /// Returns the server's certificate.
    fn leaf(&self) -> Result<CertificateDer<'static>, String> {
        let chain = self.0.conn.peer_certificates().ok_or("no certificate")?;
        Ok(chain.first().ok_or("no certificate")?.clone().into_owned())
    }

    /// Returns the body of an answer 200 with a length.
    fn get(&mut self, path: &str) -> Result<String, String> {
        let failed = |error: std::io::Error| format!("{path}: {error}");
        let request = format!("GET {path} HTTP/1.1\r\nHost: localhost\r\n\r\n");
        self.0.write_all(request.as_bytes()).map_err(failed)?;
        let mut head = Vec::new();
        while !head.ends_with(b"\r\n\r\n") {
            let mut byte = [0];
            self.0.read_exact(&mut byte).map_err(failed)?;
            head.extend(byte);
        }
        let head = String::from_utf8_lossy(&head).to_ascii_lowercase();
        let length = head
            .lines()
            .find_map(|line| line.strip_prefix("content-length:"));
        let length = length.and_then(|it| it.trim().parse::<usize>().ok());
        let mut body = vec![0; length.ok_or_else(|| format!("{path}: no length: {head}"))?];
        self.0.read_exact(&mut body).map_err(failed)?;
        match head.starts_with("http/1.1 200") {
            true => Ok(String::from_utf8_lossy(&body).into_owned()),
            false => Err(format!("{path}: {head}")),
        }
    }
}

fn data(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("crates/server/tests/data")
        .join(name)
}

fn store(pem: &[u8]) -> Result<RootCertStore, String> {
    let mut store = RootCertStore::empty();
    for certificate in CertificateDer::pem_slice_iter(pem) {
        let certificate = certificate.map_err(|error| error.to_string())?;
        store.add(certificate).map_err(|error| error.to_string())?;
    }
    Ok(store)
}

/// Returns a folder for what a server keeps, which does not exist yet.
fn state(name: &str) -> PathBuf {
    let folder = output_folder().join(format!("acme-{name}-{}", std::process::id()));
    // One of a run whose process had the same number.
    let _ = fs::remove_dir_all(&folder);
    folder
}

/// Returns what the server tells operators of its certificate.
fn health(server: &Server) -> Result<Value, String> {
    let accept = [("Accept", "application/json")];
    let answer = http::request("GET", &server.admin_url("/healthz"), &accept, "")?;
    Ok(answer.json()?["certificates"][0].take())
}

/// Waits until the server shows a certificate of `roots` for `name`; returns the connection.
fn await_certificate(port: u16, name: &str, roots: &RootCertStore) -> Result<Connection, String> {
    eventually(PATIENCE, || Connection::open(port, name, roots.clone()))
}

fn names_are_verified_by_http_and_the_certificate_stays_over_a_restart() -> Result<(), Failed> {
    let ports = Verified::new()?;
    let [nobody] = free_ports()?;
    let authority = Authority::start(
        Verified {
            https: nobody,
            ..ports
        },
        3_600,
    )?;
    let folder = state("http");
    let ordering = Ordering {
        directory: &authority.directory,
        names: &["media.example", "127.0.0.1"],
        challenge: "http-01",
        state: folder.clone(),
    };
    let mut server = ordering.start(ports)?;
    let roots = authority.root()?;
    let mut first = await_certificate(ports.https, "media.example", &roots)?;
    first.get("/api/v1/server")?;
    let leaf = first.leaf()?;
    // The same certificate is for the address, too.
    Connection::open(ports.https, "127.0.0.1", roots.clone())?;
    let told = health(&server)?;
    let left = told["expires_in_s"].as_i64().unwrap_or_default();
    if told["source"] != "tls.acme" || !(1..3_600).contains(&left) {
        return Err(format!("/healthz: {told}").into());
    }
    let metric = server.metric("glassline_certificate_expires_seconds")?;
    if !(1.0..3_600.0).contains(&metric) {
        return Err(format!("certificate_expires_seconds {metric}").into());
    }
    let mode = |path: &Path| fs::metadata(path).map(|it| it.permissions().mode() & 0o777);
    let inner = folder.join("acme");
    let modes = [
        mode(&inner)?,
        mode(&inner.join("account.json"))?,
        mode(&inner.join("certificate.json"))?,
    ];
    if modes != [0o700, 0o600, 0o600] {
        let modes = modes.map(|mode| format!("{mode:o}"));
        return Err(format!("rights of the folder and its files: {modes:?}").into());
    }
    // Nothing is ordered again, so the authority is not needed.
    drop(authority);
    server.kill_and_start_again()?;
    let again = await_certificate(ports.https, "media.example", &roots)?;
    if again.leaf()? != leaf {
        return Err("another certificate after a restart".into());
    }
    if server.printed().contains("ordering a certificate") {
        return Err("an order after a restart".into());
    }
    fs::remove_dir_all(folder)?;
    Ok(())
}

fn names_are_verified_within_tls() -> Result<(), Failed> {
    let ports = Verified::new()?;
    let [nobody] = free_ports()?;
    let authority = Authority::start(
        Verified {
            http: nobody,
            ..ports
        },
        3_600,
    )?;
    let folder = state("tls");
    let ordering = Ordering {
        directory: &authority.directory,
        names: &["media.example", "127.0.0.1"],
        challenge: "tls-alpn-01",
        state: folder.clone(),
    };
    let _server = ordering.start(ports)?;
    let roots = authority.root()?;
    for name in ["media.example", "127.0.0.1"] {
        let mut connection = await_certificate(ports.https, name, &roots)?;
        connection.get("/api/v1/server")?;
    }
    fs::remove_dir_all(folder)?;
    Ok(())
}

fn a_certificate_is_renewed_while_connections_stay() -> Result<(), Failed> {
    let ports = Verified::new()?;
    let authority = Authority::start(ports, 12)?;
    let folder = state("renewal");
    let ordering = Ordering {
        directory: &authority.directory,
        names: &["media.example"],
        challenge: "http-01",
        state: folder.clone(),
    };
    let server = ordering.start(ports)?;
    let roots = authority.root()?;
    let mut old = await_certificate(ports.https, "media.example", &roots)?;
    let leaf = old.leaf()?;
    eventually(PATIENCE, || {
        // The connection goes on, whatever certificate newcomers see.
        old.get("/api/v1/server")?;
        let fresh = Connection::open(ports.https, "media.example", roots.clone())?;
        match fresh.leaf()? == leaf {
            true => Err("the first certificate is still in use".to_owned()),
            false => Ok(()),
        }
    })?;
    old.get("/api/v1/server")?;
    drop(server);
    fs::remove_dir_all(folder)?;
    Ok(())
}

fn a_refusal_and_a_failed_challenge_say_what_to_do() -> Result<(), Failed> {
    let [http, https, nobody] = free_ports()?;
    let closed = Verified {
        http: nobody,
        https: nobody,
    };
    let authority = Authority::start(closed, 3_600)?;
    let ports = Verified { http, https };
    for (name, parts) in [
        ("blocked.example", ["rejectedIdentifier", "tls.acme.names"]),
        ("media.example", ["http-01", "TCP port 80 of media.example"]),
    ] {
        let folder = state("refusal");
        let ordering = Ordering {
            directory: &authority.directory,
            names: &[name],
            challenge: "http-01",
            state: folder.clone(),
        };
        let server = ordering.start(ports)?;
        let problem = eventually(PATIENCE, || {
            let told = health(&server)?;
            let problem = told["problem"].as_str().map(str::to_owned);
            problem.ok_or_else(|| format!("no problem yet: {told}"))
        })?;
        if !problem.contains(name) || parts.iter().any(|part| !problem.contains(part)) {
            return Err(format!("{name}: {problem}").into());
        }
        if server.metric("glassline_certificate_renewal_failed")? != 1.0 {
            return Err("the metric does not tell".into());
        }
        // Plain HTTP is served meanwhile.
        let page = http::get(&server.url("/"))?;
        if page.status != 200 {
            return Err(format!("{}: {}", page.status, page.body).into());
        }
        drop(server);
        fs::remove_dir_all(folder)?;
    }
    Ok(())
}
