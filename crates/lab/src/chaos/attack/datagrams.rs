//! Datagrams that strangers send to a port: STUN, DTLS, QUIC, and noise.

use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;
use std::time::Instant;

use glassline_net::{Options, SEGMENTED_BYTES_MAX, SEGMENTS_MAX, SendError, Transmit, UdpSocket};
use rand::rngs::StdRng;
use rand::{Rng as _, RngCore as _};

use super::pacer::Pacer;
use crate::chaos::error::Error;

/// Datagrams to one port from one address.
pub(super) struct DatagramFlood {
    socket: UdpSocket,
    target: SocketAddr,
    /// Datagrams of equal size, back to back, for one system call.
    batch: Vec<u8>,
    size: usize,
    pacer: Pacer,
    pub(super) sent: u64,
    pub(super) refused: u64,
}

/// Most datagrams of one system call.
const BATCH_MAX: usize = SEGMENTS_MAX;

impl DatagramFlood {
    /// Prepares a flood of `per_second` datagrams; `datagrams` have one size and are repeated.
    pub(super) fn new(
        from: IpAddr,
        target: SocketAddr,
        per_second: u32,
        datagrams: &[Vec<u8>],
    ) -> Result<Self, Error> {
        let size = datagrams.iter().map(Vec::len).min().unwrap_or(1).max(1);
        let room = (SEGMENTED_BYTES_MAX / size).clamp(1, BATCH_MAX);
        let mut batch = Vec::with_capacity(room * size);
        for datagram in datagrams.iter().cycle().take(room.max(datagrams.len())) {
            batch.extend_from_slice(&datagram[..size]);
        }
        let socket = UdpSocket::bind(SocketAddr::new(from, 0), &Options::default());
        Ok(Self {
            socket: socket.map_err(std::io::Error::other)?,
            target,
            batch,
            size,
            pacer: Pacer::new(per_second, Instant::now()),
            sent: 0,
            refused: 0,
        })
    }

    /// Sends what is due.
    pub(super) fn send(&mut self, random: &mut StdRng) {
        let in_batch = self.batch.len() / self.size;
        let room = (SEGMENTED_BYTES_MAX / self.size).clamp(1, BATCH_MAX);
        let mut due = self.pacer.take(Instant::now(), usize::MAX);
        while due > 0 {
            let count = due.min(room).min(in_batch);
            due -= count;
            let first = random.random_range(0..=in_batch - count) * self.size;
            let bytes = &self.batch[first..first + count * self.size];
            let transmit = Transmit::new(bytes, self.target).segmented(self.size);
            let sent = self.socket.send_batch(&[transmit]);
            let accepted = (sent.bytes / self.size) as u64;
            self.sent += accepted;
            if let Some(reason) = sent.stopped {
                self.refused += count as u64 - accepted.min(count as u64);
                if matches!(reason, SendError::WouldBlock | SendError::NoBuffers) {
                    return;
                }
            }
        }
    }
}

/// STUN binding requests with user names that no session has.
pub(super) fn stun(random: &mut StdRng) -> Vec<Vec<u8>> {
    let request = |random: &mut StdRng| {
        let mut datagram = vec![0, 1, 0, 48, 0x21, 0x12, 0xa4, 0x42];
        datagram.extend(random.random::<[u8; 12]>());
        datagram.extend([0, 6, 0, 9]);
        datagram.extend((0..4).map(|_| random.random_range(b'a'..=b'z')));
        datagram.extend(*b":abcd\0\0\0");
        datagram.extend([0, 8, 0, 20]);
        datagram.extend(random.random::<[u8; 20]>());
        datagram.extend([0x80, 0x28, 0, 4]);
        datagram.extend(random.random::<[u8; 4]>());
        datagram
    };
    (0..256).map(|_| request(random)).collect()
}

/// DTLS 1.2 client hellos with one cipher suite.
pub(super) fn dtls(random: &mut StdRng) -> Vec<Vec<u8>> {
    let hello = |random: &mut StdRng| {
        let mut body = vec![0xfe, 0xfd];
        body.extend(random.random::<[u8; 32]>());
        // No session, no cookie, one suite, no compression, no extensions.
        body.extend([0, 0, 0, 2, 0xc0, 0x2b, 1, 0, 0, 0]);
        let length = u8::try_from(body.len()).unwrap_or(u8::MAX);
        let mut datagram = vec![22, 0xfe, 0xfd, 0, 0, 0, 0, 0, 0];
        datagram.extend(random.random::<[u8; 2]>());
        datagram.extend([0, length + 12, 1, 0, 0, length, 0, 0, 0, 0, 0, 0, 0, length]);
        datagram.extend(body);
        datagram
    };
    (0..256).map(|_| hello(random)).collect()
}

/// QUIC Initial packets: whole client hellos, each of another connection.
pub(super) fn quic(random: &mut StdRng, server: SocketAddr) -> Vec<Vec<u8>> {
    let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
    let tls = rustls::ClientConfig::builder_with_provider(provider)
        .with_protocol_versions(&[&rustls::version::TLS13])
        .expect("TLS 1.3 is there");
    let mut tls = tls
        .with_root_certificates(rustls::RootCertStore::empty())
        .with_no_client_auth();
    tls.alpn_protocols = vec![b"h3".to_vec()];
    let crypto: noq_proto::crypto::rustls::QuicClientConfig =
        tls.try_into().expect("TLS 1.3 with AES-128-GCM");
    let crypto = Arc::new(crypto);
    let now = Instant::now();
    let initial = |seed: [u8; 32]| {
        let mut config = noq_proto::EndpointConfig::default();
        config.rng_seed(Some(seed));
        let mut endpoint = noq_proto::Endpoint::new(Arc::new(config), None, true);
        let client = noq_proto::ClientConfig::new(Arc::clone(&crypto) as _);
        let (_, mut connection) = endpoint.connect(now, client, server, "localhost").ok()?;
        let mut datagram = Vec::new();
        let transmit = connection.poll_transmit(now, std::num::NonZeroUsize::MIN, &mut datagram)?;
        datagram.truncate(transmit.size);
        Some(datagram)
    };
    let seeds: Vec<[u8; 32]> = (0..256).map(|_| random.random()).collect();
    seeds.into_iter().filter_map(initial).collect()
}

/// Random bytes of one size; most begin like a packet of STUN, DTLS, RTP, RTCP or QUIC.
pub(super) fn noise(random: &mut StdRng) -> Vec<Vec<u8>> {
    const BEGINNINGS: [&[u8]; 8] = [
        &[0, 1, 0, 80, 0x21, 0x12, 0xa4, 0x42],
        &[22, 0xfe, 0xfd, 0, 0],
        &[23, 0xfe, 0xfd, 0, 1],
        &[0x80, 0x60],
        &[0x81, 0xcd],
        &[0xc3, 0, 0, 0, 1],
        &[0x40],
        &[],
    ];
    let length = random.random_range(20..1200);
    let datagrams = (0..64).map(|index| {
        let mut datagram = vec![0; length];
        random.fill_bytes(&mut datagram);
        let beginning = BEGINNINGS[index % BEGINNINGS.len()];
        datagram[..beginning.len()].copy_from_slice(beginning);
        datagram
    });
    datagrams.collect()
}
