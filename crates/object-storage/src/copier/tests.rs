use std::collections::VecDeque;
use std::fs;

use super::*;
use crate::bucket::Bucket;
use crate::storage::{Fault, Storage};

/// A queue in memory.
#[derive(Default)]
struct Queue {
    waiting: Mutex<VecDeque<Pending>>,
    copied: Mutex<Vec<String>>,
    given_up: Mutex<Vec<String>>,
}

impl Queue {
    fn leave(&self, pending: &Pending) {
        let first = self.waiting.lock().expect("one user").pop_front();
        assert_eq!(first.as_ref(), Some(pending));
    }
}

impl CopyQueue for Queue {
    fn next(&self) -> Result<Option<Pending>, String> {
        Ok(self.waiting.lock().expect("one user").front().cloned())
    }

    fn copied(&self, pending: &Pending, copy: &Copied) -> Result<(), String> {
        self.leave(pending);
        self.copied.lock().expect("one user").push(copy.key.clone());
        Ok(())
    }

    fn given_up(&self, pending: &Pending, reason: &CopyError) -> Result<(), String> {
        self.leave(pending);
        let mut given_up = self.given_up.lock().expect("one user");
        given_up.push(reason.to_string());
        Ok(())
    }
}

#[tokio::test(start_paused = true)]
async fn a_storage_that_is_away_for_an_hour_gets_every_file_afterwards() {
    let folder = std::env::temp_dir().join(format!("glassline-copier-{}", std::process::id()));
    fs::create_dir_all(&folder).expect("a folder");
    let storage = Storage::default();
    let queue = Arc::new(Queue::default());
    for number in 0..5 {
        let path = folder.join(format!("{number}.mp4"));
        if number != 3 {
            fs::write(&path, vec![number; 1_000]).expect("a file");
        }
        let key = format!("cam/{number}.mp4");
        let mut waiting = queue.waiting.lock().expect("one user");
        waiting.push_back(Pending { path, key });
    }
    let bucket = Bucket::over(&Storage::settings(), storage.clone()).expect("a bucket");
    let copier = Arc::new(Copier::new(queue.clone(), Arc::new(bucket)));
    storage.set(Some(Fault::Away));
    let running = copier.clone();
    let task = tokio::spawn(async move { running.run().await });
    tokio::time::sleep(Duration::from_secs(3_600)).await;
    assert_eq!(queue.copied.lock().expect("one user").len(), 0);
    assert_eq!(queue.given_up.lock().expect("one user").len(), 0);
    let trouble = copier.figures().trouble.expect("it is away");
    assert!(
        trouble.reason.contains("0.mp4 waits for its copy"),
        "{}",
        trouble.reason
    );
    assert!(
        storage.requests() < 60 * 4,
        "it is asked {} times in an hour",
        storage.requests()
    );
    storage.set(None);
    tokio::time::sleep(Duration::from_secs(120)).await;
    let copied = queue.copied.lock().expect("one user").clone();
    assert_eq!(copied, [0, 1, 2, 4].map(|it| format!("site/cam/{it}.mp4")));
    let given_up = queue.given_up.lock().expect("one user").clone();
    assert!(
        given_up.len() == 1 && given_up[0].contains("3.mp4"),
        "{given_up:?}"
    );
    let figures = copier.figures();
    assert_eq!(
        (figures.files, figures.bytes, figures.trouble),
        (4, 4_000, None)
    );
    // A file that comes later is copied as soon as the copier hears of it.
    let path = folder.join("0.mp4");
    let key = "cam/late.mp4".to_owned();
    let late = Pending { path, key };
    queue.waiting.lock().expect("one user").push_back(late);
    copier.wake();
    tokio::time::sleep(Duration::from_millis(100)).await;
    assert!(storage.object("site/cam/late.mp4").is_some());
    task.abort();
    let _ = fs::remove_dir_all(&folder);
}
