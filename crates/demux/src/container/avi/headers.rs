//! Parses the description of the tracks: stream headers and formats.

use super::chunk_head;

/// Most tracks; chunks are numbered by two digits.
const STREAMS_MAX: usize = 100;

/// Kind of a track.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum StreamKind {
    Video,
    Audio,
    Other,
}

/// A track as the file describes it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Stream {
    pub(super) kind: StreamKind,
    /// Four characters that name the encoder; those of the format go first.
    handler: [u8; 4],
    /// `rate` ticks last `scale` seconds.
    pub(super) scale: u32,
    pub(super) rate: u32,
    /// Ticks before the first chunk.
    pub(super) start: u32,
    /// The chunk `strf`: a BITMAPINFOHEADER or a WAVEFORMATEX.
    pub(super) format: Vec<u8>,
}

impl Stream {
    /// Returns the name of the coding for people.
    pub(super) fn coding(&self) -> String {
        match self.kind {
            StreamKind::Audio => format!("audio format {:#x}", self.tag()),
            _ => String::from_utf8_lossy(&self.compression())
                .chars()
                .filter(|letter| !letter.is_control())
                .collect(),
        }
    }

    /// Returns the four characters of the video coding, in upper case.
    pub(super) fn compression(&self) -> [u8; 4] {
        let own = self.format.get(16..20).and_then(<[u8]>::first_chunk);
        let own = own.filter(|name| name.iter().all(u8::is_ascii_graphic));
        own.copied()
            .unwrap_or(self.handler)
            .map(|it| it.to_ascii_uppercase())
    }

    /// Returns width and height in pixels.
    pub(super) fn size(&self) -> (u32, u32) {
        let height = self.long(8);
        // Pictures whose first row is the uppermost have a negative height.
        (self.long(4), height.cast_signed().unsigned_abs())
    }

    /// Returns the bytes behind the fields of a video format, which configure the decoder.
    pub(super) fn video_configuration(&self) -> &[u8] {
        self.format.get(40..).unwrap_or_default()
    }

    /// Returns the format tag of audio.
    pub(super) fn tag(&self) -> u16 {
        const EXTENSIBLE: u16 = 0xfffe;
        match self.short(0) {
            // The sub-format begins with the tag.
            EXTENSIBLE => self.short(24),
            tag => tag,
        }
    }

    pub(super) fn channels(&self) -> u8 {
        u8::try_from(self.short(2)).unwrap_or(u8::MAX).max(1)
    }

    /// Returns the sampling rate in Hz.
    pub(super) fn sample_rate(&self) -> u32 {
        self.long(4)
    }

    /// Returns the bits of a sample of one channel.
    pub(super) fn bits(&self) -> u16 {
        self.short(14)
    }

    /// Returns the bytes behind the fields of an audio format, which configure the decoder.
    pub(super) fn audio_configuration(&self) -> &[u8] {
        let length = usize::from(self.short(16));
        let rest = self.format.get(18..).unwrap_or_default();
        rest.get(..length).unwrap_or(rest)
    }

    fn short(&self, at: usize) -> u16 {
        let bytes = self.format.get(at..).and_then(<[u8]>::first_chunk);
        bytes.map_or(0, |bytes| u16::from_le_bytes(*bytes))
    }

    fn long(&self, at: usize) -> u32 {
        let bytes = self.format.get(at..).and_then(<[u8]>::first_chunk);
        bytes.map_or(0, |bytes| u32::from_le_bytes(*bytes))
    }
}

/// Returns the tracks in the body of the list `hdrl`.
pub(super) fn streams(body: &[u8]) -> Vec<Stream> {
    let mut streams = Vec::new();
    for (name, body) in chunks(body) {
        if &name == b"LIST"
            && let Some(inner) = body.strip_prefix(b"strl")
            && streams.len() < STREAMS_MAX
        {
            // A track that cannot be read keeps its number.
            streams.push(stream(inner));
        }
    }
    streams
}

fn stream(body: &[u8]) -> Stream {
    let mut stream = Stream {
        kind: StreamKind::Other,
        handler: [0; 4],
        scale: 1,
        rate: 25,
        start: 0,
        format: Vec::new(),
    };
    for (name, body) in chunks(body) {
        match &name {
            b"strh" => {
                let long = |at: usize| {
                    let bytes = body.get(at..).and_then(<[u8]>::first_chunk);
                    bytes.map_or(0, |bytes| u32::from_le_bytes(*bytes))
                };
                stream.kind = match body.first_chunk() {
                    Some(b"vids") => StreamKind::Video,
                    Some(b"auds") => StreamKind::Audio,
                    _ => StreamKind::Other,
                };
                stream.handler = long(4).to_le_bytes();
                (stream.scale, stream.rate) = (long(20).max(1), long(24).max(1));
                stream.start = long(28);
            }
            b"strf" => stream.format = body.to_vec(),
            _ => {}
        }
    }
    stream
}

/// Returns the chunks in the body of a list, up to the first incomplete one.
fn chunks(body: &[u8]) -> impl Iterator<Item = ([u8; 4], &[u8])> {
    let mut rest = body;
    std::iter::from_fn(move || {
        let (name, length) = chunk_head(rest)?;
        let length = usize::try_from(length).ok()?;
        let (chunk, after) = rest.get(8..)?.split_at_checked(length)?;
        rest = after.get(length & 1..).unwrap_or_default();
        Some((name, chunk))
    })
}
