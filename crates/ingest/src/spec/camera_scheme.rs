use url::Url;

/// The scheme of a camera's URL: the protocol that the camera speaks, and its encryption.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum CameraScheme {
    Rtsp,
    /// RTSP within TLS.
    Rtsps,
    Http,
    /// HTTP within TLS.
    Https,
}

impl CameraScheme {
    const ALL: [(&str, Self); 4] = [
        ("rtsp", Self::Rtsp),
        ("rtsps", Self::Rtsps),
        ("http", Self::Http),
        ("https", Self::Https),
    ];

    /// Returns the scheme of this name, in letters of either case.
    pub(crate) fn named(name: &str) -> Option<Self> {
        let mut all = Self::ALL.into_iter();
        let found = all.find(|(known, _)| known.eq_ignore_ascii_case(name));
        found.map(|(_, scheme)| scheme)
    }

    /// Returns the scheme of a URL; `None` if no camera is reached by such a URL.
    pub(crate) fn of(url: &Url) -> Option<Self> {
        Self::named(url.scheme())
    }

    /// Returns the name of the protocol.
    pub(crate) const fn protocol(self) -> &'static str {
        match self {
            Self::Rtsp | Self::Rtsps => "RTSP",
            Self::Http | Self::Https => "HTTP",
        }
    }

    /// Returns true for RTSP, and false for HTTP.
    pub(crate) const fn is_rtsp(self) -> bool {
        matches!(self, Self::Rtsp | Self::Rtsps)
    }

    /// Returns whether the connection is one of TLS.
    pub(crate) const fn is_secure(self) -> bool {
        matches!(self, Self::Rtsps | Self::Https)
    }

    /// Returns the usual TCP port (RFC 2326 §3.2, RFC 7826 §4.2, RFC 9110 §4.2).
    pub(crate) const fn port(self) -> u16 {
        match self {
            Self::Rtsp => 554,
            Self::Rtsps => 322,
            Self::Http => 80,
            Self::Https => 443,
        }
    }
}
