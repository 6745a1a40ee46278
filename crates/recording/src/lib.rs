//! Recordings: streams written to disk as CMAF files, kept for as long as rules say, and found again.
//!
//! Writers have threads of their own and bounded queues, so that a slow disk delays no viewer. The files
//! are the truth; the catalogue is an index of them and can be made anew.
