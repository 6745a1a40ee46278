//! Handshakes in memory, with certificates of an authority that is made here.

use std::fs;
use std::io;
use std::time::{Duration, SystemTime};

use rcgen::{BasicConstraints, CertificateParams, DnType, IsCa, Issuer, KeyPair};
use rustls::pki_types::PrivateKeyDer;
use rustls::{ClientConnection, ServerConfig, ServerConnection};

use super::*;

/// An authority, and its certificate as a bundle.
struct Authority {
    issuer: Issuer<'static, KeyPair>,
    bundle: &'static Path,
}

/// The certificates that a server shows, with the private key.
struct Shown {
    chain: Vec<CertificateDer<'static>>,
    key: PrivateKeyDer<'static>,
}

impl Authority {
    fn new(name: &str) -> Self {
        Self::called(name, name)
    }

    /// Makes an authority with this name in its certificate, and with another one for its file.
    fn called(name: &str, file: &str) -> Self {
        let key = KeyPair::generate().expect("a key");
        let mut parameters = CertificateParams::new(Vec::new()).expect("no names");
        parameters.distinguished_name.push(DnType::CommonName, name);
        parameters.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        let certificate = parameters.self_signed(&key).expect("a root");
        let file = format!("glassline-trust-{}-{file}.pem", std::process::id());
        let bundle = std::env::temp_dir().join(file);
        fs::write(&bundle, certificate.pem()).expect("a folder for files of a minute");
        Self {
            issuer: Issuer::new(parameters, key),
            bundle: Box::leak(bundle.into_boxed_path()),
        }
    }

    /// Signs a certificate for "camera.example" that ends after `days`.
    fn signs(&self, days: i64) -> Shown {
        let key = KeyPair::generate().expect("a key");
        let parameters = CertificateParams::new(vec!["camera.example".to_owned()]);
        let mut parameters = parameters.expect("a name");
        let day = |days: i64| {
            let distance = Duration::from_secs(86_400 * days.unsigned_abs());
            match days < 0 {
                true => SystemTime::now() - distance,
                false => SystemTime::now() + distance,
            }
        };
        parameters.not_before = day(-30).into();
        parameters.not_after = day(days).into();
        let made = parameters.signed_by(&key, &self.issuer);
        let made = made.expect("a certificate");
        Shown {
            chain: vec![made.der().clone()],
            key: PrivateKeyDer::try_from(key.serialize_der()).expect("a key"),
        }
    }
}

impl Drop for Authority {
    fn drop(&mut self) {
        let _ = fs::remove_file(self.bundle);
    }
}

impl Shown {
    fn fingerprint(&self) -> Fingerprint {
        Fingerprint::of(&self.chain[0])
    }

    /// Handshakes with a client that trusts so and that wants `name`, over TCP.
    fn meets(&self, trust: Trust, name: &'static str) -> Result<(), io::Error> {
        let config = trust.over_tcp().map_err(io::Error::other)?;
        let name = ServerName::try_from(name).expect("a name");
        let mut client = ClientConnection::new(config, name).expect("a client");
        let server = ServerConfig::builder_with_provider(provider())
            .with_safe_default_protocol_versions()
            .expect("TLS 1.2 and 1.3")
            .with_no_client_auth()
            .with_single_cert(self.chain.clone(), self.key.clone_key())
            .expect("a pair");
        let mut server = ServerConnection::new(Arc::new(server)).expect("a server");
        while client.is_handshaking() {
            let mut wire = Vec::new();
            while client.wants_write() {
                client.write_tls(&mut wire)?;
            }
            let mut rest = &wire[..];
            while !rest.is_empty() {
                server.read_tls(&mut rest)?;
                server.process_new_packets().expect("our client");
            }
            let mut wire = Vec::new();
            while server.wants_write() {
                server.write_tls(&mut wire)?;
            }
            let mut rest = &wire[..];
            while !rest.is_empty() {
                client.read_tls(&mut rest)?;
                let read = client.process_new_packets();
                // As `complete_io` has it.
                read.map_err(|error| io::Error::new(io::ErrorKind::InvalidData, error))?;
            }
        }
        Ok(())
    }

    /// Returns the sentence for the refusal.
    fn refused(&self, trust: Trust, name: &'static str) -> String {
        let error = self.meets(trust, name).expect_err("refused");
        UntrustedCertificate::told(error).to_string()
    }
}

#[test]
fn a_certificate_is_that_of_a_known_authority_or_of_the_pin() {
    let known = Authority::new("known");
    let other = Authority::new("other");
    let shown = known.signs(30);
    let pin = Trust::Pinned(shown.fingerprint());
    for trust in [Trust::Authorities(known.bundle), pin, Trust::Anyone] {
        shown.meets(trust, "camera.example").expect("accepted");
    }
    for trust in [pin, Trust::Anyone] {
        shown
            .meets(trust, "other.example")
            .expect("whatever its name");
        known
            .signs(-1)
            .meets(Trust::Anyone, "camera.example")
            .expect("whatever its age");
    }
    let of = |reason: &str| {
        let print = shown.fingerprint();
        format!("the server's certificate is not trusted ({reason}): its SHA-256 is {print}")
    };
    let stranger = Trust::Authorities(other.bundle);
    assert_eq!(
        shown.refused(stranger, "camera.example"),
        of("no known authority signed it")
    );
    let namesake = Authority::called("known", "namesake");
    let refused = shown.refused(Trust::Authorities(namesake.bundle), "camera.example");
    assert_eq!(refused, of("the authority that it names did not sign it"));
    let wrong = Trust::Pinned(Fingerprint([7; 32]));
    assert_eq!(
        shown.refused(wrong, "camera.example"),
        of("it is not the pinned one")
    );
    assert_eq!(
        shown.refused(Trust::Authorities(known.bundle), "other.example"),
        of("it is for camera.example, and not for other.example")
    );
    let expired = known.signs(-1);
    let refused = expired.refused(Trust::Authorities(known.bundle), "camera.example");
    assert!(refused.contains("(it has expired)"), "{refused}");
    assert!(refused.contains(&expired.fingerprint().to_string()));
}

#[test]
fn the_bundle_of_the_system_is_the_one_that_is_named() {
    let known = Authority::new("named");
    let roots = system_of(Some(known.bundle.to_owned())).expect("a bundle");
    assert_eq!(roots.len(), 1);
    let absent = PathBuf::from("/nonexistent/glassline.pem");
    let refused = system_of(Some(absent))
        .expect_err("no such file")
        .to_string();
    assert!(
        refused.starts_with("cannot read CA certificates from /nonexistent/glassline.pem: "),
        "{refused}"
    );
    fs::write(known.bundle, "no certificate").expect("a file of ours");
    let empty = Trust::Authorities(known.bundle).over_tcp();
    let empty = empty.expect_err("no authority").to_string();
    assert!(empty.ends_with("it contains no certificate"), "{empty}");
}

#[test]
fn a_certificate_of_its_own_is_named_so() {
    let made = rcgen::generate_simple_self_signed(vec!["camera.example".to_owned()]);
    let made = made.expect("a certificate");
    let shown = Shown {
        chain: vec![made.cert.der().clone()],
        key: PrivateKeyDer::try_from(made.signing_key.serialize_der()).expect("a key"),
    };
    let known = Authority::new("stranger");
    let refused = shown.refused(Trust::Authorities(known.bundle), "camera.example");
    assert!(
        refused.contains("no known authority signed it"),
        "{refused}"
    );
    let other = rustls::Error::General("another reason".to_owned());
    assert_eq!(UntrustedCertificate::in_tls(&other), None);
    let other = UntrustedCertificate::told(io::Error::other(other));
    assert!(other.to_string().contains("another reason"));
}
