//! A camera or other RTSP server, which is called again when it closes the connection.
//!
//! ```text
//! TCP ─► Session (RTSP client, bounded) ─► Receiver: packets ─► units on one timeline ─► session
//! ```

mod receiver;
mod session;

use std::time::Duration;

use glassline_media::Track;
use glassline_rtsp::client::Closed;

use super::{Error, Event, SourceContext};
use crate::publish::input::Camera;
use session::Session;

/// Longest wait for the connection, for each response and for the next packet.
const PATIENCE: Duration = Duration::from_secs(10);

/// First pause before calling again.
const BACKOFF_MIN: Duration = Duration::from_secs(1);
/// Longest pause before calling again.
const BACKOFF_MAX: Duration = Duration::from_secs(30);

/// Calls `camera`; returns its tracks, video first, and delivers what it sends from then on.
pub(super) async fn play(
    camera: &Camera,
    context: &SourceContext,
    carries: fn(&Track) -> bool,
) -> Result<Vec<Track>, Error> {
    let session = Session::connect(camera, carries, PATIENCE).await?;
    let tracks = session.tracks().to_vec();
    let (context, camera, kinds) = (context.clone(), camera.clone(), tracks.clone());
    tokio::spawn(async move {
        let mut connected = Some(session);
        let mut backoff = BACKOFF_MIN;
        while !context.control.is_stopped() {
            let why = match connected.take() {
                Some(session) => {
                    backoff = BACKOFF_MIN;
                    match session.run(&context).await {
                        Ok(()) => return,
                        Err(why) => why,
                    }
                }
                None => match Session::connect(&camera, carries, PATIENCE).await {
                    Ok(session) if fits(session.tracks(), &kinds) => {
                        connected = Some(session);
                        continue;
                    }
                    Ok(_) => {
                        let why = "the camera now sends other tracks: restart publishing";
                        camera.failed(why.to_owned())
                    }
                    Err(why) => why,
                },
            };
            if matches!(&why, Error::Camera { lasting: true, .. }) {
                // If the session is gone, nothing needs the event.
                let _ = context.events.send(Event::Ended(Err(why))).await;
                return;
            }
            tracing::warn!("{why}; reconnecting in {} s", backoff.as_secs());
            tokio::time::sleep(backoff).await;
            backoff = (backoff * 2).min(BACKOFF_MAX);
        }
    });
    Ok(tracks)
}

fn fits(now: &[Track], before: &[Track]) -> bool {
    let codecs = now.iter().map(|it| it.codec);
    codecs.eq(before.iter().map(|it| it.codec))
}

/// Most characters of a camera's text in an error.
const REASON_CHARS_MAX: usize = 200;

impl Camera {
    fn failed(&self, why: String) -> Error {
        self.error(why, false)
    }

    fn refused(&self, why: String) -> Error {
        self.error(why, true)
    }

    fn error(&self, why: String, lasting: bool) -> Error {
        let url = glassline_url::shown(&self.url);
        Error::Camera { url, why, lasting }
    }

    /// Error for the end of an RTSP session. After a refusal the camera is not called again,
    /// because cameras lock users out.
    fn of(&self, reason: &Closed) -> Error {
        match reason {
            Closed::CredentialsMissing | Closed::CredentialsRefused { .. } => self.no_access(),
            Closed::Refused { status, .. } if matches!(status.0, 401 | 403) => self.no_access(),
            Closed::Refused { status, .. } if status.0 == 404 => {
                let why = "the camera has no stream of that name (404): check the URL's path";
                self.failed(why.to_owned())
            }
            Closed::ByServer | Closed::ConnectionEnded { waiting_for: None } => {
                self.failed("the camera closed the connection".to_owned())
            }
            other => {
                let text = format!("the camera: {other}");
                self.failed(text.chars().take(REASON_CHARS_MAX).collect())
            }
        }
    }

    fn no_access(&self) -> Error {
        let why = "the camera refuses access: check user and password in its URL";
        self.refused(why.to_owned())
    }
}

#[cfg(test)]
mod tests;
