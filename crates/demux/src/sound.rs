//! An Ogg/Opus file, one packet at a time (RFC 7845).
//!
//! A file may be a chain of logical streams, each with headers of its own. Of
//! streams side by side the first that is Opus is played. Packets lie on the
//! track where they are heard: pre-skip counts before zero, trimming at the end
//! shortens the last packet.

use std::collections::VecDeque;
use std::io::BufReader;

use bytes::Bytes;
use glassline_media::{Codec, MediaTime, Track};

use crate::error::{Fault, Reason, WarningReason, Warnings};
use crate::opus::{self, Head};
use crate::page::{Page, Pages};
use crate::reader::{Reader, Unit};
use crate::{Data, sniff};

/// Bytes of an Opus packet: 48 frames of 1275 bytes and their lengths (RFC 7845 §6).
const PACKET_BYTES_MAX: usize = 61_440;

/// Samples that missing pages may stand for, an hour; more is a damaged number.
const SILENCE_MAX: i64 = 3600 * opus::RATE as i64;

/// The packets of an Ogg/Opus file, in order, as often as asked.
pub(crate) struct Sound {
    pages: Option<Pages<BufReader<Box<dyn Data>>>>,
    /// Where the reading stands.
    state: Reading,
    tracks: [Track; 1],
    /// Samples at 48 kHz of one pass.
    length: i64,
}

/// One packet as it lies on the track.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Packet {
    /// Samples at 48 kHz from the start of the track; a packet that begins in the
    /// pre-skip and ends after it is below zero.
    pub(crate) start: i64,
    /// Samples that are heard, above zero.
    pub(crate) heard: i64,
    /// Samples that a decoder makes of it; more than are heard if it is trimmed.
    pub(crate) decoded: i64,
    pub(crate) data: Bytes,
}

impl Sound {
    /// Reads the file through once: every page is checked.
    pub(crate) fn open(mut data: Box<dyn Data>, warnings: &mut Warnings) -> Result<Self, Fault> {
        sniff::check(&mut data, sniff::OGG, "Ogg with Opus")?;
        let mut sound = Self {
            pages: Some(Pages::new(BufReader::new(data))),
            state: Reading::default(),
            tracks: [Track::audio(Codec::Opus, 2)],
            length: 0,
        };
        let mut any = false;
        while sound.read_packet(warnings)?.is_some() {
            any = true;
        }
        let end = sound.pages.as_ref().map_or(0, Pages::offset);
        if !any {
            return Err(match sound.state.other {
                Some((offset, name)) => Fault::at(offset, Reason::NotOpus(name)),
                None => Fault::at(end, Reason::NoSound),
            });
        }
        let first = sound.state.first_head;
        sound.tracks[0].channels = first.map_or(2, |head| head.channels);
        sound.length = sound.state.track_end();
        sound.rewind()?;
        Ok(sound)
    }

    /// Begins again at the first packet.
    fn rewind(&mut self) -> Result<(), Fault> {
        if let Some(pages) = self.pages.take() {
            let mut data = pages.into_inner().into_inner();
            data.rewind().map_err(|e| Fault::at(0, Reason::Read(e)))?;
            self.pages = Some(Pages::new(BufReader::new(data)));
        }
        self.state = Reading::default();
        Ok(())
    }

    fn read_packet(&mut self, warnings: &mut Warnings) -> Result<Option<Packet>, Fault> {
        let Some(pages) = self.pages.as_mut() else {
            return Ok(None);
        };
        while self.state.ready.is_empty() {
            match pages.next_page(warnings)? {
                Some(page) => self.state.take(page, warnings)?,
                None => return Ok(None),
            }
        }
        Ok(self.state.ready.pop_front())
    }
}

impl Reader for Sound {
    fn tracks(&self) -> &[Track] {
        &self.tracks
    }

    fn length_ns(&self) -> i64 {
        samples_ns(self.length)
    }

    fn next_unit(&mut self) -> Result<Option<Unit>, Fault> {
        // What there is to warn of was said when the file was opened.
        let packet = self.read_packet(&mut Warnings::default())?;
        Ok(packet.map(|packet| {
            let after = |samples| samples_ns(packet.start.saturating_add(samples));
            Unit {
                track: 0,
                start_ns: after(0),
                end_ns: after(packet.heard),
                busy_ns: after(packet.decoded),
                decode_ns: after(0),
                keyframe: true,
                data: packet.data,
            }
        }))
    }

    fn seek(&mut self, to_ns: i64) -> Result<(), Fault> {
        self.rewind()?;
        if to_ns <= 0 {
            return Ok(());
        }
        while let Some(packet) = self.read_packet(&mut Warnings::default())? {
            if samples_ns(packet.start.saturating_add(packet.heard)) > to_ns {
                self.state.ready.push_front(packet);
                break;
            }
        }
        Ok(())
    }

    fn fork(&self) -> Box<dyn Reader> {
        let pages = self.pages.as_ref();
        let pages = pages.map(|pages| Pages::new(BufReader::new(pages.get_ref().get_ref().fork())));
        Box::new(Self {
            pages,
            state: Reading::default(),
            tracks: self.tracks.clone(),
            length: self.length,
        })
    }
}

fn samples_ns(samples: i64) -> i64 {
    MediaTime::from_ticks(samples, opus::RATE).nanos()
}

/// The state of one pass through the file.
#[derive(Default)]
struct Reading {
    /// The Opus stream that is played.
    stream: Option<Stream>,
    /// Pages with data were seen since the last group of first pages.
    has_data: bool,
    /// A logical stream that is not Opus.
    other: Option<(u64, &'static str)>,
    first_head: Option<Head>,
    /// Samples of the chain's streams before this one.
    base: i64,
    ready: VecDeque<Packet>,
}

/// One logical Opus stream.
struct Stream {
    serial: u32,
    sequence: u32,
    head: Head,
    tags_seen: bool,
    /// The packet under way, and how long it is so far.
    open: Option<(Vec<u8>, usize)>,
    /// Samples before the next packet, pre-skip counted.
    position: i64,
    /// What the granule position was at `position` 0.
    granule_start: Option<i64>,
    /// Samples that are heard, once it has ended.
    length: i64,
}

impl Reading {
    fn track_end(&self) -> i64 {
        let length = self.stream.as_ref().map_or(0, |stream| stream.length);
        self.base.saturating_add(length.max(0))
    }

    fn take(&mut self, page: &Page, warnings: &mut Warnings) -> Result<(), Fault> {
        if page.first {
            return self.begin_stream(page, warnings);
        }
        self.has_data = true;
        let base = self.base;
        match &mut self.stream {
            Some(stream) if stream.serial == page.serial => {
                stream.take(page, base, &mut self.ready, warnings)
            }
            Some(_) => Ok(()),
            None => {
                let (offset, name) = self.other.unwrap_or((page.offset, "an unknown stream"));
                Err(Fault::at(offset, Reason::NotOpus(name)))
            }
        }
    }

    fn begin_stream(&mut self, page: &Page, warnings: &mut Warnings) -> Result<(), Fault> {
        if self.has_data {
            self.base = self.track_end();
            self.stream = None;
            self.other = None;
            self.has_data = false;
        }
        let (packet, _) = page.pieces().next().unwrap_or_default();
        let opus = packet.starts_with(Head::MAGIC);
        if !opus || self.stream.is_some() {
            let name = if opus {
                "a second Opus stream"
            } else {
                codec_name(packet)
            };
            // Skeleton only describes the others.
            if name != SKELETON {
                self.other = self.other.or(Some((page.offset, name)));
                let reason = WarningReason::OtherStream(name);
                warnings.add(Some(page.offset), reason);
            }
            return Ok(());
        }
        let head = Head::parse(packet).map_err(|reason| Fault::at(page.offset, reason))?;
        if head.gain != 0 {
            let reason = WarningReason::OutputGain(head.gain);
            warnings.add(Some(page.offset), reason);
        }
        self.first_head = self.first_head.or(Some(head));
        self.stream = Some(Stream {
            serial: page.serial,
            sequence: page.sequence,
            head,
            tags_seen: false,
            open: None,
            position: 0,
            granule_start: None,
            length: 0,
        });
        Ok(())
    }
}

impl Stream {
    /// Takes the packets that end on `page`.
    fn take(
        &mut self,
        page: &Page,
        base: i64,
        ready: &mut VecDeque<Packet>,
        warnings: &mut Warnings,
    ) -> Result<(), Fault> {
        self.sequence = self.sequence.wrapping_add(1);
        let missing = page.sequence != self.sequence || page.continued != self.open.is_some();
        self.sequence = page.sequence;
        if missing {
            self.open = None;
            let reason = WarningReason::MissingPages;
            warnings.add(Some(page.offset), reason);
        }
        let (packets, samples) = self.packets(page, missing)?;
        if packets.is_empty() {
            return Ok(());
        }
        let total = samples
            .iter()
            .map(|&samples| i64::from(samples))
            .sum::<i64>();
        let end = self.end_of(page, total, missing);
        for (data, samples) in packets.into_iter().zip(samples) {
            let decoded = i64::from(samples);
            let heard = decoded.min(end.saturating_sub(self.position));
            let start = self.position - i64::from(self.head.pre_skip);
            self.position = self.position.saturating_add(decoded);
            let heard_until = start.saturating_add(heard);
            if heard > 0 && heard_until > 0 {
                self.length = heard_until;
                ready.push_back(Packet {
                    start: base.saturating_add(start),
                    heard,
                    decoded,
                    data,
                });
            }
        }
        Ok(())
    }

    /// The packets of sound that end on `page`, and their samples.
    fn packets(&mut self, page: &Page, missing: bool) -> Result<(Vec<Bytes>, Vec<u32>), Fault> {
        let fault = |reason| Fault::at(page.offset, reason);
        let (mut packets, mut samples) = (Vec::new(), Vec::new());
        // The rest of a packet whose beginning is lost is of no use.
        let skip = usize::from(page.continued && missing);
        for (piece, ends) in page.pieces().skip(skip) {
            let (mut packet, length) = self.open.take().unwrap_or_default();
            // The comments may hold pictures; nothing of them is kept.
            let room = PACKET_BYTES_MAX
                .saturating_sub(packet.len())
                .min(piece.len());
            packet.extend_from_slice(&piece[..room]);
            let length = length + piece.len();
            if !ends {
                self.open = Some((packet, length));
            } else if !self.tags_seen {
                if !packet.starts_with(b"OpusTags") {
                    let reason = "the second packet does not begin with OpusTags";
                    return Err(fault(Reason::OpusHeader(reason)));
                }
                self.tags_seen = true;
            } else if length > PACKET_BYTES_MAX {
                return Err(fault(Reason::OpusPacket("it has more than 61,440 bytes")));
            } else {
                samples.push(opus::samples(&packet).map_err(fault)?);
                packets.push(Bytes::from(packet));
            }
        }
        Ok((packets, samples))
    }

    /// Where sound ends on a page whose packets have `total` samples, on the scale
    /// of `position`. Moves `position` on if pages before are missing.
    fn end_of(&mut self, page: &Page, total: i64, missing: bool) -> i64 {
        let counted = self.position.saturating_add(total);
        if page.granule < 0 {
            return counted;
        }
        // A stream cut out of a longer one need not begin at zero (RFC 7845 §4.3);
        // one that ends on its first page may be trimmed there (§4.4).
        let before = page.granule.saturating_sub(counted).max(0);
        let granule_start = *self.granule_start.get_or_insert(before);
        let end = page.granule.saturating_sub(granule_start);
        let silence = end.saturating_sub(counted);
        if missing && (0..SILENCE_MAX).contains(&silence) {
            self.position = self.position.saturating_add(silence);
        }
        let counted = self.position.saturating_add(total);
        if page.last { end.min(counted) } else { counted }
    }
}

const SKELETON: &str = "Skeleton";

fn codec_name(packet: &[u8]) -> &'static str {
    const NAMES: [(&[u8], &str); 8] = [
        (b"\x01vorbis", "Vorbis"),
        (b"\x80theora", "Theora video"),
        (b"\x7fFLAC", "FLAC"),
        (b"Speex   ", "Speex"),
        (b"fishead\0", SKELETON),
        (b"OVP80", "VP8 video"),
        (b"BBCD\0", "Dirac video"),
        (b"PCM     ", "PCM"),
    ];
    let named = NAMES.iter().find(|(magic, _)| packet.starts_with(magic));
    named.map_or("an unknown stream", |(_, name)| name)
}
