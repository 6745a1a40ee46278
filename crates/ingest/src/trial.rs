//! A trial of one source: it runs in a hub of its own, until it plays or says why it does not.

use std::sync::Arc;
use std::time::Duration;

use glassline_hub::{Hub, Limits, State};
use glassline_latency::FrameCodes;
use glassline_media::Track;
use tokio::sync::watch;

use super::source_parts::Surroundings;
use super::{Input, Permit, SourceSpec, Sources, StartError, spawn};

/// Interval at which the source is looked at.
const INTERVAL: Duration = Duration::from_millis(50);

/// The finding of a trial.
#[derive(Clone, Debug)]
pub enum Tried {
    /// The source published media with these tracks.
    Plays(Vec<Track>),
    /// The source is a publisher, so that there is nothing to dial.
    AwaitsPublisher,
}

/// The reason why a source does not play.
#[derive(Debug, thiserror::Error)]
pub enum TrialError {
    /// The source can never work.
    #[error(transparent)]
    Start(#[from] StartError),
    /// The source says why it is down.
    #[error("{input}: {detail}")]
    Down {
        /// Source as people wrote it.
        input: String,
        /// Reason why the source is down.
        detail: String,
        /// Whether the source is a camera.
        is_camera: bool,
    },
    /// The source neither played nor failed in time.
    #[error("{input}: no media within {} s", .patience.as_secs())]
    Silent {
        /// Source as people wrote it.
        input: String,
        /// Time that the trial waited.
        patience: Duration,
    },
}

impl TrialError {
    /// Returns what to do about it; `None` if the error says so itself.
    pub fn remedy(&self) -> Option<&'static str> {
        match self {
            Self::Silent { .. } => Some("the address may be wrong, or a firewall drops packets"),
            Self::Down {
                is_camera: true, ..
            } => Some(
                "see that the camera is on and that this machine reaches it; if its address or password \
                 is another one, correct the source",
            ),
            Self::Start(_) | Self::Down { .. } => None,
        }
    }
}

impl Sources {
    /// Tries `input` beside the sources that run, whose streams learn nothing of it.
    ///
    /// # Errors
    /// Returns [`TrialError`] if no media came within `patience`.
    pub async fn try_input(&self, input: Input, patience: Duration) -> Result<Tried, TrialError> {
        let name = glassline_hub::StreamName::parse("trial").expect("a valid name");
        let hub = Arc::new(Hub::new(Limits::default()));
        try_source(
            SourceSpec { name, input },
            hub,
            self.surroundings(),
            patience,
        )
        .await
    }
}

/// Starts the source in `hub`, in which it is alone, and waits at most `patience` until it plays or
/// says why it does not. The source has ended when this returns. Needs a tokio runtime.
///
/// # Errors
/// Returns [`TrialError`] if no media came.
pub async fn try_source(
    spec: SourceSpec,
    hub: Arc<Hub>,
    surroundings: &Surroundings,
    patience: Duration,
) -> Result<Tried, TrialError> {
    if spec.input.is_published() {
        return Ok(Tried::AwaitsPublisher);
    }
    let (name, input) = (spec.name.clone(), spec.input.to_string());
    let is_camera = spec.input.camera().is_some();
    let (stop, stopped) = watch::channel(false);
    // What is tried is no stream whose frames somebody measures.
    let surroundings = Surroundings {
        codes: FrameCodes::default(),
        ..surroundings.clone()
    };
    let sources = spawn(&hub, vec![spec], surroundings, stopped, Permit::default()).await?;
    // A source on demand comes, too.
    let demand = hub.stream(name.as_str()).map(|stream| stream.demand());
    let looking = async {
        loop {
            let stream = hub.stream(name.as_str());
            match stream
                .as_ref()
                .map(|stream| (stream.state(), stream.tracks()))
            {
                Some((State::Live { .. } | State::Ended { .. }, tracks)) => {
                    return Ok(Tried::Plays(tracks.to_vec()));
                }
                Some((State::Down { detail }, _)) => return Err(detail),
                _ => tokio::time::sleep(INTERVAL).await,
            }
        }
    };
    let outcome = tokio::time::timeout(patience, looking).await;
    drop(demand);
    stop.send_replace(true);
    sources.join().await;
    match outcome {
        Ok(Ok(found)) => Ok(found),
        Ok(Err(detail)) => Err(TrialError::Down {
            input,
            detail: detail.to_string(),
            is_camera,
        }),
        Err(_) => Err(TrialError::Silent { input, patience }),
    }
}
