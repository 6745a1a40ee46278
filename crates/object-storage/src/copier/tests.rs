use std::collections::VecDeque;
use std::fs;

use super::*;
use crate::bucket::Bucket;
use crate::storage::{Fault, Storage};

/// Attempts with a file itself, after which the queue gives it up.
const FAILURES_MAX: u32 = 3;

/// A queue in memory.
#[derive(Default)]
struct Queue {
    waiting: Mutex<VecDeque<(u32, Pending)>>,
    copied: Mutex<Vec<String>>,
    given_up: Mutex<Vec<String>>,
}

impl Queue {
    fn leave(&self, pending: &Pending) -> u32 {
        let first = self.waiting.lock().pop_front();
        let (failures, first) = first.expect("a file");
        assert_eq!(first, *pending);
        failures
    }
}

impl CopyQueue for Queue {
    fn next(&self) -> Result<Option<Pending>, String> {
        let waiting = self.waiting.lock();
        Ok(waiting.front().map(|(_, pending)| pending.clone()))
    }

    fn copied(&self, pending: &Pending) -> Result<(), String> {
        self.leave(pending);
        self.copied.lock().push(pending.key.clone());
        Ok(())
    }

    fn not_copied(&self, pending: &Pending) -> Result<(), String> {
        let failures = self.leave(pending) + 1;
        match failures == FAILURES_MAX {
            true => self.given_up.lock().push(pending.key.clone()),
            false => {
                let mut waiting = self.waiting.lock();
                waiting.push_back((failures, pending.clone()));
            }
        }
        Ok(())
    }
}

/// Files that wait, a storage, and what copies them.
struct Scene {
    folder: PathBuf,
    storage: Storage,
    queue: Arc<Queue>,
    copier: Arc<Copier<Queue>>,
}

impl Drop for Scene {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.folder);
    }
}

impl Scene {
    fn new(name: &str) -> Self {
        let name = format!("glassline-copier-{name}-{}", std::process::id());
        let folder = std::env::temp_dir().join(name);
        fs::create_dir_all(&folder).expect("a folder");
        let storage = Storage::default();
        let queue = Arc::new(Queue::default());
        let bucket = Bucket::over(&Storage::settings(), storage.clone()).expect("a bucket");
        let copier = Arc::new(Copier::new(queue.clone(), Arc::new(bucket)));
        let running = copier.clone();
        tokio::spawn(async move { running.run().await });
        Self {
            folder,
            storage,
            queue,
            copier,
        }
    }

    fn add(&self, number: u8, bytes: usize) {
        let path = self.folder.join(format!("{number}.mp4"));
        if bytes > 0 {
            fs::write(&path, vec![number; bytes]).expect("a file");
        }
        let key = format!("cam/{number}.mp4");
        let mut waiting = self.queue.waiting.lock();
        waiting.push_back((0, Pending { path, key }));
    }

    fn copied(&self) -> Vec<String> {
        self.queue.copied.lock().clone()
    }
}

const HOUR: Duration = Duration::from_secs(3_600);

#[tokio::test(start_paused = true)]
async fn a_storage_that_is_away_or_fails_for_an_hour_gets_every_file_afterwards() {
    for (number, fault) in [Fault::Away, Fault::Answers(500), Fault::Answers(403)]
        .into_iter()
        .enumerate()
    {
        let scene = Scene::new(&format!("away-{number}"));
        for number in 0..5 {
            scene.add(number, if number == 3 { 0 } else { 1_000 });
        }
        scene.storage.set(Some(fault));
        tokio::time::sleep(HOUR).await;
        assert!(scene.copied().is_empty());
        let trouble = scene.copier.figures().trouble.expect("it does not work");
        let reason = trouble.reason;
        assert!(reason.contains("0.mp4 waits for its copy"), "{reason}");
        let requests = scene.storage.requests();
        assert!(requests < 60 * 4, "{requests} requests in an hour");
        scene.storage.set(None);
        tokio::time::sleep(Duration::from_secs(300)).await;
        assert_eq!(
            scene.copied(),
            [0, 1, 2, 4].map(|it| format!("cam/{it}.mp4"))
        );
        let given_up = scene.queue.given_up.lock().clone();
        assert_eq!(given_up, ["cam/3.mp4"], "the file is gone");
        let figures = scene.copier.figures();
        assert_eq!((figures.files, figures.bytes), (4, 4_000));
        // A file that comes later is found.
        scene.add(9, 10);
        tokio::time::sleep(Duration::from_secs(90)).await;
        assert!(scene.storage.object("site/cam/9.mp4").is_some());
        assert_eq!(scene.copier.figures().trouble, None);
    }
}

#[tokio::test(start_paused = true)]
async fn a_storage_that_loses_a_part_is_sent_the_file_until_it_has_all_of_it() {
    let scene = Scene::new("loses");
    scene.add(1, 10 << 20);
    scene.storage.set(Some(Fault::LosesAPart));
    tokio::time::sleep(Duration::from_secs(5)).await;
    assert!(scene.copied().is_empty(), "what is not whole is no copy");
    let trouble = scene.copier.figures().trouble.expect("a part is lost");
    assert!(
        trouble.reason.contains("which has 10485760"),
        "{}",
        trouble.reason
    );
    scene.storage.set(None);
    tokio::time::sleep(Duration::from_secs(30)).await;
    assert_eq!(scene.copied(), ["cam/1.mp4"]);
    let held = scene.storage.object("site/cam/1.mp4").expect("a copy");
    assert_eq!(held.len(), 10 << 20);
}

#[tokio::test(start_paused = true)]
async fn a_storage_that_takes_half_a_minute_for_each_answer_gets_every_file() {
    let scene = Scene::new("slow");
    scene.add(1, 30 << 20);
    scene.add(2, 10);
    scene
        .storage
        .set(Some(Fault::Slow(Duration::from_secs(30))));
    tokio::time::sleep(Duration::from_secs(600)).await;
    assert_eq!(scene.copied(), ["cam/1.mp4", "cam/2.mp4"]);
    assert_eq!(scene.copier.figures().failures, 0);
}
