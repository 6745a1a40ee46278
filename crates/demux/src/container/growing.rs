//! Containers that a pipe brings: what they have is handed out as it arrives.

use std::collections::VecDeque;
use std::io::Read;

use glassline_media::{Kind, Track};

use super::indexed_track::{Entry, IndexedTrackBuilder};
use crate::error::{Fault, Reason, WarningReason, Warnings};
use crate::pipe_reader::{PipeReader, PipeUnit};
use crate::window::Window;

/// A container that is read from its start on, one element at a time. Files and pipes are read
/// alike; of a file the index is kept, of a pipe each unit is handed out.
pub(crate) trait Growing: Send {
    /// Reads the next element. Returns false at the end.
    fn advance(&mut self) -> Result<bool, Fault>;

    /// Returns the offset of the next element.
    fn position(&self) -> u64;

    /// Returns the window that the bytes are seen through.
    fn window(&mut self) -> &mut Window;

    /// Returns the tracks that are known so far, in the order in which they became known.
    fn builders(&mut self) -> Vec<&mut IndexedTrackBuilder>;

    /// Returns whether all tracks are known.
    fn has_all_tracks(&self) -> bool;

    /// Returns whether the container states decoding times.
    fn states_decoding_times(&self) -> bool;

    /// Takes the warnings so far.
    fn take_warnings(&mut self) -> Warnings;

    /// Returns the window, at the end.
    fn into_window(self) -> Window;
}

/// Reads a container from a pipe.
pub(crate) struct GrowingReader<G> {
    container: G,
    warnings: Warnings,
}

impl<G: Growing> GrowingReader<G> {
    pub(crate) fn new(container: G) -> Self {
        Self {
            container,
            warnings: Warnings::default(),
        }
    }

    /// Hands out the units of the element that was just read.
    fn take_units(&mut self, out: &mut VecDeque<PipeUnit>) -> Result<(), Fault> {
        let has_decodes = self.container.states_decoding_times();
        let found: Vec<(usize, Kind, Entry, Option<i64>)> = self
            .container
            .builders()
            .into_iter()
            .enumerate()
            .flat_map(|(place, builder)| {
                let kind = builder.track.kind();
                let units = builder.drain().into_iter();
                units.map(move |(entry, decode_ns)| (place, kind, entry, decode_ns))
            })
            .collect();
        for (place, kind, entry, decode_ns) in found {
            let bytes = self.container.window().load(entry.offset, entry.length())?;
            let builders = self.container.builders();
            let coding = builders[place].coding();
            out.push_back(PipeUnit {
                track: place,
                start_ns: entry.start_ns,
                decode_ns: decode_ns.filter(|_| has_decodes),
                duration_ns: (kind != Kind::Video && entry.span_ns() > 0)
                    .then_some(entry.span_ns()),
                keyframe: entry.keyframe() || kind != Kind::Video,
                after_loss: false,
                data: coding.unit(bytes, entry.bare()),
            });
        }
        Ok(())
    }
}

impl<G: Growing + 'static> PipeReader for GrowingReader<G> {
    fn tracks(&mut self) -> Vec<Track> {
        let builders = self.container.builders().into_iter();
        builders.map(|builder| builder.track.clone()).collect()
    }

    fn has_all_tracks(&self) -> bool {
        self.container.has_all_tracks()
    }

    fn read(&mut self, out: &mut VecDeque<PipeUnit>) -> Result<bool, Fault> {
        let position = self.container.position();
        if self.container.window().peek(position, 1)?.is_empty() {
            return Ok(false);
        }
        let read = self.container.advance().and_then(|more| {
            self.take_units(out)?;
            Ok(more)
        });
        let position = self.container.position();
        let window = self.container.window();
        window.release(position);
        match read {
            Ok(more) => Ok(more),
            // The writer was stopped within a frame.
            Err(fault) if window.is_ended() && !matches!(fault.reason, Reason::Read(_)) => {
                match self.container.builders().iter().any(|it| it.has_begun()) {
                    true => {
                        self.warnings.add(fault.offset, WarningReason::Truncated);
                        Ok(false)
                    }
                    false => Err(fault),
                }
            }
            Err(fault) => Err(fault),
        }
    }

    fn take_warnings(&mut self) -> Warnings {
        let mut warnings = std::mem::take(&mut self.warnings);
        warnings.append(&mut self.container.take_warnings());
        for builder in self.container.builders() {
            builder.warn(&mut warnings);
        }
        warnings
    }

    fn into_rest(self: Box<Self>) -> Option<Box<dyn Read + Send>> {
        let position = self.container.position();
        self.container.into_window().into_rest(position)
    }
}
