//! Opus of more than two channels: several streams in each packet (RFC 7845 §5.1.1).

use std::fmt;

/// Most channels of several streams: those whose order RFC 7845 §5.1.1.2 defines.
const CHANNELS_MAX: usize = 8;

/// Number of a channel that is silent.
const SILENT: u8 = 255;

/// Which Opus streams of a packet hold which channels.
///
/// As text these are format parameters, which WebRTC implementations and GStreamer understand for
/// the encoding name `multiopus`.
///
/// ```
/// use glassline_media::OpusStreams;
///
/// let surround = OpusStreams::new(4, 2, &[0, 4, 1, 2, 3, 5]).expect("5.1");
/// assert_eq!(
///     surround.to_string(),
///     "num_streams=4;coupled_streams=2;channel_mapping=0,4,1,2,3,5"
/// );
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct OpusStreams {
    streams: u8,
    coupled: u8,
    mapping: [u8; CHANNELS_MAX],
    channels: u8,
}

impl OpusStreams {
    /// Describes `streams` streams, the first `coupled` of which hold two channels. `mapping` names
    /// for each channel, in the order of Vorbis, its place in the streams, or 255 if it is silent.
    ///
    /// Returns `None` unless there are 1 to 8 channels and each is in the streams.
    pub fn new(streams: u8, coupled: u8, mapping: &[u8]) -> Option<Self> {
        let coded = streams.checked_add(coupled)?;
        let is_known = |channel: &u8| *channel < coded || *channel == SILENT;
        if !(1..=CHANNELS_MAX).contains(&mapping.len())
            || streams == 0
            || coupled > streams
            || usize::from(coded) > mapping.len()
            || !mapping.iter().all(is_known)
        {
            return None;
        }
        let mut all = [SILENT; CHANNELS_MAX];
        all[..mapping.len()].copy_from_slice(mapping);
        Some(Self {
            streams,
            coupled,
            mapping: all,
            channels: mapping.len() as u8,
        })
    }

    /// Returns the number of streams in each packet, 1 to 8.
    pub const fn streams(&self) -> u8 {
        self.streams
    }

    /// Returns how many of the streams, the first ones, hold two channels.
    pub const fn coupled(&self) -> u8 {
        self.coupled
    }

    /// Returns for each channel its place in the streams, or 255 if it is silent.
    pub fn mapping(&self) -> &[u8] {
        &self.mapping[..usize::from(self.channels)]
    }
}

impl fmt::Display for OpusStreams {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self {
            streams, coupled, ..
        } = self;
        write!(
            f,
            "num_streams={streams};coupled_streams={coupled};channel_mapping="
        )?;
        for (index, channel) in self.mapping().iter().enumerate() {
            let comma = if index == 0 { "" } else { "," };
            write!(f, "{comma}{channel}")?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn mappings_that_contradict_themselves_are_refused() {
        assert!(
            OpusStreams::new(2, 0, &[0, 1]).is_some(),
            "two mono streams"
        );
        assert!(
            OpusStreams::new(1, 1, &[0, 255, 1]).is_some(),
            "one is silent"
        );
        let refused: [(u8, u8, &[u8]); 7] = [
            (0, 0, &[255]),
            (1, 0, &[]),
            (1, 2, &[0, 1, 2]),
            (2, 1, &[0, 1, 3]),
            (5, 4, &[0; 8]),
            (200, 200, &[0; 8]),
            (1, 1, &[0; 9]),
        ];
        for (streams, coupled, mapping) in refused {
            let made = OpusStreams::new(streams, coupled, mapping);
            assert_eq!(made, None, "{streams} {coupled} {mapping:?}");
        }
    }
}
