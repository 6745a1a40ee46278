//! A camera that viewers move, and that stops by itself.

use std::sync::Arc;
use std::time::Duration;

use glassline_onvif::{Axes, Camera, Error, MovableProfile, Preset, Velocity};
use parking_lot::Mutex;
use tokio::sync::Semaphore;
use tokio::time::{Instant, sleep, sleep_until};

/// Time after which a movement ends that nobody repeats: the page repeats a held button each second.
const HELD: Duration = Duration::from_secs(2);

/// Time for which the positions of a camera are remembered: however many pages ask, and hang up, the camera
/// answers one question at a time.
const PRESETS_KEPT: Duration = Duration::from_secs(5);

/// Most commands for a camera that wait for it.
const COMMANDS_MAX: usize = 4;

/// How often a stop is tried, and the pause in between.
const STOPS: u32 = 3;
const STOP_PAUSE: Duration = Duration::from_millis(500);

/// One camera that can be moved. Several viewers may move it: the last command counts.
#[derive(Debug)]
pub(crate) struct Mover {
    camera: Camera,
    profile: MovableProfile,
    /// Commands that wait, and the one that the camera executes.
    commands: Semaphore,
    /// The turn of one command at a time, so that a stop comes behind the movement that it ends.
    turn: tokio::sync::Mutex<()>,
    motion: Mutex<Motion>,
    /// The positions that the camera told last. Held while it is asked.
    presets: Arc<tokio::sync::Mutex<Option<KnownPresets>>>,
}

/// The positions of a camera, as it answered last.
#[derive(Debug)]
struct KnownPresets {
    at: Instant,
    presets: Vec<Preset>,
}

/// Facts about the movement under way.
#[derive(Debug, Default)]
struct Motion {
    /// Time at which the movement ends; `None` if there is none.
    until: Option<Instant>,
    /// Whether a task watches the end.
    is_watched: bool,
}

/// The reason why a camera was not moved.
#[derive(Debug, thiserror::Error)]
pub(crate) enum MoveError {
    /// Too many commands wait.
    #[error("the camera has {COMMANDS_MAX} commands to execute already: try again in a second")]
    Busy,
    /// The camera did not obey.
    #[error(transparent)]
    Camera(#[from] Error),
}

impl Mover {
    pub(crate) fn new(camera: Camera, profile: MovableProfile) -> Self {
        Self {
            camera,
            profile,
            commands: Semaphore::new(COMMANDS_MAX),
            turn: tokio::sync::Mutex::default(),
            motion: Mutex::default(),
            presets: Arc::default(),
        }
    }

    /// Returns the axes that the camera has.
    pub(crate) fn axes(&self) -> Axes {
        self.profile.axes
    }

    /// Returns the positions that the camera keeps; none if it does not tell.
    pub(crate) async fn presets(self: &Arc<Self>) -> Vec<Preset> {
        let mut known = Arc::clone(&self.presets).lock_owned().await;
        if let Some(told) = &*known
            && told.at.elapsed() < PRESETS_KEPT
        {
            return told.presets.clone();
        }
        let mover = Arc::clone(self);
        // The question goes on when its client goes away: the next one waits for the same answer.
        let asking = tokio::spawn(async move {
            let presets = mover.camera.presets(&mover.profile).await;
            let presets = presets.unwrap_or_default();
            *known = Some(KnownPresets {
                at: Instant::now(),
                presets: presets.clone(),
            });
            presets
        });
        asking.await.unwrap_or_default()
    }

    /// Moves the camera for two seconds, or stops it if nothing moves.
    ///
    /// # Errors
    /// Returns [`MoveError`]; the camera is stopped in any case.
    pub(crate) async fn move_by(self: &Arc<Self>, velocity: Velocity) -> Result<(), MoveError> {
        if velocity.is_zero() {
            return self.stop().await;
        }
        let _place = self.place()?;
        let _turn = self.turn.lock().await;
        // The end is watched before the camera begins: whoever asked may be gone by then.
        self.motion.lock().until = Some(Instant::now() + HELD);
        self.watch();
        self.camera.move_by(&self.profile, velocity).await?;
        // A camera that was slow to begin moves for the whole time, too.
        if let Some(until) = &mut self.motion.lock().until {
            *until = Instant::now() + HELD;
        }
        Ok(())
    }

    /// Stops the camera.
    ///
    /// # Errors
    /// Returns [`MoveError`] if the camera does not obey.
    pub(crate) async fn stop(&self) -> Result<(), MoveError> {
        let _place = self.place()?;
        let _turn = self.turn.lock().await;
        self.camera.stop(&self.profile).await?;
        self.motion.lock().until = None;
        Ok(())
    }

    /// Goes to a position that the camera keeps, where it stops by itself.
    ///
    /// # Errors
    /// Returns [`MoveError`] if the camera does not obey.
    pub(crate) async fn go_to_preset(&self, preset: &str) -> Result<(), MoveError> {
        let _place = self.place()?;
        let _turn = self.turn.lock().await;
        self.motion.lock().until = None;
        Ok(self.camera.go_to_preset(&self.profile, preset).await?)
    }

    fn place(&self) -> Result<tokio::sync::SemaphorePermit<'_>, MoveError> {
        self.commands.try_acquire().map_err(|_| MoveError::Busy)
    }

    /// Starts the task that ends the movement, unless there is one.
    fn watch(self: &Arc<Self>) {
        if std::mem::replace(&mut self.motion.lock().is_watched, true) {
            return;
        }
        let mover = Arc::clone(self);
        tokio::spawn(async move {
            while let Some(until) = mover.watched_until() {
                sleep_until(until).await;
                mover.stop_if_due().await;
            }
        });
    }

    /// Returns when to look at the movement again; `None` ends the watch.
    fn watched_until(&self) -> Option<Instant> {
        let mut motion = self.motion.lock();
        motion.is_watched = motion.until.is_some();
        motion.until
    }

    async fn stop_if_due(&self) {
        for attempt in 1..=STOPS {
            {
                let _turn = self.turn.lock().await;
                if self
                    .motion
                    .lock()
                    .until
                    .is_none_or(|until| Instant::now() < until)
                {
                    return;
                }
                match self.camera.stop(&self.profile).await {
                    Ok(()) => break,
                    Err(error) => {
                        tracing::warn!(attempt, "a camera that is moved did not stop: {error}");
                    }
                }
            }
            sleep(STOP_PAUSE).await;
        }
        // A movement that begins meanwhile has an end of its own.
        let mut motion = self.motion.lock();
        if motion.until.is_some_and(|until| Instant::now() >= until) {
            motion.until = None;
        }
    }
}
