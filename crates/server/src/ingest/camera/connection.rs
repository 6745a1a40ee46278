//! The RTSP connection to a camera.

use std::io;
use std::net::IpAddr;
use std::time::Instant;

use glassline_rtsp::auth::User;
use glassline_rtsp::client::{Client, Config};
use glassline_rtsp::message::Limits;
use tokio::io::AsyncWriteExt as _;
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
}

impl CameraConnection {
    /// Connects to `camera` and sends the first request.
    pub(crate) async fn open(camera: &RtspSource, purpose: Purpose) -> Result<Self, Failure> {
        let (host, port) = camera.host_and_port();
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
        })
    }

    /// Sends what waits for the camera.
    pub(crate) async fn send(&mut self) -> Result<(), Failure> {
        while !self.client.output().is_empty() {
            let writing = self.socket.write(self.client.output());
            match tokio::time::timeout(STEP, writing).await {
                Ok(Ok(count)) if count > 0 => self.client.advance(count),
                Ok(Ok(_)) => return Err(Failure::HungUp),
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
