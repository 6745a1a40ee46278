use std::collections::VecDeque;
use std::io;
use std::net::TcpStream;

use io_uring::{IoUring, Probe, cqueue, opcode, squeue, types};

use super::{FLAGS, Shared};

/// Sends on many connections with one system call (`io_uring`).
#[derive(derive_more::Debug)]
#[debug("Ring {{ held: {:?}, .. }}", self.held.len())]
pub(crate) struct Ring {
    /// The ring shared with the kernel.
    ring: IoUring,
    /// Whether sends read the caller's memory.
    zero_copy: bool,
    /// Memory that the kernel may still read, oldest first, and how many sends read it. The
    /// number of the first batch is `batch - held.len()`.
    held: VecDeque<(Shared, u32)>,
    /// Number of batches that were sent so far.
    batch: u32,
    /// Sends of the current batch that have no result yet.
    awaited: u32,
    /// System calls so far.
    pub(crate) system_calls: u64,
    /// Sends that the kernel copied although zero copy was requested.
    pub(crate) copied: u64,
}

/// Result of one send.
#[derive(Debug)]
pub(crate) struct Completion {
    /// Index of the connection.
    pub(crate) socket: usize,
    /// Bytes accepted, or the error.
    pub(crate) result: io::Result<usize>,
}

/// Most sends that are submitted together.
const ENTRIES: u32 = 2048;

/// `IORING_SEND_ZC_REPORT_USAGE` of `linux/io_uring.h`: completions say whether the kernel
/// copied.
const REPORT_USAGE: u16 = 1 << 3;
/// `IORING_NOTIF_USAGE_ZC_COPIED` of `linux/io_uring.h`: the kernel copied.
const USAGE_COPIED: i32 = i32::MIN;

impl Ring {
    /// Creates a ring for these connections, which it identifies by their index in the
    /// list, and for the calling thread alone: sends of another thread fail with `EEXIST`.
    ///
    /// # Errors
    /// The text names what forbids `io_uring` or what the kernel lacks.
    pub(crate) fn new(sockets: &[TcpStream], zero_copy: bool) -> io::Result<Self> {
        let build = || {
            // The cheapest way for one thread; kernels before 6.1 have another.
            let mut builder = IoUring::builder();
            builder.setup_single_issuer().setup_defer_taskrun();
            match builder.build(ENTRIES) {
                Err(error) if error.raw_os_error() == Some(libc::EINVAL) => IoUring::new(ENTRIES),
                built => built,
            }
        };
        let ring = build().map_err(forbidden)?;
        let mut probe = Probe::new();
        ring.submitter().register_probe(&mut probe)?;
        let code = if zero_copy {
            opcode::SendZc::CODE
        } else {
            opcode::Send::CODE
        };
        if !probe.is_supported(code) {
            let text = "this kernel's io_uring has no such send (zero-copy since Linux 6.0)";
            return Err(io::Error::new(io::ErrorKind::Unsupported, text));
        }
        let descriptors: Vec<_> = sockets
            .iter()
            .map(std::os::fd::AsRawFd::as_raw_fd)
            .collect();
        ring.submitter().register_files(&descriptors)?;
        Ok(Self {
            ring,
            zero_copy,
            held: VecDeque::new(),
            batch: 0,
            awaited: 0,
            system_calls: 0,
            copied: 0,
        })
    }

    /// Sends `bytes` to each of `sockets` and reports each result to `done`. Without zero
    /// copy, no memory is held any more when this returns.
    ///
    /// # Errors
    /// If the ring itself fails.
    pub(crate) fn send(
        &mut self,
        sockets: impl IntoIterator<Item = usize>,
        bytes: &Shared,
        mut done: impl FnMut(Completion),
    ) -> io::Result<()> {
        self.held.push_back((Shared::clone(bytes), 0));
        self.batch = self.batch.wrapping_add(1);
        let mut queued = 0;
        for socket in sockets {
            let entry = self.entry(socket, bytes);
            // SAFETY: the entry's memory is in `held` until the kernel is done.
            while unsafe { self.ring.submission().push(&entry) }.is_err() {
                self.submit(queued, &mut done)?;
                queued = 0;
            }
            queued += 1;
            self.awaited += 1;
            if let Some((_, readers)) = self.held.back_mut() {
                *readers += 1;
            }
            if queued == ENTRIES {
                self.submit(queued, &mut done)?;
                queued = 0;
            }
        }
        while self.awaited > 0 {
            self.submit(queued, &mut done)?;
            queued = 0;
        }
        Ok(())
    }

    /// Whether sends read the caller's memory without a copy.
    pub(crate) const fn is_zero_copy(&self) -> bool {
        self.zero_copy
    }

    /// Returns the submission entry of a send.
    fn entry(&self, socket: usize, bytes: &Shared) -> squeue::Entry {
        let place = types::Fixed(u32::try_from(socket).unwrap_or(u32::MAX));
        let len = u32::try_from(bytes.len()).unwrap_or(u32::MAX);
        let entry = if self.zero_copy {
            opcode::SendZc::new(place, bytes.as_ptr(), len)
                .flags(FLAGS)
                .zc_flags(REPORT_USAGE)
                .build()
        } else {
            opcode::Send::new(place, bytes.as_ptr(), len)
                .flags(FLAGS)
                .build()
        };
        entry.user_data(u64::from(self.batch) << 32 | u64::from(place.0))
    }

    /// Submits what is queued, waits for at least one result, and handles all that are
    /// there.
    fn submit(&mut self, queued: u32, done: &mut impl FnMut(Completion)) -> io::Result<()> {
        let wanted = queued.max(1) as usize;
        self.system_calls += 1;
        match self.ring.submit_and_wait(wanted) {
            Ok(_) => {}
            Err(error) if error.raw_os_error() == Some(libc::EINTR) => {}
            Err(error) => return Err(error),
        }
        let Self {
            ring,
            held,
            batch,
            awaited,
            copied,
            ..
        } = self;
        for entry in ring.completion() {
            let is_note = cqueue::notif(entry.flags());
            if is_note {
                *copied += u64::from(entry.result() & USAGE_COPIED != 0);
            } else {
                *awaited -= 1;
                let taken = entry.result();
                done(Completion {
                    socket: (entry.user_data() & u64::from(u32::MAX)) as usize,
                    result: usize::try_from(taken)
                        .map_err(|_| io::Error::from_raw_os_error(-taken)),
                });
            }
            // A result that announces a notification does not free the memory; the
            // notification does.
            if !cqueue::more(entry.flags()) {
                let age = batch.wrapping_sub((entry.user_data() >> 32) as u32) as usize;
                let place = held.len().checked_sub(age + 1);
                if let Some((_, readers)) = place.and_then(|place| held.get_mut(place)) {
                    *readers -= 1;
                }
            }
        }
        while held.front().is_some_and(|(_, readers)| *readers == 0) && *awaited == 0 {
            held.pop_front();
        }
        Ok(())
    }
}

impl Drop for Ring {
    /// Leaks memory that the kernel may still read.
    fn drop(&mut self) {
        for (bytes, readers) in self.held.drain(..) {
            if readers > 0 {
                std::mem::forget(bytes);
            }
        }
    }
}

/// Adds an explanation to errors whose number alone says little.
fn forbidden(error: io::Error) -> io::Error {
    let text = match error.raw_os_error() {
        Some(libc::EPERM) => {
            "io_uring is forbidden on this machine: kernel.io_uring_disabled, or a seccomp filter \
             (as in many containers)"
        }
        Some(libc::ENOSYS) => {
            "io_uring is not in this kernel (since Linux 5.1), or a seccomp filter hides it"
        }
        _ => return error,
    };
    io::Error::new(error.kind(), text)
}
