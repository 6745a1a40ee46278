/// Counters of a flow since its beginning, in bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Totals {
    /// Bytes sent, retransmissions included.
    pub sent: u64,
    /// Bytes acknowledged for the first time.
    pub delivered: u64,
    /// Bytes declared lost, including those that arrived later.
    pub lost: u64,
    /// Bytes declared lost that arrived later.
    pub spurious: u64,
}
