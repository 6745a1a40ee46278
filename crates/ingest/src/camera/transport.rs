use std::time::Instant;

use glassline_media::TrackIndex;

use super::connection::{CameraConnection, Purpose};
use super::failure::Failure;
use super::ports::Ports;
use crate::CameraSource;

/// The connection and the ports of a session with a camera. A session that is dropped leaves them, so
/// that the camera can be told goodbye.
#[derive(Debug)]
pub(super) struct CameraTransport {
    pub(super) connection: CameraConnection,
    /// The tracks' ports for packets by UDP.
    pub(super) ports: Ports,
    /// The RTCP packets by which the server leaves, for each track that is played.
    pub(super) goodbyes: Vec<(TrackIndex, Vec<u8>)>,
}

impl CameraTransport {
    /// Connects to `camera` and sends the first request. The tracks take `ports`.
    pub(super) async fn open(camera: &CameraSource, ports: Ports) -> Result<Self, Failure> {
        Ok(Self {
            connection: CameraConnection::open(camera, Purpose::Watch).await?,
            ports,
            goodbyes: Vec::new(),
        })
    }

    /// Ends the session, and begins one at `location`, to which the camera redirects.
    pub(super) async fn follow(
        &mut self,
        camera: &CameraSource,
        location: &str,
    ) -> Result<(), Failure> {
        self.send_bye();
        self.ports.close();
        self.connection.follow(camera, location).await
    }

    /// Sends RTCP of a track to the camera. Reports may be lost.
    pub(super) fn report(&mut self, track: TrackIndex, packet: &[u8]) {
        let is_interleaved = self.connection.client.send_control(track, packet);
        if !is_interleaved {
            self.ports.report(track, packet);
        }
    }

    /// Leaves the camera by BYE and TEARDOWN, and waits until it has answered, a second at most. May be
    /// dropped, and called again.
    pub(super) async fn leave(&mut self) {
        let began = Instant::now();
        self.send_bye();
        self.connection.leave().await;
        tracing::debug!(camera = %self.connection.peer, took = ?began.elapsed(), "camera left");
    }

    fn send_bye(&mut self) {
        for (track, packet) in std::mem::take(&mut self.goodbyes) {
            self.report(track, &packet);
        }
    }
}
