//! Stages of the path from mouth to ear, and the names of their tables.

use serde::Serialize;

use super::unit::Unit;

/// Subject of a table: a stage of the path, a part of one, or the calls of a device.
#[derive(
    Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, derive_more::Display,
)]
#[display("{}", self.as_str())]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum Stage {
    /// Interval between two calls of the capture device.
    CaptureInterval,
    /// Duration of the audio in the packet: its first sample waits for its last.
    Capture,
    /// Rest of the time until the frame is complete: the device's buffer, periods that are no
    /// multiple of a frame, and spreading frames that were captured at once.
    Reframe,
    /// Processor time of echo cancellation, noise suppression and gain control.
    Preprocess,
    /// Signal delay of preprocessing: overlaps and filters.
    PreprocessSignal,
    /// Waiting for the encoder, and encoding, for frames that became a packet.
    Encode,
    /// Waiting for the encoder's thread.
    EncodeQueue,
    /// Time that the encoder itself takes.
    EncodeOperation,
    /// Signal delay of the encoder (look-ahead).
    EncodeLookAhead,
    /// From the encoder's output until the socket has the packet.
    Send,
    /// From the encoder's output into the pacer's queue.
    SendEnqueue,
    /// Wait in the pacer.
    SendPace,
    /// From the pacer to the network thread.
    SendHandOver,
    /// Wait in the network thread's queue.
    SendQueue,
    /// Encryption and the system call.
    SendSocket,
    /// From the sending socket to the receiving one.
    Network,
    /// From the socket into the jitter buffer: decryption, parsing, insertion.
    Open,
    /// Wait in the jitter buffer.
    JitterBuffer,
    /// Time for decoding, or for concealment of a loss.
    Decode,
    /// Mixing of several voices.
    Mix,
    /// Decoding and mixing together, which the study's mixer does in one call.
    Mixer,
    /// Resampling for the playout device: processor time.
    Resample,
    /// Signal delay of resampling.
    ResampleSignal,
    /// Interval between two calls of the playout device.
    PlayoutInterval,
    /// Wait in the playout device's buffer.
    Playout,
    /// The whole path from mouth to ear.
    MouthToEar,
}

/// How a table relates to the whole path.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Role {
    /// A stage that frames pass; the delays of all such stages add up to mouth-to-ear.
    Way,
    /// A stage that adds up, too, but delays samples inside their frames, so that no clock shows
    /// it.
    Signal,
    /// A sum of stages or a part of one; shown for information and not added.
    Account,
    /// An interval between calls of a device, not a delay.
    Interval,
}

impl Stage {
    /// Every table, in the order of the path.
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

    /// The name for people.
    pub const fn title(self) -> &'static str {
        self.description().1
    }

    /// Unit of the table's rows.
    pub const fn unit(self) -> Unit {
        self.description().2
    }

    /// How the table relates to the whole path.
    pub const fn role(self) -> Role {
        self.description().3
    }

    /// Name, title, unit and role. Units are those of the study where it has the table.
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
