//! Cost of one packet: sealing it, and sealing and sending it, beside the least that cipher and
//! kernel need.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::{Duration, Instant};

use glassline_lab::viewers::floor::{HEADER_BYTES, Sealer, TAG_BYTES};
use glassline_net::{Options, Transmit, UdpSocket, gso_supported, thread_cpu};
use glassline_webrtc::srtp::Profile;
use glassline_webrtc::{Certificate, Event, SenderIndex, Session};
use serde_json::json;

use crate::machine;
use crate::pair::{CLIENT, SERVER, pair};
use crate::report::{self, Table, quantile};

/// Number of viewers: enough that no key stays in the nearest cache.
const VIEWERS: usize = 64;
/// A frame of 3 Mbit/s at 30 frames a second.
const PACKETS: usize = 11;
const PAYLOAD_BYTES: usize = 1150;
/// Frames for each viewer in one measurement.
const FRAMES: usize = 30;
/// Measurements of each case, which alternate; the median counts.
const ROUNDS: usize = 15;

/// Way in which sealed packets are sent.
#[derive(Clone, Copy, PartialEq)]
enum Sending {
    Nowhere,
    Segmented,
    OneByOne,
}

pub(crate) fn run() -> Result<(), String> {
    let machine = machine::describe();
    let mut lab = Lab::new()?;
    let cases = [
        ("seal", Sending::Nowhere),
        ("seal, segmented send", Sending::Segmented),
        ("seal, sendmmsg", Sending::OneByOne),
    ];
    let mut ours = vec![Vec::new(); cases.len()];
    let mut floor = vec![Vec::new(); cases.len()];
    for round in 0..=ROUNDS {
        for (index, (_, sending)) in cases.iter().enumerate() {
            let figures = (lab.sessions(*sending), lab.floor(*sending));
            // The first round warms up.
            if round > 0 {
                ours[index].push(figures.0);
                floor[index].push(figures.1);
            }
        }
    }
    let mut table = Table::new(&["", "ours ns/packet", "floor ns/packet", "ratio"]);
    let mut results = Vec::new();
    for (index, (name, _)) in cases.iter().enumerate() {
        let median = |values: &[f64]| quantile(values, 0.5).unwrap_or(f64::NAN);
        let (ours, floor) = (median(&ours[index]), median(&floor[index]));
        table.row(vec![
            (*name).to_owned(),
            format!("{ours:.0}"),
            format!("{floor:.0}"),
            format!("{:.2}", ours / floor),
        ]);
        results.push(json!({
            "case": name,
            "ns_per_packet": ours,
            "floor_ns_per_packet": floor,
            "ratio_to_floor": ours / floor,
        }));
    }
    table.print();
    let profile = lab.profile.name();
    println!(
        "{profile}, {VIEWERS} sessions, frames of {PACKETS} packets with {PAYLOAD_BYTES} B of \
         payload; thread CPU time, median of {ROUNDS}; the sink is a loopback socket that nobody \
         reads; segmentation offload: {}",
        gso_supported(&lab.segmented)
    );
    let results = json!({"profile": profile, "cases": results});
    report::write("seal", &machine, &results)
}

struct Lab {
    sessions: Vec<Session>,
    sealers: Vec<Sealer>,
    profile: Profile,
    segmented: UdpSocket,
    one_by_one: UdpSocket,
    sink: UdpSocket,
    payloads: Vec<Vec<u8>>,
    scratch: Vec<u8>,
    timestamp: u32,
}

impl Lab {
    fn new() -> Result<Self, String> {
        let bind = |options: &Options| {
            let any = SocketAddr::from(([127, 0, 0, 1], 0));
            UdpSocket::bind(any, options).map_err(|error| error.to_string())
        };
        let certificates = [certificate()?, certificate()?];
        let mut sessions = Vec::new();
        let mut profile = None;
        for number in 0..VIEWERS {
            let (session, agreed) = connect(&certificates, number)?;
            sessions.push(session);
            profile = Some(agreed);
        }
        let profile = profile.ok_or("no sessions")?;
        let bits = profile.key_bytes() * 8;
        Ok(Self {
            sealers: (0..VIEWERS as u64)
                .map(|seed| Sealer::new(seed, bits))
                .collect(),
            sessions,
            profile,
            segmented: bind(&Options::default())?,
            one_by_one: bind(&Options {
                segmentation: false,
                ..Options::default()
            })?,
            sink: bind(&Options {
                receive_buffer: Some(4096),
                ..Options::default()
            })?,
            payloads: (0..PACKETS).map(|n| vec![n as u8; PAYLOAD_BYTES]).collect(),
            scratch: vec![0; PACKETS * (HEADER_BYTES + PAYLOAD_BYTES + TAG_BYTES) + 1500],
            timestamp: 0,
        })
    }

    /// Nanoseconds per packet with our sessions.
    fn sessions(&mut self, sending: Sending) -> f64 {
        let before = thread_cpu();
        for _ in 0..FRAMES {
            self.timestamp = self.timestamp.wrapping_add(3000);
            for index in 0..VIEWERS {
                let now = Instant::now();
                let (mut used, mut segment) = (0, 0);
                for (place, payload) in self.payloads.iter().enumerate() {
                    let marker = place + 1 == PACKETS;
                    let out = &mut self.scratch[used..];
                    let session = &mut self.sessions[index];
                    let sealed =
                        session.seal(SenderIndex(0), self.timestamp, marker, payload, now, out);
                    let len = sealed.expect("connected").len;
                    segment = segment.max(len);
                    used += len;
                }
                self.send(sending, used, segment);
            }
        }
        per_packet(thread_cpu().saturating_sub(before))
    }

    /// Nanoseconds per packet of cipher and kernel alone.
    fn floor(&mut self, sending: Sending) -> f64 {
        let before = thread_cpu();
        for _ in 0..FRAMES {
            for index in 0..VIEWERS {
                let (mut used, mut segment) = (0, 0);
                for payload in &self.payloads {
                    let len = self.sealers[index].seal(payload, &mut self.scratch[used..]);
                    segment = segment.max(len);
                    used += len;
                }
                self.send(sending, used, segment);
            }
        }
        per_packet(thread_cpu().saturating_sub(before))
    }

    fn send(&self, sending: Sending, bytes: usize, segment: usize) {
        let socket = match sending {
            Sending::Nowhere => return,
            Sending::Segmented => &self.segmented,
            Sending::OneByOne => &self.one_by_one,
        };
        let sealed = &self.scratch[..bytes];
        let transmit = Transmit::new(sealed, self.sink.local_addr()).segmented(segment);
        let sent = socket.send_batch(&[transmit]);
        assert!(sent.stopped.is_none(), "{:?}", sent.stopped);
    }
}

fn per_packet(cpu: Duration) -> f64 {
    cpu.as_secs_f64() * 1e9 / (FRAMES * VIEWERS * PACKETS) as f64
}

fn certificate() -> Result<Arc<Certificate>, String> {
    let certificate = Certificate::generate().map_err(|error| error.to_string())?;
    Ok(Arc::new(certificate))
}

/// Makes a serving session whose peer, in memory, has agreed on keys.
fn connect(
    certificates: &[Arc<Certificate>; 2],
    number: usize,
) -> Result<(Session, Profile), String> {
    let mut now = Instant::now();
    let (mut server, mut client) = pair(certificates, number, now)?;
    let mut datagram = Vec::new();
    for _ in 0..1000 {
        while server.poll_transmit(&mut datagram).is_some() {
            // A refused datagram is repeated by the other end.
            let _ = client.handle_datagram(now, SERVER, CLIENT, &mut datagram);
        }
        while client.poll_transmit(&mut datagram).is_some() {
            let _ = server.handle_datagram(now, CLIENT, SERVER, &mut datagram);
        }
        while let Some(event) = server.poll_event() {
            if let Event::Connected {
                profile: Some(profile),
            } = event
            {
                return Ok((server, profile));
            }
        }
        now += Duration::from_millis(5);
        server.handle_timeout(now);
        client.handle_timeout(now);
    }
    Err("two sessions in memory do not connect".to_owned())
}
