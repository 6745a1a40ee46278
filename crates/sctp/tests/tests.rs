//! Tests of associations against each other and against other implementations, in virtual
//! time over seeded networks that lose, reorder and duplicate packets.

mod bursts;
mod exchange;
mod late_reader;
mod network;
mod oracles;
mod peers;
