//! The cameras of streams that can be moved, found when somebody asks.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use futures_util::future::join_all;
use glassline_hub::StreamName;
use glassline_ingest::{CameraSource, OnvifService};
use glassline_onvif::{self as onvif, Camera, Credentials, Trust};
use parking_lot::Mutex;
use tokio::time::Instant;
use url::{Host, Url};

use super::inquiry::{InquiryError, resolved_host};
use super::mover::Mover;

/// Usual ports of ONVIF, the most common first.
const PORTS: [u16; 6] = [80, 8080, 8000, 2020, 8899, 5000];

/// Usual path of the device service (ONVIF Core §5.1.1).
const PATH: &str = "/onvif/device_service";

/// Time after which a camera without ONVIF is asked again.
const RETRY: Duration = Duration::from_secs(60);

/// Movable cameras by their streams.
#[derive(Debug, Default)]
pub(crate) struct PtzCameras {
    cameras: Mutex<HashMap<StreamName, Arc<Found>>>,
}

/// The finding about the camera of one source.
#[derive(Debug)]
struct Found {
    source: CameraSource,
    /// Held while the camera is looked for, so that it is looked for once.
    outcome: Arc<tokio::sync::Mutex<Option<Outcome>>>,
}

#[derive(Clone, Debug)]
enum Outcome {
    Movable(Arc<Mover>),
    Not { reason: String, since: Instant },
}

/// The reason why a stream's camera cannot be moved.
#[derive(Debug, thiserror::Error)]
pub(crate) enum PtzError {
    /// The stream does not come from a camera that the server dials.
    #[error(
        "'{0}' does not come from a camera of this server: a source rtsp://… under that name is needed"
    )]
    NoCamera(StreamName),
    /// The source turns ONVIF off.
    #[error("the source of '{0}' has `onvif: off`")]
    Off(StreamName),
    /// The camera has no ONVIF, or no PTZ.
    #[error("the camera of '{stream}' cannot be moved: {reason}")]
    Not {
        /// Name of the stream.
        stream: StreamName,
        /// The finding in words.
        reason: String,
    },
}

impl PtzCameras {
    /// Returns the movable camera of `stream`, whose source is `source`. Looks for its ONVIF if that is
    /// not known yet.
    ///
    /// # Errors
    /// Returns [`PtzError`] if the camera cannot be moved; it is remembered for a minute.
    pub(crate) async fn mover(
        &self,
        stream: &StreamName,
        source: Option<CameraSource>,
    ) -> Result<Arc<Mover>, PtzError> {
        let Some(source) = source else {
            self.cameras.lock().remove(stream);
            return Err(PtzError::NoCamera(stream.clone()));
        };
        if source.onvif == OnvifService::Off {
            return Err(PtzError::Off(stream.clone()));
        }
        let found = self.found(stream, source);
        let mut outcome = Arc::clone(&found.outcome).lock_owned().await;
        let known = outcome.clone().filter(|it| it.counts(Instant::now()));
        let known = match known {
            Some(known) => known,
            None => {
                // The search goes on when its client goes away: the next one waits for what it finds.
                let looking = tokio::spawn(async move {
                    let found = Outcome::of(&found.source).await;
                    outcome.insert(found).clone()
                });
                looking.await.unwrap_or_else(|_| Outcome::panicked())
            }
        };
        match known {
            Outcome::Movable(mover) => Ok(mover),
            Outcome::Not { reason, .. } => Err(PtzError::Not {
                stream: stream.clone(),
                reason,
            }),
        }
    }

    fn found(&self, stream: &StreamName, source: CameraSource) -> Arc<Found> {
        let mut cameras = self.cameras.lock();
        if let Some(found) = cameras.get(stream)
            && found.source == source
        {
            return Arc::clone(found);
        }
        let found = Arc::new(Found {
            source,
            outcome: Arc::default(),
        });
        cameras.insert(stream.clone(), Arc::clone(&found));
        found
    }
}

impl Outcome {
    fn counts(&self, now: Instant) -> bool {
        match self {
            Self::Movable(_) => true,
            Self::Not { since, .. } => now - *since < RETRY,
        }
    }

    fn panicked() -> Self {
        Self::Not {
            reason: "the server made a mistake while it looked for it; the log has its place"
                .to_owned(),
            since: Instant::now(),
        }
    }

    async fn of(source: &CameraSource) -> Self {
        match look(source).await {
            Ok(mover) => Self::Movable(Arc::new(mover)),
            Err(reason) => Self::Not {
                reason,
                since: Instant::now(),
            },
        }
    }
}

/// Looks for the ONVIF of a camera, and for what can be moved by it.
async fn look(source: &CameraSource) -> Result<Mover, String> {
    let (url, trust) = match &source.onvif {
        OnvifService::At(url) => (url.clone(), Trust::Anyone),
        _ => usual(source).await?,
    };
    let at = resolved_host(source.reach, &url).await;
    let ip = at.map_err(|error| error.to_string())?.ip();
    let credentials = source.user.clone().map(|user| Credentials {
        user,
        password: source.password.clone().unwrap_or_default(),
    });
    let asking = async {
        let camera = Camera::connect(&url, ip, trust, credentials).await?;
        let profile = camera.movable_profile().await?;
        Ok(Mover::new(camera, profile))
    };
    let asked: Result<_, onvif::Error> = asking.await;
    asked.map_err(|error| error.to_string())
}

/// Returns the device service that answers at a usual port of the camera's host. Nothing of the
/// credentials is sent. Those of a camera within TLS go nowhere else than into TLS.
async fn usual(source: &CameraSource) -> Result<(Url, Trust), String> {
    let (host, _) = source.host_and_port();
    let host = match host.parse() {
        Ok(ip) => Host::<String>::Ipv6(ip).to_string(),
        Err(_) => host.to_owned(),
    };
    let candidates: Vec<String> = match source.is_secure() {
        true => vec![format!("https://{host}{PATH}")],
        false => {
            let ports = PORTS.iter();
            ports
                .map(|port| format!("http://{host}:{port}{PATH}"))
                .collect()
        }
    };
    let trust = *source.trust;
    let mut urls = Vec::new();
    for candidate in candidates {
        urls.extend(Url::parse(&candidate));
    }
    let Some(first) = urls.first() else {
        return Err("its host has no usual address of ONVIF".to_owned());
    };
    let at = resolved_host(source.reach, first).await;
    let ip = at.map_err(|error: InquiryError| error.to_string())?.ip();
    let answers = join_all(urls.iter().map(|url| onvif::is_onvif(url, ip, trust))).await;
    let found = urls.into_iter().zip(answers).find(|(_, answers)| *answers);
    let (url, _) = found.ok_or(
        "no ONVIF answers at the usual ports of its host: turn ONVIF on in the camera, or name its URL \
         by the option `onvif` of the source",
    )?;
    Ok((url, trust))
}
