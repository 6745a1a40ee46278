use std::fs;
use std::io;
use std::time::Duration;

/// Returns the number of open file descriptors of this process; `None` where the system
/// does not provide it (no `/proc`).
pub fn open_fds() -> Option<usize> {
    // One of them is the directory being read.
    Some(
        fs::read_dir("/proc/self/fd")
            .ok()?
            .count()
            .saturating_sub(1),
    )
}

/// Returns the resident memory of this process in bytes; `None` where the system does not
/// provide it (no `/proc`).
pub fn rss_bytes() -> Option<u64> {
    let [resident, _] = resident_and_shared()?;
    Some(resident)
}

/// Returns the resident memory of this process that no file backs, in bytes: heap, stacks and
/// changed data, without the pages of the program's file. `None` where the system does not provide
/// it (no `/proc`).
pub fn private_bytes() -> Option<u64> {
    let [resident, shared] = resident_and_shared()?;
    Some(resident.saturating_sub(shared))
}

/// Returns the private memory of this process that the allocator has given to nobody, in bytes:
/// freed memory that was not returned to the system, and a constant part for stacks and data. Zero if
/// more is allocated than was ever written. `None` where the allocator does not say it (musl, other
/// systems).
///
/// The allocator of glibc locks one arena after the other and counts its free blocks.
pub fn idle_heap_bytes() -> Option<u64> {
    let private = private_bytes()?;
    let allocated = crate::sys::allocated_bytes_modulo()?;
    // Both sides wrap, and the difference is far below 2 GiB.
    // The lower half is meant.
    let idle = (private as u32).wrapping_sub(allocated).cast_signed();
    Some(u64::try_from(idle).unwrap_or(0))
}

/// Reads the resident memory, and how much of it files back, in bytes.
fn resident_and_shared() -> Option<[u64; 2]> {
    let statm = fs::read_to_string("/proc/self/statm").ok()?;
    let mut pages = statm.split_ascii_whitespace().skip(1);
    let mut bytes = || Some(pages.next()?.parse::<u64>().ok()? * crate::sys::page_bytes());
    Some([bytes()?, bytes()?])
}

/// Smallest block that is always mapped apart: larger than the frames of most streams, and smaller than
/// a decoded picture of more than 1080p.
const LARGE_BLOCK_BYTES: i32 = 4 << 20;

/// Has the allocator return large blocks to the system as soon as they are freed. Returns whether it
/// can; false where it has no such option (musl, other systems). For the beginning of a process.
///
/// Otherwise the allocator of glibc raises its limit to the size of the largest block that was ever
/// freed. Then what decodes pictures leaves a hole of tens of megabytes, into which small blocks are
/// put that stay.
pub fn return_large_blocks() -> bool {
    crate::sys::map_large_blocks(LARGE_BLOCK_BYTES)
}

/// Returns the pages of freed memory to the system that the allocator keeps for later. Returns
/// whether there were any; false where the allocator has no such call (musl, other systems).
///
/// The allocator of glibc keeps freed memory, unless it is at the end of an arena. Each arena is
/// locked while its pages are returned, for about a millisecond per 10 MiB.
pub fn release_free_memory() -> bool {
    crate::sys::release_free_memory()
}

/// Returns the processor time that all threads of this process have used, user and system.
pub fn process_cpu() -> Duration {
    crate::sys::process_cpu()
}

/// Kills every process of the group that the process `leader` leads.
///
/// # Errors
/// If there is no such group, or the system does not let this process kill it.
pub fn kill_process_group(leader: u32) -> io::Result<()> {
    crate::sys::kill_process_group(leader)
}

/// Asks every process of the group that the process `leader` leads to end (SIGTERM).
///
/// # Errors
/// If there is no such group, or the system does not let this process do so.
pub fn terminate_process_group(leader: u32) -> io::Result<()> {
    crate::sys::terminate_process_group(leader)
}

/// Has the system kill the process of `command` when the thread that starts the command ends, and thus
/// at the latest with this process. What the process itself starts is not killed. The process gets no
/// ambient capability, and no descriptors but input, output and errors. Does nothing on systems other than Linux.
pub fn isolate(command: &mut std::process::Command) {
    crate::sys::isolate(command);
}

/// Returns the processor time that the calling thread has used, user and system.
pub fn thread_cpu() -> Duration {
    crate::sys::thread_cpu()
}

#[cfg(test)]
#[cfg(target_os = "linux")]
mod tests {
    use super::*;
    use std::net::UdpSocket;

    #[test]
    fn descriptors_and_memory_are_counted() {
        // Other tests open sockets at the same time; 200 of our own stand out.
        let before = open_fds().expect("Linux has /proc");
        let sockets: Vec<_> = (0..200)
            .map(|_| UdpSocket::bind("127.0.0.1:0").expect("loopback has a free port"))
            .collect();
        let during = open_fds().expect("Linux has /proc");
        assert!(during + 60 >= before + sockets.len(), "{before} {during}");
        assert!(rss_bytes().expect("Linux has /proc") > 100_000);
    }

    /// Without the call, the pages between blocks that are still in use stay resident.
    #[cfg(target_env = "gnu")]
    #[test]
    fn freed_memory_returns_to_the_system() {
        const BLOCKS: usize = 16 << 10;
        let mut blocks: Vec<Option<Vec<u8>>> = (0..BLOCKS).map(|_| Some(vec![1; 4000])).collect();
        for (index, block) in blocks.iter_mut().enumerate() {
            if index % 16 > 0 {
                *block = None;
            }
        }
        let before = rss_bytes().expect("Linux has /proc");
        let idle = idle_heap_bytes().expect("glibc");
        assert!(idle > 50 << 20, "{idle}");
        assert!(release_free_memory());
        let after = rss_bytes().expect("Linux has /proc");
        // Other tests need some memory at the same time.
        assert!(after + (40 << 20) < before, "{before} {after}");
        let still_idle = idle_heap_bytes().expect("glibc");
        assert!(still_idle + (40 << 20) < idle, "{idle} {still_idle}");
        let private = private_bytes().expect("Linux has /proc");
        assert!(private < after + (20 << 20), "{private} {after}");
        drop(blocks);
    }

    #[test]
    fn work_costs_processor_time() {
        let (thread, process) = (thread_cpu(), process_cpu());
        let mut sum = 0u64;
        while thread_cpu() < thread + Duration::from_millis(50) {
            sum = std::hint::black_box(sum.wrapping_mul(31).wrapping_add(7));
        }
        // The kernel adds a running thread to its process a tick (4 or 10 ms) late.
        assert!(process_cpu() >= process + Duration::from_millis(25));
    }
}
