//! Commands from users to a reading, and the reading's status.

use std::time::Duration;

use glassline_hub::PublishError;
use glassline_media::MediaTime;
use parking_lot::Mutex;

use super::frame_source::SourceError;
use super::play::Play;

/// The state that a reading on its thread shares with its users.
#[derive(Debug, Default)]
pub(super) struct Control(Mutex<Inner>);

#[derive(Debug, Default)]
struct Inner {
    command: PlayCommand,
    /// Counts commands. Frames read for an older command are not published any more.
    generation: u64,
    status: Status,
    users: usize,
    gone: bool,
}

/// The status that a reading reports to its users.
#[derive(Debug, Default)]
pub(super) struct Status {
    pub(super) started: Option<Result<Started, Failure>>,
    /// Position in the file of the newest published unit.
    pub(super) position: Duration,
}

/// The command that a reading follows.
#[derive(Clone, Debug, Default)]
pub(super) enum PlayCommand {
    #[default]
    Pause,
    Play(Play),
}

/// The beginning of a reading after a command to play.
#[derive(Clone, Debug, PartialEq)]
pub struct Started {
    /// Whether the reading goes on with the unit behind the last one that it published, as after a pause.
    pub continues: bool,
    /// Position in the file where the reading begins: the keyframe before the requested position.
    /// For the `Range` header.
    pub from: Duration,
    /// Position in the file where the reading ends, if that is before the file's end.
    pub until: Option<Duration>,
    /// Scale in effect, which is the requested one brought within the limits.
    pub scale: f64,
    /// Speed in effect, which is the requested one brought within the limits.
    pub speed: f64,
    /// Time of `from` on the stream's timeline, for the timestamps of `RTP-Info`.
    pub time: MediaTime,
    /// For each track the number of the reading's first packet (see
    /// [`MediaUnit::first_packet`](glassline_media::MediaUnit::first_packet)).
    pub first_packets: Vec<u64>,
}

/// The reason why a reading stopped early.
#[derive(Clone, Debug, thiserror::Error)]
pub enum Failure {
    /// Nothing is there, the file changed while it was read, or the disk failed.
    #[error(transparent)]
    Source(#[from] SourceError),
    /// The stream has another source.
    #[error(transparent)]
    Publish(#[from] PublishError),
}

impl Control {
    /// Creates the state with one user.
    pub(super) fn new() -> Self {
        let control = Self::default();
        control.0.lock().users = 1;
        control
    }

    /// Gives a command. When this returns, nothing that was read for the command before is
    /// published any more.
    pub(super) fn command(&self, command: PlayCommand) {
        let mut inner = self.0.lock();
        if !matches!(command, PlayCommand::Pause) {
            inner.status.started = None;
        }
        inner.command = command;
        inner.generation += 1;
    }

    /// Returns the present command and its generation, unless it is the one of `generation`.
    pub(super) fn new_command(&self, generation: u64) -> Option<(u64, PlayCommand)> {
        let inner = self.0.lock();
        (inner.generation != generation).then(|| (inner.generation, inner.command.clone()))
    }

    /// Gives the command to play, unless an earlier command is still in effect. Returns whether the
    /// command was given.
    pub(super) fn command_first(&self, play: Play) -> bool {
        let mut inner = self.0.lock();
        let has_failed = matches!(inner.status.started, Some(Err(_)));
        let is_first = inner.generation == 0 || has_failed;
        if is_first {
            inner.command = PlayCommand::Play(play);
            inner.generation += 1;
            inner.status.started = None;
        }
        is_first
    }

    /// Calls `publish` while no other command can be given. Returns `None` without calling it if
    /// there is a newer command than that of `generation`.
    pub(super) fn publish<T>(
        &self,
        generation: u64,
        publish: impl FnOnce(&mut Status) -> T,
    ) -> Option<T> {
        let mut inner = self.0.lock();
        (inner.generation == generation).then(|| publish(&mut inner.status))
    }

    pub(super) fn fail(&self, failure: Failure) {
        self.0.lock().status.started = Some(Err(failure));
    }

    pub(super) fn started(&self) -> Option<Result<Started, Failure>> {
        self.0.lock().status.started.clone()
    }

    pub(super) fn position(&self) -> Duration {
        self.0.lock().status.position
    }

    /// Adds a user. Returns false if the reading has ended.
    pub(super) fn join(&self) -> bool {
        let mut inner = self.0.lock();
        if !inner.gone {
            inner.users += 1;
        }
        !inner.gone
    }

    pub(super) fn leave(&self) {
        let mut inner = self.0.lock();
        inner.users = inner.users.saturating_sub(1);
    }

    pub(super) fn has_users(&self) -> bool {
        self.0.lock().users > 0
    }

    /// Ends the reading unless it has users. Returns whether it has ended.
    pub(super) fn end_unless_used(&self) -> bool {
        let mut inner = self.0.lock();
        inner.gone = inner.users == 0;
        inner.gone
    }

    /// Ends the reading, whether it has users or not.
    pub(super) fn end(&self) {
        self.0.lock().gone = true;
    }
}
