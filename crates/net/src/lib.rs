//! Socket system calls: segmentation offload, batched receive, shared ports.
//!
//! ```text
//! shard ─ &[Transmit] ─► UdpSocket::send_batch ─ sendmmsg, UDP_SEGMENT ─► kernel
//! shard ◄─ Datagram ──── ReceiveBatch ◄──────── recvmmsg, packet info ──  kernel
//! ```
//!
//! Everything is non-blocking and returns what the kernel did: how much of a batch it
//! accepted and why it stopped. Nothing here queues, retries or knows a protocol. The
//! `unsafe` code for datagrams is in the module `sys`, that for connections in `stream`; others
//! have their own: the limit of descriptors in `descriptors`, the choice of processors in
//! `affinity`, the addresses of this machine in `interfaces`, what its interfaces do in
//! `offload`, its clock in `clock`, its disks in `disk`.
//!
//! Linux has every feature. Elsewhere the same interface sends and receives one datagram per
//! call and does not choose the source address.

#![cfg_attr(
    test,
    expect(clippy::disallowed_methods, reason = "tests wait for loopback")
)]

mod affinity;
mod bind;
mod clock;
mod descriptors;
mod disk;
mod interfaces;
mod named_pipe;
mod offload;
mod options;
mod priority;
mod process;
mod receive;
mod send;
mod socket;
#[cfg_attr(not(target_os = "linux"), path = "stream_portable.rs")]
pub mod stream;
#[cfg_attr(not(target_os = "linux"), path = "sys_portable.rs")]
mod sys;
mod tcp;

pub use affinity::run_where;
pub use bind::{BindError, port_is_free};
pub use clock::{ClockDiscipline, clock_discipline};
pub use descriptors::{descriptor_limit, is_descriptor_shortage, raise_descriptor_limit};
pub use disk::{DiskSpace, disk_space};
pub use interfaces::{InterfaceAddress, host_name, interface_addresses};
pub use named_pipe::{is_named_pipe, open_named_pipe};
pub use offload::{InterfaceOffload, OffloadState, interface_offloads};
pub use options::{Multicast, Options};
pub use priority::lower_thread_priority;
pub use process::{
    idle_heap_bytes, isolate, kill_process_group, open_fds, private_bytes, process_cpu,
    release_free_memory, return_large_blocks, rss_bytes, terminate_process_group, thread_cpu,
};
pub use receive::{DATAGRAM_BYTES_MAX, Datagram, ReceiveBatch};
pub use send::{
    PathError, PathErrorKind, SEGMENTED_BYTES_MAX, SEGMENTS_MAX, SendError, Sent, Transmit,
};
pub use socket::{UdpSocket, gso_supported};
pub use tcp::{listen, refuse, set_unsent_limit, tcp_port_is_free, unacknowledged_bytes};
