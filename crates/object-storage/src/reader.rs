//! Parts of objects, which players ask for again and again: what was read last is kept.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use parking_lot::Mutex;

use crate::bucket::Bucket;
use crate::fault::CopyError;

/// Bytes that are kept together. The index at the end of a recording fits.
const BLOCK_BYTES: u64 = 256 << 10;

/// Blocks that are read at once where the block before was read, too.
const BLOCKS_AHEAD: u64 = 8;

/// Blocks that are kept: 64 MiB.
const BLOCKS_MAX: usize = 256;

/// Longest wait for a read: somebody waits for it.
const READ_WITHIN: Duration = Duration::from_secs(15);

/// Reads objects of a bucket in blocks, and keeps those that were read last.
#[derive(Debug)]
pub struct Reader {
    bucket: Arc<Bucket>,
    blocks: Mutex<VecDeque<Block>>,
}

#[derive(Debug)]
struct Block {
    key: String,
    number: u64,
    bytes: Bytes,
}

impl Reader {
    /// Creates a reader that has read nothing yet.
    pub fn new(bucket: Arc<Bucket>) -> Self {
        Self {
            bucket,
            blocks: Mutex::default(),
        }
    }

    /// Reads bytes of the object `key` at `offset`, which is within the object: as many as `buffer` has
    /// room for, or fewer. Returns their number.
    ///
    /// # Errors
    /// Returns [`CopyError`] if there is no such object, or if the storage fails or takes too long.
    pub async fn read_at(
        &self,
        key: &str,
        offset: u64,
        buffer: &mut [u8],
    ) -> Result<usize, CopyError> {
        let number = offset / BLOCK_BYTES;
        let block = match self.kept(key, number) {
            Some(block) => block,
            None => self.fetch(key, number).await?,
        };
        let at = usize::try_from(offset % BLOCK_BYTES).unwrap_or(usize::MAX);
        let rest = block.get(at..).unwrap_or_default();
        let length = rest.len().min(buffer.len());
        buffer[..length].copy_from_slice(&rest[..length]);
        Ok(length)
    }

    async fn fetch(&self, key: &str, number: u64) -> Result<Bytes, CopyError> {
        let goes_on = number.checked_sub(1).and_then(|it| self.kept(key, it));
        let wanted = if goes_on.is_some() { BLOCKS_AHEAD } else { 1 };
        let start = number * BLOCK_BYTES;
        let reading = self.bucket.read(key, start..start + wanted * BLOCK_BYTES);
        let read = tokio::time::timeout(READ_WITHIN, reading).await;
        let mut rest = read.map_err(|_| self.bucket.late(READ_WITHIN))??;
        let length = BLOCK_BYTES as usize;
        let first = rest.slice(..rest.len().min(length));
        let mut blocks = self.blocks.lock();
        for number in number.. {
            if rest.is_empty() {
                break;
            }
            blocks.push_back(Block {
                key: key.to_owned(),
                number,
                bytes: rest.split_to(rest.len().min(length)),
            });
        }
        let excess = blocks.len().saturating_sub(BLOCKS_MAX);
        blocks.drain(..excess);
        Ok(first)
    }

    fn kept(&self, key: &str, number: u64) -> Option<Bytes> {
        let blocks = self.blocks.lock();
        let mut newest = blocks.iter().rev();
        let block = newest.find(|it| it.number == number && it.key == key)?;
        Some(block.bytes.clone())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::storage::{Fault, Storage};

    #[tokio::test(start_paused = true)]
    async fn any_part_is_that_of_the_object_and_what_was_read_is_not_asked_for_again() {
        let storage = Storage::default();
        let whole: Vec<u8> = (0..5 * BLOCK_BYTES + 77)
            .map(|at| ((at * 31) ^ (at >> 13)) as u8)
            .collect();
        storage.put("site/f", whole.clone());
        let bucket = Bucket::over(&Storage::settings(), storage.clone()).expect("a bucket");
        let reader = Reader::new(Arc::new(bucket));
        for offset in [0, 100, BLOCK_BYTES - 1, BLOCK_BYTES, 5 * BLOCK_BYTES + 70] {
            let mut buffer = [0; 50];
            let read = reader
                .read_at("f", offset, &mut buffer)
                .await
                .expect("a read");
            let at = offset as usize;
            assert!(
                read > 0 && buffer[..read] == whole[at..at + read],
                "{offset}"
            );
        }
        // The first block, the five behind it at once.
        assert_eq!(storage.requests(), 2);
        storage.set(Some(Fault::Slow(Duration::from_secs(60))));
        let mut buffer = [0; 4];
        reader.read_at("f", 9, &mut buffer).await.expect("kept");
        let begin = tokio::time::Instant::now();
        let late = reader
            .read_at("g", 0, &mut buffer)
            .await
            .expect_err("too slow");
        assert!(late.to_string().contains("no answer within 15 s"), "{late}");
        assert!(begin.elapsed() <= READ_WITHIN + Duration::from_secs(1));
    }

    #[tokio::test(start_paused = true)]
    async fn a_reader_of_large_objects_keeps_a_bounded_part_of_them() {
        let storage = Storage::default();
        storage.put("site/f", vec![7; 400 * BLOCK_BYTES as usize]);
        let bucket = Bucket::over(&Storage::settings(), storage.clone()).expect("a bucket");
        let reader = Reader::new(Arc::new(bucket));
        for number in 0..400 {
            let mut buffer = [0; 1];
            let read = reader.read_at("f", number * BLOCK_BYTES, &mut buffer).await;
            assert_eq!((read.expect("a read"), buffer), (1, [7]));
        }
        let blocks = reader.blocks.lock();
        assert!(blocks.len() <= BLOCKS_MAX, "{}", blocks.len());
        assert!(storage.requests() < 60, "{}", storage.requests());
    }
}
