//! The RTSP connection to a camera.

use std::io;
use std::net::IpAddr;
use std::time::{Duration, Instant};

use glassline_rtsp::client::{Client, Closed, Config};
use glassline_rtsp::message::Limits;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;

use super::failure::Failure;
use super::limits::{BODY_BYTES_MAX, STEP};
use super::route::Route;
use super::socket::CameraSocket;
use crate::CameraSource;
use crate::spec::CameraScheme;

/// Longest time for the end of a session. A camera that never answers does not delay the end of the
/// server, or the source that follows.
const FAREWELL: Duration = Duration::from_millis(900);

/// Size of the buffer for what a camera still sends while the server leaves.
const READ_BYTES: usize = 16 << 10;

/// The purpose of a connection to a camera.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Purpose {
    /// The camera sends its media.
    Watch,
    /// The camera receives a voice (ONVIF's back channel).
    Talk,
}

/// A connection to a camera, and the state of its RTSP session.
#[derive(Debug)]
pub struct CameraConnection {
    socket: CameraSocket,
    /// IP address of the camera.
    pub peer: IpAddr,
    /// IP address of the server on the connection.
    pub local: IpAddr,
    /// State of our side of the RTSP session.
    pub client: Client,
    camera: CameraSource,
    purpose: Purpose,
    route: Route,
}

impl CameraConnection {
    /// Connects to `camera` and sends the first request.
    pub async fn open(camera: &CameraSource, purpose: Purpose) -> Result<Self, Failure> {
        Self::dial(camera, purpose, Route::new(camera)).await
    }

    /// Follows a redirection to `location`: ends the session, and begins one there. The rules for the
    /// addresses of the source are those for the target. May be dropped while it waits.
    ///
    /// # Errors
    /// Returns why the redirection is not followed, or the failure of the target.
    pub async fn follow(&mut self, camera: &CameraSource, location: &str) -> Result<(), Failure> {
        let route = self.route.to(camera, location)?;
        let target = route.target();
        tracing::info!(%camera, target, "the camera redirects");
        self.leave().await;
        let dialed = Self::dial(camera, self.purpose, route).await;
        *self = dialed.map_err(|failure| failure.at_target(target))?;
        Ok(())
    }

    /// Returns `failure` of the session with the URL that the camera redirected to, if it did.
    pub fn located(&self, failure: Failure) -> Failure {
        match self.route.is_redirected() {
            true => failure.at_target(self.route.target()),
            false => failure,
        }
    }

    /// Returns the failure that the end of the RTSP session is.
    pub fn failure(&self, reason: Closed) -> Failure {
        let withheld = match reason {
            Closed::CredentialsMissing => self.route.withheld(),
            _ => None,
        };
        withheld.unwrap_or_else(|| Failure::of(reason))
    }

    async fn dial(camera: &CameraSource, purpose: Purpose, route: Route) -> Result<Self, Failure> {
        let (socket, peer, local) = connect(camera, &route).await?;
        let mut config = Config::new(route.url.clone(), rand::random());
        config.user.clone_from(&route.user);
        concat!("glassline/", env!("CARGO_PKG_VERSION")).clone_into(&mut config.user_agent);
        config.response_timeout = STEP;
        config.limits = Limits {
            body_bytes_max: BODY_BYTES_MAX,
            ..Limits::default()
        };
        config.back_channel = purpose == Purpose::Talk;
        let mut client = Client::new(config);
        client.start(Instant::now());
        Ok(Self {
            socket,
            peer,
            local,
            client,
            camera: camera.clone(),
            purpose,
            route,
        })
    }

    /// Waits for bytes of the camera; there are none at the end of the connection. A camera that ends
    /// the connection after its 401 is connected to again. May be dropped while it waits.
    ///
    /// # Errors
    /// Returns why the connection broke, or why there is no second one.
    pub async fn read(&mut self, buffer: &mut [u8]) -> Result<usize, Failure> {
        loop {
            match self.socket.read(buffer).await {
                Ok(count @ 1..) => return Ok(count),
                ended if !self.client.may_reopen() => return ended.map_err(Failure::Connection),
                _ => {}
            }
            (self.socket, self.peer, self.local) = connect(&self.camera, &self.route).await?;
            self.client.reopen(Instant::now());
            self.send().await?;
        }
    }

    /// Returns `failure` with what the camera answered to keep-alives, if media stopped after that.
    pub fn explained(&self, failure: Failure) -> Failure {
        match self.client.refused_keep_alive() {
            Some(refused) if failure.is_silence() => Failure::AfterKeepAlive {
                failure: Box::new(failure),
                refused: refused.clone(),
            },
            _ => failure,
        }
    }

    /// Sends what waits for the camera. May be dropped while it waits.
    pub async fn send(&mut self) -> Result<(), Failure> {
        while !self.client.output().is_empty() {
            let writing = self.socket.write(self.client.output());
            match tokio::time::timeout(STEP, writing).await {
                Ok(Ok(count)) if count > 0 => self.client.advance(count),
                Ok(Ok(_)) => return Err(Failure::HungUp),
                // The end of the connection is read next.
                Ok(Err(_)) if self.client.may_reopen() => return Ok(()),
                Ok(Err(error)) => return Err(Failure::Connection(error)),
                Err(_) => return Err(Failure::UNREAD),
            }
        }
        match tokio::time::timeout(STEP, self.socket.flush()).await {
            Ok(flushed) => flushed.map_err(Failure::Connection),
            Err(_) => Err(Failure::UNREAD),
        }
    }

    /// Ends the session with TEARDOWN, and waits for the response, or until the time for that is over.
    /// What else the camera sends is dropped.
    pub async fn leave(&mut self) {
        self.client.leave(Instant::now());
        let leaving = async {
            let mut buffer = vec![0; READ_BYTES];
            while self.send().await.is_ok() && !self.client.is_closed() {
                match self.read(&mut buffer).await {
                    Ok(count @ 1..) => {
                        let now = Instant::now();
                        self.client.handle_data(now, &buffer[..count], |_| {});
                    }
                    _ => break,
                }
            }
        };
        let _ = tokio::time::timeout(FAREWELL, leaving).await;
    }
}

/// Opens a connection to where `route` leads. Returns the addresses of the camera and of the server,
/// too.
pub(super) async fn connect(
    camera: &CameraSource,
    route: &Route,
) -> Result<(CameraSocket, IpAddr, IpAddr), Failure> {
    let (host, port) = CameraSource::host_and_port_of(&route.url);
    // What was resolved and checked is what is dialled.
    let connecting = async {
        let addresses = camera.reach.resolve(host, port).await?;
        TcpStream::connect(addresses.as_slice()).await
    };
    let socket = match tokio::time::timeout(STEP, connecting).await {
        Ok(Err(error)) if error.kind() == io::ErrorKind::PermissionDenied => {
            return Err(Failure::Forbidden(error));
        }
        Ok(connected) => connected.map_err(Failure::Connect)?,
        Err(_) => {
            return Err(Failure::NoAnswer {
                what: "accept the connection",
            });
        }
    };
    let peer = socket.peer_addr().map_err(Failure::Connect)?.ip();
    let local = socket.local_addr().map_err(Failure::Connect)?.ip();
    let socket = match CameraScheme::of(&route.url) {
        Some(scheme) if scheme.is_secure() => {
            let securing = CameraSocket::secure(socket, host, &camera.trust);
            let secured = tokio::time::timeout(STEP, securing).await;
            secured.unwrap_or(Err(Failure::NoAnswer {
                what: "complete the TLS handshake",
            }))?
        }
        _ => CameraSocket::Plain(socket),
    };
    Ok((socket, peer, local))
}
