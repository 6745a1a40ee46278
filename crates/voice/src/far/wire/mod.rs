//! Records as bytes: what one message of the reliable channel is.
//!
//! ```text
//! message   version (1) · 1 · flags                              hello; flag 1: tell me your records, 2: say hello
//!           version (1) · 2 · dropped · base · record, record …  at most 1,024
//! record    1 spoken · 2 heard · 3 came again · 4 capture called · 5 playout called, then its fields
//! ```
//!
//! Numbers are LEB128, signed ones zigzag. A time is the difference from the one before it
//! in the message, in nanoseconds; the first is from `base`, which is since the teller's
//! epoch. What rarely changes is told as the difference from the record before: a frame
//! takes about 40 bytes.
//!
//! Whatever is outside of its bounds makes the whole message [`Malformed`].

mod form;
mod read;
mod write;

pub use form::{MESSAGE_BYTES_MAX, Malformed, Message, VERSION};
pub use read::parse;
pub use write::{Unwritten, Writer, hello};
