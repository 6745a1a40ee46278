//! Sends one stream to one WebRTC viewer: what is sent next, when, and under which numbers.

mod counters;
mod delivery;
mod frame_log;
mod layer_choice;
mod outbox;
mod pacer;
mod protection;
mod ramp;
mod redundancy;
mod stream_sender;
mod track_sender;

pub use counters::SendCounters;
pub use delivery::Delivery;
pub use layer_choice::{LayerRequest, Reason};
pub use outbox::{Outbox, Route, Sink, TcpConnection, TcpConnections};
pub use pacer::is_spread;
pub use stream_sender::{LayerReport, Nack, ReceptionReport, StreamSender};
