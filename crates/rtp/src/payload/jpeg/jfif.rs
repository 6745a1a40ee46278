//! JFIF frames as in files (ITU-T T.81): parses the segments that a payload needs, and writes
//! the segments for which a payload header stands.

use std::borrow::Cow;

use glassline_media::Codec;

use super::huffman::{self, Table};
use super::quantization::{self, TABLE_BYTES, Tables};
use super::recode::Scan;
use crate::payload::PacketizeError;

/// The marker that ends a frame.
pub(super) const END_OF_IMAGE: [u8; 2] = [0xff, EOI];

const SOI: u8 = 0xd8;
const EOI: u8 = 0xd9;
const SOF0: u8 = 0xc0;
const DHT: u8 = 0xc4;
const SOS: u8 = 0xda;
const DQT: u8 = 0xdb;
const DRI: u8 = 0xdd;
/// Markers within a scan.
const RESTARTS: std::ops::RangeInclusive<u8> = 0xd0..=0xd7;
const ARITHMETIC_CONDITIONING: u8 = 0xcc;
const JPEG_EXTENSIONS: u8 = 0xc8;

/// Largest width and height: the payload header counts blocks of 8 pixels in one byte.
const SIDE_PIXELS_MAX: u16 = 2040;

/// The parameters of a frame that payload headers carry.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Parameters {
    /// RTP type of the sampling: 0 for 4:2:2 (two luminance samples in a row to one chrominance
    /// sample), 1 for 4:2:0 (two rows of two).
    pub(super) sampling: u8,
    /// Width in pixels, up to 2040.
    pub(super) width: u16,
    /// Height in pixels, up to 2040.
    pub(super) height: u16,
    /// Number of MCUs between restart markers; 0 without restart markers.
    pub(super) restart_interval: u16,
    pub(super) tables: Tables,
}

/// A frame that payloads can carry.
pub(super) struct Jfif<'a> {
    pub(super) parameters: Parameters,
    /// Entropy-coded data without the end marker, with the standard Huffman tables.
    pub(super) scan: Cow<'a, [u8]>,
}

/// Parses a frame. Errors name properties that payloads cannot represent.
pub(super) fn parse(bytes: &[u8]) -> Result<Jfif<'_>, PacketizeError> {
    let malformed = |reason| PacketizeError::Malformed {
        codec: Codec::Jpeg,
        reason,
    };
    let mut rest = bytes
        .strip_prefix(&[0xff, SOI])
        .ok_or_else(|| malformed("it does not begin with a start of image"))?;
    let mut segments = Segments::default();
    loop {
        let (marker, body, more) =
            split_segment(rest).ok_or_else(|| malformed("a segment is cut short"))?;
        rest = more;
        match marker {
            DQT => segments.quantization(body)?,
            DHT => segments.huffman(body)?,
            SOF0 => segments.frame(body)?,
            DRI => match body {
                [high, low] => segments.restart_interval = u16::from_be_bytes([*high, *low]),
                _ => return Err(malformed("a restart interval of another length than 2")),
            },
            SOS => {
                let (parameters, coding) = segments.scan(body)?;
                let scan = scan(rest)?;
                let scan = match coding.map(|coding| parameters.recode(scan, &coding)) {
                    None => Cow::Borrowed(scan),
                    Some(Some(scan)) => Cow::Owned(scan),
                    Some(None) => return Err(malformed("its scan is damaged")),
                };
                return Ok(Jfif { parameters, scan });
            }
            0xc1..=0xcf if marker != ARITHMETIC_CONDITIONING && marker != JPEG_EXTENSIONS => {
                return Err(unsuited(
                    "progressive, extended or lossless coding (only baseline)",
                ));
            }
            EOI => return Err(malformed("it ends before its scan")),
            _ => {}
        }
    }
}

const fn unsuited(what: &'static str) -> PacketizeError {
    PacketizeError::UnsupportedFeature {
        codec: Codec::Jpeg,
        what,
    }
}

/// Splits off the next segment: returns its marker, its body, and what follows.
fn split_segment(bytes: &[u8]) -> Option<(u8, &[u8], &[u8])> {
    // Any number of fill bytes may precede a marker.
    let [0xff, rest @ ..] = bytes else {
        return None;
    };
    let fill = rest.iter().take_while(|byte| **byte == 0xff).count();
    let (&marker, rest) = rest[fill..].split_first()?;
    if marker == EOI {
        return Some((marker, &[], rest));
    }
    let (length, _) = rest.split_first_chunk()?;
    let (segment, rest) = rest.split_at_checked(usize::from(u16::from_be_bytes(*length)))?;
    Some((marker, segment.get(2..)?, rest))
}

/// Segments that were parsed so far.
#[derive(Default)]
struct Segments<'a> {
    quantization: [Option<&'a [u8]>; 4],
    /// Huffman tables by class and number.
    huffman: Vec<(u8, Table<'a>)>,
    restart_interval: u16,
    frame: Option<Frame>,
}

/// Content of the frame header.
struct Frame {
    width: u16,
    height: u16,
    sampling: u8,
    /// Whether an MCU is two of the payload's, one above the other.
    is_stacked: bool,
    /// Identifier and quantization table of each component.
    components: [(u8, u8); 3],
}

impl<'a> Segments<'a> {
    fn quantization(&mut self, mut body: &'a [u8]) -> Result<(), PacketizeError> {
        while let Some((&head, rest)) = body.split_first() {
            if head >> 4 != 0 {
                return Err(unsuited("quantization tables of 16 bits (only 8 bits)"));
            }
            let (table, rest) = rest
                .split_at_checked(TABLE_BYTES)
                .ok_or(cut_short("a quantization table is cut short"))?;
            if let Some(place) = self.quantization.get_mut(usize::from(head & 0x0f)) {
                *place = Some(table);
            }
            body = rest;
        }
        Ok(())
    }

    fn huffman(&mut self, mut body: &'a [u8]) -> Result<(), PacketizeError> {
        let short = || cut_short("a Huffman table is cut short");
        while let Some((&head, rest)) = body.split_first() {
            let (lengths, rest) = rest.split_first_chunk::<16>().ok_or_else(short)?;
            let count = lengths.iter().map(|count| usize::from(*count)).sum();
            let (values, rest) = rest.split_at_checked(count).ok_or_else(short)?;
            self.huffman.retain(|(table, _)| *table != head);
            // There are two classes of four tables.
            if self.huffman.len() < 8 {
                self.huffman.push((head, (lengths, values)));
            }
            body = rest;
        }
        Ok(())
    }

    fn frame(&mut self, body: &[u8]) -> Result<(), PacketizeError> {
        let [bits, h1, h0, w1, w0, count, components @ ..] = body else {
            return Err(cut_short("its frame header is cut short"));
        };
        let (height, width) = (
            u16::from_be_bytes([*h1, *h0]),
            u16::from_be_bytes([*w1, *w0]),
        );
        if *bits != 8 {
            return Err(unsuited("samples of 12 bits (only 8 bits)"));
        }
        let [y, ys, yt, cb, cbs, cbt, cr, crs, crt] = components else {
            return Err(match count {
                3 => cut_short("its frame header is cut short"),
                _ => unsuited("gray, RGB with alpha or CMYK components (only Y, Cb, Cr)"),
            });
        };
        if width == 0 || height == 0 || width > SIDE_PIXELS_MAX || height > SIDE_PIXELS_MAX {
            return Err(unsuited("a width or height of 0, or above 2040 pixels"));
        }
        let (sampling, is_stacked) = match (ys, cbs, crs) {
            (0x21, 0x11, 0x11) => (0, false),
            // The same sampling in MCUs of twice the height, as FFmpeg writes it.
            (0x22, 0x12, 0x12) => (0, true),
            (0x22, 0x11, 0x11) => (1, false),
            _ => {
                return Err(unsuited("sampling other than 4:2:2 (2x1) and 4:2:0 (2x2)"));
            }
        };
        self.frame = Some(Frame {
            width,
            height,
            sampling,
            is_stacked,
            components: [(*y, *yt), (*cb, *cbt), (*cr, *crt)],
        });
        Ok(())
    }

    /// Checks the scan header against the segments before it. Also returns how the scan is coded,
    /// unless it is as in payloads.
    fn scan(&self, body: &[u8]) -> Result<(Parameters, Option<Coding<'a>>), PacketizeError> {
        let frame = self
            .frame
            .as_ref()
            .ok_or(cut_short("its scan comes before its frame header"))?;
        let [3, y, yt, cb, cbt, cr, crt, ..] = body else {
            return Err(unsuited("several scans (only one interleaved scan)"));
        };
        if [*y, *cb, *cr] != frame.components.map(|(id, _)| id) {
            return Err(unsuited("components in another order than Y, Cb, Cr"));
        }
        let of = |selector: u8| {
            let found = [
                self.table(selector >> 4),
                self.table(0x10 | selector & 0x0f),
            ];
            let missing = cut_short("a Huffman table is missing");
            match found {
                [Some(dc), Some(ac)] => Ok([dc, ac]),
                _ => Err(missing),
            }
        };
        let huffman = [of(*yt)?, of(*cbt)?, of(*crt)?];
        let standard = [
            [huffman::DC_LUMA, huffman::AC_LUMA],
            [huffman::DC_CHROMA, huffman::AC_CHROMA],
            [huffman::DC_CHROMA, huffman::AC_CHROMA],
        ];
        let is_standard = standard.map(|tables| tables.map(huffman::standard))
            == huffman.map(|tables| tables.map(Some));
        let table = |place: usize| {
            let number = usize::from(frame.components[place].1);
            let table = self.quantization.get(number).copied().flatten();
            table.ok_or(cut_short("a quantization table is missing"))
        };
        let (luma, chroma) = (table(0)?, table(1)?);
        if table(2)? != chroma {
            return Err(unsuited("different quantization tables for Cb and Cr"));
        }
        let tables = quantization::join(luma, chroma);
        let parameters = Parameters {
            sampling: frame.sampling,
            width: frame.width,
            height: frame.height,
            restart_interval: match frame.is_stacked {
                true => 0,
                false => self.restart_interval,
            },
            tables: tables.ok_or(cut_short("a quantization table is cut short"))?,
        };
        let coding = Coding {
            tables: huffman,
            is_stacked: frame.is_stacked,
            restart_interval: self.restart_interval,
        };
        let is_other = frame.is_stacked || !is_standard;
        Ok((parameters, is_other.then_some(coding)))
    }

    /// Returns the table of this class and number. Without a DHT segment, as in Motion JPEG, tables
    /// are the standard ones by number.
    fn table(&self, table: u8) -> Option<Table<'a>> {
        let found = self.huffman.iter().find(|(it, _)| *it == table);
        found.map_or_else(|| huffman::standard(table), |(_, own)| Some(*own))
    }
}

/// Properties of a scan that payloads imply, and that a frame may have otherwise.
struct Coding<'a> {
    /// DC and AC tables of Y, Cb and Cr.
    tables: [[Table<'a>; 2]; 3],
    is_stacked: bool,
    restart_interval: u16,
}

const fn cut_short(reason: &'static str) -> PacketizeError {
    PacketizeError::Malformed {
        codec: Codec::Jpeg,
        reason,
    }
}

/// Returns the entropy-coded data up to the end marker, or up to the end if there is none.
fn scan(bytes: &[u8]) -> Result<&[u8], PacketizeError> {
    let mut at = 0;
    while let Some(found) = bytes[at..].iter().position(|byte| *byte == 0xff) {
        let marker = at + found;
        match bytes.get(marker + 1) {
            None => break,
            Some(&EOI) => return non_empty(&bytes[..marker]),
            // A zero is stuffed behind a coded 0xff; several 0xff in a row are fill bytes.
            Some(0xff) => at = marker + 1,
            Some(0) => at = marker + 2,
            Some(restart) if RESTARTS.contains(restart) => at = marker + 2,
            Some(_) => return Err(unsuited("several scans (only one interleaved scan)")),
        }
    }
    non_empty(bytes)
}

fn non_empty(scan: &[u8]) -> Result<&[u8], PacketizeError> {
    if scan.is_empty() {
        return Err(cut_short("its scan is empty"));
    }
    Ok(scan)
}

impl Parameters {
    /// Codes a scan anew as payloads imply it; `None` if it is damaged.
    fn recode(&self, scan: &[u8], coding: &Coding<'_>) -> Option<Vec<u8>> {
        let rows = match (self.sampling, coding.is_stacked) {
            (0, false) => 8,
            _ => 16,
        };
        let mcus_across = usize::from(self.width.div_ceil(16));
        let scan = Scan {
            bytes: scan,
            luma_blocks: usize::from(rows / 4),
            mcus: mcus_across * usize::from(self.height.div_ceil(rows)),
            restart_interval: coding.restart_interval.into(),
            tables: coding.tables,
        };
        match coding.is_stacked {
            true => scan.unstacked(mcus_across, self.height.div_ceil(8).into()),
            false => scan.with_standard_tables(),
        }
    }

    /// Writes all segments in front of the entropy-coded data.
    pub(super) fn write_headers(&self, out: &mut Vec<u8>) {
        let mut segment = |marker: u8, parts: &[&[u8]]| {
            let length: usize = parts.iter().map(|part| part.len()).sum();
            out.extend_from_slice(&[0xff, marker]);
            out.extend_from_slice(&(2 + length as u16).to_be_bytes());
            for part in parts {
                out.extend_from_slice(part);
            }
        };
        let (luma, chroma) = self.tables.split_at(TABLE_BYTES);
        segment(APP0, &[JFIF_1_1]);
        segment(DQT, &[&[0], luma, &[1], chroma]);
        let (height, width) = (self.height.to_be_bytes(), self.width.to_be_bytes());
        let y = if self.sampling == 0 { 0x21 } else { 0x22 };
        let components = [3, 1, y, 0, 2, 0x11, 1, 3, 0x11, 1];
        segment(SOF0, &[&[8], &height, &width, &components]);
        for (table, lengths, values) in huffman::TABLES {
            segment(DHT, &[&[table], lengths, values]);
        }
        if self.restart_interval > 0 {
            segment(DRI, &[&self.restart_interval.to_be_bytes()]);
        }
        segment(SOS, &[&[3, 1, 0x00, 2, 0x11, 3, 0x11, 0, 63, 0]]);
        out.splice(0..0, [0xff, SOI]);
    }
}

const APP0: u8 = 0xe0;
/// JFIF version 1.1, square pixels, no thumbnail.
const JFIF_1_1: &[u8] = &[b'J', b'F', b'I', b'F', 0, 1, 1, 0, 0, 1, 0, 1, 0, 0];
