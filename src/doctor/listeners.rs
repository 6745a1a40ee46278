//! The ports of RTSP and MoQ of a server, from this machine.

use std::net::{IpAddr, SocketAddr};
use std::time::Duration;

use glassline_client::probe::{quic, rtsp};
use serde_json::Value;
use url::Url;

use super::clock;
use super::finding::{Finding, Severity};

/// Time for a connection, or for an answer.
const PATIENCE: Duration = Duration::from_secs(2);

/// Time for the first sender report, which comes within 5 s (RFC 3550 §6.2).
const REPORT: Duration = Duration::from_secs(6);

/// Default ports of RTSP and of MoQ.
const RTSP_PORT: u16 = 8554;
const QUIC_PORT: u16 = 4443;

/// Ports that the operator names on the command line.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct NamedPorts {
    pub(super) rtsp: Option<u16>,
    pub(super) quic: Option<u16>,
}

/// A port to be tried.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct TriedPort {
    number: u16,
    known_by: KnownBy,
}

/// How a port is known.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum KnownBy {
    /// The operator named the port.
    Operator,
    /// The server's API names it.
    Server,
    /// It is the usual port.
    Usage,
}

impl TriedPort {
    /// Returns the port of RTSP. `told`: what the server's API says of the server.
    pub(super) fn of_rtsp(named: NamedPorts, told: Option<&Value>) -> Self {
        Self::of(named.rtsp, told, "rtsp", RTSP_PORT)
    }

    /// Returns the port of MoQ. `told`: what the server's API says of the server.
    pub(super) fn of_quic(named: NamedPorts, told: Option<&Value>) -> Self {
        Self::of(named.quic, told, "quic", QUIC_PORT)
    }

    fn of(named: Option<u16>, told: Option<&Value>, protocol: &str, usual: u16) -> Self {
        let told = told.and_then(|it| it["ports"][protocol].as_u64());
        let told = told.and_then(|it| u16::try_from(it).ok());
        let (number, known_by) = match (named, told) {
            (Some(named), _) => (named, KnownBy::Operator),
            (None, Some(told)) => (told, KnownBy::Server),
            (None, None) => (usual, KnownBy::Usage),
        };
        Self { number, known_by }
    }

    /// Returns the finding that nothing answers. What nobody has promised may well be off.
    fn silent(self, check: &'static str, subject: String, what: &str, error: &str) -> Finding {
        let (severity, which) = match self.known_by {
            KnownBy::Operator => (Severity::Failure, "this port"),
            KnownBy::Server => (Severity::Warning, "the port that the server's API names"),
            KnownBy::Usage => (Severity::Notice, "the usual port"),
        };
        Finding {
            severity,
            ..Finding::notice(check, subject, format!("no {what} at {which}: {error}"))
        }
    }

    /// Returns what to change if nothing answers; `key` is the part of the configuration, `option`
    /// the option of doctor, and `open` the port to open.
    fn change(self, key: &str, option: &str, protocol: &str) -> String {
        let number = self.number;
        match self.known_by {
            KnownBy::Usage => format!(
                "`{key}: {{address: \"0.0.0.0:{number}\"}}`, if it is wanted; `{option} PORT` tries another port"
            ),
            KnownBy::Operator | KnownBy::Server => format!(
                "see that `{key}.address` has this port and is not 127.0.0.1, and open {number}/{protocol} in the firewall"
            ),
        }
    }
}

/// Asks the RTSP server at `ip`, and compares its clock by a sender report of the stream `url`.
pub(super) fn rtsp(ip: IpAddr, port: TriedPort, stream: Option<Url>) -> Vec<Finding> {
    let address = SocketAddr::new(ip, port.number);
    let subject = address.to_string();
    let line = match rtsp::options(address, PATIENCE) {
        Ok(line) => line,
        Err(error) => {
            let silent = port.silent("rtsp", subject, "RTSP", &error.to_string());
            let finding = silent
                .why("players such as VLC and recorders would use it")
                .change(port.change("rtsp", "--rtsp-port", "tcp"));
            return vec![finding];
        }
    };
    let answers = Finding::ok("rtsp", &subject, format!("answers {line}"));
    let compared = stream.and_then(|url| {
        // Why a stream does not play, other checks say.
        let seen = rtsp::sender_clock(address, &url, REPORT).ok()?;
        Some(clock::of_sender_report(&subject, &seen))
    });
    std::iter::once(answers).chain(compared).collect()
}

/// Returns the URL of a stream at the RTSP server `host`.
pub(super) fn rtsp_url(
    host: &str,
    port: TriedPort,
    name: &str,
    token: Option<&str>,
) -> Option<Url> {
    let mut url = Url::parse(&format!("rtsp://{host}:{}/{name}", port.number)).ok()?;
    if let Some(token) = token {
        url.query_pairs_mut().append_pair("token", token);
    }
    Some(url)
}

/// Opens a MoQ session with `host`.
pub(super) async fn quic(host: &str, port: TriedPort) -> Finding {
    let subject = format!("{host}:{}", port.number);
    match quic::session(host, port.number, PATIENCE).await {
        Ok(span) => {
            let ms = span.as_millis();
            Finding::ok("quic", subject, format!("a session in {ms} ms"))
        }
        Err(error) => port
            .silent("quic", subject, "MoQ", &error)
            .why("publishers and players over MoQ would use it")
            .change(port.change("quic", "--quic-port", "udp")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_port_is_the_named_one_or_the_servers_or_the_usual_one() {
        let told = serde_json::json!({"ports": {"rtsp": 9554, "quic": null}});
        let named = NamedPorts {
            rtsp: Some(7554),
            quic: None,
        };
        let numbers = |port: TriedPort| (port.number, port.known_by);
        let of_server = TriedPort::of_rtsp(NamedPorts::default(), Some(&told));
        assert_eq!(numbers(of_server), (9554, KnownBy::Server));
        let of_operator = TriedPort::of_rtsp(named, Some(&told));
        assert_eq!(numbers(of_operator), (7554, KnownBy::Operator));
        let usual = TriedPort::of_quic(named, Some(&told));
        assert_eq!(numbers(usual), (QUIC_PORT, KnownBy::Usage));
        let too_large = serde_json::json!({"ports": {"rtsp": 70_000}});
        let usual = TriedPort::of_rtsp(NamedPorts::default(), Some(&too_large));
        assert_eq!(numbers(usual), (RTSP_PORT, KnownBy::Usage));
    }

    #[test]
    fn a_port_that_was_promised_and_is_silent_is_worse_than_the_usual_one() {
        let severity = |known_by| {
            let port = TriedPort {
                number: 1,
                known_by,
            };
            let finding = port.silent("rtsp", String::new(), "RTSP", "refused");
            (finding.severity, port.change("rtsp", "--rtsp-port", "tcp"))
        };
        let (operator, change) = severity(KnownBy::Operator);
        assert_eq!(operator, Severity::Failure);
        assert!(change.contains("1/tcp"), "{change}");
        assert_eq!(severity(KnownBy::Server).0, Severity::Warning);
        let (usage, change) = severity(KnownBy::Usage);
        assert_eq!(usage, Severity::Notice);
        assert!(change.contains("--rtsp-port PORT"), "{change}");
    }

    #[test]
    fn a_stream_of_an_ipv6_server_has_a_url_with_its_token() {
        let port = TriedPort::of_rtsp(NamedPorts::default(), None);
        let url = rtsp_url("[::1]", port, "yard/cam", Some("a&b")).expect("a URL");
        assert_eq!(url.as_str(), "rtsp://[::1]:8554/yard/cam?token=a%26b");
    }
}
