/// The versions of moq-lite that are spoken, dearest first. Before 05 neither the path
/// of a request nor the time of a frame was on the wire, and tokens were nowhere.
pub(super) fn versions() -> moq_net::Versions {
    let names = ["moq-lite-06", "moq-lite-05"];
    let known: Vec<moq_net::Version> = names.iter().filter_map(|name| name.parse().ok()).collect();
    moq_net::Versions::from(known)
}

/// The same as words of TLS and of WebTransport.
pub(super) fn words() -> Vec<&'static str> {
    versions().iter().map(moq_net::Version::alpn).collect()
}
