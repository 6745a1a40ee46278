use std::time::Instant;

use glassline_media::{Track, TrackIndex};

use super::{TimedUnit, UnitAssembler};
use crate::payload::UnsupportedFormat;
use crate::receive::{Received, SourceReceiver};

/// Receives the tracks of a source up to their access units.
///
/// ```text
/// RTP and RTCP of a track ─► SourceReceiver: order ─► UnitAssembler ─► TimedUnit
/// ```
///
/// Memory is bounded by the reordering and one access unit of each track.
#[derive(Debug)]
pub struct UnitReceiver {
    packets: SourceReceiver,
    assembler: UnitAssembler,
}

impl UnitReceiver {
    /// Creates the state of tracks as their session description has them, whose packets come within a
    /// connection until [`SourceReceiver::come_by_datagrams`] is called.
    ///
    /// # Errors
    /// Returns [`UnsupportedFormat`] if the payload format of a track is not supported.
    pub fn new(tracks: &[Track]) -> Result<Self, UnsupportedFormat> {
        Ok(Self {
            packets: SourceReceiver::new(tracks),
            assembler: UnitAssembler::new(tracks)?,
        })
    }

    /// Returns the state of the packets of each track.
    pub const fn packets(&mut self) -> &mut SourceReceiver {
        &mut self.packets
    }

    /// Forgets a track, which is not received, so that `rest` is left. The tracks behind it move up by
    /// one.
    ///
    /// # Errors
    /// Returns [`UnsupportedFormat`] if the payload format of a track is not supported.
    pub fn leave_out(
        &mut self,
        track: TrackIndex,
        rest: &[Track],
    ) -> Result<(), UnsupportedFormat> {
        self.packets.leave_out(track);
        self.assembler = UnitAssembler::new(rest)?;
        Ok(())
    }

    /// Takes the RTP packet `bytes` of `track`, or an RTCP packet if `control` is set. Hands `sink` the
    /// access units that are complete with it.
    ///
    /// Returns whether `bytes` is media of a known track.
    pub fn take(
        &mut self,
        track: TrackIndex,
        control: bool,
        bytes: &[u8],
        now: Instant,
        mut sink: impl FnMut(TimedUnit),
    ) -> bool {
        let assembler = &mut self.assembler;
        self.packets
            .take(track, control, bytes, now, |track, item| {
                assemble(assembler, track, item, &mut sink);
            })
    }

    /// Gives up missing packets that are overdue, and hands `sink` the access units behind them.
    pub fn expire(&mut self, now: Instant, mut sink: impl FnMut(TimedUnit)) {
        let assembler = &mut self.assembler;
        self.packets.expire(now, |track, item| {
            assemble(assembler, track, item, &mut sink);
        });
    }

    /// Returns how far the sender's wall clock is ahead of the time of `track`, as
    /// [`UnitAssembler::wall_clock`] does.
    pub fn wall_clock(&self, track: TrackIndex) -> Option<i128> {
        self.assembler.wall_clock(track)
    }

    /// Returns when [`Self::expire`] must be called because a missing packet is overdue.
    pub fn deadline(&self) -> Option<Instant> {
        self.packets.deadline()
    }

    /// Returns how many access units were dropped since the last call because they are too large.
    pub fn take_oversized(&mut self) -> u64 {
        self.assembler.take_oversized()
    }
}

fn assemble(
    assembler: &mut UnitAssembler,
    track: TrackIndex,
    item: Received<'_>,
    sink: &mut impl FnMut(TimedUnit),
) {
    match item {
        Received::Packet(packet) => assembler.push(track, packet, sink),
        Received::Report { ntp, timestamp } => assembler.sender_report(track, ntp, timestamp),
    }
}
