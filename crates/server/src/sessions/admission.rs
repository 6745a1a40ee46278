//! Limits on the number of sessions and of handshakes under way.

use std::collections::HashMap;
use std::net::IpAddr;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

/// Limits on sessions, from the configuration's `limits` section.
#[derive(Clone, Copy, Debug)]
pub struct Bounds {
    /// Most sessions in the whole server.
    pub viewers: usize,
    /// Most sessions in the whole server whose handshake is not done.
    pub half_open: usize,
    /// Most sessions from one IP address whose handshake is not done.
    pub half_open_per_address: usize,
    /// Time that a handshake may take, from the offer on.
    pub handshake: Duration,
}

/// Counts the sessions whose handshake is not done, in the whole server and by IP address.
#[derive(Debug, Default)]
pub(super) struct HalfOpen {
    counts: Arc<Mutex<Counts>>,
}

#[derive(Debug, Default)]
struct Counts {
    all: usize,
    by_address: HashMap<IpAddr, usize>,
}

/// The server has as many handshakes under way as configured.
impl HalfOpen {
    /// Admits one more half-open session of `address`. The permit is held until the handshake is
    /// done or has failed.
    ///
    /// # Errors
    /// Returns the limit of handshakes that was reached.
    pub(super) fn admit(&self, address: IpAddr, bounds: &Bounds) -> Result<Permit, Full> {
        let mut counts = lock(&self.counts);
        if counts.all >= bounds.half_open {
            return Err(Full::HalfOpen {
                limit: bounds.half_open,
            });
        }
        let of_address = counts.by_address.entry(address).or_insert(0);
        if *of_address >= bounds.half_open_per_address {
            return Err(Full::Address {
                address,
                limit: bounds.half_open_per_address,
            });
        }
        *of_address += 1;
        counts.all += 1;
        Ok(Permit {
            counts: Arc::clone(&self.counts),
            address,
        })
    }

    /// Returns the number of half-open sessions.
    pub(super) fn count(&self) -> usize {
        lock(&self.counts).all
    }
}

/// The right to one half-open session, given back when dropped.
#[derive(Debug)]
pub struct Permit {
    counts: Arc<Mutex<Counts>>,
    /// Address of the client that sent the offer.
    address: IpAddr,
}

impl Drop for Permit {
    fn drop(&mut self) {
        let mut counts = lock(&self.counts);
        counts.all -= 1;
        if let Some(count) = counts.by_address.get_mut(&self.address) {
            *count -= 1;
            if *count == 0 {
                counts.by_address.remove(&self.address);
            }
        }
    }
}

fn lock(counts: &Mutex<Counts>) -> MutexGuard<'_, Counts> {
    counts.lock().unwrap_or_else(PoisonError::into_inner)
}

/// The limit that an additional session would exceed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Full {
    /// The server has as many sessions as configured.
    #[error("{limit} viewers are served already; raise `limits.viewers` to allow more")]
    Viewers {
        /// The configured limit.
        limit: usize,
    },
    /// As many handshakes at once as configured.
    #[error("{limit} handshakes are under way already; raise `limits.half_open` to allow more")]
    HalfOpen {
        /// The configured limit.
        limit: usize,
    },
    /// One IP address has as many handshakes under way as configured.
    #[error(
        "{address} has {limit} handshakes under way already; raise `limits.half_open_per_address` to allow more"
    )]
    Address {
        /// Address that the request came from.
        address: IpAddr,
        /// The configured limit.
        limit: usize,
    },
}
