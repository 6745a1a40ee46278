//! Requests and responses (RFC 2326 §4–7), parsed from and written to bytes.
//!
//! The same parser reads HTTP messages, because a tunnel begins with one. Their body is a
//! stream and stays in the input.

use std::fmt;

mod headers;
mod method;
mod parse;
mod status;

pub use headers::Headers;
pub use method::Method;
pub(crate) use parse::{Beginning, begins_message, find_head_end};
pub use parse::{Limits, ParseError, Parsed, parse};
pub use status::Status;

/// A request or a response.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Message {
    /// A request of either end.
    Request(Request),
    /// A response of either end.
    Response(Response),
}

impl Message {
    /// Returns the headers of the request or response.
    pub fn headers(&self) -> &Headers {
        match self {
            Self::Request(request) => &request.headers,
            Self::Response(response) => &response.headers,
        }
    }

    /// Appends the message to `out`; see [`Request::write`].
    pub fn write(&self, out: &mut Vec<u8>) {
        match self {
            Self::Request(request) => request.write(out),
            Self::Response(response) => response.write(out),
        }
    }
}

/// A request (RFC 2326 §6).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Request {
    /// Method of the request.
    pub method: Method,
    /// The request URI: an absolute URL or `*`, as received. Spaces within it, which some
    /// clients send, are kept.
    pub uri: String,
    /// Protocol and version of the request line.
    pub version: Version,
    /// Header fields, in the order in which they came.
    pub headers: Headers,
    /// The body; empty if there is none, and for HTTP.
    pub body: Vec<u8>,
}

impl Request {
    /// Creates an RTSP/1.0 request with its sequence number and without a body.
    pub fn new(method: Method, uri: impl Into<String>, cseq: u32) -> Self {
        let mut headers = Headers::new();
        headers.push("CSeq", &cseq.to_string());
        Self {
            method,
            uri: uri.into(),
            version: Version::RTSP_1_0,
            headers,
            body: Vec::new(),
        }
    }

    /// Appends the request to `out`. `Content-Length` is the body's length whatever the headers
    /// say, and is added if there is a body.
    pub fn write(&self, out: &mut Vec<u8>) {
        let start = format!(
            "{} {} {}",
            self.method,
            single_line(&self.uri),
            self.version
        );
        write_message(out, &start, self.version, &self.headers, &self.body);
    }
}

/// A response (RFC 2326 §7).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Response {
    /// Protocol and version; some servers answer malformed requests with HTTP.
    pub version: Version,
    /// Status code of the response.
    pub status: Status,
    /// The server's reason phrase; may be empty.
    pub reason: String,
    /// Header fields, in the order in which they came.
    pub headers: Headers,
    /// The body; empty if there is none, and for HTTP.
    pub body: Vec<u8>,
}

impl Response {
    /// Creates an RTSP/1.0 response without headers and body.
    pub fn new(status: Status) -> Self {
        Self {
            version: Version::RTSP_1_0,
            status,
            reason: status.reason().to_owned(),
            headers: Headers::new(),
            body: Vec::new(),
        }
    }

    /// Creates the response to `request`: in RTSP/1.0, and with the request's `CSeq` if it has
    /// one.
    pub fn to(request: &Request, status: Status) -> Self {
        let mut response = Self::new(status);
        if let Some(cseq) = request.headers.get("CSeq") {
            response.headers.push("CSeq", cseq);
        }
        response
    }

    /// Appends the response to `out`, as [`Request::write`] does.
    pub fn write(&self, out: &mut Vec<u8>) {
        let start = format!(
            "{} {} {}",
            self.version,
            self.status,
            single_line(&self.reason)
        );
        write_message(
            out,
            start.trim_end(),
            self.version,
            &self.headers,
            &self.body,
        );
    }
}

/// Protocol and version of a start line.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Version {
    /// Whether the protocol is HTTP and not RTSP: the peer opens a tunnel, or uses the wrong
    /// port.
    pub http: bool,
    /// Major version, before the dot.
    pub major: u8,
    /// Minor version, after the dot.
    pub minor: u8,
}

impl Version {
    /// The version RTSP/1.0 (RFC 2326), which all players and cameras speak.
    pub const RTSP_1_0: Self = Self {
        http: false,
        major: 1,
        minor: 0,
    };

    /// Parses `RTSP/1.0` or `HTTP/1.1`, in any case; `None` for other text.
    fn parse(text: &str) -> Option<Self> {
        let (protocol, numbers) = text.split_once('/')?;
        let (major, minor) = numbers.split_once('.')?;
        let digit = |text: &str| (text.len() == 1).then(|| text.parse().ok()).flatten();
        Some(Self {
            http: match protocol {
                _ if protocol.eq_ignore_ascii_case("RTSP") => false,
                _ if protocol.eq_ignore_ascii_case("HTTP") => true,
                _ => return None,
            },
            major: digit(major)?,
            minor: digit(minor)?,
        })
    }
}

impl fmt::Display for Version {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let protocol = if self.http { "HTTP" } else { "RTSP" };
        write!(f, "{protocol}/{}.{}", self.major, self.minor)
    }
}

fn write_message(
    out: &mut Vec<u8>,
    start_line: &str,
    version: Version,
    headers: &Headers,
    body: &[u8],
) {
    let length = body.len().to_string();
    let mut stated = version.http;
    out.extend_from_slice(start_line.as_bytes());
    out.extend_from_slice(b"\r\n");
    for (name, value) in headers.iter() {
        let is_length = !version.http && name.eq_ignore_ascii_case("Content-Length");
        if is_length && stated {
            continue;
        }
        stated |= is_length;
        write_header(out, name, if is_length { &length } else { value });
    }
    if !stated && !body.is_empty() {
        write_header(out, "Content-Length", &length);
    }
    out.extend_from_slice(b"\r\n");
    out.extend_from_slice(body);
}

fn write_header(out: &mut Vec<u8>, name: &str, value: &str) {
    for part in [name, ": ", value, "\r\n"] {
        out.extend_from_slice(part.as_bytes());
    }
}

/// Replaces control characters by spaces, so that a value from elsewhere adds no header line.
fn single_line(text: &str) -> String {
    let printable = text
        .chars()
        .map(|character| match character {
            control if control.is_control() => ' ',
            other => other,
        })
        .collect::<String>();
    printable.trim().to_owned()
}

#[cfg(test)]
pub(crate) mod tests;
