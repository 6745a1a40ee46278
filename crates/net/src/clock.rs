use std::io;
use std::time::Duration;

/// The accuracy of the kernel's calendar clock, as the kernel knows it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ClockDiscipline {
    /// Whether a time service (NTP, PTP) keeps the clock.
    pub is_synchronized: bool,
    /// Largest error of the clock that the time service reckons with.
    pub error_max: Duration,
}

/// Returns whether a time service keeps the calendar clock of this machine. Nothing is changed, and no
/// privilege is needed.
///
/// # Errors
/// Returns the system's error, or `Unsupported` where the system has no such call.
pub fn clock_discipline() -> io::Result<ClockDiscipline> {
    sys::discipline()
}

#[cfg(target_os = "linux")]
mod sys {
    #![expect(unsafe_code, reason = "adjtimex has no safe interface in std")]

    use std::io;
    use std::mem::MaybeUninit;
    use std::time::Duration;

    use super::ClockDiscipline;

    /// Calls `adjtimex` without a mode, which only reads.
    pub(super) fn discipline() -> io::Result<ClockDiscipline> {
        let mut timex = MaybeUninit::<libc::timex>::zeroed();
        // SAFETY: all fields are numbers, so zeros are valid; `modes` is 0, so the kernel only writes
        // the structure.
        let state = unsafe { libc::adjtimex(timex.as_mut_ptr()) };
        if state < 0 {
            return Err(io::Error::last_os_error());
        }
        // SAFETY: as above.
        let timex = unsafe { timex.assume_init() };
        let error = u64::try_from(timex.maxerror).unwrap_or(0);
        Ok(ClockDiscipline {
            is_synchronized: timex.status & libc::STA_UNSYNC == 0,
            error_max: Duration::from_micros(error),
        })
    }
}

#[cfg(not(target_os = "linux"))]
mod sys {
    use std::io;

    use super::ClockDiscipline;

    pub(super) fn discipline() -> io::Result<ClockDiscipline> {
        Err(io::ErrorKind::Unsupported.into())
    }
}

#[cfg(test)]
#[cfg(target_os = "linux")]
mod tests {
    use super::*;

    #[test]
    fn the_kernel_tells_how_exact_its_clock_is() {
        let discipline = clock_discipline().expect("reading needs no privilege");
        // Linux stops counting at 16 s and calls the clock unsynchronized.
        assert!(discipline.error_max <= Duration::from_secs(3600));
    }
}
