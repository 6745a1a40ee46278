//! How many sessions there may be, and how many handshakes at once.

use std::collections::HashMap;
use std::net::IpAddr;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

/// How many viewers there may be.
#[derive(Clone, Copy, Debug)]
pub struct Bounds {
    /// Viewers altogether.
    pub viewers: usize,
    /// Sessions whose handshake is not done, altogether.
    pub half_open: usize,
    /// Sessions whose handshake is not done, of one address.
    pub half_open_per_address: usize,
    /// How long a handshake may take.
    pub handshake: Duration,
}

/// The sessions whose handshake is not done.
#[derive(Debug, Default)]
pub(super) struct HalfOpen {
    counts: Arc<Mutex<Counts>>,
}

#[derive(Debug, Default)]
struct Counts {
    all: usize,
    by_address: HashMap<IpAddr, usize>,
}

impl HalfOpen {
    /// A place for one more half-open session of `address`, held until the handshake is
    /// done or failed.
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

    /// How many there are.
    pub(super) fn count(&self) -> usize {
        lock(&self.counts).all
    }
}

/// One half-open session's place; dropping it frees the place.
#[derive(Debug)]
pub struct Permit {
    counts: Arc<Mutex<Counts>>,
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

/// No place for one more viewer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Full {
    /// As many viewers as configured.
    #[error("{limit} viewers are served already; raise `limits.viewers` to allow more")]
    Viewers {
        /// The bound.
        limit: usize,
    },
    /// As many handshakes at once as configured.
    #[error("{limit} handshakes are under way already; raise `limits.half_open` to allow more")]
    HalfOpen {
        /// The bound.
        limit: usize,
    },
    /// As many handshakes at once from one address as configured.
    #[error(
        "{address} has {limit} handshakes under way already; raise `limits.half_open_per_address` to allow more"
    )]
    Address {
        /// Who asked.
        address: IpAddr,
        /// The bound.
        limit: usize,
    },
}
