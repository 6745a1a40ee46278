//! How much noise each band of a spectrum may have, and its values at that noise.
//!
//! Noise follows the signal, weaker than it: where a band is loud, noise is heard less. What the noise
//! of a band is relative to the others is decided once a frame; a search then raises or lowers all of
//! them together until the frame has its bits.

use std::ops::Range;

use super::codes::{DIFFERENCE_MAX, VALUE_MAX};
use super::mdct::LINES;

/// Exponent by which noise follows the energy: 0 is the best signal-to-noise ratio, 1 is the same
/// ratio in all bands.
const FOLLOWING: f32 = 0.5;

/// Energy of a spectral value of noise as strong as that of 16-bit samples: finer is not asked for.
const FINEST: f32 = 2_048.0 / 12.0;

/// Fall of masking towards higher and lower frequencies, as exponents of 2 for each Bark: 15 and
/// 30 dB.
const MASKING_UP: f32 = 5.0;
const MASKING_DOWN: f32 = 10.0;

/// The addend before a value is cut off: below 0.5, since small values are more frequent.
const ROUNDING: f32 = 0.4054;

/// Scale factor of the step 1 (ISO/IEC 14496-3, §4.6.2.3.3).
const SCALE_OF_ONE: f32 = 100.0;
const SCALE_MAX: i32 = 255;

/// A spectrum as integers.
#[derive(Clone, Debug)]
pub(super) struct Quantized {
    pub(super) values: Box<[i16; LINES]>,
    /// Largest absolute value of each band; bands that have only zeros have no scale factor.
    pub(super) largest: Vec<u16>,
    /// Scale factor of each band, 0 to 255.
    pub(super) scales: Vec<i32>,
}

impl Quantized {
    pub(super) fn new(bands: usize) -> Self {
        Self {
            values: Box::new([0; LINES]),
            largest: vec![0; bands],
            scales: vec![0; bands],
        }
    }
}

/// Where the bands of a spectrum are, and what of noise in one is heard in another.
#[derive(Debug)]
pub(super) struct BandTable {
    pub(super) ranges: Vec<Range<usize>>,
    /// Distance of each band to the one before, in Bark.
    distances: Vec<f32>,
}

impl BandTable {
    /// Creates the table of bands of these widths, up to `bandwidth` in Hz.
    pub(super) fn new(widths: &[usize], rate: u32, bandwidth: u32) -> Self {
        let hz_of_line = rate as f32 / 2.0 / LINES as f32;
        let mut start = 0;
        let mut ranges = Vec::new();
        let mut distances = Vec::new();
        let mut before = 0.0;
        for width in widths {
            let range = start..start + width;
            start = range.end;
            if range.start as f32 * hz_of_line >= bandwidth as f32 {
                break;
            }
            let bark = bark((range.start + range.end) as f32 / 2.0 * hz_of_line);
            distances.push(bark - before);
            before = bark;
            ranges.push(range);
        }
        Self { ranges, distances }
    }

    /// Raises the density of each band to what its neighbours mask there.
    fn spread(&self, densities: &mut [f32]) {
        for band in 1..densities.len() {
            let fall = (-MASKING_UP * self.distances[band]).exp2();
            densities[band] = densities[band].max(densities[band - 1] * fall);
        }
        for band in (1..densities.len()).rev() {
            let fall = (-MASKING_DOWN * self.distances[band]).exp2();
            densities[band - 1] = densities[band - 1].max(densities[band] * fall);
        }
    }
}

/// Frequency in Bark (Zwicker and Terhardt).
fn bark(hz: f32) -> f32 {
    13.0 * (0.000_76 * hz).atan() + 3.5 * (hz / 7_500.0).powi(2).atan()
}

/// Facts about a band before it is quantized.
#[derive(Clone, Copy, Debug, Default)]
struct Band {
    /// Scale factor at which the noise is that of level 0.
    scale: f32,
    /// Scale factors below are finer than 16-bit samples, or have values that are too large.
    scale_min: i32,
    /// Level from which on the band has less energy than noise.
    silent_from: i32,
}

/// A spectrum that is ready to be quantized at any level of noise.
pub(super) struct Prepared {
    /// The values' magnitudes to the power of 3/4.
    compressed: Box<[f32; LINES]>,
    bands: Vec<Band>,
    densities: Vec<f32>,
}

impl Prepared {
    pub(super) fn new() -> Self {
        Self {
            compressed: Box::new([0.0; LINES]),
            bands: Vec::new(),
            densities: Vec::new(),
        }
    }

    /// Takes another spectrum.
    pub(super) fn prepare(&mut self, spectrum: &[f32; LINES], table: &BandTable) {
        let ranges = table.ranges.iter();
        self.densities.clear();
        self.densities.extend(ranges.map(|range| {
            let energy: f32 = spectrum[range.clone()].iter().map(|x| x * x).sum();
            energy / range.len() as f32
        }));
        let Self {
            compressed,
            bands,
            densities,
        } = self;
        bands.clear();
        let energies = densities.clone();
        table.spread(densities);
        let masked = densities.iter().zip(&energies);
        for (range, (masked, density)) in table.ranges.iter().zip(masked) {
            let (mut peak, mut roots) = (0.0f32, 0.0);
            for (value, root) in spectrum[range.clone()]
                .iter()
                .zip(&mut compressed[range.clone()])
            {
                let magnitude = value.abs();
                peak = peak.max(magnitude);
                roots += magnitude.sqrt();
                *root = (magnitude * magnitude.sqrt()).sqrt();
            }
            let width = range.len() as f32;
            let noise = masked.max(FINEST).powf(FOLLOWING);
            let finest = scale_for(width * FINEST, roots);
            let smallest =
                SCALE_OF_ONE + 4.0 * (peak / f32::from(VALUE_MAX).powf(4.0 / 3.0)).log2();
            bands.push(Band {
                scale: scale_for(width * noise, roots),
                scale_min: finest.max(smallest).ceil().clamp(0.0, 255.0) as i32,
                silent_from: match *density > FINEST {
                    true => (8.0 / 3.0 * (density / noise).log2()).ceil() as i32,
                    false => i32::MIN,
                },
            });
        }
    }

    /// Quantizes the spectrum with noise of a level: each step is 1.1 dB more noise.
    pub(super) fn quantize(
        &self,
        spectrum: &[f32; LINES],
        table: &BandTable,
        level: i32,
        out: &mut Quantized,
    ) {
        let scale_of = |band: &Band| {
            let scale = (band.scale + level as f32).round() as i32;
            scale.clamp(band.scale_min, SCALE_MAX)
        };
        let loud = self.bands.iter().filter(|band| level < band.silent_from);
        let highest = loud.map(scale_of).max().unwrap_or(0);
        out.values.fill(0);
        for (number, (band, range)) in self.bands.iter().zip(&table.ranges).enumerate() {
            out.largest[number] = 0;
            if level >= band.silent_from {
                continue;
            }
            // Any two bands are neighbours once those between them are zero.
            let scale = scale_of(band).max(highest - DIFFERENCE_MAX);
            out.scales[number] = scale;
            let step = ((SCALE_OF_ONE - scale as f32) * (3.0 / 16.0)).exp2();
            let magnitudes = self.compressed[range.clone()].iter();
            let values = spectrum[range.clone()].iter().zip(magnitudes);
            for (out_value, (value, magnitude)) in out.values[range.clone()].iter_mut().zip(values)
            {
                let quantized = (magnitude * step + ROUNDING) as u16;
                let quantized = quantized.min(VALUE_MAX);
                out.largest[number] = out.largest[number].max(quantized);
                *out_value = if *value < 0.0 {
                    -(quantized as i16)
                } else {
                    quantized as i16
                };
            }
        }
    }
}

/// Returns the scale factor at which a band has this energy of noise. `roots`: sum of the square
/// roots of its magnitudes.
///
/// A value x is quantized evenly as (x / s)^(3/4), so its error is that of even steps of
/// 4/3 s^(3/4) x^(1/4), with an energy of a twelfth of the step's square.
fn scale_for(noise: f32, roots: f32) -> f32 {
    SCALE_OF_ONE + 8.0 / 3.0 * (6.75 * noise / roots.max(f32::MIN_POSITIVE)).log2()
}
