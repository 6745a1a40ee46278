use std::collections::BTreeMap;

/// Numbers below this one lie in a table. A chatty application has its few channels there,
/// and a peer that uses the highest number makes nobody allocate for all below it.
const TABLE: u16 = 64;

/// State of streams, by number: a table for low numbers, which each message looks up several
/// times, and an ordered map for all others.
#[derive(Debug)]
pub(crate) struct StreamMap<T> {
    /// State of the streams from 0 on, as far as one of them was used.
    low: Vec<T>,
    /// State of the streams from [`TABLE`] on that were used.
    high: BTreeMap<u16, T>,
}

impl<T> Default for StreamMap<T> {
    fn default() -> Self {
        Self {
            low: Vec::new(),
            high: BTreeMap::new(),
        }
    }
}

impl<T: Default> StreamMap<T> {
    /// Returns the state of a stream; `None` if neither that stream nor a higher one of the
    /// table was used.
    #[inline]
    pub(crate) fn get(&self, stream: u16) -> Option<&T> {
        if stream < TABLE {
            self.low.get(usize::from(stream))
        } else {
            self.high.get(&stream)
        }
    }

    /// Returns the state of a stream to be changed, where [`get`](Self::get) returns one.
    #[inline]
    pub(crate) fn get_mut(&mut self, stream: u16) -> Option<&mut T> {
        if stream < TABLE {
            self.low.get_mut(usize::from(stream))
        } else {
            self.high.get_mut(&stream)
        }
    }

    /// Returns the state of a stream to be changed, which is the default before its first use.
    #[inline]
    pub(crate) fn entry(&mut self, stream: u16) -> &mut T {
        if stream >= TABLE {
            return self.high.entry(stream).or_default();
        }
        let place = usize::from(stream);
        if place >= self.low.len() {
            self.low.resize_with(place + 1, T::default);
        }
        &mut self.low[place]
    }

    /// Forgets the state of a stream.
    pub(crate) fn remove(&mut self, stream: u16) {
        if stream >= TABLE {
            self.high.remove(&stream);
        } else if let Some(state) = self.low.get_mut(usize::from(stream)) {
            *state = T::default();
        }
    }

    /// Iterates over the states that exist, by ascending number.
    pub(crate) fn iter_mut(&mut self) -> impl Iterator<Item = (u16, &mut T)> {
        let low = (0..TABLE).zip(&mut self.low);
        low.chain(self.high.iter_mut().map(|(stream, state)| (*stream, state)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn low_and_high_streams_are_told_apart_and_begin_with_the_default() {
        let mut map = StreamMap::<u32>::default();
        assert_eq!(map.get(0), None);
        for stream in [3, TABLE - 1, TABLE, u16::MAX] {
            assert_eq!(*map.entry(stream), 0);
            *map.entry(stream) += u32::from(stream);
        }
        assert_eq!(map.get(4), Some(&0));
        assert_eq!(map.get(TABLE + 1), None);
        assert_eq!(map.get_mut(u16::MAX), Some(&mut 65_535));
        let used: Vec<(u16, u32)> = map.iter_mut().map(|it| (it.0, *it.1)).collect();
        let used: Vec<_> = used.into_iter().filter(|it| it.1 > 0).collect();
        assert_eq!(used, [(3, 3), (63, 63), (64, 64), (u16::MAX, 65_535)]);
        for stream in [3, u16::MAX, 1000] {
            map.remove(stream);
        }
        assert_eq!((map.get(3), map.get(u16::MAX)), (Some(&0), None));
    }
}
