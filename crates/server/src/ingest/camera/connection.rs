//! The RTSP connection to a camera.

use std::io;
use std::net::IpAddr;
use std::time::Instant;

use glassline_rtsp::auth::User;
use glassline_rtsp::client::{Client, Config};
use glassline_rtsp::message::Limits;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;

use super::failure::Failure;
use super::limits::{BODY_BYTES_MAX, STEP};
use crate::ingest::RtspSource;

/// What a connection to a camera is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Purpose {
    /// The camera sends its media.
    Watch,
    /// The camera receives a voice (ONVIF's back channel).
    Talk,
}

/// A connection to a camera, and the state of its RTSP session.
#[derive(Debug)]
pub(crate) struct CameraConnection {
    pub(crate) socket: TcpStream,
    /// IP address of the camera.
    pub(crate) peer: IpAddr,
    pub(crate) client: Client,
    camera: RtspSource,
}

impl CameraConnection {
    /// Connects to `camera` and sends the first request.
    pub(crate) async fn open(camera: &RtspSource, purpose: Purpose) -> Result<Self, Failure> {
        let socket = connect(camera).await?;
        let peer = socket.peer_addr().map_err(Failure::Connect)?.ip();
        let mut config = Config::new(camera.url.clone(), rand::random());
        if camera.user.is_some() || camera.password.is_some() {
            config.user = Some(User {
                name: camera.user.clone().unwrap_or_default(),
                password: camera.password.clone().unwrap_or_default(),
            });
        }
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
            client,
            camera: camera.clone(),
        })
    }

    /// Waits for bytes of the camera; there are none at the end of the connection. A camera that ends
    /// the connection after its 401 is connected to again. May be dropped while it waits.
    ///
    /// # Errors
    /// Returns why the connection broke, or why there is no second one.
    pub(crate) async fn read(&mut self, buffer: &mut [u8]) -> Result<usize, Failure> {
        loop {
            match self.socket.read(buffer).await {
                Ok(count @ 1..) => return Ok(count),
                ended if !self.client.may_reopen() => return ended.map_err(Failure::Connection),
                _ => {}
            }
            self.socket = connect(&self.camera).await?;
            self.client.reopen(Instant::now());
            self.send().await?;
        }
    }

    /// Returns `failure` with what the camera answered to keep-alives, if media stopped after that.
    pub(crate) fn explained(&self, failure: Failure) -> Failure {
        match self.client.refused_keep_alive() {
            Some(refused) if failure.is_silence() => Failure::AfterKeepAlive {
                failure: Box::new(failure),
                refused: refused.clone(),
            },
            _ => failure,
        }
    }

    /// Sends what waits for the camera.
    pub(crate) async fn send(&mut self) -> Result<(), Failure> {
        while !self.client.output().is_empty() {
            let writing = self.socket.write(self.client.output());
            match tokio::time::timeout(STEP, writing).await {
                Ok(Ok(count)) if count > 0 => self.client.advance(count),
                Ok(Ok(_)) => return Err(Failure::HungUp),
                // The end of the connection is read next.
                Ok(Err(_)) if self.client.may_reopen() => return Ok(()),
                Ok(Err(error)) => return Err(Failure::Connection(error)),
                Err(_) => {
                    return Err(Failure::NoAnswer {
                        what: "read a request",
                    });
                }
            }
        }
        Ok(())
    }
}

/// Opens a TCP connection to a camera.
async fn connect(camera: &RtspSource) -> Result<TcpStream, Failure> {
    let (host, port) = camera.host_and_port();
    // What was resolved and checked is what is dialled.
    let connecting = async {
        let addresses = camera.reach.resolve(host, port).await?;
        TcpStream::connect(addresses.as_slice()).await
    };
    match tokio::time::timeout(STEP, connecting).await {
        Ok(Err(error)) if error.kind() == io::ErrorKind::PermissionDenied => {
            Err(Failure::Forbidden(error))
        }
        Ok(connected) => connected.map_err(Failure::Connect),
        Err(_) => Err(Failure::NoAnswer {
            what: "accept the connection",
        }),
    }
}
