//! Values of the known attributes.

use std::fmt;

use glassline_media::Ssrc;

use crate::sdp::error::Reason;

/// A group of `m=` lines (RFC 5888); a `BUNDLE` group shares one transport (RFC 9143).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Group {
    /// Semantics of the group: `BUNDLE`, `LS`, …
    pub semantics: String,
    /// Identification tags of its members; the first of a bundle carries the transport.
    pub mids: Vec<String>,
}

/// Direction of media (RFC 8866 §6.7), from the view of the description's author.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Direction {
    /// The author sends and receives; also the default.
    #[default]
    SendRecv,
    /// The author only sends.
    SendOnly,
    /// The author only receives.
    RecvOnly,
    /// Neither end sends media.
    Inactive,
}

/// Role in the DTLS handshake (RFC 4145 §4, RFC 8842 §5).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Setup {
    /// The author is the DTLS client.
    Active,
    /// The author is the DTLS server.
    Passive,
    /// The answering end chooses.
    ActPass,
    /// The author does not connect now.
    HoldConn,
}

/// Codec of a payload type (`rtpmap`).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RtpMap {
    /// Payload type in 0..=127.
    pub payload_type: u8,
    /// Encoding name as written; compared ignoring case.
    pub encoding: String,
    /// RTP clock rate in Hz.
    pub clock_rate: u32,
    /// Number of audio channels; `None` means 1.
    pub channels: Option<u8>,
}

/// Format parameters of a payload type (`fmtp`).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FormatParameters {
    /// Payload type in 0..=127.
    pub payload_type: u8,
    /// All parameters as written: `name=value` with semicolons for most formats.
    pub parameters: String,
}

/// A kind of RTCP feedback that the author understands (`rtcp-fb`).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RtcpFeedback {
    /// Payload type, 0..=127; `None` for `*`, every payload type of the `m=` line.
    pub payload_type: Option<u8>,
    /// Kind of feedback, single-spaced: `nack`, `nack pli`, `ccm fir`, `transport-cc`, …
    pub kind: String,
}

/// The id of an RTP header extension (`extmap`).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ExtensionMap {
    /// Id: 1..=14 fit the one-byte form, up to 255 the two-byte form; from 4096 on they are
    /// placeholders.
    pub id: u16,
    /// Direction in which the extension is used; `None` for that of the `m=` line.
    pub direction: Option<Direction>,
    /// URI of the extension.
    pub uri: String,
    /// Rest of the line, single-spaced; mostly empty.
    pub parameters: String,
}

/// An attribute of one RTP source (`ssrc`).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SsrcAttribute {
    /// SSRC of the source.
    pub ssrc: Ssrc,
    /// Name of the attribute: `cname`, `msid`, …
    pub name: String,
    /// Value behind the colon; `None` without a colon.
    pub value: Option<String>,
}

/// A group of RTP sources (`ssrc-group`); a `FID` group is a source and its retransmissions.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SsrcGroup {
    /// Semantics of the group: `FID`, `SIM`, `FEC-FR`, …
    pub semantics: String,
    /// SSRCs, in the order that the semantics specify.
    pub ssrcs: Vec<Ssrc>,
}

/// The MediaStream and track of an `m=` line (`msid`).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Msid {
    /// MediaStream identifier, `-` for none.
    pub stream: String,
    /// Identifier of the track.
    pub track: Option<String>,
}

impl Group {
    pub(super) fn parse<'a>(mut words: impl Iterator<Item = &'a str>) -> Result<Self, Reason> {
        Ok(Self {
            semantics: next_word(&mut words, "group", "no semantics")?,
            mids: words.map(str::to_owned).collect(),
        })
    }
}

impl Direction {
    /// Returns the direction as in SDP.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::SendRecv => "sendrecv",
            Self::SendOnly => "sendonly",
            Self::RecvOnly => "recvonly",
            Self::Inactive => "inactive",
        }
    }

    /// Returns whether the author receives.
    pub const fn receives(self) -> bool {
        matches!(self, Self::SendRecv | Self::RecvOnly)
    }

    /// Returns whether the author sends.
    pub const fn sends(self) -> bool {
        matches!(self, Self::SendRecv | Self::SendOnly)
    }

    pub(super) fn from_name(name: &str) -> Option<Self> {
        [
            Self::SendRecv,
            Self::SendOnly,
            Self::RecvOnly,
            Self::Inactive,
        ]
        .into_iter()
        .find(|direction| direction.as_str() == name)
    }
}

impl Setup {
    /// Returns the role as in SDP.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Active => "active",
            Self::Passive => "passive",
            Self::ActPass => "actpass",
            Self::HoldConn => "holdconn",
        }
    }

    pub(super) fn parse(word: &str) -> Result<Self, Reason> {
        [Self::Active, Self::Passive, Self::ActPass, Self::HoldConn]
            .into_iter()
            .find(|setup| setup.as_str() == word)
            .ok_or(problem(
                "setup",
                "not one of active, passive, actpass, holdconn",
            ))
    }
}

impl RtpMap {
    pub(super) fn parse<'a>(mut words: impl Iterator<Item = &'a str>) -> Result<Self, Reason> {
        let payload_type = payload_type("rtpmap", words.next())?;
        let codec = words.next().ok_or(problem("rtpmap", "no encoding"))?;
        let mut parts = codec.split('/');
        let encoding = parts.next().unwrap_or_default().to_owned();
        let clock_rate = parts
            .next()
            .and_then(|rate| rate.parse().ok())
            .filter(|&rate| rate > 0)
            .ok_or(problem("rtpmap", "expected NAME/CLOCK with a clock in Hz"))?;
        let channels = match parts.next() {
            Some(count) => Some(
                count
                    .parse()
                    .map_err(|_| problem("rtpmap", "the channels are not 0..=255"))?,
            ),
            None => None,
        };
        if encoding.is_empty() {
            return Err(problem("rtpmap", "no encoding"));
        }
        Ok(Self {
            payload_type,
            encoding,
            clock_rate,
            channels,
        })
    }
}

impl fmt::Display for RtpMap {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (name, rate) = (&self.encoding, self.clock_rate);
        write!(f, "{} {name}/{rate}", self.payload_type)?;
        self.channels.iter().try_for_each(|it| write!(f, "/{it}"))
    }
}

impl FormatParameters {
    /// Parses an `a=fmtp` value; `None` if the format is not a payload type, as in the old
    /// syntax of data channels.
    pub(super) fn parse(value: &str) -> Result<Option<Self>, Reason> {
        let value = value.trim();
        let (format, parameters) = value.split_once(char::is_whitespace).unwrap_or((value, ""));
        if !format.bytes().all(|byte| byte.is_ascii_digit()) {
            return Ok(None);
        }
        Ok(Some(Self {
            payload_type: payload_type("fmtp", Some(format))?,
            parameters: parameters.trim().to_owned(),
        }))
    }

    /// Iterates over the `name=value` pairs; the value is empty if there is no `=`.
    pub fn iter(&self) -> impl Iterator<Item = (&str, &str)> {
        self.parameters
            .split(';')
            .map(|pair| pair.split_once('=').unwrap_or((pair, "")))
            .map(|(name, value)| (name.trim(), value.trim()))
            .filter(|(name, _)| !name.is_empty())
    }

    /// Returns the value of a parameter, whose name is compared ignoring case.
    pub fn get(&self, name: &str) -> Option<&str> {
        self.iter()
            .find(|(key, _)| key.eq_ignore_ascii_case(name))
            .map(|(_, value)| value)
    }
}

impl RtcpFeedback {
    pub(super) fn parse<'a>(mut words: impl Iterator<Item = &'a str>) -> Result<Self, Reason> {
        let payload_type = match words.next() {
            Some("*") => None,
            word => Some(payload_type("rtcp-fb", word)?),
        };
        let kind = words.collect::<Vec<_>>().join(" ");
        if kind.is_empty() {
            return Err(problem("rtcp-fb", "no kind of feedback"));
        }
        Ok(Self { payload_type, kind })
    }
}

impl fmt::Display for RtcpFeedback {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.payload_type {
            Some(payload_type) => write!(f, "{payload_type} {}", self.kind),
            None => write!(f, "* {}", self.kind),
        }
    }
}

impl ExtensionMap {
    pub(super) fn parse<'a>(mut words: impl Iterator<Item = &'a str>) -> Result<Self, Reason> {
        let entry = words.next().ok_or(problem("extmap", "no number"))?;
        let (id, direction) = match entry.split_once('/') {
            Some((id, word)) => {
                let direction = Direction::from_name(word)
                    .ok_or(problem("extmap", "the direction is not known"))?;
                (id, Some(direction))
            }
            None => (entry, None),
        };
        Ok(Self {
            id: id
                .parse()
                .ok()
                .filter(|&id| id > 0)
                .ok_or(problem("extmap", "the number is not 1..=65535"))?,
            direction,
            uri: next_word(&mut words, "extmap", "no URI")?,
            parameters: words.collect::<Vec<_>>().join(" "),
        })
    }
}

impl fmt::Display for ExtensionMap {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.id)?;
        if let Some(direction) = self.direction {
            write!(f, "/{}", direction.as_str())?;
        }
        write!(f, " {}", self.uri)?;
        if !self.parameters.is_empty() {
            write!(f, " {}", self.parameters)?;
        }
        Ok(())
    }
}

impl SsrcAttribute {
    pub(super) fn parse(value: &str) -> Result<Self, Reason> {
        let value = value.trim();
        let (ssrc, rest) = value
            .split_once(char::is_whitespace)
            .ok_or(problem("ssrc", "expected a number and an attribute"))?;
        let rest = rest.trim_start();
        let (name, value) = match rest.split_once(':') {
            Some((name, value)) => (name, Some(value.to_owned())),
            None => (rest, None),
        };
        if name.is_empty() || name.contains(char::is_whitespace) {
            return Err(problem("ssrc", "expected a number and an attribute"));
        }
        Ok(Self {
            ssrc: ssrc_number("ssrc", ssrc)?,
            name: name.to_owned(),
            value,
        })
    }
}

impl SsrcGroup {
    pub(super) fn parse<'a>(mut words: impl Iterator<Item = &'a str>) -> Result<Self, Reason> {
        Ok(Self {
            semantics: next_word(&mut words, "ssrc-group", "no semantics")?,
            ssrcs: words
                .map(|word| ssrc_number("ssrc-group", word))
                .collect::<Result<_, _>>()?,
        })
    }
}

impl Msid {
    pub(super) fn parse<'a>(mut words: impl Iterator<Item = &'a str>) -> Result<Self, Reason> {
        Ok(Self {
            stream: next_word(&mut words, "msid", "no stream")?,
            track: words.next().map(str::to_owned),
        })
    }
}

pub(super) const fn problem(name: &'static str, problem: &'static str) -> Reason {
    Reason::Attribute { name, problem }
}

fn next_word<'a>(
    words: &mut impl Iterator<Item = &'a str>,
    name: &'static str,
    missing: &'static str,
) -> Result<String, Reason> {
    words
        .next()
        .map(str::to_owned)
        .ok_or(problem(name, missing))
}

fn payload_type(name: &'static str, word: Option<&str>) -> Result<u8, Reason> {
    word.and_then(|word| word.parse().ok())
        .filter(|&number| number < 128)
        .ok_or(problem(name, "the payload type is not 0..=127"))
}

fn ssrc_number(name: &'static str, word: &str) -> Result<Ssrc, Reason> {
    word.parse()
        .map(Ssrc)
        .map_err(|_| problem(name, "the source is not a 32-bit number"))
}
