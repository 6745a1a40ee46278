//! One logical stream: its headers, and the times of its packets.

use glassline_media::MediaTime;

use crate::FrameRate;
use crate::audio::flac::ContainedFlac;
use crate::audio::opus::{self, Head};
use crate::audio::vorbis;
use crate::container::coding::Described;
use crate::container::describe;
use crate::container::indexed_track::UNIT_BYTES_MAX;
use crate::container::ogg::page::Page;
use crate::error::{Fault, Reason, WarningReason, Warnings};
use crate::legacy::theora;

/// Longest Opus packet in bytes: 48 frames of 1275 bytes and their lengths (RFC 7845 §6).
const OPUS_BYTES_MAX: usize = 61_440;

/// Bytes of a header that are stored. RTP has room for 64 KiB of all headers.
const HEADER_BYTES_MAX: usize = 65_536;

/// Bytes of any other packet that are stored; they determine its duration.
const START_BYTES: usize = 16;

/// Longest gap of missing pages in seconds; a longer one is a damaged granule position.
const SILENCE_SECONDS_MAX: i64 = 3600;

/// A logical stream that is played.
pub(super) struct Stream {
    pub(super) serial: u32,
    pub(super) logical: Logical,
    sequence: u32,
    /// Magic numbers of the headers that must still follow.
    expected: &'static [&'static [u8]],
    /// The setup header of the codec.
    setup: Vec<u8>,
    /// The packet of which the next page has more; `None` if there is none.
    open: Option<Open>,
    /// Samples or frames before the next packet, including pre-skip.
    position: i64,
    /// Granule position at `position` 0.
    granule_start: Option<i64>,
    /// Number of samples that are played, or of frames.
    length: i64,
}

/// Coding and identification header of a logical stream.
pub(super) enum Logical {
    Opus(Head),
    Vorbis {
        identification: Vec<u8>,
        rate: u32,
        /// The parsed headers, once all have arrived.
        headers: Option<(vorbis::Headers, vorbis::Counter)>,
    },
    Theora {
        identification: Vec<u8>,
        head: theora::Head,
    },
    /// FLAC: its first packet, and how its frames are decoded (RFC 9639 §10.1).
    Flac {
        identification: Vec<u8>,
        frames: ContainedFlac,
    },
}

/// Magic number of the first packet of FLAC, behind which are a version, the number of further
/// headers, and the beginning of a FLAC file.
const FLAC: &[u8] = b"\x7fFLAC";

/// First byte of every frame of FLAC, which is no type of metadata.
const FLAC_FRAME: u8 = 0xff;

/// A packet that may continue on the next page.
#[derive(Default)]
struct Open {
    offset: u64,
    ordinal: u32,
    /// The first bytes of the packet.
    start: Vec<u8>,
    bytes: usize,
}

/// A packet and its time since the start of the stream.
pub(super) struct Packet {
    /// Offset of the page on which the packet begins, and its number on that page.
    pub(super) offset: u64,
    pub(super) ordinal: u32,
    /// Presentation time in ns. It is below zero for audio that begins in the pre-skip.
    pub(super) start_ns: i64,
    /// Duration of the decoded packet in ns.
    pub(super) duration_ns: i64,
    /// Part of the duration at the end that must not be played, in ns.
    pub(super) trimmed_ns: i64,
    pub(super) keyframe: bool,
}

impl Stream {
    /// Identifies a stream by the first packet of its first page; `None` for a coding that is
    /// not played.
    pub(super) fn begin(packet: &[u8], page: &Page) -> Result<Option<Self>, Fault> {
        let fault = |reason| Fault::at(page.offset, reason);
        let header = |packet: &[u8]| packet[..packet.len().min(HEADER_BYTES_MAX)].to_vec();
        let (logical, expected): (_, &[&[u8]]) = if packet.starts_with(Head::MAGIC) {
            let head = Head::parse(packet).map_err(fault)?;
            (Logical::Opus(head), &[b"OpusTags"])
        } else if packet.starts_with(vorbis::IDENTIFICATION) {
            let rate = packet.get(12..).and_then(<[u8]>::first_chunk).copied();
            let logical = Logical::Vorbis {
                identification: header(packet),
                rate: rate.map_or(0, u32::from_le_bytes).max(1),
                headers: None,
            };
            (logical, &[vorbis::COMMENTS, vorbis::SETUP])
        } else if packet.starts_with(theora::IDENTIFICATION) {
            let head = theora::Head::parse(packet);
            let logical = Logical::Theora {
                head: head.map_err(|what| fault(Reason::Damaged(what)))?,
                identification: header(packet),
            };
            (logical, &[theora::COMMENTS, theora::SETUP])
        } else if packet.starts_with(FLAC) {
            let frames = packet.get(9..).and_then(ContainedFlac::parse);
            let damaged = Reason::Damaged("the first packet of FLAC is damaged");
            let logical = Logical::Flac {
                frames: frames.ok_or_else(|| fault(damaged))?,
                identification: header(packet),
            };
            (logical, &[])
        } else {
            return Ok(None);
        };
        Ok(Some(Self {
            serial: page.serial,
            logical,
            sequence: page.sequence,
            expected,
            setup: Vec::new(),
            open: None,
            position: 0,
            granule_start: None,
            length: 0,
        }))
    }

    /// Returns the offset of the page on which the packet begins of which the next page has more;
    /// `None` if there is none.
    pub(super) fn open_since(&self) -> Option<u64> {
        self.open.as_ref().map(|open| open.offset)
    }

    pub(super) fn has_video(&self) -> bool {
        matches!(self.logical, Logical::Theora { .. })
    }

    /// Returns the stream's track. All headers must have arrived.
    pub(super) fn describe(&self) -> Result<Described, Reason> {
        match &self.logical {
            Logical::Opus(head) => Ok(describe::opus(head.channels, head.streams)),
            Logical::Vorbis { identification, .. } => {
                describe::vorbis_of(identification, &self.setup)
            }
            Logical::Theora {
                identification,
                head,
            } => describe::theora_of(head, identification, &self.setup),
            // The first block of metadata follows the version and the number of headers.
            Logical::Flac { identification, .. } => {
                describe::flac(identification.get(9..).unwrap_or_default())
            }
        }
    }

    /// Returns the headers that all links of a track must share. Opus links may differ.
    pub(super) fn lasting_headers(&self) -> Vec<Vec<u8>> {
        match &self.logical {
            Logical::Opus(_) => Vec::new(),
            Logical::Vorbis { identification, .. } | Logical::Theora { identification, .. } => {
                vec![identification.clone(), self.setup.clone()]
            }
            Logical::Flac { identification, .. } => vec![identification.clone()],
        }
    }

    pub(super) fn frame_rate(&self) -> Option<FrameRate> {
        match &self.logical {
            Logical::Theora { head, .. } => Some(head.rate),
            _ => None,
        }
    }

    /// Returns the time of the first packet by the stream's own clock; `None` before the first
    /// granule position.
    pub(super) fn begins_ns(&self) -> Option<i64> {
        self.granule_start.map(|start| self.ns(start))
    }

    /// Returns the end of the stream on its track, in ns.
    pub(super) fn length_ns(&self) -> i64 {
        self.ns(self.length.max(0))
    }

    /// Returns the packets that end on `page`.
    pub(super) fn take(
        &mut self,
        page: &Page,
        warnings: &mut Warnings,
    ) -> Result<Vec<Packet>, Fault> {
        self.sequence = self.sequence.wrapping_add(1);
        let missing = page.sequence != self.sequence || page.continued != self.open.is_some();
        self.sequence = page.sequence;
        if missing {
            self.open = None;
            let reason = WarningReason::MissingPages;
            warnings.add(Some(page.offset), reason);
        }
        let (packets, counts) = self.packets(page, missing)?;
        if packets.is_empty() {
            return Ok(Vec::new());
        }
        let total: i64 = counts.iter().sum();
        let end = self.end_of(page, total, missing);
        let mut taken = Vec::new();
        for (packet, decoded) in packets.into_iter().zip(counts) {
            let played = decoded.min(end.saturating_sub(self.position));
            let start = self.position - self.pre_skip();
            self.position = self.position.saturating_add(decoded);
            let played_until = start.saturating_add(played);
            // The first packet of Vorbis outputs no audio, but the second one needs it.
            let is_vorbis = matches!(self.logical, Logical::Vorbis { .. });
            let needed = is_vorbis && decoded == 0 && start == 0;
            let empty = packet.bytes == 0;
            if !empty && ((played > 0 && played_until > 0) || needed) {
                self.length = played_until;
                let start_ns = self.ns(start);
                taken.push(Packet {
                    offset: packet.offset,
                    ordinal: packet.ordinal,
                    start_ns,
                    duration_ns: self.ns(start.saturating_add(decoded)) - start_ns,
                    trimmed_ns: self.ns(decoded) - self.ns(played),
                    keyframe: !self.has_video() || theora::is_keyframe(&packet.start),
                });
            } else if played > 0 {
                self.length = self.length.max(played_until);
            }
        }
        Ok(taken)
    }

    /// Returns the packets that end on `page`, without headers, and the number of samples or
    /// frames of each.
    fn packets(&mut self, page: &Page, missing: bool) -> Result<(Vec<Open>, Vec<i64>), Fault> {
        let (mut packets, mut counts) = (Vec::new(), Vec::new());
        // The rest of a packet without its beginning cannot be used.
        let skip = usize::from(page.continued && missing);
        for (ordinal, (piece, ends)) in (0..).zip(page.pieces()).skip(skip) {
            let mut packet = self.open.take().unwrap_or_else(|| Open {
                offset: page.offset,
                ordinal,
                ..Open::default()
            });
            // The comment header may contain cover art, so only its start is stored.
            let keep = match self.expected {
                [] => START_BYTES,
                _ => HEADER_BYTES_MAX,
            };
            let room = keep.saturating_sub(packet.start.len()).min(piece.len());
            packet.start.extend_from_slice(&piece[..room]);
            packet.bytes = packet.bytes.saturating_add(piece.len());
            if !ends {
                self.open = Some(packet);
            } else if !self.expected.is_empty() {
                self.take_header(&packet, page)?;
            } else if !self.is_metadata(&packet) {
                counts.push(self.count(&packet, page)?);
                packets.push(packet);
            }
        }
        Ok((packets, counts))
    }

    /// Returns whether a packet is a further header of FLAC, which is not needed. Some writers state
    /// no number of them.
    fn is_metadata(&self, packet: &Open) -> bool {
        matches!(self.logical, Logical::Flac { .. })
            && packet
                .start
                .first()
                .is_some_and(|&first| first != FLAC_FRAME)
    }

    fn take_header(&mut self, packet: &Open, page: &Page) -> Result<(), Fault> {
        let [magic, rest @ ..] = self.expected else {
            return Ok(());
        };
        self.expected = rest;
        let named = packet.start.starts_with(magic);
        let reason = match &mut self.logical {
            Logical::Opus(_) if named => return Ok(()),
            Logical::Opus(_) => {
                Reason::OpusHeader("the second packet does not begin with OpusTags")
            }
            _ if !named => Reason::Damaged("a header of the stream is missing"),
            _ if !rest.is_empty() => return Ok(()),
            Logical::Vorbis {
                identification,
                headers,
                ..
            } => match vorbis::Headers::parse(identification, &packet.start) {
                Ok(parsed) => {
                    *headers = Some((parsed, vorbis::Counter::default()));
                    self.setup.clone_from(&packet.start);
                    return Ok(());
                }
                Err(what) => Reason::Damaged(what),
            },
            Logical::Theora { .. } => {
                self.setup.clone_from(&packet.start);
                return Ok(());
            }
            Logical::Flac { .. } => return Ok(()),
        };
        Err(Fault::at(page.offset, reason))
    }

    /// Returns the number of samples or frames of a packet.
    fn count(&mut self, packet: &Open, page: &Page) -> Result<i64, Fault> {
        let fault = |reason| Fault::at(page.offset, reason);
        if packet.bytes > UNIT_BYTES_MAX as usize {
            let reason = "a packet has more than 16 MiB";
            return Err(fault(Reason::Damaged(reason)));
        }
        match &mut self.logical {
            Logical::Opus(_) if packet.bytes > OPUS_BYTES_MAX => {
                Err(fault(Reason::OpusPacket("it has more than 61,440 bytes")))
            }
            Logical::Opus(_) => opus::samples(&packet.start).map(i64::from).map_err(fault),
            Logical::Vorbis { headers, .. } => Ok(headers.as_mut().map_or(0, |headers| {
                headers.1.samples(&headers.0, &packet.start).into()
            })),
            Logical::Theora { .. } => Ok(1),
            // A damaged frame is left out, like an empty packet.
            Logical::Flac { frames, .. } => Ok(frames.samples(&packet.start).unwrap_or(0).into()),
        }
    }

    /// Returns the position at which the packets of a page end; they have `total` samples or
    /// frames. Moves `position` forward if pages before are missing.
    fn end_of(&mut self, page: &Page, total: i64, missing: bool) -> i64 {
        let counted = self.position.saturating_add(total);
        if page.granule < 0 {
            return counted;
        }
        let granule = match &self.logical {
            Logical::Theora { head, .. } => head.picture(page.granule).saturating_add(1),
            _ => page.granule,
        };
        // A stream that was cut out of a longer one need not begin at zero (RFC 7845 §4.3). One
        // that ends on its first page may be trimmed there (§4.4).
        let before = granule.saturating_sub(counted).max(0);
        let granule_start = *self.granule_start.get_or_insert(before);
        let end = granule.saturating_sub(granule_start);
        let silence = end.saturating_sub(counted);
        let most = MediaTime::from_nanos(SILENCE_SECONDS_MAX * 1_000_000_000);
        if missing && silence > 0 && self.ns(silence) < most.nanos() {
            self.position = self.position.saturating_add(silence);
        }
        let counted = self.position.saturating_add(total);
        if page.last && !self.has_video() {
            end.min(counted)
        } else {
            counted
        }
    }

    fn pre_skip(&self) -> i64 {
        match &self.logical {
            Logical::Opus(head) => head.pre_skip.into(),
            _ => 0,
        }
    }

    /// Converts a number of samples or frames to ns.
    fn ns(&self, count: i64) -> i64 {
        match &self.logical {
            Logical::Opus(_) => MediaTime::from_ticks(count, opus::RATE).nanos(),
            Logical::Vorbis { rate, .. } => MediaTime::from_ticks(count, *rate).nanos(),
            Logical::Flac { frames, .. } => MediaTime::from_ticks(count, frames.rate()).nanos(),
            Logical::Theora { head, .. } => {
                let halves = count.unsigned_abs().saturating_mul(2);
                head.rate.nanos(halves)
            }
        }
    }
}

impl Logical {
    /// Returns the name of a second stream of the same kind, for warnings.
    pub(super) fn second_name(&self) -> &'static str {
        match self {
            Self::Opus(_) => "a second stream of audio (Opus)",
            Self::Vorbis { .. } => "a second stream of audio (Vorbis)",
            Self::Theora { .. } => "a second video stream (Theora)",
            Self::Flac { .. } => "a second stream of audio (FLAC)",
        }
    }
}
