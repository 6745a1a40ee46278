//! Where the elements of an AAC frame begin and end (ISO/IEC 14496-3, §4.4.2 and §4.6).
//!
//! No element states its length, so each is read to its end: the codes of its spectrum are told
//! apart, but not decoded.

use std::ops::Range;

use glassline_media::Bits;
use glassline_media::aac::Program;
use thiserror::Error;

use crate::aac::bands::Bands;
use crate::aac::codebooks::{Codebook, SCALE_FACTORS};

/// Most elements with audio in a frame, so that their decoders are bounded: eight channels.
const ELEMENTS_MAX: usize = 8;

/// Codebook numbers without codes in the spectrum (table 4.152).
const ZERO: u8 = 0;
const RESERVED: u8 = 12;
const NOISE: u8 = 13;
const INTENSITY: std::ops::RangeInclusive<u8> = 14..=15;

/// Window sequence of eight short windows (table 4.149).
const EIGHT_SHORT: u32 = 2;

/// An element with audio in a frame.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Element {
    /// Whether the element holds two channels.
    pub(crate) is_pair: bool,
    /// Whether the element holds low frequencies only.
    pub(crate) is_low_frequency: bool,
    /// The tag that tells elements of one kind apart, 0 to 15.
    pub(crate) tag: u8,
    /// The bits of the element in the frame, its identifier included.
    pub(crate) bits: Range<usize>,
}

/// The elements of a frame.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct RawDataBlock {
    /// The elements with audio, in their order.
    pub(crate) elements: Vec<Element>,
    /// The program that the frame describes, if it does.
    pub(crate) program: Option<Program>,
}

/// The reason why the elements of a frame cannot be told apart.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub(crate) enum Unreadable {
    #[error("the frame ends within an element, or is damaged")]
    Damaged,
    #[error("the frame has more than {ELEMENTS_MAX} elements with audio")]
    Elements,
    #[error("the frame has {0}, which AAC-LC has not")]
    Profile(&'static str),
    #[error("the frame has coupled channels, which are not decoded")]
    Coupling,
}

impl RawDataBlock {
    /// Finds the elements of a frame. `bands`: those of its sampling rate.
    pub(crate) fn parse(frame: &[u8], bands: &Bands) -> Result<Self, Unreadable> {
        let mut block = Self::default();
        let mut walk = Walk {
            bits: Bits::new(frame),
            bands,
        };
        loop {
            let start = walk.bits.position();
            // Some encoders leave the end out.
            let Some(kind) = walk.bits.take(3) else {
                return Ok(block);
            };
            match kind {
                0 | 1 | 3 => {
                    if block.elements.len() == ELEMENTS_MAX {
                        return Err(Unreadable::Elements);
                    }
                    let tag = walk.take(4)? as u8;
                    match kind {
                        1 => walk.channel_pair()?,
                        _ => walk.channel(None)?,
                    }
                    block.elements.push(Element {
                        is_pair: kind == 1,
                        is_low_frequency: kind == 3,
                        tag,
                        bits: start..walk.bits.position(),
                    });
                }
                2 => return Err(Unreadable::Coupling),
                4 => walk.data_stream()?,
                5 => block.program = Some(walk.program()?),
                6 => walk.fill()?,
                _ => return Ok(block),
            }
        }
    }
}

/// Windows of a channel, and how many of their bands are coded.
#[derive(Clone, Debug)]
struct Windows {
    is_short: bool,
    /// Number of bands that are coded.
    bands: usize,
    /// Number of windows in each group whose spectra are coded together.
    groups: Vec<usize>,
}

/// Reads elements to their end.
struct Walk<'a> {
    bits: Bits<'a>,
    bands: &'a Bands,
}

impl Walk<'_> {
    fn take(&mut self, count: u32) -> Result<u32, Unreadable> {
        self.bits.take(count).ok_or(Unreadable::Damaged)
    }

    fn flag(&mut self) -> Result<bool, Unreadable> {
        self.bits.bit().ok_or(Unreadable::Damaged)
    }

    /// Reads past bytes that nothing is wanted of.
    fn skip_bytes(&mut self, count: u32) -> Result<(), Unreadable> {
        (0..count).try_for_each(|_| self.take(8).map(|_| ()))
    }

    /// Reads past a `data_stream_element` (table 4.10).
    fn data_stream(&mut self) -> Result<(), Unreadable> {
        self.take(4)?;
        let is_aligned = self.flag()?;
        let mut count = self.take(8)?;
        if count == 255 {
            count += self.take(8)?;
        }
        if is_aligned {
            self.bits.align();
        }
        self.skip_bytes(count)
    }

    /// Reads past a `fill_element` (table 4.11).
    fn fill(&mut self) -> Result<(), Unreadable> {
        let mut count = self.take(4)?;
        if count == 15 {
            count += self.take(8)?;
            count -= 1;
        }
        self.skip_bytes(count)
    }

    /// Reads a `program_config_element` with its comment (table 4.2).
    fn program(&mut self) -> Result<Program, Unreadable> {
        let program = Program::parse(&mut self.bits).ok_or(Unreadable::Damaged)?;
        self.bits.align();
        let comment = self.take(8)?;
        self.skip_bytes(comment)?;
        Ok(program)
    }

    /// Reads past a `channel_pair_element` behind its tag (table 4.5).
    fn channel_pair(&mut self) -> Result<(), Unreadable> {
        let common = match self.flag()? {
            false => None,
            true => {
                let windows = self.windows()?;
                match self.take(2)? {
                    // A flag for each band: middle and side, or left and right.
                    1 => {
                        let flags = windows.bands * windows.groups.len();
                        (0..flags).try_for_each(|_| self.flag().map(|_| ()))?;
                    }
                    3 => return Err(Unreadable::Damaged),
                    _ => {}
                }
                Some(windows)
            }
        };
        self.channel(common.as_ref())?;
        self.channel(common.as_ref())
    }

    /// Reads past an `individual_channel_stream` (table 4.50). `common`: the windows of a pair that
    /// has the same in both channels.
    fn channel(&mut self, common: Option<&Windows>) -> Result<(), Unreadable> {
        let _gain = self.take(8)?;
        let own;
        let windows = match common {
            Some(windows) => windows,
            None => {
                own = self.windows()?;
                &own
            }
        };
        let codebooks = self.sections(windows)?;
        self.scale_factors(&codebooks)?;
        if self.flag()? {
            self.pulses(windows)?;
        }
        if self.flag()? {
            self.noise_shaping(windows)?;
        }
        if self.flag()? {
            return Err(Unreadable::Profile("gain control"));
        }
        self.spectrum(windows, &codebooks)
    }

    /// Reads `ics_info` (table 4.6).
    fn windows(&mut self) -> Result<Windows, Unreadable> {
        let _reserved = self.flag()?;
        let is_short = self.take(2)? == EIGHT_SHORT;
        let _shape = self.flag()?;
        let windows = if is_short {
            let bands = self.take(4)? as usize;
            let mut groups = vec![1];
            for _ in 1..8 {
                let is_same_group = self.flag()?;
                match groups.last_mut() {
                    Some(last) if is_same_group => *last += 1,
                    _ => groups.push(1),
                }
            }
            Windows {
                is_short,
                bands,
                groups,
            }
        } else {
            let bands = self.take(6)? as usize;
            if self.flag()? {
                return Err(Unreadable::Profile("prediction"));
            }
            Windows {
                is_short,
                bands,
                groups: vec![1],
            }
        };
        match windows.bands <= self.widths(windows.is_short).len() {
            true => Ok(windows),
            false => Err(Unreadable::Damaged),
        }
    }

    fn widths(&self, is_short: bool) -> &[usize] {
        match is_short {
            true => &self.bands.short,
            false => &self.bands.long,
        }
    }

    /// Reads `section_data` (table 4.52). Returns the codebook of each band, group by group.
    fn sections(&mut self, windows: &Windows) -> Result<Vec<u8>, Unreadable> {
        let length_bits = if windows.is_short { 3 } else { 5 };
        let goes_on = (1 << length_bits) - 1;
        let mut codebooks = Vec::with_capacity(windows.bands * windows.groups.len());
        for _ in &windows.groups {
            let mut left = windows.bands;
            while left > 0 {
                let codebook = self.take(4)? as u8;
                if codebook == RESERVED {
                    return Err(Unreadable::Damaged);
                }
                let mut length = 0;
                loop {
                    let more = self.take(length_bits)?;
                    length += more as usize;
                    if more != goes_on {
                        break;
                    }
                }
                left = left.checked_sub(length).ok_or(Unreadable::Damaged)?;
                codebooks.resize(codebooks.len() + length, codebook);
            }
        }
        Ok(codebooks)
    }

    /// Reads past `scale_factor_data` (table 4.53).
    fn scale_factors(&mut self, codebooks: &[u8]) -> Result<(), Unreadable> {
        let mut has_noise = false;
        for codebook in codebooks {
            match *codebook {
                ZERO => {}
                NOISE if !has_noise => {
                    has_noise = true;
                    // The first level of noise is no difference.
                    self.take(9)?;
                }
                _ => {
                    let code = SCALE_FACTORS.skip_code(&mut self.bits);
                    code.ok_or(Unreadable::Damaged)?;
                }
            }
        }
        Ok(())
    }

    /// Reads past `pulse_data` (table 4.7).
    fn pulses(&mut self, windows: &Windows) -> Result<(), Unreadable> {
        if windows.is_short {
            return Err(Unreadable::Damaged);
        }
        let count = self.take(2)? + 1;
        self.take(6)?;
        (0..count).try_for_each(|_| self.take(5 + 4).map(|_| ()))
    }

    /// Reads past `tns_data` (table 4.54).
    fn noise_shaping(&mut self, windows: &Windows) -> Result<(), Unreadable> {
        let (windows, filters_bits, length_bits, order_bits) = match windows.is_short {
            true => (8, 1, 4, 3),
            false => (1, 2, 6, 5),
        };
        for _ in 0..windows {
            let filters = self.take(filters_bits)?;
            if filters == 0 {
                continue;
            }
            let resolution = 3 + self.take(1)?;
            for _ in 0..filters {
                self.take(length_bits)?;
                let order = self.take(order_bits)?;
                if order > 0 {
                    let _direction = self.flag()?;
                    let compressed = self.take(1)?;
                    (0..order).try_for_each(|_| self.take(resolution - compressed).map(|_| ()))?;
                }
            }
        }
        Ok(())
    }

    /// Reads past `spectral_data` (table 4.56).
    fn spectrum(&mut self, windows: &Windows, codebooks: &[u8]) -> Result<(), Unreadable> {
        let bands = windows.bands.max(1);
        for (codebooks, windows_in_group) in codebooks.chunks(bands).zip(&windows.groups) {
            for (band, number) in codebooks.iter().enumerate() {
                if matches!(*number, ZERO | NOISE) || INTENSITY.contains(number) {
                    continue;
                }
                let codebook = Codebook::of_spectrum(*number).ok_or(Unreadable::Damaged)?;
                let values = self.widths(windows.is_short)[band] * windows_in_group;
                for _ in 0..values / codebook.values {
                    let code = codebook.skip_code(&mut self.bits);
                    code.ok_or(Unreadable::Damaged)?;
                }
            }
        }
        Ok(())
    }
}
