//! A stream that is published to the listeners of a configuration, and played from them.

use std::collections::BTreeSet;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::time::{Duration, Instant};

use glassline_client::trust::Trust;
use glassline_client::viewers::{Endpoint, IceTransport};
use glassline_config::{Auth, Config, HttpsAddress};
use glassline_server::{CHECK_PREFIX, Server};
use url::Url;

use super::finding::{Finding, Severity};
use super::group::blocking;
use super::media::{self, Play, Publication};
use super::offer;

/// Time in which a stream must be published and played. The candidates are checked afterwards, and all
/// together must end in time.
const PLAY: Duration = Duration::from_millis(4_500);

/// Time that the listeners of this process have to close.
const GRACE: Duration = Duration::from_millis(300);

/// The address at which this machine reaches a listener.
pub(super) fn reachable(address: SocketAddr) -> SocketAddr {
    let ip = match address.ip() {
        ip if !ip.is_unspecified() => ip,
        IpAddr::V4(_) => Ipv4Addr::LOCALHOST.into(),
        IpAddr::V6(_) => Ipv6Addr::LOCALHOST.into(),
    };
    SocketAddr::new(ip, address.port())
}

/// Listeners through which a stream is published and played.
#[derive(Clone, Debug)]
struct Listeners {
    http: SocketAddr,
    rtsp: Option<SocketAddr>,
    quic: Option<SocketAddr>,
    /// Whether media goes over TCP, too.
    has_media_tcp: bool,
    publish_token: Option<String>,
    read_token: Option<String>,
    /// Addresses that viewers elsewhere are told.
    advertised: Vec<IpAddr>,
}

impl Listeners {
    /// The subjects of the server that runs.
    fn of_config(config: &Config, advertised: Vec<IpAddr>) -> Self {
        let token = |secret: &Option<glassline_config::Secret>| {
            secret.as_ref().map(|it| it.reveal().to_owned())
        };
        Self {
            http: reachable(config.http.address),
            rtsp: config.rtsp.address.map(reachable),
            quic: config.quic.address.map(reachable),
            has_media_tcp: config.media.tcp,
            publish_token: token(&config.auth.publish_token),
            read_token: token(&config.auth.read_token),
            advertised,
        }
    }

    /// The subjects of a server in this process.
    fn of_server(server: &Server, advertised: Vec<IpAddr>) -> Option<Self> {
        let find = |name| {
            let mut all = server.listeners().iter();
            let found = all.find(|(it, _)| *it == name);
            found.map(|(_, address)| reachable(*address))
        };
        Some(Self {
            http: find("http")?,
            rtsp: find("rtsp"),
            quic: find("quic"),
            has_media_tcp: find("media-tcp").is_some(),
            publish_token: None,
            read_token: None,
            advertised,
        })
    }
}

/// Publishes to the listeners of the configuration, and plays from them. `is_running`: a server has them
/// open; else they are opened here, but for ports that others have `taken`.
pub(super) async fn check(
    config: &Config,
    is_running: bool,
    taken: &BTreeSet<String>,
) -> Vec<Finding> {
    let learned = glassline_server::advertised_ips(config).await;
    let advertised: Vec<IpAddr> = learned
        .into_iter()
        .filter_map(|it| it.1.ok())
        .flatten()
        .collect();
    if is_running {
        let is_elsewhere = !advertised.is_empty();
        let findings = publish_and_play(&Listeners::of_config(config, advertised)).await;
        return match is_elsewhere {
            true => findings.into_iter().map(seen_from_within).collect(),
            false => findings,
        };
    }
    let server = match Server::start(for_the_check(config, taken), Vec::new()).await {
        Ok(server) => server,
        Err(error) => {
            let finding = Finding::failure("media", "server", error.to_string());
            return vec![finding.why("the server cannot start")];
        }
    };
    let findings = match Listeners::of_server(&server, advertised) {
        Some(listeners) => publish_and_play(&listeners).await,
        None => Vec::new(),
    };
    server.shutdown(GRACE).await;
    findings
}

/// Makes a warning of a failure that may be the way from this machine to its own outer address.
fn seen_from_within(finding: Finding) -> Finding {
    let severity = match finding.what.contains("no connection") {
        true => finding.severity.min(Severity::Warning),
        false => finding.severity,
    };
    Finding {
        severity,
        ..finding
    }
}

/// The configuration for listeners of this process. Ports that others hold become free ones. Without
/// tokens, only this machine may publish. No authority is asked for a certificate.
fn for_the_check(config: &Config, taken: &BTreeSet<String>) -> Config {
    let mut config = config.clone();
    config.auth = Auth::default();
    config.sources.clear();
    config.admin.state_file = None;
    // Under the name of the server that runs, this process would give the server's streams up.
    config.cluster = None;
    // A router may not lead this machine to its own outer address.
    config.media.advertise.clear();
    let is_from_files = !config.certificate_files().is_empty();
    if !is_from_files || glassline_server::check_certificates(&config).is_err() {
        config.tls = None;
        config.https.address = HttpsAddress::Off;
        config.admin.https = None;
        config.rtsp.tls = glassline_config::RtspTls::default();
        config.quic.certificate = None;
        config.quic.key = None;
    }
    for listener in config.configured_listeners() {
        if taken.contains(listener.key) {
            free(&mut config, listener.key);
        }
    }
    config
}

/// Takes a free port for a listener.
fn free(config: &mut Config, key: &str) {
    let address = match key {
        "http.address" => Some(&mut config.http.address),
        "admin.address" => Some(&mut config.admin.address),
        "media.address" | "media.tcp" => Some(&mut config.media.address),
        "rtsp.address" => config.rtsp.address.as_mut(),
        "quic.address" => config.quic.address.as_mut(),
        "rtsp.tls.address" => config.rtsp.tls.address.as_mut(),
        "admin.https" => config.admin.https.as_mut(),
        _ => {
            config.https.address = HttpsAddress::Off;
            None
        }
    };
    if let Some(address) = address {
        address.set_port(0);
    }
}

/// Publishes by WHIP and by MoQ, and plays by WHEP and RTSP.
async fn publish_and_play(listeners: &Listeners) -> Vec<Finding> {
    let number = std::process::id();
    let whip = publish("WHIP", format!("{CHECK_PREFIX}whip-{number:x}"), listeners);
    let moq = publish("MoQ", format!("{CHECK_PREFIX}moq-{number:x}"), listeners);
    let ((mut findings, whip), (of_moq, moq)) = tokio::join!(whip, moq);
    findings.extend(of_moq);
    let published = whip.as_ref().or(moq.as_ref());
    if let Some((name, _)) = published {
        let (name, listeners) = (name.clone(), listeners.clone());
        let asked = blocking(move || {
            let url = Url::parse(&format!("http://{}/{name}/whep", listeners.http)).ok()?;
            Some(offer::check(
                &url,
                listeners.read_token.as_deref(),
                Trust::System,
                listeners.http.ip(),
                &listeners.advertised,
            ))
        });
        findings.extend(asked.await.flatten().unwrap_or_default());
    }
    for (_, publication) in [whip, moq].into_iter().flatten() {
        publication.end(GRACE).await;
    }
    findings
}

fn query(token: Option<&String>) -> String {
    token.map_or_else(String::new, |token| format!("?token={token}"))
}

/// Publishes the stream `name` by `protocol`, and plays it. Returns the stream, which goes on.
async fn publish(
    protocol: &'static str,
    name: String,
    listeners: &Listeners,
) -> (Vec<Finding>, Option<(String, Publication)>) {
    let token = query(listeners.publish_token.as_ref());
    let (check, address, url) = match (protocol, listeners.quic) {
        ("MoQ", Some(quic)) => ("moq", quic, format!("moq://{quic}/{name}{token}")),
        ("MoQ", None) => return (Vec::new(), None),
        _ => {
            let http = listeners.http;
            ("whip", http, format!("http://{http}/{name}/whip{token}"))
        }
    };
    let (mut publication, deadline) = (Publication::start(url), Instant::now() + PLAY);
    if let Err(failure) = publication.established(deadline).await {
        return (vec![not_published(check, address, &failure)], None);
    }
    let mut findings = vec![Finding::ok(
        check,
        address.to_string(),
        "takes a published stream",
    )];
    findings.extend(play(protocol, &name, listeners, deadline).await);
    (findings, Some((name, publication)))
}

/// Plays the stream `name` over UDP; what came by WHIP also over TCP and by RTSP.
async fn play(
    protocol: &'static str,
    name: &str,
    listeners: &Listeners,
    deadline: Instant,
) -> Vec<Finding> {
    let run = |endpoint: Option<Endpoint>, token: Option<String>| {
        let play = endpoint.map(|endpoint| Play {
            endpoint,
            token,
            trust: Trust::System,
            is_awaited: true,
            linger: Duration::ZERO,
            deadline,
        });
        async move { blocking(move || play.map(|it| it.run())).await.flatten() }
    };
    let page = Url::parse(&format!("http://{}/{name}/whep", listeners.http)).ok();
    let over = |transport| {
        let endpoint = page.clone().map(|url| media::whep(url, transport));
        run(endpoint, listeners.read_token.clone())
    };
    let is_first = protocol == "WHIP";
    let by_tcp = async {
        match is_first && listeners.has_media_tcp {
            true => over(IceTransport::Tcp).await,
            false => None,
        }
    };
    let by_rtsp = async {
        let rtsp = listeners.rtsp.filter(|_| is_first)?;
        let token = query(listeners.read_token.as_ref());
        let url = Endpoint::parse(&format!("rtsp://{rtsp}/{name}{token}"));
        let played = run(url.ok(), None).await?;
        Some(media::played("rtsp", &rtsp.to_string(), &played))
    };
    let (by_udp, by_tcp, by_rtsp) = tokio::join!(over(IceTransport::Udp), by_tcp, by_rtsp);
    let subject = format!("{protocol} over UDP");
    let by_udp = by_udp.map(|outcome| media::played("whep", &subject, &outcome));
    let subject = format!("{protocol} over TCP");
    let by_tcp = by_tcp.map(|outcome| media::played("whep", &subject, &outcome));
    [by_udp, by_tcp, by_rtsp].into_iter().flatten().collect()
}

fn not_published(protocol: &'static str, address: SocketAddr, failure: &str) -> Finding {
    let finding = Finding::failure(
        protocol,
        address.to_string(),
        format!("does not take a published stream: {failure}"),
    );
    let is_of_rights = ["401", "403", "not authorized"];
    match is_of_rights.iter().any(|sign| failure.contains(sign)) {
        true => finding
            .why("doctor cannot see whether media flows")
            .change("`--publish-token TOKEN` with the token of `auth.publish_token`"),
        false => finding.why("publishers cannot send by this protocol"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_listeners_of_a_check_have_no_sources_rights_or_authority() {
        let yaml = "{auth: {publish_token: abc}, tls: {lan: {}}, sources: {cam: demo}, \
                    rtsp: {tls: {address: '127.0.0.1:8322'}}}";
        let config = Config::from_yaml(yaml, "t.yml").expect("a good file");
        let taken = BTreeSet::from(["http.address".to_owned(), "media.tcp".to_owned()]);
        let trial = for_the_check(&config, &taken);
        assert!(trial.sources.is_empty() && trial.tls.is_none());
        assert_eq!(trial.auth, Auth::default());
        assert_eq!(trial.https_address(), None);
        assert_eq!(trial.rtsp.tls.address, None);
        let ports = [trial.http.address.port(), trial.media.address.port()];
        assert_eq!(ports, [0, 0]);
        assert_eq!(trial.admin.address, config.admin.address);
    }

    #[test]
    fn a_refused_publisher_is_told_of_the_flag() {
        let at = SocketAddr::from(([127, 0, 0, 1], 8889));
        let refused = not_published("whip", at, "http://…/whip answers 401: no token");
        assert!(refused.change.contains("--publish-token"), "{refused:?}");
    }

    #[test]
    fn a_listener_of_all_addresses_is_reached_on_loopback() {
        let at = |text: &str| reachable(text.parse().expect("an address")).to_string();
        assert_eq!(at("0.0.0.0:80"), "127.0.0.1:80");
        assert_eq!(at("[::]:80"), "[::1]:80");
        assert_eq!(at("192.0.2.1:80"), "192.0.2.1:80");
    }
}
