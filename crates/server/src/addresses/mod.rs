//! The IP addresses that clients are told to send media to.
//!
//! ```text
//! media.advertise ─ names, STUN servers, every minute ─► learned ─┐
//! the request's address, or another of its interface ────────────┴► candidates of an answer
//! ```

mod advertised;
mod learn;
#[cfg(test)]
mod tests;

use std::net::IpAddr;
use std::sync::{Arc, PoisonError, RwLock};
use std::time::Duration;

use glassline_net::InterfaceAddress;
use tokio::sync::watch;
use tokio::task::JoinSet;

pub use advertised::{AdvertisedAddress, AdvertisedAddressError};
pub(crate) use learn::{LearnError, learn};

/// Interval at which names and STUN servers are asked again.
const INTERVAL: Duration = Duration::from_mins(1);
/// The interval while one of them has never answered.
const INTERVAL_UNKNOWN: Duration = Duration::from_secs(5);
/// Time for which the start of the server waits for the first answers.
const START: Duration = Duration::from_secs(3);
/// Most addresses in an answer. A browser checks each of its own addresses against each of these.
const ADDRESSES_MAX: usize = 8;

/// The addresses that clients are told. Names and STUN servers of the configuration are asked again
/// and again; what they last answered holds until they answer something else.
#[derive(Debug)]
pub(crate) struct MediaAddresses {
    configured: Vec<AdvertisedAddress>,
    /// What each entry of `configured` stands for.
    learned: RwLock<Vec<Learned>>,
}

/// What is known of an entry of the configuration.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct Learned {
    ips: Vec<IpAddr>,
    /// Why the last question had no answer; `None` if it had.
    failure: Option<String>,
}

impl MediaAddresses {
    /// Creates the addresses of the configuration; names are unknown until [`Self::start`].
    pub(crate) fn new(configured: Vec<AdvertisedAddress>) -> Self {
        let known = configured.iter().map(|entry| match entry {
            AdvertisedAddress::Ip(ip) => vec![*ip],
            _ => Vec::new(),
        });
        let learned = known.map(|ips| Learned { ips, failure: None });
        Self {
            learned: RwLock::new(learned.collect()),
            configured,
        }
    }

    /// Returns whether the configuration names addresses.
    pub(crate) fn is_configured(&self) -> bool {
        !self.configured.is_empty()
    }

    /// Returns whether any entry has to be asked for.
    pub(crate) fn has_names(&self) -> bool {
        let is_name = |entry: &AdvertisedAddress| !matches!(entry, AdvertisedAddress::Ip(_));
        self.configured.iter().any(is_name)
    }

    /// Asks for all names, and waits a few seconds for the answers.
    pub(crate) async fn start(self: &Arc<Self>) {
        // Those that take longer are asked again at once by `keep`.
        let _ = tokio::time::timeout(START, self.renew()).await;
    }

    /// Asks again and again, until `stopped` becomes true.
    pub(crate) async fn keep(self: Arc<Self>, mut stopped: watch::Receiver<bool>) {
        loop {
            let interval = match self.read().iter().any(|entry| entry.ips.is_empty()) {
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
        for (index, entry) in self.configured.iter().enumerate() {
            if matches!(entry, AdvertisedAddress::Ip(_)) {
                continue;
            }
            let (addresses, entry) = (Arc::clone(self), entry.clone());
            asked.spawn(async move { addresses.take(index, learn(&entry).await) });
        }
        asked.join_all().await;
    }

    /// Takes the answer for an entry, and logs what changed. Without an answer the last one holds.
    fn take(&self, index: usize, answer: Result<Vec<IpAddr>, LearnError>) {
        let mut learned = self.learned.write().unwrap_or_else(PoisonError::into_inner);
        let (Some(entry), Some(known)) = (self.configured.get(index), learned.get_mut(index))
        else {
            return;
        };
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
        for (entry, known) in self.configured.iter().zip(self.read().iter()) {
            let is_stated = matches!(entry, AdvertisedAddress::Ip(_));
            // A name may have addresses of a family that the sockets do not hear.
            let heard = |ip: &&IpAddr| is_stated || !listening.is_ipv4() || ip.is_ipv4();
            ips.extend(known.ips.iter().filter(heard));
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

    fn read(&self) -> std::sync::RwLockReadGuard<'_, Vec<Learned>> {
        self.learned.read().unwrap_or_else(PoisonError::into_inner)
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
