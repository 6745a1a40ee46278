use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use glassline_hub::{self as hub, State, Stream};

use super::control::{Control, Order};
use super::control::{Failure, Started};
use super::driver::Handle;
use super::file::MediaFile;
use super::office::Office;
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
pub struct Private {
    control: Arc<Control>,
    stream: Arc<Stream>,
    file: Arc<MediaFile>,
    handle: Handle,
    _place: Place,
}

pub(super) fn open(
    office: &Arc<Office>,
    file: &Arc<MediaFile>,
    play: Option<Play>,
) -> Result<Private, Full> {
    let place = Place::take(office)?;
    let stream = Stream::unlisted(file.unlisted_name(), LIMITS);
    let control = Arc::new(Control::new());
    if let Some(play) = play {
        control.order(Order::Play(play));
    }
    let reading = Reading::new(
        Arc::clone(file),
        Arc::clone(&stream),
        Arc::clone(&control),
        Audience::One,
    );
    let handle = office.driver.add(reading);
    Ok(Private {
        control,
        stream,
        file: Arc::clone(file),
        handle,
        _place: place,
    })
}

impl Private {
    /// Returns the stream of the reading. No hub lists it. Its timeline continues over seeks and
    /// pauses, and its tracks are known before the first unit.
    pub fn stream(&self) -> &Arc<Stream> {
        &self.stream
    }

    /// Returns the file that is played.
    pub fn file(&self) -> &Arc<MediaFile> {
        &self.file
    }

    /// Continues, seeks, or changes the speed. When this returns, nothing of the playback before is
    /// published any more. [`started`](Self::started) tells when the new playback begins; its first
    /// unit wakes the stream's subscribers.
    pub fn play(&self, play: Play) {
        self.control.order(Order::Play(play));
        self.handle.poke();
    }

    /// Pauses. When this returns, nothing more is published. Returns the position in the file, for
    /// the `Range` header.
    pub fn pause(&self) -> Duration {
        self.control.order(Order::Pause);
        self.handle.poke();
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

impl Drop for Private {
    fn drop(&mut self) {
        self.control.leave();
        self.handle.poke();
    }
}

/// The right to one private reading, given back when dropped.
#[derive(Debug)]
struct Place(Arc<Office>);

impl Place {
    fn take(office: &Arc<Office>) -> Result<Self, Full> {
        let limit = office.limits.private;
        let taken = office
            .private
            .fetch_update(Ordering::Relaxed, Ordering::Relaxed, |count| {
                (count < limit).then_some(count + 1)
            });
        taken.map_err(|_| Full { limit })?;
        Ok(Self(Arc::clone(office)))
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        self.0.private.fetch_sub(1, Ordering::Relaxed);
    }
}

/// The configured number of private readings is reached.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{limit} clients play files of their own already, as many as the configuration allows")]
pub struct Full {
    /// The configured limit.
    pub limit: usize,
}
