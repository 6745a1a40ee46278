//! Session descriptions as RTSP servers send them (RFC 8866, RFC 2326 appendix C).
//!
//! [`Description`] reads what a player needs and ignores the rest: cameras leave lines out,
//! order them freely, write malformed origins, and send names that are not UTF-8. For this
//! reason it is not a general SDP parser. A line that cannot be read costs what the line says, at
//! most its own track. [`Presentation`] writes the description that a player receives.

use glassline_media::Kind;
use thiserror::Error;

mod direction;
mod formats;
mod presentation;
mod tracks;

pub use direction::Direction;
pub use formats::Format;
pub use presentation::{Presentation, Section, control, payload_type};
pub use tracks::{ChosenTracks, Unusable};

/// A presentation as its session description declares it.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Description {
    /// Session name from `s=`; empty if there is none.
    pub name: String,
    /// Aggregate control URL: as written, and absolute after [`Description::resolve`].
    pub control: Option<String>,
    /// Range from `a=range:`, as written.
    pub range: Option<String>,
    /// Direction of the tracks that state none.
    pub direction: Option<Direction>,
    /// The tracks in order; at most [`TRACKS_MAX`].
    pub tracks: Vec<Media>,
}

/// One media section (`m=`) of a description.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Media {
    /// Media type: the first word of `m=`, such as `video`.
    pub name: String,
    /// Port of `m=`: 0 unless the server fixes it, as for multicast, and where it is no port.
    pub port: u16,
    /// Transport protocol of `m=`, such as `RTP/AVP`; empty if there is none.
    pub protocol: String,
    /// Encodings that the track may have; at most 32.
    pub formats: Vec<Format>,
    /// The track's control URL: as written, and absolute after [`Description::resolve`].
    pub control: Option<String>,
    /// Frames per second from `a=framerate:`.
    pub frame_rate: Option<f64>,
    /// MIKEY message from `a=key-mgmt:`, whose keys protect the packets.
    pub key_management: Option<String>,
    /// Direction of the track, or that of the whole description; `None` if neither is stated.
    pub direction: Option<Direction>,
    /// Requests for keyframes that the sender says it answers.
    pub feedback: Feedback,
}

/// Requests for keyframes from `a=rtcp-fb:` (RFC 4585 §4.2, RFC 5104 §7.1), for any of a
/// track's formats.
///
/// Both are false where the sender says nothing, as most senders do.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Feedback {
    /// `nack pli`: a picture loss indication.
    pub pli: bool,
    /// `ccm fir`: a full intra request.
    pub fir: bool,
}

impl Media {
    /// Returns video or audio; `None` for other media, such as metadata.
    pub fn kind(&self) -> Option<Kind> {
        [Kind::Video, Kind::Audio]
            .into_iter()
            .find(|kind| self.name.eq_ignore_ascii_case(kind.as_str()))
    }

    /// Returns the first format, which is the one that servers send.
    pub fn format(&self) -> Option<&Format> {
        self.formats.first()
    }

    /// Returns the payload types of the first format, and of those of the same encoding.
    pub fn payload_types(&self) -> impl Iterator<Item = u8> {
        let alike = self.formats.iter().filter(|it| {
            let first = &self.formats[0];
            first.encoding_name.eq_ignore_ascii_case(&it.encoding_name)
                && first.clock_rate == it.clock_rate
        });
        alike.map(|it| it.payload_type)
    }
}

/// Most tracks of a description that are read.
pub const TRACKS_MAX: usize = 32;
const FORMATS_MAX: usize = 32;

/// The reason why a text describes no presentation. The server is at fault.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum Error {
    /// No line begins with `v=`, `s=` or `m=`.
    #[error("the body of {bytes} bytes is not a session description (SDP)")]
    NotSdp {
        /// Length of the body in bytes.
        bytes: usize,
    },
}

impl Description {
    /// Parses a body. Bytes that are not UTF-8 become replacement characters. Of a `m=` line with
    /// errors what can be read is taken, so that later lines belong to the right track.
    ///
    /// # Errors
    /// Returns [`Error::NotSdp`] for a body that is something else.
    pub fn parse(body: &[u8]) -> Result<Self, Error> {
        let text = String::from_utf8_lossy(body);
        let mut description = Self::default();
        let mut known = false;
        for line in text.split(['\n', '\r']) {
            let line = line.trim_matches(['\0', ' ', '\t']);
            let Some((key, value)) = line.split_once('=') else {
                continue;
            };
            let key = key.trim();
            known |= matches!(key, "v" | "s" | "m");
            match key {
                "s" => value.trim().clone_into(&mut description.name),
                "m" if description.tracks.len() == TRACKS_MAX => break,
                "m" => {
                    let mut media = Media::parse(value);
                    media.direction = description.direction;
                    description.tracks.push(media);
                }
                "a" => description.attribute(value),
                _ => {}
            }
        }
        if known {
            Ok(description)
        } else {
            Err(Error::NotSdp { bytes: body.len() })
        }
    }

    /// Makes all control URLs absolute (RFC 2326 §C.1.1).
    ///
    /// `base`: `Content-Base` of the response, else its `Content-Location`, else the URL of the
    /// request. An absolute aggregate control takes its place, as in all common players. A track
    /// without a control gets the aggregate's.
    pub fn resolve(&mut self, base: &str) {
        let aggregate = match self.control.as_deref() {
            // Some servers put a track's relative control here. As in the RFC, only an absolute
            // URL or `*` is the aggregate control.
            Some(control) if is_absolute(control) => control.to_owned(),
            _ => base.to_owned(),
        };
        for media in &mut self.tracks {
            let control = media.control.as_deref().unwrap_or("*");
            media.control = Some(match control {
                "*" | "" => aggregate.clone(),
                control => join(&aggregate, control),
            });
        }
        self.control = Some(aggregate);
    }

    /// Reads an attribute. Some cameras write names of attributes with capital letters.
    fn attribute(&mut self, text: &str) {
        let (name, value) = text.split_once(':').unwrap_or((text, ""));
        let (name, value) = (name.trim().to_ascii_lowercase(), value.trim());
        let direction = Direction::parse(&name);
        match (self.tracks.last_mut(), name.as_str()) {
            (Some(media), _) if direction.is_some() => media.direction = direction,
            (None, _) if direction.is_some() => self.direction = direction,
            (None, "control") => self.control = Some(value.to_owned()),
            (None, "range") => self.range = Some(value.to_owned()),
            (Some(media), name) => media.attribute(name, value),
            _ => {}
        }
    }
}

impl Media {
    /// Reads a `m=` line. Some cameras write a port that is none, such as `-` or a number beyond
    /// 65535, or leave the port out.
    fn parse(text: &str) -> Self {
        let mut words = text.split_ascii_whitespace().peekable();
        let name = words.next().unwrap_or_default().to_owned();
        let is_protocol = |word: &str| {
            word.contains('/') && word.starts_with(|first: char| first.is_ascii_alphabetic())
        };
        let port = words.next_if(|word| !is_protocol(word));
        let port = port.and_then(|port| port.split('/').next()?.parse().ok());
        let protocol = words.next().unwrap_or_default().to_owned();
        let numbers = words.filter_map(payload_type_of);
        let formats = numbers.map(Format::with_payload_type).take(FORMATS_MAX);
        Self {
            name,
            port: port.unwrap_or(0),
            protocol,
            formats: formats.collect(),
            ..Self::default()
        }
    }

    fn attribute(&mut self, name: &str, value: &str) {
        match name {
            "control" => self.control = Some(value.to_owned()),
            "rtcp-fb" => {
                let mut words = value.split_ascii_whitespace().skip(1);
                let words = (words.next(), words.next());
                self.feedback.pli |= words == (Some("nack"), Some("pli"));
                self.feedback.fir |= words == (Some("ccm"), Some("fir"));
            }
            "key-mgmt" => {
                let (protocol, keys) = value.split_once(' ').unwrap_or((value, ""));
                let is_mikey = protocol.eq_ignore_ascii_case("mikey");
                self.key_management = is_mikey.then(|| keys.trim().to_owned());
            }
            "framerate" => {
                let rate = value.parse().ok();
                self.frame_rate = rate.filter(|rate: &f64| rate.is_finite() && *rate > 0.0);
            }
            "rtpmap" => {
                let (number, map) = numbered(value);
                let is_nameless = |format: &Format| format.encoding_name.is_empty();
                if self.formats.is_empty() {
                    // The `m=` line names no format that can be read.
                    let named = number.map(Format::with_payload_type);
                    self.formats.extend(named);
                }
                if let Some(format) = self.format_of(number, is_nameless) {
                    format.set_map(map);
                }
            }
            "fmtp" => {
                let (number, parameters) = numbered(value);
                let is_plain = |format: &Format| format.parameters.is_empty();
                if let Some(format) = self.format_of(number, is_plain) {
                    parameters.clone_into(&mut format.parameters);
                }
            }
            _ => {}
        }
    }

    /// Returns the format that an attribute with this payload type is about.
    ///
    /// Some cameras write another number there, or none. With one format alone in the section, the
    /// attribute is about that one, if it still `lacks` what the attribute says.
    fn format_of(
        &mut self,
        number: Option<u8>,
        lacks: impl Fn(&Format) -> bool,
    ) -> Option<&mut Format> {
        let mut formats = self.formats.iter();
        let at = formats.position(|format| Some(format.payload_type) == number);
        let alone = || matches!(&self.formats[..], [format] if lacks(format)).then_some(0);
        let at = at.or_else(alone)?;
        self.formats.get_mut(at)
    }
}

/// Reads a payload type, 0–127.
fn payload_type_of(text: &str) -> Option<u8> {
    text.parse().ok().filter(|number| *number < 128)
}

/// Splits the payload type off an attribute's value; `None` if the value begins with none.
fn numbered(value: &str) -> (Option<u8>, &str) {
    let (number, rest) = value.split_once([' ', '\t']).unwrap_or((value, ""));
    match payload_type_of(number) {
        Some(number) => (Some(number), rest.trim()),
        None => (None, value),
    }
}

/// Returns whether `text` is an absolute URL: a scheme and an authority.
fn is_absolute(text: &str) -> bool {
    text.split_once("://").is_some_and(|(scheme, _)| {
        !scheme.is_empty() && scheme.bytes().all(|byte| byte.is_ascii_alphanumeric())
    })
}

/// Joins as the common players do, not as RFC 1808 does: a relative control is appended behind
/// a slash, whatever the base ends in, since servers rely on it. Even a query in the base stays
/// in front. A control that repeats the path of the base stands behind the host.
fn join(base: &str, control: &str) -> String {
    if is_absolute(control) {
        return control.to_owned();
    }
    if control.starts_with('?') {
        return format!("{base}{control}");
    }
    let authority = base.find("://").map_or(0, |at| at + 3);
    let root = base[authority..]
        .find('/')
        .map_or(base.len(), |at| authority + at);
    let path = base[root..].trim_end_matches('/');
    let base = match control.starts_with('/') && control.starts_with(path) {
        true => &base[..root],
        false => base.strip_suffix('/').unwrap_or(base),
    };
    format!("{base}/{}", control.strip_prefix('/').unwrap_or(control))
}

#[cfg(test)]
mod tests;
