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

/// What a private stream keeps: no viewer joins it later, so it is but the slack of
/// one client, and there may be a thousand.
const LIMITS: hub::Limits = hub::Limits {
    ring_bytes: 2 << 20,
    ring_span: Duration::from_secs(2),
    repair_span: Duration::from_secs(1),
    streams: 1,
    departed_span: Duration::ZERO,
};

/// A reading for one client. Dropping it ends it.
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
    /// Where it is published. No hub lists it; its timeline goes on over seeks and
    /// pauses, and its tracks are known before the first burst.
    pub fn stream(&self) -> &Arc<Stream> {
        &self.stream
    }

    /// The file that is played.
    pub fn file(&self) -> &Arc<MediaFile> {
        &self.file
    }

    /// Plays on, or elsewhere, or otherwise. When this returns nothing of what was
    /// played before is published any more; [`started`](Self::started) says when the
    /// new begins, with whose first burst the stream's subscribers are woken.
    pub fn play(&self, play: Play) {
        self.control.order(Order::Play(play));
        self.handle.poke();
    }

    /// Holds. When this returns nothing more is published. Where it stands then,
    /// for `Range`.
    pub fn pause(&self) -> Duration {
        self.control.order(Order::Pause);
        self.handle.poke();
        self.position()
    }

    /// How the latest [`play`](Self::play) began; `None` until it has.
    ///
    /// # Errors
    /// [`Failure`] if the file cannot be read any more.
    pub fn started(&self) -> Option<Result<Started, Failure>> {
        self.control.started()
    }

    /// Where in the file the newest burst lies.
    pub fn position(&self) -> Duration {
        self.control.position()
    }

    /// It came to its end, or broke off.
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

/// One of the readings that there may be.
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

/// There are as many readings for one client each as there may be.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{limit} clients play files of their own already, as many as the configuration allows")]
pub struct Full {
    /// The bound.
    pub limit: usize,
}
