use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use glassline_hub::{self as hub, State, Stream};

use super::context::LibraryContext;
use super::control::{Control, PlayCommand};
use super::control::{Failure, Started};
use super::driver::Handle;
use super::indexed_file::IndexedFile;
use super::play::Play;
use super::reading::{Audience, Reading};

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
    file: Arc<IndexedFile>,
    handle: Handle,
    _permit: ReadingPermit,
}

pub(super) fn open(
    context: &Arc<LibraryContext>,
    file: &Arc<IndexedFile>,
    play: Option<Play>,
) -> Result<PrivateReading, Full> {
    let permit = ReadingPermit::take(context)?;
    let stream = Stream::unlisted(file.unlisted_name(), LIMITS);
    let control = Arc::new(Control::new());
    if let Some(play) = play {
        control.command(PlayCommand::Play(play));
    }
    let reading = Reading::new(
        Arc::clone(file),
        Arc::clone(&stream),
        Arc::clone(&control),
        Audience::One,
    );
    let handle = context.driver.add(reading);
    Ok(PrivateReading {
        control,
        stream,
        file: Arc::clone(file),
        handle,
        _permit: permit,
    })
}

impl PrivateReading {
    /// Returns the stream of the reading. No hub lists it. Its timeline continues over seeks and
    /// pauses, and its tracks are known before the first unit.
    pub fn stream(&self) -> &Arc<Stream> {
        &self.stream
    }

    /// Returns the file that is played.
    pub fn file(&self) -> &Arc<IndexedFile> {
        &self.file
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

/// The right to one private reading, given back when dropped.
#[derive(Debug)]
struct ReadingPermit(Arc<LibraryContext>);

impl ReadingPermit {
    fn take(context: &Arc<LibraryContext>) -> Result<Self, Full> {
        let limit = context.private_max.load(Ordering::Relaxed);
        let taken = context
            .private
            .fetch_update(Ordering::Relaxed, Ordering::Relaxed, |count| {
                (count < limit).then_some(count + 1)
            });
        taken.map_err(|_| Full { limit })?;
        Ok(Self(Arc::clone(context)))
    }
}

impl Drop for ReadingPermit {
    fn drop(&mut self) {
        self.0.private.fetch_sub(1, Ordering::Relaxed);
    }
}

/// The configured number of private readings is reached.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "{limit} clients seek in files or change their speed already; raise `rtsp.media_clients` to allow more"
)]
pub struct Full {
    /// Configured number of private readings, `rtsp.media_clients`.
    pub limit: usize,
}
