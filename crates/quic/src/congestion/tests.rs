use std::net::SocketAddr;
use std::num::NonZeroUsize;
use std::sync::Arc;
use std::time::Duration;

use bytes::BytesMut;
use glassline_congestion::Cubic;
use glassline_sim::{Capacity, Conditions, Datagram, Loss, Network, Node, Simulation};
use noq_proto::crypto::rustls::{QuicClientConfig, QuicServerConfig};
use noq_proto::{
    ClientConfig, Connection, ConnectionHandle, DatagramEvent, Dir, Endpoint, EndpointConfig,
    FourTuple, ServerConfig, StreamId, TransportConfig,
};
use rustls::pki_types::PrivateKeyDer;

use super::*;

/// A client that sends to a server as much as it may, in virtual time.
struct Transfer {
    network: Network,
    client: Peer,
    server: Peer,
}

/// An endpoint with the one connection it has.
struct Peer {
    endpoint: Endpoint,
    connection: Option<(ConnectionHandle, Connection)>,
    address: SocketAddr,
    /// The data that the connection is given repeatedly.
    chunk: Vec<u8>,
    up: Option<StreamId>,
    down: Option<StreamId>,
    received: u64,
}

impl Simulation for Transfer {
    fn with_nodes<R>(&mut self, run: impl FnOnce(&mut Network, &mut [&mut dyn Node]) -> R) -> R {
        run(&mut self.network, &mut [&mut self.client, &mut self.server])
    }
}

impl Node for Peer {
    fn is_at(&self, address: SocketAddr) -> bool {
        address == self.address
    }

    fn handle(&mut self, now: Instant, datagram: Datagram) {
        let mut answer = Vec::new();
        let four = FourTuple::new(datagram.from, None);
        let bytes = BytesMut::from(&datagram.bytes[..]);
        match self.endpoint.handle(now, four, None, bytes, &mut answer) {
            Some(DatagramEvent::ConnectionEvent(_, event)) => {
                if let Some((_, connection)) = &mut self.connection {
                    connection.handle_event(event);
                }
            }
            Some(DatagramEvent::NewConnection(incoming)) => {
                let accepted = self.endpoint.accept(incoming, now, &mut answer, None);
                self.connection = Some(accepted.expect("an honest client"));
            }
            _ => {}
        }
    }

    fn end_batch(&mut self, _: Instant) {
        self.read();
    }

    fn poll_transmit(&mut self, now: Instant) -> Option<Datagram> {
        self.write();
        let (handle, connection) = self.connection.as_mut()?;
        while let Some(event) = connection.poll_endpoint_events() {
            if let Some(event) = self.endpoint.handle_event(*handle, event) {
                connection.handle_event(event);
            }
        }
        while connection.poll().is_some() {}
        let mut bytes = Vec::new();
        let sent = connection.poll_transmit(now, NonZeroUsize::MIN, &mut bytes)?;
        bytes.truncate(sent.size);
        Some(Datagram {
            from: self.address,
            to: sent.destination,
            bytes,
        })
    }

    fn poll_timeout(&mut self) -> Option<Instant> {
        self.connection.as_mut()?.1.poll_timeout()
    }

    fn handle_timeout(&mut self, now: Instant) {
        if let Some((_, connection)) = &mut self.connection {
            connection.handle_timeout(now);
        }
    }

    fn state(&self) -> String {
        let stats = self.connection.as_ref().map(|it| it.1.is_handshaking());
        format!("handshaking {stats:?}, received {} bytes", self.received)
    }
}

impl Peer {
    fn new(endpoint: Endpoint, address: SocketAddr) -> Self {
        Self {
            endpoint,
            connection: None,
            address,
            chunk: Vec::new(),
            up: None,
            down: None,
            received: 0,
        }
    }

    /// Writes as much as the connection accepts.
    fn write(&mut self) {
        let Some((_, connection)) = &mut self.connection else {
            return;
        };
        if connection.is_handshaking() || self.chunk.is_empty() {
            return;
        }
        self.up = self.up.or_else(|| connection.streams().open(Dir::Uni));
        let mut stream = connection.send_stream(self.up.expect("a first stream is free"));
        while stream.write(&self.chunk).is_ok() {}
    }

    fn read(&mut self) {
        let Some((_, connection)) = &mut self.connection else {
            return;
        };
        self.down = self.down.or_else(|| connection.streams().accept(Dir::Uni));
        let Some(id) = self.down else { return };
        let mut stream = connection.recv_stream(id);
        if let Ok(mut chunks) = stream.read(true) {
            while let Ok(Some(chunk)) = chunks.next(usize::MAX) {
                self.received += chunk.bytes.len() as u64;
            }
            let _ = chunks.finalize();
        }
    }
}

fn address(text: &str) -> SocketAddr {
    text.parse().expect("an address")
}

fn transport(control: CongestionControl) -> Arc<TransportConfig> {
    let mut transport = TransportConfig::default();
    transport.congestion_controller_factory(Arc::new(control));
    transport.mtu_discovery_config(None);
    transport.send_window(1 << 20);
    Arc::new(transport)
}

impl Transfer {
    fn new(control: CongestionControl, up: Conditions, seed: u64) -> Self {
        let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
        let made = rcgen::generate_simple_self_signed(["server".to_owned()]).expect("made");
        let certificate = made.cert.der().clone();
        let key = PrivateKeyDer::Pkcs8(made.signing_key.serialize_der().into());
        let tls = rustls::ServerConfig::builder_with_provider(Arc::clone(&provider))
            .with_protocol_versions(&[&rustls::version::TLS13])
            .expect("TLS 1.3")
            .with_no_client_auth()
            .with_single_cert(vec![certificate.clone()], key)
            .expect("a certificate and its key");
        let crypto = QuicServerConfig::try_from(tls).expect("ciphers of QUIC");
        let mut config = ServerConfig::with_crypto(Arc::new(crypto));
        config.transport = transport(CongestionControl::new(Algorithm::Cubic));
        let mut roots = rustls::RootCertStore::empty();
        roots.add(certificate).expect("a root");
        let tls = rustls::ClientConfig::builder_with_provider(provider)
            .with_protocol_versions(&[&rustls::version::TLS13])
            .expect("TLS 1.3")
            .with_root_certificates(roots)
            .with_no_client_auth();
        let crypto = QuicClientConfig::try_from(tls).expect("ciphers of QUIC");
        let mut client_config = ClientConfig::new(Arc::new(crypto));
        client_config.transport_config(transport(control));
        let down = Conditions::delayed(up.delay);
        let network = Network::pair_with(up, down, seed);
        let endpoint = |server: Option<ServerConfig>| {
            let mut config = EndpointConfig::default();
            config.rng_seed(Some([u8::from(server.is_some()); 32]));
            Endpoint::new(Arc::new(config), server.map(Arc::new), true)
        };
        let server = Peer::new(endpoint(Some(config)), address("10.0.0.2:443"));
        let mut client = Peer::new(endpoint(None), address("10.0.0.1:1000"));
        let (now, remote) = (network.now(), server.address);
        let connected = client
            .endpoint
            .connect(now, client_config, remote, "server");
        client.connection = Some(connected.expect("a connection begins"));
        Self {
            network,
            client,
            server,
        }
    }

    fn connection(&mut self) -> &mut Connection {
        &mut self.client.connection.as_mut().expect("connected").1
    }

    /// Sends without a pause for `seconds`.
    fn run(&mut self, seconds: u64, chunk: &[u8]) {
        self.client.chunk = chunk.to_vec();
        self.run_for(Duration::from_secs(seconds));
    }
}

fn link(mbps: u64, delay_ms: u64, queue_bytes: usize) -> Conditions {
    Conditions {
        capacity: Capacity::Rate(Bitrate::from_bps(mbps * 1_000_000)),
        delay: Duration::from_millis(delay_ms),
        queue_bytes,
        ..Conditions::default()
    }
}

/// A controller whose rate never changes.
#[derive(Clone, Debug)]
struct Fixed {
    rate: Bitrate,
}

impl Controller for Fixed {
    fn on_ack(&mut self, _: &glassline_congestion::Ack<'_>) {}
    fn on_loss(&mut self, _: &glassline_congestion::Loss) {}
    fn on_marked(&mut self, _: Instant, _: u64) {}
    fn on_mtu(&mut self, _: u64) {}
    fn window(&self) -> u64 {
        1 << 20
    }
    fn pacing_rate(&self) -> Option<Bitrate> {
        Some(self.rate)
    }
    fn is_starting(&self) -> bool {
        false
    }
    fn clone_box(&self) -> Box<dyn Controller> {
        Box::new(self.clone())
    }
}

#[test]
fn packets_leave_at_the_controllers_rate_and_no_faster() {
    let rate = Bitrate::from_bps(2_000_000);
    let control = CongestionControl::with(move |_| Box::new(Fixed { rate }));
    let monitor = control.monitor();
    let mut transfer = Transfer::new(control, link(50, 20, 1 << 20), 1);
    transfer.run(10, &[0; 16 << 10]);
    let seen = monitor.get();
    let mbps = Bitrate::over(seen.totals.sent, Duration::from_secs(10)).mbps();
    assert!((1.85..=2.02).contains(&mbps), "{mbps} Mbit/s, {seen:?}");
    assert_eq!(seen.totals.lost, 0, "{seen:?}");
    assert_eq!(seen.pacing_rate, Some(rate));
}

#[test]
fn what_is_counted_as_in_flight_is_what_the_connection_counts() {
    for seed in 1..=5 {
        let control = CongestionControl::new(Algorithm::Cubic);
        let monitor = control.monitor();
        let lossy = Conditions {
            reorder: 0.02,
            ..link(4, 30, 60_000).with_loss(Loss::Random(0.03))
        };
        let mut transfer = Transfer::new(control, lossy, seed);
        transfer.run(20, &[0; 16 << 10]);
        let seen = monitor.get();
        let totals = seen.totals;
        // Only what was in flight when the handshake's keys were dropped is unsettled.
        let settled = totals.delivered + totals.lost + seen.in_flight;
        assert!(totals.sent.abs_diff(settled) < 10_000, "{seen:?}");
        assert!(totals.lost > 0 && totals.delivered > 500_000, "{seen:?}");
        assert!(totals.delivered >= transfer.server.received, "{seen:?}");
        let stats = transfer.connection().stats();
        assert!(totals.lost.abs_diff(stats.lost_bytes) < 10_000, "{stats:?}");
    }
}

#[test]
fn round_trips_contain_the_path_and_the_queue() {
    let control = CongestionControl::new(Algorithm::Cubic);
    let monitor = control.monitor();
    // 125 kB at 2 Mbit/s: half a second of queue, which CUBIC fills.
    let mut transfer = Transfer::new(control, link(2, 25, 125_000), 3);
    transfer.run(30, &[0; 16 << 10]);
    let seen = monitor.get();
    let mean = seen.rtt_sum / u32::try_from(seen.rtts).expect("few");
    let ms = Duration::from_millis;
    assert!(
        seen.rtts > 1000 && mean > ms(150) && mean < ms(600),
        "{mean:?}"
    );
    assert!(
        seen.least_rtt.is_some_and(|least| least >= ms(50)),
        "{seen:?}"
    );
    let deliverable = seen.deliverable_rate.expect("measured").mbps();
    assert!((1.7..2.2).contains(&deliverable), "{deliverable}");
}

#[test]
fn a_loss_that_was_a_delay_is_taken_back() {
    let control = CongestionControl::with(|mtu| Box::new(Cubic::new(mtu)));
    let monitor = control.monitor();
    let shuffled = Conditions {
        reorder: 0.01,
        reorder_delay: Duration::from_millis(15),
        ..link(8, 30, 1 << 20)
    };
    let mut transfer = Transfer::new(control, shuffled, 5);
    transfer.run(20, &[0; 16 << 10]);
    let stats = transfer.connection().path_stats(noq_proto::PathId::ZERO);
    let spurious = stats.expect("the path").spurious_congestion_events;
    assert!(spurious > 0, "nothing was put to the test");
    assert!(monitor.get().totals.spurious > 0);
    let mbps = Bitrate::over(transfer.server.received, Duration::from_secs(20)).mbps();
    // If spurious losses were not undone, each would cost 30 % of the window.
    assert!(mbps > 6.5, "{mbps} Mbit/s, {:?}", monitor.get());
}

#[test]
fn a_client_that_takes_a_new_address_goes_on_and_keeps_its_totals() {
    for new in ["10.0.0.1:2000", "10.0.7.9:1000"] {
        let mut transfer = Transfer::new(
            CongestionControl::new(Algorithm::Copa),
            link(4, 20, 60_000),
            7,
        );
        transfer.run(5, &[0; 16 << 10]);
        let before = transfer.server.received;
        transfer.client.address = address(new);
        transfer.run(5, &[0; 16 << 10]);
        assert!(transfer.server.received > before + before / 2, "{new}");
    }
}
