//! Associations against each other and against other makes, in virtual time over
//! seeded networks that lose, reorder and repeat.

#![expect(
    clippy::disallowed_methods,
    reason = "a test may anchor virtual time anywhere"
)]

mod exchange;
mod network;
mod oracles;
mod peers;
