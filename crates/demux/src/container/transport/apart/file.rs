//! The index of a file's video and audio.

use std::io;

use super::Streams;
use super::scattered::Scattered;
use super::stamps::ns;
use super::units::FoundUnit;
use crate::container::coding::UnitFacts;
use crate::container::indexed_track::{IndexedTrackBuilder, Sample, UNIT_BYTES_MAX};
use crate::container::transport::packets::{Packets, SEARCH_BYTES_MAX};
use crate::container::{Container, Primed};
use crate::error::{Fault, NotApart, Reason, WarningReason, Warnings};

/// Largest rounding error of stamps: many writers round to milliseconds.
const TICK_NS: i64 = 1_000_000;

/// Packets in which the program map must be found.
const TABLE_PACKETS_MAX: usize = 1 << 16;

/// Reads and indexes a file. Returns why it is not taken apart if its video, or all of it, is of
/// codings that are not taken out, or scrambled. `packets`: the file from its start on.
pub(in super::super) fn open(
    mut packets: Packets,
    warnings: &mut Warnings,
) -> Result<Result<Container, NotApart>, Fault> {
    let mut reading = Reading::default();
    for number in 0.. {
        if !reading.advance(&mut packets)? {
            break;
        }
        if number < TABLE_PACKETS_MAX && reading.streams.count().is_none() {
            continue;
        }
        if !reading.can_play_all_video() {
            return Ok(Err(reading.streams.not_apart()));
        }
    }
    reading.streams.finish();
    reading.take_units()?;
    warnings.append(&mut reading.streams.take_warnings());
    let mut primed = Vec::new();
    for builder in reading.builders.into_iter().flatten() {
        let indexed = builder.finish(true, warnings);
        primed.extend(indexed.map(|indexed| Primed {
            indexed,
            priming_ns: 0,
        }));
    }
    match primed.is_empty() {
        true => Ok(Err(reading.streams.not_apart())),
        false => Container::new(Box::new(Scattered(packets)), primed).map(Ok),
    }
}

/// The state of the pass through the file.
#[derive(Default)]
struct Reading {
    streams: Streams,
    /// The index of each chosen stream, once it has a unit.
    builders: [Option<IndexedTrackBuilder>; 2],
}

impl Reading {
    /// Reads the next packet. Returns false at the end of the file.
    fn advance(&mut self, packets: &mut Packets) -> Result<bool, Fault> {
        let at = packets.offset();
        let taken = packets.take();
        let taken = taken.map_err(|error: io::Error| Fault::at(at, Reason::Read(error)))?;
        if let Some((offset, bytes)) = packets.skipped() {
            if bytes > SEARCH_BYTES_MAX {
                let reason = super::super::no_packets(SEARCH_BYTES_MAX);
                return Err(Fault::at(offset, reason));
            }
            let reason = WarningReason::Skipped(bytes);
            self.streams.warnings.add(Some(offset), reason);
        }
        let Some((offset, packet)) = taken else {
            return Ok(false);
        };
        self.streams.push(offset, &packet);
        self.take_units().map(|()| true)
    }

    /// Returns whether the program has video that is played, or none at all.
    fn can_play_all_video(&self) -> bool {
        let program = self.streams.tables.program();
        program.is_some_and(|program| {
            let mut contents = program.contents.iter().map(|(_, content)| *content);
            let is_left_out = |it| matches!(it, super::Content::OtherVideo(_));
            let plays_video = contents.clone().any(super::Content::is_video);
            let may_be_audio = |it: super::Content| it.is_audio() || it == super::Content::Unnamed;
            plays_video || !contents.clone().any(is_left_out) && contents.any(may_be_audio)
        })
    }

    fn take_units(&mut self) -> Result<(), Fault> {
        while let Some((number, unit)) = self.streams.found.pop_front() {
            let builder = &mut self.builders[number];
            if builder.is_none() {
                let described = self.streams.describe(number);
                *builder = described.map(|it| IndexedTrackBuilder::new(it, TICK_NS, None));
            }
            if let Some(builder) = builder {
                add(builder, &unit)?;
            }
        }
        Ok(())
    }
}

fn add(builder: &mut IndexedTrackBuilder, unit: &FoundUnit) -> Result<(), Fault> {
    let length = u32::try_from(unit.length).unwrap_or(u32::MAX);
    if length > UNIT_BYTES_MAX {
        let at = super::ByteLocation::of(unit.place).packet;
        let limit = UNIT_BYTES_MAX.into();
        return Err(Fault::too_large(
            at,
            "an MPEG transport stream",
            "a unit",
            limit,
            "bytes",
        ));
    }
    let sample = Sample {
        offset: unit.place,
        length: unit.length,
        start_ns: ns(unit.presented),
        decode_ns: Some(ns(unit.decoded)),
        duration_ns: None,
        keyframe: unit.keyframe,
    };
    let facts = UnitFacts {
        keyframe: unit.keyframe,
        bare: unit.bare,
        samples: unit.samples,
    };
    builder.push_examined(sample, length, facts).map(|_| ())
}
