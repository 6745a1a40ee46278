use std::collections::VecDeque;
use std::io;
use std::net::TcpStream;
use std::os::fd::AsRawFd as _;

use super::{FLAGS, Shared, fit, sent, set};

/// Sends of one connection that the kernel makes from the caller's memory (`MSG_ZEROCOPY`),
/// and the memory that it may still read. Memory whose release the kernel has not reported is
/// leaked when this is dropped: [`reap`](Self::reap) until nothing is [under
/// way](Self::under_way).
///
/// The kernel counts such sends per socket from 0, and reports completed ones as ranges of
/// these numbers through the socket's error queue.
#[derive(Debug)]
pub(crate) struct ZeroCopy {
    /// Number of the next send.
    next: u32,
    /// Numbers and memory of sends that are not completed, rising.
    held: VecDeque<(u32, Shared)>,
}

/// Result of reading the error queue once.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Reaped {
    /// Sends that are completed.
    pub(crate) completed: u32,
    /// Completed sends that the kernel copied after all (`SO_EE_CODE_ZEROCOPY_COPIED`), as
    /// it does for every receiver on loopback.
    pub(crate) copied: u32,
}

/// Origin of notices about zero-copy sends: `SO_EE_ORIGIN_ZEROCOPY` of `linux/errqueue.h`.
const ORIGIN_ZEROCOPY: u8 = 5;
/// Code of sends that were copied after all: `SO_EE_CODE_ZEROCOPY_COPIED` of `linux/errqueue.h`.
const CODE_ZEROCOPY_COPIED: u8 = 1;

impl ZeroCopy {
    /// Enables sends without a copy on `socket`, which must have made none before.
    ///
    /// # Errors
    /// On a kernel before 4.14.
    pub(crate) fn enable(socket: &TcpStream) -> io::Result<Self> {
        set(socket, libc::SOL_SOCKET, libc::SO_ZEROCOPY, 1)?;
        Ok(Self {
            next: 0,
            held: VecDeque::new(),
        })
    }

    /// Sends `bytes` from `offset` on.
    ///
    /// # Errors
    /// `ENOBUFS`, among others, if more is under way than the socket may have
    /// (`net.core.optmem_max`).
    pub(crate) fn send(
        &mut self,
        socket: &TcpStream,
        bytes: &Shared,
        offset: usize,
    ) -> io::Result<usize> {
        let part = &bytes[offset..];
        let flags = FLAGS | libc::MSG_ZEROCOPY;
        // SAFETY: the kernel reads `part` until it says that it is done; until then
        // `held` keeps it, and nobody writes to what is shared.
        let result = sent(unsafe {
            libc::send(socket.as_raw_fd(), part.as_ptr().cast(), part.len(), flags)
        });
        if result.as_ref().is_ok_and(|count| *count > 0) {
            self.held.push_back((self.next, Shared::clone(bytes)));
            self.next = self.next.wrapping_add(1);
        }
        result
    }

    /// Returns the number of sends whose memory is still held.
    pub(crate) fn under_way(&self) -> usize {
        self.held.len()
    }

    /// Reads one notification from the error queue, which may concern many sends, and
    /// releases their memory; `None` if there is none.
    pub(crate) fn reap(&mut self, socket: &TcpStream) -> io::Result<Option<Reaped>> {
        let Some((first, last, was_copied)) = notification(socket)? else {
            return Ok(None);
        };
        let span = last.wrapping_sub(first);
        let before = self.held.len();
        self.held
            .retain(|(number, _)| number.wrapping_sub(first) > span);
        let completed = u32::try_from(before - self.held.len()).unwrap_or(u32::MAX);
        Ok(Some(Reaped {
            completed,
            copied: if was_copied { completed } else { 0 },
        }))
    }
}

impl Drop for ZeroCopy {
    /// Leaks memory that the kernel may still read: a closed socket goes on sending what was
    /// handed to it.
    fn drop(&mut self) {
        for (_, bytes) in self.held.drain(..) {
            std::mem::forget(bytes);
        }
    }
}

/// Buffer for one `sock_extended_err` with the address behind it.
#[repr(C, align(8))]
struct Control([u8; 128]);

/// Returns the first and last number of the completed sends, and whether they were copied.
fn notification(socket: &TcpStream) -> io::Result<Option<(u32, u32, bool)>> {
    let mut control = Control([0; 128]);
    // SAFETY: all-zero is a valid header without name, parts and control.
    let mut header: libc::msghdr = unsafe { std::mem::zeroed() };
    header.msg_control = control.0.as_mut_ptr().cast();
    header.msg_controllen = fit(control.0.len());
    let flags = libc::MSG_ERRQUEUE | libc::MSG_DONTWAIT;
    // SAFETY: the header has no name and no parts, and `control` outlives the call.
    match sent(unsafe { libc::recvmsg(socket.as_raw_fd(), &raw mut header, flags) }) {
        Ok(_) => {}
        Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Ok(None),
        Err(error) => return Err(error),
    }
    // SAFETY: the kernel wrote the control buffer and its length, so that the macros
    // walk within it; the payload is read unaligned and only if it is long enough.
    unsafe {
        let mut message = libc::CMSG_FIRSTHDR(&raw const header);
        while let Some(head) = message.as_ref() {
            let wanted = libc::CMSG_LEN(size_of::<libc::sock_extended_err>() as libc::c_uint);
            if fit::<_, usize>(head.cmsg_len) >= wanted as usize {
                let error: libc::sock_extended_err =
                    std::ptr::read_unaligned(libc::CMSG_DATA(message).cast());
                if error.ee_origin == ORIGIN_ZEROCOPY {
                    let was_copied = error.ee_code & CODE_ZEROCOPY_COPIED != 0;
                    return Ok(Some((error.ee_info, error.ee_data, was_copied)));
                }
            }
            message = libc::CMSG_NXTHDR(&raw const header, message);
        }
    }
    Ok(None)
}
