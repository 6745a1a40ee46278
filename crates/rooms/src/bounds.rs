/// Limits on rooms and participants.
#[derive(Clone, Copy, Debug)]
pub struct Bounds {
    /// Most rooms with participants.
    pub rooms: usize,
    /// Most participants of one room.
    pub participants: usize,
}
