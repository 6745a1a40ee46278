//! HTTPS for viewers and operators, with certificates from files.

use std::io::{Read, Write};
use std::net::{Ipv4Addr, TcpStream};
use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, Instant};

use glassline_config::{Config, HttpsAddress, Lan, PemFiles, Secret, Tls};
use glassline_hub::StreamName;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, ServerName};
use rustls::{ClientConfig, ClientConnection, RootCertStore, StreamOwned};

use crate::reload::{Folder, reload_until};
use crate::rtsps::data;
use crate::running::{Response, Running, exchange};

/// Long, for a busy machine.
const PATIENCE: Duration = Duration::from_secs(60);

/// A client's end of a connection within TLS.
pub(crate) type Secure = StreamOwned<ClientConnection, TcpStream>;

pub(crate) fn files(certificate: PathBuf, key: PathBuf) -> Tls {
    Tls::Files(PemFiles {
        certificate,
        key,
        section: "tls",
    })
}

/// Has the server listen for HTTPS everywhere, with the certificate of the tests.
pub(crate) fn secured(config: &mut Config) {
    config.tls = Some(files(data("localhost.pem"), data("localhost.key.pem")));
    config.https.address = HttpsAddress::At((Ipv4Addr::LOCALHOST, 0).into());
    config.admin.https = Some((Ipv4Addr::LOCALHOST, 0).into());
}

/// Returns a client's settings that trust the certificates of the tests.
pub(crate) fn client_config(protocols: &[&str]) -> ClientConfig {
    let roots = ["localhost.pem", "other.pem"];
    let roots = roots.map(|name| CertificateDer::from_pem_file(data(name)).expect("PEM"));
    client_of(&roots, protocols)
}

/// Returns a client's settings that trust `roots` and offer `protocols`.
pub(crate) fn client_of(roots: &[CertificateDer<'_>], protocols: &[&str]) -> ClientConfig {
    let mut store = RootCertStore::empty();
    for root in roots {
        store.add(root.clone().into_owned()).expect("a certificate");
    }
    let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
    let mut config = ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .expect("versions")
        .with_root_certificates(store)
        .with_no_client_auth();
    config.alpn_protocols = protocols.iter().map(|it| it.as_bytes().to_vec()).collect();
    config
}

/// Connects to a listener within TLS, as a client that calls the server `name`.
pub(crate) fn connect(
    running: &Running,
    listener: &str,
    name: &str,
    config: ClientConfig,
) -> Secure {
    let socket = running.connect(Ipv4Addr::LOCALHOST.into(), running.listener(listener));
    socket.set_read_timeout(Some(PATIENCE)).expect("a timeout");
    let name = ServerName::try_from(name.to_owned()).expect("a name");
    let session = ClientConnection::new(Arc::new(config), name).expect("a session");
    StreamOwned::new(session, socket)
}

fn get(running: &Running, listener: &str, path: &str) -> Response {
    let stream = connect(running, listener, "localhost", client_config(&[]));
    let request = format!("GET {path} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n");
    exchange(stream, &request).expect("an HTTP response")
}

/// Returns the certificate that the next client is shown.
fn shown(running: &Running) -> CertificateDer<'static> {
    let mut stream = connect(running, "https", "localhost", client_config(&[]));
    stream.flush().expect("a handshake");
    while stream.conn.is_handshaking() {
        stream
            .conn
            .complete_io(&mut stream.sock)
            .expect("a handshake");
    }
    let chain = stream.conn.peer_certificates().expect("a chain");
    chain[0].clone().into_owned()
}

#[test]
fn https_serves_what_http_serves_and_plain_http_stays() {
    let running = Running::with(1, secured);
    let path = "/api/v1/server";
    let (plain, secure) = (running.get(path), get(&running, "https", path));
    assert_eq!((plain.status, secure.status), (200, 200));
    assert_eq!(plain.json()["version"], secure.json()["version"]);
    assert_eq!(get(&running, "admin-https", "/healthz").status, 200);
    assert_eq!(
        get(&running, "https", "/healthz").status,
        404,
        "only for operators"
    );
}

#[test]
fn a_client_that_forgets_the_s_of_https_is_told() {
    let running = Running::with(1, secured);
    let stream = running.connect(Ipv4Addr::LOCALHOST.into(), running.listener("https"));
    let answer = exchange(stream, "GET / HTTP/1.1\r\nHost: a\r\n\r\n").expect("an answer");
    assert_eq!(answer.status, 400);
    assert!(answer.body.contains("https://"), "{}", answer.body);
    let length = answer
        .header("content-length")
        .and_then(|it| it.parse().ok());
    assert_eq!(length, Some(answer.body.len()));
    // What is neither is closed.
    let mut stream = running.connect(Ipv4Addr::LOCALHOST.into(), running.listener("https"));
    stream.write_all(&[0x80; 64]).expect("a connection");
    let mut rest = Vec::new();
    let _ = stream.read_to_end(&mut rest);
    let began = Instant::now();
    let of_handshakes = || {
        let closed = running.metric("http_connections_closed_total");
        let wanted = "reason=\"handshake\",listener=\"https\"";
        closed
            .iter()
            .find(|(labels, _)| labels == wanted)
            .map(|(_, count)| *count)
    };
    while of_handshakes() != Some(2) {
        assert!(began.elapsed() < PATIENCE, "{:?}", of_handshakes());
        std::thread::sleep(Duration::from_millis(10));
    }
}

#[test]
fn half_open_handshakes_make_room_for_others_on_both_ports_and_end_at_the_deadline() {
    const PLACES: usize = 8;
    let running = Running::with(1, |config| {
        secured(config);
        config.http.connections = 2 * PLACES;
        config.http.connections_per_address = PLACES;
    });
    let to_https = || running.connect(Ipv4Addr::LOCALHOST.into(), running.listener("https"));
    let mut silent: Vec<_> = (0..2 * PLACES)
        .map(|number| {
            let mut stream = to_https();
            // Some have begun: a record of 512 bytes of which five come.
            if number % 2 == 0 {
                stream
                    .write_all(&[22, 3, 1, 2, 0, 1, 0, 1, 252, 3])
                    .expect("open");
            }
            stream.set_nonblocking(true).expect("a socket");
            stream
        })
        .collect();
    let mut open = || {
        silent.retain_mut(|stream| {
            let read = stream.read(&mut [0; 64]);
            matches!(read, Err(error) if error.kind() == std::io::ErrorKind::WouldBlock)
        });
        silent.len()
    };
    let began = Instant::now();
    while open() > PLACES {
        assert!(began.elapsed() < PATIENCE, "there are only so many places");
        std::thread::sleep(Duration::from_millis(10));
    }
    // The same places serve plain HTTP.
    assert_eq!(running.get("/api/v1/server").status, 200);
    assert_eq!(get(&running, "https", "/api/v1/server").status, 200);
    while open() > 0 {
        assert!(began.elapsed() < PATIENCE, "handshakes stay for ever");
        std::thread::sleep(Duration::from_millis(50));
    }
}

#[test]
fn new_files_are_used_and_a_broken_pair_is_named_while_the_old_one_stays() {
    let folder = Folder::new("https-files");
    folder.identify("localhost.pem", "localhost.key.pem");
    let running = Running::with(1, |config| {
        secured(config);
        let (certificate, key) = (folder.0.join("certificate.pem"), folder.0.join("key.pem"));
        config.tls = Some(files(certificate, key));
        config.rtsp.tls.address = Some((Ipv4Addr::LOCALHOST, 0).into());
    });
    let first = shown(&running);
    let quic = running.fingerprint();
    let problem = || {
        let health = running.admin_json("/healthz").json();
        health["certificates"][0]["problem"]
            .as_str()
            .map(str::to_owned)
    };
    assert_eq!(problem(), None);
    // They do not belong together.
    folder.identify("other.pem", "localhost.key.pem");
    reload_until(&running, || problem().is_some());
    let said = problem().expect("named");
    assert!(
        said.contains("certificate.pem") && said.contains("cannot be used together"),
        "{said}"
    );
    assert_eq!(shown(&running), first);
    folder.identify("other.pem", "other.key.pem");
    reload_until(&running, || shown(&running) != first);
    assert_eq!(problem(), None);
    let health = running.admin_json("/healthz").json();
    let left = health["certificates"][0]["expires_in_s"].as_i64();
    assert!(left > Some(86_400), "{health}");
    // RTSPS and QUIC have no certificate of their own, so they follow.
    let other = CertificateDer::from_pem_file(data("other.pem")).expect("PEM");
    assert_eq!(crate::reload::shown(&running), other);
    reload_until(&running, || running.fingerprint() != quic);
    assert!(crate::quic::is_reached(&running, &running.fingerprint()));
}

#[test]
fn a_listener_without_a_certificate_is_an_error_at_start() {
    let mut config = Config::default();
    config.https.address = HttpsAddress::At((Ipv4Addr::LOCALHOST, 0).into());
    let error = glassline_server::check_certificates(&config).expect_err("none");
    let shown = error.to_string();
    assert!(
        shown.contains("https.address") && shown.contains("`tls`"),
        "{shown}"
    );
}

/// Has the server use its own private authority, kept in `folder`, with more names.
fn private(config: &mut Config, folder: &Folder, names: &[&str]) {
    secured(config);
    config.state_folder = Some(folder.0.clone());
    config.tls = Some(Tls::Lan(Lan {
        names: names.iter().map(|name| (*name).to_owned()).collect(),
    }));
}

#[test]
fn a_private_authority_vouches_for_every_address_and_name_of_this_machine() {
    let folder = Folder::new("lan");
    let running = Running::with(1, |config| {
        private(
            config,
            &folder,
            &["cam.lan", "192.168.77.5", "media.example"],
        );
    });
    let answer = running.get("/trust/root.pem");
    assert_eq!(answer.status, 200);
    let root = CertificateDer::from_pem_slice(answer.body.as_bytes()).expect("PEM");
    let is_trusted = |name: &str| {
        let config = client_of(std::slice::from_ref(&root), &[]);
        let mut stream = connect(&running, "https", name, config);
        stream
            .write_all(b"GET / HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n")
            .is_ok()
    };
    for name in ["localhost", "127.0.0.1", "::1", "cam.lan", "192.168.77.5"] {
        assert!(is_trusted(name), "{name}");
    }
    let addresses = glassline_net::interface_addresses().expect("the system tells");
    for address in addresses.into_iter().map(|it| it.ip) {
        let is_private = match address {
            std::net::IpAddr::V4(address) => address.is_private() || address.is_loopback(),
            std::net::IpAddr::V6(address) => address.is_unique_local() || address.is_loopback(),
        };
        if is_private {
            assert!(is_trusted(&address.to_string()), "{address}");
        }
    }
    for stranger in ["media.example", "other.lan", "192.168.77.6"] {
        assert!(!is_trusted(stranger), "{stranger}");
    }
    // QUIC shows the same leaf, which clients may pin instead.
    assert!(crate::quic::is_reached(&running, &running.fingerprint()));
}

#[test]
fn a_stolen_root_key_vouches_for_no_web_site() {
    let folder = Folder::new("stolen");
    let running = Running::with(1, |config| private(config, &folder, &[]));
    let root = running.get("/trust/root.pem").body;
    let root = CertificateDer::from_pem_slice(root.as_bytes()).expect("PEM");
    drop(running);
    let key = std::fs::read_to_string(folder.0.join("lan/root.key.pem")).expect("the thief reads");
    let key = rcgen::KeyPair::from_pem(&key).expect("a key");
    // The issuer's name, as the root has it.
    let prefix = b"Glassline private authority ";
    let start = root.windows(prefix.len()).position(|it| it == prefix);
    let start = start.expect("its name");
    let name = String::from_utf8_lossy(&root[start..start + prefix.len() + 8]).into_owned();
    let mut authority = rcgen::CertificateParams::default();
    authority.distinguished_name = rcgen::DistinguishedName::new();
    authority
        .distinguished_name
        .push(rcgen::DnType::CommonName, name);
    let issuer = rcgen::Issuer::new(authority, key);
    for (name, is_trusted) in [("bank.example", false), ("cam.lan", true)] {
        let parameters = rcgen::CertificateParams::new(vec![name.to_owned()]).expect("a name");
        let key = rcgen::KeyPair::generate().expect("a key");
        let forged = parameters.signed_by(&key, &issuer).expect("signed");
        let (certificate, key) = (
            folder.write("f.pem", forged.pem()),
            folder.write("k.pem", key.serialize_pem()),
        );
        let running = Running::with(1, |config| {
            secured(config);
            config.tls = Some(files(certificate, key));
        });
        let client = client_of(std::slice::from_ref(&root), &[]);
        let mut stream = connect(&running, "https", name, client);
        assert_eq!(stream.write_all(b"GET").is_ok(), is_trusted, "{name}");
    }
}

#[test]
fn the_page_to_trust_the_authority_is_open_to_everybody_and_the_file_is_of_the_type_of_phones() {
    let folder = Folder::new("trust");
    let running = Running::with(1, |config| {
        private(config, &folder, &[]);
        config.auth.read_token = Secret::new("correct-horse").ok();
    });
    let page = running.get("/trust");
    assert_eq!(page.status, 200);
    assert!(
        page.body.contains("<svg") && !page.body.contains("{{"),
        "{}",
        page.body
    );
    let https = running.listener("https").port();
    assert!(page.body.contains(&format!(":{https}/")), "{}", page.body);
    let answer = running.request("GET", "/trust", &[("Host", "cam.lan:80")], "");
    assert_eq!(answer.status, 200);
    let stream = running.connect(Ipv4Addr::LOCALHOST.into(), running.listener("http"));
    let mut stream = stream;
    stream
        .write_all(b"GET /trust/root.crt HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n")
        .expect("open");
    let mut answer = Vec::new();
    stream.read_to_end(&mut answer).expect("an answer");
    let end = answer
        .windows(4)
        .position(|it| it == b"\r\n\r\n")
        .expect("a head");
    let head = String::from_utf8_lossy(&answer[..end]).to_ascii_lowercase();
    assert!(
        head.contains("content-type: application/x-x509-ca-cert"),
        "{head}"
    );
    let pem = running.get("/trust/root.pem").body;
    let root = CertificateDer::from_pem_slice(pem.as_bytes()).expect("PEM");
    assert_eq!(&answer[end + 4..], &root[..]);
    let without = Running::start(1);
    without.get("/trust").problem(404);
}

#[test]
fn a_stream_called_trust_has_its_page_beside_that_of_the_authority() {
    let folder = Folder::new("stream_trust");
    let running = Running::with(1, |config| private(config, &folder, &[]));
    let is_of_authority = |path: &str| running.get(path).body.contains("root certificate");
    assert!(is_of_authority("/trust") && is_of_authority("/-/trust"));
    let name = StreamName::parse("trust").expect("a name");
    let _stream = running.hub().create(name);
    assert!(!is_of_authority("/trust") && is_of_authority("/-/trust"));
    assert_eq!(running.get("/trust").status, 200);
    let file = running.get("/trust/root.pem");
    assert_eq!(file.body, running.get("/-/trust/root.pem").body);
    assert_eq!(file.status, 200);
}
