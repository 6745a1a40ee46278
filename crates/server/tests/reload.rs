//! Users and certificates that change while the server runs.

use std::fs;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use base64::Engine;
use glassline_access::auth::{Account, Name, Pattern};
use glassline_config::{Config, RtspTls};
use rustls::pki_types::CertificateDer;
use rustls::pki_types::pem::PemObject;

use crate::rtsps::{Sealed, data};
use crate::running::Running;
use crate::source::{Film, Source};

/// Time limit for events that take no time on an idle machine.
const SOON: Duration = Duration::from_secs(20);

/// A folder of this test, removed with it.
pub(crate) struct Folder(pub(crate) PathBuf);

impl Folder {
    pub(crate) fn new(name: &str) -> Self {
        let name = format!("glassline-{name}-{}", std::process::id());
        let path = std::env::temp_dir().join(name);
        fs::create_dir_all(&path).expect("a folder");
        Self(path)
    }

    pub(crate) fn write(&self, name: &str, bytes: impl AsRef<[u8]>) -> PathBuf {
        let path = self.0.join(name);
        fs::write(&path, bytes).expect("written");
        path
    }

    /// Puts a certificate and a key of the tests where the server looks for them.
    pub(crate) fn identify(&self, certificate: &str, key: &str) {
        let copy = |from: &str, to: &str| {
            self.write(to, fs::read(data(from)).expect("there"));
        };
        copy(certificate, "certificate.pem");
        copy(key, "key.pem");
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        // The system empties its own folder some day, too.
        let _ = fs::remove_dir_all(&self.0);
    }
}

/// Returns the entry of a user who may read all streams.
fn entry(name: &str, password: &str) -> String {
    let account = Account {
        read: vec![Pattern::parse("*").expect("a pattern")],
        ..Account::new(Name::parse(name).expect("a name"), password, &[5; 16])
    };
    account.to_yaml()
}

/// A server that reads its users from `users.yml` in the folder.
fn guarded(folder: &Folder) -> Running {
    let file = folder.write("glassline.yml", "auth:\n  users_file: users.yml\n");
    let loaded = Config::load(&file).expect("a configuration");
    Running::with(2, |config| {
        config.auth = loaded.auth;
        config.files = loaded.files;
        config.rtsp.tls = RtspTls {
            address: "127.0.0.1:0".parse().ok(),
            certificate: Some(data("localhost.pem")),
            key: Some(data("localhost.key.pem")),
            ..RtspTls::default()
        };
    })
}

/// Returns the header with a user's credentials.
fn basic(pair: &str) -> String {
    let shown = base64::engine::general_purpose::STANDARD.encode(pair);
    format!("Authorization: Basic {shown}\r\n")
}

/// Returns the status of DESCRIBE for a user.
fn status(running: &Running, pair: &str) -> String {
    let answer = Sealed::new(running).ask("DESCRIBE", "", &basic(pair));
    answer.split(' ').nth(1).expect("a status").to_owned()
}

/// Reloads the files until `done`.
pub(crate) fn reload_until(running: &Running, mut done: impl FnMut() -> bool) {
    running.reload();
    let end = Instant::now() + SOON;
    while !done() {
        assert!(Instant::now() < end, "it is read again");
        std::thread::sleep(Duration::from_millis(50));
    }
}

#[test]
fn users_come_and_go_and_who_plays_goes_on() {
    let folder = Folder::new("users");
    folder.write("users.yml", entry("ann", "first-secret"));
    let running = guarded(&folder);
    let source = Source::start(&running.stream(), Film::default());
    source.await_published(|units| units.len() > 10);
    let (ann, bob) = ("ann:first-secret", "bob:second-secret");
    assert_eq!(status(&running, ann), "200");
    assert_eq!(status(&running, bob), "401");
    let mut playing = Sealed::new(&running);
    let transport = "Transport: RTP/AVP/TCP;unicast;interleaved=6-7\r\n";
    let set_up = playing.ask("SETUP", "/trackID=0", &(basic(ann) + transport));
    assert!(set_up.contains("200 OK"), "{set_up}");
    let answer = playing.ask("PLAY", "", &basic(ann));
    assert!(answer.contains("200 OK"), "{answer}");
    // Another connection has shown the right to read and has set up nothing yet.
    let mut authorized = Sealed::new(&running);
    let answer = authorized.ask("DESCRIBE", "", &basic(ann));
    assert!(answer.contains("200 OK"), "{answer}");

    folder.write("users.yml", entry("bob", "second-secret"));
    reload_until(&running, || status(&running, bob) == "200");
    assert_eq!(status(&running, ann), "401", "and remembered no longer");
    for credentials in ["", &basic(ann)] {
        let answer = authorized.ask("SETUP", "/trackID=0", &(credentials.to_owned() + transport));
        assert!(
            answer.contains(" 401 "),
            "a removed user sets up nothing: {answer}"
        );
    }
    for _ in 0..200 {
        playing.packet();
    }
    let answer = playing.ask("TEARDOWN", "", "");
    assert!(answer.contains("200 OK"), "{answer}");
    playing.session.clear();
    let again = playing.ask("SETUP", "/trackID=0", &(basic(ann) + transport));
    assert!(again.contains(" 401 "), "{again}");

    // A broken or empty file changes nothing; a repaired one does.
    for broken in ["- name: [", "users: {}", ""] {
        folder.write("users.yml", broken);
        running.reload();
    }
    let both = entry("ann", "first-secret") + &entry("bob", "other-secret");
    assert_eq!(status(&running, bob), "200");
    folder.write("users.yml", both);
    reload_until(&running, || status(&running, ann) == "200");
    assert_eq!(status(&running, bob), "401", "another password");
    assert_eq!(status(&running, "bob:other-secret"), "200");
}

#[test]
fn a_broken_users_file_opens_nothing() {
    let folder = Folder::new("broken-users");
    folder.write("users.yml", entry("ann", "first-secret"));
    let running = guarded(&folder);
    let source = Source::start(&running.stream(), Film::default());
    source.await_published(|units| units.len() > 10);
    for broken in ["- name: [", "# nobody\n", ""] {
        folder.write("users.yml", broken);
        running.reload();
        std::thread::sleep(Duration::from_millis(500));
        let answer = Sealed::new(&running).ask("DESCRIBE", "", "");
        assert!(answer.contains(" 401 "), "{broken}: {answer}");
        assert_eq!(status(&running, "ann:first-secret"), "200", "{broken}");
    }
}

#[test]
fn a_new_certificate_of_quic_is_shown_to_who_comes_next() {
    let folder = Folder::new("quic-certificate");
    folder.identify("localhost.pem", "localhost.key.pem");
    let running = Running::with(1, |config| {
        config.quic.certificate = Some(folder.0.join("certificate.pem"));
        config.quic.key = Some(folder.0.join("key.pem"));
    });
    let first = running.fingerprint();
    assert!(crate::quic::is_reached(&running, &first));
    // They do not belong together.
    folder.identify("other.pem", "localhost.key.pem");
    running.reload();
    std::thread::sleep(Duration::from_millis(500));
    assert_eq!(running.fingerprint(), first);
    folder.identify("other.pem", "other.key.pem");
    reload_until(&running, || running.fingerprint() != first);
    let second = running.fingerprint();
    assert!(crate::quic::is_reached(&running, &second));
    assert!(!crate::quic::is_reached(&running, &first));
}

pub(crate) fn shown(running: &Running) -> CertificateDer<'static> {
    let roots = ["localhost.pem", "other.pem"];
    let mut line = Sealed::trusting(running, &roots);
    let answer = line.ask("OPTIONS", "", "");
    assert!(answer.contains("200 OK"), "{answer}");
    let chain = line.stream.conn.peer_certificates().expect("a chain");
    chain[0].clone().into_owned()
}

fn certificate(path: &Path) -> CertificateDer<'static> {
    CertificateDer::from_pem_file(path).expect("PEM")
}

#[test]
fn a_new_certificate_is_shown_to_who_comes_next() {
    let folder = Folder::new("certificate");
    folder.identify("localhost.pem", "localhost.key.pem");
    let running = Running::with(2, |config| {
        config.rtsp.tls = RtspTls {
            address: "127.0.0.1:0".parse().ok(),
            certificate: Some(folder.0.join("certificate.pem")),
            key: Some(folder.0.join("key.pem")),
            ..RtspTls::default()
        };
    });
    let source = Source::start(&running.stream(), Film::default());
    source.await_published(|units| units.len() > 10);
    let (first, second) = (data("localhost.pem"), data("other.pem"));
    assert_eq!(shown(&running), certificate(&first));
    let mut playing = Sealed::new(&running);
    playing.play();

    // They do not belong together.
    folder.identify("other.pem", "localhost.key.pem");
    running.reload();
    std::thread::sleep(Duration::from_millis(500));
    assert_eq!(shown(&running), certificate(&first));
    folder.identify("other.pem", "other.key.pem");
    reload_until(&running, || shown(&running) == certificate(&second));
    for _ in 0..200 {
        playing.packet();
    }
}
