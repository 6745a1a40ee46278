//! The system calls for Linux.

#![expect(
    unsafe_code,
    reason = "sendmmsg, recvmmsg and control messages have no safe interface in std"
)]

mod datagrams;
mod errors;
mod fit;
mod name;
mod process;
mod result;
mod socket;

pub(crate) use datagrams::{receive, send, take_error};
pub(crate) use errors::{
    is_no_buffers, is_offload_absent, is_offload_refused, is_too_large, may_be_of_another,
};
pub(crate) use name::Name;
pub(crate) use process::{
    allocated_bytes_modulo, isolate, kill_process_group, map_large_blocks, page_bytes, process_cpu,
    release_free_memory, terminate_process_group, thread_cpu,
};
pub(crate) use socket::{
    bind, listen, receive_buffer, reset_on_close, send_buffer, set_unsent_limit,
    unacknowledged_bytes,
};
