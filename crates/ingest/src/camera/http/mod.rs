//! Cameras that the server reads over HTTP.
//!
//! ```text
//! GET ─► 401: once more, with credentials; 3xx: the next URL
//!   └─► 200 ┬─ multipart/x-mixed-replace: one answer without an end ─► MotionJpeg ─┐
//!           ├─ image/jpeg: one picture, fetched again every `every_s` ─────────────┼► LivePublisher
//!           └─ video/mp2t and others that begin as one ─► PushedDemuxer ─► Pace ───┘
//! ```

mod media;
mod request;

use std::sync::Arc;
use std::time::Instant;

use glassline_hub::{State, Stream};

use super::SessionEnd;
use crate::CameraSource;
use crate::live_publisher::LivePublisher;
use crate::on_demand::OnDemand;
use crate::pulled::{PullEnd, Pulled};
use media::Media;

/// A camera that the server reads over HTTP.
pub(super) struct HttpCamera {
    camera: CameraSource,
    stream: Arc<Stream>,
    /// Publisher of the present answer.
    live: Option<LivePublisher>,
}

impl HttpCamera {
    pub(super) const fn new(camera: CameraSource, stream: Arc<Stream>) -> Self {
        Self {
            camera,
            stream,
            live: None,
        }
    }
}

impl Pulled for HttpCamera {
    const KIND: &'static str = "camera";

    fn shown(&self) -> String {
        self.camera.to_string()
    }

    async fn pull(
        &mut self,
        on_demand: &OnDemand<'_>,
        live_since: &mut Option<Instant>,
    ) -> PullEnd {
        let media = Media {
            camera: &self.camera,
            stream: &self.stream,
            live: &mut self.live,
            live_since,
            begun: Instant::now(),
        };
        let end = tokio::select! {
            ended = media.receive() => match ended {
                Ok(never) => match never {},
                Err(failure) => SessionEnd::Failed(failure),
            },
            () = on_demand.unneeded() => SessionEnd::Unneeded,
        };
        let live = self.live.take();
        match (&end, live) {
            (SessionEnd::Unneeded, Some(live)) => live.finish(State::Idle),
            (SessionEnd::Unneeded, None) => self.stream.set_state(State::Idle),
            (SessionEnd::Failed(_), _) => {}
        }
        end.into()
    }

    async fn part(&mut self) {
        self.live = None;
    }
}
