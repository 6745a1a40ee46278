use crate::fragment::{FragmentTrack, Sample};

/// The samples of one track of a file, in a few bytes each.
///
/// A sample takes the bytes of its size, most often two or three. Duration and composition follow only
/// where they differ from those of the sample before.
#[derive(Clone, Debug, Default)]
pub(super) struct TrackLog {
    bytes: Vec<u8>,
    last: Last,
    pub(super) chunks: Vec<Chunk>,
    first_presentation: Option<u64>,
}

/// Samples of a track that stand back to back.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Chunk {
    /// Offset of the first sample in the file.
    pub(super) offset: u64,
    /// Decode time of the first sample in ticks.
    pub(super) decode_ticks: u64,
    /// Number of samples.
    pub(super) samples: u32,
}

/// The values that the next sample is compared with.
#[derive(Clone, Copy, Debug, Default)]
struct Last {
    duration: u32,
    composition: i32,
}

impl TrackLog {
    /// Adds the samples of a fragment whose media stand at `offset`.
    pub(super) fn add(&mut self, track: &FragmentTrack, offset: u64) {
        let presented = track.first_presentation();
        let first = self
            .first_presentation
            .map_or(presented, |it| it.min(presented));
        self.first_presentation = Some(first);
        self.chunks.push(Chunk {
            offset,
            decode_ticks: track.decode_ticks,
            samples: track.samples.len() as u32,
        });
        for sample in &track.samples {
            self.push(sample);
        }
    }

    /// Returns the earliest tick at which a sample is presented; `None` without samples.
    pub(super) fn first_presentation(&self) -> Option<u64> {
        self.first_presentation
    }

    pub(super) fn memory_bytes(&self) -> usize {
        self.bytes.capacity() + self.chunks.capacity() * size_of::<Chunk>()
    }

    /// Returns the samples, in order.
    pub(super) fn samples(&self) -> Samples<'_> {
        Samples {
            rest: &self.bytes,
            last: Last::default(),
        }
    }

    fn push(&mut self, sample: &Sample) {
        let last = self.last;
        let differs = (sample.duration, sample.composition) != (last.duration, last.composition);
        let flags = u64::from(sample.sync) << 1 | u64::from(differs);
        put_number(&mut self.bytes, u64::from(sample.size) << 2 | flags);
        if differs {
            let duration = i64::from(sample.duration) - i64::from(last.duration);
            let composition = i64::from(sample.composition) - i64::from(last.composition);
            put_number(&mut self.bytes, zigzag(duration));
            put_number(&mut self.bytes, zigzag(composition));
        }
        self.last = Last {
            duration: sample.duration,
            composition: sample.composition,
        };
    }
}

/// Iterator over the samples of a log.
#[derive(Clone, Debug)]
pub(super) struct Samples<'a> {
    rest: &'a [u8],
    last: Last,
}

impl Iterator for Samples<'_> {
    type Item = Sample;

    fn next(&mut self) -> Option<Sample> {
        let head = take_number(&mut self.rest)?;
        if head & 1 == 1 {
            let duration = from_zigzag(take_number(&mut self.rest)?);
            let composition = from_zigzag(take_number(&mut self.rest)?);
            self.last.duration = (i64::from(self.last.duration) + duration) as u32;
            self.last.composition = (i64::from(self.last.composition) + composition) as i32;
        }
        Some(Sample {
            size: (head >> 2) as u32,
            duration: self.last.duration,
            composition: self.last.composition,
            sync: head >> 1 & 1 == 1,
        })
    }
}

/// Puts the sign into the lowest bit.
fn zigzag(value: i64) -> u64 {
    (value << 1 ^ value >> 63).cast_unsigned()
}

fn from_zigzag(value: u64) -> i64 {
    (value >> 1).cast_signed() ^ -(value & 1).cast_signed()
}

/// Appends a number of seven bits per byte, lowest first.
fn put_number(out: &mut Vec<u8>, mut value: u64) {
    while value > 0x7f {
        out.push((value & 0x7f) as u8 | 0x80);
        value >>= 7;
    }
    out.push(value as u8);
}

fn take_number(bytes: &mut &[u8]) -> Option<u64> {
    let mut value = 0;
    for place in 0..10 {
        let (&byte, rest) = bytes.split_first()?;
        *bytes = rest;
        value |= u64::from(byte & 0x7f) << (7 * place);
        if byte & 0x80 == 0 {
            return Some(value);
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn logged(samples: Vec<Sample>) -> TrackLog {
        let mut log = TrackLog::default();
        let track = FragmentTrack {
            position: 0,
            decode_ticks: 7,
            samples,
        };
        log.add(&track, 100);
        log
    }

    #[test]
    fn a_steady_sample_takes_two_bytes_and_a_reordered_one_less_than_eight() {
        let sample = |size, composition| Sample {
            size,
            duration: 3000,
            composition,
            sync: false,
        };
        let steady = logged(vec![sample(400, 0); 1000]);
        assert!(steady.bytes.len() <= 2004, "{}", steady.bytes.len());
        let order = [3000, 9000, 3000, 0, 6000];
        let reordered = (0..1000).map(|it| sample(12_000, order[it % 5])).collect();
        let bytes = logged(reordered).bytes.len();
        assert!(bytes < 8 * 1000, "{bytes}");
    }

    proptest! {
        #[test]
        fn samples_come_back(
            samples in prop::collection::vec(
                (any::<u32>(), any::<u32>(), any::<i32>(), any::<bool>()), 0..50)
        ) {
            let samples: Vec<_> = samples
                .into_iter()
                .map(|(size, duration, composition, sync)| {
                    Sample { size, duration, composition, sync }
                })
                .collect();
            let log = logged(samples.clone());
            prop_assert_eq!(log.samples().collect::<Vec<_>>(), samples);
        }
    }
}
