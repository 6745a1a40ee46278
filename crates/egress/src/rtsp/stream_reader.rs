//! Reads one stream on one thread: once, and framed once, for all of its clients there.

use std::sync::Arc;
use std::time::{Duration, Instant};

use glassline_hub::{State, Stream, TrackLayout, Wake};
use glassline_latency::LatencyRegistry;
use glassline_media::{MediaTime, MediaUnit, Stage, Track, TrackIndex, WallClock};
use glassline_rtp::rtcp::{Bye, SenderReport, SourceDescription};
use glassline_rtsp::server::Start;
use glassline_runtime::{Clock, Current, StreamSubscription, StreamWaker, Waker};

use super::cursor::{Budget, Cursor};
use super::framing::HeaderTemplate;
use super::numbers::{NumberKeys, Numbers};
use super::ring::{Bounds, Ring};
use super::srtp::TrackSrtp;
use super::transport::TrackTransports;

/// Interval between sender reports of a stream. RFC 3550 §6.2 has 5 s for large groups, but players
/// wait for the first report before they synchronize audio and video.
const REPORT_INTERVAL: Duration = Duration::from_secs(2);

/// Longest time that audio waits for a video frame, so that one system call sends both to a client.
/// Twice as many packets of Opus then go with a frame of 30 fps as after 4 ms. RTSP players buffer
/// tens of milliseconds and more.
const AUDIO_WAIT_MAX: Duration = Duration::from_millis(8);

/// The settings and clocks that every sending thread reads and frames streams with.
#[derive(Clone, Debug)]
pub struct StreamContext {
    /// Registry that the stage delays go to.
    pub latencies: Arc<LatencyRegistry>,
    /// Clock of the server, for sender reports.
    pub clock: Clock,
    /// Keys from which SSRCs and first sequence numbers derive.
    pub keys: NumberKeys,
    /// The settings that a reload may change.
    pub timing: Arc<Current<Timing>>,
}

/// How far behind its stream a client may be.
#[derive(Clone, Copy, Debug)]
pub struct Timing {
    /// Limits on the delay of a client.
    pub budget: Budget,
    /// Limits of a stream's recent past, for streams that a thread begins to read from now on.
    pub bounds: Bounds,
}

/// A stream's subscription on one thread, its recent packets, and its clients there.
#[derive(Debug)]
pub struct StreamReader {
    /// Subscription through which units arrive.
    pub subscription: StreamSubscription,
    /// The hub wakes the thread through this when the stream has something new.
    waker: Arc<StreamWaker>,
    /// Recent packets of the stream.
    pub ring: Ring,
    /// Tracks of the stream in the layout that is read.
    pub tracks: Arc<[Track]>,
    /// Layout of the tracks. A reader reads one layout.
    layout: TrackLayout,
    /// Time at which the reader found that the stream has another layout.
    superseded_at: Option<Instant>,
    templates: Vec<HeaderTemplate>,
    counts: Vec<SenderCounts>,
    keys: NumberKeys,
    /// Numbers of the first tracks that replace those derived from the keys; empty for most
    /// streams.
    inherited: Vec<Numbers>,
    /// Low byte of the `CSeq` that packets of recordings name; `None` if they name none.
    replay: Option<u8>,
    cname: String,
    /// Calendar of the reader's beginning, which its reports keep to the end: players compute the times
    /// of media from the distance of two reports.
    pub wall: WallClock,
    report_at: Instant,
    /// Buffer that is empty between calls and kept for its capacity.
    arrived: Vec<Arc<MediaUnit>>,
}

/// Counts of a track's sent packets and bytes, for its sender reports.
#[derive(Clone, Debug, Default)]
struct SenderCounts {
    latest: Option<Arc<MediaUnit>>,
    octets: u64,
    /// Number of the next unit; earlier ones were loaded with the stream's past.
    next: u64,
}

impl StreamReader {
    /// Subscribes to the stream, and loads what the hub has from the newest keyframe on.
    ///
    /// `waker` wakes the calling thread. `table` is the number of that thread in the tables of
    /// stage delays.
    pub fn subscribe(
        stream: &Arc<Stream>,
        context: &StreamContext,
        waker: &Arc<Waker>,
        table: usize,
        now: Instant,
    ) -> Self {
        let anchor = stream.latency_track();
        let waker = Arc::new(StreamWaker::new(Arc::clone(waker)));
        let stages = context.latencies.stages(stream.name(), table);
        let wake = Arc::clone(&waker) as Arc<dyn Wake>;
        let mut subscription = StreamSubscription::new(stream, wake, stages);
        subscription.hold_audio(AUDIO_WAIT_MAX);
        let mut reader = Self {
            layout: subscription.layout(),
            superseded_at: None,
            subscription,
            waker,
            ring: Ring::new(anchor, context.timing.get().bounds),
            tracks: Arc::new([]),
            templates: Vec::new(),
            counts: Vec::new(),
            keys: context.keys.clone(),
            inherited: Vec::new(),
            replay: None,
            cname: context.keys.cname(stream.name()),
            wall: context.clock.wall(),
            report_at: now + REPORT_INTERVAL,
            arrived: Vec::new(),
        };
        reader.refresh();
        reader.load_past(anchor);
        reader
    }

    /// Returns the stream that is read.
    pub fn stream(&self) -> &Arc<Stream> {
        self.subscription.stream()
    }

    /// Returns whether the stream came to its end.
    pub fn has_ended(&self) -> bool {
        matches!(self.stream().state(), State::Ended { .. })
    }

    /// Returns the track layout that is read.
    pub fn layout(&self) -> TrackLayout {
        self.layout
    }

    /// Returns whether the stream still has the layout that is read, so that more clients may join.
    pub fn is_current(&self) -> bool {
        self.superseded_at.is_none() && self.layout == self.stream().layout()
    }

    /// Returns since when the stream has other tracks than those that are read. The ring gets
    /// nothing more from then on.
    pub fn superseded_at(&self) -> Option<Instant> {
        self.superseded_at
    }

    /// Returns whether the hub woke the thread for this stream since the last call, or held audio
    /// is due.
    pub fn take_due(&self, now: Instant) -> bool {
        let is_woken = self.waker.take();
        is_woken || self.subscription.deadline().is_some_and(|at| at <= now)
    }

    /// Loads the entries that clients begin with: video from its newest keyframe on, and the other
    /// tracks since then.
    fn load_past(&mut self, anchor: TrackIndex) {
        let stream = Arc::clone(self.stream());
        let mut past = stream.since_keyframe(anchor);
        let Some(start) = past.first().map(|unit| unit.time) else {
            return;
        };
        for track in TrackIndex::first(self.tracks.len()).filter(|track| *track != anchor) {
            let others = stream.since(track, 0).into_iter();
            past.extend(others.filter(|unit| unit.time >= start));
        }
        // The sort is stable: units that were published at the same time keep their order.
        past.sort_by_key(|unit| unit.stamps.published);
        for unit in past {
            self.push(&unit);
        }
    }

    /// Reads the units that were published since the last call. Returns whether there were any.
    pub fn read(&mut self, now: Instant) -> bool {
        let mut arrived = std::mem::take(&mut self.arrived);
        self.subscription.read(&mut arrived, now);
        if self.layout != self.subscription.layout() {
            self.superseded_at.get_or_insert(now);
            arrived.clear();
        }
        if !arrived.is_empty() {
            self.refresh();
        }
        let end = self.ring.end();
        for unit in arrived.drain(..) {
            self.push(&unit);
        }
        self.arrived = arrived;
        let any = self.ring.end() > end;
        if any && self.report_at <= now {
            self.report_at = now + REPORT_INTERVAL;
            for track in TrackIndex::first(self.counts.len()) {
                if let Some(packet) = self.report(track, now) {
                    let template = self.templates[track];
                    self.ring.push_report(track, packet.into(), template, now);
                }
            }
        }
        any
    }

    fn push(&mut self, unit: &Arc<MediaUnit>) {
        let (Some(template), Some(counts)) = (
            self.templates.get(unit.track.get()),
            self.counts.get_mut(unit.track.get()),
        ) else {
            return;
        };
        if unit.index < counts.next {
            return;
        }
        counts.next = unit.index + 1;
        counts.octets += unit.payload_bytes() as u64;
        counts.latest = Some(Arc::clone(unit));
        self.ring.push_media(unit, *template);
    }

    /// Records the delay of one of the server's stages.
    pub fn account(&self, stage: Stage, delay: Duration, now: Instant) {
        let stages = &self.subscription.stages;
        let mut stages = stages.lock();
        stages.record(stage, delay, now);
    }

    /// Updates the tracks: a new source may have other parameters, and more tracks.
    fn refresh(&mut self) {
        let tracks = self.stream().tracks();
        if Arc::ptr_eq(&tracks, &self.tracks) {
            return;
        }
        let name = self.stream().name().clone();
        self.templates = TrackIndex::enumerate(tracks.iter())
            .map(|(index, track)| {
                let inherited = self.inherited.get(index.get()).copied();
                let numbers = inherited.unwrap_or_else(|| self.keys.track(name.as_str(), index));
                HeaderTemplate {
                    replay: self.replay,
                    ..HeaderTemplate::new(track, index, numbers)
                }
            })
            .collect();
        self.counts.resize_with(tracks.len(), SenderCounts::default);
        self.ring.set_anchor(self.stream().latency_track());
        self.tracks = tracks;
    }

    /// Returns numbers for a stream that follows this one for one client. Players drop a packet
    /// that is out of sequence as a stray (RFC 3550 §A.1).
    pub fn going_on(&self) -> Vec<Numbers> {
        let templates = TrackIndex::enumerate(&self.templates);
        let next = |track| self.next_packet(track).unwrap_or(0);
        templates
            .map(|(track, template)| template.numbers.going_on(next(track)))
            .collect()
    }

    /// Sets numbers from [`Self::going_on`], before anything was sent.
    pub fn inherit(&mut self, numbers: Vec<Numbers>) {
        self.inherited = numbers;
        self.tracks = Arc::new([]);
        self.refresh();
    }

    /// Makes the packets from now on say when their frames were recorded, for the only client of the stream, whose
    /// PLAY had the low byte `sequence` of `CSeq`; `None` makes them say nothing.
    pub fn replay(&mut self, sequence: Option<u8>) {
        self.replay = sequence;
        for template in &mut self.templates {
            template.replay = sequence;
        }
    }

    /// Returns the RTP header of a track; `None` for a track that the stream does not have.
    pub fn template(&self, track: TrackIndex) -> Option<&HeaderTemplate> {
        self.templates.get(track.get())
    }

    /// Returns the number of the next packet of `track`, if it is known here.
    fn next_packet(&self, track: TrackIndex) -> Option<u64> {
        let latest = self.counts.get(track.get())?.latest.as_ref()?;
        Some(latest.first_packet + latest.packet_count() as u64)
    }

    /// Returns where every track that is set up begins for a client at `cursor` (`RTP-Info`, RFC
    /// 2326 §12.33). Before the first frame of a track, only the number of its next packet is
    /// known.
    pub fn starts(&self, transports: &TrackTransports, cursor: &Cursor) -> Vec<Start> {
        let tracks = transports.iter().map(|(track, transport)| {
            let first = cursor.first_of(&self.ring, track);
            let first = first.and_then(|entry| entry.unit());
            let number = match first {
                Some(unit) => Some(unit.first_packet),
                None => self.next_packet(track),
            };
            let time = first.map(|unit| unit.time);
            self.start(track, transport.srtp(), number, time)
        });
        tracks.collect()
    }

    /// Returns where a track begins for a client (`RTP-Info`, RFC 2326 §12.33): at packet `number`,
    /// unless the client's own SRTP counts packets, and at `time`; each as far as it is known.
    pub fn start(
        &self,
        track: TrackIndex,
        srtp: Option<&TrackSrtp>,
        number: Option<u64>,
        time: Option<MediaTime>,
    ) -> Start {
        let template = self.templates.get(track.get());
        let shared = template
            .zip(number)
            .map(|(template, number)| template.numbers.sequence(number));
        Start {
            track,
            sequence: srtp.map(TrackSrtp::next_sequence).or(shared),
            timestamp: template
                .zip(time)
                .map(|(template, time)| template.numbers.timestamp(time, template.clock_rate)),
        }
    }

    /// Returns a sender report, with the track's canonical name behind it (RFC 3550 §6.1); `None`
    /// before the first packet. The RTP time of `now` is extrapolated with the stream's filtered
    /// clock, so that the reports of all tracks agree.
    pub fn report(&self, track: TrackIndex, now: Instant) -> Option<Vec<u8>> {
        let (template, counts) = (
            self.templates.get(track.get())?,
            self.counts.get(track.get())?,
        );
        let latest = counts.latest.as_ref()?;
        let since = now.saturating_duration_since(latest.stamps.reference);
        let ssrc = template.numbers.ssrc;
        let mut out = Vec::with_capacity(64);
        SenderReport {
            ssrc,
            ntp: self.wall.ntp(latest.stamps.reference + since),
            rtp_timestamp: template
                .numbers
                .timestamp(latest.time + since, template.clock_rate),
            packet_count: low_word(latest.first_packet + latest.packet_count() as u64),
            octet_count: low_word(counts.octets),
            reports: Vec::new(),
        }
        .write(&mut out);
        SourceDescription::cname(ssrc, self.cname.as_bytes()).write(&mut out);
        Some(out)
    }

    /// Returns a sender report with BYE behind it (RFC 3550 §6.6); `None` before the first packet.
    pub fn farewell(&self, track: TrackIndex, now: Instant) -> Option<Vec<u8>> {
        let mut out = self.report(track, now)?;
        let bye = Bye {
            sources: vec![self.templates.get(track.get())?.numbers.ssrc],
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
