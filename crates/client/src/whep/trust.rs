use std::path::PathBuf;
use std::sync::Arc;

use ureq::tls::{Certificate, PemItem, RootCerts, TlsConfig, parse_pem};

/// rustls on aws-lc-rs, trusting whom the system trusts.
pub(super) fn config() -> TlsConfig {
    TlsConfig::builder()
        .unversioned_rustls_crypto_provider(Arc::new(rustls::crypto::aws_lc_rs::default_provider()))
        .root_certs(RootCerts::new_with_certs(&system_roots()))
        .build()
}

/// The bundle in `SSL_CERT_FILE`, else the first that is there. None at all
/// leaves http working and makes https fail as "unknown issuer".
fn system_roots() -> Vec<Certificate<'static>> {
    let named = std::env::var_os("SSL_CERT_FILE").map(PathBuf::from);
    let bundle = named
        .into_iter()
        .chain(BUNDLES.iter().map(PathBuf::from))
        .find_map(|path| std::fs::read(path).ok());
    let Some(bundle) = bundle else {
        tracing::debug!("no bundle of trusted certificates found; set SSL_CERT_FILE for https");
        return Vec::new();
    };
    parse_pem(&bundle)
        .filter_map(|item| match item {
            Ok(PemItem::Certificate(certificate)) => Some(certificate),
            _ => None,
        })
        .collect()
}

/// Where Debian and Alpine, Fedora, SUSE, BSD and macOS keep theirs.
const BUNDLES: [&str; 5] = [
    "/etc/ssl/certs/ca-certificates.crt",
    "/etc/pki/tls/certs/ca-bundle.crt",
    "/etc/ssl/ca-bundle.pem",
    "/usr/local/etc/ssl/cert.pem",
    "/etc/ssl/cert.pem",
];
