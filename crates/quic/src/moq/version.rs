/// Returns the supported versions of moq-lite, the preferred one first. Before version 05 the
/// wire carried neither the path of a request nor the time of a frame.
pub(super) fn versions() -> moq_net::Versions {
    let names = ["moq-lite-06", "moq-lite-05"];
    let known: Vec<moq_net::Version> = names.iter().filter_map(|name| name.parse().ok()).collect();
    moq_net::Versions::from(known)
}

/// Returns the versions as protocol names of TLS (ALPN) and WebTransport.
pub(super) fn alpns() -> Vec<&'static str> {
    versions().iter().map(moq_net::Version::alpn).collect()
}
