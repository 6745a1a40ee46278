//! Frames of the first audio stream in a program stream.

use std::collections::VecDeque;

use glassline_media::{Codec, Track};

use super::packets::PRIVATE_1;
use crate::audio::ac3;
use crate::audio::mpeg_audio;
use crate::system_clock::stamp::CLOCK_RATE;

/// Most bytes that are stored: a frame and the packet behind it.
const PENDING_BYTES_MAX: usize = 256 * 1024;

/// Stamps closer than this to the counted time are rounded forms of it, in ticks of 27 MHz.
const ROUNDING: i64 = CLOCK_RATE / 1000;

/// Coding of an audio stream.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Coding {
    MpegAudio,
    Ac3,
}

/// Identifies the packets of an audio stream.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct AudioStream {
    stream: u8,
    /// Number of the stream on DVDs, in the first byte of each packet.
    substream: Option<u8>,
    pub(super) coding: Coding,
}

/// Bytes before the audio in packets of DVDs: number, frame count, offset of the first frame.
const SUBSTREAM_HEADER_BYTES: usize = 4;

impl AudioStream {
    /// Identifies the stream of a packet that begins with `start`. The error names other
    /// content that is known, or is `None` if the packet is not audio.
    pub(super) fn of(stream: u8, start: &[u8]) -> Result<Self, Option<&'static str>> {
        let identified = |substream, coding| Self {
            stream,
            substream,
            coding,
        };
        match (stream, start.first()) {
            (0xc0..=0xdf, _) => Ok(identified(None, Coding::MpegAudio)),
            (PRIVATE_1, Some(0x0b)) if start.starts_with(&[0x0b, 0x77]) => {
                Ok(identified(None, Coding::Ac3))
            }
            (PRIVATE_1, Some(&substream @ 0x80..=0x87)) => {
                Ok(identified(Some(substream), Coding::Ac3))
            }
            (PRIVATE_1, Some(0x88..=0x8f)) => Err(Some("DTS audio")),
            (PRIVATE_1, Some(0xa0..=0xaf)) => Err(Some("uncompressed audio (LPCM)")),
            (PRIVATE_1, Some(0x20..=0x3f)) => Err(Some("subtitles in pictures")),
            _ => Err(None),
        }
    }

    /// Returns the number of bytes before the audio in a packet of this stream; `None` for
    /// packets of other streams. `start`: the packet's first bytes.
    pub(super) fn header_of(self, stream: u8, start: &[u8]) -> Option<usize> {
        let same = self.stream == stream;
        match self.substream {
            None => same.then_some(0),
            Some(substream) => {
                (same && start.first() == Some(&substream)).then_some(SUBSTREAM_HEADER_BYTES)
            }
        }
    }
}

/// A frame of audio.
#[derive(Debug)]
pub(super) struct Frame {
    pub(super) bytes: Vec<u8>,
    /// Presentation time, in ticks of 27 MHz.
    pub(super) start: i64,
    pub(super) duration: i64,
}

/// Properties that all frames of a track share.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct AudioFormat {
    coding: Coding,
    rate: u32,
    channels: u8,
}

impl AudioFormat {
    pub(super) fn track(self) -> Track {
        match self.coding {
            // The RTP clock is 90 kHz, whatever the sampling rate (RFC 2250 §3.5).
            Coding::MpegAudio => Track::audio(Codec::MpegAudio, self.channels),
            Coding::Ac3 => Track::audio(Codec::Ac3, self.channels).with_clock_rate(self.rate),
        }
    }
}

/// Splits a stream into its frames.
pub(super) struct Frames {
    coding: Coding,
    bytes: Vec<u8>,
    base: u64,
    /// Positions in the stream, and the stamps that hold from there on.
    marks: VecDeque<(u64, Option<i64>)>,
    next: Option<i64>,
    format: Option<AudioFormat>,
    /// Whether the last frame was at its expected place.
    in_step: bool,
}

impl Frames {
    pub(super) fn new(coding: Coding) -> Self {
        Self {
            coding,
            bytes: Vec::new(),
            base: 0,
            marks: VecDeque::new(),
            next: None,
            format: None,
            in_step: false,
        }
    }

    pub(super) fn format(&self) -> Option<AudioFormat> {
        self.format
    }

    /// Adds the next bytes. `stamp`: time of the first frame that begins in them, on the
    /// track's time.
    pub(super) fn push(&mut self, bytes: &[u8], stamp: Option<i64>) {
        let position = self.base + self.bytes.len() as u64;
        self.marks.push_back((position, stamp));
        self.bytes.extend_from_slice(bytes);
        if self.bytes.len() > PENDING_BYTES_MAX {
            self.drop_bytes(self.bytes.len() - PENDING_BYTES_MAX);
        }
        self.drop_marks();
    }

    fn drop_marks(&mut self) {
        while self
            .marks
            .get(1)
            .is_some_and(|(from, _)| *from <= self.base)
        {
            self.marks.pop_front();
        }
    }

    fn drop_bytes(&mut self, count: usize) {
        self.bytes.drain(..count);
        self.base += count as u64;
    }

    /// Returns the next complete frame; `None` if more bytes are needed. Frames of a different
    /// form are skipped, since they would need another track.
    pub(super) fn next(&mut self) -> Option<Frame> {
        loop {
            let (frame, format) = self.next_of_any_form()?;
            if *self.format.get_or_insert(format) == format {
                return Some(frame);
            }
        }
    }

    fn next_of_any_form(&mut self) -> Option<(Frame, AudioFormat)> {
        let mut at = 0;
        let found = loop {
            let rest = &self.bytes[at..];
            if rest.len() < ac3::HEADER_BYTES {
                break None;
            }
            let Some((format, samples, length)) = header(self.coding, rest) else {
                self.in_step = false;
                at += 1;
                continue;
            };
            if rest.len() < length {
                break None;
            }
            // Bytes that look like a header by chance have no header behind their frame.
            if !self.in_step {
                let behind = &rest[length..];
                if behind.len() < ac3::HEADER_BYTES {
                    break None;
                }
                if header(self.coding, behind).is_none_or(|(next, ..)| next != format) {
                    at += 1;
                    continue;
                }
            }
            break Some((format, samples, length));
        };
        self.drop_bytes(at);
        let (format, samples, length) = found?;
        let stamp = self.stamp();
        let bytes = self.bytes[..length].to_vec();
        self.drop_bytes(length);
        self.in_step = true;
        let duration = i64::from(samples) * CLOCK_RATE / i64::from(format.rate);
        let start = match (stamp, self.next) {
            (Some(stamp), Some(next)) if (stamp - next).abs() <= ROUNDING => next,
            (Some(stamp), _) => stamp,
            (None, next) => next.unwrap_or(0),
        };
        self.next = Some(start + duration);
        let frame = Frame {
            bytes,
            start,
            duration,
        };
        Some((frame, format))
    }

    /// Returns the stamp of the frame at the front, if that frame is the first to begin in its
    /// packet.
    fn stamp(&mut self) -> Option<i64> {
        self.drop_marks();
        let (_, stamp) = self.marks.front_mut()?;
        stamp.take()
    }
}

/// Returns form, samples and length in bytes of the frame that begins here.
fn header(coding: Coding, bytes: &[u8]) -> Option<(AudioFormat, u32, usize)> {
    let format = |rate, channels| AudioFormat {
        coding,
        rate,
        channels,
    };
    match coding {
        Coding::MpegAudio => mpeg_audio::Header::parse(bytes).map(|header| {
            let format = format(header.rate, header.channels);
            (format, header.samples.into(), header.frame_bytes.into())
        }),
        Coding::Ac3 => ac3::Header::parse(bytes).map(|header| {
            let format = format(header.rate, header.channels);
            (format, ac3::SAMPLES, header.frame_bytes.into())
        }),
    }
}
