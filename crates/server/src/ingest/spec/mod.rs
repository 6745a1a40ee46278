use std::fmt;
use std::path::{Path, PathBuf};
use std::time::Duration;

use glassline_hub::{NameError, StreamName};
use url::Url;

use crate::spelling::nearest;

/// A stream to publish, and its source.
#[derive(Clone, Debug, PartialEq)]
pub struct SourceSpec {
    /// Name of the stream.
    pub name: StreamName,
    /// Source of the stream.
    pub input: Input,
}

impl SourceSpec {
    /// Returns the built-in clip under the name `demo`.
    pub fn demo() -> Self {
        Self {
            name: StreamName::parse(DEMO).expect("'demo' is a stream name"),
            input: Input::Demo,
        }
    }

    /// Parses `NAME=rtsp://…`, `NAME=FILE[,FILE…][?fps=30&once]`, `NAME=demo` or just `demo`.
    ///
    /// # Errors
    /// Returns [`SpecError`] with what is wrong; it never contains a password.
    pub fn parse(text: &str) -> Result<Self, SpecError> {
        if text == DEMO {
            return Ok(Self::demo());
        }
        // An '=' within a URL stands behind the scheme, and a name has none.
        let (name, input) = match text.split_once('=') {
            Some((name, input)) if !name.contains("://") => (name, input),
            _ => {
                return Err(SpecError::NoName {
                    input: redact(text),
                });
            }
        };
        Ok(Self {
            name: StreamName::parse(name).map_err(SpecError::Name)?,
            input: Input::parse(input)?,
        })
    }
}

/// The source of a stream. [`Display`](fmt::Display) gives the form that [`Input::parse`] reads,
/// with the password hidden.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub enum Input {
    /// The clip in the binary.
    Demo,
    /// Files that become the tracks of one stream.
    Files(FileSource),
    /// A camera that the server connects to.
    Rtsp(RtspSource),
}

/// Files that become the tracks of one stream.
#[derive(Clone, Debug, PartialEq)]
pub struct FileSource {
    /// Paths of the files; at least one.
    pub paths: Vec<PathBuf>,
    /// Frames per second of elementary video; `None` takes the rate from the bitstream.
    pub fps: Option<f64>,
    /// Whether the source stops at the end instead of beginning again.
    pub once: bool,
}

/// A camera that the server connects to.
#[derive(Clone, PartialEq)]
pub struct RtspSource {
    /// URL without user and password.
    pub url: Url,
    /// User name from the URL.
    pub user: Option<String>,
    /// Password from the URL; never shown.
    pub password: Option<String>,
    /// Transport of the camera's packets.
    pub transport: Transport,
    /// Time without packets after which the camera counts as gone.
    pub timeout: Duration,
}

/// The transport of a camera's packets.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Transport {
    /// Packets go within the RTSP connection: none is lost, and firewalls let them pass.
    Tcp,
    /// Packets go as datagrams: a lost packet does not delay the others.
    Udp,
}

impl Input {
    /// Parses `rtsp://…[?transport=udp&timeout_s=5]`, `FILE[,FILE…][?fps=30&once]` or `demo`. (A
    /// file called `demo` is written `./demo`.)
    ///
    /// Only the two options `transport` and `timeout_s` are removed from the query of an RTSP URL;
    /// the rest is sent to the camera.
    ///
    /// # Errors
    /// Returns [`SpecError`] with what is wrong; it never contains a password.
    pub fn parse(text: &str) -> Result<Self, SpecError> {
        if text == DEMO {
            return Ok(Self::Demo);
        }
        if let Some((scheme, _)) = text.split_once("://") {
            return if scheme.eq_ignore_ascii_case("rtsp") {
                RtspSource::parse(text).map(Self::Rtsp)
            } else {
                Err(SpecError::Scheme {
                    scheme: scheme.to_owned(),
                })
            };
        }
        if let Some((scheme, _)) = text.split_once(':')
            && SCHEMES
                .iter()
                .any(|known| known.eq_ignore_ascii_case(scheme))
        {
            return Err(SpecError::Slashes {
                scheme: scheme.to_owned(),
            });
        }
        FileSource::parse(text).map(Self::Files)
    }

    /// Makes relative paths relative to `folder`.
    pub(crate) fn resolve_in(&mut self, folder: &Path) {
        if let Self::Files(files) = self {
            for path in &mut files.paths {
                *path = folder.join(&path);
            }
        }
    }
}

impl fmt::Display for Input {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Demo => f.write_str(DEMO),
            Self::Files(files) => files.fmt(f),
            Self::Rtsp(camera) => camera.fmt(f),
        }
    }
}

impl FileSource {
    fn parse(text: &str) -> Result<Self, SpecError> {
        let (list, options) = text.split_once('?').unwrap_or((text, ""));
        if list.split(',').any(str::is_empty) {
            return Err(SpecError::EmptyPath {
                list: list.to_owned(),
            });
        }
        let mut source = Self {
            paths: list.split(',').map(PathBuf::from).collect(),
            fps: None,
            once: false,
        };
        for option in options.split('&').filter(|option| !option.is_empty()) {
            let (key, value) = option.split_once('=').unwrap_or((option, ""));
            match key {
                "fps" => source.fps = Some(frame_rate(value)?),
                "once" if matches!(value, "" | "1" | "true") => source.once = true,
                "once" => {
                    return Err(SpecError::Value {
                        option: "once",
                        value: value.to_owned(),
                        wanted: "nothing",
                    });
                }
                _ => return Err(SpecError::unknown(key, &["fps", "once"])),
            }
        }
        Ok(source)
    }
}

impl fmt::Display for FileSource {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (place, path) in self.paths.iter().enumerate() {
            if place > 0 {
                f.write_str(",")?;
            }
            write!(f, "{}", path.display())?;
        }
        let mut separator = '?';
        if let Some(fps) = self.fps {
            write!(f, "{separator}fps={fps}")?;
            separator = '&';
        }
        if self.once {
            write!(f, "{separator}once")?;
        }
        Ok(())
    }
}

/// Schemes of URLs that people give as sources. A path that begins like one is a slip.
const SCHEMES: &[&str] = &[
    "rtsp", "rtsps", "rtmp", "rtmps", "srt", "udp", "http", "https",
];

/// Options that are taken from the URL.
const OPTIONS: [&str; 2] = ["transport", "timeout_s"];

impl RtspSource {
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

    fn parse(text: &str) -> Result<Self, SpecError> {
        let mut url = Url::parse(text).map_err(|error| SpecError::Url {
            url: redact(text),
            reason: error.to_string(),
        })?;
        if url.host_str().is_none_or(str::is_empty) {
            return Err(SpecError::Url {
                url: redact(text),
                reason: "no host".to_owned(),
            });
        }
        let user = (!url.username().is_empty()).then(|| decode(url.username()));
        let password = url.password().map(decode);
        // Both fail only for URLs that cannot have a user at all.
        let _ = url.set_username("");
        let _ = url.set_password(None);
        let mut source = Self {
            url,
            user,
            password,
            transport: Transport::Tcp,
            timeout: SILENCE,
        };
        source.take_options()?;
        Ok(source)
    }

    fn take_options(&mut self) -> Result<(), SpecError> {
        let query = self.url.query().unwrap_or_default().to_owned();
        let mut others = Vec::new();
        for option in query.split('&').filter(|option| !option.is_empty()) {
            match option.split_once('=') {
                Some(("transport", "tcp")) => self.transport = Transport::Tcp,
                Some(("transport", "udp")) => self.transport = Transport::Udp,
                Some(("transport", value)) => {
                    return Err(SpecError::Value {
                        option: "transport",
                        value: value.to_owned(),
                        wanted: "tcp or udp",
                    });
                }
                Some(("timeout_s", value)) => self.timeout = timeout(value)?,
                _ => others.push(option),
            }
        }
        let rest = others.join("&");
        self.url.set_query((!rest.is_empty()).then_some(&rest));
        Ok(())
    }
}

impl fmt::Display for RtspSource {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let plain = self.url.as_str();
        let rest = plain.split_once("://").map_or(plain, |(_, rest)| rest);
        f.write_str("rtsp://")?;
        if let Some(user) = &self.user {
            f.write_str(user)?;
            if self.password.is_some() {
                f.write_str(":…")?;
            }
            f.write_str("@")?;
        }
        f.write_str(rest)?;
        let mut separator = if self.url.query().is_some() { '&' } else { '?' };
        if self.transport == Transport::Udp {
            write!(f, "{separator}transport=udp")?;
            separator = '&';
        }
        if self.timeout != SILENCE {
            write!(f, "{separator}timeout_s={}", self.timeout.as_secs_f64())?;
        }
        Ok(())
    }
}

impl fmt::Debug for RtspSource {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "RtspSource({self})")
    }
}

/// The reason why a text is not a source.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum SpecError {
    /// The text has no stream name.
    #[error(
        "source '{input}' has no stream name: write NAME={input}, like cam={input} (or just 'demo')"
    )]
    NoName {
        /// The text with its password hidden.
        input: String,
    },
    /// The stream's name is invalid.
    #[error(transparent)]
    Name(NameError),
    /// The URL's scheme is not supported.
    #[error("'{scheme}://' is not supported: a source is rtsp://…, files, or demo")]
    Scheme {
        /// Scheme of the URL.
        scheme: String,
    },
    /// The scheme of a URL without two slashes behind it.
    #[error(
        "'{scheme}:' begins a URL, which has two slashes: write {scheme}://HOST/PATH (a file of this \
         name is written ./{scheme}:…)"
    )]
    Slashes {
        /// Scheme of the URL.
        scheme: String,
    },
    /// The text is not a valid URL.
    #[error("'{url}' is not a URL: {reason}")]
    Url {
        /// The text with its password hidden.
        url: String,
        /// What is wrong with it.
        reason: String,
    },
    /// A path in the list of files is empty.
    #[error("a file name is empty in '{list}': write FILE or FILE,FILE")]
    EmptyPath {
        /// The list of files.
        list: String,
    },
    /// The option is unknown for this kind of source.
    #[error("unknown option '{option}': {hint}")]
    Option {
        /// Name of the unknown option.
        option: String,
        /// A similar option, or the list of options.
        hint: String,
    },
    /// The value of an option is out of range.
    #[error("'{value}' is not a value of '{option}': it takes {wanted}")]
    Value {
        /// Name of the option.
        option: &'static str,
        /// Value that the option was given.
        value: String,
        /// The values that the option takes.
        wanted: &'static str,
    },
}

impl SpecError {
    fn unknown(key: &str, known: &[&str]) -> Self {
        let hint = match nearest(key, known.iter().copied()) {
            Some(meant) => format!("did you mean '{meant}'?"),
            None => format!("there are {}", known.join(" and ")),
        };
        Self::Option {
            option: key.to_owned(),
            hint,
        }
    }
}

const DEMO: &str = "demo";

/// Default time without packets after which a camera counts as gone; a camera sends a frame every
/// 40 ms or so.
const SILENCE: Duration = Duration::from_secs(5);

/// Parses `30`, `29.97` or `30000/1001`.
fn frame_rate(text: &str) -> Result<f64, SpecError> {
    let number = |text: &str| text.parse::<f64>().ok();
    let rate = match text.split_once('/') {
        Some((frames, seconds)) => number(frames).zip(number(seconds)).map(|(f, s)| f / s),
        None => number(text),
    };
    rate.filter(|rate| (0.1..=1000.0).contains(rate))
        .ok_or_else(|| SpecError::Value {
            option: "fps",
            value: text.to_owned(),
            wanted: "frames per second, 0.1 to 1000, like 30 or 30000/1001",
        })
}

fn timeout(text: &str) -> Result<Duration, SpecError> {
    text.parse::<f64>()
        .ok()
        .filter(|seconds| (0.1..=3600.0).contains(seconds))
        .map(Duration::from_secs_f64)
        .ok_or_else(|| SpecError::Value {
            option: "timeout_s",
            value: text.to_owned(),
            wanted: "seconds, 0.1 to 3600",
        })
}

/// Hides the text between the first `:` of a URL's user part and its `@`, even if the rest is
/// broken.
fn redact(text: &str) -> String {
    let Some((before, rest)) = text.split_once("://") else {
        return text.to_owned();
    };
    let authority = rest.find('/').map_or(rest, |end| &rest[..end]);
    // A password may contain '/', '@' or ':' in a URL written by hand.
    let at = rest.rfind('@').filter(|_| rest.contains('@'));
    match (authority.find(':'), at) {
        (Some(colon), Some(at)) if colon < at => {
            format!("{before}://{}:…{}", &rest[..colon], &rest[at..])
        }
        _ => text.to_owned(),
    }
}

/// Decodes percent-encoding (RFC 3986 §2.1); bytes that are not UTF-8 are replaced.
fn decode(text: &str) -> String {
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text.as_bytes();
    while let [first, tail @ ..] = rest {
        let hex = |byte: u8| char::from(byte).to_digit(16);
        let encoded = match (first, tail) {
            (b'%', [high, low, ..]) => hex(*high).zip(hex(*low)),
            _ => None,
        };
        match encoded {
            Some((high, low)) => {
                bytes.push(u8::try_from(high * 16 + low).expect("two hex digits are a byte"));
                rest = &tail[2..];
            }
            None => {
                bytes.push(*first);
                rest = tail;
            }
        }
    }
    String::from_utf8_lossy(&bytes).into_owned()
}

#[cfg(test)]
mod tests;
