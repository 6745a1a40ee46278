use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::time::Instant;

use super::*;
use crate::PathErrorKind;

fn open(ip: impl Into<IpAddr>) -> Option<UdpSocket> {
    open_with(ip, &Options::default())
}

/// Opens a socket; `None`, with a printed reason, only for IPv6 on a machine without it.
fn open_with(ip: impl Into<IpAddr>, options: &Options) -> Option<UdpSocket> {
    let ip = ip.into();
    let options = Options {
        receive_buffer: Some(1 << 20),
        ..options.clone()
    };
    match UdpSocket::bind(SocketAddr::new(ip, 0), &options) {
        Ok(socket) => Some(socket),
        Err(error) if ip.is_ipv6() => {
            eprintln!("skipped: no IPv6 here ({error})");
            None
        }
        Err(error) => panic!("{error}"),
    }
}

/// Receives until `count` datagrams came or two seconds passed.
fn collect(socket: &UdpSocket, count: usize) -> Vec<(Vec<u8>, SocketAddr, Option<IpAddr>)> {
    let mut batch = ReceiveBatch::new(8);
    let mut all = Vec::new();
    let deadline = Instant::now() + Duration::from_secs(2);
    while all.len() < count && Instant::now() < deadline {
        let received = socket.receive_batch(&mut batch).expect("loopback receives");
        assert_eq!(received, batch.len());
        for datagram in batch.iter_mut() {
            assert!(!datagram.truncated);
            all.push((
                datagram.bytes.to_vec(),
                datagram.source,
                datagram.destination,
            ));
        }
        if received == 0 {
            std::thread::sleep(Duration::from_millis(1));
        }
    }
    all
}

fn pattern(len: usize) -> Vec<u8> {
    (0..len).map(|i| (i * 7 + i / 251) as u8).collect()
}

fn segments_arrive(ip: impl Into<IpAddr>, options: &Options) {
    let ip = ip.into();
    let (Some(sender), Some(receiver)) = (open_with(ip, options), open(ip)) else {
        return;
    };
    let bytes = pattern(9 * 1200 + 345);
    let sent = sender.send_segmented(&bytes, 1200, receiver.local_addr());
    assert!(sent.stopped.is_none(), "{sent:?}");
    assert_eq!(
        (sent.transmits, sent.offset, sent.bytes),
        (1, 0, bytes.len())
    );
    let received = collect(&receiver, 10);
    let expected: Vec<_> = bytes.chunks(1200).map(<[u8]>::to_vec).collect();
    let got: Vec<_> = received.iter().map(|(bytes, ..)| bytes.clone()).collect();
    assert_eq!(got, expected);
    assert!(
        received
            .iter()
            .all(|(_, from, _)| *from == sender.local_addr())
    );
}

#[test]
fn a_socket_for_this_machine_alone_is_reached_at_each_of_its_addresses() {
    let options = Options {
        this_machine_only: true,
        ..Options::default()
    };
    let socket = open_with(Ipv4Addr::UNSPECIFIED, &options).expect("a filter needs no privilege");
    let own = crate::interface_addresses().expect("the system tells");
    let own: Vec<_> = own.iter().map(|it| it.ip).filter(IpAddr::is_ipv4).collect();
    assert!(own.iter().any(IpAddr::is_loopback), "{own:?}");
    for ip in own {
        let sender = std::net::UdpSocket::bind((ip, 0)).expect("a port");
        let port = socket.local_addr().port();
        sender.send_to(b"here", (ip, port)).expect("sent");
        let from = sender.local_addr().expect("bound");
        assert_eq!(collect(&socket, 1), [(b"here".to_vec(), from, Some(ip))]);
    }
}

#[test]
fn ten_segments_arrive_as_ten_datagrams() {
    segments_arrive(Ipv4Addr::LOCALHOST, &Options::default());
    segments_arrive(Ipv6Addr::LOCALHOST, &Options::default());
}

#[test]
fn ten_segments_arrive_without_offload_too() {
    let without = Options {
        segmentation: false,
        ..Options::default()
    };
    segments_arrive(Ipv4Addr::LOCALHOST, &without);
    segments_arrive(Ipv6Addr::LOCALHOST, &without);
    let socket = open_with(Ipv4Addr::LOCALHOST, &without).expect("IPv4");
    assert!(!gso_supported(&socket));
}

#[test]
fn offload_is_known_by_doing() {
    let socket = open(Ipv4Addr::LOCALHOST).expect("IPv4");
    if !gso_supported(&socket) {
        eprintln!("skipped: this kernel has no UDP segmentation offload");
        return;
    }
    // Loopback accepts 64 segments at once, and more in several messages.
    let receiver = open(Ipv4Addr::LOCALHOST).expect("IPv4");
    let bytes = pattern(150 * 100);
    let sent = socket.send_segmented(&bytes, 100, receiver.local_addr());
    assert!(
        sent.stopped.is_none() && sent.bytes == bytes.len(),
        "{sent:?}"
    );
    assert_eq!(collect(&receiver, 150).len(), 150);
    assert!(gso_supported(&socket));
}

#[test]
fn a_datagram_that_no_path_takes_stops_the_batch_and_is_named() {
    let (Some(sender), Some(receiver)) = (open(Ipv4Addr::LOCALHOST), open(Ipv4Addr::LOCALHOST))
    else {
        return;
    };
    // Longer than a UDP datagram can be: the error must say so.
    let bytes = pattern(70_000);
    let to = receiver.local_addr();
    let sent = sender.send_batch(&[Transmit::new(b"ok", to), Transmit::new(&bytes, to)]);
    assert!(
        matches!(sent.stopped, Some(SendError::TooLarge)),
        "{sent:?}"
    );
    assert_eq!((sent.transmits, sent.offset, sent.bytes), (1, 0, 2));
    assert_eq!(collect(&receiver, 1).len(), 1);
}

#[test]
fn a_batch_mixes_peers_sizes_and_segments() {
    let sender = open(Ipv4Addr::LOCALHOST).expect("IPv4");
    let peers: Vec<_> = (0..40)
        .map(|_| open(Ipv4Addr::LOCALHOST).expect("IPv4"))
        .collect();
    let bytes = pattern(2500);
    let transmits: Vec<_> = peers
        .iter()
        .enumerate()
        .map(|(index, peer)| {
            let transmit = Transmit::new(&bytes[..1100 + 10 * index], peer.local_addr());
            transmit.segmented(if index % 2 == 0 { 0 } else { 500 })
        })
        .collect();
    let sent = sender.send_batch(&transmits);
    assert!(sent.stopped.is_none(), "{sent:?}");
    assert_eq!(sent.transmits, peers.len());
    for (index, peer) in peers.iter().enumerate() {
        let whole = &bytes[..1100 + 10 * index];
        let size = if index % 2 == 0 { whole.len() } else { 500 };
        let expected: Vec<_> = whole.chunks(size).map(<[u8]>::to_vec).collect();
        let got: Vec<_> = collect(peer, expected.len())
            .into_iter()
            .map(|(bytes, ..)| bytes)
            .collect();
        assert_eq!(got, expected, "peer {index}");
    }
}

#[test]
fn an_empty_batch_sends_nothing() {
    let socket = open(Ipv4Addr::LOCALHOST).expect("IPv4");
    let sent = socket.send_batch(&[]);
    assert!(sent.transmits == 0 && sent.stopped.is_none());
    assert_eq!(collect_now(&socket), 0);
}

/// Returns the number of datagrams that one receive finds.
fn collect_now(socket: &UdpSocket) -> usize {
    let mut batch = ReceiveBatch::new(64);
    socket
        .receive_batch(&mut batch)
        .expect("nothing is no error")
}

/// All of 127/8 belongs to this machine, so a peer can write to 127.0.0.2 and must get its
/// answer from there although the routes would choose 127.0.0.1.
#[test]
fn a_wildcard_socket_answers_from_the_address_the_peer_used() {
    let wildcards: [IpAddr; 2] = [Ipv4Addr::UNSPECIFIED.into(), Ipv6Addr::UNSPECIFIED.into()];
    for wildcard in wildcards {
        for segmentation in [true, false] {
            let options = Options {
                segmentation,
                ..Options::default()
            };
            let Some(server) = open_with(wildcard, &options) else {
                continue;
            };
            let client = open(Ipv4Addr::LOCALHOST).expect("IPv4");
            let used = SocketAddr::from(([127, 0, 0, 2], server.local_addr().port()));
            client.send(b"hello", used).expect("loopback takes it");
            let asked = collect(&server, 1);
            let (_, source, destination) = asked.first().expect("it arrived");
            assert_eq!(*source, client.local_addr(), "unmapped on {wildcard}");
            assert_eq!(*destination, Some(used.ip()), "on {wildcard}");

            let answer = Transmit::new(b"1234567", *source)
                .segmented(4)
                .from(*destination);
            let sent = server.send_batch(&[answer]);
            assert!(sent.stopped.is_none(), "{sent:?} on {wildcard}");
            let answered = collect(&client, 2);
            assert_eq!(answered.len(), 2);
            assert!(
                answered.iter().all(|(_, from, _)| *from == used),
                "{answered:?}"
            );
        }
    }
}

#[test]
fn a_dual_stack_socket_serves_both_families() {
    let Some(server) = open(Ipv6Addr::UNSPECIFIED) else {
        return;
    };
    let port = server.local_addr().port();
    for ip in [
        IpAddr::from(Ipv4Addr::LOCALHOST),
        Ipv6Addr::LOCALHOST.into(),
    ] {
        let Some(client) = open(ip) else { continue };
        client
            .send(b"?", SocketAddr::new(ip, port))
            .expect("loopback takes it");
        let asked = collect(&server, 1);
        assert_eq!(asked[0].1, client.local_addr());
        assert_eq!(asked[0].2, Some(ip));
    }
}

#[test]
fn an_oversized_datagram_is_marked() {
    let (sender, receiver) = (
        open(Ipv4Addr::LOCALHOST).expect("IPv4"),
        open(Ipv4Addr::LOCALHOST).expect("IPv4"),
    );
    sender
        .send(&pattern(3000), receiver.local_addr())
        .expect("fits UDP");
    let mut batch = ReceiveBatch::new(1);
    let deadline = Instant::now() + Duration::from_secs(2);
    while receiver.receive_batch(&mut batch).expect("receives") == 0 {
        assert!(Instant::now() < deadline, "nothing arrived");
    }
    let datagram = batch.datagram(0);
    assert!(datagram.truncated);
    assert_eq!(datagram.bytes, &pattern(3000)[..crate::DATAGRAM_BYTES_MAX]);
}

#[test]
fn buffers_grow_when_asked() {
    let small = UdpSocket::bind(
        SocketAddr::from((Ipv4Addr::LOCALHOST, 0)),
        &Options {
            receive_buffer: Some(8192),
            send_buffer: Some(8192),
            ..Options::default()
        },
    )
    .expect("binds");
    let large = open(Ipv4Addr::LOCALHOST).expect("IPv4");
    let bytes = |socket: &UdpSocket| socket.receive_buffer_bytes().expect("an option");
    assert!(bytes(&large) > bytes(&small));
    assert!(small.send_buffer_bytes().expect("an option") >= 8192);
}

#[test]
fn shared_sockets_split_the_peers() {
    let shared = Options {
        reuse_port: true,
        ..Options::default()
    };
    let first = open_with(Ipv4Addr::LOCALHOST, &shared).expect("IPv4");
    let second = UdpSocket::bind(first.local_addr(), &shared).expect("shared");
    for _ in 0..64 {
        let client = open(Ipv4Addr::LOCALHOST).expect("IPv4");
        client
            .send(b"?", first.local_addr())
            .expect("loopback takes it");
    }
    // Loopback delivers within the send call: all that comes is there.
    let counts = (collect_now(&first), collect_now(&second));
    assert_eq!(counts.0 + counts.1, 64);
    assert!(counts.0 > 0 && counts.1 > 0, "{counts:?}");
}

#[test]
fn the_kernel_notes_when_a_datagram_came() {
    let options = Options {
        receive_timestamps: true,
        ..Options::default()
    };
    let address = SocketAddr::from(([127, 0, 0, 1], 0));
    let receiver = UdpSocket::bind(address, &options).expect("a free port");
    let sender = UdpSocket::bind(address, &Options::default()).expect("a free port");
    let unix = || {
        std::time::SystemTime::now()
            .duration_since(std::time::UNIX_EPOCH)
            .expect("after 1970")
    };
    // The kernel begins to record times a moment after the option is set; until then it
    // returns when the datagram was read.
    let exact = (0..50).any(|_| {
        let before = unix();
        sender.send(b"now", receiver.local_addr()).expect("sent");
        let after = unix();
        std::thread::sleep(Duration::from_millis(20));
        let mut batch = ReceiveBatch::default();
        assert_eq!(receiver.receive_batch(&mut batch).expect("readable"), 1);
        let arrived = batch.datagram(0).arrived.expect("asked for");
        let grain = Duration::from_millis(1);
        assert!(before <= arrived + grain && arrived <= unix() + grain);
        arrived <= after + grain
    });
    assert!(
        exact,
        "times are when datagrams were read, not when they came"
    );
}

#[test]
fn coalesced_datagrams_tell_their_size() {
    let options = Options {
        coalescing: true,
        ..Options::default()
    };
    let address = SocketAddr::from(([127, 0, 0, 1], 0));
    let receiver = UdpSocket::bind(address, &options).expect("a free port");
    let sender = UdpSocket::bind(address, &Options::default()).expect("a free port");
    let contents: Vec<u8> = (0..5000u32).map(|index| index as u8).collect();
    let sent = sender.send_segmented(&contents, 1200, receiver.local_addr());
    assert!(sent.stopped.is_none());
    let mut batch = ReceiveBatch::for_coalescing(8);
    let mut received = Vec::new();
    while received.len() < contents.len() {
        assert!(receiver.receive_batch(&mut batch).expect("readable") > 0);
        for datagram in batch.iter_mut() {
            let size = datagram.segment.map_or(datagram.bytes.len(), usize::from);
            assert!(datagram.bytes.chunks(size).all(|it| it.len() <= 1200));
            received.extend_from_slice(datagram.bytes);
        }
    }
    assert_eq!(received, contents);
}

#[test]
#[cfg(target_os = "linux")]
fn a_closed_port_is_told_and_costs_nobody_else_a_datagram() {
    for ip in [
        IpAddr::from(Ipv4Addr::LOCALHOST),
        Ipv6Addr::LOCALHOST.into(),
    ] {
        let options = Options {
            path_errors: true,
            ..Options::default()
        };
        let Some(sender) = open_with(ip, &options) else {
            continue;
        };
        let receiver = open(ip).expect("the family is there");
        let gone = open(ip).expect("the family is there").local_addr();
        for number in 0..20u8 {
            sender.send(&[number], gone).expect("nobody knows yet");
            sender
                .send(&[number], receiver.local_addr())
                .expect("another's trouble");
        }
        assert_eq!(collect(&receiver, 20).len(), 20, "{ip}");
        let mut errors = 0;
        while let Some(error) = sender.take_path_error() {
            assert_eq!(
                (error.destination, error.kind),
                (gone, PathErrorKind::Refused)
            );
            errors += 1;
        }
        assert!(errors > 0, "{ip}: no answer from loopback");
        assert_eq!(receiver.take_path_error(), None);
    }
}
