use std::fmt;
use std::io;
use std::path::{Path, PathBuf};

use glassline_media::Kind;

/// Why a file cannot be played: which file, at which byte, and what to do.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub struct Error {
    /// The file, or the name of what stands for one.
    pub path: PathBuf,
    /// The first byte that is wrong, from the start of the file; `None` if the
    /// whole file is.
    pub offset: Option<u64>,
    /// What is wrong.
    #[source]
    pub reason: Reason,
}

impl Error {
    pub(crate) fn new(path: &Path, offset: Option<u64>, reason: Reason) -> Self {
        Self {
            path: path.to_owned(),
            offset,
            reason,
        }
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write_place(f, &self.path, self.offset)?;
        write!(f, "{}", self.reason)
    }
}

fn write_place(f: &mut fmt::Formatter<'_>, path: &Path, offset: Option<u64>) -> fmt::Result {
    if !path.as_os_str().is_empty() {
        write!(f, "{}", path.display())?;
        if let Some(offset) = offset {
            write!(f, ", byte {offset}")?;
        }
        f.write_str(": ")?;
    }
    Ok(())
}

/// What is wrong with a file. The caller's fault unless said otherwise; asking
/// again helps only for [`Reason::Open`] and [`Reason::Read`].
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Reason {
    /// No file was given.
    #[error("no file was given; known are {}", known_extensions())]
    NoInput,
    /// Two files of one kind.
    #[error("a second {0} file; a stream has at most one of video and one of audio")]
    SecondOfKind(Kind),
    /// The operating system will not open it.
    #[error("cannot be opened: {0}")]
    Open(#[source] io::Error),
    /// The operating system failed to read it.
    #[error("cannot be read: {0}")]
    Read(#[source] io::Error),
    /// It is a directory.
    #[error("is a directory, not a file")]
    Directory,
    /// It has no bytes.
    #[error("the file is empty")]
    Empty,
    /// The extension says nothing.
    #[error("unknown extension; known are {}", known_extensions())]
    UnknownExtension,
    /// The bytes are of another format than the extension says.
    #[error("this should be {expected}, but it looks like {found}")]
    Mislabelled {
        /// What the extension promises.
        expected: &'static str,
        /// What the first bytes say.
        found: &'static str,
    },
    /// No start code where there should be one.
    #[error("no {coding} start code (00 00 01) in the first {searched} bytes")]
    NoStartCode {
        /// What the file should be.
        coding: &'static str,
        /// Bytes that were searched.
        searched: u64,
    },
    /// A parameter set that does not follow the syntax.
    #[error("the {set} parameter set is damaged: {detail}")]
    ParameterSet {
        /// `sequence` or `frame`.
        set: &'static str,
        /// What the parser says.
        detail: String,
    },
    /// No frame that a decoder could start with.
    #[error("no keyframe: {0}")]
    NoKeyframe(&'static str),
    /// Something is larger than any real stream has it.
    #[error("{what} is larger than {limit} {unit}; is this really {expected}?")]
    TooLarge {
        /// What is too large.
        what: &'static str,
        /// The largest that is taken.
        limit: u64,
        /// Of what `limit` counts.
        unit: &'static str,
        /// What the file should be.
        expected: &'static str,
    },
    /// The given frame rate makes no sense.
    #[error("{0} frames per second were asked for; give a number above 0, up to 1000")]
    FrameRate(f64),
    /// The file ends inside an Ogg page.
    #[error("the file is truncated: it ends inside the Ogg page that begins here")]
    TruncatedPage,
    /// The file ends before the first packet of audio or video.
    #[error("the file ends before the first packet of audio or video")]
    NoAudio,
    /// An Ogg page whose checksum does not fit its bytes.
    #[error("this Ogg page is damaged: its checksum is {found:08x}, but should be {computed:08x}")]
    PageChecksum {
        /// What the page says.
        found: u32,
        /// What its bytes give.
        computed: u32,
    },
    /// An Ogg page of an unknown version.
    #[error("this Ogg page has version {0}, but only version 0 is known")]
    PageVersion(u8),
    /// Bytes between Ogg pages.
    #[error("no Ogg page begins here, nor in the {0} bytes after")]
    NoPage(u64),
    /// Ogg with none of the codings that are played.
    #[error(
        "this Ogg file holds {0}, which is not played; encode with Opus (ffmpeg: -c:a libopus)"
    )]
    OggCoding(&'static str),
    /// An identification or comment header that RFC 7845 does not allow.
    #[error("the Opus header is damaged: {0}")]
    OpusHeader(&'static str),
    /// Audio with more than two channels.
    #[error("{0} channels, but WebRTC viewers take one or two; mix down (ffmpeg: -ac 2)")]
    Channels(u8),
    /// A packet that RFC 6716 does not allow.
    #[error("this page holds a damaged Opus packet: {0}")]
    OpusPacket(&'static str),
    /// Bytes that the format does not allow.
    #[error("the file is damaged here: {0}")]
    Damaged(&'static str),
    /// A container without a track of a known coding.
    #[error("the file holds nothing that can be played: {0}")]
    NothingToPlay(String),
    /// Nothing that begins like a frame.
    #[error("no {expected} begins here, nor in the {searched} bytes after")]
    NoFrame {
        /// What was looked for.
        expected: &'static str,
        /// Bytes that were searched.
        searched: u64,
    },
    /// A form of the format that no viewer could be sent.
    #[error("this is {found}, which is not served; {instead}")]
    Refused {
        /// What the file holds.
        found: &'static str,
        /// What to do.
        instead: &'static str,
    },
    /// Something changes that a track says once for all.
    #[error("{from} becomes {to} here, which a track cannot; split the file, or encode it anew")]
    Changes {
        /// What it was.
        from: String,
        /// What it is from here on.
        to: String,
    },
    /// The file was longer when it was opened.
    #[error("the file has become shorter since it was opened")]
    Shrunk,
}

fn known_extensions() -> String {
    let dotted = crate::Format::extensions().map(|extension| format!(".{extension}"));
    dotted.collect::<Vec<_>>().join(" ")
}

/// Something a viewer may notice, though the file plays.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Warning {
    /// The file, or the name of what stands for one.
    pub path: PathBuf,
    /// The byte it begins at, from the start of the file.
    pub offset: Option<u64>,
    /// What it is.
    pub reason: WarningReason,
}

impl fmt::Display for Warning {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write_place(f, &self.path, self.offset)?;
        write!(f, "{}", self.reason)
    }
}

/// What a viewer may notice. Of several of one kind only the first is kept.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum WarningReason {
    /// The last NAL unit is cut off and was left out.
    #[error("the file is truncated: it ends inside the last NAL unit, which is left out")]
    TruncatedUnit,
    /// The last frame is cut off and was left out.
    #[error("the file is truncated: it ends inside the frame that begins here, which is left out")]
    TruncatedFrame,
    /// Fewer samples than the file says it has.
    #[error("the file is truncated: the last {0} bytes of its audio are missing")]
    TruncatedSamples(u64),
    /// Bytes that belong to no frame, page or NAL unit.
    #[error("{0} bytes that belong to nothing are skipped")]
    Skipped(u64),
    /// Frames before the first keyframe.
    #[error("{0} frames before the first keyframe are skipped")]
    BeforeKeyframe(u64),
    /// The times that frames say go back, or far ahead.
    #[error("the times of the frames jump here; they are played on without a gap")]
    TimeJump,
    /// A frame that would have to be shown before one that was already.
    #[error("a frame has no time of its own between its neighbours, and is left out")]
    FrameOutOfTime,
    /// A slice that names a parameter set the file has not given.
    #[error("a frame needs a parameter set that the file has not given; it will not decode")]
    MissingParameterSet,
    /// The bitstream's timing wins over the given frame rate.
    #[error("the bitstream says {0} frames per second; the given rate is not used")]
    FrameRateIgnored(crate::FrameRate),
    /// The bitstream's timing is not plausible.
    #[error("the bitstream says {numerator}/{denominator} frames per second; {used} is used")]
    FrameRateImplausible {
        /// Frames…
        numerator: u64,
        /// … in so many seconds.
        denominator: u64,
        /// What is used instead.
        used: crate::FrameRate,
    },
    /// A frame format that browsers do not decode.
    #[error("the frames are not 8-bit 4:2:0; most browsers cannot show them")]
    FrameFormat,
    /// A second logical stream in an Ogg file.
    #[error("the file also holds {0}, which is not played")]
    OtherStream(&'static str),
    /// A track that is not played, for its coding or because it is the second
    /// of its kind.
    #[error("a track is not played: {0}")]
    OtherTrack(String),
    /// An edit list with more than one stretch of media.
    #[error("the file's edit list has several parts, of which only the first is followed")]
    Edits,
    /// The file ends earlier than it says.
    #[error("the file is truncated; what lies behind its end is left out")]
    Truncated,
    /// Pages are missing, so that audio is.
    #[error("Ogg pages are missing before this one; there will be silence")]
    MissingPages,
    /// Frames are sent in another order than they are shown.
    #[error(
        "uses B-frames, which players of RTSP put in order and browsers (WebRTC) cannot; \
         for those encode without them (ffmpeg: -bf 0)"
    )]
    Reordered,
    /// Clock references that do not follow from those before.
    #[error("the file's clock jumps here, as if two recordings were joined; it is made to run on")]
    ClockJump,
    /// Frames without any that a decoder could start with.
    #[error("no keyframe was found; viewers may see broken frames at first")]
    NoEntryPoint,
    /// OpusHead asks for a gain, which WebRTC has no field for.
    #[error("the file asks for a gain of {0}/256 dB, which viewers will not apply")]
    OutputGain(i16),
}

/// What went wrong where, before the path is known.
#[derive(Debug)]
pub(crate) struct Fault {
    pub(crate) offset: Option<u64>,
    pub(crate) reason: Reason,
}

impl Fault {
    pub(crate) fn at(offset: u64, reason: Reason) -> Self {
        Self {
            offset: Some(offset),
            reason,
        }
    }

    /// There are more than `limit` of `unit` in `what`, or it takes more.
    pub(crate) fn too_large(
        offset: u64,
        expected: &'static str,
        what: &'static str,
        limit: u64,
        unit: &'static str,
    ) -> Self {
        let reason = Reason::TooLarge {
            what,
            limit,
            unit,
            expected,
        };
        Self::at(offset, reason)
    }

    pub(crate) fn whole(reason: Reason) -> Self {
        Self {
            offset: None,
            reason,
        }
    }

    pub(crate) fn of(self, path: &Path) -> Error {
        Error::new(path, self.offset, self.reason)
    }
}

/// Collects warnings of one file, the first of each kind.
#[derive(Debug, Default)]
pub(crate) struct Warnings(Vec<(Option<u64>, WarningReason)>);

impl Warnings {
    pub(crate) fn add(&mut self, offset: Option<u64>, reason: WarningReason) {
        let same = |(_, known): &(_, WarningReason)| {
            std::mem::discriminant(known) == std::mem::discriminant(&reason)
        };
        if !self.0.iter().any(same) {
            self.0.push((offset, reason));
        }
    }

    /// Adds what another has collected.
    pub(crate) fn append(&mut self, other: &mut Self) {
        for (offset, reason) in other.0.drain(..) {
            self.add(offset, reason);
        }
    }

    pub(crate) fn of(self, path: &Path) -> impl Iterator<Item = Warning> + use<'_> {
        self.0.into_iter().map(|(offset, reason)| Warning {
            path: path.to_owned(),
            offset,
            reason,
        })
    }
}
