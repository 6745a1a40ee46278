//! Errors of the kernel on paths unlike loopback: in a network namespace, which a test can make
//! narrow or slow without harm to the machine.
//!
//! Each test runs itself again inside `unshare --net`, and there does the work.
//! Without the right to make namespaces, or without `ip` and `tc`, it is skipped
//! by name.

use std::net::{SocketAddr, UdpSocket};
use std::process::Command;
use std::time::{Duration, Instant};

use glassline_config::{Config, Pacing};
use glassline_media::Kind;

use crate::peer::{self, Peer};
use crate::running::Running;
use crate::source::{AUDIO, Film, Source};

/// Environment variable that marks the run inside the namespace.
const INSIDE: &str = "GLASSLINE_TEST_NAMESPACE";

/// Runs `body`, which is the test `name` of this module, in a network namespace: the test program
/// runs itself there again.
fn in_a_namespace(name: &str, body: fn()) {
    if std::env::var_os(INSIDE).is_some() {
        return body();
    }
    let Some(unshare) = namespace() else {
        eprintln!("skipped {name}: no right to make network namespaces here");
        return;
    };
    for tool in ["ip", "tc"] {
        if Command::new(tool).arg("-V").output().is_err() {
            eprintln!("skipped {name}: `{tool}` (Debian package iproute2) is not here");
            return;
        }
    }
    let program = std::env::current_exe().expect("this program");
    let test = format!("kernel::alone::{name}");
    let output = Command::new("unshare")
        .args(unshare)
        .arg(program)
        .args(["--exact", &test, "--nocapture"])
        .env(INSIDE, "1")
        .output()
        .expect("unshare ran before");
    let text = String::from_utf8_lossy(&output.stdout);
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(
        output.status.success() && text.contains("1 passed"),
        "{text}\n{errors}"
    );
}

/// Returns the command that makes a namespace: as root, or as a user who becomes root inside.
fn namespace() -> Option<&'static [&'static str]> {
    const WAYS: [&[&str]; 2] = [&["--net"], &["--user", "--map-root-user", "--net"]];
    let works = |way: &&'static [&'static str]| {
        let status = Command::new("unshare")
            .args(way.iter())
            .arg("true")
            .output();
        status.is_ok_and(|output| output.status.success())
    };
    WAYS.into_iter().find(works)
}

/// Runs `ip` or `tc`, which must succeed; inside only.
fn network(command: &str) {
    attempt(command).expect("a namespace of our own takes it");
}

/// Runs `ip` or `tc` for a feature that not every kernel has.
fn attempt(command: &str) -> Result<(), String> {
    assert!(std::env::var_os(INSIDE).is_some(), "not in this namespace");
    let mut words = command.split(' ');
    let output = Command::new(words.next().expect("a program"))
        .args(words)
        .output()
        .expect("it was found outside");
    let errors = String::from_utf8_lossy(&output.stderr);
    if output.status.success() {
        return Ok(());
    }
    Err(format!("{command}: {errors}"))
}

fn reason(running: &Running, name: &str) -> u64 {
    let label = format!("reason=\"{name}\"");
    let errors = running.metric("send_errors_total");
    let mine = errors.iter().filter(|(labels, _)| labels.contains(&label));
    mine.map(|(_, count)| count).sum()
}

/// Returns the number of packets of both kinds that are missing between the first and the last
/// received.
fn missing(peer: &Peer<'_>) -> u64 {
    let of = |kind| {
        let received = peer.in_order(kind);
        let span = received[received.len() - 1].sequence - received[0].sequence + 1;
        span - received.len() as u64
    };
    of(Kind::Video) + of(Kind::Audio)
}

/// A UDP counter of this namespace, by its name in `/proc/net/snmp`.
fn udp(name: &str) -> u64 {
    let text = std::fs::read_to_string("/proc/net/snmp").expect("counters of the namespace");
    let mut lines = text.lines().filter_map(|line| line.strip_prefix("Udp: "));
    let (names, values) = (lines.next().expect("names"), lines.next().expect("values"));
    let at = names.split(' ').position(|it| it == name);
    let value = values.split(' ').nth(at.expect("a known counter"));
    value.and_then(|it| it.parse().ok()).expect("a count")
}

/// Returns the number of datagrams that were lost because receivers were too slow.
fn overruns() -> u64 {
    udp("RcvbufErrors")
}

/// Sends frames as they come, so that the kernel has to cope with them.
fn unpaced(config: &mut Config) {
    config.webrtc.pacing = Pacing::None;
}

/// Tests that need the machine: a server that gets no processor sends late, and drops frames itself.
mod alone {
    use super::{in_a_namespace, narrow_path, slow_interface};

    /// Only 900 bytes go through to one viewer, as routers on the way have reported. The kernel then
    /// refuses segmented sends there; it fragments single datagrams itself.
    #[test]
    fn a_path_narrower_than_our_packets_is_served_whole() {
        in_a_namespace(
            "a_path_narrower_than_our_packets_is_served_whole",
            narrow_path,
        );
    }

    /// An interface that takes 64 Mbit/s, and three viewers who are sent 58 each: the
    /// socket's buffer fills, and what it did not take waits its turn.
    #[test]
    fn a_burst_larger_than_the_socket_is_finished() {
        in_a_namespace("a_burst_larger_than_the_socket_is_finished", slow_interface);
    }
}

fn narrow_path() {
    network("ip link set lo up");
    network("ip route add local 127.0.0.2 dev lo mtu 900 table local");
    let running = Running::with(1, unpaced);
    let _source = Source::start(&running.stream(), Film::default());
    let narrow = UdpSocket::bind(("127.0.0.2", 0)).expect("an address of lo");
    let narrow = Peer::offering_from(&running, narrow, str::to_owned).expect("answered");
    let mut peers = vec![narrow];
    for _ in 0..8 {
        // The narrow one first: it is the first of every batch.
        peers.last_mut().expect("one").await_media();
        peers.push(Peer::answered(&running));
    }
    peers.last_mut().expect("nine").await_media();
    peer::live(&mut peers, Duration::from_millis(500));
    let (messages, datagrams) = (udp("OutDatagrams"), udp("InDatagrams"));
    peer::live(&mut peers, Duration::from_secs(2));
    let messages = udp("OutDatagrams") - messages;
    let datagrams = udp("InDatagrams") - datagrams;
    for peer in &peers {
        assert!(
            peer.received.len() > 200,
            "{} packets only",
            peer.received.len()
        );
        assert!(missing(peer) <= overruns(), "{} missing", missing(peer));
    }
    let refused = running.metric("send_errors_total");
    let abandoned = running.total("send_abandoned_datagrams_total");
    assert_eq!(abandoned, 0, "{refused:?}");
    assert_eq!(running.total("queue_dropped_frames_total"), 0);
    // The others' frames still are a message each.
    let free = SocketAddr::from(([127, 0, 0, 1], 0));
    let any = glassline_net::UdpSocket::bind(free, &glassline_net::Options::default());
    if glassline_net::gso_supported(&any.expect("a free port")) {
        assert!(
            datagrams > 2 * messages,
            "{datagrams} datagrams in {messages} messages"
        );
    }
}

/// The program of a viewer has ended: its machine answers every datagram, which is counted and
/// costs the others nothing.
#[test]
fn a_closed_port_is_counted_and_harms_nobody() {
    let running = Running::start(1);
    let _source = Source::start(&running.stream(), Film::default());
    let mut gone = Peer::answered(&running);
    gone.await_media();
    let mut peers = vec![Peer::answered(&running)];
    peers[0].await_media();
    drop(gone);
    peer::live(&mut peers, Duration::from_secs(2));
    assert!(reason(&running, "peer_refused") > 0, "nobody told");
    assert!(
        missing(&peers[0]) <= overruns(),
        "{} missing",
        missing(&peers[0])
    );
    assert_eq!(running.total("send_abandoned_datagrams_total"), 0);
}

fn slow_interface() {
    network("ip link set lo up");
    let slow = "tc qdisc add dev lo root tbf rate 64mbit burst 256kb limit 100mb";
    if let Err(reason) = attempt(slow) {
        eprintln!("skipped slow_interface: no token bucket filter in this kernel ({reason})");
        return;
    }
    let running = Running::with(1, |config| {
        config.webrtc.lag_ms = None;
        unpaced(config);
    });
    let film = Film {
        gop: 15,
        frame_bytes: 200_000,
    };
    let source = Source::start(&running.stream(), film);
    let mut peers: Vec<_> = (0..3).map(|_| Peer::answered(&running)).collect();
    // All at once: a handshake behind the others' frames takes seconds.
    let end = Instant::now() + Duration::from_secs(20);
    while peers.iter().any(|peer| peer.received.is_empty()) {
        assert!(Instant::now() < end, "no media");
        peer::live(&mut peers, Duration::from_millis(50));
    }
    peer::live(&mut peers, Duration::from_secs(3));
    for peer in &peers {
        assert!(missing(peer) <= overruns(), "{} missing", missing(peer));
    }

    // When the interface is fast enough again, the viewers that still watch are live.
    network("tc qdisc change dev lo root tbf rate 400mbit burst 256kb limit 100mb");
    let mut peers = {
        let last = peers.pop().expect("three");
        for peer in &mut peers {
            peer.session.close(Instant::now());
            peer.drain();
        }
        [last]
    };
    peer::live(&mut peers, Duration::from_secs(3));
    let audio = source.payloads(AUDIO);
    let received = peers[0].of(Kind::Audio).last().expect("audio");
    let place = audio
        .iter()
        .position(|payload| *payload == received.payload);
    let behind = audio.len() - place.expect("published");
    assert!(behind < 50, "{behind} packets of audio behind");

    // HTTP, too, goes over this interface: only now is there room for it.
    assert!(reason(&running, "socket_full") > 0, "it never was full");
    // A viewer without room was skipped to the next keyframe, and that was counted.
    assert!(running.total("queue_dropped_frames_total") > 0);
    assert_eq!(running.total("send_abandoned_datagrams_total"), 0);
}
