//! Resource usage of this process and thread.

use std::io;
use std::os::unix::process::CommandExt as _;
use std::process::Command;
use std::time::Duration;

/// Returns the size of a memory page, in bytes.
pub(crate) fn page_bytes() -> u64 {
    // SAFETY: takes an integer.
    u64::try_from(unsafe { libc::sysconf(libc::_SC_PAGESIZE) }).unwrap_or(4096)
}

/// Returns the processor time of all threads of this process.
pub(crate) fn process_cpu() -> Duration {
    clock(libc::CLOCK_PROCESS_CPUTIME_ID)
}

/// Returns the processor time of the calling thread.
pub(crate) fn thread_cpu() -> Duration {
    clock(libc::CLOCK_THREAD_CPUTIME_ID)
}

/// Sends SIGKILL to a group of processes.
pub(crate) fn kill_process_group(leader: u32) -> io::Result<()> {
    signal_process_group(leader, libc::SIGKILL)
}

/// Sends SIGTERM to a group of processes.
pub(crate) fn terminate_process_group(leader: u32) -> io::Result<()> {
    signal_process_group(leader, libc::SIGTERM)
}

/// First descriptor behind those of input, output and errors.
const FIRST_DESCRIPTOR: libc::c_uint = 3;

/// Has the system kill the process of `command` when the thread that starts the command ends, and leaves
/// the process no capability, and no other descriptor than input, output and errors.
pub(crate) fn isolate(command: &mut Command) {
    let server = std::process::id();
    let set = move || {
        // SAFETY: takes integers.
        let is_set = unsafe { libc::prctl(libc::PR_SET_PDEATHSIG, libc::SIGKILL) } == 0;
        // The right to bind low ports, which a service may have, is for the server. A kernel without ambient
        // capabilities has none to clear.
        // SAFETY: takes integers.
        unsafe {
            libc::prctl(
                libc::PR_CAP_AMBIENT,
                libc::PR_CAP_AMBIENT_CLEAR_ALL,
                0,
                0,
                0,
            )
        };
        // Ours close by themselves, but not those that this process was started with. A kernel before 5.11
        // refuses, and leaves those open.
        // SAFETY: takes integers, and closes nothing before the program is there.
        unsafe {
            libc::syscall(
                libc::SYS_close_range,
                FIRST_DESCRIPTOR,
                libc::c_uint::MAX,
                libc::CLOSE_RANGE_CLOEXEC,
            )
        };
        // The server may have ended before the signal was asked for.
        // SAFETY: takes nothing.
        let parent = unsafe { libc::getppid() };
        match is_set && u32::try_from(parent).is_ok_and(|parent| parent == server) {
            true => Ok(()),
            false => Err(io::Error::from_raw_os_error(libc::ESRCH)),
        }
    };
    // SAFETY: the closure calls the system alone: it takes no lock and allocates nothing.
    unsafe { command.pre_exec(set) };
}

fn signal_process_group(leader: u32, signal: i32) -> io::Result<()> {
    // Zero would be the group of this process itself, and negative numbers other things.
    let group = i32::try_from(leader).ok().filter(|group| *group > 1);
    let group = group.ok_or(io::ErrorKind::InvalidInput)?;
    // SAFETY: takes integers.
    match unsafe { libc::kill(-group, signal) } {
        0 => Ok(()),
        _ => Err(io::Error::last_os_error()),
    }
}

/// Returns the allocator's free pages to the system. Returns whether there were any.
pub(crate) fn release_free_memory() -> bool {
    #[cfg(target_env = "gnu")]
    // SAFETY: takes an integer; each arena is locked while it is trimmed.
    return unsafe { libc::malloc_trim(0) } != 0;
    #[cfg(not(target_env = "gnu"))]
    false
}

/// Maps blocks from `bytes` up apart from the others. Returns whether the allocator can.
pub(crate) fn map_large_blocks(bytes: i32) -> bool {
    #[cfg(target_env = "gnu")]
    return [
        (libc::M_MMAP_THRESHOLD, bytes),
        // What the allocator chooses itself for such a limit.
        (libc::M_TRIM_THRESHOLD, bytes.saturating_mul(2)),
    ]
    .into_iter()
    // SAFETY: takes integers, and changes numbers of the allocator under its lock.
    .all(|(option, value)| unsafe { libc::mallopt(option, value) } == 1);
    #[cfg(not(target_env = "gnu"))]
    {
        let _ = bytes;
        false
    }
}

/// Returns the lower 32 bits of the number of bytes that are allocated.
pub(crate) fn allocated_bytes_modulo() -> Option<u32> {
    #[cfg(target_env = "gnu")]
    {
        // SAFETY: takes nothing; each arena is locked while its free blocks are counted. Its
        // successor `mallinfo2` has fields of 64 bits, and is missing in glibc before 2.33.
        let info = unsafe { libc::mallinfo() };
        let (heap, mapped) = (info.uordblks.cast_unsigned(), info.hblkhd.cast_unsigned());
        Some(heap.wrapping_add(mapped))
    }
    #[cfg(not(target_env = "gnu"))]
    None
}

/// Reads a clock of processor time; zero if the system lacks it.
fn clock(id: libc::clockid_t) -> Duration {
    let mut time = libc::timespec {
        tv_sec: 0,
        tv_nsec: 0,
    };
    // SAFETY: the kernel writes one `timespec`.
    if unsafe { libc::clock_gettime(id, &raw mut time) } != 0 {
        return Duration::ZERO;
    }
    let seconds = u64::try_from(time.tv_sec).unwrap_or(0);
    Duration::new(seconds, u32::try_from(time.tv_nsec).unwrap_or(0))
}
