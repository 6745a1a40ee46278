//! Addresses that viewers are told to send media to: as the configuration gives them, and as they
//! answer.

use std::collections::BTreeMap;
use std::net::{IpAddr, SocketAddr};
use std::path::Path;
use std::time::Duration;

use glassline_client::probe::candidate::{Transport, TransportAddress};
use glassline_client::viewers::wildcard;
use glassline_config::Config;

use super::finding::{Finding, Severity};

const CHECK: &str = "addresses";
const MEDIA: &str = "media";

/// Default port of the pages.
const HTTP_PORT: u16 = 8889;

/// Files that container engines put into a container.
const CONTAINER_SIGNS: [&str; 2] = ["/.dockerenv", "/run/.containerenv"];

/// The machine, as far as its addresses matter.
#[derive(Debug)]
pub(super) struct Machine {
    /// Addresses of its interfaces.
    pub(super) interfaces: Vec<IpAddr>,
    /// Whether this is a container.
    pub(super) is_container: bool,
}

impl Machine {
    pub(super) fn here() -> Self {
        Self {
            interfaces: glassline_net::interface_addresses()
                .unwrap_or_default()
                .into_iter()
                .map(|address| address.ip)
                .collect(),
            is_container: CONTAINER_SIGNS.iter().any(|sign| Path::new(sign).exists()),
        }
    }
}

/// An entry of `media.advertise`, with the addresses that it stands for or the reason why they are not
/// known.
pub(super) type Advertised = (String, Result<Vec<IpAddr>, String>);

/// Judges `media.address`, and what `media.advertise` stands for, without a packet to those addresses.
pub(super) fn of_config(
    config: &Config,
    advertised: &[Advertised],
    machine: &Machine,
) -> Vec<Finding> {
    let listens = config.media.address.ip();
    if !advertised.is_empty() {
        let entries = advertised.iter();
        let findings = entries.flat_map(|(entry, ips)| match ips {
            Ok(ips) => {
                let ips = ips.iter();
                ips.map(|ip| advertised_address(*ip, listens, machine))
                    .collect()
            }
            Err(reason) => vec![unlearned(entry, reason)],
        });
        return findings.collect();
    }
    let mut findings = Vec::new();
    let outside = machine.interfaces.iter().filter(|ip| !ip.is_loopback());
    let outside: Vec<&IpAddr> = outside.collect();
    let everywhere = wildcard(config.media.address);
    let everywhere = SocketAddr::new(everywhere.ip(), config.media.address.port());
    findings.push(if listens.is_loopback() {
        Finding::notice(
            CHECK,
            "media.address",
            format!("{listens}: only this machine reaches media"),
        )
        .why("viewers on other machines see the page at most, and never a picture")
        .change(format!(
            "`--listen {}`, or `media: {{address: \"{}\"}}`, to serve others",
            everywhere.ip(),
            everywhere
        ))
    } else if machine.is_container && outside.iter().all(|ip| is_private(**ip)) {
        Finding::warning(
            CHECK,
            "media.advertise",
            format!(
                "this is a container, and viewers are told its own address {}",
                list(&outside)
            ),
        )
        .why("only this container's host knows that address: others connect and see no picture")
        .change(
            "`media: {advertise: [ADDRESS OF THE HOST]}` and `-p 8189:8189/udp -p 8189:8189/tcp`, or \
             `--network host`",
        )
    } else {
        let all = match listens.is_unspecified() {
            true => list(&outside),
            false => listens.to_string(),
        };
        Finding::ok(CHECK, "media.address", format!("viewers are told {all}"))
    });
    findings
}

fn unlearned(entry: &str, reason: &str) -> Finding {
    Finding::failure(CHECK, "media.advertise", format!("{entry}: {reason}"))
        .why("viewers are not told where to send media")
        .change(format!(
            "correct {entry} in `media.advertise`, or write the IP address"
        ))
}

fn advertised_address(ip: IpAddr, listens: IpAddr, machine: &Machine) -> Finding {
    let key = "media.advertise";
    let is_here = machine.interfaces.contains(&ip);
    if ip.is_loopback() && !listens.is_loopback() {
        return Finding::failure(CHECK, key, format!("{ip} is every viewer's own machine"))
            .why("viewers on other machines send their packets to themselves")
            .change("`media: {advertise: [ADDRESS OF THIS SERVER]}`");
    }
    if ip.is_unspecified() {
        return Finding::failure(CHECK, key, format!("{ip} is no address to send to"))
            .why("no viewer can send media there")
            .change("`media: {advertise: [ADDRESS OF THIS SERVER]}`");
    }
    if is_here {
        return Finding::ok(CHECK, key, format!("{ip} is an address of this machine"));
    }
    if is_private(ip) && !machine.is_container {
        return Finding::warning(
            CHECK,
            key,
            format!("{ip} is private, and no interface of this machine has it"),
        )
        .why("unless a router forwards it to this machine, viewers wait for packets in vain")
        .change(format!(
            "remove {ip} from `media.advertise`, or see with `glassline doctor http://{}` on a \
             viewer's machine whether it is reached",
            SocketAddr::new(ip, HTTP_PORT)
        ));
    }
    Finding::notice(
        CHECK,
        key,
        format!("{ip} is not of this machine: a router or cloud must forward it"),
    )
    .why("only a machine outside can tell whether it does")
    .change(format!(
        "run `glassline doctor http://{}` on another machine",
        SocketAddr::new(ip, HTTP_PORT)
    ))
}

fn list(addresses: &[&IpAddr]) -> String {
    let texts: Vec<String> = addresses.iter().map(ToString::to_string).collect();
    texts.join(", ")
}

fn is_private(ip: IpAddr) -> bool {
    match ip {
        IpAddr::V4(ip) => ip.is_private() || ip.is_link_local(),
        IpAddr::V6(ip) => ip.is_unique_local() || ip.is_unicast_link_local(),
    }
}

/// The remark about an address by its kind alone, for people.
fn kind(ip: IpAddr) -> &'static str {
    match ip {
        _ if ip.is_loopback() => "every viewer's own machine",
        IpAddr::V4(v4) if v4.octets()[0] == 172 && (17..32).contains(&v4.octets()[1]) => {
            "a private address as containers have it"
        }
        _ if is_private(ip) => "a private address of another network",
        _ => "an address that does not lead to this server",
    }
}

/// The outcome of a check of one candidate: the time to the answer, or the reason why there was none.
#[derive(Clone, Debug)]
pub(super) struct Answered {
    pub(super) address: TransportAddress,
    pub(super) outcome: Result<Duration, String>,
}

/// Outcomes at one port, by protocol.
#[derive(Debug, Default)]
struct Port {
    udp: Option<Result<Duration, String>>,
    tcp: Option<Result<Duration, String>>,
}

/// Judges the candidates of an answer by their answers to connectivity checks. `page`: the address at
/// which the server was reached over HTTP.
pub(super) fn of_answers(page: IpAddr, answers: &[Answered], names: &[String]) -> Vec<Finding> {
    let mut ports: BTreeMap<SocketAddr, Port> = BTreeMap::new();
    for answer in answers {
        let port = ports.entry(answer.address.socket).or_default();
        let side = match answer.address.transport {
            Transport::Udp => &mut port.udp,
            Transport::Tcp => &mut port.tcp,
        };
        *side = Some(answer.outcome.clone());
    }
    let is_reached = |outcome: &Option<Result<Duration, String>>| matches!(outcome, Some(Ok(_)));
    let has_udp = ports.values().any(|port| is_reached(&port.udp));
    let mut findings: Vec<Finding> = ports
        .iter()
        .map(|(address, port)| one(page.to_canonical(), *address, port, has_udp))
        .collect();
    let names = names.iter().map(|name| {
        Finding::notice(
            MEDIA,
            name,
            "the answer has a name of multicast DNS instead of an address",
        )
        .why("only machines of the same network can look it up")
    });
    findings.extend(names);
    if findings.is_empty() {
        findings.push(
            Finding::failure(MEDIA, "candidates", "the answer has no address to send to")
                .why("no viewer can connect")
                .change("`media: {advertise: [ADDRESS OF THE SERVER]}`"),
        );
    }
    findings
}

fn one(page: IpAddr, address: SocketAddr, port: &Port, has_udp: bool) -> Finding {
    let subject = address.to_string();
    let milliseconds = |span: &Duration| format!("{:.0} ms", span.as_secs_f64() * 1e3);
    match (&port.udp, &port.tcp) {
        (Some(Ok(udp)), Some(Ok(_))) => Finding::ok(
            MEDIA,
            subject,
            format!("UDP answers in {}, TCP too", milliseconds(udp)),
        ),
        (Some(Ok(udp)), None) => Finding::ok(
            MEDIA,
            subject,
            format!("UDP answers in {}", milliseconds(udp)),
        ),
        (Some(Ok(udp)), Some(Err(reason))) => {
            let what = format!(
                "UDP answers in {}, TCP does not: {reason}",
                milliseconds(udp)
            );
            Finding::warning(MEDIA, subject, what)
                .why("viewers whose network blocks UDP do not connect")
                .change(open(address, "tcp"))
        }
        (None, Some(Ok(tcp))) => Finding::ok(
            MEDIA,
            subject,
            format!("TCP answers in {}", milliseconds(tcp)),
        ),
        (Some(Err(reason)), Some(Ok(_))) => Finding {
            severity: match has_udp {
                true => Severity::Warning,
                false => Severity::Failure,
            },
            ..Finding::failure(
                MEDIA,
                subject,
                format!("UDP is blocked ({reason}), TCP of the same port answers"),
            )
            .why("viewers fall back to TCP, where one lost packet delays all that follow it")
            .change(open(address, "udp"))
        },
        (udp, tcp) => {
            let reasons = [("UDP", udp), ("TCP", tcp)];
            let reasons = reasons.into_iter().filter_map(|(protocol, outcome)| {
                let reason = outcome.as_ref()?.as_ref().err()?;
                Some(format!("{protocol}: {reason}"))
            });
            let reasons = reasons.collect::<Vec<_>>().join(", ");
            unreached(page, subject, &reasons, address, has_udp)
        }
    }
}

/// A finding about an address that answers neither over UDP nor over TCP.
fn unreached(
    page: IpAddr,
    subject: String,
    reasons: &str,
    address: SocketAddr,
    has_udp: bool,
) -> Finding {
    let ip = address.ip().to_canonical();
    if page.is_loopback() && !ip.is_loopback() {
        return Finding::warning(
            MEDIA,
            subject,
            format!("this machine does not reach {ip}, which viewers are told ({reasons})"),
        )
        .why("a router that leads viewers here may not lead this machine back, or the address is wrong")
        .change(format!(
            "run `glassline doctor http://{}` on a viewer's machine; if it fails there, correct \
             `media.advertise`",
            SocketAddr::new(ip, HTTP_PORT)
        ));
    }
    if has_udp {
        return Finding::notice(
            MEDIA,
            subject,
            format!("{} that does not answer ({reasons})", kind(ip)),
        )
        .why("another address answers, so viewers connect");
    }
    if ip == page {
        return Finding::failure(
            MEDIA,
            subject,
            format!("the media port does not answer ({reasons})"),
        )
        .why("viewers see the page, and never a picture")
        .change(open(address, "udp"));
    }
    Finding::failure(
        MEDIA,
        subject,
        format!(
            "viewers are told {ip}, {}; it does not answer ({reasons})",
            kind(ip)
        ),
    )
    .why(format!(
        "the page was reached at {page}: viewers open it, and wait for a picture in vain"
    ))
    .change(format!("`media: {{advertise: [{page}]}}`"))
}

fn open(address: SocketAddr, protocol: &str) -> String {
    let port = address.port();
    format!(
        "open {port}/{protocol} towards the server: `ufw allow {port}/{protocol}`, the security group \
         of the cloud, the router's forwarding, or `docker run -p {port}:{port}/{protocol}`"
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    fn config(yaml: &str) -> Config {
        Config::from_yaml(yaml, "t.yml").expect("a good file")
    }

    fn machine(interfaces: &[&str], is_container: bool) -> Machine {
        Machine {
            interfaces: interfaces
                .iter()
                .map(|it| it.parse().expect("an address"))
                .collect(),
            is_container,
        }
    }

    #[test]
    fn the_address_of_a_container_is_told_from_that_of_a_machine() {
        let of_config = |config: &Config, machine: &Machine| of_config(config, &[], machine);
        let all = config("{media: {address: '0.0.0.0:8189'}}");
        let docker = of_config(&all, &machine(&["127.0.0.1", "172.17.0.2"], true));
        assert_eq!(docker[0].severity, Severity::Warning);
        assert!(docker[0].what.contains("172.17.0.2"), "{docker:?}");
        assert!(docker[0].change.contains("advertise"));
        let lan = of_config(&all, &machine(&["127.0.0.1", "192.168.1.5"], false));
        assert_eq!(lan[0].severity, Severity::Ok);
        let local = of_config(&config("{}"), &machine(&["127.0.0.1"], false));
        assert_eq!(local[0].severity, Severity::Notice);
    }

    /// The line to change had the default port and IPv4 for every server.
    #[test]
    fn a_server_on_loopback_is_told_its_own_port_and_family() {
        for (listens, line) in [
            ("127.0.0.1:9189", "`media: {address: \"0.0.0.0:9189\"}`"),
            ("[::1]:9189", "`media: {address: \"[::]:9189\"}`"),
        ] {
            let local = config(&format!("{{media: {{address: '{listens}'}}}}"));
            let findings = of_config(&local, &[], &machine(&["127.0.0.1", "::1"], false));
            assert!(findings[0].change.contains(line), "{findings:?}");
        }
    }

    #[test]
    fn advertised_addresses_that_cannot_be_right_are_named() {
        let of = |ip: &str, is_container| {
            let ips = ip.parse().map(|ip| vec![ip]);
            let ips = ips.map_err(|_| "has no address".to_owned());
            let all = config("{media: {address: '0.0.0.0:8189'}}");
            let machine = machine(&["192.0.2.1"], is_container);
            of_config(&all, &[(ip.to_owned(), ips)], &machine)[0].severity
        };
        assert_eq!(of("192.0.2.1", false), Severity::Ok);
        assert_eq!(of("127.0.0.1", false), Severity::Failure);
        assert_eq!(of("172.17.0.2", false), Severity::Warning);
        assert_eq!(of("172.17.0.2", true), Severity::Notice);
        assert_eq!(of("198.51.100.7", false), Severity::Notice);
        assert_eq!(of("nowhere.test", false), Severity::Failure);
    }

    /// Judges answers written as `udp ADDRESS` or `tcp ADDRESS`, with `!` in front of those that
    /// did not come.
    fn judged(page: &str, answers: &[&str]) -> Vec<Finding> {
        let answers: Vec<Answered> = answers
            .iter()
            .map(|text| {
                let (is_there, text) = match text.strip_prefix('!') {
                    Some(text) => (false, text),
                    None => (true, *text),
                };
                let (protocol, address) = text.split_once(' ').expect("two words");
                let address = address.parse().expect("an address");
                Answered {
                    address: match protocol {
                        "tcp" => TransportAddress::tcp(address),
                        _ => TransportAddress::udp(address),
                    },
                    outcome: match is_there {
                        true => Ok(Duration::from_millis(2)),
                        false => Err("no answer".to_owned()),
                    },
                }
            })
            .collect();
        of_answers(page.parse().expect("an address"), &answers, &[])
    }

    #[test]
    fn an_address_that_leads_elsewhere_is_replaced_by_that_of_the_page() {
        let found = judged(
            "192.0.2.1",
            &["!udp 172.17.0.2:8189", "!tcp 172.17.0.2:8189"],
        );
        assert_eq!(found.len(), 1);
        assert_eq!(found[0].severity, Severity::Failure);
        assert!(found[0].what.contains("containers"), "{}", found[0].what);
        assert_eq!(found[0].change, "`media: {advertise: [192.0.2.1]}`");
    }

    #[test]
    fn from_within_nobody_can_tell_whether_an_address_is_wrong() {
        let found = judged(
            "127.0.0.1",
            &["udp 127.0.0.1:8189", "!udp 198.51.100.7:8189"],
        );
        let severities: Vec<_> = found.iter().map(|it| it.severity).collect();
        assert_eq!(severities, [Severity::Ok, Severity::Warning]);
        assert!(found[1].change.contains("http://198.51.100.7:8889"));
    }

    #[test]
    fn a_blocked_port_names_the_port_and_the_protocol() {
        let found = judged("192.0.2.1", &["!udp 192.0.2.1:8189", "tcp 192.0.2.1:8189"]);
        assert_eq!(found[0].severity, Severity::Failure);
        assert!(found[0].what.starts_with("UDP is blocked"));
        assert!(found[0].change.contains("ufw allow 8189/udp"));
        let both = judged("192.0.2.1", &["!udp 192.0.2.1:8189", "!tcp 192.0.2.1:8189"]);
        assert_eq!(both[0].severity, Severity::Failure);
        assert!(both[0].change.contains("8189/udp"));
        let tcp = judged("192.0.2.1", &["udp 192.0.2.1:8189", "!tcp 192.0.2.1:8189"]);
        assert_eq!(tcp[0].severity, Severity::Warning);
        assert!(tcp[0].change.contains("8189/tcp"));
    }

    #[test]
    fn one_address_that_answers_is_enough() {
        let found = judged(
            "192.0.2.1",
            &[
                "udp 192.0.2.1:8189",
                "tcp 192.0.2.1:8189",
                "!udp 172.17.0.1:8189",
                "!tcp 172.17.0.1:8189",
            ],
        );
        let severities: Vec<_> = found.iter().map(|it| it.severity).collect();
        assert_eq!(severities, [Severity::Notice, Severity::Ok]);
        assert_eq!(judged("192.0.2.1", &[])[0].severity, Severity::Failure);
    }
}
