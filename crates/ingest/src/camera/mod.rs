//! Ingest from cameras that the server connects to, over RTSP or HTTP.
//!
//! ```text
//! rtsp://  Client (RTSP) ─► Receiver: UnitReceiver (access units) ─┐
//! several streams of one picture: a connection and a layer for each, see `layers`
//! http://  http: pictures, or an MPEG transport stream ────────────┴► LivePublisher ─► hub
//! ```
//!
//! A camera may be hostile or broken: every message and every queue is bounded. The server connects
//! again to a camera that fails, without an end; the stream shows why it is down. A camera on demand is
//! connected while somebody needs its stream.

mod connection;
mod failure;
mod http;
mod layers;
mod limits;
mod ports;
mod receiver;
mod route;
mod senders;
mod session;
mod sink;
mod socket;
mod transport;

use std::sync::Arc;
use std::time::Instant;

use futures_util::FutureExt as _;
use futures_util::future::BoxFuture;
use glassline_hub::Stream;
use glassline_runtime::Supervisor;
use tokio::sync::watch;

use super::on_demand::OnDemand;
use super::pulled::{self, PullEnd, Pulled};
use super::{CameraSource, UdpPorts};
pub use connection::{CameraConnection, Purpose};
pub use failure::Failure;
use http::HttpCamera;
use session::Assignment;
use sink::Share;
use transport::CameraTransport;

/// The handles that keep the task of a camera running, and end it.
pub(super) struct Life {
    pub(super) supervisor: Arc<Supervisor>,
    /// The UDP ports that cameras may take; `None` for any.
    pub(super) udp_ports: Option<UdpPorts>,
    pub(super) stopped: watch::Receiver<bool>,
}

/// The end of a session with a camera.
enum SessionEnd {
    /// The camera, the network or the server failed; the failure is the reason for people.
    Failed(Failure),
    /// The camera was left, because nobody needs its stream.
    Unneeded,
}

impl From<SessionEnd> for PullEnd {
    fn from(end: SessionEnd) -> Self {
        match end {
            SessionEnd::Failed(failure) => Self::Failed {
                detail: failure.to_string(),
                is_lasting: failure.is_lasting(),
            },
            SessionEnd::Unneeded => Self::Unneeded,
        }
    }
}

/// Publishes what `camera` sends into `stream` until the server is stopped. Requests that come before
/// the first poll wait for a camera on demand, too.
pub(super) fn run(camera: CameraSource, stream: Arc<Stream>, life: Life) -> BoxFuture<'static, ()> {
    if !camera.sub_streams.is_empty() {
        return layers::run(&camera, &stream, &life);
    }
    let Life {
        supervisor,
        udp_ports,
        stopped,
    } = life;
    let life = pulled::Life {
        supervisor,
        stopped,
        idle: camera.on_demand,
    };
    let source = Arc::clone(&stream);
    if camera.is_rtsp() {
        let camera = RtspCamera {
            camera,
            share: Arc::new(source),
            udp_ports,
            transport: None,
        };
        pulled::run(camera, stream, life).boxed()
    } else {
        let camera = HttpCamera::new(camera, source);
        pulled::run(camera, stream, life).boxed()
    }
}

/// A camera that the server connects to over RTSP.
struct RtspCamera {
    camera: CameraSource,
    share: Arc<dyn Share>,
    udp_ports: Option<UdpPorts>,
    /// The transport of a session that the camera has not been told the end of.
    transport: Option<CameraTransport>,
}

impl Pulled for RtspCamera {
    const KIND: &'static str = "camera";

    fn shown(&self) -> String {
        self.camera.to_string()
    }

    async fn pull(
        &mut self,
        on_demand: &OnDemand<'_>,
        live_since: &mut Option<Instant>,
    ) -> PullEnd {
        let assignment = Assignment {
            camera: &self.camera,
            share: &*self.share,
            udp_ports: self.udp_ports,
        };
        let pulling = session::pull(assignment, &mut self.transport, on_demand, live_since);
        pulling.await.into()
    }

    async fn part(&mut self) {
        if let Some(leaving) = &mut self.transport {
            leaving.leave().await;
            self.transport = None;
        }
    }
}
