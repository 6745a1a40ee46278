//! Chromium's trace events of the categories `webrtc` and `disabled-by-default-webrtc`,
//! with a stamp in microseconds at the begin of each function and its duration.
//!
//! ```text
//! recording thread   SendAudioData ─ ProcessAndEncodeAudio ┐
//! encoder                              AudioEncoder::Encode ┘┐
//! network thread     EnqueuePackets::Loop(timestamp) ────────┘
//!                    PacketRouter::SendPacket(timestamp) ─ BaseChannel::SendPacket
//! network thread     RtpTransport::OnReadPacket ─ NetEqImpl::InsertPacket
//! playing thread     PullRenderData ─ AudioMixerImpl::Mix ─ NetEqImpl::GetAudio ─ AudioDecoder::Decode
//!                                   └ Resample
//! ```
//!
//! From one thread to the next nothing names a frame, so queues are paired in their
//! order ([`fifo`]). No event names a packet where it is received: a trace
//! knows neither the network's delay nor the wait in the jitter buffer.

use std::borrow::Cow;
use std::collections::HashMap;
use std::io::{self, BufRead};

use serde::Deserialize;

use super::events::{Objects, ScanResult};
use super::{Trouble, fifo};
use crate::call::stage::Stage;
use crate::call::table::Delays;

/// Most spans that are kept of all traces: about three hours of a call.
const SPANS_MAX: usize = 1 << 23;

/// Most threads whose spans are read; [`NESTED_MAX`] bounds the spans nested in each other.
const THREADS_MAX: usize = 4_096;
const NESTED_MAX: usize = 256;

/// An encoder call without a packet is counted only if it took longer than this.
const ENCODED_ANYWAY_NS: i64 = 500_000;

/// Names of the traced functions, as Chromium versions from M98 on write them.
const NAMES: [(&str, Kind); 15] = [
    ("AudioSendStream::SendAudioData", Kind::Capture),
    ("ChannelSend::ProcessAndEncodeAudio", Kind::Post),
    ("AudioEncoder::Encode", Kind::Encode),
    ("TaskQueuePacedSender::EnqueuePackets::Loop", Kind::Enqueue),
    ("PacedSender::EnqueuePackets::Loop", Kind::Enqueue),
    ("PacketRouter::SendPacket", Kind::Route),
    ("BaseChannel::SendPacket", Kind::Socket),
    ("RtpTransport::OnReadPacket", Kind::Read),
    ("NetEqImpl::InsertPacket", Kind::Insert),
    ("AudioTransportImpl::PullRenderData", Kind::Pull),
    ("AudioTransportImpl::NeedMorePlayData", Kind::Pull),
    ("AudioMixerImpl::Mix", Kind::Mix),
    ("NetEqImpl::GetAudio", Kind::GetAudio),
    ("AudioDecoder::Decode", Kind::Decode),
    ("Resample", Kind::Resample),
];

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
enum Kind {
    Capture,
    Post,
    Encode,
    Enqueue,
    Route,
    Socket,
    Read,
    Insert,
    Pull,
    Mix,
    GetAudio,
    Decode,
    Resample,
}

/// One call of a function. Times are in ns of the machine's monotonic clock.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Span {
    begin: i64,
    end: i64,
    thread: Thread,
    /// RTP timestamp, where the event has one.
    timestamp: Option<u32>,
}

/// Process id and thread id.
type Thread = (u64, u64);

/// Spans of all traces that were read.
#[derive(Debug, Default)]
pub(super) struct Trace {
    spans: HashMap<Kind, Vec<Span>>,
    kept: usize,
    /// Number of spans that were dropped because there were too many.
    left_out: u64,
}

/// The fields of a trace event that are used.
#[derive(Debug, Deserialize)]
struct Event<'a> {
    #[serde(borrow, default)]
    name: Cow<'a, str>,
    #[serde(borrow)]
    ph: Cow<'a, str>,
    #[serde(default)]
    ts: f64,
    #[serde(default)]
    dur: f64,
    #[serde(default)]
    pid: u64,
    #[serde(default)]
    tid: u64,
}

/// The fields of an event that names a packet.
#[derive(Debug, Deserialize)]
struct Named {
    args: Arguments,
}

#[derive(Debug, Deserialize)]
struct Arguments {
    rtp_timestamp: u32,
}

/// Spans of each thread that have begun (`B`) and not ended (`E`).
type Begun = HashMap<Thread, Vec<Option<(Kind, Span)>>>;

impl Trace {
    /// Reads a trace; returns the number of events that were used, and of lines.
    pub(super) fn read(
        &mut self,
        name: &str,
        input: impl BufRead,
        trouble: &mut Trouble,
    ) -> io::Result<(u64, u64)> {
        let mut objects = Objects::new(input);
        let mut bytes = Vec::new();
        let mut begun = Begun::new();
        let mut found = 0;
        while let Some(object) = objects.next(&mut bytes)? {
            match object {
                ScanResult::Malformed(line, why) => trouble.malformed(name, line, why),
                ScanResult::Event(line) => match self.take(&bytes, &mut begun) {
                    Ok(is_ours) => found += u64::from(is_ours),
                    Err(why) => trouble.malformed(name, line, why),
                },
            }
        }
        Ok((found, objects.line()))
    }

    /// Takes one event; returns whether it is one that is used.
    fn take(&mut self, bytes: &[u8], begun: &mut Begun) -> Result<bool, serde_json::Error> {
        let event: Event<'_> = serde_json::from_slice(bytes)?;
        let thread = (event.pid, event.tid);
        if event.ph == "E" {
            let open = begun.get_mut(&thread).and_then(Vec::pop).flatten();
            let Some((kind, span)) = open else {
                return Ok(false);
            };
            let end = ns(event.ts).max(span.begin);
            self.keep(kind, Span { end, ..span });
            return Ok(true);
        }
        if event.ph != "X" && event.ph != "B" {
            return Ok(false);
        }
        let known = NAMES.iter().find(|(name, _)| *name == event.name);
        let timestamp = match known {
            Some((_, Kind::Enqueue | Kind::Route)) => {
                let named: Named = serde_json::from_slice(bytes)?;
                Some(named.args.rtp_timestamp)
            }
            _ => None,
        };
        let begin = ns(event.ts);
        let kind = known.map(|(_, kind)| *kind);
        let span = Span {
            begin,
            end: begin.saturating_add(ns(event.dur).max(0)),
            thread,
            timestamp,
        };
        if event.ph == "B" {
            if begun.len() < THREADS_MAX || begun.contains_key(&thread) {
                let open = begun.entry(thread).or_default();
                if open.len() < NESTED_MAX {
                    open.push(kind.map(|kind| (kind, span)));
                }
            }
            return Ok(kind.is_some());
        }
        let Some(kind) = kind else {
            return Ok(false);
        };
        self.keep(kind, span);
        Ok(true)
    }

    fn keep(&mut self, kind: Kind, span: Span) {
        if self.kept >= SPANS_MAX {
            self.left_out += 1;
            return;
        }
        self.kept += 1;
        self.spans.entry(kind).or_default().push(span);
    }

    /// Pairs the spans, and adds their delays to `all`.
    pub(super) fn finish(mut self, all: &mut [Delays], notes: &mut Vec<String>) {
        if self.spans.is_empty() {
            return;
        }
        // Threads write their events in batches, so the file is not in order of time.
        self.spans.values_mut().for_each(|it| it.sort_unstable());
        self.intervals(Kind::Capture, &mut all[Stage::CaptureInterval as usize]);
        self.intervals(Kind::Pull, &mut all[Stage::PlayoutInterval as usize]);
        let decode = match self.of(Kind::Decode).is_empty() {
            true => Kind::GetAudio,
            false => Kind::Decode,
        };
        for (kind, stage) in [
            (decode, Stage::Decode),
            (Kind::Mix, Stage::Mixer),
            (Kind::Resample, Stage::Resample),
        ] {
            for span in self.of(kind) {
                record(&mut all[stage as usize], span.end - span.begin);
            }
        }
        let mut processes: Vec<u64> = self
            .spans
            .values()
            .flatten()
            .map(|it| it.thread.0)
            .collect();
        processes.sort_unstable();
        processes.dedup();
        for process in processes {
            let ended = self.encoded(process, all);
            self.sent(process, &ended, all);
            self.received(process, all);
        }
        notes.push("no network and no jitter_buffer table: no event of a trace names a packet that was received".to_owned());
        if self.of(Kind::Enqueue).is_empty() && !self.of(Kind::Encode).is_empty() {
            let note = "no send table, and every task of the encoder counts: record the category disabled-by-default-webrtc, too";
            notes.push(note.to_owned());
        }
        if self.left_out > 0 {
            notes.push(format!(
                "{} events beyond the first {SPANS_MAX} were left out",
                self.left_out
            ));
        }
    }

    fn of(&self, kind: Kind) -> &[Span] {
        self.spans.get(&kind).map_or(&[], Vec::as_slice)
    }

    fn within(&self, kind: Kind, process: u64) -> Vec<Span> {
        let spans = self.of(kind).iter();
        spans.filter(|it| it.thread.0 == process).copied().collect()
    }

    /// Records the intervals between successive calls on the same thread.
    fn intervals(&self, kind: Kind, delays: &mut Delays) {
        let mut last: HashMap<Thread, i64> = HashMap::new();
        for span in self.of(kind) {
            if let Some(before) = last.insert(span.thread, span.begin) {
                record(delays, span.begin - before);
            }
        }
    }

    /// Records the delays of the encoder's queue and operation. Returns the end of encoding for
    /// each packet, in the order of [`Kind::Enqueue`].
    fn encoded(&self, process: u64, all: &mut [Delays]) -> Vec<Option<i64>> {
        let posts = begins(&self.within(Kind::Post, process));
        let encodes = self.within(Kind::Encode, process);
        let packets = begins(&self.within(Kind::Enqueue, process));
        let ends: Vec<i64> = encodes.iter().map(|it| it.end).collect();
        // Where encoders run on several threads, their ends need not be in order.
        let of_packets = match ends.is_sorted() {
            true => fifo::pair(&ends, &packets),
            false => vec![None; packets.len()],
        };
        let mut made_packet = vec![packets.is_empty(); encodes.len()];
        for place in of_packets.iter().flatten() {
            made_packet[*place] = true;
        }
        let posted = fifo::pair(&posts, &begins(&encodes));
        for ((span, post), made_packet) in encodes.iter().zip(posted).zip(made_packet) {
            let operation = span.end - span.begin;
            if !made_packet && operation <= ENCODED_ANYWAY_NS {
                continue;
            }
            record(&mut all[Stage::EncodeOperation as usize], operation);
            match post.map(|place| span.begin - posts[place]) {
                Some(queue) => {
                    record(&mut all[Stage::EncodeQueue as usize], queue);
                    record(&mut all[Stage::Encode as usize], queue + operation);
                }
                None => all[Stage::Encode as usize].record_unmatched(),
            }
        }
        of_packets
            .into_iter()
            .map(|it| it.map(|place| ends[place]))
            .collect()
    }

    /// Records the delays from the encoder through the pacer to the socket.
    fn sent(&self, process: u64, ended: &[Option<i64>], all: &mut [Delays]) {
        let routes = self.within(Kind::Route, process);
        // A retransmission has the same timestamp: the first packet counts.
        let mut by_timestamp: HashMap<Option<u32>, &Span> = HashMap::new();
        for route in &routes {
            by_timestamp.entry(route.timestamp).or_insert(route);
        }
        let sockets = self.within(Kind::Socket, process);
        for (packet, ended) in self.within(Kind::Enqueue, process).iter().zip(ended) {
            if let Some(ended) = ended {
                record(&mut all[Stage::SendEnqueue as usize], packet.begin - ended);
            }
            let Some(route) = by_timestamp.get(&packet.timestamp) else {
                all[Stage::Send as usize].record_lost();
                continue;
            };
            record(
                &mut all[Stage::SendPace as usize],
                route.begin - packet.begin,
            );
            let Some(socket) = inner(&sockets, route) else {
                all[Stage::Send as usize].record_unmatched();
                continue;
            };
            record(
                &mut all[Stage::SendHandOver as usize],
                socket.begin - route.begin,
            );
            record(
                &mut all[Stage::SendSocket as usize],
                socket.end - socket.begin,
            );
            let begun = ended.unwrap_or(packet.begin);
            record(&mut all[Stage::Send as usize], socket.end - begun);
        }
    }

    /// Records the delays from the socket to the jitter buffer.
    fn received(&self, process: u64, all: &mut [Delays]) {
        let inserts = self.within(Kind::Insert, process);
        for read in self.within(Kind::Read, process) {
            // RTCP packets are read on the same path and have no insertion.
            if let Some(insert) = inner(&inserts, &read) {
                record(&mut all[Stage::Open as usize], insert.end - read.begin);
            }
        }
    }
}

/// The first of `spans` that ran within `outer` on the same thread.
fn inner<'a>(spans: &'a [Span], outer: &Span) -> Option<&'a Span> {
    let from = spans.partition_point(|it| it.begin < outer.begin);
    let within = spans[from..].iter().take_while(|it| it.begin <= outer.end);
    let mut within = within.filter(|it| it.thread == outer.thread);
    within.find(|it| it.end <= outer.end)
}

fn begins(spans: &[Span]) -> Vec<i64> {
    spans.iter().map(|it| it.begin).collect()
}

fn record(delays: &mut Delays, ns: i64) {
    delays.record_us(ns.div_euclid(1_000));
}

/// Converts microseconds with decimals to ns, limited to a century.
fn ns(us: f64) -> i64 {
    const CENTURY_US: f64 = 3.2e15;
    (us.clamp(-CENTURY_US, CENTURY_US) * 1_000.0) as i64
}
