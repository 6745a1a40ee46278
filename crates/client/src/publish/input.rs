//! Inputs of `glassline publish INPUT`.

use std::path::{Path, PathBuf};
use std::str::FromStr;

use glassline_media::{Bitrate, Track};
use glassline_url::Login;
use url::Url;

/// Source of the stream's frames.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub enum Input {
    /// Files that become the tracks of one stream.
    Files {
        /// Paths of the files; at least one.
        paths: Vec<PathBuf>,
        /// Frame rate for a bitstream that does not contain one.
        fps: Option<f64>,
    },
    /// A camera, or any RTSP server.
    Camera(Camera),
    /// The clip that is built into the binary.
    Clip,
    /// The test pattern, encoded by this process.
    Pattern {
        /// Width of the video in pixels.
        width: u32,
        /// Height of the video in pixels.
        height: u32,
        /// Frame rate of the video, in frames per second.
        fps: u32,
    },
    /// Standard input, or a path that is read like it: a named pipe or a y4m file. Played
    /// once.
    Pipe {
        /// Path; `None` is standard input.
        path: Option<PathBuf>,
    },
}

/// An RTSP server from which the stream is pulled.
#[derive(Clone, PartialEq, Eq, derive_more::Debug)]
#[debug("Camera({:?})", glassline_url::shown(&self.url))]
pub struct Camera {
    /// URL of the source, without user name and password.
    pub url: Url,
    /// User name and password.
    pub user: Option<(String, String)>,
}

impl FromStr for Camera {
    type Err = InputError;

    fn from_str(text: &str) -> Result<Self, InputError> {
        let mut url =
            glassline_url::parse(text).map_err(|error| InputError::Url(error.wrong.to_string()))?;
        let login = Login::take_from(&mut url).filter(|login| !login.user.is_empty());
        let user = login.map(|login| (login.user, login.password.unwrap_or_default()));
        Ok(Self { url, user })
    }
}

/// Configuration of a source.
#[derive(Clone, Debug)]
pub struct Spec {
    /// Source of the frames.
    pub input: Input,
    /// Frame rate for an input that does not contain one; for a pipe it overrides the
    /// contained one.
    pub fps: Option<f64>,
    /// Whether the source ends after one pass.
    pub once: bool,
    /// Whether frames of a pipe are shown when they arrive, at any rate.
    pub live: bool,
    /// Audio file to go with an input that has no audio.
    pub audio: Option<PathBuf>,
    /// Lower or higher renditions of the input.
    pub rungs: Vec<Rung>,
    /// Lower encodings of the video, which are sent beside it; the best first.
    pub layers: Vec<Input>,
    /// Bitrate at the beginning.
    pub start: Bitrate,
    /// Whether the destination carries a track.
    pub carries: fn(&Track) -> bool,
}

/// Default size of the test pattern, in pixels.
const PATTERN_SIZE: (u32, u32) = (1280, 720);
/// Default frame rate of the test pattern.
const PATTERN_FPS: u32 = 30;

/// Accepted widths and heights in pixels: the encoder takes no larger ones, and smaller ones
/// have no room for the frame code.
const SIDES: std::ops::RangeInclusive<u32> = 64..=3840;
/// Most pixels in a frame.
const PIXELS_MAX: u32 = 3840 * 2160;

impl FromStr for Input {
    type Err = InputError;

    /// Parses `rtsp://…`, `-`, `test[?size=1280x720&fps=30]`, `demo`, `FILE[,FILE…][?fps=30]`
    /// or `FILE.y4m`, which may be a named pipe. (A file called `test` is written `./test`.)
    fn from_str(text: &str) -> Result<Self, InputError> {
        let scheme = text.split_once("://").map(|(scheme, _)| scheme);
        if scheme.is_some_and(|scheme| scheme.eq_ignore_ascii_case("rtsp")) {
            return text.parse().map(Self::Camera);
        }
        let (head, options) = text.split_once('?').unwrap_or((text, ""));
        let mut size = None;
        let mut fps = None;
        for option in options.split('&').filter(|it| !it.is_empty()) {
            let (key, value) = option.split_once('=').unwrap_or((option, ""));
            let wrong = |wanted| InputError::Value {
                option: key.to_owned(),
                value: value.to_owned(),
                wanted,
            };
            match key {
                "fps" => {
                    let rate = value.parse().ok().filter(|it| (0.1..=240.0).contains(it));
                    fps = Some(rate.ok_or_else(|| wrong("a number from 0.1 to 240"))?);
                }
                "size" if head == "test" => {
                    size = Some(parse_size(value).ok_or_else(|| {
                        wrong("WIDTHxHEIGHT, both even, from 64x64 to 3840x2160")
                    })?);
                }
                _ => {
                    return Err(InputError::Option {
                        option: key.to_owned(),
                        input: head.to_owned(),
                    });
                }
            }
        }
        match head {
            "-" | "demo" if !options.is_empty() => Err(InputError::Option {
                option: options.to_owned(),
                input: head.to_owned(),
            }),
            "-" => Ok(Self::Pipe { path: None }),
            _ if options.is_empty() && is_y4m(head) => Ok(Self::Pipe {
                path: Some(PathBuf::from(head)),
            }),
            "demo" => Ok(Self::Clip),
            "test" => {
                let (width, height) = size.unwrap_or(PATTERN_SIZE);
                let fps = fps.map_or(PATTERN_FPS, |fps: f64| fps.round().max(1.0) as u32);
                Ok(Self::Pattern { width, height, fps })
            }
            _ if head.contains("://") => {
                let scheme = head.split("://").next().unwrap_or_default();
                Err(InputError::Scheme(scheme.to_owned()))
            }
            _ if head.split(',').any(str::is_empty) => Err(InputError::NoFile(head.to_owned())),
            _ => Ok(Self::Files {
                paths: head.split(',').map(PathBuf::from).collect(),
                fps,
            }),
        }
    }
}

fn is_y4m(text: &str) -> bool {
    let extension = Path::new(text).extension();
    extension.is_some_and(|it| it.eq_ignore_ascii_case("y4m")) && !text.contains([',', ':'])
}

fn parse_size(text: &str) -> Option<(u32, u32)> {
    let (width, height) = text.split_once('x')?;
    let (width, height): (u32, u32) = (width.parse().ok()?, height.parse().ok()?);
    let fits = SIDES.contains(&width) && SIDES.contains(&height);
    let even = width.is_multiple_of(2) && height.is_multiple_of(2);
    (fits && even && width * height <= PIXELS_MAX).then_some((width, height))
}

/// A rendition in addition to the input.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Rung {
    /// Path of the file.
    pub path: PathBuf,
    /// Its bitrate; `None` derives it from the file's size and length.
    pub rate: Option<Bitrate>,
}

impl FromStr for Rung {
    type Err = InputError;

    /// Parses `FILE[@RATE]`, such as `low.mp4@500k`.
    fn from_str(text: &str) -> Result<Self, InputError> {
        let rated = text.rsplit_once('@').and_then(|(path, rate)| {
            let rate = parse_rate(rate)?;
            Some((path, rate))
        });
        let (path, rate) = match rated {
            Some((path, rate)) => (path, Some(rate)),
            None => (text, None),
        };
        if path.is_empty() {
            return Err(InputError::NoFile(text.to_owned()));
        }
        Ok(Self {
            path: PathBuf::from(path),
            rate,
        })
    }
}

/// Range of an encoder's bitrate.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BitrateRange {
    /// Lowest bitrate of the range.
    pub min: Bitrate,
    /// Highest bitrate of the range.
    pub max: Bitrate,
}

impl FromStr for BitrateRange {
    type Err = InputError;

    /// Parses `500k..3M`, or one bitrate for both ends.
    fn from_str(text: &str) -> Result<Self, InputError> {
        let wrong = || InputError::Range(text.to_owned());
        let (min, max) = text.split_once("..").unwrap_or((text, text));
        let range = Self {
            min: parse_rate(min).ok_or_else(wrong)?,
            max: parse_rate(max).ok_or_else(wrong)?,
        };
        if range.min > range.max {
            return Err(wrong());
        }
        Ok(range)
    }
}

/// Accepted bitrates, in bits per second.
const RATES_BPS: std::ops::RangeInclusive<f64> = 10_000.0..=100_000_000.0;

/// Parses `1500000`, `1500k` or `1.5M`, in bits per second.
fn parse_rate(text: &str) -> Option<Bitrate> {
    let (digits, factor) = match text.char_indices().last()? {
        (at, 'k' | 'K') => (&text[..at], 1e3),
        (at, 'm' | 'M') => (&text[..at], 1e6),
        _ => (text, 1.0),
    };
    let bps = digits.parse::<f64>().ok()? * factor;
    let rate = || Bitrate::from_bps(bps.round() as u64);
    RATES_BPS.contains(&bps).then(rate)
}

/// The text is no valid input; the user can correct it.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum InputError {
    /// The URL has an unsupported scheme.
    #[error(
        "`{0}://` is not a supported input: give rtsp://, a file, test, demo, or - for standard \
         input, as in ffmpeg -i {0}://… -f h264 - | glassline publish - URL"
    )]
    Scheme(String),
    /// The camera's URL is invalid.
    #[error("the camera's URL: {0}; give one such as rtsp://user:password@host/path")]
    Url(String),
    /// A file name is empty, or missing between commas.
    #[error("'{0}' names no file between its commas")]
    NoFile(String),
    /// The input does not have this option.
    #[error("'{input}' has no option '{option}': files take fps, test takes size and fps")]
    Option {
        /// Name of the option.
        option: String,
        /// Input that has no such option.
        input: String,
    },
    /// The option's value is invalid.
    #[error("'{value}' is not a valid value of {option}: give {wanted}")]
    Value {
        /// Name of the option.
        option: String,
        /// Value that the option does not take.
        value: String,
        /// The values that the option accepts.
        wanted: &'static str,
    },
    /// The range of bitrates is invalid.
    #[error("'{0}' is not a range of bitrates: write for example 500k..3M, within 10k to 100M")]
    Range(String),
}

#[cfg(test)]
mod tests {
    use super::*;

    fn input(text: &str) -> Result<Input, InputError> {
        text.parse()
    }

    #[test]
    fn every_input_has_its_form() {
        assert_eq!(input("-"), Ok(Input::Pipe { path: None }));
        let path = Some(PathBuf::from("raw.Y4M"));
        assert_eq!(input("raw.Y4M"), Ok(Input::Pipe { path }));
        assert_eq!(input("demo"), Ok(Input::Clip));
        let pattern = |width, height, fps| Ok(Input::Pattern { width, height, fps });
        assert_eq!(input("test"), pattern(1280, 720, 30));
        assert_eq!(input("test?size=640x360&fps=25"), pattern(640, 360, 25));
        let files = |paths: &[&str], fps| {
            let paths = paths.iter().map(PathBuf::from).collect();
            Ok(Input::Files { paths, fps })
        };
        assert_eq!(input("./test"), files(&["./test"], None));
        let both = files(&["a.h264", "a.ogg"], Some(29.97));
        assert_eq!(input("a.h264,a.ogg?fps=29.97"), both);
    }

    #[test]
    fn what_is_no_input_is_told_what_is() {
        let refused = |text: &str| input(text).expect_err(text).to_string();
        assert!(refused("srt://host").contains("ffmpeg -i srt://…"));
        for text in ["", "a.mp4,,b.ogg", ","] {
            assert!(refused(text).contains("no file"), "{text}");
        }
        for text in [
            "test?size=1x1",
            "test?size=641x360",
            "test?size=9999x64",
            "test?fps=0",
        ] {
            assert!(refused(text).contains("is not a valid value"), "{text}");
        }
        for text in ["demo?fps=3", "-?once", "a.mp4?size=64x64", "test?x"] {
            assert!(refused(text).contains("no option"), "{text}");
        }
    }

    #[test]
    fn a_camera_keeps_its_password_to_itself() {
        let Ok(Input::Camera(camera)) = input("rtsp://ann:p%40s+s@cam.example:8554/a?b=c") else {
            panic!("a camera");
        };
        assert_eq!(camera.url.as_str(), "rtsp://cam.example:8554/a?b=c");
        let user = camera.user.as_ref().map(|(a, b)| (a.as_str(), b.as_str()));
        assert_eq!(user, Some(("ann", "p@s+s")));
        assert!(!format!("{camera:?}").contains("p@s"));
        assert!(input("rtsp://").is_err());
    }

    #[test]
    fn renditions_may_say_what_they_take() {
        let rung = |path: &str, bps: Option<u64>| {
            Ok(Rung {
                path: path.into(),
                rate: bps.map(Bitrate::from_bps),
            })
        };
        assert_eq!("low.mp4@500k".parse(), rung("low.mp4", Some(500_000)));
        assert_eq!("low.mp4".parse(), rung("low.mp4", None));
        assert_eq!("a@b.mp4".parse(), rung("a@b.mp4", None));
        assert!("@1M".parse::<Rung>().is_err());
    }

    #[test]
    fn rates_are_bits_a_second() {
        let range = |min, max| {
            Ok(BitrateRange {
                min: Bitrate::from_bps(min),
                max: Bitrate::from_bps(max),
            })
        };
        assert_eq!("500k..3M".parse(), range(500_000, 3_000_000));
        assert_eq!("1.5M".parse(), range(1_500_000, 1_500_000));
        assert_eq!("64000..64K".parse(), range(64_000, 64_000));
        for wrong in [
            "", "3M..1M", "5", "1..2", "1G", "k", "-1M", "NaN", "inf", "1M..", "é",
        ] {
            assert!(wrong.parse::<BitrateRange>().is_err(), "{wrong}");
        }
    }
}
