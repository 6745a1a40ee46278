use std::io;

/// Raises the soft limit of open file descriptors (`RLIMIT_NOFILE`) to the hard limit.
/// Returns the limit in force afterwards, `u64::MAX` if there is none.
pub fn raise_descriptor_limit() -> io::Result<u64> {
    sys::raise()
}

/// Returns the soft limit of open file descriptors, `u64::MAX` if there is none.
pub fn descriptor_limit() -> io::Result<u64> {
    sys::limit()
}

/// Returns whether `error` says that the process or the system has no descriptor, or no memory for
/// a socket, to give at present (`EMFILE`, `ENFILE`, `ENOBUFS`, `ENOMEM`). The same call may
/// succeed once something was closed.
pub fn is_descriptor_shortage(error: &io::Error) -> bool {
    sys::is_shortage(error)
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
        let mut limit = get()?;
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
        Ok(soft(&limit))
    }

    /// Returns the soft limit that `getrlimit` tells.
    pub(super) fn limit() -> io::Result<u64> {
        get().map(|limit| soft(&limit))
    }

    pub(super) fn is_shortage(error: &io::Error) -> bool {
        let code = error.raw_os_error();
        let shortages = [libc::EMFILE, libc::ENFILE, libc::ENOBUFS, libc::ENOMEM];
        code.is_some_and(|code| shortages.contains(&code))
    }

    fn get() -> io::Result<libc::rlimit> {
        let mut limit = libc::rlimit {
            rlim_cur: 0,
            rlim_max: 0,
        };
        // SAFETY: the kernel writes one `rlimit`.
        match unsafe { libc::getrlimit(libc::RLIMIT_NOFILE, &raw mut limit) } {
            0 => Ok(limit),
            _ => Err(io::Error::last_os_error()),
        }
    }

    fn soft(limit: &libc::rlimit) -> u64 {
        match limit.rlim_cur {
            libc::RLIM_INFINITY => u64::MAX,
            descriptors => descriptors,
        }
    }
}

#[cfg(not(unix))]
mod sys {
    use std::io;

    /// Returns `u64::MAX`, because this system has no such limit.
    pub(super) fn raise() -> io::Result<u64> {
        Ok(u64::MAX)
    }

    /// Returns `u64::MAX`, because this system has no such limit.
    pub(super) fn limit() -> io::Result<u64> {
        Ok(u64::MAX)
    }

    pub(super) fn is_shortage(error: &io::Error) -> bool {
        error.kind() == io::ErrorKind::OutOfMemory
    }
}

#[cfg(test)]
#[cfg(target_os = "linux")]
mod tests {
    use super::*;
    use std::fs;

    #[test]
    fn a_full_table_of_descriptors_is_told_from_a_lost_connection() {
        let shortage = |code| is_descriptor_shortage(&io::Error::from_raw_os_error(code));
        assert!(
            [libc::EMFILE, libc::ENFILE, libc::ENOBUFS, libc::ENOMEM].map(shortage) == [true; 4]
        );
        assert!(!shortage(libc::ECONNABORTED) && !shortage(libc::EAGAIN));
    }

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
        assert_eq!(descriptor_limit().expect("Linux has the limit"), limit);
    }
}
