/// Most bytes of one piece.
const PIECE_MAX: usize = 4096;

/// The rest of an input.
pub(super) struct Input<'a>(pub(super) &'a [u8]);

impl<'a> Input<'a> {
    pub(super) const fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Returns the next byte; 0 at the end.
    pub(super) fn byte(&mut self) -> u8 {
        let Some((first, rest)) = self.0.split_first() else {
            return 0;
        };
        self.0 = rest;
        *first
    }

    /// Returns the next bytes, as many as the two before them say.
    pub(super) fn piece(&mut self) -> &'a [u8] {
        let count = usize::from(u16::from_be_bytes([self.byte(), self.byte()]));
        let count = (count % PIECE_MAX).min(self.0.len());
        let (piece, rest) = self.0.split_at(count);
        self.0 = rest;
        piece
    }

    /// Returns one of `known`, or a text from the input.
    pub(super) fn text(&mut self, known: &[&str]) -> String {
        match known.get(usize::from(self.byte()) % (known.len() + 1)) {
            Some(text) => (*text).to_owned(),
            None => String::from_utf8_lossy(self.piece()).into_owned(),
        }
    }
}
