use std::time::Duration;

use crate::codec::Format;

/// How a jitter buffer stands.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Report {
    /// Since it was made.
    pub counts: Counts,
    /// What its frames are.
    pub format: Format,
    /// Decoded and not yet played.
    pub waiting: Duration,
    /// In hand and not yet decoded.
    pub packets: usize,
    /// The playout delay to aim for, above the fastest packets of the last seconds.
    pub target: Duration,
    /// The playout delay, above the same.
    pub delay: Duration,
    /// How much faster the clock here runs than the sender's, in parts per million;
    /// `None` before ten seconds have been heard.
    pub skew_ppm: Option<f64>,
}

/// What was counted; frames are samples of one channel.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// Pulled.
    pub frames: u64,
    /// Made up, because a packet was not there.
    pub frames_concealed: u64,
    /// Background, while the sender was silent.
    pub frames_comfort: u64,
    /// Left out by stretching, silence included.
    pub frames_removed: u64,
    /// Of those, in silence.
    pub frames_removed_in_silence: u64,
    /// Played twice by stretching, silence included.
    pub frames_inserted: u64,
    /// Of those, in silence.
    pub frames_inserted_in_silence: u64,
    /// Packets that belonged to the stream, duplicates not among them.
    pub packets: u64,
    /// Without audio: a sender probes the path with padding. Not among the packets.
    pub empty: u64,
    /// Refused, because they were here before.
    pub duplicates: u64,
    /// Discarded, because they came after their time.
    pub late: u64,
    /// Never seen by the time that their place was passed; late ones among them.
    pub lost: u64,
    /// Recovered from what followed.
    pub recovered: u64,
    /// Played from a redundant copy.
    pub repeated: u64,
    /// Left out, because the delay was far too long.
    pub cut: u64,
    /// Payloads that the codec did not take.
    pub undecodable: u64,
    /// Discarded, because too much was waiting.
    pub overflowed: u64,
    /// Refused, because their numbers were not this stream's.
    pub strays: u64,
    /// Times that a new stream began.
    pub restarts: u64,
}

impl Report {
    /// Of what was pulled, the part that was made up.
    pub fn concealed_ratio(&self) -> f64 {
        self.share(self.counts.frames_concealed)
    }

    /// Of what was pulled, the part by which speech was stretched, either way;
    /// silence, which nobody hears, not counted.
    pub fn stretched_ratio(&self) -> f64 {
        let it = &self.counts;
        let all = it.frames_removed + it.frames_inserted;
        let silent = it.frames_removed_in_silence + it.frames_inserted_in_silence;
        self.share(all - silent)
    }

    fn share(&self, frames: u64) -> f64 {
        frames as f64 / self.counts.frames.max(1) as f64
    }
}
