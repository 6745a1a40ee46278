//! The ends of one upload, sans-IO: a publisher with a camera and a receiver that answers its
//! pings, each over a noq-proto connection, and competing bulk flows.

mod bulk;
mod camera;
mod credentials;
mod figures;
mod flows;
mod frames;
mod message;
mod meter;
mod node;
mod publisher;
mod receiver;
mod schedule;
mod wire;

pub(crate) use credentials::Credentials;
pub(crate) use figures::{DatagramCounts, Findings, in_mbps, mbps, millis};
pub(crate) use flows::{Flow, Sender, Upload};
pub(crate) use meter::Account;
pub(crate) use node::{Application, Node};
pub(crate) use publisher::Publisher;
pub(crate) use receiver::Receiver;
pub(crate) use wire::{Packets, Wire};
