//! Whole clusters in virtual time: who owns which name, and where viewers and pulls go.

mod balance;
mod ownership;
mod placing;
