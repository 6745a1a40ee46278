use std::fs;

use super::*;
use crate::storage::{Fault, Storage};

/// A folder of a test, removed at its end.
struct Folder(PathBuf);

impl Folder {
    fn new(name: &str) -> Self {
        let path =
            std::env::temp_dir().join(format!("glassline-copies-{name}-{}", std::process::id()));
        fs::create_dir_all(&path).expect("a folder");
        Self(path)
    }

    /// Writes a file of `bytes` bytes, no two megabytes of which are equal.
    fn file(&self, name: &str, bytes: usize) -> PathBuf {
        let path = self.0.join(name);
        let content: Vec<u8> = (0..bytes)
            .map(|at| ((at * 31) ^ (at >> 13)) as u8)
            .collect();
        fs::write(&path, content).expect("a file");
        path
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

fn bucket(storage: &Storage) -> Bucket {
    Bucket::over(&Storage::settings(), storage.clone()).expect("settings of a bucket")
}

#[tokio::test(start_paused = true)]
async fn a_copy_is_the_file_whatever_its_length() {
    let folder = Folder::new("lengths");
    let storage = Storage::default();
    let bucket = bucket(&storage);
    let part = usize::try_from(PART_BYTES).expect("small");
    for bytes in [0, 1, part - 1, part, part + 1, 3 * part + 17] {
        let path = folder.file("f.mp4", bytes);
        let key = format!("cam/{bytes}.mp4");
        let copied = bucket.put_file(&path, &key).await.expect("a copy");
        assert_eq!(
            (copied.bytes, &*copied.key),
            (bytes as u64, &*format!("site/{key}"))
        );
        let held = storage.object(&copied.key).expect("held");
        assert!(held == fs::read(&path).expect("readable"), "{bytes} bytes");
        assert_eq!(
            bucket.length_of(&key).await.expect("a length"),
            bytes as u64
        );
    }
    assert_eq!(storage.open_uploads(), 0);
}

#[tokio::test(start_paused = true)]
async fn ranges_are_read_and_bounded() {
    let folder = Folder::new("ranges");
    let storage = Storage::default();
    let bucket = bucket(&storage);
    let path = folder.file("f.mp4", 9 << 20);
    bucket.put_file(&path, "f").await.expect("a copy");
    let whole = fs::read(&path).expect("readable");
    let read = bucket.read("f", 1_000..1_010).await.expect("a range");
    assert_eq!(read, whole[1_000..1_010]);
    let read = bucket.read("f", 5..u64::MAX).await.expect("a range");
    assert!(read == whole[5..5 + (8 << 20)]);
    bucket.delete("f").await.expect("deleted");
    bucket.delete("f").await.expect("deleted already");
    let missing = bucket.read("f", 0..1).await.expect_err("it is gone");
    assert_eq!(
        missing.to_string(),
        "bucket footage at http://storage.test has no f"
    );
}

#[tokio::test(start_paused = true)]
async fn a_storage_that_loses_or_damages_a_part_has_no_copy() {
    let folder = Folder::new("parts");
    let storage = Storage::default();
    let bucket = bucket(&storage);
    let path = folder.file("f.mp4", 20 << 20);
    storage.set(Some(Fault::LosesAPart));
    let lost = bucket
        .put_file(&path, "f")
        .await
        .expect_err("a part is lost");
    assert!(
        matches!(lost, CopyError::Incomplete { held, .. } if held == 12 << 20),
        "{lost}"
    );
    assert_eq!(storage.object("site/f"), None, "nobody takes it for a copy");
    storage.set(Some(Fault::Damages));
    let damaged = bucket
        .put_file(&path, "f")
        .await
        .expect_err("the sums differ");
    assert!(matches!(damaged, CopyError::Storage { .. }), "{damaged}");
    assert_eq!(storage.open_uploads(), 0, "the upload is given up");
    storage.set(None);
    bucket.put_file(&path, "f").await.expect("a copy");
}

#[tokio::test(start_paused = true)]
async fn errors_say_whose_fault_they_are() {
    let folder = Folder::new("errors");
    let storage = Storage::default();
    let bucket = bucket(&storage);
    let path = folder.file("f.mp4", 100);
    for (fault, text) in [
        (Fault::Away, "does not do as asked"),
        (Fault::Answers(500), "does not do as asked"),
        (Fault::Answers(503), "does not do as asked"),
        (Fault::Answers(403), "refuses the access key"),
        (Fault::Answers(404), "has no f"),
    ] {
        storage.set(Some(fault));
        let error = bucket.put_file(&path, "f").await.expect_err("a fault");
        assert!(error.to_string().contains(text), "{fault:?}: {error}");
        assert!(!error.is_of_the_file());
    }
    storage.set(None);
    let gone = bucket.put_file(&folder.0.join("gone"), "f").await;
    assert!(gone.expect_err("no such file").is_of_the_file());
}

#[test]
fn settings_that_describe_no_bucket_are_named() {
    let nothing = Bucket::over(&BucketSettings::default(), Storage::default());
    let error = nothing.expect_err("all is empty").to_string();
    assert_eq!(
        error,
        "the object storage cannot be used: endpoint is empty"
    );
    let shown = format!("{:?}", Storage::settings());
    assert!(!shown.contains("secret"), "{shown}");
}

#[test]
fn no_file_has_more_parts_than_the_storage_takes() {
    for bytes in [0, 1, PART_BYTES, 78 << 30, 79 << 30, 5 << 40] {
        assert!(bytes.div_ceil(part_bytes(bytes)) <= PARTS_MAX, "{bytes}");
    }
}
