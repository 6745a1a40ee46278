use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use glassline_hub::{self as hub, State, Stream};

use super::control::{Control, Order};
use super::driver::Handle;
use super::reading::{Audience, Reading};
use super::{Failure, Office, Started, Title};

/// How a file is to be played.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Play {
    /// From where in the file; pictures begin with the keyframe before. `None`: on
    /// from where it stands.
    pub from: Option<Duration>,
    /// To where; playing backwards, down to where.
    pub until: Option<Duration>,
    /// Seconds of the file presented in one (RFC 2326 §12.34): from 2 on keyframes
    /// only, below 0 keyframes backwards. Sound is left out unless it is 1. Files
    /// without pictures are always played at 1.
    pub scale: f64,
    /// How much faster than presented it is sent (RFC 2326 §12.35).
    pub speed: f64,
    /// Ends with the file instead of starting over; the stream is
    /// [`State::Ended`] then.
    pub once: bool,
}

impl Default for Play {
    fn default() -> Self {
        Self {
            from: None,
            until: None,
            scale: 1.0,
            speed: 1.0,
            once: true,
        }
    }
}

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
    title: Arc<Title>,
    handle: Handle,
    _place: Place,
}

pub(super) fn open(title: &Arc<Title>, play: Option<Play>) -> Result<Private, Full> {
    let place = Place::take(title.office())?;
    let stream = Stream::unlisted(title.unlisted_name(), LIMITS);
    let control = Arc::new(Control::new());
    if let Some(play) = play {
        control.order(Order::Play(play));
    }
    let reading = Reading::new(
        Arc::clone(title),
        Arc::clone(&stream),
        Arc::clone(&control),
        Audience::One,
    );
    let handle = title.office().driver.add(reading);
    Ok(Private {
        control,
        stream,
        title: Arc::clone(title),
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

    /// What is played.
    pub fn title(&self) -> &Arc<Title> {
        &self.title
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
