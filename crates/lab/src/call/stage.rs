//! The parts of the way from a mouth to an ear, and what their tables are called.

use serde::Serialize;

use super::unit::Unit;

/// What a table counts: a stage of the way, a part of one, or what devices do.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum Stage {
    /// Between two calls of the recording device.
    CaptureInterval,
    /// The packet's own length: its first sample waits for its last.
    Capture,
    /// What else there is before the frame is whole: the device's buffer, periods that
    /// are no multiple of a frame, sending evenly what came at once.
    Reframe,
    /// Echo cancellation, noise suppression and gain: the operation.
    Preprocess,
    /// What pre-processing delays the audio by: overlaps and filters.
    PreprocessSignal,
    /// Waiting for the encoder and encoding, where there was something to encode.
    Encode,
    /// Waiting for the encoder.
    EncodeQueue,
    /// Encoding.
    EncodeOperation,
    /// What the encoder delays the audio by.
    EncodeLookAhead,
    /// From the encoder's output until the socket has the packet.
    Send,
    /// Into the pacer's queue.
    SendEnqueue,
    /// Held back by the pacer.
    SendPace,
    /// From the pacer to the network thread.
    SendHandOver,
    /// In the network thread's queue.
    SendQueue,
    /// Sealing and the system call.
    SendSocket,
    /// From one socket to the other.
    Network,
    /// From the socket into the jitter buffer: opened, parsed, inserted.
    Open,
    /// Waiting in the jitter buffer.
    JitterBuffer,
    /// Decoding, or concealing.
    Decode,
    /// Mixing.
    Mix,
    /// Decoding and mixing together: what the study's mixer does in one call.
    Mixer,
    /// Resampling for the playing device: the operation.
    Resample,
    /// What resampling delays the audio by.
    ResampleSignal,
    /// Between two calls of the playing device.
    PlayoutInterval,
    /// In the playing device's buffer.
    Playout,
    /// The whole way.
    MouthToEar,
}

/// How a table belongs to the way.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Role {
    /// Frames pass through it: the delays of all of these add up to mouth-to-ear.
    Way,
    /// The same, but of samples inside their frames: no clock sees it.
    Signal,
    /// Some of these together, or a piece of one: told apart, not added.
    Account,
    /// What a device does: an interval, not a delay.
    Interval,
}

impl Stage {
    /// Every table, in the order of the way.
    pub const ALL: [Self; 26] = [
        Self::CaptureInterval,
        Self::Capture,
        Self::Reframe,
        Self::Preprocess,
        Self::PreprocessSignal,
        Self::Encode,
        Self::EncodeQueue,
        Self::EncodeOperation,
        Self::EncodeLookAhead,
        Self::Send,
        Self::SendEnqueue,
        Self::SendPace,
        Self::SendHandOver,
        Self::SendQueue,
        Self::SendSocket,
        Self::Network,
        Self::Open,
        Self::JitterBuffer,
        Self::Decode,
        Self::Mix,
        Self::Mixer,
        Self::Resample,
        Self::ResampleSignal,
        Self::PlayoutInterval,
        Self::Playout,
        Self::MouthToEar,
    ];
}

impl Stage {
    /// The name in JSON and CSV.
    pub const fn as_str(self) -> &'static str {
        self.description().0
    }

    /// What people read.
    pub const fn title(self) -> &'static str {
        self.description().1
    }

    /// What its rows count in.
    pub const fn unit(self) -> Unit {
        self.description().2
    }

    /// How it belongs to the way.
    pub const fn role(self) -> Role {
        self.description().3
    }

    /// Units are the study's where it has the table.
    const fn description(self) -> (&'static str, &'static str, Unit, Role) {
        use Role::{Account, Interval, Signal, Way};
        use Unit::{Bins, Ms, Us};
        match self {
            Self::CaptureInterval => ("capture_interval", "Capture interval", Ms, Interval),
            Self::Capture => ("capture", "Capture: the packet's own length", Ms, Way),
            Self::Reframe => ("reframe", "Device's buffer and re-framing", Ms, Way),
            Self::Preprocess => ("preprocess", "Pre-processing", Us, Way),
            Self::PreprocessSignal => {
                ("preprocess_signal", "Overlap of pre-processing", Ms, Signal)
            }
            Self::Encode => ("encode", "Encoding, with its queue", Us, Account),
            Self::EncodeQueue => ("encode_queue", "Waiting for the encoder", Us, Way),
            Self::EncodeOperation => ("encode_operation", "Encoding", Us, Way),
            Self::EncodeLookAhead => ("encode_look_ahead", "The encoder's look-ahead", Ms, Signal),
            Self::Send => ("send", "Sending", Ms, Account),
            Self::SendEnqueue => ("send_enqueue", "Sending: into the pacer's queue", Us, Way),
            Self::SendPace => ("send_pace", "Sending: held back by the pacer", Us, Way),
            Self::SendHandOver => ("send_hand_over", "Sending: to the network thread", Us, Way),
            Self::SendQueue => ("send_queue", "Sending: the network thread's queue", Us, Way),
            Self::SendSocket => ("send_socket", "Sending: sealing and the socket", Us, Way),
            Self::Network => ("network", "Network", Bins, Way),
            Self::Open => ("open", "Opening and inserting", Us, Way),
            Self::JitterBuffer => ("jitter_buffer", "Waiting to be decoded", Ms, Way),
            Self::Decode => ("decode", "Decoding", Us, Way),
            Self::Mix => ("mix", "Mixing", Us, Way),
            Self::Mixer => ("mixer", "Decoding and mixing", Us, Account),
            Self::Resample => ("resample", "Resampling after the mix", Us, Way),
            Self::ResampleSignal => ("resample_signal", "The resamplers' filters", Ms, Signal),
            Self::PlayoutInterval => ("playout_interval", "Playout interval", Ms, Interval),
            Self::Playout => ("playout", "Playing device's buffer", Ms, Way),
            Self::MouthToEar => ("mouth_to_ear", "Mouth to ear", Ms, Account),
        }
    }
}

impl std::fmt::Display for Stage {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(self.as_str())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_stage_is_listed_once_under_the_name_that_tools_read() {
        for (place, stage) in Stage::ALL.into_iter().enumerate() {
            assert_eq!(stage as usize, place);
            let name = serde_json::to_value(stage).expect("a name");
            assert_eq!(name, stage.as_str());
        }
        assert_eq!(Stage::MouthToEar as usize + 1, Stage::ALL.len());
    }
}
