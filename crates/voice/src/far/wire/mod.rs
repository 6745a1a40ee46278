//! Wire format of records: the messages of the reliable channel.
//!
//! ```text
//! message   version (1) · 1 · flags                              hello; flag 1: send me your records, 2: send a hello
//!           version (1) · 2 · dropped · base · record, record …  at most 1,024
//! record    1 sent · 2 played · 3 duplicate · 4 capture callback · 5 playout callback, then its fields
//! ```
//!
//! Numbers are LEB128, signed ones zigzag. A time is the difference from the previous time in
//! the message, in nanoseconds; the first is relative to `base`, which counts from the
//! sender's epoch. Values that seldom change are differences from the previous record: a
//! frame takes about 40 bytes.
//!
//! A value outside its bounds makes the whole message [`Malformed`].

mod form;
mod read;
mod write;

pub use form::{MESSAGE_BYTES_MAX, Malformed, Message, VERSION};
pub use read::parse;
pub use write::{Unwritten, Writer, hello};
