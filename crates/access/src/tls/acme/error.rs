//! Why there is no certificate, and what to do about it.

use std::io;
use std::path::PathBuf;

use instant_acme::Problem;
use thiserror::Error;

use super::{AcmeName, ChallengeKind};
use crate::tls::StateError;

/// The reason why an authority issued no certificate.
#[derive(Debug, Error)]
pub enum AcmeError {
    /// The account and the certificate cannot be kept.
    #[error(transparent)]
    State(#[from] StateError),
    /// The file of root certificates cannot be used.
    #[error("tls.acme.roots: cannot use {path}: {source}; name a PEM file with a section `CERTIFICATE`", path = path.display())]
    Roots {
        /// Path of the file.
        path: PathBuf,
        /// The reason why the file cannot be used.
        source: io::Error,
    },
    /// The challenge is answered by HTTPS, which is turned off.
    #[error(
        "tls.acme.challenge is tls-alpn-01, which HTTPS answers, and https.address is off: give https.address a port, or write http-01"
    )]
    NoHttps,
    /// The file in the state folder is damaged.
    #[error("tls.acme: {file} in the state folder is damaged; remove the file")]
    Damaged {
        /// Name of the file in the folder.
        file: &'static str,
    },
    /// The authority cannot be reached, or answers something else than ACME.
    #[error(
        "tls.acme.directory: {directory}: {reason}; this machine must be able to open connections to the authority, and the URL must be that of its directory"
    )]
    Unreachable {
        /// URL of the authority's directory.
        directory: String,
        /// The reason why there is no usable answer.
        reason: String,
    },
    /// The authority did not finish in time.
    #[error("tls.acme.directory: {directory}: the authority did not finish the order in time")]
    Slow {
        /// URL of the authority's directory.
        directory: String,
    },
    /// The authority refused something before any challenge.
    #[error("tls.acme: the authority refused {names}: {problem}; {advice}", problem = detail(.problem), advice = advice(.problem))]
    Refused {
        /// The names of the order.
        names: String,
        /// The answer of the authority.
        problem: Problem,
    },
    /// The authority offers no challenge of the configured kind.
    #[error("tls.acme: {name}: the authority does not verify this name by {}, but by {offered}; change tls.acme.challenge", .kind.as_str())]
    NotOffered {
        /// The name that the authority was to verify.
        name: AcmeName,
        /// The kind of challenge that was wanted.
        kind: ChallengeKind,
        /// The kinds that the authority offers.
        offered: String,
    },
    /// The authority could not see that a name leads here.
    #[error("tls.acme: {name}: the authority could not verify the name by {}: {problem}; {}", .kind.as_str(), reachability(.name, *.kind))]
    Challenge {
        /// The name that the authority was to verify.
        name: AcmeName,
        /// The kind of challenge that failed.
        kind: ChallengeKind,
        /// The reason that the authority gave for its refusal.
        problem: String,
    },
    /// The cryptography cannot make a key or a certificate.
    #[error("tls.acme: cannot make a key: {0}")]
    Make(#[from] rcgen::Error),
    /// TLS does not accept what the authority issued.
    #[error("tls.acme: the certificate that was issued cannot be used: {0}")]
    Unusable(#[from] rustls::Error),
    /// The certificate is no PEM.
    #[error("tls.acme: the certificate that was issued is no PEM")]
    NoPem,
}

impl AcmeError {
    /// Returns whether the authority does not know the account.
    pub(super) fn is_unknown_account(&self) -> bool {
        matches!(self, Self::Refused { problem, .. } if kind(problem) == "accountDoesNotExist")
    }
}

/// Returns the authority's sentence, and the kind of the problem without its namespace.
pub(super) fn detail(problem: &Problem) -> String {
    let kind = kind(problem);
    let mut text = problem.detail.clone().unwrap_or_default();
    for part in &problem.subproblems {
        text += &format!("; {part}");
    }
    format!("{} ({kind})", text.trim())
}

/// Returns the kind of the problem (RFC 8555 §6.7), like `rateLimited`.
fn kind(problem: &Problem) -> &str {
    let kind = problem.r#type.as_deref().unwrap_or("unknown");
    kind.rsplit(':').next().unwrap_or(kind)
}

fn advice(problem: &Problem) -> &'static str {
    match kind(problem) {
        "rejectedIdentifier" | "unsupportedIdentifier" => {
            "tls.acme.names must be public names and addresses that this authority certifies"
        }
        "rateLimited" => "the server asks again when the authority allows it",
        "invalidContact" | "unsupportedContact" => "change tls.acme.email",
        "externalAccountRequired" => {
            "this authority wants accounts that are made on its site, which is not supported; name another in tls.acme.directory"
        }
        "invalidProfile" => "change tls.acme.profile",
        "caa" => "allow the authority in the CAA record of the domain",
        _ => "the authority's documentation explains the reason",
    }
}

fn reachability(name: &AcmeName, kind: ChallengeKind) -> String {
    let (port, setting) = match kind {
        ChallengeKind::Http01 => (80, "http.address"),
        ChallengeKind::TlsAlpn01 => (443, "https.address"),
    };
    format!(
        "from the internet, TCP port {port} of {name} must lead to {setting} of this server: check \
         DNS, firewall and port forwarding, or change tls.acme.challenge"
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    fn problem(kind: &str, detail: &str) -> Problem {
        let kind = format!("urn:ietf:params:acme:error:{kind}");
        let json = serde_json::json!({"type": kind, "detail": detail, "status": 403});
        serde_json::from_value(json).expect("a problem")
    }

    #[test]
    fn errors_name_the_name_the_challenge_and_what_to_do() {
        let name: AcmeName = "media.example".parse().expect("a name");
        let failed = AcmeError::Challenge {
            name,
            kind: ChallengeKind::Http01,
            problem: detail(&problem("connection", "connection refused")),
        };
        let text = failed.to_string();
        for part in [
            "media.example",
            "http-01",
            "refused (connection)",
            "port 80",
            "http.address",
        ] {
            assert!(text.contains(part), "{part}: {text}");
        }
        let refused = AcmeError::Refused {
            names: "media.example".to_owned(),
            problem: problem("rejectedIdentifier", "forbidden by policy"),
        };
        let text = refused.to_string();
        for part in ["media.example", "forbidden by policy", "tls.acme.names"] {
            assert!(text.contains(part), "{part}: {text}");
        }
    }
}
