//! A row of the table: what a camera does, how it is tried, and what a viewer gets.

use super::quirk::Quirk;

/// A kind of camera, how it is tried, and what a viewer gets.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Row {
    /// Name of the row's tests.
    pub(crate) name: &'static str,
    /// The sender as public trackers name it.
    pub(crate) maker: &'static str,
    /// Public reports, as `project#number`, separated by commas; empty for rows of control.
    pub(crate) reports: &'static str,
    /// The habit of the camera, as a sentence whose subject is the camera.
    pub(crate) does: &'static str,
    pub(crate) quirks: &'static [Quirk],
    pub(crate) film: Film,
    pub(crate) ways: &'static [Way],
    pub(crate) codecs: &'static [Video],
    /// Time for which a viewer looks.
    pub(crate) seconds: u64,
    /// Seconds after which the viewer comes, when the server keeps two of them.
    pub(crate) late: u64,
    pub(crate) viewer: Viewer,
    /// Most connections that the server may make.
    pub(crate) connections: usize,
    /// Longest time without a frame that a viewer may see, in milliseconds.
    pub(crate) freeze_ms: u64,
    /// How the session is ended behind the row, and must be ended towards the camera.
    pub(crate) ending: Option<Ending>,
    /// Whether FFmpeg 5.1 plays the camera.
    pub(crate) ffmpeg: bool,
    /// Codec in which a browser hears the sound.
    pub(crate) heard: Option<&'static str>,
    /// Whether browsers show the video only if the server encodes it again.
    pub(crate) encoded_again: bool,
}

/// The media that a viewer gets.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Viewer {
    /// Every frame, whole and in order, at the camera's rate.
    Plays,
    /// No frame, and a state of the source whose reason contains these words.
    Reason(&'static str),
}

/// The way of media from camera to server.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Way {
    /// The server pulls, with media in the RTSP connection.
    Tcp,
    /// The server pulls, with media by UDP.
    Udp,
    /// The camera publishes by ANNOUNCE and RECORD, with media in the RTSP connection.
    Record,
}

/// The codec of a camera's video.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) enum Video {
    H264,
    H265,
}

/// The film of a camera.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) enum Film {
    /// A keyframe a second, one slice a frame, no B-frames.
    Plain,
    /// Four slices a frame.
    Sliced,
    /// Intra refresh with recovery points, joined when the only IDR frame has passed.
    IntraRefresh,
    /// One keyframe in 30 s.
    LongGroups,
    /// B-frames in the first second, and none later, at 60 frames a second.
    BFramesAtFirst,
}

/// How a session with a camera is ended by an operator.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Ending {
    /// The source is deleted over the API.
    Delete,
    /// The source gets another URL over the API, and plays again.
    Change,
    /// The source is restarted over the API, and plays again.
    Restart,
    /// The server gets SIGTERM.
    Terminate,
}

/// Longest time without a frame that a viewer may see, unless a row says otherwise.
pub(crate) const FREEZE_MS: u64 = 1_000;

/// The server pulls, by either transport.
pub(crate) const PULLED: &[Way] = &[Way::Tcp, Way::Udp];

/// The server pulls within the connection.
pub(crate) const TCP: &[Way] = &[Way::Tcp];

/// The server pulls by UDP.
pub(crate) const UDP: &[Way] = &[Way::Udp];

/// The camera is pulled from, or publishes.
pub(crate) const EVERY_WAY: &[Way] = &[Way::Tcp, Way::Udp, Way::Record];

/// Only H.264 has the quirk.
pub(crate) const H264: &[Video] = &[Video::H264];

/// Both codecs of cameras.
pub(crate) const BOTH: &[Video] = &[Video::H264, Video::H265];

/// Begins a row of H.264 over TCP and UDP, which plays within one connection.
pub(crate) const fn row(name: &'static str, maker: &'static str, reports: &'static str) -> Row {
    Row {
        name,
        maker,
        reports,
        does: "",
        quirks: &[],
        film: Film::Plain,
        ways: PULLED,
        codecs: H264,
        seconds: 3,
        late: 0,
        viewer: Viewer::Plays,
        connections: 1,
        freeze_ms: FREEZE_MS,
        ending: None,
        ffmpeg: true,
        heard: None,
        encoded_again: false,
    }
}

impl Row {
    pub(crate) const fn does(mut self, does: &'static str, quirks: &'static [Quirk]) -> Self {
        (self.does, self.quirks) = (does, quirks);
        self
    }

    pub(crate) const fn films(mut self, film: Film) -> Self {
        self.film = film;
        self
    }

    pub(crate) const fn by(mut self, ways: &'static [Way], codecs: &'static [Video]) -> Self {
        (self.ways, self.codecs) = (ways, codecs);
        self
    }

    pub(crate) const fn seconds(mut self, seconds: u64) -> Self {
        self.seconds = seconds;
        self
    }

    /// A viewer comes after so many seconds, and the server keeps two of them.
    pub(crate) const fn seen_after(mut self, seconds: u64) -> Self {
        self.late = seconds;
        self
    }

    /// A viewer gets a reason with these words. FFmpeg plays no such camera, unless the row says so.
    pub(crate) const fn told(mut self, words: &'static str) -> Self {
        (self.viewer, self.ffmpeg) = (Viewer::Reason(words), false);
        self
    }

    /// FFmpeg plays the camera nevertheless.
    pub(crate) const fn played_by_ffmpeg(mut self) -> Self {
        self.ffmpeg = true;
        self
    }

    pub(crate) const fn connections(mut self, most: usize) -> Self {
        self.connections = most;
        self
    }

    pub(crate) const fn freezes(mut self, most_ms: u64) -> Self {
        self.freeze_ms = most_ms;
        self
    }

    pub(crate) const fn ended_by(mut self, ending: Ending) -> Self {
        self.ending = Some(ending);
        self
    }

    /// FFmpeg does not play the camera.
    pub(crate) const fn not_by_ffmpeg(mut self) -> Self {
        self.ffmpeg = false;
        self
    }

    pub(crate) const fn heard(mut self, codec: &'static str) -> Self {
        self.heard = Some(codec);
        self
    }

    /// Browsers show the video only if the server encodes it again.
    pub(crate) const fn encoded_again(mut self) -> Self {
        self.encoded_again = true;
        self
    }

    pub(crate) fn has(&self, quirk: Quirk) -> bool {
        self.quirks.contains(&quirk)
    }
}
