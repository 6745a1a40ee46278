use super::super::assembly::{DropReason, FrameFormat};
use super::markers::{FrameMarkers, Markers};
use super::{Output, SequenceStep};

/// Depacketizer of formats with frames of many packets: all packets of one timestamp. A frame ends at
/// its marker, as far as the coded data and [`Markers`] allow, or where the next frame begins.
#[derive(Debug)]
pub(super) struct Frames<F: ?Sized> {
    unit_bytes_max: usize,
    /// Whether packets are missing before the next one, which then may be in the middle of a
    /// frame.
    gap: bool,
    state: State,
    markers: Markers,
    pub(super) out: Output,
    format: F,
}

/// State of the frame that is being received.
#[derive(Debug)]
enum State {
    /// No frame has begun.
    Idle,
    /// A frame has begun, and nothing of it is missing so far.
    Building(Building),
    /// A frame has begun that is dropped.
    Dropping { timestamp: u32 },
    /// The marker of the packet before ended a frame.
    Ended { timestamp: u32 },
}

#[derive(Debug)]
/// The frame that is being received.
struct Building {
    timestamp: u32,
    after_gap: bool,
    markers: FrameMarkers,
    data: Vec<u8>,
}

/// Most complete frames that are kept until they are polled.
const READY_MAX: usize = 8;

impl<F> Frames<F> {
    pub(super) fn new(format: F, unit_bytes_max: usize) -> Self {
        Self {
            unit_bytes_max,
            gap: true,
            state: State::Idle,
            markers: Markers::default(),
            out: Output::new(READY_MAX),
            format,
        }
    }
}

impl<F: FrameFormat + ?Sized> Frames<F> {
    pub(super) fn push(&mut self, sequence: u64, timestamp: u32, marker: bool, payload: &[u8]) {
        match self.out.step(sequence) {
            SequenceStep::Late => return,
            SequenceStep::Gap => {
                self.gap = true;
                self.drop_unit(DropReason::Loss);
            }
            SequenceStep::First | SequenceStep::Next => {}
        }
        if payload.is_empty() {
            // Padding of a bandwidth probe has a sequence number, but belongs to no frame.
            return;
        }
        self.end_before(timestamp, payload);
        if matches!(self.state, State::Idle) {
            self.begin(timestamp, payload);
        }
        self.gap = false;
        self.take(marker, payload);
        if marker {
            self.on_marker();
        }
    }

    /// Ends the frame under way if the packet belongs to another one.
    fn end_before(&mut self, timestamp: u32, payload: &[u8]) {
        match &mut self.state {
            State::Idle => {}
            State::Building(unit) if unit.timestamp != timestamp => {
                if self.format.has_picture(&unit.data) || self.format.is_open() {
                    self.finish();
                } else {
                    // Headers belong to the picture behind them.
                    unit.timestamp = timestamp;
                }
            }
            State::Building(_) if self.format.is_open() => {}
            State::Building(unit) => {
                let separates = self.format.separates(payload)
                    || !self.markers.end_frames() && self.format.begins(payload);
                if separates && self.format.has_picture(&unit.data) {
                    self.finish();
                }
            }
            State::Dropping { timestamp: dropped } => {
                if *dropped != timestamp || self.format.separates(payload) {
                    self.state = State::Idle;
                }
            }
            State::Ended { timestamp: ended } => {
                if *ended != timestamp {
                    self.markers.was_right();
                    self.state = State::Idle;
                } else if !self.format.continues(payload) {
                    self.state = State::Idle;
                } else {
                    // The rest of a frame that has gone.
                    self.markers.was_wrong();
                    self.out.count(DropReason::Malformed);
                    self.state = State::Dropping { timestamp };
                }
            }
        }
    }

    fn on_marker(&mut self) {
        match &mut self.state {
            State::Building(_) if self.format.is_open() => self.markers.was_wrong(),
            State::Building(unit) if !self.format.has_picture(&unit.data) => {
                self.markers.was_ahead();
            }
            State::Building(_) if self.markers.end_frames() => self.finish_at_marker(),
            State::Dropping { timestamp } if self.markers.end_frames() => {
                self.state = State::Ended {
                    timestamp: *timestamp,
                };
            }
            _ => {}
        }
    }

    fn begin(&mut self, timestamp: u32, payload: &[u8]) {
        if self.gap && !self.format.begins(payload) {
            // Joining in the middle of a frame is not damage unless packets were lost.
            if self.out.loss {
                self.out.counters.damaged += 1;
            }
            self.out.loss = true;
            self.state = State::Dropping { timestamp };
            return;
        }
        self.format.reset();
        self.state = State::Building(Building {
            timestamp,
            after_gap: self.gap,
            markers: FrameMarkers::default(),
            data: Vec::new(),
        });
    }

    fn take(&mut self, marker: bool, payload: &[u8]) {
        let State::Building(Building { data, markers, .. }) = &mut self.state else {
            return;
        };
        let taken = self.format.take(payload, data);
        // A payload fits a datagram, so it adds at most a few times its length.
        let bounded = taken.and_then(|()| {
            within(
                self.unit_bytes_max,
                data.len() + self.format.pending_bytes(),
            )
        });
        // A marker in front of the picture says nothing about its end.
        markers.push(marker && self.format.has_picture(data));
        if let Err(reason) = bounded {
            self.drop_unit(reason);
        }
    }

    /// Completes the frame that is being received, since the next one begins.
    fn finish(&mut self) {
        if let State::Building(unit) = std::mem::replace(&mut self.state, State::Idle) {
            self.markers.ended(unit.markers);
            self.complete(unit);
        }
    }

    /// Completes the frame that is being received, since its last packet has a marker.
    fn finish_at_marker(&mut self) {
        if let State::Building(unit) = std::mem::replace(&mut self.state, State::Idle) {
            self.state = State::Ended {
                timestamp: unit.timestamp,
            };
            self.complete(unit);
        }
    }

    fn complete(&mut self, mut unit: Building) {
        if unit.data.is_empty() && self.format.pending_bytes() == 0 {
            return;
        }
        let finished = self.format.finish(&mut unit.data, unit.after_gap);
        let bounded = within(self.unit_bytes_max, unit.data.len());
        match finished.and_then(|entry| bounded.map(|()| entry)) {
            Ok(entry) => {
                let temporal = self.format.temporal();
                self.out.deliver(unit.timestamp, entry, temporal, unit.data);
            }
            Err(reason) => self.out.count(reason),
        }
    }

    /// Drops the frame that is being received. Its further packets are ignored.
    fn drop_unit(&mut self, reason: DropReason) {
        match self.state {
            State::Building(Building { timestamp, .. }) => {
                self.state = State::Dropping { timestamp };
                self.out.count(reason);
            }
            // What is missing may be the beginning of the next frame.
            State::Ended { .. } => self.state = State::Idle,
            State::Idle | State::Dropping { .. } => {}
        }
    }
}

fn within(unit_bytes_max: usize, bytes: usize) -> Result<(), DropReason> {
    if bytes > unit_bytes_max {
        Err(DropReason::Oversized)
    } else {
        Ok(())
    }
}
