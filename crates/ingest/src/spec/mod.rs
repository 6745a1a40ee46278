mod arguments;
mod away;
mod camera_scheme;
mod camera_source;
mod command_source;
mod onvif;
mod publisher_source;
mod spec_error;
mod stream_policy;
mod udp_ports;

use std::fmt;
use std::path::{Path, PathBuf};
use std::time::Duration;

use glassline_demux::Format;
use glassline_hub::{Ladder, StreamName, Transcode};

use crate::spelling::nearest;
use crate::stream_names;
pub use away::{Away, PlaceholderKind};
pub(crate) use camera_scheme::CameraScheme;
use camera_source::OPTIONS;
pub use camera_source::{CameraSource, SubStream, Transport};
pub(crate) use command_source::without_secrets;
pub use command_source::{CommandSource, Device, Program};
pub use onvif::{NoOnvifService, OnvifService};
pub use publisher_source::PublisherSource;
pub use spec_error::SpecError;
pub use stream_policy::StreamPolicy;
use stream_policy::{LADDER, PUBLISHERS, TRANSCODE};
pub use udp_ports::{UdpPorts, UdpPortsError};

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
                    input: glassline_url::hidden(text),
                });
            }
        };
        Ok(Self {
            name: stream_names::parse(name).map_err(SpecError::Name)?,
            input: Input::parse(input)?,
        })
    }
}

/// The source of a stream. [`Display`](fmt::Display) gives the form that [`Input::parse`] reads,
/// with the password hidden.
#[derive(Clone, Debug, PartialEq, derive_more::Display)]
pub enum Input {
    /// The clip in the binary.
    #[display("{}", DEMO)]
    Demo,
    /// Files that become the tracks of one stream.
    Files(FileSource),
    /// A camera that the server connects to.
    Camera(CameraSource),
    /// A program that the server starts, whose output is played.
    Command(CommandSource),
    /// Whoever publishes under the stream's name, and what receivers get before and after.
    #[display("{PUBLISHER}{_0}")]
    Publisher(PublisherSource),
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
    /// Decisions about the stream.
    pub policy: StreamPolicy,
}

impl Input {
    /// Returns whether a client publishes the stream, which the server does not fetch.
    pub const fn is_published(&self) -> bool {
        matches!(self, Self::Publisher(_))
    }

    /// Returns the kind of the source if it alone publishes the stream; `None` if clients may, too.
    pub const fn only_source(&self) -> Option<&'static str> {
        match self {
            Self::Demo => Some("clip"),
            Self::Files(files) if !files.policy.takes_publishers => Some("file"),
            Self::Camera(camera) if !camera.policy.takes_publishers => Some("camera"),
            Self::Command(command) if !command.policy.takes_publishers => Some("program"),
            Self::Files(_) | Self::Camera(_) | Self::Command(_) | Self::Publisher(_) => None,
        }
    }

    /// Returns the camera that the server connects to, if the source is one.
    pub const fn camera(&self) -> Option<&CameraSource> {
        match self {
            Self::Camera(camera) => Some(camera),
            _ => None,
        }
    }

    /// Returns the program that the server starts, if the source is one.
    pub const fn command(&self) -> Option<&CommandSource> {
        match self {
            Self::Command(command) => Some(command),
            _ => None,
        }
    }

    /// Returns the camera that the server connects to, if the source is one, to be changed.
    pub const fn camera_mut(&mut self) -> Option<&mut CameraSource> {
        match self {
            Self::Camera(camera) => Some(camera),
            _ => None,
        }
    }

    /// Parses `rtsp://…[?transport=udp&timeout_s=5]`, `rtsps://…[?sha256=…]`, `http://…`,
    /// `FILE[,FILE…][?fps=30&once]`, `exec:…`, `ffmpeg:…`, `/dev/videoN`, `publisher` or `demo`. (A file called `demo` is written `./demo`.)
    ///
    /// Only the options of the server, like `transport` and `on_demand`, are removed from the query of
    /// a camera's URL; the rest is sent to the camera.
    ///
    /// # Errors
    /// Returns [`SpecError`] with what is wrong; it never contains a password.
    pub fn parse(text: &str) -> Result<Self, SpecError> {
        if text == DEMO {
            return Ok(Self::Demo);
        }
        let (word, options) = text.split_once('?').unwrap_or((text, ""));
        if word == PUBLISHER {
            let mut publisher = Self::Publisher(PublisherSource::default());
            for option in options.split('&').filter(|option| !option.is_empty()) {
                let (key, value) = option.split_once('=').unwrap_or((option, ""));
                publisher.set(key, value)?;
            }
            return Ok(publisher);
        }
        if let Some(command) = CommandSource::parse(text) {
            return command.map(Self::Command);
        }
        if let Some((scheme, _)) = text.split_once("://") {
            return if CameraScheme::named(scheme).is_some() {
                CameraSource::parse(text).map(Self::Camera)
            } else {
                // A text that is no URL at all may begin with a user and a password.
                glassline_url::parse(text)?;
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
        let colon = text.find(':');
        let is_path = text.starts_with(['.', '/']);
        if !is_path
            && colon
                .zip(text.rfind('@'))
                .is_some_and(|(colon, at)| colon < at)
        {
            return Err(SpecError::Login {
                shown: glassline_url::hidden(text),
            });
        }
        FileSource::parse(text).map(Self::Files)
    }

    /// Sets an option that stands beside the source, as in a file of YAML.
    ///
    /// # Errors
    /// Returns [`SpecError`] if the source has no such option, or the value is none of it.
    pub fn set(&mut self, option: &str, value: &str) -> Result<(), SpecError> {
        let (is_known, known) = match self {
            Self::Demo => (false, &[][..]),
            Self::Files(files) => (files.take(option, value)?, &FILE_OPTIONS[..]),
            Self::Camera(camera) => (camera.take(option, value)?, &OPTIONS[..]),
            Self::Command(command) => (command.take(option, value)?, &command_source::OPTIONS[..]),
            Self::Publisher(publisher) => (
                publisher.take(option, value)?,
                &publisher_source::OPTIONS[..],
            ),
        };
        if is_known {
            Ok(())
        } else {
            Err(SpecError::unknown(option, known))
        }
    }

    /// Returns what receivers get while the source is away; `None` if that is nothing.
    pub fn away(&self) -> Option<&Away> {
        let away = match self {
            Self::Camera(camera) => &camera.away,
            Self::Command(command) => &command.away,
            Self::Publisher(publisher) => &publisher.away,
            Self::Demo | Self::Files(_) => return None,
        };
        away.is_used().then_some(away)
    }

    /// Returns who gets video transcoded that browsers cannot show; `None` for the server's choice.
    pub const fn transcode(&self) -> Option<Transcode> {
        match self {
            Self::Demo => None,
            Self::Files(files) => files.policy.transcode,
            Self::Camera(camera) => camera.policy.transcode,
            Self::Command(command) => command.policy.transcode,
            Self::Publisher(publisher) => publisher.transcode,
        }
    }

    /// Returns the lower layers that are encoded while somebody needs them; `None` for the server's choice.
    pub const fn ladder(&self) -> Option<Ladder> {
        match self {
            Self::Demo => None,
            Self::Files(files) => files.policy.ladder,
            Self::Camera(camera) => camera.policy.ladder,
            Self::Command(command) => command.policy.ladder,
            Self::Publisher(publisher) => publisher.ladder,
        }
    }

    /// Makes relative paths relative to `folder`.
    pub fn resolve_in(&mut self, folder: &Path) {
        for path in self.paths_mut() {
            *path = folder.join(&path);
        }
    }

    /// Returns the paths of all files that are read.
    pub fn paths_mut(&mut self) -> Vec<&mut PathBuf> {
        match self {
            Self::Demo => Vec::new(),
            Self::Files(files) => files.paths.iter_mut().collect(),
            Self::Camera(camera) => camera.away.image_mut().into_iter().collect(),
            Self::Command(command) => command.away.image_mut().into_iter().collect(),
            Self::Publisher(publisher) => publisher.away.image_mut().into_iter().collect(),
        }
    }
}

impl FileSource {
    fn parse(text: &str) -> Result<Self, SpecError> {
        let (list, options) = text.split_once('?').unwrap_or((text, ""));
        if list.split(',').any(str::is_empty) {
            return Err(SpecError::EmptyPath {
                list: glassline_url::hidden(list),
            });
        }
        let mut source = Self {
            paths: list.split(',').map(PathBuf::from).collect(),
            fps: None,
            once: false,
            policy: StreamPolicy::default(),
        };
        for option in options.split('&').filter(|option| !option.is_empty()) {
            let (key, value) = option.split_once('=').unwrap_or((option, ""));
            if !source.take(key, value)? {
                return Err(SpecError::unknown(key, &FILE_OPTIONS));
            }
        }
        Ok(source)
    }

    /// Takes an option. Returns false if there is none of this name.
    fn take(&mut self, key: &str, value: &str) -> Result<bool, SpecError> {
        match key {
            "fps" => self.fps = Some(frame_rate(value)?),
            "once" => self.once = switch("once", value, ON_OR_OFF)?,
            _ => return self.policy.take(key, value),
        }
        Ok(true)
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
            separator = '&';
        }
        for option in self.policy.options() {
            write!(f, "{separator}{option}")?;
            separator = '&';
        }
        Ok(())
    }
}

impl FileSource {
    /// Returns the first path that is no file of media by its extension, and no named pipe: a source of
    /// another kind may be meant.
    pub fn of_no_kind(&self) -> Option<&Path> {
        let is_known = |path: &&PathBuf| {
            let has_format = Format::of(path).is_some() || Format::unread(path).is_some();
            has_format || glassline_net::is_named_pipe(path)
        };
        let unknown = self.paths.iter().find(|path| !is_known(path));
        unknown.map(PathBuf::as_path)
    }
}

/// Schemes of URLs that people give as sources. A path that begins like one is a slip.
const SCHEMES: &[&str] = &[
    "rtsp", "rtsps", "rtmp", "rtmps", "srt", "udp", "http", "https",
];

/// Options of files.
const FILE_OPTIONS: [&str; 5] = ["fps", "once", PUBLISHERS, TRANSCODE, LADDER];

/// The kinds of sources, with an example of each.
pub(crate) const KINDS: &str = "rtsp://192.168.1.20/main or http://192.168.1.20/mjpg (a camera), film.mp4 (a \
    file), /dev/video0 (a device), ffmpeg:… or exec:… (a program), publisher, or demo";

/// Returns what to write in place of a URL of another scheme.
fn way_out(scheme: &str) -> String {
    let is = |schemes: &[&str]| schemes.iter().any(|it| scheme.eq_ignore_ascii_case(it));
    match () {
        () if is(&["srt", "rtmp", "rtmps", "udp"]) => format!(
            "let FFmpeg bring it, by the source 'ffmpeg:-i {scheme}://… -c copy' (`limits.programs`), or by \
             `ffmpeg -i {scheme}://… -c copy -f rtsp rtsp://127.0.0.1:8554/NAME`"
        ),
        () => format!("write {KINDS}"),
    }
}

impl SpecError {
    fn unknown(key: &str, known: &[&str]) -> Self {
        let hint = match nearest(key, known.iter().copied()) {
            Some(meant) => format!("did you mean '{meant}'?"),
            None if known.is_empty() => "this source has no options".to_owned(),
            None => format!("there are {}", known.join(" and ")),
        };
        Self::Option {
            option: key.to_owned(),
            hint,
        }
    }
}

const DEMO: &str = "demo";

/// The values of most switches.
const ON_OR_OFF: &str = "nothing, true or false";

const PUBLISHER: &str = "publisher";

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

fn seconds(option: &'static str, text: &str) -> Result<Duration, SpecError> {
    text.parse::<f64>()
        .ok()
        .filter(|seconds| (0.1..=3600.0).contains(seconds))
        .map(Duration::from_secs_f64)
        .ok_or_else(|| SpecError::Value {
            option,
            value: text.to_owned(),
            wanted: "seconds, 0.1 to 3600",
        })
}

/// Reads an option that is set by its name alone. `wanted` says which values there are.
fn switch(option: &'static str, text: &str, wanted: &'static str) -> Result<bool, SpecError> {
    match text {
        "" | "1" | "true" => Ok(true),
        "0" | "false" => Ok(false),
        _ => Err(SpecError::Value {
            option,
            value: text.to_owned(),
            wanted,
        }),
    }
}

#[cfg(test)]
mod tests;
