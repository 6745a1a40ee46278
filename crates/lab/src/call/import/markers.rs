//! Reads the log of a WebRTC (M98) that a study had instrumented: lines with a marker and
//! numbers after it, among other log lines.
//!
//! | marker | numbers | meaning |
//! |---|---|---|
//! | `EnqueuePackets:` | RTP timestamp, ms | a packet entered the pacer |
//! | `SendPacketToNetwork:` | RTP timestamp, sequence number | the packet left the pacer; links both numbers |
//! | `SendRtp:` | sequence number, ms | the network thread has sent the packet |
//! | `Packet received:` | RTP timestamp, ms, decryption | the packet arrived |
//! | `Recording delay:`, `Playout delay:` | ms | time between two calls of a device |
//! | `Audio encoding delay:`, `Send packet:` | µs; none | an encoding task; its packet |
//! | `Decoding delay:`, `Resampling delay:` | µs | an operation of the playout thread |
//! | `Audio packet waiting time ms:` | ms | time in the jitter buffer, in its ticks |
//!
//! Lines of several threads are interleaved: each line is joined by the numbers in it, never by
//! the line before.

use std::collections::HashMap;
use std::io::{self, BufRead};

use glassline_voice::DuplicateReason;

use super::{Trouble, read_line};
use crate::call::report::Copies;
use crate::call::stage::Stage;
use crate::call::table::Delays;

/// Most packets that are kept of all logs: about 20 hours of a call.
const PACKETS_MAX: usize = 1 << 22;

/// An encoding task without a packet is counted only if it took longer than this, in µs.
const ENCODED_ANYWAY_US: i64 = 500;

/// Text of a marker before its colon, its meaning, and how many numbers must follow.
type Marked = (&'static [u8], Marker, usize);

static MARKERS: [Marked; 11] = [
    (b"EnqueuePackets", Marker::Enqueued, 2),
    (b"SendPacketToNetwork", Marker::Paced, 2),
    (b"SendRtp", Marker::Sent, 2),
    (b"Packet received", Marker::Received, 2),
    (
        b"Recording delay",
        Marker::Delay(Stage::CaptureInterval, 1_000),
        1,
    ),
    (
        b"Playout delay",
        Marker::Delay(Stage::PlayoutInterval, 1_000),
        1,
    ),
    (b"Decoding delay", Marker::Delay(Stage::Mixer, 1), 1),
    (b"Resampling delay", Marker::Delay(Stage::Resample, 1), 1),
    (b"Audio encoding delay", Marker::Encoded, 1),
    (b"Send packet", Marker::Packetized, 0),
    (
        b"Audio packet waiting time ms",
        Marker::Delay(Stage::JitterBuffer, 1_000),
        1,
    ),
];

#[derive(Clone, Copy, Debug, PartialEq)]
enum Marker {
    Enqueued,
    Paced,
    Sent,
    Received,
    Encoded,
    Packetized,
    /// Delay of a stage, in units of this many µs.
    Delay(Stage, i64),
}

/// Packets and delays of all logs of this kind.
#[derive(Debug, Default)]
pub(super) struct Markers {
    logs: u32,
    /// Packets by number of the log and RTP timestamp.
    packets: HashMap<(u32, u32), Packet>,
    received: HashMap<(u32, u32), i64>,
    delays: HashMap<Stage, Delays>,
    copies: HashMap<DuplicateReason, Delays>,
    /// Number of packets that were dropped because there were too many.
    left_out: u64,
}

/// Times of a packet at its sender and its receiver, in ms.
#[derive(Clone, Copy, Debug, Default)]
struct Packet {
    enqueued: Option<i64>,
    sent: Option<i64>,
}

/// State of reading one log.
#[derive(Debug)]
struct Log {
    number: u32,
    /// The latest timestamp of each sequence number.
    timestamps: HashMap<u16, u32>,
    /// Whether the last encoding task has not been followed by a packet.
    is_packet_due: bool,
}

impl Markers {
    /// Reads a log; returns the number of markers that were used, and of lines.
    pub(super) fn read(
        &mut self,
        name: &str,
        mut input: impl BufRead,
        trouble: &mut Trouble,
    ) -> io::Result<(u64, u64)> {
        let mut log = Log {
            number: self.logs,
            timestamps: HashMap::new(),
            is_packet_due: false,
        };
        self.logs += 1;
        let mut line = Vec::new();
        let (mut found, mut lines) = (0, 0);
        while let Some(is_longer) = read_line(&mut input, &mut line)? {
            lines += 1;
            if is_longer {
                trouble.malformed(name, lines, "longer than 64 KiB, cut");
            }
            // Several threads may write into one line.
            for ((marked, marker, numbers), rest) in markers(&line) {
                found += 1;
                let taken = integers(rest, *numbers);
                let taken = taken.and_then(|it| self.take(&mut log, *marker, it));
                if taken.is_none() {
                    let marked = String::from_utf8_lossy(marked);
                    let wrong = String::from_utf8_lossy(&rest[..rest.len().min(24)]);
                    let why =
                        format!("after '{marked}:' {numbers} integers must follow, not '{wrong}'");
                    trouble.malformed(name, lines, why);
                }
            }
        }
        Ok((found, lines))
    }

    /// Takes one marker; `None` if its numbers are out of range.
    fn take(&mut self, log: &mut Log, marker: Marker, [a, b]: [i64; 2]) -> Option<()> {
        match marker {
            Marker::Enqueued => {
                let timestamp = u32::try_from(a).ok()?;
                if let Some(packet) = self.packet(log.number, timestamp) {
                    packet.enqueued.get_or_insert(b);
                }
            }
            Marker::Paced => {
                let (timestamp, sequence) = (u32::try_from(a).ok()?, u16::try_from(b).ok()?);
                log.timestamps.insert(sequence, timestamp);
            }
            Marker::Sent => self.sent(log, u16::try_from(a).ok()?, b),
            Marker::Received => self.came(log.number, u32::try_from(a).ok()?, b),
            Marker::Encoded => {
                // Of two encoding tasks of 10 ms, the second one makes the packet of 20 ms.
                let is_first = !std::mem::replace(&mut log.is_packet_due, true);
                if !is_first || a > ENCODED_ANYWAY_US {
                    self.delay(Stage::Encode).record_us(a);
                }
            }
            Marker::Packetized => log.is_packet_due = false,
            Marker::Delay(stage, us) => self.delay(stage).record_us(a.saturating_mul(us)),
        }
        Some(())
    }

    fn sent(&mut self, log: &Log, sequence: u16, at_ms: i64) {
        let timestamp = log.timestamps.get(&sequence).copied();
        let packet = timestamp.and_then(|it| self.packet(log.number, it));
        let Some(packet) = packet else {
            return self.delay(Stage::Send).record_unmatched();
        };
        if let Some(first) = packet.sent {
            let after = at_ms.saturating_sub(first).saturating_mul(1_000);
            let copies = self.copies.entry(DuplicateReason::Retransmission);
            return copies.or_default().record_us(after);
        }
        packet.sent = Some(at_ms);
        match packet.enqueued {
            Some(enqueued) => {
                let took = at_ms.saturating_sub(enqueued).saturating_mul(1_000);
                self.delay(Stage::Send).record_us(took);
            }
            None => self.delay(Stage::Send).record_unmatched(),
        }
    }

    fn came(&mut self, log: u32, timestamp: u32, at_ms: i64) {
        if let Some(first) = self.received.get(&(log, timestamp)) {
            let after = at_ms.saturating_sub(*first).saturating_mul(1_000);
            self.copies
                .entry(DuplicateReason::Duplicate)
                .or_default()
                .record_us(after);
        } else if self.received.len() < PACKETS_MAX {
            self.received.insert((log, timestamp), at_ms);
        } else {
            self.left_out += 1;
        }
    }

    fn packet(&mut self, log: u32, timestamp: u32) -> Option<&mut Packet> {
        let is_full = self.packets.len() >= PACKETS_MAX;
        if is_full && !self.packets.contains_key(&(log, timestamp)) {
            self.left_out += 1;
            return None;
        }
        Some(self.packets.entry((log, timestamp)).or_default())
    }

    fn delay(&mut self, stage: Stage) -> &mut Delays {
        self.delays.entry(stage).or_default()
    }

    /// Joins sent and received packets, and adds all delays to `all`.
    pub(super) fn finish(mut self, all: &mut [Delays], notes: &mut Vec<String>) -> Vec<Copies> {
        let waiting = self
            .packets
            .values()
            .filter(|it| it.enqueued.is_some() && it.sent.is_none());
        for _ in 0..waiting.count() {
            self.delay(Stage::Send).record_lost();
        }
        self.network(notes);
        if self.left_out > 0 {
            let left_out = self.left_out;
            let note = format!("{left_out} packets beyond the first {PACKETS_MAX} were not joined");
            notes.push(note);
        }
        for (stage, delays) in &self.delays {
            all[*stage as usize].merge(delays);
        }
        [DuplicateReason::Duplicate, DuplicateReason::Retransmission]
            .into_iter()
            .filter_map(|kind| Some(Copies::new(kind, self.copies.get(&kind)?)))
            .collect()
    }

    fn network(&mut self, notes: &mut Vec<String>) {
        let sent = self
            .packets
            .iter()
            .filter_map(|(key, it)| Some((*key, it.sent?)));
        let sent: HashMap<(u32, u32), i64> = sent.collect();
        let mut network = Delays::default();
        let mut is_joined = std::collections::HashSet::new();
        for ((log, timestamp), at_ms) in &self.received {
            // The other end's log is preferred; both ends may also share one log.
            let others = (0..self.logs).filter(|it| it != log);
            let mut senders = others.chain([*log]);
            let sender = senders.find(|it| sent.contains_key(&(*it, *timestamp)));
            match sender {
                Some(sender) => {
                    let key = (sender, *timestamp);
                    is_joined.insert(key);
                    network.record_us(at_ms.saturating_sub(sent[&key]).saturating_mul(1_000));
                }
                None => network.record_unmatched(),
            }
        }
        for _ in 0..sent.len() - is_joined.len() {
            network.record_lost();
        }
        if network.count() > 0 {
            self.delay(Stage::Network).merge(&network);
        } else if !(sent.is_empty() && self.received.is_empty()) {
            let note = "no network table: no packet was sent and received in these logs; give the other end's log, too";
            notes.push(note.to_owned());
        }
    }
}

/// Each marker of a line, with the text that follows it.
fn markers(line: &[u8]) -> impl Iterator<Item = (&'static Marked, &[u8])> {
    let colons = line.iter().enumerate().filter(|(_, byte)| **byte == b':');
    colons.filter_map(|(at, _)| {
        let (before, rest) = (&line[..at], &line[at + 1..]);
        let named = MARKERS.iter().find(|(name, ..)| {
            let begin = before.strip_suffix(*name);
            begin.is_some_and(|it| !it.last().is_some_and(|byte| is_word(*byte)))
        });
        // `Class::SendRtp::` is the name of a function, not a marker.
        Some((named.filter(|_| rest.first() != Some(&b':'))?, rest))
    })
}

/// Parses `wanted` integers, at most two, with commas between them. More text may follow. `None`
/// if the text has another shape.
fn integers(text: &[u8], wanted: usize) -> Option<[i64; 2]> {
    let mut found = [0; 2];
    let mut rest = text;
    for (place, number) in found.iter_mut().take(wanted).enumerate() {
        if place > 0 {
            rest = rest.trim_ascii_start().strip_prefix(b",")?;
        }
        rest = rest.trim_ascii_start();
        let sign = usize::from(rest.first() == Some(&b'-'));
        let digits = rest[sign..].iter().take_while(|it| it.is_ascii_digit());
        let length = sign + digits.count();
        *number = std::str::from_utf8(&rest[..length]).ok()?.parse().ok()?;
        rest = &rest[length..];
    }
    let is_cut = rest.first().is_some_and(|it| is_word(*it) || *it == b'.');
    (wanted == 0 || !is_cut).then_some(found)
}

const fn is_word(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || byte == b'_'
}
