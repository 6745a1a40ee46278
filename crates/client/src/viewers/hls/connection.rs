//! HTTP/1.1 for viewers: connections that are kept, one request at a time on each (RFC 9112).

use std::io;
use std::sync::Arc;

use parking_lot::Mutex;
use rustls::pki_types::ServerName;
use tokio::io::{AsyncRead, AsyncReadExt as _, AsyncWrite, AsyncWriteExt as _};
use tokio::net::TcpStream;
use url::Url;

use glassline_trust::{Trust, UntrustedCertificate};

/// Longest head of an answer, in bytes.
const HEAD_BYTES_MAX: usize = 64 << 10;

/// Longest body of an answer, in bytes.
const BODY_BYTES_MAX: usize = 32 << 20;

/// Most redirections of one request.
const REDIRECTS_MAX: usize = 5;

trait Stream: AsyncRead + AsyncWrite + Unpin + Send {}
impl<T: AsyncRead + AsyncWrite + Unpin + Send> Stream for T {}

/// A connection, and the server that it leads to.
struct Connection {
    origin: String,
    stream: Box<dyn Stream>,
    /// Bytes that were read beyond the last answer.
    rest: Vec<u8>,
}

/// The connections of one viewer.
pub(super) struct Connections {
    trust: Trust,
    token: Option<String>,
    idle: Mutex<Vec<Connection>>,
}

/// An answer of any status.
#[derive(Debug)]
pub(super) struct Answer {
    pub(super) status: u16,
    /// Address that answered.
    pub(super) url: Url,
    pub(super) body: Vec<u8>,
    /// Bytes of heads and body as they came.
    pub(super) bytes: u64,
    /// Requests that the answer took, redirections included.
    pub(super) requests: u64,
}

impl Connections {
    pub(super) fn new(trust: Trust, token: Option<String>) -> Self {
        Self {
            trust,
            token,
            idle: Mutex::default(),
        }
    }

    /// Loads a resource, through redirections. The error is a sentence with the address.
    pub(super) async fn get(&self, url: &Url, range: Option<(u64, u64)>) -> Result<Answer, String> {
        let (mut url, mut bytes) = (url.clone(), 0);
        let origin = url.origin();
        for requests in 1..=REDIRECTS_MAX as u64 + 1 {
            let token = self.token.as_deref().filter(|_| url.origin() == origin);
            let answered = self.ask(&url, range, token).await;
            let (head, body) =
                answered.map_err(|error| format!("{}: {error}", glassline_url::shown(&url)))?;
            bytes += head.bytes + body.len() as u64;
            if let (300..=399, Some(location)) = (head.status, &head.location) {
                url = url
                    .join(location)
                    .map_err(|error| format!("redirection to '{location}': {error}"))?;
                continue;
            }
            return Ok(Answer {
                status: head.status,
                url,
                body,
                bytes,
                requests,
            });
        }
        Err(format!(
            "{}: more than {REDIRECTS_MAX} redirections",
            glassline_url::shown(&url)
        ))
    }

    /// Makes one request, on a kept connection first: the server may have closed that one meanwhile.
    async fn ask(
        &self,
        url: &Url,
        range: Option<(u64, u64)>,
        token: Option<&str>,
    ) -> io::Result<(Head, Vec<u8>)> {
        let origin = url.origin().ascii_serialization();
        let request = request(url, range, token);
        let kept = {
            let mut idle = self.idle.lock();
            let found = idle.iter().position(|it| it.origin == origin);
            found.map(|at| idle.swap_remove(at))
        };
        if let Some(connection) = kept
            && let Ok(answer) = self.exchange(connection, &request).await
        {
            return Ok(answer);
        }
        let connection = self.open(url, origin).await?;
        self.exchange(connection, &request).await
    }

    async fn exchange(
        &self,
        mut connection: Connection,
        request: &[u8],
    ) -> io::Result<(Head, Vec<u8>)> {
        connection.stream.write_all(request).await?;
        connection.stream.flush().await?;
        let head = loop {
            let head = connection.head().await?;
            // An interim answer is followed by another one.
            if head.status >= 200 {
                break head;
            }
        };
        let body = connection.body(&head).await?;
        if head.is_kept {
            self.idle.lock().push(connection);
        }
        Ok((head, body))
    }

    async fn open(&self, url: &Url, origin: String) -> io::Result<Connection> {
        let host = url.host_str().unwrap_or_default();
        let bare = host.trim_start_matches('[').trim_end_matches(']');
        let port = url.port_or_known_default().unwrap_or(80);
        let tcp = TcpStream::connect((bare, port)).await?;
        tcp.set_nodelay(true)?;
        let stream: Box<dyn Stream> = match url.scheme() {
            "https" => {
                let config = self.trust.over_tcp().map_err(io::Error::other)?;
                let name = ServerName::try_from(bare.to_owned()).map_err(io::Error::other)?;
                let tls = tokio_rustls::TlsConnector::from(Arc::clone(&config));
                let tls = tls
                    .connect(name, tcp)
                    .await
                    .map_err(UntrustedCertificate::told)?;
                Box::new(tls)
            }
            _ => Box::new(tcp),
        };
        Ok(Connection {
            origin,
            stream,
            rest: Vec::new(),
        })
    }
}

fn request(url: &Url, range: Option<(u64, u64)>, token: Option<&str>) -> Vec<u8> {
    let mut text = format!("GET {}", url.path());
    if let Some(query) = url.query() {
        text += &format!("?{query}");
    }
    let host = url.host_str().unwrap_or_default();
    let port = url.port().map_or_else(String::new, |it| format!(":{it}"));
    let agent = crate::agent::user_agent();
    text += &format!(" HTTP/1.1\r\nHost: {host}{port}\r\nUser-Agent: {agent}\r\nAccept: */*\r\n");
    if let Some((first, length)) = range {
        let last = first.saturating_add(length).saturating_sub(1);
        text += &format!("Range: bytes={first}-{last}\r\n");
    }
    if let Some(token) = token {
        text += &format!("Authorization: Bearer {token}\r\n");
    }
    (text + "\r\n").into_bytes()
}

/// The head of an answer, as far as a viewer needs it.
#[derive(Debug, Default, PartialEq, Eq)]
struct Head {
    status: u16,
    location: Option<String>,
    length: Option<usize>,
    is_chunked: bool,
    /// Whether the connection takes another request.
    is_kept: bool,
    bytes: u64,
}

impl Head {
    fn parse(text: &str) -> Option<Self> {
        let mut lines = text.split("\r\n");
        let first = lines.next()?;
        let mut head = Self {
            status: first.split(' ').nth(1)?.parse().ok()?,
            is_kept: first.starts_with("HTTP/1.1"),
            bytes: text.len() as u64,
            ..Self::default()
        };
        for (name, value) in lines.filter_map(|line| line.split_once(':')) {
            let value = value.trim();
            match name.to_ascii_lowercase().as_str() {
                "content-length" => head.length = Some(value.parse().ok()?),
                "transfer-encoding" => head.is_chunked = value.eq_ignore_ascii_case("chunked"),
                "location" => head.location = Some(value.to_owned()),
                "connection" => head.is_kept = !value.eq_ignore_ascii_case("close"),
                _ => {}
            }
        }
        if matches!(head.status, 100..=199 | 204 | 304) {
            (head.length, head.is_chunked) = (Some(0), false);
        }
        // Without a length, the body ends with the connection.
        head.is_kept &= head.is_chunked || head.length.is_some();
        Some(head)
    }
}

impl Connection {
    async fn head(&mut self) -> io::Result<Head> {
        loop {
            if let Some(end) = find(&self.rest, b"\r\n\r\n") {
                let head: Vec<u8> = self.rest.drain(..end + 4).collect();
                let text = String::from_utf8_lossy(&head);
                return Head::parse(&text).ok_or_else(|| wrong("the answer is no HTTP"));
            }
            if self.rest.len() > HEAD_BYTES_MAX {
                return Err(wrong("the head of the answer is too long"));
            }
            self.fill().await?;
        }
    }

    async fn body(&mut self, head: &Head) -> io::Result<Vec<u8>> {
        if head.is_chunked {
            return self.chunks().await;
        }
        match head.length {
            Some(length) if length > BODY_BYTES_MAX => Err(wrong("the answer is too long")),
            Some(length) => self.exactly(length).await,
            None => {
                while self.rest.len() <= BODY_BYTES_MAX {
                    match self.fill().await {
                        Ok(()) => {}
                        Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => {
                            return Ok(std::mem::take(&mut self.rest));
                        }
                        Err(error) => return Err(error),
                    }
                }
                Err(wrong("the answer is too long"))
            }
        }
    }

    async fn chunks(&mut self) -> io::Result<Vec<u8>> {
        let mut body = Vec::new();
        loop {
            let line = self.line().await?;
            let digits = line.split(';').next().unwrap_or_default().trim();
            let size =
                usize::from_str_radix(digits, 16).map_err(|_| wrong("a chunk has no size"))?;
            if size == 0 {
                // Trailers end with an empty line.
                while !self.line().await?.is_empty() {}
                return Ok(body);
            }
            if size > BODY_BYTES_MAX || body.len() + size > BODY_BYTES_MAX {
                return Err(wrong("the answer is too long"));
            }
            body.extend(self.exactly(size).await?);
            self.line().await?;
        }
    }

    async fn line(&mut self) -> io::Result<String> {
        loop {
            if let Some(end) = find(&self.rest, b"\r\n") {
                let line: Vec<u8> = self.rest.drain(..end + 2).collect();
                return Ok(String::from_utf8_lossy(&line[..end]).into_owned());
            }
            if self.rest.len() > HEAD_BYTES_MAX {
                return Err(wrong("a line of the answer is too long"));
            }
            self.fill().await?;
        }
    }

    async fn exactly(&mut self, length: usize) -> io::Result<Vec<u8>> {
        while self.rest.len() < length {
            self.fill().await?;
        }
        let behind = self.rest.split_off(length);
        Ok(std::mem::replace(&mut self.rest, behind))
    }

    async fn fill(&mut self) -> io::Result<()> {
        self.rest.reserve(16 << 10);
        match self.stream.read_buf(&mut self.rest).await? {
            0 => Err(io::ErrorKind::UnexpectedEof.into()),
            _ => Ok(()),
        }
    }
}

fn find(bytes: &[u8], wanted: &[u8]) -> Option<usize> {
    bytes.windows(wanted.len()).position(|it| it == wanted)
}

fn wrong(what: &'static str) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, what)
}

#[cfg(test)]
mod tests {
    use super::*;

    async fn answered(bytes: &'static [u8]) -> io::Result<(Head, Vec<u8>)> {
        let mut connection = Connection {
            origin: String::new(),
            stream: Box::new(tokio::io::join(bytes, tokio::io::sink())),
            rest: Vec::new(),
        };
        let head = connection.head().await?;
        let body = connection.body(&head).await?;
        Ok((head, body))
    }

    #[tokio::test]
    async fn bodies_end_by_length_chunks_or_connection() {
        let whole = b"HTTP/1.1 200 OK\r\nContent-Length: 3\r\n\r\nabcrest";
        let (head, body) = answered(whole).await.expect("an answer");
        assert_eq!(
            (head.status, head.is_kept, body.as_slice()),
            (200, true, &b"abc"[..])
        );
        let chunked = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2;x=y\r\nab\r\n1\r\nc\r\n0\r\n\r\n";
        let (head, body) = answered(chunked).await.expect("an answer");
        assert_eq!((head.is_kept, body.as_slice()), (true, &b"abc"[..]));
        let open = b"HTTP/1.0 200 OK\r\n\r\nabc";
        let (head, body) = answered(open).await.expect("an answer");
        assert_eq!((head.is_kept, body.as_slice()), (false, &b"abc"[..]));
    }

    #[tokio::test]
    async fn broken_answers_are_errors() {
        let broken: [&[u8]; 5] = [
            b"",
            b"nonsense\r\n\r\n",
            b"HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\nabc",
            b"HTTP/1.1 200 OK\r\nContent-Length: 99999999999\r\n\r\n",
            b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n",
        ];
        for bytes in broken {
            assert!(
                answered(bytes).await.is_err(),
                "{}",
                String::from_utf8_lossy(bytes)
            );
        }
    }

    #[test]
    fn a_request_keeps_path_query_and_port() {
        let url = Url::parse("http://h:81/a/b.m3u8?x=1&_HLS_msn=2").expect("a URL");
        let text = String::from_utf8(request(&url, Some((10, 5)), Some("t"))).expect("text");
        assert!(
            text.starts_with("GET /a/b.m3u8?x=1&_HLS_msn=2 HTTP/1.1\r\nHost: h:81\r\n"),
            "{text}"
        );
        assert!(
            text.contains("Range: bytes=10-14\r\n") && text.contains("Bearer t\r\n"),
            "{text}"
        );
    }
}
