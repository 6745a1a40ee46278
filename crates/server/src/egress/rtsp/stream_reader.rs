//! One stream on one thread: read once, framed once, for all of its clients here.

use std::sync::{Arc, PoisonError};
use std::time::{Duration, Instant};

use glassline_hub::{State, Stream, Wake};
use glassline_media::{MediaTime, MediaUnit, Stage, Track, WallClock};
use glassline_rtp::rtcp::{Bye, SenderReport, SourceDescription};
use glassline_rtsp::server::Start;

use super::cursor::Cursor;
use super::framing::Label;
use super::numbers::{NumberKeys, Numbers};
use super::ring::{Bounds, Ring};
use super::srtp::TrackSrtp;
use super::transport::TrackTransports;
use crate::latency::Board;
use crate::runtime::{StreamSubscription, StreamWaker, Waker};

/// Sender reports of a stream are this far apart (RFC 3550 §6.2 has 5 s for large
/// groups; players wait for the first before they join audio and video).
const REPORT_INTERVAL: Duration = Duration::from_secs(2);

/// What every thread that sends streams reads and frames them with.
#[derive(Clone, Debug)]
pub(crate) struct StreamContext {
    pub(crate) board: Arc<Board>,
    pub(crate) wall: WallClock,
    pub(crate) keys: NumberKeys,
    pub(crate) bounds: Bounds,
}

/// A stream's subscription, what it sent lately, and who gets it.
#[derive(Debug)]
pub(crate) struct StreamReader {
    pub(crate) feed: StreamSubscription,
    /// The hub wakes the thread by this when the stream has something new.
    waker: Arc<StreamWaker>,
    pub(crate) ring: Ring,
    pub(crate) tracks: Arc<[Track]>,
    labels: Vec<Label>,
    sums: Vec<Sums>,
    keys: NumberKeys,
    /// Of the first tracks, instead of what the keys give.
    inherited: Vec<Numbers>,
    cname: String,
    report_at: Instant,
    /// Empty between calls, kept for its room.
    arrived: Vec<Arc<MediaUnit>>,
}

/// What a track has sent, for its reports.
#[derive(Clone, Debug, Default)]
struct Sums {
    latest: Option<Arc<MediaUnit>>,
    octets: u64,
    /// The next burst; earlier ones were read with the past.
    next: u64,
}

impl StreamReader {
    /// Subscribes, and takes over what the hub has from the newest keyframe on.
    ///
    /// `waker` wakes the calling thread; `table` is the number of that thread among those
    /// that account for delays.
    pub(crate) fn subscribe(
        stream: &Arc<Stream>,
        context: &StreamContext,
        waker: &Arc<Waker>,
        table: usize,
        now: Instant,
    ) -> Self {
        let anchor = stream.accounted_track();
        let waker = Arc::new(StreamWaker::new(Arc::clone(waker)));
        let stages = context.board.stages(stream.name(), table);
        let wake = Arc::clone(&waker) as Arc<dyn Wake>;
        let mut reader = Self {
            feed: StreamSubscription::new(stream, wake, stages),
            waker,
            ring: Ring::new(anchor, context.bounds),
            tracks: Arc::new([]),
            labels: Vec::new(),
            sums: Vec::new(),
            keys: context.keys.clone(),
            inherited: Vec::new(),
            cname: context.keys.cname(stream.name()),
            report_at: now + REPORT_INTERVAL,
            arrived: Vec::new(),
        };
        reader.refresh();
        reader.load_past(anchor);
        reader
    }

    pub(crate) fn stream(&self) -> &Arc<Stream> {
        self.feed.stream()
    }

    /// Whether the stream came to its end.
    pub(crate) fn has_ended(&self) -> bool {
        matches!(self.stream().state(), State::Ended { .. })
    }

    /// Whether the hub woke the thread for this stream since the last call, or audio that
    /// was held back is due.
    pub(crate) fn take_due(&self, now: Instant) -> bool {
        let is_woken = self.waker.take();
        is_woken || self.feed.deadline().is_some_and(|at| at <= now)
    }

    /// What clients begin with: the frame since its keyframe and the rest since then.
    fn load_past(&mut self, anchor: usize) {
        let stream = Arc::clone(self.stream());
        let mut past = stream.since_keyframe(anchor);
        let Some(start) = past.first().map(|burst| burst.time) else {
            return;
        };
        for track in (0..self.tracks.len()).filter(|track| *track != anchor) {
            let others = stream.since(track, 0).into_iter();
            past.extend(others.filter(|burst| burst.time >= start));
        }
        // Stable: what was published at once keeps its order.
        past.sort_by_key(|burst| burst.stamps.published);
        for burst in past {
            self.push(burst);
        }
    }

    /// Takes in what was published since the last call; whether anything was.
    pub(crate) fn read(&mut self, wall: &WallClock, now: Instant) -> bool {
        let mut arrived = std::mem::take(&mut self.arrived);
        self.feed.read(&mut arrived, now);
        if !arrived.is_empty() {
            self.refresh();
        }
        let end = self.ring.end();
        for burst in arrived.drain(..) {
            self.push(burst);
        }
        self.arrived = arrived;
        let any = self.ring.end() > end;
        if any && self.report_at <= now {
            self.report_at = now + REPORT_INTERVAL;
            for track in 0..self.sums.len() {
                if let Some(packet) = self.report(track, wall, now) {
                    let label = self.labels[track];
                    self.ring.push_report(track, packet.into(), label, now);
                }
            }
        }
        any
    }

    fn push(&mut self, burst: Arc<MediaUnit>) {
        let (Some(label), Some(sums)) =
            (self.labels.get(burst.track), self.sums.get_mut(burst.track))
        else {
            return;
        };
        if burst.index < sums.next {
            return;
        }
        sums.next = burst.index + 1;
        sums.octets += burst.payload_bytes() as u64;
        sums.latest = Some(Arc::clone(&burst));
        self.ring.push_media(burst, *label);
    }

    /// Adds the delay of one of the server's stages.
    pub(crate) fn account(&self, stage: Stage, delay: Duration, now: Instant) {
        let stages = &self.feed.stages;
        let mut stages = stages.lock().unwrap_or_else(PoisonError::into_inner);
        stages.record(stage, delay, now);
    }

    /// A new source may have other parameters, and more tracks.
    fn refresh(&mut self) {
        let tracks = self.stream().tracks();
        if Arc::ptr_eq(&tracks, &self.tracks) {
            return;
        }
        let name = self.stream().name().clone();
        self.labels = tracks
            .iter()
            .enumerate()
            .map(|(index, track)| {
                let inherited = self.inherited.get(index).copied();
                let numbers = inherited.unwrap_or_else(|| self.keys.track(name.as_str(), index));
                Label::new(track, index, numbers)
            })
            .collect();
        self.sums.resize_with(tracks.len(), Sums::default);
        self.ring.set_anchor(self.stream().accounted_track());
        self.tracks = tracks;
    }

    /// Numbers for a stream that goes on, for one client, behind this one: players
    /// take a packet out of the row for a stray and drop it (RFC 3550 §A.1).
    pub(crate) fn going_on(&self) -> Vec<Numbers> {
        let labels = self.labels.iter().enumerate();
        let next = |track| self.next_packet(track).unwrap_or(0);
        labels
            .map(|(track, label)| label.numbers.going_on(next(track)))
            .collect()
    }

    /// Takes such numbers, before anything was sent.
    pub(crate) fn inherit(&mut self, numbers: Vec<Numbers>) {
        self.inherited = numbers;
        self.tracks = Arc::new([]);
        self.refresh();
    }

    pub(crate) fn label(&self, track: usize) -> Option<&Label> {
        self.labels.get(track)
    }

    /// The number of the next packet of `track`, as far as it is known here.
    fn next_packet(&self, track: usize) -> Option<u64> {
        let latest = self.sums.get(track)?.latest.as_ref()?;
        Some(latest.first_packet + latest.packet_count() as u64)
    }

    /// Where every track that is set up begins for a client at `cursor` (the `RTP-Info`
    /// of RFC 2326 §12.33). Before the first frame of a track is there, the number of
    /// its next packet is known, and no time.
    pub(crate) fn starts(&self, transports: &TrackTransports, cursor: &Cursor) -> Vec<Start> {
        let tracks = transports.iter().map(|(track, transport)| {
            let first = cursor.first_of(&self.ring, track);
            let first = first.and_then(|entry| entry.burst());
            let number = match first {
                Some(burst) => Some(burst.first_packet),
                None => self.next_packet(track),
            };
            let time = first.map(|burst| burst.time);
            self.start(track, transport.srtp(), number, time)
        });
        tracks.collect()
    }

    /// Where a track begins for a client (the `RTP-Info` of RFC 2326 §12.33): at packet
    /// `number`, unless the client's own SRTP counts, and at `time`, as far as both are
    /// known.
    pub(crate) fn start(
        &self,
        track: usize,
        srtp: Option<&TrackSrtp>,
        number: Option<u64>,
        time: Option<MediaTime>,
    ) -> Start {
        let label = self.labels.get(track);
        let shared = label
            .zip(number)
            .map(|(label, number)| label.numbers.sequence(number));
        Start {
            track,
            sequence: srtp.map(TrackSrtp::next_sequence).or(shared),
            timestamp: label
                .zip(time)
                .map(|(label, time)| label.numbers.timestamp(time, label.clock_rate)),
        }
    }

    /// A sender report with the track's name behind it (RFC 3550 §6.1); `None` before
    /// the first packet. The RTP time of `now` is extrapolated by the stream's
    /// filtered clock, so that the reports of all tracks agree.
    pub(crate) fn report(&self, track: usize, wall: &WallClock, now: Instant) -> Option<Vec<u8>> {
        let (label, sums) = (self.labels.get(track)?, self.sums.get(track)?);
        let latest = sums.latest.as_ref()?;
        let since = now.saturating_duration_since(latest.stamps.reference);
        let ssrc = label.numbers.ssrc;
        let mut out = Vec::with_capacity(64);
        SenderReport {
            ssrc,
            ntp: wall.ntp(latest.stamps.reference + since),
            rtp_timestamp: label
                .numbers
                .timestamp(latest.time + since, label.clock_rate),
            packet_count: low_word(latest.first_packet + latest.packet_count() as u64),
            octet_count: low_word(sums.octets),
            reports: Vec::new(),
        }
        .write(&mut out);
        SourceDescription::cname(ssrc, self.cname.as_bytes()).write(&mut out);
        Some(out)
    }

    /// The same with a farewell behind it (RFC 3550 §6.6).
    pub(crate) fn farewell(&self, track: usize, wall: &WallClock, now: Instant) -> Option<Vec<u8>> {
        let mut out = self.report(track, wall, now)?;
        let bye = Bye {
            sources: vec![self.labels.get(track)?.numbers.ssrc],
            reason: b"",
        };
        bye.write(&mut out);
        Some(out)
    }
}

#[expect(clippy::cast_possible_truncation, reason = "counts in reports wrap")]
const fn low_word(count: u64) -> u32 {
    count as u32
}
