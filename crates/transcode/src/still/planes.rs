//! A picture of 8 bits and 4:2:0 in memory of its own or of a decoder, and smaller copies.

use std::borrow::Cow;

use openh264::formats::YUVSource;

use super::SizeLimit;
use crate::FrameSize;

/// Three planes: luminance, and two of chrominance with half as many columns and rows.
pub(super) struct Planes<'a> {
    pub(super) luminance: Plane<'a>,
    pub(super) chrominance: [Plane<'a>; 2],
}

/// The samples of one plane, row after row.
pub(crate) struct Plane<'a> {
    samples: Cow<'a, [u8]>,
    /// Samples from the beginning of a row to that of the next.
    stride: usize,
    pub(super) size: FrameSize,
}

impl<'a> Planes<'a> {
    /// Borrows a decoded picture.
    pub(super) fn of(source: &'a impl YUVSource) -> Self {
        let (width, height) = source.dimensions();
        let size = FrameSize::new(width, height);
        let (stride, u_stride, v_stride) = source.strides();
        let half = |samples, stride| Plane {
            samples: Cow::Borrowed(samples),
            stride,
            size: size.half(),
        };
        Self {
            luminance: Plane {
                samples: Cow::Borrowed(source.y()),
                stride,
                size,
            },
            chrominance: [half(source.u(), u_stride), half(source.v(), v_stride)],
        }
    }

    pub(super) const fn size(&self) -> FrameSize {
        self.luminance.size
    }

    /// Returns the picture in `size`, or borrows it if it has that.
    pub(super) fn scaled(&self, size: FrameSize) -> Planes<'_> {
        if size == self.size() {
            return Planes {
                luminance: self.luminance.borrowed(),
                chrominance: self.chrominance.each_ref().map(Plane::borrowed),
            };
        }
        let half = FrameSize::new(size.width.div_ceil(2), size.height.div_ceil(2));
        Planes {
            luminance: self.luminance.averaged(size),
            chrominance: self.chrominance.each_ref().map(|it| it.averaged(half)),
        }
    }

    /// Returns the picture in memory of its own.
    pub(super) fn into_owned(self) -> Planes<'static> {
        Planes {
            luminance: self.luminance.into_owned(),
            chrominance: self.chrominance.map(Plane::into_owned),
        }
    }

    /// Returns the bytes of memory that the samples take.
    pub(super) fn bytes(&self) -> usize {
        let chrominance = self.chrominance.iter().map(|it| it.samples.len());
        self.luminance.samples.len() + chrominance.sum::<usize>()
    }
}

impl Plane<'_> {
    fn borrowed(&self) -> Plane<'_> {
        Plane {
            samples: Cow::Borrowed(&self.samples),
            stride: self.stride,
            size: self.size,
        }
    }

    fn into_owned(self) -> Plane<'static> {
        Plane {
            samples: Cow::Owned(self.samples.into_owned()),
            stride: self.stride,
            size: self.size,
        }
    }

    /// Creates a plane of `samples`, row after row.
    pub(crate) fn new(samples: Vec<u8>, size: FrameSize) -> Self {
        Self {
            samples: Cow::Owned(samples),
            stride: size.width,
            size,
        }
    }

    /// Returns row `y`; a row behind the last is the last.
    pub(crate) fn row(&self, y: usize) -> &[u8] {
        let start = y.min(self.size.height - 1) * self.stride;
        &self.samples[start..start + self.size.width]
    }

    /// Returns a plane of another size. In a smaller one each sample is the mean of those that it stands
    /// for, in a larger one samples are repeated.
    pub(crate) fn averaged<'b>(&self, size: FrameSize) -> Plane<'b> {
        let FrameSize { width, height } = size;
        let mut samples = Vec::with_capacity(width * height);
        let mut sums = vec![0_u32; width];
        let columns: Vec<_> = (0..width)
            .map(|x| spanned(x, width, self.size.width))
            .collect();
        for y in 0..height {
            let rows = spanned(y, height, self.size.height);
            sums.fill(0);
            for row in rows.clone() {
                let row = self.row(row);
                for (sum, columns) in sums.iter_mut().zip(&columns) {
                    *sum += row[columns.clone()]
                        .iter()
                        .copied()
                        .map(u32::from)
                        .sum::<u32>();
                }
            }
            samples.extend(sums.iter().zip(&columns).map(|(sum, columns)| {
                let count = columns.len() * rows.len();
                let count = u32::try_from(count).unwrap_or(u32::MAX);
                u8::try_from((sum + count / 2) / count).unwrap_or(u8::MAX)
            }));
        }
        Plane {
            samples: Cow::Owned(samples),
            stride: width,
            size,
        }
    }
}

/// Returns which of `from` samples the sample `at` of `to` stands for; at least one.
fn spanned(at: usize, to: usize, from: usize) -> std::ops::Range<usize> {
    let start = at * from / to;
    start..((at + 1) * from / to).max(start + 1)
}

/// Returns the largest size within `limit` and not above `size`, in the proportions of `size`.
pub(super) fn fitted(size: FrameSize, limit: SizeLimit) -> FrameSize {
    let FrameSize { width, height } = size;
    let most = |limit: Option<u16>, size: usize| limit.map_or(size, usize::from).clamp(1, size);
    let (width_max, height_max) = (most(limit.width, width), most(limit.height, height));
    if width * height_max <= height * width_max {
        FrameSize::new((width * height_max / height).max(1), height_max)
    } else {
        FrameSize::new(width_max, (height * width_max / width).max(1))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_sample_stands_for_those_that_it_covers() {
        for (to, from, expected) in [
            (2, 4, &[0..2, 2..4][..]),
            (2, 5, &[0..2, 2..5]),
            (3, 4, &[0..1, 1..2, 2..4]),
            (4, 4, &[0..1, 1..2, 2..3, 3..4]),
            (4, 2, &[0..1, 0..1, 1..2, 1..2]),
            (5, 3, &[0..1, 0..1, 1..2, 1..2, 2..3]),
            (3, 1, &[0..1, 0..1, 0..1]),
        ] {
            let spans: Vec<_> = (0..to).map(|at| spanned(at, to, from)).collect();
            assert_eq!(spans, expected, "{from} to {to}");
        }
        assert_eq!(spanned(0, 1, 3), 0..3);
    }

    #[test]
    fn sizes_fit_in_their_proportions() {
        let limit = |width, height| SizeLimit { width, height };
        for (size, limit, fits) in [
            ((40, 30), limit(None, None), (40, 30)),
            ((40, 30), limit(Some(20), None), (20, 15)),
            ((40, 30), limit(None, Some(10)), (13, 10)),
            ((40, 30), limit(Some(8), Some(9)), (8, 6)),
            ((40, 30), limit(Some(16), Some(9)), (12, 9)),
            ((40, 30), limit(Some(100), Some(100)), (40, 30)),
            ((40, 30), limit(Some(0), None), (1, 1)),
            ((30, 40), limit(Some(9), Some(10)), (7, 10)),
            ((1, 900), limit(None, Some(20)), (1, 20)),
            ((900, 1), limit(Some(20), None), (20, 1)),
        ] {
            let [size, fits] = [size, fits].map(|(width, height)| FrameSize::new(width, height));
            assert_eq!(fitted(size, limit), fits, "{size:?} {limit:?}");
        }
    }

    fn plane(rows: &[&[u8]]) -> Plane<'static> {
        Plane::new(rows.concat(), FrameSize::new(rows[0].len(), rows.len()))
    }

    fn rows<'a>(plane: &'a Plane<'_>) -> Vec<&'a [u8]> {
        assert_eq!(plane.samples.len(), plane.stride * plane.size.height);
        (0..plane.size.height).map(|y| plane.row(y)).collect()
    }

    #[test]
    fn smaller_planes_are_means_and_larger_ones_repeat() {
        let plane = plane(&[&[0, 10, 20, 31], &[40, 50, 61, 70], &[80, 91, 100, 255]]);
        assert_eq!(plane.row(0), [0, 10, 20, 31]);
        assert_eq!(plane.row(2), [80, 91, 100, 255]);
        assert_eq!(plane.row(3), plane.row(2), "behind the last is the last");
        let same = plane.averaged(FrameSize::new(4, 3));
        assert_eq!(rows(&same), rows(&plane));
        // Halves are rounded up.
        let narrow = plane.averaged(FrameSize::new(2, 3));
        assert_eq!(rows(&narrow), [[5, 26], [45, 66], [86, 178]]);
        let flat = plane.averaged(FrameSize::new(4, 1));
        assert_eq!(rows(&flat), [[40, 50, 60, 119]]);
        let one = plane.averaged(FrameSize::new(1, 1));
        assert_eq!(rows(&one), [[67]]);
        let small = plane.averaged(FrameSize::new(2, 2));
        assert_eq!(rows(&small), [[5, 26], [65, 122]]);
        let large = plane.averaged(FrameSize::new(8, 4));
        let doubled = |row: [u8; 4]| row.map(|it| [it; 2]).concat();
        let (first, second) = (doubled([0, 10, 20, 31]), doubled([40, 50, 61, 70]));
        let last = doubled([80, 91, 100, 255]);
        assert_eq!(rows(&large), [&first, &first, &second, &last]);
    }

    #[test]
    fn white_stays_white_in_large_means() {
        let white = Plane::new(vec![255; 600 * 300], FrameSize::new(600, 300));
        assert_eq!(rows(&white.averaged(FrameSize::new(2, 1))), [[255, 255]]);
    }

    #[test]
    fn chrominance_has_half_of_the_size_rounded_up() {
        let planes = || Planes {
            luminance: Plane::new((0..48).collect(), FrameSize::new(8, 6)),
            chrominance: [1, 2].map(|level| Plane::new(vec![level; 12], FrameSize::new(4, 3))),
        };
        let limit = |width| SizeLimit {
            width: Some(width),
            height: None,
        };
        for (width, luminance, chrominance) in [
            (8, (8, 6), (4, 3)),
            (7, (7, 5), (4, 3)),
            (4, (4, 3), (2, 2)),
        ] {
            let planes = planes();
            let smaller = planes.scaled(fitted(planes.size(), limit(width)));
            let size = |plane: &Plane<'_>| (plane.size.width, plane.size.height);
            assert_eq!(size(&smaller.luminance), luminance);
            for (plane, level) in smaller.chrominance.iter().zip([1, 2]) {
                assert_eq!(size(plane), chrominance);
                assert!(plane.samples.iter().all(|it| *it == level));
            }
        }
    }
}
