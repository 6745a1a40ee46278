//! How many connections each listener may have open, so that descriptors remain for the rest of the
//! server.

use std::fmt;

/// Fewest connections that a listener gets, however small the limit is.
const LISTENER_MIN: usize = 8;

/// Descriptors for what is opened now and then: files, name look-ups, sources that reconnect, and
/// connections that are about to be closed.
const SPARE: usize = 96;

/// The descriptors of the process, divided between listeners and everything else.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DescriptorBudget {
    /// The limit of the process (`RLIMIT_NOFILE`).
    limit: usize,
    /// Descriptors that the listeners leave to the rest of the server.
    reserved: usize,
}

/// The connections that a listener is configured to allow, and what the budget grants.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Grant {
    /// The configuration key that names the wanted number.
    pub key: &'static str,
    /// Number of connections that the configuration names.
    pub wanted: usize,
    /// The number in force.
    pub granted: usize,
}

impl DescriptorBudget {
    /// Divides the descriptors of this process, which has opened most of its own by now and will
    /// open `planned` more.
    pub fn of_process(planned: usize) -> Self {
        // A system that does not tell its limit has none to speak of.
        let limit = glassline_net::descriptor_limit().unwrap_or(u64::MAX);
        let in_use = glassline_net::open_fds().unwrap_or(SPARE);
        Self::new(limit, in_use, planned)
    }

    /// Divides the `limit` of descriptors of a process. The rest of the server has `in_use` of them
    /// open now, and will open `planned` more.
    fn new(limit: u64, in_use: usize, planned: usize) -> Self {
        Self {
            limit: usize::try_from(limit).unwrap_or(usize::MAX),
            reserved: in_use.saturating_add(planned).saturating_add(SPARE),
        }
    }

    /// Returns the descriptors that are not reserved.
    pub const fn free(self) -> usize {
        self.limit.saturating_sub(self.reserved)
    }

    /// Returns the budget with `count` more descriptors reserved.
    pub const fn less(self, count: usize) -> Self {
        Self {
            limit: self.limit,
            reserved: self.reserved.saturating_add(count),
        }
    }

    /// Shares the descriptors between `N` kinds of listeners: each gets the same part, or less if it
    /// is configured for less, and then the others get the remainder.
    pub fn share<const N: usize>(self, wanted: [(&'static str, usize); N]) -> [Grant; N] {
        let free = self.free();
        let all = wanted
            .iter()
            .fold(0_usize, |sum, (_, it)| sum.saturating_add(*it));
        wanted.map(|(key, wanted)| {
            let others = all - wanted;
            let most = (free / N.max(1)).max(free.saturating_sub(others));
            Grant {
                key,
                wanted,
                granted: wanted.min(most.max(LISTENER_MIN)),
            }
        })
    }

    /// Returns the warning for a listener that gets fewer connections than configured.
    pub fn shortage(self, grant: Grant) -> Option<Shortage> {
        (grant.granted < grant.wanted).then_some(Shortage {
            budget: self,
            grant,
        })
    }
}

/// A listener gets fewer connections than configured, because the process may not open enough
/// descriptors.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Shortage {
    budget: DescriptorBudget,
    grant: Grant,
}

impl fmt::Display for Shortage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Grant {
            key,
            wanted,
            granted,
        } = self.grant;
        let DescriptorBudget { limit, reserved } = self.budget;
        write!(
            f,
            "{key} is {wanted}, but at most {granted} of these connections are allowed: the process \
             may open {limit} files (RLIMIT_NOFILE), and {reserved} stay reserved; raise the limit by \
             `LimitNOFILE=` of the systemd unit or `ulimit -n`, or set {key} to {granted}"
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn granted(limit: u64, http: usize, rtsp: usize) -> [usize; 2] {
        let budget = DescriptorBudget::new(limit, 40, 64);
        let grants = budget.share([("http.connections", http), ("rtsp.clients", rtsp)]);
        grants.map(|grant| grant.granted)
    }

    #[test]
    fn listeners_share_what_is_not_reserved() {
        // 1,024 less 40 in use, 64 planned and 96 to spare.
        assert_eq!(granted(1_024, 4_096, 10_000), [412, 412]);
        assert_eq!(granted(1_024, 100, 10_000), [100, 724]);
        assert_eq!(granted(1_024, 4_096, 0), [824, 0]);
        assert_eq!(granted(1 << 20, 4_096, 10_000), [4_096, 10_000]);
        assert_eq!(granted(u64::MAX, 4_096, 10_000), [4_096, 10_000]);
        assert_eq!(granted(64, 4_096, 10_000), [LISTENER_MIN; 2]);
    }

    #[test]
    fn a_shortage_names_limit_value_and_remedy() {
        let budget = DescriptorBudget::new(1_024, 40, 64);
        let [http, rtsp] = budget.share([("http.connections", 4_096), ("rtsp.clients", 10)]);
        assert_eq!(budget.shortage(rtsp), None);
        let text = budget.shortage(http).expect("too few").to_string();
        for part in [
            "http.connections is 4096",
            "814",
            "1024",
            "LimitNOFILE=",
            "ulimit -n",
        ] {
            assert!(text.contains(part), "{part}: {text}");
        }
    }
}
