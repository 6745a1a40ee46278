use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use glassline_trust::Trust;
use glassline_url::Login;
use url::Url;

use super::{
    Away, CameraScheme, LADDER, ON_OR_OFF, OnvifService, PUBLISHERS, SpecError, StreamPolicy,
    TRANSCODE, UdpPorts, seconds, switch,
};
use crate::Reach;
use crate::spelling::nearest;

/// A camera that the server connects to.
#[derive(Clone, PartialEq, derive_more::Debug)]
#[debug("CameraSource({self})")]
pub struct CameraSource {
    /// URL without user and password. Its path and query may have secrets, so that it is shown by
    /// [`glassline_url::shown_with`] alone.
    pub url: Url,
    /// User name from the URL.
    pub user: Option<String>,
    /// Password from the URL; never shown.
    pub password: Option<String>,
    /// Further streams of the camera's picture, smaller than that of `url` and than those before.
    pub sub_streams: Vec<SubStream>,
    /// Transport of the camera's packets.
    pub transport: Transport,
    /// UDP ports that the camera's packets may come to; `None` leaves the choice to the server.
    pub udp_ports: Option<UdpPorts>,
    /// Certificates of the camera that are accepted, for `rtsps://` and `https://`.
    pub trust: Arc<Trust>,
    /// Time without packets after which the camera counts as gone.
    pub timeout: Duration,
    /// Time without receivers after which the camera is left until somebody needs its stream;
    /// `None` if it stays connected.
    pub on_demand: Option<Duration>,
    /// Time between two pictures of a camera that answers with a single one over HTTP; `None` leaves
    /// the choice to the server.
    pub every: Option<Duration>,
    /// The media that receivers get while the camera is away.
    pub away: Away,
    /// Where the camera's ONVIF is.
    pub onvif: OnvifService,
    /// Addresses at which the camera may be.
    pub reach: Reach,
    /// Decisions about the stream.
    pub policy: StreamPolicy,
}

/// A further stream of a camera's picture.
#[derive(Clone, PartialEq)]
pub struct SubStream {
    /// URL without user and password.
    pub url: Url,
    /// The login of this URL; at the host of the main stream, that of the main stream's URL without one.
    login: Option<Login>,
}

/// The transport of a camera's packets.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Transport {
    /// Packets go within the RTSP connection: none is lost, and firewalls let them pass.
    Tcp,
    /// Packets go as datagrams: a lost packet does not delay the others.
    Udp,
}

/// Options of cameras, which are taken from the URL.
pub(super) const OPTIONS: [&str; 16] = [
    "transport",
    "udp_ports",
    "sha256",
    "insecure",
    "timeout_s",
    "every_s",
    "on_demand",
    "idle_s",
    "onvif",
    TRANSCODE,
    LADDER,
    "fallback",
    "placeholder",
    "after_s",
    "silent_s",
    PUBLISHERS,
];

/// Most streams of a camera's picture beside the main one.
const SUB_STREAMS_MAX: usize = 3;

/// Options that are set by their name alone.
const SWITCHES: [&str; 3] = ["insecure", "on_demand", "placeholder"];

/// Default time without packets after which a camera counts as gone; a camera sends a frame every
/// 40 ms or so.
const SILENCE: Duration = Duration::from_secs(5);

/// Time between two pictures of a camera that answers with a single one, unless the source says
/// otherwise.
const INTERVAL: Duration = Duration::from_secs(1);

/// Time without receivers after which a camera on demand is left, unless the source says otherwise.
pub(super) const IDLE: Duration = Duration::from_secs(10);

impl CameraSource {
    /// Returns what is sent to the camera and looks like an option with a slip of the pen, with the
    /// option that may be meant.
    pub fn doubtful_options(&self) -> Vec<(String, &'static str)> {
        let query = self.url.query().unwrap_or_default();
        let keys = query.split('&').map(|option| {
            let (key, _) = option.split_once('=').unwrap_or((option, ""));
            key
        });
        let doubtful = keys.filter_map(|key| {
            let meant = nearest(key, OPTIONS.iter().copied())?;
            let meant = OPTIONS.into_iter().find(|option| *option == meant)?;
            Some((key.to_owned(), meant))
        });
        doubtful.collect()
    }

    /// Returns the streams of the camera's picture, the best first, each with its name: one for each
    /// connection.
    pub(crate) fn layers(&self) -> Vec<(String, Self)> {
        let main = Self {
            sub_streams: Vec::new(),
            ..self.clone()
        };
        let subs = self.sub_streams.iter().enumerate().map(|(place, sub)| {
            let rid = match place {
                0 => "sub".to_owned(),
                _ => format!("sub{}", place + 1),
            };
            let (user, password) = split_login(sub.login.clone());
            let camera = Self {
                url: sub.url.clone(),
                user,
                password,
                ..main.clone()
            };
            (rid, camera)
        });
        let subs: Vec<_> = subs.collect();
        let main = std::iter::once(("main".to_owned(), main));
        main.chain(subs).collect()
    }

    /// Returns the host as it is resolved, and the TCP port.
    pub fn host_and_port(&self) -> (&str, u16) {
        Self::host_and_port_of(&self.url)
    }

    /// Returns whether the camera is reached over RTSP, and not over HTTP.
    pub fn is_rtsp(&self) -> bool {
        CameraScheme::of(&self.url).is_some_and(CameraScheme::is_rtsp)
    }

    /// Returns whether the connection to the camera is one of TLS.
    pub fn is_secure(&self) -> bool {
        CameraScheme::of(&self.url).is_some_and(CameraScheme::is_secure)
    }

    /// Returns the time between two pictures of a camera that answers with a single one.
    pub(crate) fn interval(&self) -> Duration {
        self.every.unwrap_or(INTERVAL)
    }

    /// Returns the host of a camera's URL as it is resolved, and the TCP port.
    pub fn host_and_port_of(url: &Url) -> (&str, u16) {
        let host = url.host_str().unwrap_or_default();
        let host = host.trim_start_matches('[').trim_end_matches(']');
        let usual = CameraScheme::of(url).map_or(0, CameraScheme::port);
        (host, url.port().unwrap_or(usual))
    }

    pub(super) fn parse(text: &str) -> Result<Self, SpecError> {
        Self::of_urls(split_urls(text).into_iter())
    }

    /// Returns the camera with the streams at these URLs, the largest first.
    ///
    /// # Errors
    /// Returns [`SpecError`] with what is wrong; it never contains a password.
    pub fn of_layers(urls: &[String]) -> Result<Self, SpecError> {
        let is_rtsp = |url: &str| {
            let scheme = url
                .split_once("://")
                .and_then(|(it, _)| CameraScheme::named(it));
            scheme.is_some_and(CameraScheme::is_rtsp)
        };
        match urls.iter().find(|it| !is_rtsp(it)) {
            Some(other) => Err(SpecError::Value {
                option: "layers",
                value: glassline_url::hidden(other),
                wanted: "URLs of RTSP, the largest picture first",
            }),
            None => Self::of_urls(urls.iter().map(String::as_str)),
        }
    }

    fn of_urls<'a>(mut texts: impl Iterator<Item = &'a str>) -> Result<Self, SpecError> {
        let mut url = glassline_url::parse(texts.next().unwrap_or_default())?;
        let login = Login::take_from(&mut url);
        let (user, password) = split_login(login.clone());
        let mut source = Self {
            url,
            user,
            password,
            sub_streams: Vec::new(),
            transport: Transport::Tcp,
            udp_ports: None,
            trust: Arc::default(),
            timeout: SILENCE,
            on_demand: None,
            every: None,
            away: Away::default(),
            onvif: OnvifService::default(),
            reach: Reach::default(),
            policy: StreamPolicy::default(),
        };
        let mut url = source.url.clone();
        source.take_options(&mut url)?;
        source.url = url;
        for text in texts {
            source.take_sub_stream(text, login.as_ref())?;
        }
        Ok(source)
    }

    /// Takes the URL of a further stream. Options in it are those of the camera. `login` is that of the
    /// main stream.
    fn take_sub_stream(&mut self, text: &str, login: Option<&Login>) -> Result<(), SpecError> {
        let wanted = match () {
            () if !self.is_rtsp() => Some("URLs of RTSP, and the main stream is none"),
            () if self.sub_streams.len() == SUB_STREAMS_MAX => Some("four URLs at most"),
            () => None,
        };
        if let Some(wanted) = wanted {
            return Err(SpecError::Value {
                option: "layers",
                value: glassline_url::hidden(text),
                wanted,
            });
        }
        let mut url = glassline_url::parse(text)?;
        let own = Login::take_from(&mut url);
        if url.scheme() != self.url.scheme() {
            return Err(SpecError::Value {
                option: "layers",
                value: glassline_url::hidden(text),
                wanted: "URLs of one scheme, rtsp:// or rtsps://",
            });
        }
        let is_at_host = url.host_str() == self.url.host_str();
        let of_main = login.filter(|_| is_at_host).cloned();
        self.take_options(&mut url)?;
        self.sub_streams.push(SubStream {
            url,
            login: own.or(of_main),
        });
        Ok(())
    }

    fn take_options(&mut self, url: &mut Url) -> Result<(), SpecError> {
        let query = url.query().unwrap_or_default().to_owned();
        let mut others = Vec::new();
        for option in query.split('&').filter(|option| !option.is_empty()) {
            let is_taken = match option.split_once('=') {
                Some((key, value)) => self.take(key, value)?,
                // A camera may have words of its own for the others.
                None => SWITCHES.contains(&option) && self.take(option, "")?,
            };
            if !is_taken {
                others.push(option);
            }
        }
        let rest = others.join("&");
        url.set_query((!rest.is_empty()).then_some(&rest));
        Ok(())
    }

    /// Takes an option. Returns false if there is none of this name.
    pub(super) fn take(&mut self, key: &str, value: &str) -> Result<bool, SpecError> {
        match (key, value) {
            // Words of a camera's own, where they mean nothing here.
            ("transport" | "udp_ports", _) if !self.is_rtsp() => return Ok(false),
            ("every_s", _) if self.is_rtsp() => return Ok(false),
            ("every_s", value) => self.every = Some(seconds("every_s", value)?),
            ("transport", "tcp") => self.transport = Transport::Tcp,
            // Plain UDP would undo the encryption, and SRTP is not spoken to cameras.
            ("transport", "udp") if CameraScheme::of(&self.url) == Some(CameraScheme::Rtsps) => {
                return Err(SpecError::Value {
                    option: "transport",
                    value: value.to_owned(),
                    wanted: "tcp for rtsps://, since packets by UDP would not be encrypted",
                });
            }
            ("transport", "udp") => self.transport = Transport::Udp,
            ("transport", value) => {
                return Err(SpecError::Value {
                    option: "transport",
                    value: value.to_owned(),
                    wanted: "tcp or udp",
                });
            }
            ("udp_ports", value) => {
                let ports = value.parse().map_err(|_| SpecError::Value {
                    option: "udp_ports",
                    value: value.to_owned(),
                    wanted: UdpPorts::WANTED,
                })?;
                self.udp_ports = Some(ports);
            }
            ("sha256", value) => {
                let pin = value.parse().map_err(|_| SpecError::Value {
                    option: "sha256",
                    value: value.to_owned(),
                    wanted: "the SHA-256 of the camera's certificate, 64 hexadecimal digits",
                })?;
                self.trust = Arc::new(Trust::Pinned(pin));
            }
            ("insecure", value) => {
                let is_insecure = switch("insecure", value, ON_OR_OFF)?;
                match (is_insecure, &*self.trust) {
                    // A pin is stricter, and named on purpose.
                    (_, Trust::Pinned(_)) => {}
                    (true, _) => self.trust = Arc::new(Trust::Anyone),
                    (false, _) => self.trust = Arc::default(),
                }
            }
            ("timeout_s", value) => self.timeout = seconds("timeout_s", value)?,
            ("on_demand", value) => {
                let idle = self.on_demand.unwrap_or(IDLE);
                self.on_demand = switch("on_demand", value, ON_OR_OFF)?.then_some(idle);
            }
            ("onvif", value) => {
                self.onvif = value.parse().map_err(|_| SpecError::Value {
                    option: "onvif",
                    value: glassline_url::hidden(value),
                    wanted: OnvifService::WANTED,
                })?;
            }
            ("idle_s", value) => self.on_demand = Some(seconds("idle_s", value)?),
            (LADDER, _) if !self.sub_streams.is_empty() => return Err(SpecError::LadderAndLayers),
            (PUBLISHERS | TRANSCODE | LADDER, value) => return self.policy.take(key, value),
            _ => return self.away.take(key, value),
        }
        Ok(true)
    }
}

/// Splits the URLs of a camera's streams, which commas separate.
fn split_urls(text: &str) -> Vec<&str> {
    let mut urls = Vec::new();
    let mut rest = text;
    let begins_url = |rest: &str| rest.starts_with("rtsp://") || rest.starts_with("rtsps://");
    let next = |rest: &str| {
        let mut commas = rest.match_indices(',').map(|(at, _)| at);
        commas.find(|at| begins_url(&rest[at + 1..]))
    };
    while let Some(end) = next(rest) {
        urls.push(&rest[..end]);
        rest = &rest[end + 1..];
    }
    urls.push(rest);
    urls
}

fn split_login(login: Option<Login>) -> (Option<String>, Option<String>) {
    match login {
        Some(Login { user, password }) => (Some(user).filter(|it| !it.is_empty()), password),
        None => (None, None),
    }
}

impl fmt::Display for CameraSource {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let has_login = self.user.is_some() || self.password.is_some();
        let login = has_login.then(|| Login {
            user: self.user.clone().unwrap_or_default(),
            password: self.password.clone(),
        });
        f.write_str(&glassline_url::shown_with(&self.url, login.as_ref()))?;
        for sub in &self.sub_streams {
            let shown = glassline_url::shown_with(&sub.url, sub.login.as_ref());
            write!(f, ",{shown}")?;
        }
        let last = self.sub_streams.last().map_or(&self.url, |it| &it.url);
        let mut separator = if last.query().is_some() { '&' } else { '?' };
        if self.transport == Transport::Udp {
            write!(f, "{separator}transport=udp")?;
            separator = '&';
        }
        if let Some(ports) = self.udp_ports {
            write!(f, "{separator}udp_ports={ports}")?;
            separator = '&';
        }
        let trust = match &*self.trust {
            Trust::Pinned(pin) => Some(format!("sha256={pin}")),
            Trust::Anyone => Some("insecure".to_owned()),
            _ => None,
        };
        if let Some(trust) = trust {
            write!(f, "{separator}{trust}")?;
            separator = '&';
        }
        if self.timeout != SILENCE {
            write!(f, "{separator}timeout_s={}", self.timeout.as_secs_f64())?;
            separator = '&';
        }
        if let Some(every) = self.every {
            write!(f, "{separator}every_s={}", every.as_secs_f64())?;
            separator = '&';
        }
        match self.on_demand {
            None => {}
            Some(IDLE) => write!(f, "{separator}on_demand")?,
            Some(idle) => write!(f, "{separator}idle_s={}", idle.as_secs_f64())?,
        }
        if self.on_demand.is_some() {
            separator = '&';
        }
        for option in self.policy.options() {
            write!(f, "{separator}{option}")?;
            separator = '&';
        }
        if self.onvif != OnvifService::Auto {
            write!(f, "{separator}onvif={}", self.onvif)?;
            separator = '&';
        }
        self.away.write(f, separator)
    }
}
