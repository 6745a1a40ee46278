//! Ports of the configuration: free, held by this configuration's own server, or by another program.

use std::collections::BTreeSet;
use std::fs;
use std::net::SocketAddr;
use std::path::Path;

use glassline_config::{Config, Protocol};
use glassline_server::Tried;

use super::finding::{Finding, Severity};
use super::trial;

const CHECK: &str = "ports";

/// State of a listening socket in `/proc/net/tcp`, and of a bound one in `/proc/net/udp`.
const LISTENING: &str = "0A";
const BOUND: &str = "07";

/// A program that holds a port.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Holder {
    name: String,
    process: u32,
}

/// Opens every port of `config`. `is_running`: a server answers at its admin port, and may hold them.
///
/// Returns the findings, and the keys of ports that others hold.
pub(super) fn check(config: &Config, is_running: bool) -> (Vec<Finding>, BTreeSet<String>) {
    let tried = glassline_server::try_listeners(config);
    let mut taken = BTreeSet::new();
    let findings = tried.iter().map(|tried| {
        let holder = match &tried.outcome {
            Ok(_) => None,
            Err(_) => address(config, &tried.key).and_then(|(protocol, it)| holder(protocol, it)),
        };
        let finding = judge(tried, holder.as_ref(), is_running);
        if tried.outcome.is_err() {
            taken.insert(tried.key.clone());
        }
        finding
    });
    let findings = findings.collect();
    (findings, taken)
}

/// Makes ports in order that the running server of this configuration holds.
pub(super) fn settle(config: &Config, tried: &mut [Tried]) {
    for tried in tried.iter_mut().filter(|it| it.outcome.is_err()) {
        let Some((protocol, address)) = address(config, &tried.key) else {
            continue;
        };
        let finding = judge(tried, holder(protocol, address).as_ref(), true);
        if finding.severity == Severity::Ok {
            tried.outcome = Ok(finding.what);
        }
    }
}

fn judge(tried: &Tried, holder: Option<&Holder>, is_running: bool) -> Finding {
    let is_ours = holder.is_none_or(|holder| holder.name == "glassline");
    match (&tried.outcome, holder) {
        (Err(_), _) if is_running && is_ours => {
            Finding::ok(CHECK, &tried.key, "held by the server that runs")
        }
        (Err(fault), Some(Holder { name, process })) => {
            let what = format!("{}: {name} (process {process}) holds it", fault.wrong);
            Finding::failure(CHECK, &tried.key, what)
                .why("the server cannot start")
                .change(format!(
                    "stop {name}, or give the server another port: `{}`",
                    key_of(&tried.key)
                ))
        }
        _ => trial::finding(CHECK, tried, "the server cannot start"),
    }
}

/// The key of the configuration that has the port.
fn key_of(key: &str) -> &str {
    match key {
        "media.tcp" => "media.address",
        key => key,
    }
}

fn address(config: &Config, key: &str) -> Option<(Protocol, SocketAddr)> {
    let listeners = config.configured_listeners();
    let found = listeners.iter().find(|it| it.key == key)?;
    Some((found.protocol, found.address))
}

/// Returns the program that holds a port, where the system tells that.
fn holder(protocol: Protocol, address: SocketAddr) -> Option<Holder> {
    let (tables, state) = match protocol {
        Protocol::Tcp => (["tcp", "tcp6"], LISTENING),
        Protocol::Udp => (["udp", "udp6"], BOUND),
    };
    let inodes: Vec<String> = tables
        .iter()
        .filter_map(|table| fs::read_to_string(format!("/proc/net/{table}")).ok())
        .flat_map(|table| inodes(&table, address.port(), state))
        .collect();
    let links: Vec<String> = inodes
        .iter()
        .map(|inode| format!("socket:[{inode}]"))
        .collect();
    let processes = fs::read_dir("/proc").ok()?.flatten();
    let mut processes = processes.filter_map(|entry| {
        let process: u32 = entry.file_name().to_str()?.parse().ok()?;
        holds(&entry.path(), &links).then_some(process)
    });
    let process = processes.next()?;
    let name = fs::read_to_string(format!("/proc/{process}/comm")).ok()?;
    Some(Holder {
        name: name.trim().to_owned(),
        process,
    })
}

/// Inodes of the sockets of a table of `/proc/net` that have `port` and `state`.
fn inodes(table: &str, port: u16, state: &str) -> Vec<String> {
    let suffix = format!(":{port:04X}");
    let rows = table.lines().skip(1);
    let rows = rows.map(|row| row.split_ascii_whitespace().collect::<Vec<_>>());
    rows.filter(|row| row.len() > 9 && row[1].ends_with(&suffix) && row[3] == state)
        .map(|row| row[9].to_owned())
        .collect()
}

fn holds(process: &Path, links: &[String]) -> bool {
    let Ok(descriptors) = fs::read_dir(process.join("fd")) else {
        return false;
    };
    descriptors.flatten().any(|descriptor| {
        let link = fs::read_link(descriptor.path());
        link.is_ok_and(|link| links.iter().any(|it| link.as_os_str() == it.as_str()))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn config(address: SocketAddr) -> Config {
        let yaml = format!(
            "{{http: {{address: '{address}'}}, media: {{address: '127.0.0.1:0'}}, \
             admin: {{address: '127.0.0.1:0'}}, rtsp: {{address: '127.0.0.1:0'}}, \
             quic: {{address: '127.0.0.1:0'}}}}"
        );
        Config::from_yaml(&yaml, "t.yml").expect("a good file")
    }

    #[test]
    fn a_port_in_use_is_a_failure_that_names_the_program() {
        let held = std::net::TcpListener::bind("127.0.0.1:0").expect("loopback");
        let config = config(held.local_addr().expect("bound"));
        let (findings, taken) = check(&config, false);
        let failures: Vec<_> = findings
            .iter()
            .filter(|it| it.severity == Severity::Failure)
            .collect();
        assert_eq!(failures.len(), 1, "{findings:?}");
        assert_eq!(failures[0].subject, "http.address");
        if cfg!(target_os = "linux") {
            let us = format!("(process {})", std::process::id());
            assert!(failures[0].what.contains(&us), "{failures:?}");
        }
        assert_eq!(taken.len(), 1);
    }

    #[test]
    fn ports_of_the_running_server_are_in_order() {
        let tried = Tried {
            key: "http.address".to_owned(),
            outcome: Err("in use".to_owned().into()),
        };
        let holder = |name: &str| Holder {
            name: name.to_owned(),
            process: 7,
        };
        let ours = holder("glassline");
        assert_eq!(judge(&tried, Some(&ours), true).severity, Severity::Ok);
        assert_eq!(judge(&tried, None, true).severity, Severity::Ok);
        assert_eq!(judge(&tried, None, false).severity, Severity::Failure);
        let other = judge(&tried, Some(&holder("nginx")), true);
        assert_eq!(other.severity, Severity::Failure);
        assert!(other.change.contains("nginx"), "{}", other.change);
    }

    #[test]
    fn a_trial_beside_the_running_server_finds_its_ports_in_order() {
        // Nobody listens there: who holds the port is not to be found.
        let config = config("127.0.0.1:9".parse().expect("an address"));
        let of = |key: &str| Tried {
            key: key.to_owned(),
            outcome: Err("in use".to_owned().into()),
        };
        let mut tried = [of("http.address"), of("sources.cam")];
        settle(&config, &mut tried);
        assert_eq!(
            tried[0].outcome,
            Ok("held by the server that runs".to_owned())
        );
        assert!(tried[1].outcome.is_err());
    }

    #[test]
    fn a_row_of_the_table_is_found_by_port_and_state() {
        let table = "  sl  local_address rem_address   st tx_queue rx_queue tr tm->when retrnsmt   uid  timeout inode\n\
             0: 0100007F:22B9 00000000:0000 0A 00000000:00000000 00:00000000 00000000     0        0 4711 1\n\
             1: 0100007F:22B9 0100007F:9999 01 00000000:00000000 00:00000000 00000000     0        0 4712 1\n";
        assert_eq!(inodes(table, 8889, LISTENING), ["4711"]);
        assert!(inodes(table, 8890, LISTENING).is_empty());
    }
}
