use std::fmt;
use std::str::FromStr;

use glassline_media::Kind;

use super::attribute::{Attribute, Direction};
use super::attributes::Attributes;
use super::error::{Error, Reason};
use super::limits::{ATTRIBUTES_MAX, MEDIA_MAX};
use super::lines::{Line, lines};

/// A session description (RFC 8866).
///
/// `Display` writes it with CRLF line ends, in the order of lines of RFC 8866.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SessionDescription {
    /// Creator and version of the description.
    pub origin: Origin,
    /// Session name (`s=`), mostly `-`.
    pub name: String,
    /// Lines of the session other than `v o s a m`: letter and value, in the order of RFC 8866.
    pub lines: Vec<(char, String)>,
    /// Attributes of the session.
    pub attributes: Attributes,
    /// The `m=` sections, in their order.
    pub media: Vec<MediaDescription>,
}

/// The origin (`o=`), which identifies a description and its version (RFC 8866 §5.2).
#[derive(Clone, Debug, PartialEq, Eq, derive_more::Display)]
#[display("{username} {session_id} {session_version} {network_type} {address_type} {address}")]
pub struct Origin {
    /// User name, `-` if there is none.
    pub username: String,
    /// Session identifier, a decimal number.
    pub session_id: String,
    /// Session version, a decimal number that rises with each version.
    pub session_version: String,
    /// Network type; `IN` for the Internet.
    pub network_type: String,
    /// Address type, `IP4` or `IP6`.
    pub address_type: String,
    /// Address of the creator; it has no meaning in WebRTC.
    pub address: String,
}

/// One `m=` section of a description.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MediaDescription {
    /// Media type: `audio`, `video`, `application`, …
    pub kind: String,
    /// Port; 0 if the section is rejected or `bundle-only`.
    pub port: u16,
    /// Number of ports, if a slash and a number follow the port.
    pub port_count: Option<u16>,
    /// Protocol of the media, such as `UDP/TLS/RTP/SAVPF`.
    pub protocol: String,
    /// Formats, which are payload types for RTP, most preferred first; never empty.
    pub formats: Vec<String>,
    /// Lines of the section other than `m a`: letter and value, in the order of RFC 8866.
    pub lines: Vec<(char, String)>,
    /// Attributes of the section.
    pub attributes: Attributes,
}

/// Types of the session's lines that are kept unparsed, in the order of RFC 8866.
const SESSION_LINES: &str = "iuepcbtrzk";
/// Types of the lines of an `m=` section that are kept unparsed, in the order of RFC 8866.
const MEDIA_LINES: &str = "icbk";

impl SessionDescription {
    /// Returns the name of an `m=` line, counted from zero, for error texts.
    pub(super) fn media_name(&self, line: usize) -> String {
        let Some(media) = self.media.get(line) else {
            return format!("m= line {}", line + 1);
        };
        match media.attributes.mid() {
            Some(mid) => format!("m= line {} ({}, mid {mid})", line + 1, media.kind),
            None => format!("m= line {} ({})", line + 1, media.kind),
        }
    }

    /// Parses a description. Lines may end with LF or CRLF.
    ///
    /// Errors name the line. Limits: [`BYTES_MAX`](super::BYTES_MAX),
    /// [`LINES_MAX`](super::LINES_MAX), [`MEDIA_MAX`], [`ATTRIBUTES_MAX`].
    pub fn parse(text: &str) -> Result<Self, Error> {
        let lines = lines(text)?;
        let (mut rest, end) = (lines.as_slice(), lines.len() + 1);
        if expect(&mut rest, 'v', end)?.value.trim() != "0" {
            return Err(Error::at(1, Reason::Version));
        }
        let line = expect(&mut rest, 'o', end)?;
        let origin = Origin::parse(line.value).map_err(|reason| Error::at(line.number, reason))?;
        let name = expect(&mut rest, 's', end)?.value.to_owned();
        let session = Section::read(&mut rest, SESSION_LINES)?;
        if !session.lines.iter().any(|(kind, _)| *kind == 't') {
            let line = rest.first().map_or(end, |line| line.number);
            return Err(Error::at(line, Reason::Expected('t')));
        }
        Ok(Self {
            origin,
            name,
            lines: session.lines,
            attributes: session.attributes,
            media: read_media(rest)?,
        })
    }

    /// Returns the direction of the `m=` section with this index, which the session may set.
    pub fn direction(&self, index: usize) -> Direction {
        self.media
            .get(index)
            .and_then(|media| media.attributes.direction())
            .or_else(|| self.attributes.direction())
            .unwrap_or_default()
    }

    /// Returns the section with this identification tag.
    pub fn by_mid(&self, mid: &str) -> Option<&MediaDescription> {
        let mut media = self.media.iter();
        media.find(|media| media.attributes.mid() == Some(mid))
    }

    /// Returns the tags of the bundle that contains `mid`, in the bundle's order.
    pub fn bundle_of(&self, mid: &str) -> Option<&[String]> {
        self.attributes
            .groups("BUNDLE")
            .map(|group| group.mids.as_slice())
            .find(|mids| mids.iter().any(|it| it == mid))
    }
}

impl FromStr for SessionDescription {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self, Error> {
        Self::parse(text)
    }
}

impl fmt::Display for SessionDescription {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "v=0\r\no={}\r\ns={}\r\n", self.origin, self.name)?;
        write_section(f, &self.lines, &self.attributes)?;
        self.media.iter().try_for_each(|media| media.fmt(f))
    }
}

impl Origin {
    fn parse(value: &str) -> Result<Self, Reason> {
        let mut fields = value.split_whitespace().map(str::to_owned);
        let mut field = || {
            fields.next().ok_or(Reason::Field {
                kind: 'o',
                problem: "expected six words: name, number, version, IN, IP4 or IP6, address",
            })
        };
        Ok(Self {
            username: field()?,
            session_id: field()?,
            session_version: field()?,
            network_type: field()?,
            address_type: field()?,
            address: field()?,
        })
    }

    /// Creates the origin of a description that is made here, without revealing an address (RFC
    /// 8829 §5.2.1).
    pub fn local(session_id: u64, session_version: u64) -> Self {
        Self {
            username: "-".to_owned(),
            session_id: session_id.to_string(),
            session_version: session_version.to_string(),
            network_type: "IN".to_owned(),
            address_type: "IP4".to_owned(),
            address: "127.0.0.1".to_owned(),
        }
    }
}

impl MediaDescription {
    /// Returns the kind of media: video or audio; `None` for `application` and others.
    pub fn media_kind(&self) -> Option<Kind> {
        [Kind::Video, Kind::Audio]
            .into_iter()
            .find(|kind| kind.as_str() == self.kind)
    }

    /// Returns whether the section is rejected: port 0 without `bundle-only` (RFC 9143 §6).
    pub fn is_rejected(&self) -> bool {
        self.port == 0 && !self.attributes.has(&Attribute::BundleOnly)
    }

    /// Returns the payload types of an RTP section, most preferred first.
    pub fn payload_types(&self) -> impl Iterator<Item = u8> {
        let formats = if self.is_rtp() { &*self.formats } else { &[] };
        formats.iter().filter_map(|format| format.parse().ok())
    }

    /// Returns whether the protocol is a profile of RTP.
    pub fn is_rtp(&self) -> bool {
        self.protocol.split('/').any(|word| word == "RTP")
    }

    /// Returns whether the protocol is SRTP with keys from DTLS, in any of the spellings that
    /// RFC 8829 §5.1.2 accepts.
    pub fn is_secure_rtp(&self) -> bool {
        self.is_rtp() && (self.protocol.ends_with("/SAVPF") || self.protocol.ends_with("/SAVP"))
    }

    fn parse(value: &str) -> Result<Self, Reason> {
        let problem = |problem| Reason::Field { kind: 'm', problem };
        let mut fields = value.split_whitespace();
        let mut field = |missing| fields.next().ok_or(problem(missing));
        let kind = field("no kind of media")?.to_owned();
        let ports = field("no port")?;
        let (port, count) = match ports.split_once('/') {
            Some((port, count)) => (port, Some(count)),
            None => (ports, None),
        };
        let number = |digits: &str| {
            digits
                .parse::<u16>()
                .map_err(|_| problem("the port is not 0..=65535"))
        };
        let section = Self {
            kind,
            port: number(port)?,
            port_count: count.map(number).transpose()?,
            protocol: field("no protocol")?.to_owned(),
            formats: fields.map(str::to_owned).collect(),
            lines: Vec::new(),
            attributes: Attributes::default(),
        };
        if section.formats.is_empty() {
            return Err(problem("no format after the protocol"));
        }
        let known = section.payload_types().filter(|&it| it < 128).count();
        if section.is_rtp() && known != section.formats.len() {
            return Err(problem("a payload type is not 0..=127"));
        }
        Ok(section)
    }
}

impl fmt::Display for MediaDescription {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "m={} {}", self.kind, self.port)?;
        if let Some(count) = self.port_count {
            write!(f, "/{count}")?;
        }
        write!(f, " {} {}\r\n", self.protocol, self.formats.join(" "))?;
        write_section(f, &self.lines, &self.attributes)
    }
}

/// The lines up to the next `m=`.
#[derive(Debug, Default)]
pub(super) struct Section {
    pub(super) lines: Vec<(char, String)>,
    pub(super) attributes: Attributes,
}

impl Section {
    /// Takes the lines before the next `m=` from `rest`. Of the lines other than `a=`, those in
    /// `allowed` are kept, sorted into that order.
    pub(super) fn read(rest: &mut &[Line<'_>], allowed: &str) -> Result<Self, Error> {
        let mut section = Self::default();
        while let Some((line, after)) = rest.split_first() {
            if line.kind == 'm' {
                break;
            }
            let at = |reason| Error::at(line.number, reason);
            if section.lines.len() + section.attributes.0.len() >= ATTRIBUTES_MAX {
                return Err(at(Reason::TooManyAttributes));
            }
            if line.kind == 'a' {
                section
                    .attributes
                    .push(Attribute::parse(line.value).map_err(at)?);
            } else if allowed.contains(line.kind) {
                section.lines.push((line.kind, line.value.to_owned()));
            } else if SESSION_LINES.contains(line.kind) || "vos".contains(line.kind) {
                return Err(at(Reason::Misplaced(line.kind)));
            } else {
                return Err(at(Reason::UnknownType(line.kind)));
            }
            *rest = after;
        }
        section.lines.sort_by_key(|(kind, _)| allowed.find(*kind));
        Ok(section)
    }
}

/// Parses all remaining `m=` sections.
pub(super) fn read_media(mut rest: &[Line<'_>]) -> Result<Vec<MediaDescription>, Error> {
    let mut sections: Vec<MediaDescription> = Vec::new();
    while let Some((line, after)) = rest.split_first() {
        let at = |reason| Error::at(line.number, reason);
        if sections.len() == MEDIA_MAX {
            return Err(at(Reason::TooManyMedia));
        }
        let mut media = MediaDescription::parse(line.value).map_err(at)?;
        rest = after;
        let section = Section::read(&mut rest, MEDIA_LINES)?;
        media.lines = section.lines;
        media.attributes = section.attributes;
        if let Some(mid) = media.attributes.mid() {
            let same = |other: &MediaDescription| other.attributes.mid() == Some(mid);
            if sections.iter().any(same) {
                return Err(Error::at(
                    mid_line(after, line.number),
                    Reason::DuplicateMid,
                ));
            }
        }
        sections.push(media);
    }
    Ok(sections)
}

fn mid_line(section: &[Line<'_>], or: usize) -> usize {
    let mut lines = section.iter();
    lines
        .find(|line| line.kind == 'a' && line.value.starts_with("mid:"))
        .map_or(or, |line| line.number)
}

/// Takes the next line, which must be of this type. `end` is the number of the line behind the
/// last.
fn expect<'a>(rest: &mut &[Line<'a>], kind: char, end: usize) -> Result<Line<'a>, Error> {
    match rest.split_first() {
        Some((line, after)) if line.kind == kind => {
            *rest = after;
            Ok(*line)
        }
        found => {
            let line = found.map_or(end, |(line, _)| line.number);
            Err(Error::at(line, Reason::Expected(kind)))
        }
    }
}

fn write_section(
    f: &mut fmt::Formatter<'_>,
    lines: &[(char, String)],
    attributes: &Attributes,
) -> fmt::Result {
    for (kind, value) in lines {
        write!(f, "{kind}={value}\r\n")?;
    }
    for attribute in &attributes.0 {
        write!(f, "a={attribute}\r\n")?;
    }
    Ok(())
}
