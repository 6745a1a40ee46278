//! The two threads of a folder: one writes, one brings files to the disk.

use std::fmt;
use std::io;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use glassline_runtime::{Heartbeat, Part, Supervisor};

use super::disk_meter::DiskMeter;
use super::folder_writer::FolderWriter;
use super::job_queue::JobQueue;
use super::sync_job::SyncJob;

/// Longest wait for a job: syncs are due, and the thread shows that it lives.
const TURN: Duration = Duration::from_millis(250);

/// Interval at which a thread that should end is looked at.
const LOOK: Duration = Duration::from_millis(10);

/// The threads of a folder.
pub(crate) struct WriterThreads {
    queue: Arc<JobQueue>,
    meters: [Arc<Mutex<DiskMeter>>; 2],
    threads: Vec<JoinHandle<()>>,
}

impl WriterThreads {
    /// Starts the threads; `name` tells those of several folders apart.
    ///
    /// # Errors
    /// Returns the system's error if it has no thread to give.
    pub(crate) fn start(
        writer: FolderWriter,
        queue: Arc<JobQueue>,
        name: &str,
        supervisor: &Arc<Supervisor>,
    ) -> io::Result<Self> {
        let meter = || Arc::new(Mutex::new(DiskMeter::new(Instant::now())));
        let meters = [meter(), meter()];
        let [of_writes, of_syncs] = meters.clone();
        let (syncs, due) = channel();
        let writing = WritingThread {
            writer,
            queue: Arc::clone(&queue),
            meter: of_writes,
            syncs,
        };
        let run = {
            let (name, supervisor) = (format!("record-{name}"), Arc::clone(supervisor));
            move || {
                let heartbeat = supervisor.register(Part::Recording, &name);
                writing.run(&supervisor, &heartbeat);
            }
        };
        let writing = std::thread::Builder::new().name(format!("record-{name}"));
        let writing = writing.spawn(run)?;
        let run = {
            let (name, supervisor) = (format!("sync-{name}"), Arc::clone(supervisor));
            move || {
                let heartbeat = supervisor.register(Part::Recording, &name);
                sync(&due, &of_syncs, &supervisor, &heartbeat);
            }
        };
        let syncing = std::thread::Builder::new().name(format!("sync-{name}"));
        let syncing = syncing.spawn(run)?;
        Ok(Self {
            queue,
            meters,
            threads: vec![writing, syncing],
        })
    }

    /// Returns the part of the last ten seconds, of 1, in which the disk worked: by writes or by syncs,
    /// whichever is more.
    pub(crate) fn disk_share(&self, now: Instant) -> f64 {
        let shares = self.meters.iter().map(|it| lock(it).share(now));
        shares.fold(0.0, f64::max)
    }

    /// Returns the sum of the time for which the threads waited for the disk: writes, then syncs.
    pub(crate) fn disk_time(&self, now: Instant) -> [Duration; 2] {
        self.meters.each_ref().map(|it| lock(it).total(now))
    }

    /// Writes what is queued, ends all files, and returns within `grace`: a disk that hangs keeps nobody.
    pub(crate) fn stop(self, grace: Duration) {
        self.queue.close();
        let deadline = Instant::now() + grace;
        for thread in self.threads {
            while !thread.is_finished() && Instant::now() < deadline {
                std::thread::sleep(LOOK);
            }
            if thread.is_finished() {
                let _ = thread.join();
            } else {
                tracing::warn!("a disk with recordings does not answer: its newest files end as after a crash");
            }
        }
    }
}

/// The thread that writes.
struct WritingThread {
    writer: FolderWriter,
    queue: Arc<JobQueue>,
    meter: Arc<Mutex<DiskMeter>>,
    syncs: Sender<SyncJob>,
}

impl WritingThread {
    fn run(mut self, supervisor: &Supervisor, heartbeat: &Heartbeat) {
        loop {
            heartbeat.beat();
            let job = self.queue.take(TURN);
            lock(&self.meter).begin(Instant::now());
            // A panic costs the files that it leaves open: they end as after a crash.
            let done = supervisor.catch(Part::Recording, || {
                if let Some(job) = job {
                    self.writer.run(job);
                }
                self.writer.tick();
            });
            let is_over = self.queue.is_over();
            if is_over || done.is_err() {
                let _ = supervisor.catch(Part::Recording, || self.writer.end_all());
            }
            lock(&self.meter).end(Instant::now());
            for sync in self.writer.take_syncs() {
                // The other thread lives as long as this one.
                let _ = self.syncs.send(sync);
            }
            if is_over {
                return;
            }
        }
    }
}

/// Brings files to the disk until the other thread has ended.
fn sync(
    due: &Receiver<SyncJob>,
    meter: &Mutex<DiskMeter>,
    supervisor: &Supervisor,
    heartbeat: &Heartbeat,
) {
    use std::sync::mpsc::RecvTimeoutError;
    loop {
        heartbeat.beat();
        match due.recv_timeout(TURN) {
            Ok(job) => {
                lock(meter).begin(Instant::now());
                let _ = supervisor.catch(Part::Recording, || job.run());
                lock(meter).end(Instant::now());
            }
            Err(RecvTimeoutError::Timeout) => {}
            Err(RecvTimeoutError::Disconnected) => return,
        }
    }
}

impl fmt::Debug for WriterThreads {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("WriterThreads").finish_non_exhaustive()
    }
}

fn lock<T>(mutex: &Mutex<T>) -> std::sync::MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
