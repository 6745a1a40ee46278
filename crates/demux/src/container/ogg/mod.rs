//! Ogg files (RFC 3533) with Opus (RFC 7845), Vorbis, FLAC (RFC 9639 §10.1) and Theora,
//! multiplexed and chained.
//!
//! A file may be a chain of links, each with its own streams and headers. In each link, the
//! first video stream and the first audio stream are played. Times on the audio track are those
//! of what is played: pre-skip lies before zero, and trimming at the end shortens the last
//! packet.

pub(crate) mod page;
mod pieces;
mod pipe;
mod stream;

use std::io::{BufReader, Read};

use crate::Data;
use crate::container::indexed_track::IndexedTrackBuilder;
use crate::container::ogg::page::{Page, Pages};
use crate::container::{Container, Primed};
use crate::error::{Fault, Reason, WarningReason, Warnings};
use pieces::Pieces;
pub(crate) use pipe::OggPipe;
use stream::{Logical, Packet, Stream};

/// Reads and indexes a file. The checksums of all pages are verified, and damaged pages left out.
pub(crate) fn open(data: Box<dyn Data>, warnings: &mut Warnings) -> Result<Container, Fault> {
    let mut pages = Pages::new(BufReader::new(data));
    let mut reading = Reading::default();
    let read = reading.take_all(&mut pages, warnings);
    let begins = reading.video.is_some() || reading.audio.is_some();
    if let Some(damage) = pages.take_first_damage().filter(|_| !begins) {
        return Err(damage);
    }
    read?;
    pages.warn(warnings);
    reading.end_link();
    let end = pages.offset();
    let states = [reading.video, reading.audio].into_iter().flatten();
    let mut primed = Vec::new();
    for state in states {
        if let Some(indexed) = state.builder.finish(false, warnings) {
            let priming_ns = indexed.first_ns().min(0).saturating_neg();
            primed.push(Primed {
                indexed,
                priming_ns,
            });
        }
    }
    if primed.is_empty() {
        return Err(match reading.other {
            Some((offset, name)) => Fault::at(offset, Reason::OggCoding(name)),
            None => Fault::at(end, Reason::NoAudio),
        });
    }
    Container::new(Box::new(Pieces::new(pages.into_inner())), primed)
}

/// State of the pass through the file.
#[derive(Default)]
struct Reading {
    video: Option<TrackState>,
    audio: Option<TrackState>,
    /// The streams of the current link that are played.
    streams: Vec<Stream>,
    /// Whether pages with data came since the last group of first pages.
    has_data: bool,
    /// A logical stream that is not played: its offset and its coding.
    other: Option<(u64, &'static str)>,
    /// Duration of the links before this one, in ns.
    base_ns: i64,
}

/// A track over all links.
struct TrackState {
    builder: IndexedTrackBuilder,
    /// Headers of the first link, which those of later links must equal.
    headers: Vec<Vec<u8>>,
    /// Number of units before this link.
    before_link: usize,
}

impl Reading {
    fn take_all(
        &mut self,
        pages: &mut Pages<impl Read>,
        warnings: &mut Warnings,
    ) -> Result<(), Fault> {
        while let Some(page) = pages.next_page(warnings)? {
            self.take(page, warnings)?;
        }
        Ok(())
    }

    fn take(&mut self, page: &Page, warnings: &mut Warnings) -> Result<(), Fault> {
        if page.first {
            return self.begin_stream(page, warnings);
        }
        self.has_data = true;
        if self.streams.is_empty() {
            let (offset, name) = self.other.unwrap_or((page.offset, "an unknown stream"));
            return Err(Fault::at(offset, Reason::OggCoding(name)));
        }
        let mut streams = self.streams.iter_mut();
        let Some(stream) = streams.find(|stream| stream.serial == page.serial) else {
            return Ok(());
        };
        let state = match stream.has_video() {
            true => &mut self.video,
            false => &mut self.audio,
        };
        for packet in stream.take(page, warnings)? {
            let state = match state {
                Some(state) => state,
                None => state.insert(TrackState::of(stream, page)?),
            };
            state.add(stream, &packet, self.base_ns, page)?;
        }
        Ok(())
    }

    fn begin_stream(&mut self, page: &Page, warnings: &mut Warnings) -> Result<(), Fault> {
        if self.has_data {
            self.end_link();
        }
        let (packet, _) = page.pieces().next().unwrap_or_default();
        let stream = Stream::begin(packet, page)?;
        let same = |new: &Stream| {
            let mut streams = self.streams.iter();
            streams.any(|stream| stream.has_video() == new.has_video())
        };
        match stream {
            Some(stream) if !same(&stream) => {
                if let Logical::Opus(head) = &stream.logical
                    && head.gain != 0
                {
                    let reason = WarningReason::OutputGain(head.gain);
                    warnings.add(Some(page.offset), reason);
                }
                self.streams.push(stream);
            }
            other => {
                let name = match other {
                    Some(stream) => stream.logical.second_name(),
                    None => coding_name(packet),
                };
                // A Skeleton stream only describes the other streams.
                if name != SKELETON {
                    self.other = self.other.or(Some((page.offset, name)));
                    let reason = WarningReason::OtherStream(name);
                    warnings.add(Some(page.offset), reason);
                }
            }
        }
        Ok(())
    }

    /// Moves the streams of a link to their times on the tracks.
    fn end_link(&mut self) {
        // A link that was cut out of a longer one need not begin at zero, but its streams keep
        // their relative times.
        let begins = self.streams.iter().filter_map(Stream::begins_ns).min();
        let mut end_ns = self.base_ns;
        for stream in self.streams.drain(..) {
            let state = match stream.has_video() {
                true => &mut self.video,
                false => &mut self.audio,
            };
            let Some(state) = state else {
                continue;
            };
            let late = stream.begins_ns().zip(begins).map(|(own, all)| own - all);
            let late_ns = late.unwrap_or(0);
            state.builder.delay_from(state.before_link, late_ns);
            state.before_link = state.builder.len();
            let end = self.base_ns.saturating_add(stream.length_ns());
            end_ns = end_ns.max(end.saturating_add(late_ns));
        }
        self.base_ns = end_ns;
        self.has_data = false;
        self.other = None;
    }
}

impl TrackState {
    fn of(stream: &Stream, page: &Page) -> Result<Self, Fault> {
        let described = stream.describe();
        let described = described.map_err(|reason| Fault::at(page.offset, reason))?;
        Ok(Self {
            builder: IndexedTrackBuilder::new(described, 0, stream.frame_rate()),
            headers: stream.lasting_headers(),
            before_link: 0,
        })
    }

    fn add(
        &mut self,
        stream: &Stream,
        packet: &Packet,
        base_ns: i64,
        page: &Page,
    ) -> Result<(), Fault> {
        if self.builder.len() == self.before_link && self.headers != stream.lasting_headers() {
            let reason = Reason::Changes {
                from: "one set of headers".to_owned(),
                to: "another".to_owned(),
            };
            return Err(Fault::at(page.offset, reason));
        }
        self.builder.trimmed_ns = packet.trimmed_ns;
        self.builder.push_timed(
            packet.offset,
            packet.ordinal,
            base_ns.saturating_add(packet.start_ns),
            packet.duration_ns,
            packet.keyframe,
        )
    }
}

const SKELETON: &str = "Skeleton";

fn coding_name(packet: &[u8]) -> &'static str {
    const NAMES: [(&[u8], &str); 5] = [
        (b"Speex   ", "Speex"),
        (b"fishead\0", SKELETON),
        (b"OVP80", "VP8 video"),
        (b"BBCD\0", "Dirac video"),
        (b"PCM     ", "PCM"),
    ];
    let named = NAMES.iter().find(|(magic, _)| packet.starts_with(magic));
    named.map_or("an unknown stream", |(_, name)| name)
}
