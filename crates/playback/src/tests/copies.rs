//! Recordings whose files are gone, and which are read from their copies.

use std::collections::HashMap;
use std::io;

use glassline_recording::Copies;

use super::*;

/// A storage in memory, by the keys of its copies. Without any, it is away.
#[derive(Debug)]
struct Stored(HashMap<String, Vec<u8>>);

impl Copies for Stored {
    fn read_at(&self, key: &str, offset: u64, buffer: &mut [u8]) -> io::Result<usize> {
        let copy = self.0.get(key);
        let copy = copy.ok_or_else(|| io::Error::other("the storage does not answer"))?;
        // A storage gives what is left of a block.
        let block = 4_096 - offset as usize % 4_096;
        let rest = &copy[offset as usize..];
        let length = rest.len().min(buffer.len()).min(block);
        buffer[..length].copy_from_slice(&rest[..length]);
        Ok(length)
    }
}

#[tokio::test]
async fn what_is_gone_from_the_disk_is_played_from_its_copy_byte_for_byte() {
    let recorded = Recorded::of(&[(0, 7), (9, 3)]);
    let catalogue = &recorded.catalogue;
    let forms = [
        ClipForm::Fragments,
        ClipForm::Whole(SpanCut::Keyframe),
        ClipForm::Whole(SpanCut::Exact),
    ];
    let mut before = Vec::new();
    for form in forms {
        let clip = recorded.clip(0.5, 12.0, form).await.expect("footage");
        before.push((clip.assembly.identity(), whole_of(&recorded, clip).await));
    }
    let list = async || {
        let of = recorded.subject();
        let listed = recorded.playback.stretches(&of, always());
        listed.await.expect("an index").items
    };
    let listed = list().await;
    let stream = StreamName::parse("cam").expect("a name");
    let files = catalogue.files(&stream, always()).expect("an index");
    let mut stored = HashMap::new();
    // One file in two goes from the disk.
    for file in files.iter().step_by(2) {
        let key = catalogue.key_of_copy(&file.path).expect("a folder");
        stored.insert(key, std::fs::read(&file.path).expect("a file"));
        catalogue.note_copied(&file.path).expect("an index");
        std::fs::remove_file(&file.path).expect("a file");
    }
    assert!(stored.len() >= 2);
    catalogue.set_copies(Some(Arc::new(Stored(stored))));
    for (form, (identity, bytes)) in forms.into_iter().zip(before) {
        let clip = recorded.clip(0.5, 12.0, form).await.expect("copies");
        assert_eq!(clip.assembly.identity(), identity, "{form:?}");
        let mut origins = (0..clip.assembly.length()).map(|at| clip.assembly.origin_at(at));
        assert!(origins.any(|it| it == Origin::Storage));
        assert!(whole_of(&recorded, clip).await == bytes, "{form:?}");
    }
    let spans = |it: &[Stretch]| it.iter().map(|it| (it.from, it.to)).collect::<Vec<_>>();
    assert_eq!(spans(&list().await), spans(&listed));
    catalogue.set_copies(Some(Arc::new(Stored(HashMap::new()))));
    let away = recorded.clip(0.5, 12.0, ClipForm::Fragments).await;
    let away = away.expect_err("nothing answers").to_string();
    assert!(away.contains("the storage does not answer"), "{away}");
}
