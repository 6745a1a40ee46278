//! The threads that transcode, apart from those that send media.

use std::io;
use std::sync::Arc;
use std::thread::{self, JoinHandle};

use glassline_media::Kind;
use glassline_runtime::{Part, Supervisor, Waker};
use glassline_transcode::Settings;
use parking_lot::Mutex;

use super::transcoders::{Limits, Transcoders, VIDEO_STREAMS_MAX};
use super::worker::Worker;

/// Jobs of audio that one thread can do with a part of a core, as 1 % of a core each is the aim.
const JOBS_OF_THREAD: usize = 64;

/// Most threads of audio: beyond that, transcoding would take the cores from media.
const THREADS_MAX: usize = 8;

/// The running threads. Clones are of the same threads.
#[derive(Clone, Debug)]
pub struct TranscodingThreads {
    transcoders: Arc<Transcoders>,
    supervisor: Arc<Supervisor>,
    threads: Arc<Mutex<Vec<JoinHandle<()>>>>,
}

impl TranscodingThreads {
    /// Starts the threads for at most as many jobs at the same time as `limits` say; none for a kind
    /// that is not transcoded.
    ///
    /// # Errors
    /// Returns the system's error if it has no thread or descriptor left.
    pub fn start(
        limits: Limits,
        settings: Settings,
        supervisor: &Arc<Supervisor>,
    ) -> io::Result<(Arc<Transcoders>, Self)> {
        let transcoders = Arc::new(Transcoders::new(limits, settings));
        let running = Self {
            transcoders: Arc::clone(&transcoders),
            supervisor: Arc::clone(supervisor),
            threads: Arc::default(),
        };
        running.grow(limits)?;
        Ok((transcoders, running))
    }

    /// Starts the threads that `limits` need beyond those that run. The limits themselves stay as
    /// they are. A thread without work sleeps.
    ///
    /// # Errors
    /// Returns the system's error if it has no thread or descriptor left.
    pub fn grow(&self, limits: Limits) -> io::Result<()> {
        let mut threads = self.threads.lock();
        let audio = limits.audio.div_ceil(JOBS_OF_THREAD).min(THREADS_MAX);
        let video = limits.video.min(VIDEO_STREAMS_MAX);
        for (kind, wanted) in [(Kind::Audio, audio), (Kind::Video, video)] {
            for _ in self.transcoders.threads_of(kind)..wanted {
                let poll = mio::Poll::new()?;
                let waker = Arc::new(Waker::new(&poll, mio::Token(0))?);
                let number = threads.len();
                threads.push(self.spawn(kind, poll, waker, number)?);
            }
        }
        Ok(())
    }

    fn spawn(
        &self,
        kind: Kind,
        poll: mio::Poll,
        waker: Arc<Waker>,
        number: usize,
    ) -> io::Result<JoinHandle<()>> {
        let name = format!("transcode-{number}");
        let (shared, watching) = (Arc::clone(&self.transcoders), Arc::clone(&self.supervisor));
        let heartbeat = self.supervisor.register(Part::Transcoder, &name);
        let of_thread = Arc::clone(&waker);
        // The lock of the threads is held, so the number is the one that `add_thread` gives.
        let thread = thread::Builder::new().name(name).spawn(move || {
            let worker = Worker::new(number, poll, of_thread, shared, &heartbeat);
            watching.run(worker, &heartbeat);
        })?;
        self.transcoders.add_thread(kind, waker);
        Ok(thread)
    }

    /// Tells the threads to end.
    pub fn stop(&self) {
        self.transcoders.stop();
    }

    /// Waits for the threads to end.
    pub fn join(self) {
        let threads = std::mem::take(&mut *self.threads.lock());
        for thread in threads {
            let _ = thread.join();
        }
    }
}

#[cfg(test)]
mod tests;
