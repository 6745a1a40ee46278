//! An encoder of AAC-LC for voices (ISO/IEC 14496-3).
//!
//! ```text
//! 1024 samples ─► Mdct ─► Prepared: noise of each band ─► search of the level of noise ─► bits
//!                                     Quantized ─► Sections ─► length ──┘
//! ```
//!
//! Windows are long ones with the sine shape. Short windows, noise shaping, noise substitution and
//! intensity are not used: what is encoded here are voices with more bits than telephony needs.
//! An encoder holds its bit rate with a reservoir: what frames of silence save, later ones may use.

mod bit_writer;
mod codes;
mod mdct;
mod quantizer;
mod sections;

#[cfg(test)]
mod tests;

use glassline_media::Bitrate;
use glassline_media::aac::RATES;
use thiserror::Error;

use self::bit_writer::BitWriter;
use self::codes::{BOOKS, ZERO};
use self::mdct::{LINES, Mdct};
use self::quantizer::{BandTable, Prepared, Quantized};
use self::sections::{Costs, Sections};
use super::bands::Bands;

/// Samples of each channel in an AAC frame.
pub const AAC_FRAME_SAMPLES: usize = LINES;

/// Most bits of a frame for each channel (ISO/IEC 14496-3, §4.5.3.1).
const FRAME_BITS_MAX: u32 = 6_144;

/// Bits of a frame besides sections, scale factors and values, for one channel and for two.
const FIXED_BITS: [u32; 2] = [32, 46];

/// Fewest bits of a frame on average: fixed fields, and some for a voice.
const FRAME_BITS_MIN: u32 = 256;

/// Noise levels among which a frame's is searched. At the highest one, every band is silent.
const LEVELS: std::ops::Range<i32> = -120..160;

/// The settings of an AAC encoder.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AacSettings {
    /// Sample rate in Hz, one of those that AAC has an index for: 7,350 to 96,000.
    pub rate: u32,
    /// Channels of the frames, 1 or 2. Two channels hold the same audio.
    pub channels: u8,
    /// Average bit rate. A frame has at most 6144 bits.
    pub bitrate: Bitrate,
}

/// The reason why there is no AAC encoder for some settings.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum AacSettingsError {
    /// AAC has no index for the sample rate.
    #[error("AAC is not encoded at {0} Hz, only at the rates of its table from 7350 to 96000 Hz")]
    Rate(u32),
    /// The number of channels is neither 1 nor 2.
    #[error("AAC of {0} channels is not encoded, only of 1 or 2")]
    Channels(u8),
}

/// Encodes a voice as frames of AAC-LC.
#[derive(derive_more::Debug)]
#[debug("AacEncoder {{ settings: {settings:?}, saved: {saved:?}, .. }}")]
pub struct AacEncoder {
    settings: AacSettings,
    table: BandTable,
    mdct: Mdct,
    before: Box<[f32; LINES]>,
    now: Box<[f32; LINES]>,
    spectrum: Box<[f32; LINES]>,
    prepared: Prepared,
    quantized: Quantized,
    costs: Vec<Costs>,
    /// Bits of a frame on average.
    mean: u32,
    /// Bits that earlier frames did not use.
    saved: u32,
}

impl AacEncoder {
    /// Creates an encoder. A bit rate outside of what frames can have is clamped.
    ///
    /// # Errors
    /// Returns the setting that AAC does not have.
    pub fn new(settings: AacSettings) -> Result<Self, AacSettingsError> {
        let AacSettings {
            rate,
            channels,
            bitrate,
        } = settings;
        if !RATES.contains(&rate) {
            return Err(AacSettingsError::Rate(rate));
        }
        if !(1..=2).contains(&channels) {
            return Err(AacSettingsError::Channels(channels));
        }
        let mean = bitrate.bps().saturating_mul(LINES as u64) / u64::from(rate);
        let mean = mean.clamp(u64::from(FRAME_BITS_MIN), u64::from(FRAME_BITS_MAX)) as u32;
        let table = BandTable::new(&Bands::at(rate).long, rate, bandwidth(mean, rate));
        Ok(Self {
            quantized: Quantized::new(table.ranges.len()),
            costs: Vec::with_capacity(table.ranges.len()),
            table,
            settings,
            mdct: Mdct::new(),
            before: Box::new([0.0; LINES]),
            now: Box::new([0.0; LINES]),
            spectrum: Box::new([0.0; LINES]),
            prepared: Prepared::new(),
            mean,
            saved: 0,
        })
    }

    /// Returns what the encoder makes.
    pub const fn settings(&self) -> AacSettings {
        self.settings
    }

    /// Encodes samples of one channel, −1.0 to 1.0: what is beyond is clipped, and what is no number
    /// is silence. A decoder returns them with the frame after: the delay is a frame.
    pub fn encode(&mut self, samples: &[f32; AAC_FRAME_SAMPLES]) -> Vec<u8> {
        std::mem::swap(&mut self.before, &mut self.now);
        for (to, from) in self.now.iter_mut().zip(samples) {
            *to = if from.is_finite() {
                from.clamp(-1.0, 1.0)
            } else {
                0.0
            };
        }
        self.mdct
            .transform(&self.before, &self.now, &mut self.spectrum);
        self.prepared.prepare(&self.spectrum, &self.table);
        // A quarter of what is saved: the next frames may be as hard.
        let budget = (self.mean + self.saved / 4).min(FRAME_BITS_MAX);
        let frame = self.search(budget);
        let bits = 8 * frame.len() as u32;
        // A decoder's buffer holds the longest frame.
        self.saved = (self.saved + self.mean)
            .saturating_sub(bits)
            .min(FRAME_BITS_MAX - self.mean);
        frame
    }

    /// Returns the frame with the least noise that has at most `budget` bits.
    fn search(&mut self, budget: u32) -> Vec<u8> {
        let (mut low, mut high) = (LEVELS.start, LEVELS.end);
        while low < high {
            let level = low + (high - low) / 2;
            match self.try_level(level).0 <= budget {
                true => high = level,
                false => low = level + 1,
            }
        }
        let mut level = high;
        loop {
            let (bits, books) = self.try_level(level);
            // Fewer bits with more noise is a rule with exceptions; silence always fits.
            if bits <= budget || level >= LEVELS.end {
                return self.write(&books);
            }
            level += 1;
        }
    }

    /// Quantizes the spectrum at a level of noise. Returns the bits of the frame, and the codebook of
    /// each band up to the last one that is not zero.
    fn try_level(&mut self, level: i32) -> (u32, Vec<u8>) {
        self.prepared
            .quantize(&self.spectrum, &self.table, level, &mut self.quantized);
        let bands = self.quantized.largest.iter().rposition(|it| *it > 0);
        let bands = bands.map_or(0, |last| last + 1);
        self.costs.clear();
        for (range, largest) in self.table.ranges[..bands]
            .iter()
            .zip(&self.quantized.largest)
        {
            let values = &self.quantized.values[range.clone()];
            let mut costs = [None; BOOKS];
            for (number, cost) in (0..).zip(&mut costs) {
                *cost = codes::bits_of(number, values, *largest);
                // A band of zeros within a section has a scale factor.
                if *largest == 0 && number != ZERO {
                    *cost = cost.map(|bits| bits + 1);
                }
            }
            self.costs.push(costs);
        }
        let Sections { books, bits } = Sections::choose(&self.costs);
        let scales = self.scale_differences(&books);
        let scales: u32 = scales
            .map(|it| u32::from(codes::scale_factor(it).length))
            .sum();
        // Bands of zeros within sections were counted with both.
        let doubled = books.iter().zip(&self.quantized.largest);
        let doubled = doubled.filter(|(book, largest)| **book != ZERO && **largest == 0);
        let doubled = doubled.count() as u32;
        let fixed = FIXED_BITS[usize::from(self.settings.channels == 2)];
        let side = match self.settings.channels {
            2 => sections::header_bits(&vec![ZERO; bands]),
            _ => 0,
        };
        (fixed + bits + scales - doubled + side, books)
    }

    /// Returns the scale factors of the bands in sections with codes, each as the difference to the
    /// one before. A band of zeros takes the scale factor before it, which costs one bit.
    fn scale_differences(&self, books: &[u8]) -> impl Iterator<Item = i32> {
        let mut before = self.first_scale();
        let bands = books.iter().zip(&self.quantized.largest);
        let bands = bands.zip(&self.quantized.scales);
        let coded = bands.filter(|((book, _), _)| **book != ZERO);
        coded.map(move |((_, largest), scale)| {
            let scale = if *largest > 0 { *scale } else { before };
            let difference = scale - before;
            before = scale;
            difference
        })
    }

    /// Returns the scale factor of the first band that is not zero.
    fn first_scale(&self) -> i32 {
        let mut bands = self.quantized.largest.iter().zip(&self.quantized.scales);
        let first = bands.find(|(largest, _)| **largest > 0);
        first.map_or(0, |(_, scale)| *scale)
    }

    /// Writes the frame (§4.4.2.1) whose bands have these codebooks.
    fn write(&self, books: &[u8]) -> Vec<u8> {
        let mut writer = BitWriter::default();
        let is_pair = self.settings.channels == 2;
        // The element, 0 for one channel and 1 for two, and its tag.
        writer.put(u32::from(is_pair), 3);
        writer.put(0, 4);
        if is_pair {
            // Both channels have the same windows. All bands are middle and side.
            writer.put(1, 1);
            write_info(books.len(), &mut writer);
            writer.put(2, 2);
        }
        writer.put(self.first_scale() as u32, 8);
        if !is_pair {
            write_info(books.len(), &mut writer);
        }
        Sections::write(books, &mut writer);
        for difference in self.scale_differences(books) {
            let code = codes::scale_factor(difference);
            writer.put(code.bits, u32::from(code.length));
        }
        // No pulses, no noise shaping, no gain control.
        writer.put(0, 3);
        for (book, range) in books.iter().zip(&self.table.ranges) {
            codes::write(*book, &self.quantized.values[range.clone()], &mut writer);
        }
        if is_pair {
            // The side has nothing.
            writer.put(0, 8);
            Sections::write(&vec![ZERO; books.len()], &mut writer);
            writer.put(0, 3);
        }
        // The end.
        writer.put(0b111, 3);
        writer.into_bytes()
    }
}

/// Writes `ics_info` of a long window with the sine shape (table 4.6).
fn write_info(bands: usize, writer: &mut BitWriter) {
    // Reserved, window sequence, window shape.
    writer.put(0, 4);
    writer.put(bands as u32, 6);
    // No prediction.
    writer.put(0, 1);
}

/// Returns the highest frequency in Hz that is encoded: at few bits for each sample, the highest
/// bands would come and go.
fn bandwidth(mean: u32, rate: u32) -> u32 {
    let bits_of_sample = mean as f32 / LINES as f32;
    let share = (0.35 + 0.35 * bits_of_sample).min(1.0);
    (share * rate as f32 / 2.0) as u32
}
