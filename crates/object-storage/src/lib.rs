//! Copies of files in object storage that speaks S3.
//!
//! ```text
//! CopyQueue (of whoever has the files) ──► Copier ──► Bucket::put_file ──► parts of 8 MiB ──► S3
//!      ▲ copied, not copied                  │ waits longer after each failure
//!      └─────────────────────────────────────┘                Bucket::read ◄── Reader ◄── playback
//! ```
//!
//! A copy counts once the storage has checked the SHA-256 of each part and has told the length of the
//! whole. The queue is the caller's and lasts, so a restart loses no file. An upload takes constant
//! memory. `object_store` signs and speaks S3; the connections are those of [`HttpClient`], and no
//! other crate knows `object_store`.
//!
//! [`HttpClient`]: glassline_access::outbound::HttpClient

#![expect(
    clippy::disallowed_methods,
    reason = "a shell: it reads the clock to time uploads"
)]

mod backoff;
mod bucket;
mod connector;
mod copier;
mod fault;
mod reader;
#[cfg(test)]
mod storage;

pub use bucket::{Bucket, BucketSettings, Copied};
pub use copier::{Copier, CopyFigures, CopyQueue, Pending, Trouble};
pub use fault::CopyError;
pub use reader::Reader;
