//! The recent packets of a stream on one thread, in one order for all its clients there.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::{Duration, Instant};

use bytes::Bytes;
use glassline_media::{MediaUnit, TrackIndex};
use glassline_rtp::HEADER_BYTES;
use smallvec::SmallVec;

use super::framing::{Datagrams, HeaderTemplate, PacketRun};
use super::srtp::TrackSrtp;

/// Packets of a unit of media, or an RTCP report, for every client that has set up the track.
#[derive(Debug)]
pub struct RingEntry {
    content: Content,
    /// Time from which the entry could be sent.
    pub at: Instant,
    /// The entry's bytes for each channel that some client has for this track; nearly always one.
    interleaved: SmallVec<[(u8, Bytes); 1]>,
    datagrams: Option<Datagrams>,
    template: HeaderTemplate,
}

#[derive(Debug)]
enum Content {
    Media(PacketRun),
    Report { track: TrackIndex, packet: Bytes },
}

impl RingEntry {
    pub fn track(&self) -> TrackIndex {
        match &self.content {
            Content::Media(run) => run.unit.track,
            Content::Report { track, .. } => *track,
        }
    }

    /// Returns the media unit that the packets belong to; `None` for a report.
    pub fn unit(&self) -> Option<&Arc<MediaUnit>> {
        match &self.content {
            Content::Media(run) => Some(&run.unit),
            Content::Report { .. } => None,
        }
    }

    /// Returns whether a decoder of this track can start with the entry.
    pub fn is_start(&self) -> bool {
        self.unit().is_some_and(|unit| unit.keyframe) && !self.is_continuation()
    }

    /// Returns whether the entry continues the frame of an earlier one.
    pub fn is_continuation(&self) -> bool {
        match &self.content {
            Content::Media(run) => !(run.unit.first && run.is_first()),
            Content::Report { .. } => false,
        }
    }

    /// Returns the number of packets, at least one.
    pub fn packet_count(&self) -> u64 {
        match &self.content {
            Content::Media(run) => run.packet_count() as u64,
            Content::Report { .. } => 1,
        }
    }

    /// Returns the number of bytes of the packets before they are sealed.
    pub fn packet_bytes(&self) -> usize {
        match &self.content {
            Content::Media(run) => run.payload_bytes() + run.packet_count() * HEADER_BYTES,
            Content::Report { packet, .. } => packet.len(),
        }
    }

    /// Returns whether the entry is RTCP, which goes to the odd channel and port.
    pub fn is_report(&self) -> bool {
        matches!(self.content, Content::Report { .. })
    }

    /// Makes the interleaved frames for `channel`, and returns their length in bytes.
    fn make_interleaved(&mut self, channel: u8) -> usize {
        let bytes = match &self.content {
            Content::Media(run) => self.template.interleave(run, channel),
            Content::Report { packet, .. } => {
                let mut out = Vec::with_capacity(packet.len() + 4);
                glassline_rtsp::interleaved::write_frame(&mut out, channel, packet);
                out.into()
            }
        };
        let made = bytes.len();
        self.interleaved.push((channel, bytes));
        made
    }

    /// Seals the entry for one client as interleaved frames on `channel`, and appends them to
    /// `out`.
    pub fn seal_interleaved(&self, srtp: &mut TrackSrtp, channel: u8, out: &mut Vec<u8>) {
        match &self.content {
            Content::Media(run) => srtp.interleave(&self.template, run, channel, out),
            Content::Report { packet, .. } => {
                if let Some(packet) = srtp.control(packet) {
                    glassline_rtsp::interleaved::write_frame(out, channel, &packet);
                }
            }
        }
    }

    /// Seals the entry for one client as datagrams.
    pub fn seal_datagrams(&self, srtp: &mut TrackSrtp) -> Datagrams {
        match &self.content {
            Content::Media(run) => srtp.datagrams(&self.template, run),
            Content::Report { packet, .. } => {
                let packet = srtp.control(packet).unwrap_or_default();
                Datagrams::single(packet.into())
            }
        }
    }

    /// Returns the interleaved frames for `channel`; `None` unless [`Ring::prepare`] made them.
    pub fn interleaved(&self, channel: u8) -> Option<&Bytes> {
        let mut made = self.interleaved.iter();
        made.find_map(|(of, bytes)| (*of == channel).then_some(bytes))
    }

    /// Returns the datagrams; `None` unless [`Ring::prepare_datagrams`] made them.
    pub fn datagrams(&self) -> Option<&Datagrams> {
        self.datagrams.as_ref()
    }

    fn memory_bytes(&self) -> usize {
        let content = match &self.content {
            // What a unit has beside its payloads is counted once.
            Content::Media(run) if run.is_first() => {
                let beside = run.unit.memory_bytes() - run.unit.payload_bytes();
                beside + run.payload_bytes()
            }
            Content::Media(run) => run.payload_bytes(),
            Content::Report { packet, .. } => packet.len(),
        };
        // What nobody has asked for is not counted ahead: a client by UDP gets a keyframe of several
        // megabytes in chunks, and the rest of it must not leave the ring for bytes never made.
        let interleaved: usize = self.interleaved.iter().map(|(_, bytes)| bytes.len()).sum();
        let datagrams = self.datagrams.as_ref().map_or(0, Datagrams::len);
        size_of::<Self>() + content + interleaved + datagrams
    }
}

/// Limits of a [`Ring`].
#[derive(Clone, Copy, Debug)]
pub struct Bounds {
    /// Most bytes of all entries when one is added, including the bytes made for clients. What is
    /// made of the entries until the next one is added is beyond it.
    pub bytes: usize,
    /// Longest time that an entry stays, unless it is the newest keyframe or follows it.
    pub span: Duration,
    /// Time that entries before the newest keyframe stay: as long as a client may lag.
    pub lag: Duration,
}

/// The recent entries of a stream, numbered without gaps. A client's cursor is a number.
#[derive(Debug)]
pub struct Ring {
    entries: VecDeque<RingEntry>,
    /// Number of the oldest entry.
    first: u64,
    bytes: usize,
    bounds: Bounds,
    /// Index of the track whose keyframes clients begin with.
    anchor: TrackIndex,
    keyframe: Option<u64>,
}

impl Ring {
    /// Creates an empty ring, in which clients begin at keyframes of the track `anchor`.
    pub fn new(anchor: TrackIndex, bounds: Bounds) -> Self {
        Self {
            entries: VecDeque::new(),
            first: 0,
            bytes: 0,
            bounds,
            anchor,
            keyframe: None,
        }
    }

    /// Makes clients begin with keyframes of this track from now on.
    pub fn set_anchor(&mut self, track: TrackIndex) {
        if self.anchor != track {
            self.anchor = track;
            self.keyframe = None;
        }
    }

    /// Returns the index of the track whose keyframes clients begin with.
    pub fn anchor(&self) -> TrackIndex {
        self.anchor
    }

    /// Returns the number that the next entry will get.
    pub fn end(&self) -> u64 {
        self.first + self.entries.len() as u64
    }

    /// Returns the number of the oldest entry.
    pub fn first(&self) -> u64 {
        self.first
    }

    /// Returns the number of the newest keyframe of the anchor track, where clients begin.
    pub fn keyframe(&self) -> Option<u64> {
        self.keyframe.filter(|number| *number >= self.first)
    }

    /// Returns whether the newest keyframe is missing, or older than other entries may be. Who begins
    /// with such a keyframe begins far behind.
    pub fn lacks_recent_keyframe(&self, now: Instant) -> bool {
        let keyframe = self.keyframe().and_then(|number| self.get(number));
        keyframe.is_none_or(|it| now.saturating_duration_since(it.at) > self.bounds.span)
    }

    /// Returns the entry with this number, if the ring still has it.
    pub fn get(&self, number: u64) -> Option<&RingEntry> {
        let index = usize::try_from(number.checked_sub(self.first)?).ok()?;
        self.entries.get(index)
    }

    /// Iterates over the entries from `number` on, with their numbers.
    pub fn since(&self, number: u64) -> impl Iterator<Item = (u64, &RingEntry)> {
        let from = number.max(self.first);
        let skip = usize::try_from(from - self.first).unwrap_or(usize::MAX);
        (from..).zip(self.entries.iter().skip(skip))
    }

    /// Appends a unit. A large one becomes several entries, so that clients by UDP get it in
    /// chunks.
    pub fn push_media(&mut self, unit: &Arc<MediaUnit>, template: HeaderTemplate) {
        let at = unit.stamps.published;
        let start = self.end();
        if unit.track == self.anchor && unit.keyframe && unit.first {
            self.keyframe = Some(start);
        }
        for run in PacketRun::divide(unit) {
            self.push(Content::Media(run), template, at);
        }
        self.evict(start, at);
    }

    /// Appends an RTCP packet of the server about a track.
    pub fn push_report(
        &mut self,
        track: TrackIndex,
        packet: Bytes,
        template: HeaderTemplate,
        now: Instant,
    ) {
        let start = self.end();
        self.push(Content::Report { track, packet }, template, now);
        self.evict(start, now);
    }

    fn push(&mut self, content: Content, template: HeaderTemplate, at: Instant) {
        let entry = RingEntry {
            content,
            at,
            interleaved: SmallVec::new(),
            datagrams: None,
            template,
        };
        self.bytes += entry.memory_bytes();
        self.entries.push_back(entry);
    }

    /// Drops entries beyond the bounds, but none from number `newest` on.
    fn evict(&mut self, newest: u64, now: Instant) {
        while self.first < newest {
            let age = now.saturating_duration_since(self.entries[0].at);
            let before_keyframe = self.keyframe.is_some_and(|number| self.first < number);
            let spent = before_keyframe && age > self.bounds.lag;
            // Clients begin with the newest keyframe, which may be older than the span where
            // keyframes are far apart.
            let is_needed = self.keyframe == Some(self.first);
            let is_old = age > self.bounds.span && !is_needed;
            if !(spent || is_old || self.bytes > self.bounds.bytes) {
                break;
            }
            if let Some(entry) = self.entries.pop_front() {
                self.bytes -= entry.memory_bytes();
                self.first += 1;
            }
        }
    }

    /// Makes the interleaved frames of entry `number` for `channel`, unless they exist. Returns
    /// their length in bytes, or 0 if there is no such entry.
    pub fn prepare(&mut self, number: u64, channel: u8) -> usize {
        let Some(entry) = self.get_mut(number) else {
            return 0;
        };
        // All clients but the first one end here.
        if let Some(made) = entry.interleaved(channel) {
            return made.len();
        }
        let made = entry.make_interleaved(channel);
        self.bytes += made;
        made
    }

    /// Makes the datagrams of entry `number`, unless they exist.
    pub fn prepare_datagrams(&mut self, number: u64) {
        if let Some(entry) = self.get_mut(number)
            && entry.datagrams.is_none()
        {
            let datagrams = match &entry.content {
                Content::Media(run) => entry.template.datagrams(run),
                Content::Report { packet, .. } => Datagrams::single(packet.clone()),
            };
            let made = datagrams.len();
            entry.datagrams = Some(datagrams);
            self.bytes += made;
        }
    }

    fn get_mut(&mut self, number: u64) -> Option<&mut RingEntry> {
        let index = usize::try_from(number.checked_sub(self.first)?).ok()?;
        self.entries.get_mut(index)
    }
}
