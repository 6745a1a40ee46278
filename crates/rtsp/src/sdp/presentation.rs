use std::fmt::{self, Write};
use std::net::IpAddr;
use std::time::Duration;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use glassline_media::{Bitrate, Codec, Kind, Track};

use super::TRACKS_MAX;
use crate::transport::Group;

/// What a server says of a stream (RFC 8866, RFC 2326 appendix C.1): the writing
/// counterpart of [`Description`](super::Description).
///
/// Its `Display` is the body.
#[derive(Clone, Debug, PartialEq)]
pub struct Presentation {
    /// For people; empty is written as `-`.
    pub name: String,
    /// More for people; empty is left out.
    pub information: String,
    /// Names the stream's tracks as they are: another number, another description.
    pub version: u64,
    /// The server's address.
    pub address: IpAddr,
    /// `None` is live: no end, and no way back.
    pub duration: Option<Duration>,
    /// At most 32 are written, since there are no more payload types.
    pub tracks: Vec<Section>,
}

/// One track of a [`Presentation`].
#[derive(Clone, Debug, PartialEq)]
pub struct Section {
    /// What it is.
    pub track: Track,
    /// Its usual rate, without headers.
    pub bitrate: Option<Bitrate>,
    /// Pictures a second.
    pub frame_rate: Option<f64>,
    /// The group that it can be had from.
    pub multicast: Option<Group>,
}

impl Section {
    /// A track of which no more is known.
    pub const fn new(track: Track) -> Self {
        Self {
            track,
            bitrate: None,
            frame_rate: None,
            multicast: None,
        }
    }
}

/// The payload type of a stream's track: the fixed one that it has, else
/// 96 + `index`.
pub fn payload_type(track: &Track, index: usize) -> u8 {
    let own = 96 + u8::try_from(index.min(TRACKS_MAX - 1)).unwrap_or(0);
    track.static_payload_type().unwrap_or(own)
}

/// The last part of the URL of a stream's track.
pub fn control(index: usize) -> String {
    format!("trackID={index}")
}

impl fmt::Display for Presentation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (family, address) = (family(self.address), self.address);
        let any = match self.address {
            IpAddr::V4(_) => "0.0.0.0",
            IpAddr::V6(_) => "::",
        };
        let version = self.version;
        write!(
            f,
            "v=0\r\no=- {version} {version} IN {family} {address}\r\n"
        )?;
        write!(f, "s={}\r\n", line(&self.name, "-"))?;
        if !self.information.is_empty() {
            write!(f, "i={}\r\n", line(&self.information, "-"))?;
        }
        write!(f, "c=IN {family} {any}\r\nt=0 0\r\na=control:*\r\n")?;
        match self.duration {
            Some(duration) => write!(f, "a=range:npt=0-{:.3}\r\n", duration.as_secs_f64())?,
            None => f.write_str("a=range:npt=now-\r\n")?,
        }
        let tracks = self.tracks.iter().take(TRACKS_MAX).enumerate();
        for (index, section) in tracks {
            section.write(f, index)?;
        }
        Ok(())
    }
}

impl Section {
    fn write(&self, f: &mut fmt::Formatter<'_>, index: usize) -> fmt::Result {
        let track = &self.track;
        let number = payload_type(track, index);
        let port = self.multicast.map_or(0, |group| group.ports.0);
        write!(f, "m={} {port} RTP/AVP {number}\r\n", track.kind())?;
        if let Some(Group { address, ttl, .. }) = self.multicast {
            write!(f, "c=IN {} {address}", family(address))?;
            // IPv6 has no TTL here (RFC 8866 §5.7).
            if address.is_ipv4() {
                write!(f, "/{ttl}")?;
            }
            f.write_str("\r\n")?;
        }
        if let Some(bitrate) = self.bitrate {
            write!(f, "b=AS:{}\r\n", bitrate.bps().div_ceil(1000))?;
        }
        write!(f, "a=rtpmap:{number} {}\r\n", map(track))?;
        let parameters = parameters(track);
        if !parameters.is_empty() {
            write!(f, "a=fmtp:{number} {}\r\n", line(&parameters, ""))?;
        }
        let (width, height) = (track.video.width, track.video.height);
        if width > 0 && height > 0 {
            write!(f, "a=framesize:{number} {width}-{height}\r\n")?;
        }
        if let Some(rate) = self.frame_rate.filter(|rate| rate.is_finite()) {
            // Whole rates without a fraction, 29.97 with what it has.
            write!(f, "a=framerate:{}\r\n", (rate * 1000.0).round() / 1000.0)?;
        }
        write!(f, "a=control:{}\r\n", control(index))
    }
}

const fn family(address: IpAddr) -> &'static str {
    match address {
        IpAddr::V4(_) => "IP4",
        IpAddr::V6(_) => "IP6",
    }
}

/// What goes on one line; `instead` of nothing.
fn line(text: &str, instead: &str) -> String {
    let printable = text.chars().map(|c| if c.is_control() { ' ' } else { c });
    let printable: String = printable.collect();
    match printable.trim() {
        "" => instead.to_owned(),
        some => some.to_owned(),
    }
}

/// Encoding name, clock rate, and channels where the payload format counts them.
fn map(track: &Track) -> String {
    let (name, rate) = (track.codec.encoding_name(), track.clock_rate);
    let channels = match track.codec {
        // Always two, whatever is in it (RFC 7587 §7).
        Codec::Opus => 2,
        // Each frame says it itself (RFC 3551 §4.5.13).
        Codec::MpegAudio => 1,
        _ if track.kind() == Kind::Audio => track.channels,
        _ => 1,
    };
    match channels {
        0 | 1 => format!("{name}/{rate}"),
        _ => format!("{name}/{rate}/{channels}"),
    }
}

/// What stands behind `a=fmtp:PT `.
fn parameters(track: &Track) -> String {
    if track.codec != Codec::H264 {
        return track.format_parameters.clone();
    }
    let mut text = "packetization-mode=1".to_owned();
    let video = &track.video;
    if let Some([profile, flags, level]) = video.profile_level_id() {
        let _ = write!(
            text,
            ";profile-level-id={profile:02x}{flags:02x}{level:02x}"
        );
    }
    if !video.sps.is_empty() && !video.pps.is_empty() {
        let (sps, pps) = (STANDARD.encode(&video.sps), STANDARD.encode(&video.pps));
        let _ = write!(text, ";sprop-parameter-sets={sps},{pps}");
    }
    text
}
