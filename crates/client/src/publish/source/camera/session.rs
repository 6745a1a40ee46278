//! One session with a camera, from the connection to its end, within one TCP connection.

use std::time::{Duration, Instant};

use glassline_media::Track;
use glassline_rtsp::auth::User;
use glassline_rtsp::client::{Client, Config, Event, RequestedTransport};
use glassline_rtsp::message::Limits;
use glassline_rtsp::sdp::Description;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;

use super::receiver::{Receiver, choose};
use crate::publish::input::Camera;
use crate::publish::source::{Error, Event as SourceEvent, SourceContext};

/// Default port of RTSP (RFC 2326 §3.2).
const PORT: u16 = 554;

/// Size of the buffer that the connection is read into, in bytes.
const READ_BYTES: usize = 64 << 10;

/// Most bytes of a message's body: a description of many tracks with all their parameters has a
/// few KiB. A camera that announces more is given up before its message is stored.
const BODY_BYTES_MAX: usize = 1 << 20;

/// A session that plays, or is about to.
pub(super) struct Session {
    camera: Camera,
    carries: fn(&Track) -> bool,
    /// Longest wait for the next packet or for room in the connection.
    patience: Duration,
    socket: TcpStream,
    client: Client,
    buffer: Vec<u8>,
    /// The tracks that are sent; `None` before the camera has described them.
    receiver: Option<Receiver>,
    is_playing: bool,
    last_received: Instant,
}

impl Session {
    /// Connects to `camera` and plays the tracks that the destination `carries`. The connection,
    /// each response and each packet may take `patience`.
    pub(super) async fn connect(
        camera: &Camera,
        carries: fn(&Track) -> bool,
        patience: Duration,
    ) -> Result<Self, Error> {
        let host = camera.url.host_str().unwrap_or_default();
        let host = host.trim_start_matches('[').trim_end_matches(']');
        let port = camera.url.port().unwrap_or(PORT);
        let connecting = TcpStream::connect((host, port));
        let socket = match tokio::time::timeout(patience, connecting).await {
            Ok(Ok(socket)) => socket,
            Ok(Err(error)) => return Err(camera.failed(format!("cannot connect: {error}"))),
            Err(_) => return Err(camera.failed(format!("no connection within {patience:?}"))),
        };
        let mut config = Config::new(camera.url.clone(), rand::random());
        config.user = camera
            .user
            .clone()
            .map(|(name, password)| User { name, password });
        concat!("glassline/", env!("CARGO_PKG_VERSION")).clone_into(&mut config.user_agent);
        config.response_timeout = patience;
        config.limits = Limits {
            body_bytes_max: BODY_BYTES_MAX,
            ..Limits::default()
        };
        let now = Instant::now();
        let mut client = Client::new(config);
        client.start(now);
        let mut session = Self {
            camera: camera.clone(),
            carries,
            patience,
            socket,
            client,
            buffer: vec![0; READ_BYTES],
            receiver: None,
            is_playing: false,
            last_received: now,
        };
        while !session.is_playing {
            session.turn().await?;
        }
        Ok(session)
    }

    /// Returns the tracks as they are announced to the destination, video first.
    pub(super) fn tracks(&self) -> &[Track] {
        self.receiver.as_ref().map_or(&[], |it| &it.tracks)
    }

    /// Delivers units until the camera fails, or the publisher's session takes none any more.
    pub(super) async fn run(mut self, context: &SourceContext) -> Result<(), Error> {
        loop {
            while let Some(receiver) = &mut self.receiver
                && let Some(unit) = receiver.poll_unit(&context.timeline)
            {
                let gone = context.events.send(SourceEvent::Unit(unit)).await.is_err();
                if gone || context.control.is_stopped() {
                    self.client.leave(Instant::now());
                    // The camera ends the session by itself if it does not read this.
                    let _ = self.send().await;
                    return Ok(());
                }
            }
            self.turn().await?;
        }
    }

    /// Sends what waits, waits for something to happen, and handles what happened.
    async fn turn(&mut self) -> Result<(), Error> {
        self.send().await?;
        let silent = self.is_playing.then(|| self.last_received + self.patience);
        let deadlines = [self.client.poll_timeout(), silent];
        let reading = self.socket.read(&mut self.buffer);
        let read = match deadlines.into_iter().flatten().min() {
            Some(at) => tokio::time::timeout_at(at.into(), reading).await.ok(),
            None => Some(reading.await),
        };
        match read {
            Some(Ok(0)) => self.client.handle_end(),
            Some(Ok(count)) => self.take_bytes(count),
            Some(Err(error)) => return Err(self.broken(&error)),
            None => {}
        }
        let now = Instant::now();
        self.client.handle_timeout(now);
        while let Some(event) = self.client.poll_event() {
            self.on_event(event, now)?;
        }
        if self.is_playing && now.saturating_duration_since(self.last_received) >= self.patience {
            let why = format!("no packet arrived for {:?}", self.patience);
            return Err(self.camera.failed(why));
        }
        Ok(())
    }

    async fn send(&mut self) -> Result<(), Error> {
        while !self.client.output().is_empty() {
            let writing = self.socket.write(self.client.output());
            match tokio::time::timeout(self.patience, writing).await {
                Ok(Ok(count)) if count > 0 => self.client.advance(count),
                Ok(Ok(_)) => return Err(self.broken(&std::io::ErrorKind::WriteZero.into())),
                Ok(Err(error)) => return Err(self.broken(&error)),
                Err(_) => {
                    let why = format!("the camera read nothing for {:?}", self.patience);
                    return Err(self.camera.failed(why));
                }
            }
        }
        Ok(())
    }

    fn take_bytes(&mut self, count: usize) {
        let Self {
            client,
            receiver,
            last_received,
            buffer,
            ..
        } = self;
        let now = Instant::now();
        client.handle_data(now, &buffer[..count], |frame| {
            if let Some(receiver) = receiver
                && receiver.take(frame.track, frame.control, frame.payload, now)
            {
                *last_received = now;
            }
        });
    }

    fn on_event(&mut self, event: Event, now: Instant) -> Result<(), Error> {
        match event {
            Event::Described(description) => self.set_up(&description, now),
            Event::SetUp { .. } | Event::Recording => Ok(()),
            Event::Playing { .. } => {
                self.is_playing = true;
                self.last_received = now;
                Ok(())
            }
            Event::LeftOut { track, reason } => {
                tracing::warn!("leaving out a track of the camera: {reason}");
                let receiver = self.receiver.as_mut();
                let left_out = receiver.map_or(Ok(()), |it| it.leave_out(track));
                left_out.map_err(|it| self.camera.refused(it.to_string()))
            }
            Event::Closed(reason) => Err(self.camera.of(&reason)),
        }
    }

    fn set_up(&mut self, description: &Description, now: Instant) -> Result<(), Error> {
        let chosen = choose(description, self.carries);
        let left_out = chosen.left_out.join(", ");
        if chosen.tracks.is_empty() {
            let why = format!(
                "the camera offers {left_out}, but none of that can be sent: change its settings, \
                 for example to H.264"
            );
            return Err(self.camera.refused(why));
        }
        if !left_out.is_empty() {
            tracing::warn!("leaving out tracks of the camera: {left_out}");
        }
        let receiver =
            Receiver::new(chosen, description).map_err(|it| self.camera.refused(it.to_string()))?;
        let wanted: Vec<_> = receiver
            .described()
            .iter()
            .map(|track| (*track, RequestedTransport::Interleaved))
            .collect();
        self.receiver = Some(receiver);
        self.client.set_up(now, &wanted);
        Ok(())
    }

    fn broken(&self, error: &std::io::Error) -> Error {
        let why = format!("the connection to the camera broke: {error}");
        self.camera.failed(why)
    }
}
