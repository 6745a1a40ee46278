//! Video and audio of a transport stream whose bytes are pushed, in pieces of any sizes.

use std::collections::VecDeque;

use glassline_media::{MediaTime, Track};

use super::Streams;
use super::stamps::ns;
use crate::container::transport::packet::{PACKET_BYTES, Packet};
use crate::container::transport::packets::{self, Layout, RUN, SEARCH_BYTES_MAX};
use crate::error::{Fault, NotApart, Reason, WarningReason, Warnings};
use crate::pipe_reader::PipeUnit;

/// Bytes in which the layout of the packets is searched, in turn: few are enough in most cases, and a
/// stream may have few a second.
const START_BYTES: [usize; 3] = [1024, 4096, 32 * 1024];

/// Packets in which the program map must be found.
const TABLE_PACKETS_MAX: u64 = 1 << 16;

/// Scrambled packets in which a stream that is not scrambled must have begun.
const SCRAMBLED_PACKETS_MAX: u64 = 1 << 12;

/// Finds the units of the first video and the first audio. How the bytes are cut makes no difference.
///
/// Memory is bounded by the bytes of one push and by an access unit of each stream.
#[derive(Default)]
pub(crate) struct PushedTransport {
    /// Bytes that belong to no packet yet, of which `passed` are behind us.
    bytes: Vec<u8>,
    passed: usize,
    /// Number of bytes before `bytes`.
    base: u64,
    has_ended: bool,
    /// Known from the first packets on.
    layout: Option<Layout>,
    streams: Streams,
    /// Number of packets so far.
    packets: u64,
    /// Bytes in a row that belong to no packet.
    junk: u64,
    /// Numbers of the streams, in the order in which their first units came.
    order: Vec<usize>,
}

impl PushedTransport {
    /// Creates a reader of packets of which some may be lost on their way: units of which a part is
    /// missing are left out, and the next one says so.
    pub(crate) fn with_losses() -> Self {
        let streams = Streams {
            may_lose: true,
            ..Streams::default()
        };
        Self {
            streams,
            ..Self::default()
        }
    }

    /// Adds the next bytes, or ends the stream if there are none.
    pub(crate) fn push(&mut self, bytes: &[u8]) {
        self.bytes.drain(..self.passed);
        self.base += self.passed as u64;
        self.passed = 0;
        self.bytes.extend_from_slice(bytes);
        self.has_ended |= bytes.is_empty();
    }

    /// Reads the next packet, and appends the units that are complete with it. Returns false if more
    /// bytes are needed.
    ///
    /// # Errors
    /// The bytes are no transport stream, or have nothing that is played.
    pub(crate) fn advance(&mut self, out: &mut VecDeque<PipeUnit>) -> Result<bool, Fault> {
        let more = match self.layout {
            Some(layout) => self.take_packet(layout)?,
            None => self.find_layout()?,
        };
        if !more && self.has_ended {
            self.streams.finish();
        }
        self.take_units(out);
        self.check()?;
        Ok(more)
    }

    /// Returns the tracks in the order in which their first units came.
    pub(crate) fn tracks(&self) -> Vec<Track> {
        let described = self
            .order
            .iter()
            .filter_map(|&it| self.streams.describe(it));
        described.map(|described| described.track).collect()
    }

    /// Returns whether all tracks are known.
    pub(crate) fn has_all_tracks(&self) -> bool {
        self.streams.count() == Some(self.order.len())
    }

    /// Returns whether the program has video of which no unit has come yet.
    pub(crate) fn awaits_video(&self) -> bool {
        let mut numbers = self.streams.video_numbers();
        numbers.any(|number| !self.order.contains(&number))
    }

    /// Takes the warnings so far.
    pub(crate) fn take_warnings(&mut self) -> Warnings {
        self.streams.take_warnings()
    }

    /// Returns the offset of the next byte.
    fn at(&self) -> u64 {
        self.base + self.passed as u64
    }

    /// Finds out how the packets lie. Returns false if more bytes are needed.
    fn find_layout(&mut self) -> Result<bool, Fault> {
        let have = self.bytes.len();
        for length in START_BYTES {
            if have < length && !self.has_ended {
                return Ok(false);
            }
            if let Some((at, layout)) = packets::layout(&self.bytes[..have.min(length)]) {
                self.passed = at;
                self.layout = Some(layout);
                return Ok(true);
            }
        }
        let searched = START_BYTES.into_iter().max().unwrap_or(0) as u64;
        Err(Fault::at(0, super::super::no_packets(searched)))
    }

    /// Reads the next packet, or skips bytes that belong to none. Returns false if more bytes are
    /// needed.
    fn take_packet(&mut self, layout: Layout) -> Result<bool, Fault> {
        let bytes = &self.bytes[self.passed..];
        // A packet behind bytes that belong to none is known by those that follow it.
        let packets = if self.junk > 0 { RUN } else { 1 };
        let wanted = (packets - 1) * layout.stride + layout.lead() + PACKET_BYTES;
        let is_short = bytes.len() < wanted;
        let Some(packet) = bytes.get(layout.lead()..).and_then(<[u8]>::first_chunk) else {
            return Ok(false);
        };
        if is_short && !self.has_ended {
            return Ok(false);
        }
        let begins = match self.junk {
            0 => layout.begins(bytes),
            _ => layout.fits(&bytes[..bytes.len().min(wanted)]),
        };
        if !begins {
            self.junk += 1;
            self.passed += 1;
            if self.junk > SEARCH_BYTES_MAX {
                let reason = super::super::no_packets(SEARCH_BYTES_MAX);
                return Err(Fault::at(self.at(), reason));
            }
            return Ok(true);
        }
        let (packet, at) = (Packet(*packet), self.at());
        if self.junk > 0 {
            let reason = WarningReason::Skipped(std::mem::take(&mut self.junk));
            self.streams.warnings.add(Some(at), reason);
        }
        self.streams.push(at, &packet);
        // The code behind the last packet may be missing.
        self.passed += layout.stride.min(self.bytes.len() - self.passed);
        self.packets += 1;
        Ok(true)
    }

    /// Fails if there is nothing to wait for.
    fn check(&self) -> Result<(), Fault> {
        let nothing = |what: &str| Err(Fault::whole(Reason::NothingToPlay(what.to_owned())));
        match self.streams.count() {
            Some(0) => nothing(&format!(
                "the transport stream has neither H.264 nor H.265 nor AAC, MPEG audio, AC-3 or \
                 Opus: {}",
                self.streams.not_apart()
            )),
            Some(_)
                if self.order.is_empty() && self.streams.scrambled() > SCRAMBLED_PACKETS_MAX =>
            {
                nothing(&NotApart::Scrambled.to_string())
            }
            None if self.packets > TABLE_PACKETS_MAX => nothing("no program map (PAT and PMT)"),
            _ => Ok(()),
        }
    }

    fn take_units(&mut self, out: &mut VecDeque<PipeUnit>) {
        while let Some((number, unit)) = self.streams.found.pop_front() {
            let known = self.order.iter().position(|it| *it == number);
            let track = known.unwrap_or_else(|| {
                self.order.push(number);
                self.order.len() - 1
            });
            let rate = self.streams.describe(number).map_or(0, |it| it.sample_rate);
            let duration = unit.samples.filter(|_| rate > 0).map(|samples| {
                let ticks = MediaTime::from_ticks(samples.into(), rate);
                ticks.nanos()
            });
            out.push_back(PipeUnit {
                track,
                start_ns: ns(unit.presented),
                decode_ns: Some(ns(unit.decoded)),
                duration_ns: duration,
                keyframe: unit.keyframe,
                after_loss: unit.after_loss,
                data: unit.data,
            });
        }
    }
}
