use std::collections::BTreeMap;
use std::fmt;
use std::path::PathBuf;
use std::time::Duration;

use super::arguments::{quoted, split};
use super::camera_source::IDLE;
use super::{
    Away, LADDER, ON_OR_OFF, PUBLISHERS, SpecError, StreamPolicy, TRANSCODE, frame_rate, seconds,
    switch,
};

/// A program whose output is the source.
#[derive(Clone, PartialEq, derive_more::Debug)]
#[debug("CommandSource({self})")]
pub struct CommandSource {
    /// The program, and how the program is started.
    pub program: Program,
    /// Variables of its environment, beside `PATH`; their values are never shown.
    pub environment: BTreeMap<String, String>,
    /// Frames per second: of elementary video that states none, or asked of a device.
    pub fps: Option<f64>,
    /// Time without receivers after which the program is ended until somebody needs its stream; `None`
    /// if it always runs.
    pub on_demand: Option<Duration>,
    /// The media that receivers get while the source is away.
    pub away: Away,
    /// Decisions about the stream.
    pub policy: StreamPolicy,
}

/// A program that is a source.
#[derive(Clone, PartialEq, Eq)]
pub enum Program {
    /// `exec:`: a program with its arguments, at least its own name.
    Exec(Vec<String>),
    /// `ffmpeg:`: FFmpeg with these arguments, to which the output is added.
    Ffmpeg(FfmpegArguments),
    /// A device of Video4Linux, which FFmpeg reads.
    Device(Device),
}

/// The arguments of FFmpeg, and what becomes of the input's tracks.
#[derive(Clone, Default, PartialEq, Eq)]
pub struct FfmpegArguments {
    arguments: Vec<String>,
    video: Option<Recoding>,
    audio: Option<Recoding>,
}

/// Treatment of the video or the audio of an input.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Recoding {
    Copied,
    /// Encoded as H.264 or Opus.
    Encoded,
    Dropped,
}

/// A device that has video.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Device {
    /// Path of the device, such as `/dev/video0`.
    pub path: PathBuf,
    /// Coding that is asked of the device, by the name that FFmpeg has for it.
    format: &'static str,
    /// Width and height in pixels, as `1280x720`; `None` leaves the choice to the device.
    size: Option<String>,
}

/// Options of programs; those of FFmpeg and of devices come in addition.
pub(super) const OPTIONS: [&str; 15] = [
    TRANSCODE,
    LADDER,
    PUBLISHERS,
    "env",
    "fps",
    "on_demand",
    "idle_s",
    "video",
    "audio",
    "format",
    "size",
    "fallback",
    "placeholder",
    "after_s",
    "silent_s",
];

/// Beginnings of the two forms that name a program.
const EXEC: &str = "exec:";
const FFMPEG: &str = "ffmpeg:";

/// Beginning of the paths of devices.
const DEVICE: &str = "/dev/video";

/// Output of FFmpeg: each frame leaves with the beginning of the next one. Matroska takes every coding.
const OUTPUT: [&str; 7] = [
    "-f",
    "matroska",
    "-flush_packets",
    "1",
    "-cluster_time_limit",
    "1",
    "pipe:1",
];

impl CommandSource {
    /// Parses `exec:PROGRAM ARGUMENTS`, `ffmpeg:ARGUMENTS`, each with options behind `#`, or
    /// `/dev/videoN?OPTIONS`; `None` for a text of another form.
    pub(super) fn parse(text: &str) -> Option<Result<Self, SpecError>> {
        if let Some(rest) = text.strip_prefix(DEVICE) {
            let (number, options) = rest.split_once('?').unwrap_or((rest, ""));
            let is_device = !number.is_empty() && number.chars().all(|it| it.is_ascii_digit());
            return is_device.then(|| Self::of_device(number, options));
        }
        let has = |prefix: &str| {
            let start = text.get(..prefix.len());
            start.is_some_and(|it| it.eq_ignore_ascii_case(prefix))
        };
        let prefix = [EXEC, FFMPEG].into_iter().find(|prefix| has(prefix))?;
        Some(Self::of_command(prefix, &text[prefix.len()..]))
    }

    fn new(program: Program) -> Self {
        Self {
            program,
            environment: BTreeMap::new(),
            fps: None,
            on_demand: None,
            away: Away::default(),
            policy: StreamPolicy::default(),
        }
    }

    fn of_device(number: &str, options: &str) -> Result<Self, SpecError> {
        let mut source = Self::new(Program::Device(Device {
            path: format!("{DEVICE}{number}").into(),
            format: FORMATS[0],
            size: None,
        }));
        for option in options.split('&').filter(|option| !option.is_empty()) {
            source.take_named(option)?;
        }
        Ok(source)
    }

    fn of_command(prefix: &'static str, text: &str) -> Result<Self, SpecError> {
        // Options stand behind the command; a `#` that begins none belongs to the command.
        let mut options = Vec::new();
        let mut line = text;
        while let Some((before, option)) = line.rsplit_once('#') {
            let key = option.split('=').next().unwrap_or_default();
            if !OPTIONS.contains(&key) {
                break;
            }
            options.push(option);
            line = before;
        }
        let arguments = split(line).map_err(|unfinished| SpecError::CommandLine {
            kind: prefix,
            why: unfinished.to_string(),
        })?;
        if arguments.is_empty() {
            return Err(SpecError::CommandLine {
                kind: prefix,
                why: "it is empty".to_owned(),
            });
        }
        let program = match prefix {
            EXEC => Program::Exec(arguments),
            _ => Program::Ffmpeg(FfmpegArguments {
                arguments,
                ..FfmpegArguments::default()
            }),
        };
        let mut source = Self::new(program);
        for option in options.into_iter().rev() {
            source.take_named(option)?;
        }
        Ok(source)
    }

    fn take_named(&mut self, option: &str) -> Result<(), SpecError> {
        let (key, value) = option.split_once('=').unwrap_or((option, ""));
        match self.take(key, value)? {
            true => Ok(()),
            false => Err(SpecError::unknown(key, &OPTIONS)),
        }
    }

    /// Takes an option. Returns false if there is none of this name.
    pub(super) fn take(&mut self, key: &str, value: &str) -> Result<bool, SpecError> {
        match (key, &mut self.program) {
            ("env", _) => {
                let variable = value.split_once('=').filter(|(name, _)| !name.is_empty());
                let (name, value) = variable.ok_or_else(|| SpecError::Value {
                    option: "env",
                    value: glassline_url::hidden(value),
                    wanted: "a variable of the environment, NAME=VALUE",
                })?;
                self.environment.insert(name.to_owned(), value.to_owned());
            }
            ("fps", _) => self.fps = Some(frame_rate(value)?),
            ("on_demand", _) => {
                let idle = self.on_demand.unwrap_or(IDLE);
                self.on_demand = switch("on_demand", value, ON_OR_OFF)?.then_some(idle);
            }
            (PUBLISHERS | TRANSCODE | LADDER, _) => return self.policy.take(key, value),
            ("idle_s", _) => self.on_demand = Some(seconds("idle_s", value)?),
            ("video", Program::Ffmpeg(ffmpeg)) => {
                ffmpeg.video = Some(Recoding::parse("video", value, VIDEO)?);
            }
            ("audio", Program::Ffmpeg(ffmpeg)) => {
                ffmpeg.audio = Some(Recoding::parse("audio", value, AUDIO)?);
            }
            ("format", Program::Device(device)) => {
                let format = FORMATS.into_iter().find(|it| *it == value);
                device.format = format.ok_or_else(|| SpecError::Value {
                    option: "format",
                    value: value.to_owned(),
                    wanted: "mjpeg or h264, as the device has it",
                })?;
            }
            ("size", Program::Device(device)) => {
                let is_number = |it: &str| it.parse::<u16>().is_ok_and(|it| it > 0);
                let sides = value.split_once('x');
                if !sides.is_some_and(|(width, height)| is_number(width) && is_number(height)) {
                    return Err(SpecError::Value {
                        option: "size",
                        value: value.to_owned(),
                        wanted: "width and height in pixels, like 1280x720",
                    });
                }
                device.size = Some(value.to_owned());
            }
            _ => return self.away.take(key, value),
        }
        Ok(true)
    }

    /// Returns the program and its arguments, as the system gets them.
    pub fn command_line(&self) -> Vec<String> {
        let mut line = Vec::new();
        let mut add = |arguments: &[&str]| line.extend(arguments.iter().map(|it| (*it).to_owned()));
        match &self.program {
            Program::Exec(arguments) => return arguments.clone(),
            Program::Ffmpeg(ffmpeg) => {
                add(&STARTED);
                let names_input = ffmpeg.arguments.iter().any(|it| it == "-i");
                let last = ffmpeg.arguments.len() - 1;
                for (place, argument) in ffmpeg.arguments.iter().enumerate() {
                    if place == last && !names_input {
                        add(&["-i"]);
                    }
                    add(&[argument]);
                }
                let copied = (!names_input).then_some(Recoding::Copied);
                if let Some(video) = ffmpeg.video.or(copied) {
                    add(video.arguments(&["-c:v", "copy"], &ENCODED_VIDEO, &["-vn"]));
                }
                if let Some(audio) = ffmpeg.audio.or(copied) {
                    add(audio.arguments(&["-c:a", "copy"], &ENCODED_AUDIO, &["-an"]));
                }
            }
            Program::Device(device) => {
                add(&STARTED);
                add(&["-f", "v4l2", "-input_format", device.format]);
                if let Some(fps) = self.fps {
                    add(&["-framerate", &fps.to_string()]);
                }
                if let Some(size) = &device.size {
                    add(&["-video_size", size]);
                }
                add(&["-i", &device.path.display().to_string(), "-c:v", "copy"]);
            }
        }
        add(&OUTPUT);
        line
    }

    /// Returns whether the program is FFmpeg, which the server looks for itself.
    pub fn is_ffmpeg(&self) -> bool {
        !matches!(self.program, Program::Exec(_))
    }

    /// Returns the device that is read, if one is.
    pub fn device(&self) -> Option<&Device> {
        match &self.program {
            Program::Device(device) => Some(device),
            _ => None,
        }
    }
}

/// How FFmpeg is started: it asks nothing, and says only what is wrong.
const STARTED: [&str; 5] = ["ffmpeg", "-hide_banner", "-nostdin", "-loglevel", "warning"];

/// Codings that devices are asked for, the usual one first.
const FORMATS: [&str; 2] = ["mjpeg", "h264"];

/// H.264 that every browser shows, with little delay.
const ENCODED_VIDEO: [&str; 10] = [
    "-c:v",
    "libx264",
    "-preset",
    "veryfast",
    "-tune",
    "zerolatency",
    "-pix_fmt",
    "yuv420p",
    "-g",
    "60",
];

const ENCODED_AUDIO: [&str; 6] = ["-c:a", "libopus", "-ar", "48000", "-ac", "2"];

/// Words for what becomes of a track, in the order of [`Recoding`]'s cases.
const VIDEO: [&str; 3] = ["copy", "h264", "none"];
const AUDIO: [&str; 3] = ["copy", "opus", "none"];

impl Recoding {
    const ALL: [Self; 3] = [Self::Copied, Self::Encoded, Self::Dropped];

    fn parse(
        option: &'static str,
        value: &str,
        words: [&'static str; 3],
    ) -> Result<Self, SpecError> {
        let place = words.iter().position(|word| *word == value);
        place
            .map(|place| Self::ALL[place])
            .ok_or_else(|| SpecError::Value {
                option,
                value: value.to_owned(),
                wanted: match option {
                    "video" => "copy, h264 or none",
                    _ => "copy, opus or none",
                },
            })
    }

    const fn word(self, words: [&'static str; 3]) -> &'static str {
        words[self as usize]
    }

    const fn arguments<'a>(
        self,
        copied: &'a [&'a str],
        encoded: &'a [&'a str],
        dropped: &'a [&'a str],
    ) -> &'a [&'a str] {
        match self {
            Self::Copied => copied,
            Self::Encoded => encoded,
            Self::Dropped => dropped,
        }
    }
}

impl fmt::Display for CommandSource {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (mut separator, next) = match &self.program {
            Program::Device(_) => ('?', '&'),
            _ => ('#', '#'),
        };
        let mut options = Vec::new();
        match &self.program {
            Program::Exec(arguments) => write_line(f, EXEC, arguments)?,
            Program::Ffmpeg(ffmpeg) => {
                write_line(f, FFMPEG, &ffmpeg.arguments)?;
                let video = ffmpeg.video.map(|it| format!("video={}", it.word(VIDEO)));
                let audio = ffmpeg.audio.map(|it| format!("audio={}", it.word(AUDIO)));
                options.extend(video.into_iter().chain(audio));
            }
            Program::Device(device) => {
                write!(f, "{}", device.path.display())?;
                if device.format != FORMATS[0] {
                    options.push(format!("format={}", device.format));
                }
                options.extend(device.size.as_ref().map(|size| format!("size={size}")));
            }
        }
        options.extend(self.environment.keys().map(|name| format!("env={name}=…")));
        options.extend(self.fps.map(|fps| format!("fps={fps}")));
        options.extend(self.on_demand.map(|idle| match idle {
            IDLE => "on_demand".to_owned(),
            idle => format!("idle_s={}", idle.as_secs_f64()),
        }));
        options.extend(self.policy.options());
        for option in options {
            write!(f, "{separator}{option}")?;
            separator = next;
        }
        self.away.write_with(f, separator, next)
    }
}

/// Writes a command line without the secrets of its URLs.
fn write_line(f: &mut fmt::Formatter<'_>, prefix: &str, arguments: &[String]) -> fmt::Result {
    let shown = arguments.iter().map(|it| quoted(&without_secrets(it)));
    let shown: Vec<_> = shown.collect();
    write!(f, "{prefix}{}", shown.join(" "))
}

/// Returns `text` with the credentials of the URLs in it hidden.
pub(crate) fn without_secrets(text: &str) -> String {
    let words = text.split_inclusive(char::is_whitespace);
    let shown = words.map(|word| match word.contains("://") {
        true => glassline_url::hidden(word),
        false => word.to_owned(),
    });
    shown.collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(text: &str) -> Result<CommandSource, SpecError> {
        CommandSource::parse(text).expect("a command")
    }

    fn line(text: &str) -> String {
        let line = parse(text).expect(text).command_line();
        line.iter()
            .map(|it| quoted(it))
            .collect::<Vec<_>>()
            .join(" ")
    }

    #[test]
    fn a_command_keeps_its_arguments_and_gives_its_options() {
        let source =
            parse("exec:cam '#1' --color #fff#fps=15#on_demand#env=KEY=a=b").expect("good");
        assert_eq!(source.command_line(), ["cam", "#1", "--color", "#fff"]);
        assert_eq!((source.fps, source.on_demand), (Some(15.0), Some(IDLE)));
        assert_eq!(source.environment["KEY"], "a=b");
        let shown = source.to_string();
        assert_eq!(shown, "exec:cam #1 --color #fff#env=KEY=…#fps=15#on_demand");
        let secret = "exec:ffmpeg -i rtsp://u:hunter2@h/x -f mpegts -";
        let shown = parse(secret).expect("good").to_string();
        assert_eq!(shown, "exec:ffmpeg -i rtsp://u:…@h/x -f mpegts -");
    }

    #[test]
    fn ffmpeg_gets_an_output_and_copies_unless_told_otherwise() {
        let output = OUTPUT.join(" ");
        let begins = STARTED.join(" ");
        assert_eq!(
            line("ffmpeg:-re 'my film.mp4'#audio=opus"),
            format!(
                "{begins} -re -i 'my film.mp4' -c:v copy -c:a libopus -ar 48000 -ac 2 {output}"
            )
        );
        assert_eq!(
            line("ffmpeg:-f lavfi -i testsrc2 -c:v libx264"),
            format!("{begins} -f lavfi -i testsrc2 -c:v libx264 {output}")
        );
        let device = "/dev/video2?format=h264&size=1280x720&fps=30&on_demand&placeholder&after_s=3";
        assert_eq!(
            line(device),
            format!(
                "{begins} -f v4l2 -input_format h264 -framerate 30 -video_size 1280x720 \
                 -i /dev/video2 -c:v copy {output}"
            )
        );
        assert_eq!(parse(device).expect("good").to_string(), device);
    }

    #[test]
    fn what_cannot_be_a_command_is_refused_and_what_is_no_command_left_alone() {
        for (text, wanted) in [
            ("exec:", "it is empty"),
            ("ffmpeg: #video=h264", "it is empty"),
            ("exec:a 'b", "a ' is not closed"),
            ("ffmpeg:x#video=vp8", "copy, h264 or none"),
            ("exec:x#video=h264", "unknown option 'video'"),
            ("/dev/video0?size=big", "1280x720"),
            ("exec:x#env=KEY", "NAME=VALUE"),
        ] {
            let refused = parse(text).expect_err(text).to_string();
            assert!(refused.contains(wanted), "{refused}");
        }
        for other in ["/dev/videos/a.mp4", "/dev/video", "exec.mp4", "film.mp4"] {
            assert!(CommandSource::parse(other).is_none(), "{other}");
        }
    }
}
