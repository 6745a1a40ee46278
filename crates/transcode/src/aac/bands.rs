//! Widths of the scale factor bands of AAC by sampling rate (ISO/IEC 14496-3, tables 4.110 to
//! 4.128), for frames of 1024 samples.

/// Widths in spectral values as pairs: so many bands, each so wide.
type Runs = &'static [(usize, usize)];

/// The scale factor bands at one sampling rate.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Bands {
    /// Width of each band of a long window, in spectral values.
    pub(crate) long: Vec<usize>,
    /// Width of each band of one of the eight short windows.
    pub(crate) short: Vec<usize>,
}

impl Bands {
    /// Returns the bands at a sampling rate in Hz. Rates between those of the tables take the bands
    /// of the range that they are in (table 4.82).
    pub(crate) fn at(rate: u32) -> Self {
        let (long, short) = match rate {
            75_132.. => (LONG_96, SHORT_96),
            55_426.. => (LONG_64, SHORT_96),
            37_566.. => (LONG_48, SHORT_48),
            27_713.. => (LONG_32, SHORT_48),
            18_783.. => (LONG_24, SHORT_24),
            9_391.. => (LONG_16, SHORT_16),
            _ => (LONG_8, SHORT_8),
        };
        let widths = |runs: Runs| {
            let runs = runs.iter();
            let widths = runs.flat_map(|(count, width)| std::iter::repeat_n(*width, *count));
            widths.collect()
        };
        Self {
            long: widths(long),
            short: widths(short),
        }
    }
}

const LONG_48: Runs = &[
    (10, 4),
    (7, 8),
    (4, 12),
    (2, 16),
    (2, 20),
    (2, 24),
    (2, 28),
    (19, 32),
    (1, 96),
];
const SHORT_48: Runs = &[(5, 4), (3, 8), (3, 12), (3, 16)];
const LONG_32: Runs = &[
    (10, 4),
    (7, 8),
    (4, 12),
    (2, 16),
    (2, 20),
    (2, 24),
    (2, 28),
    (22, 32),
];
const LONG_8: Runs = &[
    (13, 12),
    (7, 16),
    (4, 20),
    (3, 24),
    (2, 28),
    (1, 32),
    (2, 36),
    (1, 40),
    (1, 44),
    (1, 48),
    (1, 52),
    (1, 56),
    (1, 60),
    (1, 64),
    (1, 80),
];
const SHORT_8: Runs = &[(7, 4), (4, 8), (1, 12), (1, 16), (2, 20)];
const LONG_16: Runs = &[
    (11, 8),
    (9, 12),
    (4, 16),
    (3, 20),
    (2, 24),
    (2, 28),
    (1, 32),
    (1, 36),
    (2, 40),
    (1, 44),
    (1, 48),
    (1, 52),
    (1, 56),
    (1, 60),
    (3, 64),
];
const SHORT_16: Runs = &[(8, 4), (2, 8), (2, 12), (1, 16), (2, 20)];
const LONG_24: Runs = &[
    (11, 4),
    (10, 8),
    (4, 12),
    (3, 16),
    (2, 20),
    (2, 24),
    (2, 28),
    (1, 32),
    (2, 36),
    (1, 40),
    (1, 44),
    (1, 48),
    (2, 52),
    (5, 64),
];
const SHORT_24: Runs = &[(7, 4), (3, 8), (2, 12), (2, 16), (1, 20)];
const LONG_64: Runs = &[
    (14, 4),
    (4, 8),
    (3, 12),
    (3, 16),
    (1, 20),
    (2, 24),
    (1, 28),
    (1, 36),
    (18, 40),
];
const SHORT_96: Runs = &[(6, 4), (3, 8), (1, 16), (1, 28), (1, 36)];
const LONG_96: Runs = &[
    (14, 4),
    (5, 8),
    (5, 12),
    (2, 16),
    (1, 24),
    (1, 28),
    (1, 36),
    (1, 44),
    (11, 64),
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bands_cover_the_spectrum_of_every_rate() {
        for rate in glassline_media::aac::RATES.into_iter().chain([1, 200_000]) {
            let bands = Bands::at(rate);
            assert_eq!(bands.long.iter().sum::<usize>(), 1024, "{rate}");
            assert_eq!(bands.short.iter().sum::<usize>(), 128, "{rate}");
        }
        let counts = |rate| {
            let bands = Bands::at(rate);
            (bands.long.len(), bands.short.len())
        };
        assert_eq!(counts(48_000), (49, 14));
        assert_eq!(counts(8_000), (40, 15));
        assert_eq!(counts(96_000), (41, 12));
    }

    /// ISO/IEC 14496-3, tables 4.82 and 4.110 to 4.128.
    #[test]
    fn each_range_of_rates_has_its_bands() {
        for (rates, counts) in [
            (75_132..=96_000, (41, 12)),
            (55_426..=75_131, (47, 12)),
            (37_566..=55_425, (49, 14)),
            (27_713..=37_565, (51, 14)),
            (18_783..=27_712, (47, 15)),
            (9_391..=18_782, (43, 15)),
            (0..=9_390, (40, 15)),
        ] {
            for rate in [*rates.start(), *rates.end()] {
                let bands = Bands::at(rate);
                assert_eq!((bands.long.len(), bands.short.len()), counts, "{rate}");
            }
        }
    }
}
