//! Resource usage of this process and thread.

use std::io;
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
    // Zero would be the group of this process itself, and negative numbers other things.
    let group = i32::try_from(leader).ok().filter(|group| *group > 1);
    let group = group.ok_or(io::ErrorKind::InvalidInput)?;
    // SAFETY: takes integers.
    match unsafe { libc::kill(-group, libc::SIGKILL) } {
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
