//! What a client that does not connect reports.

use std::net::{IpAddr, SocketAddr};

use serde::Deserialize;

/// Most pairs of candidates that are read of a report.
const PAIRS_MAX: usize = 64;

/// The view of a client of a connection that failed: numbers and addresses, no text.
#[derive(Clone, Debug, Default, Deserialize)]
pub(crate) struct ClientView {
    /// Number of addresses of its own that the client has found; `None` if it did not tell.
    #[serde(default)]
    pub(super) gathered: Option<u32>,
    /// Host of the page's address, if the client is a page.
    #[serde(default)]
    host: Option<String>,
    /// The pairs of candidates that the client has tried.
    #[serde(default)]
    pairs: Vec<TriedPair>,
}

/// A pair of candidates, by the address of the server.
#[derive(Clone, Debug, Deserialize)]
struct TriedPair {
    /// Address and port of the server; browsers leave it out at times.
    #[serde(default)]
    address: Option<String>,
    #[serde(default)]
    port: u16,
    /// Checks that the client has sent.
    #[serde(default)]
    sent: u32,
    /// Responses that it got.
    #[serde(default)]
    answered: u32,
}

impl ClientView {
    /// Returns the IP address at which the client opened its page, if the address names one.
    pub(super) fn page_ip(&self) -> Option<IpAddr> {
        let host = self.host.as_deref()?;
        let ip: IpAddr = host.trim_matches(['[', ']']).parse().ok()?;
        Some(ip.to_canonical())
    }

    /// Returns how many checks the client sent to `candidate` of the server, and how many responses
    /// it got.
    pub(super) fn checks(&self, candidate: SocketAddr) -> (u32, u32) {
        let mut total = (0_u32, 0_u32);
        for pair in self.pairs.iter().take(PAIRS_MAX) {
            let address = pair.address.as_deref().and_then(|it| it.parse().ok());
            let is_other = |ip: IpAddr| SocketAddr::new(ip.to_canonical(), pair.port) != candidate;
            if !address.is_some_and(is_other) {
                total.0 = total.0.saturating_add(pair.sent);
                total.1 = total.1.saturating_add(pair.answered);
            }
        }
        total
    }

    /// Returns whether the client had no address to send from.
    pub(super) fn has_no_network(&self) -> bool {
        self.gathered == Some(0) && self.pairs.iter().all(|pair| pair.sent == 0)
    }
}
