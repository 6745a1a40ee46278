use std::time::Duration;

use crate::codec::Format;

/// State of a jitter buffer.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Report {
    /// Counts since the buffer was made.
    pub counts: Counts,
    /// Format of the decoded audio.
    pub format: Format,
    /// Length of the audio that is decoded and not yet played.
    pub waiting: Duration,
    /// Packets that are queued and not yet decoded.
    pub packets: usize,
    /// Target of the playout delay, above the delay of the fastest packets of the last
    /// seconds.
    pub target: Duration,
    /// Playout delay, above the delay of the fastest packets of the last seconds.
    pub delay: Duration,
    /// How much faster our clock runs than the sender's, in parts per million; `None` during
    /// the first ten seconds.
    pub skew_ppm: Option<f64>,
}

/// Counters of a jitter buffer; frames are samples per channel.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// Frames pulled by the device.
    pub frames: u64,
    /// Frames concealed because a packet was missing.
    pub frames_concealed: u64,
    /// Frames of comfort noise while the sender was silent.
    pub frames_comfort: u64,
    /// Frames removed by stretching, in speech and silence.
    pub frames_removed: u64,
    /// Frames removed by stretching in silence.
    pub frames_removed_in_silence: u64,
    /// Frames inserted by stretching, in speech and silence.
    pub frames_inserted: u64,
    /// Frames inserted by stretching in silence.
    pub frames_inserted_in_silence: u64,
    /// Packets of the stream, without duplicates.
    pub packets: u64,
    /// Packets without audio, by which a sender probes the path; not counted in `packets`.
    pub empty: u64,
    /// Packets refused because they had arrived before.
    pub duplicates: u64,
    /// Packets discarded because their time had passed.
    pub late: u64,
    /// Packets that had not arrived when their time passed, late ones included.
    pub lost: u64,
    /// Packets recovered from redundancy in the following packet (FEC).
    pub recovered: u64,
    /// Packets played from a redundant copy (RED).
    pub repeated: u64,
    /// Packets discarded because the delay was far too long.
    pub cut: u64,
    /// Payloads that the codec refused.
    pub undecodable: u64,
    /// Packets discarded because too many were waiting.
    pub overflowed: u64,
    /// Packets refused because their numbers were not this stream's.
    pub strays: u64,
    /// Times that a new stream began.
    pub restarts: u64,
}

impl Report {
    /// Share of the pulled audio that was concealed, 0 to 1.
    pub fn concealed_ratio(&self) -> f64 {
        self.share(self.counts.frames_concealed)
    }

    /// Share of the pulled audio by which speech was stretched, in either direction; silence,
    /// where stretching is inaudible, is not counted.
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shares_are_of_what_was_pulled_and_silence_may_be_stretched() {
        let report = |counts| Report {
            counts,
            format: Format::new(8_000, 1).expect("mono"),
            waiting: Duration::ZERO,
            packets: 0,
            target: Duration::ZERO,
            delay: Duration::ZERO,
            skew_ppm: None,
        };
        let counts = Counts {
            frames: 1_000,
            frames_concealed: 30,
            frames_removed: 50,
            frames_removed_in_silence: 20,
            frames_inserted: 70,
            frames_inserted_in_silence: 60,
            ..Counts::default()
        };
        assert_eq!(report(counts).concealed_ratio(), 0.03);
        // 30 and 10 of a thousand.
        assert_eq!(report(counts).stretched_ratio(), 0.04);
        assert_eq!(report(Counts::default()).concealed_ratio(), 0.0);
    }
}
