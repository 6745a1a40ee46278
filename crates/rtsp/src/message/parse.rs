use thiserror::Error;

use super::{Headers, Message, Method, Request, Response, Status, Version};

/// Bounds for the size of one message of a peer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Most bytes of start line and headers, line ends included.
    pub head_bytes_max: usize,
    /// Most bytes of one line of the head.
    pub line_bytes_max: usize,
    /// Most header fields of one message.
    pub headers_max: usize,
    /// Most bytes of the body.
    pub body_bytes_max: usize,
}

impl Default for Limits {
    /// 16 KiB of head, 8 KiB per line (the longest seen is `RTP-Info` of many tracks), 64
    /// headers, and 64 KiB of body (a session description of many tracks has 4 KiB).
    fn default() -> Self {
        Self {
            head_bytes_max: 16 << 10,
            line_bytes_max: 8 << 10,
            headers_max: 64,
            body_bytes_max: 64 << 10,
        }
    }
}

/// The reason why a message cannot be read. The peer is at fault: a server answers
/// [`ParseError::status`] and closes the connection, because it cannot know where the next message
/// begins.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum ParseError {
    /// The head does not end within the bound.
    #[error("the head of a message does not end within {max} bytes")]
    HeadTooLong {
        /// Most bytes that a head may have.
        max: usize,
    },
    /// A line of the head is too long.
    #[error("line {line} of a message has {bytes} bytes, more than {max}")]
    LineTooLong {
        /// Number of the line; the start line is 1.
        line: usize,
        /// Bytes of the line, without its end.
        bytes: usize,
        /// Most bytes that a line may have.
        max: usize,
    },
    /// The message has too many header fields.
    #[error("a message has more than {max} headers")]
    TooManyHeaders {
        /// Most fields that a message may have.
        max: usize,
    },
    /// The message announces a body that is too long.
    #[error("a message announces a body of {bytes} bytes, more than {max}")]
    BodyTooLong {
        /// The value of `Content-Length`.
        bytes: u64,
        /// Most bytes that a body may have.
        max: usize,
    },
    /// `Content-Length` is not a number, or two fields contradict each other.
    #[error("`Content-Length: {0}` is not a valid length")]
    ContentLength(String),
    /// The first line is neither a request line nor a status line.
    #[error("a message cannot begin with `{0}`")]
    StartLine(String),
    /// A line of a request's head has no colon.
    #[error("line {line} of a request is not a header field: `{text}`")]
    Header {
        /// Number of the line; the start line is 1.
        line: usize,
        /// The beginning of the line.
        text: String,
    },
}

impl ParseError {
    /// Returns the status that a server answers with.
    pub const fn status(&self) -> Status {
        match self {
            Self::BodyTooLong { .. } => Status::REQUEST_ENTITY_TOO_LARGE,
            Self::LineTooLong { line: 1, .. } => Status::REQUEST_URI_TOO_LONG,
            _ => Status::BAD_REQUEST,
        }
    }
}

/// The result of [`parse`], when the bytes are not malformed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Parsed {
    /// A whole message, and the number of bytes that it takes.
    Message(Message, usize),
    /// The bytes hold only part of a message.
    Incomplete {
        /// Least number of bytes that the message needs, counted from its first.
        needed: usize,
    },
}

/// Parses the message at the front of `bytes`, which begin with its start line.
///
/// Lines may end in LF alone, and may be folded (RFC 2068 §2.2). Bytes that are not UTF-8
/// become replacement characters. Lines of a response without a colon are skipped, as some
/// cameras send them; in a request they are an error.
pub fn parse(bytes: &[u8], limits: &Limits) -> Result<Parsed, ParseError> {
    let searched = &bytes[..bytes.len().min(limits.head_bytes_max)];
    let Some(head_end) = find_head_end(searched, 0) else {
        if bytes.len() >= limits.head_bytes_max {
            return Err(ParseError::HeadTooLong {
                max: limits.head_bytes_max,
            });
        }
        return Ok(Parsed::Incomplete {
            needed: bytes.len() + 1,
        });
    };
    let (start, headers) = parse_head(&bytes[..head_end], limits)?;
    let length = if start.version().http {
        0
    } else {
        start.body_length(&headers, limits)?
    };
    let end = head_end + length;
    let Some(body) = bytes.get(head_end..end) else {
        return Ok(Parsed::Incomplete { needed: end });
    };
    Ok(Parsed::Message(start.with(headers, body.to_vec()), end))
}

/// Returns where the body begins: behind the first empty line that ends at or behind `from`.
///
/// The caller knows that no empty line ends before `from`.
pub(crate) fn find_head_end(bytes: &[u8], from: usize) -> Option<usize> {
    // The empty line may have begun before `from`.
    let mut at = from.saturating_sub(2);
    loop {
        at += bytes.get(at..)?.iter().position(|&byte| byte == b'\n')? + 1;
        match bytes.get(at..)? {
            [b'\n', ..] => return Some(at + 1),
            [b'\r', b'\n', ..] => return Some(at + 2),
            _ => {}
        }
    }
}

/// Whether the bytes, which may be incomplete, begin a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Beginning {
    No,
    /// The first line has not ended yet, and may be that of a message.
    Maybe,
    Yes,
}

/// Checks whether the first line is printable and names the protocol. An earlier call has
/// checked the first `from` bytes.
pub(crate) fn begins_message(bytes: &[u8], from: usize) -> Beginning {
    if !bytes.first().is_some_and(u8::is_ascii_alphabetic) {
        return Beginning::No;
    }
    let from = from.min(bytes.len());
    let line_end = bytes[from..].iter().position(|&byte| byte == b'\n');
    let line = &bytes[..line_end.map_or(bytes.len(), |at| from + at)];
    let line = line.strip_suffix(b"\r").unwrap_or(line);
    let new = &line[from.min(line.len())..];
    if !new.iter().all(|&byte| byte >= b' ' && byte != 0x7f) {
        return Beginning::No;
    }
    let named = |window: &[u8]| {
        window.eq_ignore_ascii_case(b"RTSP/") || window.eq_ignore_ascii_case(b"HTTP/")
    };
    match line_end {
        None => Beginning::Maybe,
        Some(_) if line.windows(5).any(named) => Beginning::Yes,
        Some(_) => Beginning::No,
    }
}

enum StartLine {
    Request(Method, String, Version),
    Response(Version, Status, String),
}

impl StartLine {
    fn parse(line: &str) -> Option<Self> {
        let line = line.trim();
        let (first, rest) = line.split_once(' ').unwrap_or((line, ""));
        if let Some(version) = Version::parse(first) {
            let rest = rest.trim_start();
            let (code, reason) = rest.split_once(' ').unwrap_or((rest, ""));
            let code = Some(code).filter(|code| code.len() == 3)?;
            let code = code
                .parse()
                .ok()
                .filter(|code| (100..=999).contains(code))?;
            return Some(Self::Response(
                version,
                Status(code),
                reason.trim().to_owned(),
            ));
        }
        let (uri, version) = rest.rsplit_once(' ')?;
        let uri = uri.trim();
        if uri.is_empty() {
            return None;
        }
        let method = Method::parse(first)?;
        Some(Self::Request(
            method,
            uri.to_owned(),
            Version::parse(version)?,
        ))
    }

    /// Returns the length of the body.
    ///
    /// The fields of a request must agree and be numbers: who reads another length finds another
    /// request behind the body. Cameras write what they like into their responses, and as in other
    /// players the number at the beginning of the last field counts.
    fn body_length(&self, headers: &Headers, limits: &Limits) -> Result<usize, ParseError> {
        let bytes = match self {
            Self::Request(..) => agreed_length(headers)?,
            Self::Response(..) => leading_length(headers),
        };
        let max = limits.body_bytes_max;
        let length = usize::try_from(bytes).ok().filter(|length| *length <= max);
        length.ok_or(ParseError::BodyTooLong { bytes, max })
    }

    const fn version(&self) -> Version {
        match self {
            Self::Request(_, _, version) | Self::Response(version, _, _) => *version,
        }
    }

    fn with(self, headers: Headers, body: Vec<u8>) -> Message {
        match self {
            Self::Request(method, uri, version) => Message::Request(Request {
                method,
                uri,
                version,
                headers,
                body,
            }),
            Self::Response(version, status, reason) => Message::Response(Response {
                version,
                status,
                reason,
                headers,
                body,
            }),
        }
    }
}

fn parse_head(head: &[u8], limits: &Limits) -> Result<(StartLine, Headers), ParseError> {
    let mut headers = Headers::new();
    let mut start = None;
    for (index, line) in head.split(|&byte| byte == b'\n').enumerate() {
        let line = line.strip_suffix(b"\r").unwrap_or(line);
        if line.len() > limits.line_bytes_max {
            return Err(ParseError::LineTooLong {
                line: index + 1,
                bytes: line.len(),
                max: limits.line_bytes_max,
            });
        }
        let text = String::from_utf8_lossy(line);
        let Some(start) = &start else {
            let parsed = StartLine::parse(&text);
            start = Some(parsed.ok_or_else(|| ParseError::StartLine(excerpt(&text)))?);
            continue;
        };
        if text.trim().is_empty() {
            continue;
        }
        if text.starts_with([' ', '\t']) && headers.fold(text.trim()) {
            continue;
        }
        if headers.len() == limits.headers_max {
            return Err(ParseError::TooManyHeaders {
                max: limits.headers_max,
            });
        }
        match text.split_once(':') {
            Some((name, value)) => headers.push(name, value),
            None if matches!(start, StartLine::Response(..)) => {}
            None => {
                return Err(ParseError::Header {
                    line: index + 1,
                    text: excerpt(&text),
                });
            }
        }
    }
    let start = start.ok_or_else(|| ParseError::StartLine(String::new()))?;
    Ok((start, headers))
}

/// Returns the length that all `Content-Length` fields agree on; 0 without any.
fn agreed_length(headers: &Headers) -> Result<u64, ParseError> {
    let mut agreed = None;
    for text in headers.get_all("Content-Length") {
        let digits = !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
        let bytes = digits.then(|| text.parse::<u64>().unwrap_or(u64::MAX));
        let bytes = bytes.filter(|bytes| agreed.is_none_or(|agreed| agreed == *bytes));
        agreed = Some(bytes.ok_or_else(|| ParseError::ContentLength(excerpt(text)))?);
    }
    Ok(agreed.unwrap_or(0))
}

/// Returns the number that the last `Content-Length` field begins with; 0 without any.
fn leading_length(headers: &Headers) -> u64 {
    let text = headers.get_all("Content-Length").last().unwrap_or_default();
    let end = text.find(|character: char| !character.is_ascii_digit());
    match &text[..end.unwrap_or(text.len())] {
        "" => 0,
        digits => digits.parse().unwrap_or(u64::MAX),
    }
}

/// Returns the first 60 characters of a line, without control characters, for error messages.
fn excerpt(text: &str) -> String {
    const CHARACTERS_MAX: usize = 60;
    let shown = text.chars().take(CHARACTERS_MAX);
    let shown = shown.map(|c| if c.is_control() { '\u{fffd}' } else { c });
    shown.collect()
}
