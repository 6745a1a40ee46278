//! The threads that transcode, apart from those that send media.

use std::io;
use std::sync::Arc;
use std::thread::{self, JoinHandle};

use glassline_transcode::Settings;

use super::transcoders::{Limits, Transcoders, VIDEO_STREAMS_MAX};
use super::worker::Worker;
use crate::runtime::{Part, Supervisor, Waker};

/// Jobs of audio that one thread can do with a part of a core, as 1 % of a core each is the aim.
const JOBS_OF_THREAD: usize = 64;

/// Most threads of audio: beyond that, transcoding would take the cores from media.
const THREADS_MAX: usize = 8;

/// The running threads.
#[derive(Debug)]
pub(crate) struct TranscodingThreads {
    transcoders: Arc<Transcoders>,
    threads: Vec<JoinHandle<()>>,
}

impl TranscodingThreads {
    /// Starts the threads for at most as many jobs at the same time as `limits` say; none for a kind
    /// that is not transcoded.
    ///
    /// # Errors
    /// Returns the system's error if it has no thread or descriptor left.
    pub(crate) fn start(
        limits: Limits,
        settings: Settings,
        supervisor: &Arc<Supervisor>,
    ) -> io::Result<(Arc<Transcoders>, Self)> {
        let audio = limits.audio.div_ceil(JOBS_OF_THREAD).min(THREADS_MAX);
        let count = audio + limits.video.min(VIDEO_STREAMS_MAX);
        let polls: Vec<_> = (0..count)
            .map(|_| {
                let poll = mio::Poll::new()?;
                let waker = Waker::new(&poll, mio::Token(0))?;
                Ok((poll, Arc::new(waker)))
            })
            .collect::<io::Result<_>>()?;
        let wakers = polls.iter().map(|(_, waker)| Arc::clone(waker)).collect();
        let transcoders = Arc::new(Transcoders::new(limits, settings, (wakers, audio)));
        let mut threads = Vec::new();
        for (index, (poll, waker)) in polls.into_iter().enumerate() {
            let name = format!("transcode-{index}");
            let (shared, watching) = (Arc::clone(&transcoders), Arc::clone(supervisor));
            let heartbeat = supervisor.register(Part::Transcoder, &name);
            let thread = thread::Builder::new().name(name).spawn(move || {
                let worker = Worker::new(index, (poll, waker), shared, &heartbeat);
                watching.run(worker, &heartbeat);
            })?;
            threads.push(thread);
        }
        let running = Self {
            transcoders: Arc::clone(&transcoders),
            threads,
        };
        Ok((transcoders, running))
    }

    /// Tells the threads to end.
    pub(crate) fn stop(&self) {
        self.transcoders.stop();
    }

    /// Waits for the threads to end.
    pub(crate) fn join(self) {
        for thread in self.threads {
            let _ = thread.join();
        }
    }
}

#[cfg(test)]
mod tests;
