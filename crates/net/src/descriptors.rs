use std::io;

/// Raises the soft limit of open file descriptors (`RLIMIT_NOFILE`) to the hard limit.
/// Returns the limit in force afterwards, `u64::MAX` if there is none.
pub fn raise_descriptor_limit() -> io::Result<u64> {
    sys::raise()
}

#[cfg(unix)]
mod sys {
    #![expect(
        unsafe_code,
        reason = "getrlimit and setrlimit have no safe interface in std"
    )]

    use std::io;

    /// Calls `getrlimit` and `setrlimit`.
    pub(super) fn raise() -> io::Result<u64> {
        let mut limit = libc::rlimit {
            rlim_cur: 0,
            rlim_max: 0,
        };
        // SAFETY: the kernel writes one `rlimit`.
        if unsafe { libc::getrlimit(libc::RLIMIT_NOFILE, &raw mut limit) } != 0 {
            return Err(io::Error::last_os_error());
        }
        if limit.rlim_cur < limit.rlim_max {
            let raised = libc::rlimit {
                rlim_cur: limit.rlim_max,
                ..limit
            };
            // SAFETY: the kernel reads one `rlimit`.
            if unsafe { libc::setrlimit(libc::RLIMIT_NOFILE, &raw const raised) } == 0 {
                limit = raised;
            }
            // Some systems refuse what they announce (macOS beyond OPEN_MAX): then
            // the old limit stays in force, which is no error.
        }
        if limit.rlim_cur == libc::RLIM_INFINITY {
            return Ok(u64::MAX);
        }
        Ok(limit.rlim_cur)
    }
}

#[cfg(not(unix))]
mod sys {
    use std::io;

    /// Returns `u64::MAX`, because this system has no such limit.
    pub(super) fn raise() -> io::Result<u64> {
        Ok(u64::MAX)
    }
}

#[cfg(test)]
#[cfg(target_os = "linux")]
mod tests {
    use super::*;
    use std::fs;

    #[test]
    fn the_soft_limit_becomes_the_hard_one() {
        let limit = raise_descriptor_limit().expect("Linux has the limit");
        let limits = fs::read_to_string("/proc/self/limits").expect("Linux has /proc");
        let line = limits
            .lines()
            .find_map(|line| line.strip_prefix("Max open files"))
            .expect("it is listed");
        let in_force: Vec<Option<u64>> = line
            .split_ascii_whitespace()
            .take(2)
            .map(|word| word.parse().ok())
            .collect();
        let wanted = (limit != u64::MAX).then_some(limit);
        assert_eq!(in_force, [wanted, wanted]);
        assert_eq!(raise_descriptor_limit().expect("again"), limit);
    }
}
