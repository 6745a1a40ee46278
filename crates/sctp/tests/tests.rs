//! Associations against each other and against other makes, in virtual time over
//! seeded networks that lose, reorder and repeat.

mod exchange;
mod network;
mod oracles;
mod peers;
