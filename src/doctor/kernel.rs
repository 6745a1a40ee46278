//! What the kernel grants: buffers, segmentation of datagrams, descriptors, connection tracking.

use std::net::{Ipv4Addr, SocketAddr};

use glassline_config::Config;
use glassline_net::{InterfaceOffload, OffloadState, Options, UdpSocket};
use glassline_server::{RECEIVE_BUFFER_BYTES, SEND_BUFFER_BYTES};

use super::finding::Finding;

const BUFFERS: &str = "buffers";
const SEGMENTATION: &str = "segmentation";
const DESCRIPTORS: &str = "descriptors";

/// Descriptors beside those of connections: files, cameras, threads.
const OTHER_DESCRIPTORS: u64 = 256;

/// Part of the table of tracked connections that may be in use, in percent.
const TRACKED_PERCENT_MAX: u64 = 80;

pub(super) fn check(config: &Config) -> Vec<Finding> {
    let options = Options {
        receive_buffer: Some(RECEIVE_BUFFER_BYTES),
        send_buffer: Some(SEND_BUFFER_BYTES),
        ..Options::default()
    };
    let any = SocketAddr::from((Ipv4Addr::UNSPECIFIED, 0));
    let socket = match UdpSocket::bind(any, &options) {
        Ok(socket) => socket,
        Err(error) => return vec![Finding::failure(BUFFERS, "UDP", error.to_string())],
    };
    // Linux reports twice what it grants.
    let granted = |bytes: std::io::Result<usize>| bytes.ok().map(|bytes| bytes / 2);
    let mut findings = Vec::new();
    let buffers = [
        (
            "net.core.rmem_max",
            RECEIVE_BUFFER_BYTES,
            granted(socket.receive_buffer_bytes()),
        ),
        (
            "net.core.wmem_max",
            SEND_BUFFER_BYTES,
            granted(socket.send_buffer_bytes()),
        ),
    ];
    for (key, wanted, granted) in buffers {
        findings.extend(granted.map(|granted| buffer(key, wanted, granted)));
    }
    let interfaces = glassline_net::interface_offloads().unwrap_or_default();
    findings.extend(segmentation(
        glassline_net::gso_supported(&socket),
        &interfaces,
    ));
    findings.push(coalescing(any));
    if let Ok(limit) = glassline_server::raise_descriptor_limit() {
        findings.push(descriptors(limit, connections(config)));
    }
    let tracked = |name: &str| sysctl(&format!("net/netfilter/nf_conntrack_{name}"));
    if let (Some(count), Some(max)) = (tracked("count"), tracked("max")) {
        findings.push(tracking(count, max));
    }
    findings
}

/// Reads a number below `/proc/sys`; `None` where the system has no such file.
fn sysctl(path: &str) -> Option<u64> {
    let text = std::fs::read_to_string(format!("/proc/sys/{path}")).ok()?;
    text.trim().parse().ok()
}

fn kib(bytes: usize) -> String {
    match bytes {
        _ if bytes >= 1 << 20 && bytes.is_multiple_of(1 << 20) => format!("{} MiB", bytes >> 20),
        _ => format!("{} KiB", bytes >> 10),
    }
}

fn buffer(key: &'static str, wanted: usize, granted: usize) -> Finding {
    let (direction, why) = match key {
        "net.core.rmem_max" => (
            "receive",
            "bursts of publishers and of viewers' feedback overflow it: packets are lost in this \
             machine, and pictures freeze although the network is fine",
        ),
        _ => (
            "send",
            "a keyframe for many viewers does not fit: it waits in the server, and viewers skip to \
             the next keyframe sooner",
        ),
    };
    let (has, wants) = (kib(granted), kib(wanted));
    if granted >= wanted {
        return Finding::ok(BUFFERS, key, format!("UDP {direction} buffer of {has}"));
    }
    Finding::warning(
        BUFFERS,
        key,
        format!("UDP {direction} buffer of {has} instead of {wants}"),
    )
    .why(why)
    .change(format!(
        "`sysctl -w {key}={wanted}`, and the line `{key} = {wanted}` in /etc/sysctl.d/glassline.conf"
    ))
}

/// `works`: whether a segmented datagram passed the loopback.
fn segmentation(works: bool, interfaces: &[InterfaceOffload]) -> Vec<Finding> {
    if !works {
        let finding = Finding::warning(
            SEGMENTATION,
            "kernel",
            "the kernel does not divide datagrams (no UDP_SEGMENT)",
        )
        .why("each packet costs a system call's work of its own: a third of the viewers per core")
        .change(
            "run on Linux 4.18 or newer, outside of sandboxes such as gVisor, which leave it out",
        );
        return vec![finding];
    }
    let mut findings = vec![Finding::ok(
        SEGMENTATION,
        "kernel",
        "the kernel divides datagrams (UDP_SEGMENT)",
    )];
    let outside = interfaces.iter().filter(|it| it.interface != "lo");
    findings.extend(outside.map(|it| {
        match it.segmentation {
            OffloadState::On => Finding::ok(
                SEGMENTATION,
                &it.interface,
                "the interface divides datagrams itself",
            ),
            OffloadState::Absent => Finding::ok(
                SEGMENTATION,
                &it.interface,
                "the kernel divides datagrams for the interface, which cannot",
            ),
            OffloadState::Off => Finding::warning(
                SEGMENTATION,
                &it.interface,
                "the interface could divide datagrams, but tx-udp-segmentation is off",
            )
            .why("the kernel divides every datagram with the processor's time instead")
            .change(format!(
                "`ethtool -K {} tx-udp-segmentation on`",
                it.interface
            )),
        }
    }));
    findings
}

/// Checks UDP_GRO, which publishers and load generators profit from.
fn coalescing(any: SocketAddr) -> Finding {
    let options = Options {
        coalescing: true,
        ..Options::default()
    };
    match UdpSocket::bind(any, &options) {
        Ok(_) => Finding::ok(
            "coalescing",
            "kernel",
            "the kernel joins datagrams that arrive together (UDP_GRO)",
        ),
        Err(error) => Finding::notice(
            "coalescing",
            "kernel",
            format!("the kernel does not join datagrams (UDP_GRO): {error}"),
        )
        .why("load generators on this machine receive fewer viewers per core"),
    }
}

/// Connections that the configuration allows, each with a descriptor.
fn connections(config: &Config) -> u64 {
    let tcp = match config.media.tcp {
        true => config.media.tcp_connections,
        false => 0,
    };
    let rtsp = match config.rtsp.address {
        Some(_) => config.rtsp.clients,
        None => 0,
    };
    [config.http.connections, tcp, rtsp]
        .iter()
        .map(|number| *number as u64)
        .sum()
}

/// `limit`: what the server may open after it raised its soft limit to the hard one.
fn descriptors(limit: u64, connections: u64) -> Finding {
    let wanted = connections + OTHER_DESCRIPTORS;
    if limit >= wanted {
        let many = match limit {
            u64::MAX => "without limit".to_owned(),
            limit => format!("up to {limit}"),
        };
        return Finding::ok(
            DESCRIPTORS,
            "RLIMIT_NOFILE",
            format!("files and sockets {many}, {wanted} wanted"),
        );
    }
    Finding::warning(
        DESCRIPTORS,
        "RLIMIT_NOFILE",
        format!(
            "at most {limit} files and sockets, but the configuration allows {connections} connections"
        ),
    )
    .why("beyond the limit, new viewers over HTTP, RTSP and TCP are refused")
    .change(format!(
        "`LimitNOFILE={0}` in the systemd unit, `--ulimit nofile={0}` of docker, or `ulimit -Hn {0}`",
        wanted.next_power_of_two()
    ))
}

fn tracking(count: u64, max: u64) -> Finding {
    let what = format!("the firewall tracks {count} of at most {max} connections");
    if count * 100 <= max * TRACKED_PERCENT_MAX {
        return Finding::ok("conntrack", "nf_conntrack_max", what);
    }
    Finding::warning("conntrack", "nf_conntrack_max", what)
        .why("when its table is full, the kernel drops the packets of new viewers")
        .change(format!(
            "`sysctl -w net.netfilter.nf_conntrack_max={}`, or no tracking for the media port",
            max.saturating_mul(4)
        ))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::doctor::finding::Severity;

    #[test]
    fn a_buffer_below_what_the_server_asks_for_names_the_line_to_change() {
        let small = buffer("net.core.rmem_max", 8 << 20, 212_992);
        assert_eq!(small.severity, Severity::Warning);
        assert_eq!(small.what, "UDP receive buffer of 208 KiB instead of 8 MiB");
        assert!(
            small
                .change
                .contains("`sysctl -w net.core.rmem_max=8388608`")
        );
        let enough = buffer("net.core.wmem_max", 2 << 20, 2 << 20);
        assert_eq!(enough.severity, Severity::Ok);
    }

    #[test]
    fn segmentation_is_looked_for_in_the_kernel_and_in_each_interface() {
        let of = |works, states: &[(&str, OffloadState)]| {
            let interfaces: Vec<InterfaceOffload> = states
                .iter()
                .map(|(interface, segmentation)| InterfaceOffload {
                    interface: (*interface).to_owned(),
                    segmentation: *segmentation,
                })
                .collect();
            segmentation(works, &interfaces)
        };
        let without = of(false, &[("eth0", OffloadState::On)]);
        assert_eq!(without.len(), 1);
        assert_eq!(without[0].severity, Severity::Warning);
        let found = of(
            true,
            &[
                ("lo", OffloadState::Off),
                ("eth0", OffloadState::Off),
                ("eth1", OffloadState::Absent),
            ],
        );
        let severities: Vec<_> = found.iter().map(|it| it.severity).collect();
        assert_eq!(
            severities,
            [Severity::Ok, Severity::Warning, Severity::Ok],
            "{found:?}"
        );
        assert_eq!(found[1].change, "`ethtool -K eth0 tx-udp-segmentation on`");
    }

    #[test]
    fn descriptors_must_suffice_for_what_the_configuration_allows() {
        let config = Config::default();
        let wanted = connections(&config);
        assert!(wanted > 8_000);
        let few = descriptors(1_024, wanted);
        assert_eq!(few.severity, Severity::Warning);
        assert!(few.change.contains("LimitNOFILE=32768"), "{}", few.change);
        assert_eq!(descriptors(u64::MAX, wanted).severity, Severity::Ok);
    }

    #[test]
    fn a_table_of_connections_that_fills_up_is_named() {
        assert_eq!(tracking(10, 65_536).severity, Severity::Ok);
        let full = tracking(60_000, 65_536);
        assert_eq!(full.severity, Severity::Warning);
        assert!(full.change.contains("262144"), "{}", full.change);
    }
}
