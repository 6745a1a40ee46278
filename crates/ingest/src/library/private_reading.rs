use std::sync::Arc;
use std::time::Duration;

use glassline_hub::{self as hub, State, Stream, StreamName};

use super::control::{Control, PlayCommand};
use super::control::{Failure, Started};
use super::driver::Handle;
use super::frame_source::Playable;
use super::play::Play;
use super::reading::{Audience, Reading};
use super::readings::{Full, ReadingPermit, Readings};

/// Limits of a private stream. No viewer joins it later, so it only needs to hold what one client
/// may lag, and there may be a thousand such streams.
const LIMITS: hub::Limits = hub::Limits {
    ring_bytes: 2 << 20,
    ring_span: Duration::from_secs(2),
    repair_span: Duration::from_secs(1),
    streams: 1,
    departed_span: Duration::ZERO,
};

/// A reading for one client. Dropping it ends the reading.
#[derive(Debug)]
pub struct PrivateReading {
    control: Arc<Control>,
    stream: Arc<Stream>,
    handle: Handle,
    _permit: ReadingPermit,
}

pub(super) fn open(
    readings: &Arc<Readings>,
    of: Arc<dyn Playable>,
    play: Option<Play>,
) -> Result<PrivateReading, Full> {
    let permit = readings.permit()?;
    let stream = Stream::unlisted(unlisted_name(of.name()), LIMITS);
    let control = Arc::new(Control::new());
    if let Some(play) = play {
        control.command(PlayCommand::Play(play));
    }
    let reading = Reading::new(of, Arc::clone(&stream), Arc::clone(&control), Audience::One);
    let handle = readings.add(reading);
    Ok(PrivateReading {
        control,
        stream,
        handle,
        _permit: permit,
    })
}

/// Returns the name of an unlisted stream that plays `played`, for logs. Characters that stream names must
/// not have become `_`.
pub(super) fn unlisted_name(played: &str) -> StreamName {
    let allowed = |c: char| c.is_ascii_alphanumeric() || "._~-".contains(c);
    let letters = played.chars().map(|c| if allowed(c) { c } else { '_' });
    // A leading `~` is allowed in stream names and makes reserved words valid.
    let text: String = std::iter::once('~').chain(letters).take(64).collect();
    StreamName::parse(&text).expect("the letters are allowed and few")
}

impl Readings {
    /// Creates a reading for one client, which waits for a command to play.
    ///
    /// # Errors
    /// Returns [`Full`] if there are as many readings as there may be.
    pub fn open(self: &Arc<Self>, of: Arc<dyn Playable>) -> Result<PrivateReading, Full> {
        open(self, of, None)
    }
}

impl PrivateReading {
    /// Returns the stream of the reading. No hub lists it. Its timeline continues over seeks and
    /// pauses, and its tracks are known before the first unit.
    pub fn stream(&self) -> &Arc<Stream> {
        &self.stream
    }

    /// Continues, seeks, or changes the speed. When this returns, nothing of the playback before is
    /// published any more. [`started`](Self::started) tells when the new playback begins; its first
    /// unit wakes the stream's subscribers.
    pub fn play(&self, play: Play) {
        self.control.command(PlayCommand::Play(play));
        self.handle.wake();
    }

    /// Pauses. When this returns, nothing more is published. Returns the position in the file, for
    /// the `Range` header.
    pub fn pause(&self) -> Duration {
        self.control.command(PlayCommand::Pause);
        self.handle.wake();
        self.position()
    }

    /// Returns how the latest [`play`](Self::play) began; `None` until it has begun.
    ///
    /// # Errors
    /// Returns [`Failure`] if the file cannot be read any more.
    pub fn started(&self) -> Option<Result<Started, Failure>> {
        self.control.started()
    }

    /// Returns the position in the file of the newest published unit.
    pub fn position(&self) -> Duration {
        self.control.position()
    }

    /// Returns whether playback came to its end or failed.
    pub fn is_over(&self) -> bool {
        matches!(
            self.stream.state(),
            State::Ended { .. } | State::Down { .. }
        )
    }
}

impl Drop for PrivateReading {
    fn drop(&mut self) {
        self.control.leave();
        self.handle.wake();
    }
}
