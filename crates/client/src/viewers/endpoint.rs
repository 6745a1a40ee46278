use std::fmt;

use url::Url;

use crate::whep;

/// Where viewers join, and by which protocol.
#[derive(Clone, PartialEq, Eq, derive_more::Display)]
// Shows the URL without its password.
#[display("{}", glassline_url::shown(self.url()))]
pub enum Endpoint {
    /// WebRTC by WHEP (draft-ietf-wish-whep).
    Whep {
        /// URL of the endpoint.
        url: Url,
        /// Transport of the session.
        transport: IceTransport,
    },
    /// WebRTC by the JSON of the reference load test: `POST …/doSignaling`.
    DoSignaling(Url),
    /// HLS by the URL of a playlist, with low latency where the server offers it.
    Hls(Url),
    /// RTSP (RFC 2326), inside TLS for an `rtsps` URL; credentials are in the URL.
    Rtsp {
        /// URL of the stream.
        url: Url,
        /// Transport of its RTP packets.
        transport: RtspTransport,
    },
}

/// Transport of a WebRTC session.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum IceTransport {
    /// UDP, to the candidate that ICE chooses.
    #[default]
    Udp,
    /// One TCP connection to the server's passive candidate (RFC 6544), as of a viewer whose
    /// firewall drops UDP.
    Tcp,
}

/// Transport of RTP packets from an RTSP server.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum RtspTransport {
    /// Interleaved with the RTSP messages on one TCP connection.
    #[default]
    Tcp,
    /// UDP, to ports of ours.
    Udp,
    /// As [`Tcp`](Self::Tcp), through a pair of HTTP connections to the same port.
    Http,
}

impl Endpoint {
    /// Returns the same endpoint for a viewer whose only path is a TCP connection (RFC 6544); `None`
    /// for endpoints other than WHEP.
    pub fn over_tcp(&self) -> Option<Self> {
        match self {
            Self::Whep { url, .. } => Some(Self::Whep {
                url: url.clone(),
                transport: IceTransport::Tcp,
            }),
            Self::DoSignaling(_) | Self::Hls(_) | Self::Rtsp { .. } => None,
        }
    }

    /// Parses a URL: `rtsp://…` and `rtsps://…` are RTSP over TCP, a path that ends in
    /// `/doSignaling` is the reference load test's signalling, one that ends in `.m3u8` is HLS,
    /// any other `http` or `https` URL is WHEP.
    ///
    /// # Errors
    /// [`whep::Error::Url`] for anything else.
    pub fn parse(text: &str) -> Result<Self, whep::Error> {
        let wrong = |reason: String| whep::Error::Url {
            url: glassline_url::hidden(text),
            reason,
        };
        let url = glassline_url::parse(text).map_err(|error| wrong(error.wrong.to_string()))?;
        match url.scheme() {
            "rtsp" | "rtsps" if url.host_str().is_none_or(str::is_empty) => {
                Err(wrong("it names no host".to_owned()))
            }
            "rtsp" | "rtsps" => Ok(Self::Rtsp {
                url,
                transport: RtspTransport::default(),
            }),
            _ => {
                let url = whep::parse_url(text)?;
                Ok(if whep::speaks_json(&url) {
                    Self::DoSignaling(url)
                } else if url.path().ends_with(".m3u8") {
                    Self::Hls(url)
                } else {
                    Self::Whep {
                        url,
                        transport: IceTransport::default(),
                    }
                })
            }
        }
    }

    /// Whether the server is asked inside TLS.
    pub fn is_secure(&self) -> bool {
        matches!(self.url().scheme(), "https" | "rtsps")
    }

    /// URL of the endpoint.
    pub const fn url(&self) -> &Url {
        match self {
            Self::Whep { url, .. }
            | Self::DoSignaling(url)
            | Self::Hls(url)
            | Self::Rtsp { url, .. } => url,
        }
    }
}

impl fmt::Debug for Endpoint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let how = match self {
            Self::Whep {
                transport: IceTransport::Udp,
                ..
            } => "WHEP",
            Self::Whep { .. } => "WHEP/TCP",
            Self::DoSignaling(_) => "doSignaling",
            Self::Hls(_) => "HLS",
            Self::Rtsp {
                transport: RtspTransport::Tcp,
                ..
            } => "RTSP/TCP",
            Self::Rtsp {
                transport: RtspTransport::Http,
                ..
            } => "RTSP/HTTP",
            Self::Rtsp { .. } => "RTSP/UDP",
        };
        write!(f, "{how} {self}")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn urls_tell_how_to_ask() {
        let parse = |text| Endpoint::parse(text).map(|it| format!("{it:?}"));
        let whep = "http://127.0.0.1:8889/demo/whep";
        assert_eq!(parse(whep).expect("good"), format!("WHEP {whep}"));
        assert_eq!(
            parse("http://[::1]:8080/doSignaling").expect("good"),
            "doSignaling http://[::1]:8080/doSignaling"
        );
        assert_eq!(
            parse("https://h/live/index.m3u8?token=x").expect("good"),
            "HLS https://h/live/index.m3u8?token=…"
        );
        assert_eq!(
            parse("rtsp://me:secret@cam/1").expect("good"),
            "RTSP/TCP rtsp://me:…@cam/1"
        );
        let secure = Endpoint::parse("rtsps://cam/1").expect("good");
        assert_eq!(format!("{secure:?}"), "RTSP/TCP rtsps://cam/1");
        assert!(secure.is_secure());
        for bad in ["", "cam", "ftp://x/", "rtsp:///x", "rtsps:///x"] {
            let error = parse(bad).expect_err(bad);
            assert!(matches!(error, whep::Error::Url { .. }), "{bad}: {error}");
        }
    }
}
