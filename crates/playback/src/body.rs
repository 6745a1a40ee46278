//! The bytes of an answer, read while the client takes them.

use std::io;
use std::ops::Range;
use std::sync::Arc;

use bytes::Bytes;
use futures_util::future::select_all;
use futures_util::stream;
use glassline_runtime::{Counter, FairPlace, SourcePrefix};

use super::assembly::Assembly;
use super::pools::Pools;
use super::{NoFootage, Playback};

/// Bytes that are read at once.
const CHUNK_BYTES: u64 = 256 << 10;

/// A part of an assembly that is being read.
#[derive(Debug)]
pub struct Body {
    assembly: Arc<Assembly>,
    left: Range<u64>,
    pools: Arc<Pools>,
    /// A place among the bodies, and one for each MiB of memory.
    places: Vec<FairPlace<SourcePrefix>>,
    bytes: Arc<Counter>,
}

impl Playback {
    /// Returns a place among those who read what was recorded, for a client of the network `client`.
    ///
    /// # Errors
    /// Returns [`NoFootage::Crowded`] if the client reads as much as it may.
    pub fn place(&self, client: SourcePrefix) -> Result<FairPlace<SourcePrefix>, NoFootage> {
        self.places.admit(&client).ok_or(NoFootage::Crowded)
    }

    /// Begins to read `part` of an assembly for a client of the network `client`.
    ///
    /// # Errors
    /// Returns [`NoFootage::Crowded`] if the client reads as much as it may, or what it reads takes as much
    /// memory as it may.
    pub fn read(
        &self,
        assembly: Assembly,
        part: Range<u64>,
        client: SourcePrefix,
    ) -> Result<Body, NoFootage> {
        let mut places = vec![self.place(client)?];
        for _ in 0..assembly.memory() >> 20 {
            let place = self.memory.admit(&client);
            places.push(place.ok_or(NoFootage::Crowded)?);
        }
        self.bodies.add(1);
        Ok(Body {
            pools: Arc::clone(&self.pools),
            assembly: Arc::new(assembly),
            left: part,
            places,
            bytes: Arc::clone(&self.bytes),
        })
    }
}

impl Body {
    /// Returns the chunks. A client that goes away drops them, and with them the place.
    pub fn into_chunks(self) -> impl stream::Stream<Item = io::Result<Bytes>> + Send {
        stream::unfold(self, |mut body| async {
            if body.left.is_empty() {
                return None;
            }
            let read = tokio::select! {
                read = body.next() => read,
                () = body.displaced() => Err(io::Error::other(
                    "another address needed the place, because this one has more of them",
                )),
            };
            match &read {
                Ok(chunk) => {
                    body.left.start += chunk.len() as u64;
                    body.bytes.add(chunk.len() as u64);
                }
                Err(error) => {
                    tracing::warn!(%error, "a recording that somebody reads broke off");
                    body.left = 0..0;
                }
            }
            Some((read, body))
        })
    }

    /// Waits until another address needs one of the places.
    async fn displaced(&self) {
        let places = self.places.iter();
        select_all(places.map(|it| Box::pin(it.displaced()))).await;
    }

    async fn next(&self) -> io::Result<Bytes> {
        let (assembly, left) = (Arc::clone(&self.assembly), self.left.clone());
        let threads = self.pools.of(assembly.origin_at(left.start));
        let reading = threads.reads.run(move || assembly.read(&left, CHUNK_BYTES));
        let read = reading.await.map_err(io::Error::other)??;
        Ok(read.into())
    }
}
