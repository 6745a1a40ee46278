//! One camera that is asked and moved.

use std::net::IpAddr;
use std::time::{SystemTime, UNIX_EPOCH};

use glassline_rtsp::auth::{Authorizer, Challenge, User};
use glassline_rtsp::message::Method;
use glassline_trust::Trust;
use url::Url;

use crate::calendar;
use crate::call::Call;
use crate::credentials::Credentials;
use crate::device::{
    GetCapabilities, GetDeviceInformation, GetServices, GetSystemDateAndTime, Information, Media,
};
use crate::envelope::{self, Token};
use crate::http::{self, HttpError, Post};
use crate::media::{GetProfiles, GetStreamUri, StreamProfile};
use crate::ptz::{ContinuousMove, GetPresets, GotoPreset, MovableProfile, Preset, Stop, Velocity};

/// The reason why a camera did not do what it was asked; every text names the camera's URL.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// There was no connection, or no usable response of HTTP.
    #[error("cannot reach {url}: {source}")]
    Unreachable {
        /// URL of the request.
        url: Box<Url>,
        /// Error of the exchange.
        source: HttpError,
    },
    /// The camera wants a user and a password, or others than these.
    #[error("{0} asks for a user and a password of the camera, or refuses these")]
    Unauthorized(Box<Url>),
    /// The camera refused for another reason.
    #[error("{url} refuses: {reason}")]
    Refused {
        /// URL of the request.
        url: Box<Url>,
        /// The camera's own words, or the HTTP status.
        reason: String,
    },
    /// The response is not what ONVIF says.
    #[error("{url} sent no usable response: {reason}")]
    Unusable {
        /// URL of the request.
        url: Box<Url>,
        /// Name of the request, and what is missing or wrong in the response.
        reason: String,
    },
    /// The camera has no media service.
    #[error("{0} has no media service (ONVIF Profile S or T)")]
    NoMedia(Box<Url>),
    /// The camera cannot be moved.
    #[error("{0} has no PTZ: the camera cannot be moved by ONVIF")]
    NoPtz(Box<Url>),
}

/// A camera with ONVIF.
///
/// All of its services are asked at the address and port of its device service: the digest of the
/// password goes to no other machine.
#[derive(Clone, Debug)]
pub struct Camera {
    device: Service,
    media: Option<Media>,
    ptz: Option<Url>,
}

/// The end that requests are sent to.
#[derive(Clone, Debug)]
struct Service {
    url: Url,
    ip: IpAddr,
    trust: Trust,
    credentials: Option<Credentials>,
    /// Seconds by which the camera's clock is ahead of ours. A camera refuses a digest of another time.
    ahead: i64,
}

/// Returns whether a device service answers at `url`, which is asked at the address `ip` without
/// credentials.
pub async fn is_onvif(url: &Url, ip: IpAddr, trust: Trust) -> bool {
    let service = Service::new(url, ip, trust, None);
    service.ask(url, &GetSystemDateAndTime).await.is_ok()
}

impl Camera {
    /// Asks the device service at `url` for the camera's clock and its services. All requests go to the
    /// address `ip`.
    ///
    /// # Errors
    /// Returns [`Error`] if the camera does not tell its services.
    pub async fn connect(
        url: &Url,
        ip: IpAddr,
        trust: Trust,
        credentials: Option<Credentials>,
    ) -> Result<Self, Error> {
        let mut device = Service::new(url, ip, trust, credentials);
        let asked = device.ask(&device.url, &GetSystemDateAndTime).await;
        device.ahead = asked.map_or(0, |theirs| theirs.saturating_sub(unix_seconds()));
        let mut services = device.ask(&device.url, &GetCapabilities).await?;
        // Cameras of the second version alone have no media service in that list.
        if services.media.is_none()
            && let Ok(listed) = device.ask(&device.url, &GetServices).await
        {
            services.media = listed.media;
            services.ptz = services.ptz.or(listed.ptz);
        }
        let here = |url: Url| {
            let mut here = device.url.clone();
            here.set_path(url.path());
            here.set_query(url.query());
            here
        };
        Ok(Self {
            media: services.media.map(|it| Media {
                url: here(it.url),
                ..it
            }),
            ptz: services.ptz.map(here),
            device,
        })
    }

    /// Returns the camera's model.
    ///
    /// # Errors
    /// Returns [`Error`] if the camera does not tell.
    pub async fn information(&self) -> Result<Information, Error> {
        self.device
            .ask(&self.device.url, &GetDeviceInformation)
            .await
    }

    /// Returns the camera's profiles, each with the URL of its stream.
    ///
    /// # Errors
    /// Returns [`Error`] if the camera does not tell one of them.
    pub async fn stream_profiles(&self) -> Result<Vec<StreamProfile>, Error> {
        let Media {
            version,
            url: media,
        } = self.media()?;
        let mut profiles = Vec::new();
        for profile in self.device.ask(media, &GetProfiles(*version)).await? {
            let call = GetStreamUri {
                version: *version,
                profile: &profile.token,
            };
            let url = self.device.ask(media, &call).await?;
            profiles.push(StreamProfile { profile, url });
        }
        Ok(profiles)
    }

    /// Returns the first profile by which the camera can be moved.
    ///
    /// # Errors
    /// Returns [`Error`], [`Error::NoPtz`] for a camera that cannot be moved.
    pub async fn movable_profile(&self) -> Result<MovableProfile, Error> {
        self.ptz()?;
        let media = self.media()?;
        let call = GetProfiles(media.version);
        let profiles = self.device.ask(&media.url, &call).await?;
        let mut movable = profiles.into_iter().filter_map(|profile| {
            let axes = profile.axes?;
            let token = profile.token;
            Some(MovableProfile { token, axes })
        });
        movable.next().ok_or_else(|| self.no_ptz())
    }

    /// Returns the positions that the camera keeps.
    ///
    /// # Errors
    /// Returns [`Error`] if the camera does not tell.
    pub async fn presets(&self, profile: &MovableProfile) -> Result<Vec<Preset>, Error> {
        let profile = &profile.token;
        self.device.ask(self.ptz()?, &GetPresets { profile }).await
    }

    /// Goes to a position that the camera keeps.
    ///
    /// # Errors
    /// Returns [`Error`] if the camera refuses.
    pub async fn go_to_preset(&self, profile: &MovableProfile, preset: &str) -> Result<(), Error> {
        let profile = &profile.token;
        let call = GotoPreset { profile, preset };
        self.device.ask(self.ptz()?, &call).await
    }

    /// Moves the camera until it is stopped. A camera that knows timeouts stops by itself after three
    /// seconds without another command.
    ///
    /// # Errors
    /// Returns [`Error`] if the camera refuses.
    pub async fn move_by(&self, profile: &MovableProfile, velocity: Velocity) -> Result<(), Error> {
        let ptz = self.ptz()?;
        let call = |has_timeout| ContinuousMove {
            profile,
            velocity,
            has_timeout,
        };
        match self.device.ask(ptz, &call(true)).await {
            // Some cameras refuse timeouts, or this one.
            Err(Error::Refused { .. }) => self.device.ask(ptz, &call(false)).await,
            other => other,
        }
    }

    /// Stops every movement.
    ///
    /// # Errors
    /// Returns [`Error`] if the camera refuses.
    pub async fn stop(&self, profile: &MovableProfile) -> Result<(), Error> {
        self.device.ask(self.ptz()?, &Stop { profile }).await
    }

    fn media(&self) -> Result<&Media, Error> {
        let media = self.media.as_ref();
        media.ok_or_else(|| Error::NoMedia(Box::new(self.device.url.clone())))
    }

    fn ptz(&self) -> Result<&Url, Error> {
        self.ptz.as_ref().ok_or_else(|| self.no_ptz())
    }

    fn no_ptz(&self) -> Error {
        Error::NoPtz(Box::new(self.device.url.clone()))
    }
}

impl Service {
    fn new(url: &Url, ip: IpAddr, trust: Trust, credentials: Option<Credentials>) -> Self {
        let mut url = url.clone();
        // Texts for people have the URL.
        let _ = (url.set_username(""), url.set_password(None));
        Self {
            url,
            ip,
            trust,
            credentials,
            ahead: 0,
        }
    }

    /// Sends a request, and reads the response.
    async fn ask<C: Call>(&self, url: &Url, call: &C) -> Result<C::Response, Error> {
        let credentials = self.credentials.as_ref().filter(|_| !C::IS_OPEN);
        let token = credentials.map(|credentials| Token {
            credentials,
            nonce: rand::random(),
            created: calendar::text(unix_seconds().saturating_add(self.ahead)),
        });
        let sent = self.post(url, envelope::request(&call.body(), token.as_ref()));
        let http::Reply { status, text, .. } = sent.await.map_err(|source| Error::Unreachable {
            url: Box::new(url.clone()),
            source,
        })?;
        if status.as_u16() == 401 {
            return Err(Error::Unauthorized(Box::new(url.clone())));
        }
        let unusable = |reason: String| Error::Unusable {
            url: Box::new(url.clone()),
            reason: format!("{}: {reason}", C::NAME),
        };
        let refused = |reason: String| Error::Refused {
            url: Box::new(url.clone()),
            reason,
        };
        let document = match envelope::parse(&text) {
            Ok(document) => document,
            Err(_) if !status.is_success() => return Err(refused(format!("HTTP {status}"))),
            Err(reason) => return Err(unusable(reason)),
        };
        match envelope::fault(&document) {
            Some(fault) if fault.is_about_rights => Err(Error::Unauthorized(Box::new(url.clone()))),
            Some(fault) => Err(refused(fault.reason)),
            None if !status.is_success() => Err(refused(format!("HTTP {status}"))),
            None => call.read(document.root()).map_err(unusable),
        }
    }
}

impl Service {
    /// Sends an envelope, and once more with the digest of the password if the camera asks for that of HTTP
    /// (RFC 7616), beside that of the envelope. Basic would show the password to everybody.
    async fn post(&self, url: &Url, envelope: String) -> Result<http::Reply, HttpError> {
        let mut post = Post {
            url,
            ip: self.ip,
            trust: self.trust,
            body: envelope,
            authorization: None,
        };
        let mut reply = http::post(post.clone()).await?;
        let mut asked = std::mem::take(&mut reply.challenges);
        asked.retain(|it| matches!(it, Challenge::Digest(_)));
        let (Some(credentials), Some(challenge)) = (&self.credentials, Challenge::strongest(asked))
        else {
            return Ok(reply);
        };
        let user = User {
            name: credentials.user.clone(),
            password: credentials.password.clone(),
        };
        let mut authorizer = Authorizer::new(user, challenge, rand::random());
        let answer = authorizer.answer(&Method::Post, post.target(), post.body.as_bytes());
        post.authorization = Some(answer.to_string());
        http::post(post).await
    }
}

fn unix_seconds() -> i64 {
    let now = SystemTime::now().duration_since(UNIX_EPOCH);
    now.map_or(0, |it| i64::try_from(it.as_secs()).unwrap_or(0))
}
