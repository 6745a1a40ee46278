use std::io;

/// Lowers the priority of the calling thread to the nice value `niceness`, 0 to 19: threads with a
/// lower value go first where cores are scarce.
///
/// # Errors
/// If the system refuses, or has no priority of single threads.
pub fn lower_thread_priority(niceness: i32) -> io::Result<()> {
    sys::lower(niceness)
}

#[cfg(target_os = "linux")]
mod sys {
    #![expect(unsafe_code, reason = "setpriority has no safe interface in std")]

    use std::io;

    /// Calls `setpriority`, which on Linux is about one thread.
    pub(super) fn lower(niceness: i32) -> io::Result<()> {
        // SAFETY: the call takes numbers only; 0 is the calling thread.
        if unsafe { libc::setpriority(libc::PRIO_PROCESS, 0, niceness) } != 0 {
            return Err(io::Error::last_os_error());
        }
        Ok(())
    }
}

#[cfg(not(target_os = "linux"))]
mod sys {
    use std::io;

    pub(super) fn lower(_: i32) -> io::Result<()> {
        Err(io::ErrorKind::Unsupported.into())
    }
}

#[cfg(all(test, target_os = "linux"))]
mod tests {
    use super::*;

    #[test]
    fn only_the_calling_thread_is_lowered() {
        let nice_value = || {
            let stat = std::fs::read_to_string("/proc/thread-self/stat").expect("Linux has it");
            // The thread's name may have spaces; 17 fields lie between it and the nice value.
            let after_name = stat.rsplit_once(')').expect("a name in parentheses").1;
            let field = after_name.split_whitespace().nth(16);
            field
                .expect("the nice value")
                .parse::<i32>()
                .expect("a number")
        };
        let before = nice_value();
        let lowered = std::thread::spawn(move || {
            lower_thread_priority(15).expect("lowering is always allowed");
            nice_value()
        });
        assert_eq!(lowered.join().expect("ends"), 15);
        assert_eq!(nice_value(), before);
    }
}
