use std::fmt;
use std::io;
use std::path::{Path, PathBuf};

use glassline_media::Kind;

/// The reason why a file cannot be played: which file, at which byte, and what the user can do.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub struct Error {
    /// Path of the file, or the name of the input.
    pub path: PathBuf,
    /// Offset of the first wrong byte in the file; `None` if the error concerns the whole file.
    pub offset: Option<u64>,
    /// The reason why the input cannot be read.
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

/// A fault of a file. The caller is at fault unless the variant says otherwise. Trying again helps only
/// for [`Reason::Open`] and [`Reason::Read`].
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Reason {
    /// The list of files is empty.
    #[error("no file was given")]
    NoInput,
    /// Two files hold tracks of the same kind.
    #[error("a second {0} file; a stream has at most one of video and one of audio")]
    SecondOfKind(Kind),
    /// The operating system cannot open the file.
    #[error("cannot be opened: {0}")]
    Open(#[source] io::Error),
    /// The operating system cannot read the file.
    #[error("cannot be read: {0}")]
    Read(#[source] io::Error),
    /// The path is a directory.
    #[error("is a directory, not a file")]
    Directory,
    /// The path is a named pipe, socket or device. Files are read again from any position.
    #[error(
        "is {kind}, not a file that can be read twice; `glassline publish` reads live media from pipes and devices"
    )]
    NotAFile {
        /// The kind of the path, with its article.
        kind: &'static str,
    },
    /// The file is empty.
    #[error("the file is empty")]
    Empty,
    /// The extension belongs to no known format.
    #[error(
        "unknown extension; some of the known ones are .mp4 .mkv .ts .h264 .ogg .wav .mp3 \
         (docs/reference/formats.md has all)"
    )]
    UnknownExtension,
    /// The extension belongs to a format that is known and not read.
    #[error("{0}")]
    Unread(crate::Unread),
    /// The bytes are of another format than the extension.
    #[error("this should be {expected}, but it looks like {found}")]
    Mislabeled {
        /// Format of the extension.
        expected: &'static str,
        /// Format of the first bytes.
        found: &'static str,
    },
    /// The file has no start code.
    #[error("no {coding} start code (00 00 01) in the first {searched} bytes")]
    NoStartCode {
        /// Coding of the file according to its extension.
        coding: &'static str,
        /// Number of bytes that were searched.
        searched: u64,
    },
    /// A parameter set violates the syntax.
    #[error("the {set} parameter set is damaged: {detail}")]
    ParameterSet {
        /// Kind of the set: `video`, `sequence` or `picture`.
        set: &'static str,
        /// Error of the parser.
        detail: String,
    },
    /// The file has no frame at which a decoder could start.
    #[error("no keyframe: {0}")]
    NoKeyframe(&'static str),
    /// A part of the file is larger than in any real stream.
    #[error("{what} is larger than {limit} {unit}; is this really {expected}?")]
    TooLarge {
        /// The part that is too large.
        what: &'static str,
        /// The largest value that is accepted.
        limit: u64,
        /// Unit of `limit`, for the message.
        unit: &'static str,
        /// Format of the file according to its extension.
        expected: &'static str,
    },
    /// The given frame rate is not in the valid range.
    #[error("{0} frames per second were asked for; give a number above 0, up to 1000")]
    FrameRate(f64),
    /// The file ends within an Ogg page.
    #[error("the file is truncated: it ends inside the Ogg page that begins here")]
    TruncatedPage,
    /// The file ends before the first packet of audio or video.
    #[error("the file ends before the first packet of audio or video")]
    NoAudio,
    /// The checksum of an Ogg page does not match its bytes.
    #[error("this Ogg page is damaged: its checksum is {found:08x}, but should be {computed:08x}")]
    PageChecksum {
        /// Checksum in the page.
        found: u32,
        /// Checksum of the page's bytes.
        computed: u32,
    },
    /// The version of an Ogg page is unknown.
    #[error("this Ogg page has version {0}, but only version 0 is known")]
    PageVersion(u8),
    /// Bytes between Ogg pages belong to no page.
    #[error("no Ogg page begins here, nor in the {0} bytes after")]
    NoPage(u64),
    /// The Ogg file has no stream of a known coding.
    #[error(
        "this Ogg file holds {0}, which is not played; encode with Opus (ffmpeg: -c:a libopus)"
    )]
    OggCoding(&'static str),
    /// An identification or comment header violates RFC 7845.
    #[error("the Opus header is damaged: {0}")]
    OpusHeader(&'static str),
    /// The channels of Opus are not laid out as loudspeakers (RFC 7845 §5.1.1.2).
    #[error(
        "{channels} channels of mapping family {family}, of which nobody knows the loudspeakers; \
         mix down (ffmpeg: -ac 2)"
    )]
    OpusMapping {
        /// Channel mapping family.
        family: u8,
        /// Number of channels.
        channels: u8,
    },
    /// An Opus packet violates RFC 6716.
    #[error("this page holds a damaged Opus packet: {0}")]
    OpusPacket(&'static str),
    /// The bytes violate the format.
    #[error("the file is damaged here: {0}")]
    Damaged(&'static str),
    /// The container has no track of a known coding.
    #[error("the file holds nothing that can be played: {0}")]
    NothingToPlay(String),
    /// No frame begins at a place where one must.
    #[error("no {expected} begins here, nor in the {searched} bytes after")]
    NoFrame {
        /// Kind of frame that was expected.
        expected: &'static str,
        /// Number of bytes that were searched.
        searched: u64,
    },
    /// The file uses a variant of the format that cannot be sent to viewers.
    #[error("this is {found}, which is not supported; {instead}")]
    Refused {
        /// Name of the variant that was found.
        found: &'static str,
        /// The advice to the user.
        instead: &'static str,
    },
    /// Properties change that must be constant on a track.
    #[error(
        "{from} becomes {to} here, which a track does not allow; split the file, or encode it again"
    )]
    Changes {
        /// The properties so far.
        from: String,
        /// The properties from this byte on.
        to: String,
    },
    /// The file became shorter after it was opened.
    #[error("the file has become shorter since it was opened")]
    Shrunk,
    /// The bytes of a pipe are no video in Annex-B form.
    #[error("{0}")]
    Elementary(String),
    /// The writer of a pipe closed it within a frame.
    #[error("the pipe ended within a frame")]
    PipeEnded,
    /// The bytes of a pipe are of a format that is known, but read from files only.
    #[error(
        "{found} cannot be played from a pipe{why}; write {} (ffmpeg: -f matroska)",
        crate::format::PIPE_FORMATS
    )]
    NotFromPipe {
        /// Name of the format.
        found: &'static str,
        /// Reason, behind a colon; empty if there is none but that nobody needed it.
        why: &'static str,
    },
    /// The bytes of a pipe are of no known format.
    #[error(
        "no known format begins here; write {} (ffmpeg: -f matroska)",
        crate::format::PIPE_FORMATS
    )]
    UnknownPipe,
}

/// Something in a file that a viewer may notice although the file can be played.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Warning {
    /// Path of the file, or the name of the input.
    pub path: PathBuf,
    /// Offset in the file at which the reason begins.
    pub offset: Option<u64>,
    /// The effect that a viewer may notice.
    pub reason: WarningReason,
}

impl fmt::Display for Warning {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write_place(f, &self.path, self.offset)?;
        write!(f, "{}", self.reason)
    }
}

/// An effect that a viewer may notice. Only the first warning of each kind is stored.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum WarningReason {
    /// The file asks players to turn the video clockwise by this many degrees, which no receiver of
    /// the stream is told.
    #[error(
        "its video is shown as it lies in the file, not turned by {0} degrees as the file asks; \
         encode it again to turn it (ffmpeg: -c:v libx264 -bf 0 -c:a copy)"
    )]
    Turned(u16),
    /// The last NAL unit is incomplete and is not played.
    #[error("the file is truncated: it ends inside the last NAL unit, which is not played")]
    TruncatedUnit,
    /// The last frame is incomplete and is not played.
    #[error(
        "the file is truncated: it ends inside the frame that begins here, which is not played"
    )]
    TruncatedFrame,
    /// The file has fewer samples than it states.
    #[error("the file is truncated: the last {0} bytes of its audio are missing")]
    TruncatedSamples(u64),
    /// Bytes that belong to no frame, page or NAL unit.
    #[error("{0} bytes that belong to no frame, page or NAL unit are skipped")]
    Skipped(u64),
    /// Frames whose bytes cannot be a frame of their coding.
    #[error(
        "{0} damaged frames are skipped; players show the frames that depend on them with faults, \
         until the next keyframe"
    )]
    DamagedFrames(u64),
    /// Ogg pages whose checksum does not match their bytes.
    #[error("{0} damaged Ogg pages are skipped; viewers miss what they held")]
    DamagedPages(u64),
    /// Frames before the first keyframe.
    #[error("{0} frames before the first keyframe are skipped")]
    BeforeKeyframe(u64),
    /// The times of frames jump back, or far ahead.
    #[error("the times of the frames jump here; the frames are played without a gap")]
    TimeJump,
    /// A frame would have to be presented before one that was presented already.
    #[error("a frame has no time of its own between its neighbors, and is not played")]
    FrameOutOfTime,
    /// A slice refers to a parameter set that is not in the file.
    #[error("a frame needs a parameter set that is not in the file; the frame cannot be decoded")]
    MissingParameterSet,
    /// The frame rate of the bitstream is used instead of the given one.
    #[error("the bitstream states {0} frames per second; the given rate is not used")]
    FrameRateIgnored(crate::FrameRate),
    /// The frame rate of the bitstream is not plausible.
    #[error(
        "the bitstream states {numerator}/{denominator} frames per second, which is implausible; {used} is used"
    )]
    FrameRateImplausible {
        /// A number of frames.
        numerator: u64,
        /// The seconds that these frames last.
        denominator: u64,
        /// The frame rate that is used instead.
        used: crate::FrameRate,
    },
    /// Browsers do not decode this frame format.
    #[error("the frames are not 8-bit 4:2:0; most browsers cannot show them")]
    FrameFormat,
    /// An Ogg file has a second logical stream.
    #[error("the file also holds {0}, which is not played")]
    OtherStream(&'static str),
    /// A track is not played, because its coding is unknown or because it is the second of its
    /// kind.
    #[error("a track is not played: {0}")]
    OtherTrack(String),
    /// Units have another coding than the track they are in.
    #[error(
        "frames are not played, because their coding is not that of their track: {0}; join the parts \
         with one coding (ffmpeg: -c:v libx264 -bf 0 -c:a aac)"
    )]
    OtherEntries(String),
    /// The edit list has more than one edit with media.
    #[error("the file's edit list has several edits, of which only the first is applied")]
    Edits,
    /// The file ends earlier than it states.
    #[error("the file is truncated; media behind its end are not played")]
    Truncated,
    /// Pages of audio are missing.
    #[error("Ogg pages are missing before this one; viewers will hear silence")]
    MissingPages,
    /// Frames are decoded in another order than they are presented.
    #[error(
        "uses B-frames, which players of RTSP put in order and browsers (WebRTC) cannot; \
         for those encode without them (ffmpeg: -bf 0)"
    )]
    Reordered,
    /// Frames of a pipe are decoded in another order than they are presented, and have no times.
    #[error(
        "the pipe has B-frames, whose order nothing states: write a format with times (ffmpeg: \
         -f matroska), or encode without them (-bf 0)"
    )]
    UnknownOrder,
    /// Clock references do not continue those before.
    #[error(
        "the file's clock jumps here, as if two recordings were joined; the stream continues without a jump"
    )]
    ClockJump,
    /// Packets of a transport stream are missing.
    #[error("packets of the transport stream are missing at {0} places; viewers may see faults")]
    MissingPackets(u64),
    /// A transport stream is not taken apart.
    #[error(
        "the transport stream is sent as a whole to players of RTSP, and not to browsers and MoQ: \
         {0}"
    )]
    SentWhole(NotApart),
    /// A stream of a transport stream is scrambled.
    #[error(
        "the stream with packet identifier {pid} is scrambled and not played: have the receiver \
         descramble it"
    )]
    Scrambled {
        /// Packet identifier of the stream.
        pid: u16,
    },
    /// The video has no keyframe.
    #[error("no keyframe was found; viewers may see broken frames at first")]
    NoEntryPoint,
    /// OpusHead asks for a gain, for which WebRTC has no field.
    #[error("the file asks for a gain of {0}/256 dB, which players of the stream will not apply")]
    OutputGain(i16),
}

/// The reason why a transport stream is not taken apart into its video and audio.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum NotApart {
    /// Its video is of another coding.
    #[error("its video is {0}, not H.264 or H.265; convert it (ffmpeg: -c:v libx264 -bf 0)")]
    OtherVideo(&'static str),
    /// Its audio is of another coding, and it has no video.
    #[error("its audio is {0}; convert it (ffmpeg: -c:a aac)")]
    OtherAudio(&'static str),
    /// Its packets are scrambled.
    #[error("it is scrambled; have the receiver descramble it")]
    Scrambled,
    /// No program map was found.
    #[error("it has no program map, which says what its packets are")]
    NoTables,
    /// Nothing is wrong with its codings, but no frame was found.
    #[error("no frame of video or audio was found in it")]
    NoFrames,
}

/// An error and its location, before the file's path is known.
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

    /// Returns the error that `what` has more than `limit` of `unit`.
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

/// Collects the warnings of one file, the first of each kind.
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

    /// Adds the warnings of another collection.
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
