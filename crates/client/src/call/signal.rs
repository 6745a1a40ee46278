//! Both ends of signalling, without a transport: an offer and the answer to it.

use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::{Instant, SystemTime, UNIX_EPOCH};

use glassline_media::{Codec, Track, WallClock};
use glassline_net::{Options, UdpSocket};
use glassline_webrtc::{
    AcceptConfig, AcceptError, Certificate, DataConfig, DialConfig, Kinds, Secrets, Session,
    SetAnswerError,
};
use thiserror::Error;

use super::{CallError, Config, MediaTransport};
use crate::viewers::{local_addresses, wildcard};

/// The reason why an offer was not answered.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum AnswerError {
    /// The offer is invalid; the peer's fault.
    #[error(transparent)]
    Offer(#[from] AcceptError),
    /// The end on this machine failed.
    #[error(transparent)]
    Call(#[from] CallError),
}

/// A call that waits for its answer.
#[derive(Debug)]
pub struct Dialling {
    transport: MediaTransport,
    offer: String,
}

impl Dialling {
    /// Prepares a call to an end that is reached at `server`, by HTTP for instance.
    ///
    /// # Errors
    /// If there is no route or no socket.
    pub fn new(server: SocketAddr, config: &Config) -> Result<Self, CallError> {
        Self::prepare(server, config, vec![voice()], Kinds::AUDIO, config.data())
    }

    /// Prepares to send audio to a server that forwards it.
    ///
    /// # Errors
    /// As [`new`](Self::new).
    pub fn speaking(server: SocketAddr, config: &Config) -> Result<Self, CallError> {
        Self::prepare(server, config, vec![voice()], Kinds::NONE, None)
    }

    /// Prepares to receive a participant's audio from a server, which may forward stamps too.
    ///
    /// # Errors
    /// As [`new`](Self::new).
    pub fn hearing(server: SocketAddr, config: &Config) -> Result<Self, CallError> {
        Self::prepare(server, config, Vec::new(), Kinds::AUDIO, config.data())
    }

    fn prepare(
        server: SocketAddr,
        config: &Config,
        send: Vec<Track>,
        receive: Kinds,
        data: Option<DataConfig>,
    ) -> Result<Self, CallError> {
        let ips = local_addresses(server).map_err(system("finding a route"))?;
        let socket = UdpSocket::bind(wildcard(server), &options())?;
        let port = socket.local_addr().port();
        let local: Vec<_> = ips.iter().map(|ip| SocketAddr::new(*ip, port)).collect();
        let first = local[0];
        let dial = DialConfig {
            local,
            send,
            receive,
            opus: config.options(),
            data,
            ..DialConfig::new(certificate()?, Secrets::expand(&rand::random()), wall())
        };
        let (session, offer) = Session::dial(dial, Instant::now());
        Ok(Self {
            transport: MediaTransport::new(session, socket, first, true),
            offer,
        })
    }

    /// SDP of the offer.
    pub fn offer(&self) -> &str {
        &self.offer
    }

    /// Takes the SDP of the answer.
    ///
    /// # Errors
    /// If the answer is unusable.
    pub fn answered(mut self, answer: &str) -> Result<MediaTransport, SetAnswerError> {
        self.transport.session.set_answer(answer, Instant::now())?;
        Ok(self.transport)
    }
}

/// Answers the call of `offer`; `reached` is our address at which it arrived. Returns the
/// transport of the call and the SDP answer.
///
/// # Errors
/// If the offer is unusable, or there is no socket.
pub fn answer(
    offer: &str,
    reached: SocketAddr,
    config: &Config,
) -> Result<(MediaTransport, String), AnswerError> {
    let socket = UdpSocket::bind(wildcard(reached), &options()).map_err(CallError::from)?;
    let port = socket.local_addr().port();
    let ip = reached.ip().to_canonical();
    let mut local = vec![SocketAddr::new(ip, port)];
    if ip.is_loopback() {
        // Browsers do not check loopback from their other addresses.
        let more = local_addresses(reached).unwrap_or_default();
        let more = more.into_iter().filter(|it| *it != ip);
        local.extend(more.map(|ip| SocketAddr::new(ip, port)));
    }
    let first = local[0];
    let accept = AcceptConfig {
        local: local.into_iter().map(Into::into).collect(),
        tracks: &[voice()],
        receive: Kinds::AUDIO,
        opus: config.options(),
        data: config.data(),
        ..AcceptConfig::new(certificate()?, Secrets::expand(&rand::random()), wall())
    };
    let (session, answer) = Session::accept(accept, offer, Instant::now())?;
    Ok((MediaTransport::new(session, socket, first, false), answer))
}

/// Track of a voice: one channel, whatever the microphone has.
fn voice() -> Track {
    Track::audio(Codec::Opus, 1)
}

fn options() -> Options {
    Options {
        receive_timestamps: true,
        segmentation: false,
        ..Options::default()
    }
}

fn certificate() -> Result<Arc<Certificate>, CallError> {
    let made = Certificate::generate().map_err(|error| CallError::System {
        what: "making a certificate",
        reason: error.to_string(),
    });
    made.map(Arc::new)
}

fn wall() -> WallClock {
    let unix = SystemTime::now().duration_since(UNIX_EPOCH);
    WallClock::new(Instant::now(), unix.unwrap_or_default())
}

/// Makes an error of the operating system into a [`CallError`].
pub(super) fn system(what: &'static str) -> impl FnOnce(io::Error) -> CallError {
    move |error| CallError::System {
        what,
        reason: error.to_string(),
    }
}
