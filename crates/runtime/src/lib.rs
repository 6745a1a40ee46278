//! The parts that every polling thread needs, independent of the protocol that it serves.
//!
//! ```text
//!  hub ─ wake ─► StreamWaker ─► Waker ─► the thread's poll
//!  hub ─ units ─► StreamSubscription: read once for all receivers of the thread
//!  other threads ─ CommandSender ─► the thread's inbox, bounded
//!  Slots: the receivers served here, by stable keys    Timers: when each is due
//!  Supervisor: goes on after a panic, and knows which thread makes progress
//! ```
//!
//! Nothing here knows a protocol or a session: the modules above do.

// This crate is outside the sans-IO cores: threads wait and limits end by the clock.
#![expect(
    clippy::disallowed_methods,
    reason = "the shell reads the clock for the cores"
)]

mod accept_outage;
mod awaited_tracks;
mod blocking_pool;
pub mod calendar;
mod clock;
mod command_sender;
mod connection_limit;
mod counter;
mod current;
mod descriptor_budget;
mod fair_places;
mod free_memory;
mod hub_events;
mod network;
mod newcomers;
pub mod private_file;
mod session_id;
mod shrink;
mod slots;
pub mod small_file;
mod source_prefix;
mod source_rates;
mod strangers_text;
mod subscription;
mod supervision;
mod task_waker;
mod timers;
mod token_bucket;
mod waker;

pub use accept_outage::{AcceptOutage, SpareDescriptor, refuse_connection};
pub use awaited_tracks::{await_tracks, may_come};
pub use blocking_pool::{BlockingPlace, BlockingPool, resolve};
pub use clock::Clock;
pub use command_sender::CommandSender;
pub use connection_limit::{ConnectionLimit, ConnectionPermit, ConnectionRefusal};
pub use counter::Counter;
pub use current::Current;
pub use descriptor_budget::DescriptorBudget;
pub use fair_places::{FairPlace, FairPlaces};
pub use free_memory::FreeMemory;
pub use hub_events::HubEvents;
pub use network::{Network, NetworkError};
pub use newcomers::{Arrival, Newcomers};
pub use session_id::SessionId;
pub use shrink::shrink;
pub use slots::{Key, Slots};
pub use source_prefix::SourcePrefix;
pub use source_rates::SourceRates;
pub use strangers_text::{escaped_json, is_deceptive};
pub use subscription::StreamSubscription;
#[cfg(debug_assertions)]
pub use supervision::Fault;
pub use supervision::Panicked;
pub use supervision::{
    FaultPoint, Heartbeat, NamedTask, Part, PartCounters, PollingThread, ServedPeer, Serving,
    Supervisor, ThreadProgress, Turn, catch, keep_running, run_once, spawn_kept,
};
pub use task_waker::TaskWaker;
pub use timers::Timers;
pub use token_bucket::TokenBucket;
pub use waker::{StreamWaker, Waker};
