/// What became of a flow's packets, in bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Totals {
    /// Sent.
    pub sent: u64,
    /// Acknowledged.
    pub delivered: u64,
    /// Declared lost, those counted that came after all.
    pub lost: u64,
    /// Declared lost and yet arrived.
    pub spurious: u64,
}
