use super::*;

/// A directory that is removed when this value is dropped.
struct Scratch(PathBuf);

impl Scratch {
    fn new(name: &str) -> Self {
        let path =
            std::env::temp_dir().join(format!("glassline-demux-{}-{name}", std::process::id()));
        std::fs::create_dir_all(&path).expect("a directory for temporary files");
        Self(path)
    }

    fn write(&self, name: &str, bytes: &[u8]) -> PathBuf {
        let path = self.0.join(name);
        std::fs::write(&path, bytes).expect("room for a file");
        path
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

#[test]
fn a_file_plays_like_memory() {
    let scratch = Scratch::new("plays");
    let (video, audio) = (
        scratch.write("v.H264", DEMO_VIDEO),
        scratch.write("a.opus", DEMO_AUDIO),
    );
    let mut files = open(&[video, audio], &Options::default()).expect("good files");
    let mut memory = from_bytes(DEMO_VIDEO, DEMO_AUDIO).expect("the shipped clip");
    for _ in 0..1700 {
        let frame = files.next_frame().expect("a readable file");
        assert_eq!(frame, memory.next_frame().expect("memory can be read"));
    }
}

#[test]
fn a_file_that_shrinks_is_an_error_with_its_place() {
    let scratch = Scratch::new("shrinks");
    let path = scratch.write("v.264", DEMO_VIDEO);
    let mut demuxer = open(std::slice::from_ref(&path), &ONCE).expect("a good file");
    scratch.write("v.264", &DEMO_VIDEO[..100]);
    let error = demuxer.next_frame().expect_err("the file is shorter now");
    assert!(matches!(error.reason, Reason::Shrunk), "{error}");
    assert_eq!((error.path, error.offset), (path, Some(0)));
    assert!(demuxer.next_frame().expect("it has ended").is_none());
}

#[test]
fn what_cannot_be_opened_is_told_apart() {
    let scratch = Scratch::new("errors");
    let opened = |path: PathBuf| failure(open(&[path], &ONCE)).to_string();
    let missing = opened(scratch.0.join("none.h264"));
    assert!(missing.contains("none.h264: cannot be opened"), "{missing}");
    assert!(opened(scratch.write("empty.ogg", b"")).contains("is empty"));
    std::fs::create_dir_all(scratch.0.join("dir.avc")).expect("a directory");
    assert!(opened(scratch.0.join("dir.avc")).contains("directory"));
    for name in ["clip.xyz", "clip", "h264"] {
        let unknown = opened(scratch.write(name, b"x"));
        assert!(unknown.contains("unknown extension"), "{unknown}");
        assert!(unknown.contains(".mp4") && unknown.contains("formats.md"));
    }
    let unread = opened(scratch.write("clip.wmv", b"x"));
    assert!(
        unread.contains("Windows Media Video is not read"),
        "{unread}"
    );
    let error = failure(open(&[], &ONCE));
    assert!(matches!(error.reason, Reason::NoInput), "{error}");
    let path = scratch.write("v.264", DEMO_VIDEO);
    let error = failure(open(&[path.clone(), path], &ONCE));
    assert!(
        matches!(error.reason, Reason::SecondOfKind(Kind::Video)),
        "{error}"
    );
}

#[test]
fn a_mislabelled_file_is_told_what_it_looks_like() {
    let scratch = Scratch::new("labels");
    let opened = |name, bytes: &[u8]| failure(open(&[scratch.write(name, bytes)], &ONCE));
    for (name, bytes, found) in [
        ("a.h264", b"\0\0\0\x20ftypisom".as_slice(), "an MP4 file"),
        ("b.264", DEMO_AUDIO, "an Ogg file"),
        ("c.ogg", DEMO_VIDEO, "raw H.264 video"),
    ] {
        let error = opened(name, bytes);
        assert!(
            error.to_string().contains(&format!("looks like {found}")),
            "{error}"
        );
    }
}

#[test]
fn types_of_units_are_as_in_the_standard() {
    assert_eq!(nal_type(&[0x67]), nal_type::SPS);
    assert_eq!(nal_type(&[]), 0);
    assert_eq!(nal_type(SEI), nal_type::SEI);
}
