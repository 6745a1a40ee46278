//! What a stream sent lately, in one order for all its clients on a thread.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::{Duration, Instant};

use bytes::Bytes;
use glassline_media::MediaUnit;
use smallvec::SmallVec;

use super::framing::{Datagrams, Label};
use super::srtp::TrackSrtp;

/// Something to send to everyone who has the track: a burst, or a report on it.
#[derive(Debug)]
pub(crate) struct Entry {
    content: Content,
    /// When it could be sent first.
    pub(crate) at: Instant,
    /// The bytes for each channel that someone has for this track; nearly always one.
    interleaved: SmallVec<[(u8, Bytes); 1]>,
    datagrams: Option<Datagrams>,
    label: Label,
}

#[derive(Debug)]
enum Content {
    Media(Arc<MediaUnit>),
    Report { track: usize, packet: Bytes },
}

impl Entry {
    pub(crate) fn track(&self) -> usize {
        match &self.content {
            Content::Media(burst) => burst.track,
            Content::Report { track, .. } => *track,
        }
    }

    /// The media, if it is some.
    pub(crate) fn burst(&self) -> Option<&Arc<MediaUnit>> {
        match &self.content {
            Content::Media(burst) => Some(burst),
            Content::Report { .. } => None,
        }
    }

    /// A decoder of this track can start here.
    pub(crate) fn is_start(&self) -> bool {
        self.burst()
            .is_some_and(|burst| burst.keyframe && burst.first)
    }

    /// RTCP goes to the odd channel and port.
    pub(crate) fn is_report(&self) -> bool {
        matches!(self.content, Content::Report { .. })
    }

    fn make_interleaved(&mut self, channel: u8) {
        if self.interleaved.iter().any(|(made, _)| *made == channel) {
            return;
        }
        let bytes = match &self.content {
            Content::Media(burst) => self.label.interleave(burst, channel),
            Content::Report { packet, .. } => {
                let mut out = Vec::with_capacity(packet.len() + 4);
                glassline_rtsp::interleaved::write_frame(&mut out, channel, packet);
                out.into()
            }
        };
        self.interleaved.push((channel, bytes));
    }

    /// TrackSrtps it for one client behind `out`, as it goes on `channel`.
    pub(crate) fn seal_interleaved(&self, srtp: &mut TrackSrtp, channel: u8, out: &mut Vec<u8>) {
        match &self.content {
            Content::Media(burst) => srtp.interleave(&self.label, burst, channel, out),
            Content::Report { packet, .. } => {
                if let Some(packet) = srtp.control(packet) {
                    glassline_rtsp::interleaved::write_frame(out, channel, &packet);
                }
            }
        }
    }

    /// TrackSrtps it for one client as datagrams.
    pub(crate) fn seal_datagrams(&self, srtp: &mut TrackSrtp) -> Datagrams {
        match &self.content {
            Content::Media(burst) => srtp.datagrams(&self.label, burst),
            Content::Report { packet, .. } => {
                let packet = srtp.control(packet).unwrap_or_default();
                Datagrams::single(packet.into())
            }
        }
    }

    /// Made before by [`Ring::prepare`].
    pub(crate) fn interleaved(&self, channel: u8) -> Option<&Bytes> {
        let mut made = self.interleaved.iter();
        made.find_map(|(of, bytes)| (*of == channel).then_some(bytes))
    }

    /// Made before by [`Ring::prepare_datagrams`].
    pub(crate) fn datagrams(&self) -> Option<&Datagrams> {
        self.datagrams.as_ref()
    }

    fn memory_bytes(&self) -> usize {
        let content = match &self.content {
            Content::Media(burst) => burst.memory_bytes(),
            Content::Report { packet, .. } => packet.len(),
        };
        // What was made of it is counted ahead: one layout, as nearly always.
        size_of::<Self>() + content * 2
    }
}

/// Bounds of a [`Ring`].
#[derive(Clone, Copy, Debug)]
pub(crate) struct Bounds {
    /// Bytes, those made for clients included.
    pub(crate) bytes: usize,
    /// The longest that an entry stays.
    pub(crate) span: Duration,
    /// How long entries before the newest keyframe stay: as long as a client may lag.
    pub(crate) lag: Duration,
}

/// Recent entries, numbered without gaps. A client's cursor is a number.
#[derive(Debug)]
pub(crate) struct Ring {
    entries: VecDeque<Entry>,
    /// The number of the first.
    first: u64,
    bytes: usize,
    bounds: Bounds,
    /// The track whose keyframes are where clients begin.
    anchor: usize,
    keyframe: Option<u64>,
}

impl Ring {
    pub(crate) fn new(anchor: usize, bounds: Bounds) -> Self {
        Self {
            entries: VecDeque::new(),
            first: 0,
            bytes: 0,
            bounds,
            anchor,
            keyframe: None,
        }
    }

    /// Clients begin at keyframes of this track from now on.
    pub(crate) fn set_anchor(&mut self, track: usize) {
        if self.anchor != track {
            self.anchor = track;
            self.keyframe = None;
        }
    }

    /// The track whose keyframes are where clients begin.
    pub(crate) fn anchor(&self) -> usize {
        self.anchor
    }

    /// The number that the next entry will get.
    pub(crate) fn end(&self) -> u64 {
        self.first + self.entries.len() as u64
    }

    /// The number of the oldest entry.
    pub(crate) fn first(&self) -> u64 {
        self.first
    }

    /// Where a client begins: the newest keyframe of the anchor track.
    pub(crate) fn keyframe(&self) -> Option<u64> {
        self.keyframe.filter(|number| *number >= self.first)
    }

    pub(crate) fn get(&self, number: u64) -> Option<&Entry> {
        let place = usize::try_from(number.checked_sub(self.first)?).ok()?;
        self.entries.get(place)
    }

    /// The entries from `number` on, with their numbers.
    pub(crate) fn since(&self, number: u64) -> impl Iterator<Item = (u64, &Entry)> {
        let from = number.max(self.first);
        let skip = usize::try_from(from - self.first).unwrap_or(usize::MAX);
        (from..).zip(self.entries.iter().skip(skip))
    }

    pub(crate) fn push_media(&mut self, burst: Arc<MediaUnit>, label: Label) {
        let at = burst.stamps.published;
        if burst.track == self.anchor && burst.keyframe && burst.first {
            self.keyframe = Some(self.end());
        }
        self.push(Content::Media(burst), label, at);
    }

    pub(crate) fn push_report(&mut self, track: usize, packet: Bytes, label: Label, now: Instant) {
        self.push(Content::Report { track, packet }, label, now);
    }

    fn push(&mut self, content: Content, label: Label, at: Instant) {
        let entry = Entry {
            content,
            at,
            interleaved: SmallVec::new(),
            datagrams: None,
            label,
        };
        self.bytes += entry.memory_bytes();
        self.entries.push_back(entry);
        self.evict(at);
    }

    fn evict(&mut self, now: Instant) {
        while self.entries.len() > 1 {
            let age = now.saturating_duration_since(self.entries[0].at);
            let before_keyframe = self.keyframe.is_some_and(|number| self.first < number);
            let spent = before_keyframe && age > self.bounds.lag;
            if !(spent || age > self.bounds.span || self.bytes > self.bounds.bytes) {
                break;
            }
            if let Some(entry) = self.entries.pop_front() {
                self.bytes -= entry.memory_bytes();
                self.first += 1;
            }
        }
    }

    /// Makes the bytes of entry `number` for `channel`, unless they are there.
    pub(crate) fn prepare(&mut self, number: u64, channel: u8) {
        if let Some(entry) = self.get_mut(number) {
            entry.make_interleaved(channel);
        }
    }

    /// Makes the datagrams of entry `number`, unless they are there.
    pub(crate) fn prepare_datagrams(&mut self, number: u64) {
        if let Some(entry) = self.get_mut(number)
            && entry.datagrams.is_none()
        {
            entry.datagrams = Some(match &entry.content {
                Content::Media(burst) => entry.label.datagrams(burst),
                Content::Report { packet, .. } => Datagrams::single(packet.clone()),
            });
        }
    }

    fn get_mut(&mut self, number: u64) -> Option<&mut Entry> {
        let place = usize::try_from(number.checked_sub(self.first)?).ok()?;
        self.entries.get_mut(place)
    }
}
