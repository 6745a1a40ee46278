//! The IP addresses that clients are told to send media to.
//!
//! ```text
//! media.advertise ─ names, STUN servers, every minute ─► learned ─┐
//! the request's address, or another of its interface ────────────┴► candidates of an answer
//! ```

mod learn;
#[cfg(test)]
mod tests;

use std::net::{IpAddr, Ipv4Addr, UdpSocket};
use std::sync::Arc;
use std::time::Duration;

use glassline_config::AdvertisedAddress;
use glassline_net::InterfaceAddress;
use parking_lot::RwLock;
use tokio::sync::watch;
use tokio::task::JoinSet;

pub(crate) use learn::{LearnError, learn};

/// Interval at which names and STUN servers are asked again.
const INTERVAL: Duration = Duration::from_mins(1);
/// The interval while one of them has never answered.
const INTERVAL_UNKNOWN: Duration = Duration::from_secs(5);
/// Time for which the start of the server waits for the first answers.
const START: Duration = Duration::from_secs(3);
/// An address beyond every local network, of those for documentation (RFC 5737).
const SOMEWHERE: (Ipv4Addr, u16) = (Ipv4Addr::new(192, 0, 2, 1), 9);
/// Most addresses in an answer. A browser checks each of its own addresses against each of these.
const ADDRESSES_MAX: usize = 8;

/// The addresses that clients are told. Names and STUN servers of the configuration are asked again
/// and again; what they last answered holds until they answer something else.
#[derive(Debug)]
pub(crate) struct MediaAddresses {
    known: RwLock<Vec<Known>>,
}

/// An entry of the configuration, and what it stands for.
#[derive(Clone, Debug)]
pub(crate) struct Known {
    entry: AdvertisedAddress,
    learned: Learned,
}

/// Facts about an entry of the configuration.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct Learned {
    ips: Vec<IpAddr>,
    /// The reason why the last question had no answer; `None` if it had.
    failure: Option<String>,
}

impl MediaAddresses {
    /// Creates the addresses of the configuration; names are unknown until [`Self::start`].
    pub(crate) fn new(configured: Vec<AdvertisedAddress>) -> Self {
        let known = configured.into_iter().map(Known::of).collect();
        Self {
            known: RwLock::new(known),
        }
    }

    /// Asks for the names of `configured` that are new, and waits a few seconds for the answers.
    /// What is returned holds once it is given to [`replace`](Self::replace).
    pub(crate) async fn learn(&self, configured: &[AdvertisedAddress]) -> Vec<Known> {
        let before = self.known.read().clone();
        let known =
            |entry: &AdvertisedAddress| before.iter().find(|it| it.entry == *entry).cloned();
        let new = configured.iter().filter(|entry| known(entry).is_none());
        let new = Arc::new(Self::new(new.cloned().collect()));
        new.start().await;
        let learned = new.known.read().clone();
        let entries = configured.iter().map(|entry| {
            let found = learned.iter().find(|it| it.entry == *entry).cloned();
            known(entry)
                .or(found)
                .unwrap_or_else(|| Known::of(entry.clone()))
        });
        entries.collect()
    }

    /// Tells clients the addresses of `known` from now on.
    pub(crate) fn replace(&self, known: Vec<Known>) {
        *self.known.write() = known;
    }

    /// Returns whether the configuration names addresses.
    pub(crate) fn is_configured(&self) -> bool {
        !self.known.read().is_empty()
    }

    /// Asks for all names, and waits a few seconds for the answers.
    pub(crate) async fn start(self: &Arc<Self>) {
        // Those that take longer are asked again at once by `keep`.
        let _ = tokio::time::timeout(START, self.renew()).await;
    }

    /// Asks again and again, until `stopped` becomes true.
    pub(crate) async fn keep(self: Arc<Self>, mut stopped: watch::Receiver<bool>) {
        loop {
            let interval = match self.known.read().iter().any(|it| it.learned.ips.is_empty()) {
                true => INTERVAL_UNKNOWN,
                false => INTERVAL,
            };
            let turn = async {
                tokio::time::sleep(interval).await;
                self.renew().await;
            };
            tokio::select! {
                () = turn => {}
                _ = stopped.wait_for(|stop| *stop) => return,
            }
        }
    }

    /// Asks for all names at the same time.
    async fn renew(self: &Arc<Self>) {
        let mut asked = JoinSet::new();
        let entries: Vec<_> = self
            .known
            .read()
            .iter()
            .map(|it| it.entry.clone())
            .collect();
        for entry in entries {
            if matches!(entry, AdvertisedAddress::Ip(_)) {
                continue;
            }
            let addresses = Arc::clone(self);
            asked.spawn(async move { addresses.take(&entry, learn(&entry).await) });
        }
        asked.join_all().await;
    }

    /// Takes the answer for an entry, and logs what changed. Without an answer the last one holds.
    fn take(&self, entry: &AdvertisedAddress, answer: Result<Vec<IpAddr>, LearnError>) {
        let mut known = self.known.write();
        // Another configuration may be in force by now.
        let Some(known) = known.iter_mut().find(|it| it.entry == *entry) else {
            return;
        };
        let known = &mut known.learned;
        match answer {
            Ok(ips) => {
                if ips != known.ips {
                    tracing::info!("media.advertise: {entry} stands for {ips:?}");
                }
                *known = Learned { ips, failure: None };
            }
            Err(error) => {
                let failure = Some(error.to_string());
                if failure != known.failure {
                    tracing::warn!(
                        "media.advertise: {error}; clients are told {}",
                        known.instead()
                    );
                }
                known.failure = failure;
            }
        }
    }

    /// Returns the addresses for a client whose request arrived at `reached`, the best first, at
    /// most eight. `listening`: the address of the sockets, which may be unspecified.
    pub(crate) fn ips(&self, listening: IpAddr, reached: IpAddr) -> Vec<IpAddr> {
        let mut ips = Vec::new();
        for Known { entry, learned } in self.known.read().iter() {
            let is_stated = matches!(entry, AdvertisedAddress::Ip(_));
            // A name may have addresses of a family that the sockets do not hear.
            let heard = |ip: &&IpAddr| is_stated || !listening.is_ipv4() || ip.is_ipv4();
            ips.extend(learned.ips.iter().filter(heard));
        }
        if ips.is_empty() {
            ips = match listening.is_unspecified() {
                true => {
                    // Without the system's answer, the address that the client reached remains.
                    let interfaces = glassline_net::interface_addresses().unwrap_or_default();
                    let reached = reached.to_canonical();
                    vec![own(listening, reached, &interfaces).unwrap_or(reached)]
                }
                false => vec![listening],
            };
        }
        let mut seen = Vec::with_capacity(ips.len());
        ips.retain(|ip| {
            let is_new = !seen.contains(ip);
            seen.push(*ip);
            is_new
        });
        ips.truncate(ADDRESSES_MAX);
        ips
    }
}

/// Returns the IPv4 address by which this machine reaches others, or else one of an interface other
/// than loopback; `None` if there is no such interface.
pub(crate) fn beside_loopback() -> Option<IpAddr> {
    // Connecting a socket of UDP asks the routes, and sends nothing.
    let by_route = || {
        let socket = UdpSocket::bind((Ipv4Addr::UNSPECIFIED, 0)).ok()?;
        socket.connect(SOMEWHERE).ok()?;
        Some(socket.local_addr().ok()?.ip())
    };
    let is_other = |ip: &IpAddr| ip.is_ipv4() && !ip.is_loopback();
    let by_interface = || {
        let interfaces = glassline_net::interface_addresses().ok()?;
        interfaces.into_iter().map(|it| it.ip).find(is_other)
    };
    by_route().filter(is_other).or_else(by_interface)
}

impl Known {
    /// Returns an entry of which only addresses are known.
    fn of(entry: AdvertisedAddress) -> Self {
        let ips = match &entry {
            AdvertisedAddress::Ip(ip) => vec![*ip],
            _ => Vec::new(),
        };
        let failure = None;
        Self {
            entry,
            learned: Learned { ips, failure },
        }
    }
}

impl Learned {
    /// Returns the words for what holds as long as there is no answer.
    fn instead(&self) -> String {
        match &self.ips[..] {
            [] => "the other addresses, or those of this machine".to_owned(),
            ips => format!("{ips:?} as before"),
        }
    }
}

/// Returns the machine's own address for a client whose request arrived at `reached`, where the
/// sockets listen on all of the family of `listening`: the same address, or one of the same interface
/// that the sockets hear. None if the interface has none.
///
/// One address is enough, because the client reached it. With a second one, the kernel may lead the
/// datagrams of one client to two shards, and a handshake takes longer or fails.
fn own(listening: IpAddr, reached: IpAddr, interfaces: &[InterfaceAddress]) -> Option<IpAddr> {
    let heard = |ip: IpAddr| !listening.is_ipv4() || ip.is_ipv4();
    if heard(reached) {
        return Some(reached);
    }
    let mut of_reached = interfaces.iter();
    let interface = of_reached.find(|it| it.ip.to_canonical() == reached)?;
    let others = interfaces
        .iter()
        .filter(|it| it.interface == interface.interface);
    others.map(|it| it.ip).find(|ip| heard(*ip))
}
