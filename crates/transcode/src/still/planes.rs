//! A picture of 8 bits and 4:2:0 in memory of its own or of a decoder, and smaller copies.

use std::borrow::Cow;

use openh264::formats::YUVSource;

use super::SizeLimit;

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
    pub(super) width: usize,
    pub(super) height: usize,
}

impl<'a> Planes<'a> {
    /// Borrows a decoded picture.
    pub(super) fn of(source: &'a impl YUVSource) -> Self {
        let (width, height) = source.dimensions();
        let (stride, u_stride, v_stride) = source.strides();
        let half = |samples, stride| Plane {
            samples: Cow::Borrowed(samples),
            stride,
            width: width / 2,
            height: height / 2,
        };
        Self {
            luminance: Plane {
                samples: Cow::Borrowed(source.y()),
                stride,
                width,
                height,
            },
            chrominance: [half(source.u(), u_stride), half(source.v(), v_stride)],
        }
    }

    /// Returns the picture within `limit`, in its proportions.
    pub(super) fn within(self, limit: SizeLimit) -> Self {
        let (width, height) = (self.luminance.width, self.luminance.height);
        let (to_width, to_height) = fitted((width, height), limit);
        if (to_width, to_height) == (width, height) {
            return self;
        }
        let half = (to_width.div_ceil(2), to_height.div_ceil(2));
        Self {
            luminance: self.luminance.averaged((to_width, to_height)),
            chrominance: self.chrominance.map(|plane| plane.averaged(half)),
        }
    }
}

impl Plane<'_> {
    /// Creates a plane of `samples`, row after row.
    pub(crate) fn new(samples: Vec<u8>, (width, height): (usize, usize)) -> Self {
        Self {
            samples: Cow::Owned(samples),
            stride: width,
            width,
            height,
        }
    }

    /// Returns row `y`; a row behind the last is the last.
    pub(crate) fn row(&self, y: usize) -> &[u8] {
        let start = y.min(self.height - 1) * self.stride;
        &self.samples[start..start + self.width]
    }

    /// Returns a plane of another size. In a smaller one each sample is the mean of those that it stands
    /// for, in a larger one samples are repeated.
    pub(crate) fn averaged<'b>(&self, (width, height): (usize, usize)) -> Plane<'b> {
        let mut samples = Vec::with_capacity(width * height);
        let mut sums = vec![0_u32; width];
        let columns: Vec<_> = (0..width).map(|x| spanned(x, width, self.width)).collect();
        for y in 0..height {
            let rows = spanned(y, height, self.height);
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
            width,
            height,
        }
    }
}

/// Returns which of `from` samples the sample `at` of `to` stands for; at least one.
fn spanned(at: usize, to: usize, from: usize) -> std::ops::Range<usize> {
    let start = (at * from / to).min(from - 1);
    start..((at + 1) * from / to).clamp(start + 1, from)
}

/// Returns the largest size within `limit` and not above `size`, in the proportions of `size`.
pub(super) fn fitted((width, height): (usize, usize), limit: SizeLimit) -> (usize, usize) {
    let most = |limit: Option<u16>, size: usize| limit.map_or(size, usize::from).clamp(1, size);
    let (width_max, height_max) = (most(limit.width, width), most(limit.height, height));
    if width * height_max <= height * width_max {
        ((width * height_max / height).max(1), height_max)
    } else {
        (width_max, (height * width_max / width).max(1))
    }
}
