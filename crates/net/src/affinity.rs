use std::io;

/// Restricts the calling thread to the processors that process `id` may run on, so that two
/// costs are measured in the same place.
///
/// # Errors
/// If there is no such process, or the system has no such call.
pub fn run_where(id: u32) -> io::Result<()> {
    sys::run_where(id)
}

#[cfg(target_os = "linux")]
mod sys {
    #![expect(
        unsafe_code,
        reason = "sched_getaffinity and sched_setaffinity have no safe interface in std"
    )]

    use std::io;
    use std::mem;

    /// Calls `sched_getaffinity` and `sched_setaffinity`.
    pub(super) fn run_where(id: u32) -> io::Result<()> {
        let id = libc::pid_t::try_from(id)
            .map_err(|_| io::Error::new(io::ErrorKind::InvalidInput, "not a process number"))?;
        // SAFETY: a set of processors is plain bits, and none is a good value.
        let mut processors: libc::cpu_set_t = unsafe { mem::zeroed() };
        let bytes = size_of::<libc::cpu_set_t>();
        // SAFETY: the kernel writes at most `bytes` bytes of the set.
        if unsafe { libc::sched_getaffinity(id, bytes, &raw mut processors) } != 0 {
            return Err(io::Error::last_os_error());
        }
        // SAFETY: the kernel reads `bytes` bytes of the set; 0 is this thread.
        if unsafe { libc::sched_setaffinity(0, bytes, &raw const processors) } != 0 {
            return Err(io::Error::last_os_error());
        }
        Ok(())
    }
}

#[cfg(not(target_os = "linux"))]
mod sys {
    use std::io;

    pub(super) fn run_where(_: u32) -> io::Result<()> {
        Err(io::ErrorKind::Unsupported.into())
    }
}

#[cfg(all(test, target_os = "linux"))]
mod tests {
    use super::*;

    #[test]
    fn a_thread_runs_where_this_process_does() {
        run_where(std::process::id()).expect("this process is there");
        assert!(run_where(u32::MAX).is_err(), "nobody has that number");
    }
}
