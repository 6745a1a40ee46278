//! The least that sending a stream to many viewers costs on this machine: copy and
//! AEAD straight from the cipher library, segmented sends of several viewers in
//! one system call, nothing else. No sessions, timers, pacing, feedback, accounts.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::process::Command;
use std::thread;
use std::time::{Duration, Instant};

use aws_lc_rs::aead::{AES_128_GCM, AES_256_GCM, Aad, LessSafeKey, Nonce, UnboundKey};
use glassline_net::{Options, Transmit, UdpSocket};

use crate::media::{self, Media, Unit};
use crate::process::Running;
use crate::processor::Usage;
use crate::sink::Sink;

/// Fixed header (12) and one extension for the transport-wide number (8): what
/// our packets have.
pub(crate) const HEADER_BYTES: usize = 20;
pub(crate) const TAG_BYTES: usize = 16;

/// Viewers whose sends share a system call.
const VIEWERS_PER_CALL: usize = 16;

const WARM_UP: Duration = Duration::from_secs(2);

/// What the floor cost.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Cost {
    pub(crate) cpu: Duration,
    pub(crate) took: Duration,
    pub(crate) packets: u64,
    /// Received ÷ sent.
    pub(crate) delivered: f64,
}

/// Sends `media` to `viewers` sockets for `seconds`, from a process of its own.
pub(crate) fn measure(media: &Media, viewers: usize, seconds: u64) -> Result<Cost, String> {
    let sink = Sink::open(viewers)?;
    let this = std::env::current_exe().map_err(|error| error.to_string())?;
    let mut command = Command::new(this);
    command.arg("--role=floor").arg(seconds.to_string());
    let files: Vec<String> = media
        .files
        .iter()
        .map(|f| f.display().to_string())
        .collect();
    command.arg(files.join(","));
    command.args(sink.addresses().iter().map(ToString::to_string));
    let sender = Running::start("floor", command)?;
    let patience = Duration::from_secs(30 + seconds);
    sender.wait_for_line(patience, |line| line.starts_with("begin").then_some(()))?;
    let (before, began, received) = (Usage::of(sender.id())?, Instant::now(), sink.received());
    let packets = sender.wait_for_line(patience, |line| line.strip_prefix("end ")?.parse().ok())?;
    let (after, took) = (Usage::of(sender.id())?, began.elapsed());
    thread::sleep(Duration::from_millis(100));
    let packets: u64 = packets;
    Ok(Cost {
        cpu: after.since(&before),
        took,
        packets,
        delivered: (sink.received() - received) as f64 / packets.max(1) as f64,
    })
}

/// `SECONDS FILE,FILE ADDRESS…`: the sending process.
pub(crate) fn send(arguments: &[String]) -> Result<(), String> {
    let [seconds, files, addresses @ ..] = arguments else {
        return Err("SECONDS FILES ADDRESS…".to_owned());
    };
    let seconds: u64 = seconds.parse().map_err(|_| "no number of seconds")?;
    let files: Vec<PathBuf> = files.split(',').map(PathBuf::from).collect();
    let (units, length) = media::packetise(&files)?;
    let mut viewers = Vec::new();
    for address in addresses {
        let to: SocketAddr = address
            .parse()
            .map_err(|_| format!("{address}: no address"))?;
        viewers.push(Target {
            to,
            sealer: Sealer::new(viewers.len() as u64, 256),
        });
    }
    let options = Options {
        send_buffer: Some(8 << 20),
        ..Options::default()
    };
    let any = SocketAddr::from(([127, 0, 0, 1], 0));
    let socket = UdpSocket::bind(any, &options).map_err(|error| error.to_string())?;
    let mut scratch = vec![0; VIEWERS_PER_CALL * UNIT_BYTES_MAX];
    let mut counted = 0;
    let start = Instant::now();
    let (begin, end) = (WARM_UP, WARM_UP + Duration::from_secs(seconds));
    let mut begun = false;
    for (round, unit) in (0u32..).flat_map(|round| units.iter().map(move |unit| (round, unit))) {
        let due = length * round + unit.at;
        let left = (start + due).saturating_duration_since(Instant::now());
        if !left.is_zero() {
            thread::sleep(left);
        }
        if !begun && due >= begin {
            begun = true;
            println!("begin");
        }
        if due >= end {
            println!("end {counted}");
            break;
        }
        for some in viewers.chunks_mut(VIEWERS_PER_CALL) {
            let packets = send_unit(unit, some, &socket, &mut scratch);
            counted += if begun { packets } else { 0 };
        }
    }
    thread::sleep(Duration::from_secs(60));
    Ok(())
}

/// Room for a keyframe of one viewer.
const UNIT_BYTES_MAX: usize = 1 << 19;

struct Target {
    to: SocketAddr,
    sealer: Sealer,
}

/// Seals and sends one access unit to at most 16 viewers; packets handed over.
/// A run of equal packets and one shorter at its end is one segmented message.
fn send_unit(unit: &Unit, viewers: &mut [Target], socket: &UdpSocket, scratch: &mut [u8]) -> u64 {
    let mut transmits = Vec::with_capacity(2 * VIEWERS_PER_CALL);
    let mut rest = scratch;
    for viewer in viewers.iter_mut() {
        for run in unit.runs() {
            let (mut used, mut segment) = (0, 0);
            for payload in run {
                let len = viewer.sealer.seal(payload, &mut rest[used..]);
                segment = segment.max(len);
                used += len;
            }
            let (sealed, remaining) = rest.split_at_mut(used);
            rest = remaining;
            transmits.push(Transmit::new(sealed, viewer.to).segmented(segment));
        }
    }
    let sent = socket.send_batch(&transmits);
    let whole = if sent.stopped.is_none() {
        viewers.len()
    } else {
        sent.transmits * viewers.len() / transmits.len()
    };
    (whole * unit.payloads.len()) as u64
}

/// Copy and AEAD of one packet, and nothing around it.
pub(crate) struct Sealer {
    key: LessSafeKey,
    number: u64,
}

impl Sealer {
    /// AES-GCM with a key of `bits` (128 or 256) made from `seed`.
    pub(crate) fn new(seed: u64, bits: usize) -> Self {
        let algorithm = if bits == 128 {
            &AES_128_GCM
        } else {
            &AES_256_GCM
        };
        let mut bytes = [0x5a; 32];
        bytes[..8].copy_from_slice(&seed.to_be_bytes());
        let key = UnboundKey::new(algorithm, &bytes[..bits / 8]).expect("the key's length fits");
        Self {
            key: LessSafeKey::new(key),
            number: 0,
        }
    }

    /// Header, sealed payload and tag into `out`; their bytes.
    pub(crate) fn seal(&mut self, payload: &[u8], out: &mut [u8]) -> usize {
        self.number += 1;
        let mut nonce = [0; 12];
        nonce[4..].copy_from_slice(&self.number.to_be_bytes());
        let (header, body) = out.split_at_mut(HEADER_BYTES);
        header[0] = 0x80;
        header[2..10].copy_from_slice(&self.number.to_be_bytes());
        let (text, rest) = body.split_at_mut(payload.len());
        self.key
            .seal_out_of_place_scatter(
                Nonce::assume_unique_for_key(nonce),
                Aad::from(&*header),
                payload,
                text,
                &[],
                &mut rest[..TAG_BYTES],
            )
            .expect("lengths fit");
        HEADER_BYTES + payload.len() + TAG_BYTES
    }
}
