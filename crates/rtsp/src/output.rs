use crate::interleaved;

/// Bytes that wait for the socket.
#[derive(Debug, Default)]
pub(crate) struct Output {
    buffer: Vec<u8>,
    sent: usize,
}

/// Most bytes that may wait: a peer with more of them sends requests but reads no responses.
const WAITING_BYTES_MAX: usize = 64 << 10;

/// Capacity that is kept while nothing waits, in bytes: about one response. Descriptions are
/// longer, and a connection needs them once.
const KEPT_BYTES: usize = 512;

impl Output {
    pub(crate) fn bytes(&self) -> &[u8] {
        &self.buffer[self.sent..]
    }

    /// Returns the bytes allocated for the output.
    #[cfg(test)]
    pub(crate) fn capacity(&self) -> usize {
        self.buffer.capacity()
    }

    pub(crate) fn advance(&mut self, count: usize) {
        self.sent = (self.sent + count).min(self.buffer.len());
        if self.sent == self.buffer.len() {
            self.buffer.clear();
            self.sent = 0;
            if self.buffer.capacity() > KEPT_BYTES {
                self.buffer = Vec::new();
            }
        }
    }

    /// Appends what `write` writes. Returns false, and appends nothing, if too many bytes wait.
    pub(crate) fn push(&mut self, write: impl FnOnce(&mut Vec<u8>)) -> bool {
        if self.bytes().len() > WAITING_BYTES_MAX {
            return false;
        }
        self.buffer.drain(..self.sent);
        self.sent = 0;
        write(&mut self.buffer);
        true
    }

    pub(crate) fn push_frame(&mut self, channel: u8, payload: &[u8]) -> bool {
        let mut fits = true;
        let taken = self.push(|out| fits = interleaved::write_frame(out, channel, payload));
        taken && fits
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_peer_that_reads_nothing_gets_64_kib_and_the_response_that_passes_them() {
        let mut output = Output::default();
        assert!(output.push(|out| out.resize(WAITING_BYTES_MAX, 7)));
        assert!(output.push(|out| out.push(8)), "just full");
        assert!(!output.push(|_| panic!("nothing may be written")));
        assert!(!output.push_frame(0, b"frame"));
        assert_eq!(output.bytes().len(), WAITING_BYTES_MAX + 1);
        output.advance(WAITING_BYTES_MAX);
        assert_eq!(output.bytes(), [8]);
        assert!(output.push_frame(2, b"ab"), "there is room again");
        assert_eq!(output.bytes(), b"\x08$\x02\0\x02ab");
        output.advance(100);
        assert!(output.bytes().is_empty());
        assert!(output.capacity() <= KEPT_BYTES);
    }
}
