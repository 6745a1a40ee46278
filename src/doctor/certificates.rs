//! Certificates: of files that the configuration names, and of servers.

use std::time::{Duration, SystemTime};

use glassline_access::tls::Validity;
use glassline_client::probe::tls::{CertificateFault, Presented, fault_of};
use glassline_config::Config;

use super::finding::Finding;
use super::trial;

const CHECK: &str = "certificate";

/// Time before the end of a certificate from which on a warning is due.
const SOON: Duration = Duration::from_secs(14 * 86_400);

/// Checks the files that `config` names, and whether they are for the names in `http.hosts`.
pub(super) fn of_files(config: &Config) -> Vec<Finding> {
    let tried = glassline_server::try_certificates(config);
    let mut findings: Vec<Finding> = tried
        .iter()
        .map(|tried| {
            trial::finding(
                CHECK,
                tried,
                "browsers refuse the page, and players the stream",
            )
        })
        .collect();
    let now = SystemTime::now();
    for files in config.certificate_files() {
        let Ok(certificate) = files.load() else {
            continue;
        };
        let chain: Vec<Vec<u8>> = certificate.chain().iter().map(|it| it.to_vec()).collect();
        let file = files.certificate.display().to_string();
        let left = certificate.not_after().map(|end| end.duration_since(now));
        if let Some(Ok(left)) = left {
            findings.extend(soon(&file, left));
        }
        for host in &config.http.hosts {
            let host = host.to_string();
            let fault = fault_of(&chain, &host, now);
            findings.extend(fault.and_then(|fault| of_name(&file, &host, &fault)));
        }
    }
    findings
}

/// A finding about the name `host` in a file; faults of time have findings of their own.
fn of_name(file: &str, host: &str, fault: &CertificateFault) -> Option<Finding> {
    match fault {
        CertificateFault::Name { presented } => Some(
            Finding::failure(
                CHECK,
                host,
                format!(
                    "{file} is not for the name {host} of http.hosts{}",
                    names(presented)
                ),
            )
            .why("browsers refuse the page under this name")
            .change("obtain a certificate for every name of http.hosts"),
        ),
        CertificateFault::UnknownIssuer => Some(
            Finding::notice(
                CHECK,
                host,
                format!("{file}: no authority that this machine trusts has signed it"),
            )
            .why("a browser that does not know the authority refuses the page")
            .change(
                "put the intermediate certificates behind the server's own in the file, or take \
                 `tls: {acme: …}`",
            ),
        ),
        _ => None,
    }
}

fn names(presented: &[String]) -> String {
    match presented {
        [] => String::new(),
        names => format!(", but for {}", names.join(", ")),
    }
}

/// A warning about a certificate that ends soon.
fn soon(subject: &str, left: Duration) -> Option<Finding> {
    let days = left.as_secs() / 86_400;
    (left < SOON).then(|| {
        Finding::warning(
            CHECK,
            subject,
            format!("the certificate expires in {days} days"),
        )
        .why("clients refuse it from then on")
        .change("renew it now, and see why its renewal has not run")
    })
}

/// Judges the certificate that a server showed for `host`.
pub(super) fn of_server(host: &str, presented: &Presented, now: SystemTime) -> Vec<Finding> {
    let validity = presented.chain.first();
    let validity = validity.and_then(|own| Validity::of(own));
    let left = validity.map(|it| it.not_after.duration_since(now));
    let ago = match &left {
        Some(Err(error)) => format!(" {} days ago", error.duration().as_secs() / 86_400),
        _ => String::new(),
    };
    let why = "browsers refuse the page, and publishers the connection";
    let Some(fault) = &presented.fault else {
        let days = left
            .and_then(Result::ok)
            .map(|left| left.as_secs() / 86_400);
        let days = days.map_or_else(String::new, |days| format!(", {days} days left"));
        let fine = Finding::ok(CHECK, host, format!("clients accept it{days}"));
        let left = validity.and_then(|it| it.not_after.duration_since(now).ok());
        let warning = left.and_then(|left| soon(host, left));
        return vec![warning.unwrap_or(fine)];
    };
    let (what, change) = match fault {
        CertificateFault::Expired => (
            format!("the certificate expired{ago}"),
            "renew the files of `tls`; the server reads them again when they change".to_owned(),
        ),
        CertificateFault::NotYetValid => (
            "the certificate is not valid yet".to_owned(),
            "set the clock of the machine that is wrong: `timedatectl set-ntp true`".to_owned(),
        ),
        CertificateFault::Name { presented } => (
            format!("the certificate is not for {host}{}", names(presented)),
            format!("obtain a certificate for {host}, or open the page by a name that it has"),
        ),
        CertificateFault::UnknownIssuer => (
            "no authority that this machine trusts has signed the certificate".to_owned(),
            "put the intermediate certificates behind the server's own in the file of `tls`; with \
             `tls: {lan: {}}`, each device trusts the root of /trust once"
                .to_owned(),
        ),
        CertificateFault::Other(reason) => (reason.clone(), "renew the files of `tls`".to_owned()),
        _ => ("clients refuse the certificate".to_owned(), String::new()),
    };
    vec![Finding::failure(CHECK, host, what).why(why).change(change)]
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::doctor::finding::Severity;

    fn presented(fault: Option<CertificateFault>) -> Presented {
        Presented {
            chain: vec![Vec::new()],
            fault,
        }
    }

    #[test]
    fn each_fault_of_a_certificate_has_its_remedy() {
        let of = |fault| {
            let found = of_server("a.test", &presented(Some(fault)), SystemTime::now());
            assert_eq!(found[0].severity, Severity::Failure);
            format!("{}; {}", found[0].what, found[0].change)
        };
        assert!(of(CertificateFault::Expired).contains("expired; renew the files"));
        assert!(of(CertificateFault::NotYetValid).contains("timedatectl"));
        let name = of(CertificateFault::Name {
            presented: vec!["b.test".to_owned()],
        });
        assert!(name.contains("not for a.test, but for b.test"), "{name}");
        assert!(of(CertificateFault::UnknownIssuer).contains("intermediate"));
        let fine = of_server("a.test", &presented(None), SystemTime::now());
        assert_eq!(fine[0].severity, Severity::Ok);
    }

    #[test]
    fn the_last_two_weeks_of_a_certificate_are_a_warning() {
        let day = Duration::from_secs(86_400);
        assert_eq!(soon("a.pem", day * 30), None);
        let finding = soon("a.pem", day * 3).expect("three days");
        assert_eq!(finding.severity, Severity::Warning);
        assert_eq!(finding.what, "the certificate expires in 3 days");
    }
}
