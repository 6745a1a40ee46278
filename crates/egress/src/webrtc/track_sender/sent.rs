//! Which packet left under which sequence number, so that it can be sent again.

use std::collections::VecDeque;

use super::legs::LegNumber;

/// Number of runs of consecutive packets that a viewer can still ask for again. Each frame of one that gets
/// half of the frames is a run.
const RUNS_MAX: usize = 64;

/// A packet of a track's layer that left. Later packets are greater.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct SentPacket {
    /// The leg whose layer has the packet.
    pub leg: LegNumber,
    /// Number of the packet in its layer.
    pub packet: u64,
}

/// Consecutive sequence numbers that carry consecutive packets of a layer.
#[derive(Clone, Copy, Debug, Default)]
struct Run {
    sequence: u64,
    first: SentPacket,
    count: u64,
}

/// The packets that left last.
#[derive(Debug, Default)]
pub(super) struct SentPackets {
    /// The run that the next packet may extend.
    run: Run,
    /// Earlier runs, oldest first.
    runs: VecDeque<Run>,
}

impl SentPackets {
    /// Notes that `count` packets, from `first` on, left under the sequence numbers from `sequence` on.
    pub(super) fn note(&mut self, sequence: u64, first: SentPacket, count: u64) {
        let run = &mut self.run;
        let is_next = run.first.leg == first.leg
            && run.sequence + run.count == sequence
            && run.first.packet + run.count == first.packet;
        if is_next {
            run.count += count;
            return;
        }
        if run.count > 0 {
            if self.runs.len() + 1 == RUNS_MAX {
                self.runs.pop_front();
            }
            self.runs.push_back(*run);
        }
        *run = Run {
            sequence,
            first,
            count,
        };
    }

    /// Returns the packet that left under the extended sequence number `sequence`; `None` if none did,
    /// or too long ago.
    pub(super) fn get(&self, sequence: u64) -> Option<SentPacket> {
        let mut newest_first = std::iter::once(&self.run).chain(self.runs.iter().rev());
        let run = newest_first.find(|run| run.sequence <= sequence)?;
        let within = sequence - run.sequence;
        (within < run.count).then_some(SentPacket {
            packet: run.first.packet + within,
            ..run.first
        })
    }

    /// Returns the sequence number behind the latest one.
    pub(super) const fn end(&self) -> u64 {
        self.run.sequence + self.run.count
    }

    /// Reads what [`note`](Self::note) will read, so that it is in the cache.
    pub(super) const fn prefetch(&self) -> u64 {
        self.run.count
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn note(sent: &mut SentPackets, sequence: u64, packet: u64, count: u64) {
        let leg = LegNumber::default();
        sent.note(sequence, SentPacket { leg, packet }, count);
    }

    fn found(sent: &SentPackets, sequence: u64) -> Option<u64> {
        sent.get(sequence).map(|it| it.packet)
    }

    #[test]
    fn sequence_numbers_lead_back_to_packets_across_skips() {
        let mut sent = SentPackets::default();
        assert_eq!(found(&sent, 0), None);
        for offset in 0..100u64 {
            note(&mut sent, 65_500 + offset, 1000 + offset, 1);
        }
        note(&mut sent, 65_600, 5000, 10);
        assert_eq!(found(&sent, 65_500), Some(1000));
        assert_eq!(found(&sent, 65_599), Some(1099));
        assert_eq!(found(&sent, 65_605), Some(5005));
        assert_eq!(found(&sent, 65_499), None, "before the first");
        assert_eq!(found(&sent, 65_610), None, "not sent yet");
        for skip in 1..=RUNS_MAX as u64 {
            note(&mut sent, 65_609 + skip, 10_000 * skip, 1);
        }
        assert_eq!(found(&sent, 65_500), None, "too many skips ago");
    }

    #[test]
    fn sequence_numbers_that_are_left_out_lead_to_no_packet() {
        let mut sent = SentPackets::default();
        note(&mut sent, 100, 0, 3);
        // Packets 3 and 4 follow a gap of seven sequence numbers.
        note(&mut sent, 110, 3, 2);
        // Packets are left out, and no sequence number.
        note(&mut sent, 112, 9, 1);
        let numbers = [100, 102, 103, 109, 110, 111, 112, 113];
        let packets = numbers.map(|sequence| found(&sent, sequence));
        let [a, b, c, d, e] = [0, 2, 3, 4, 9].map(Some);
        assert_eq!(packets, [a, b, None, None, c, d, e, None]);
    }
}
