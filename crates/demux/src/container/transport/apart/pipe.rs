//! Video and audio of a transport stream that comes through a pipe.

use std::collections::VecDeque;

use glassline_media::{MediaTime, Track};

use super::Streams;
use super::stamps::ns;
use crate::container::transport::packet::{PACKET_BYTES, Packet};
use crate::container::transport::packets::{self, Layout, SEARCH_BYTES_MAX};
use crate::error::{Fault, NotApart, Reason, WarningReason, Warnings};
use crate::pipe_reader::{PipeReader, PipeUnit};
use crate::window::Window;

/// Bytes in which the layout of the packets is searched, in turn.
const START_BYTES: [usize; 3] = [1024, 4096, 32 * 1024];

/// Packets in which the program map must be found.
const TABLE_PACKETS_MAX: u64 = 1 << 16;

/// Scrambled packets in which a stream that is not scrambled must have begun.
const SCRAMBLED_PACKETS_MAX: u64 = 1 << 12;

/// Reads the first video and the first audio of a pipe.
pub(crate) struct TransportPipe {
    window: Window,
    at: u64,
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

impl TransportPipe {
    pub(crate) fn new(window: Window) -> Self {
        Self {
            window,
            at: 0,
            layout: None,
            streams: Streams::default(),
            packets: 0,
            junk: 0,
            order: Vec::new(),
        }
    }

    /// Finds out how the packets lie, from few bytes where these suffice: a pipe may bring few
    /// a second.
    fn find_layout(&mut self) -> Result<Layout, Fault> {
        for length in START_BYTES {
            let start = self.window.peek(0, length)?;
            if let Some((at, layout)) = packets::layout(start) {
                self.at = at as u64;
                self.layout = Some(layout);
                return Ok(layout);
            }
        }
        let searched = START_BYTES.into_iter().max().unwrap_or(0) as u64;
        Err(Fault::at(0, super::super::no_packets(searched)))
    }

    /// Reads the next packet, or skips a byte. Returns false at the end.
    fn advance(&mut self, layout: Layout) -> Result<bool, Fault> {
        let bytes = self.window.peek(self.at, layout.lead() + PACKET_BYTES)?;
        let Some(packet) = bytes.get(layout.lead()..).and_then(<[u8]>::first_chunk) else {
            return Ok(false);
        };
        if !layout.begins(bytes) {
            self.junk += 1;
            self.at += 1;
            if self.junk > SEARCH_BYTES_MAX {
                let reason = super::super::no_packets(SEARCH_BYTES_MAX);
                return Err(Fault::at(self.at, reason));
            }
            return Ok(true);
        }
        let packet = Packet(*packet);
        if self.junk > 0 {
            let reason = WarningReason::Skipped(std::mem::take(&mut self.junk));
            self.streams.warnings.add(Some(self.at), reason);
        }
        self.streams.push(self.at, &packet);
        self.at += layout.stride as u64;
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
                data: unit.data,
            });
        }
    }
}

impl PipeReader for TransportPipe {
    fn tracks(&mut self) -> Vec<Track> {
        let described = self
            .order
            .iter()
            .filter_map(|&it| self.streams.describe(it));
        described.map(|described| described.track).collect()
    }

    fn has_all_tracks(&self) -> bool {
        self.streams.count() == Some(self.order.len())
    }

    fn read(&mut self, out: &mut VecDeque<PipeUnit>) -> Result<bool, Fault> {
        let layout = match self.layout {
            Some(layout) => layout,
            None => self.find_layout()?,
        };
        let more = self.advance(layout)?;
        if !more {
            self.streams.finish();
        }
        self.take_units(out);
        self.window.release(self.at);
        self.check()?;
        Ok(more)
    }

    fn take_warnings(&mut self) -> Warnings {
        self.streams.take_warnings()
    }
}
