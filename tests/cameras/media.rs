//! The frames that the fake camera films, made by FFmpeg when a row first needs them.

use std::collections::HashMap;
use std::process::Command;
use std::sync::{Arc, LazyLock, Mutex, PoisonError};

use glassline_media::annexb;

use super::row::{Film, Video};

/// Frames of a film, which the camera repeats without an end.
pub(crate) struct Media {
    pub(crate) video: Video,
    pub(crate) frames: Vec<Frame>,
    pub(crate) frames_per_second: u32,
}

/// A coded frame.
#[derive(Clone)]
pub(crate) struct Frame {
    /// NAL units in the order of the stream, without delimiters.
    pub(crate) nals: Vec<Vec<u8>>,
    pub(crate) is_keyframe: bool,
}

/// Frames a second of all films but one.
const RATE: u32 = 15;

type Films = HashMap<(Film, Video), Arc<Media>>;

impl Media {
    /// Returns the film, which is made once for all rows.
    pub(crate) fn of(film: Film, video: Video) -> Result<Arc<Media>, String> {
        static FILMS: LazyLock<Mutex<Films>> = LazyLock::new(Mutex::default);
        let mut films = FILMS.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(known) = films.get(&(film, video)) {
            return Ok(Arc::clone(known));
        }
        let made = Arc::new(Media::make(film, video)?);
        films.insert((film, video), Arc::clone(&made));
        Ok(made)
    }

    fn make(film: Film, video: Video) -> Result<Media, String> {
        let stream = match film {
            Film::BFramesAtFirst => {
                // Both parts announce B-frames by their parameter sets; the second one has none,
                // because each of its frames is compared with the one before only.
                let first = encoded(video, 60, 1, "bframes=2:b-pyramid=none:b-adapt=0:keyint=60")?;
                let second = encoded(
                    video,
                    60,
                    8,
                    "bframes=2:b-pyramid=none:b-adapt=1:b-bias=-100:keyint=60",
                )?;
                [first, second].concat()
            }
            Film::Plain => encoded(video, RATE, 4, "bframes=0:keyint=15:min-keyint=15")?,
            Film::Sliced => encoded(video, RATE, 4, "bframes=0:keyint=15:slices=4")?,
            Film::LongGroups => encoded(video, RATE, 30, "bframes=0:keyint=450:min-keyint=450")?,
            Film::IntraRefresh => encoded(video, RATE, 20, "bframes=0:keyint=30:intra-refresh=1")?,
        };
        let mut frames = frames(&stream, video);
        if film == Film::IntraRefresh {
            cut_first_keyframe(&mut frames, video);
        }
        let frames_per_second = match film {
            Film::BFramesAtFirst => 60,
            _ => RATE,
        };
        match frames.is_empty() {
            true => Err(format!("FFmpeg made no frames of {film:?} in {video:?}")),
            false => Ok(Media {
                video,
                frames,
                frames_per_second,
            }),
        }
    }

    /// The number of the frame of index `at` in the order of presentation, from any beginning. Here
    /// all B-frames are of H.264 and follow the frame that they are shown before.
    pub(crate) fn shown_at(&self, at: usize) -> i64 {
        let is_b = |frame: &Frame| {
            let mut slices = frame.nals.iter().filter(|nal| self.video.is_slice(nal));
            slices.all(|nal| self.video == Video::H264 && nal[0] & 0x60 == 0)
        };
        let moved = match is_b(&self.frames[at]) {
            true => -1,
            false => {
                let behind = self.frames[at + 1..].iter();
                behind.take_while(|it| is_b(it)).count() as i64
            }
        };
        at as i64 + moved
    }

    /// Parameter sets of the first frame.
    pub(crate) fn sets(&self) -> impl Iterator<Item = &[u8]> {
        let nals = self.frames[0].nals.iter().map(Vec::as_slice);
        nals.filter(|nal| self.video.is_set(nal))
    }
}

impl Video {
    /// Length of a NAL unit's header in bytes.
    pub(crate) fn header_bytes(self) -> usize {
        match self {
            Video::H264 => 1,
            Video::H265 => 2,
        }
    }

    pub(crate) fn nal_type(self, nal: &[u8]) -> u8 {
        match self {
            Video::H264 => nal[0] & 0x1f,
            Video::H265 => nal[0] >> 1 & 0x3f,
        }
    }

    pub(crate) fn is_slice(self, nal: &[u8]) -> bool {
        match self {
            Video::H264 => matches!(self.nal_type(nal), 1..=5),
            Video::H265 => self.nal_type(nal) < 32,
        }
    }

    fn is_first_slice(self, nal: &[u8]) -> bool {
        let after_header = nal.get(self.header_bytes()).copied();
        self.is_slice(nal) && after_header.is_some_and(|byte| byte & 0x80 != 0)
    }

    pub(crate) fn is_set(self, nal: &[u8]) -> bool {
        match self {
            Video::H264 => matches!(self.nal_type(nal), 7 | 8),
            Video::H265 => matches!(self.nal_type(nal), 32..=34),
        }
    }

    pub(crate) fn is_sequence_set(self, nal: &[u8]) -> bool {
        match self {
            Video::H264 => self.nal_type(nal) == 7,
            Video::H265 => self.nal_type(nal) == 33,
        }
    }

    pub(crate) fn is_message(self, nal: &[u8]) -> bool {
        match self {
            Video::H264 => self.nal_type(nal) == 6,
            Video::H265 => matches!(self.nal_type(nal), 39 | 40),
        }
    }

    fn begins_keyframe(self, nal: &[u8]) -> bool {
        match self {
            Video::H264 => self.nal_type(nal) == 5,
            Video::H265 => matches!(self.nal_type(nal), 16..=21),
        }
    }

    fn is_delimiter(self, nal: &[u8]) -> bool {
        match self {
            Video::H264 => self.nal_type(nal) == 9,
            Video::H265 => self.nal_type(nal) == 35,
        }
    }
}

/// A film without its beginning, as somebody sees it who comes later; its parameter sets stay.
fn cut_first_keyframe(frames: &mut Vec<Frame>, video: Video) {
    let sets = frames[0].nals.iter().filter(|nal| video.is_set(nal));
    let sets: Vec<_> = sets.cloned().collect();
    frames.drain(..45);
    let has_sets = frames[0].nals.iter().any(|nal| video.is_set(nal));
    if !has_sets {
        frames[0].nals.splice(0..0, sets);
    }
}

fn encoded(video: Video, rate: u32, seconds: u32, parameters: &str) -> Result<Vec<u8>, String> {
    let (coder, name, format) = match video {
        Video::H264 => ("libx264", "-x264-params", "h264"),
        Video::H265 => ("libx265", "-x265-params", "hevc"),
    };
    let parameters = match video {
        Video::H264 => format!("scenecut=0:{parameters}"),
        Video::H265 => {
            format!("log-level=none:scenecut=0:open-gop=0:repeat-headers=1:{parameters}")
        }
    };
    let frame = format!("testsrc2=size=320x180:rate={rate}");
    let mut command = Command::new("ffmpeg");
    command.args(["-v", "error", "-nostdin", "-f", "lavfi", "-i", &frame]);
    command.args(["-t", &seconds.to_string(), "-pix_fmt", "yuv420p"]);
    command.args(["-c:v", coder, "-preset", "veryfast", name, &parameters]);
    output(command.args(["-f", format, "-"]))
}

/// AAC frames of a tone at 16 kHz, without headers.
pub(crate) fn aac_frames() -> Result<Vec<Vec<u8>>, String> {
    let mut command = Command::new("ffmpeg");
    command.args(["-v", "error", "-nostdin", "-f", "lavfi", "-i"]);
    command.args(["sine=frequency=440:sample_rate=16000", "-t", "4"]);
    let stream = output(command.args(["-c:a", "aac", "-ac", "1", "-f", "adts", "-"]))?;
    let (mut frames, mut rest) = (Vec::new(), stream.as_slice());
    while let [_, _, _, a, b, c, ..] = *rest {
        let length = usize::from(a & 3) << 11 | usize::from(b) << 3 | usize::from(c >> 5);
        let frame = rest.get(7..length).ok_or("FFmpeg made half a frame")?;
        frames.push(frame.to_vec());
        rest = &rest[length..];
    }
    Ok(frames)
}

fn output(command: &mut Command) -> Result<Vec<u8>, String> {
    let output = command.output();
    let output = output.map_err(|error| format!("ffmpeg: {error}"))?;
    match output.status.success() {
        true => Ok(output.stdout),
        false => Err(String::from_utf8_lossy(&output.stderr).into_owned()),
    }
}

fn frames(stream: &[u8], video: Video) -> Vec<Frame> {
    let mut frames: Vec<Frame> = Vec::new();
    let mut has_slice = true;
    for nal in annexb::nals(stream).filter(|nal| !video.is_delimiter(nal)) {
        let begins = !video.is_slice(nal) || video.is_first_slice(nal);
        if has_slice && begins {
            has_slice = false;
            frames.push(Frame {
                nals: Vec::new(),
                is_keyframe: false,
            });
        }
        has_slice |= video.is_slice(nal);
        if let Some(frame) = frames.last_mut() {
            frame.is_keyframe |= video.begins_keyframe(nal);
            frame.nals.push(nal.to_vec());
        }
    }
    frames
}
