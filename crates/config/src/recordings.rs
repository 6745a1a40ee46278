//! The section `recordings`: which streams are written to disk, where, and for how long they are kept.

use std::collections::BTreeSet;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use glassline_access::auth::Pattern;
use glassline_hub::StreamName;
use glassline_recording::{FolderPlan, Keep, Layers, Plan, StreamPlan};
use glassline_rooms as rooms;
use schemars::JsonSchema;
use serde::de::Error as _;
use serde::{Deserialize, Deserializer, Serialize};

use super::{Config, RemoteCopy, parts};

/// Streams that are written to disk as MP4 files, and for how long they are kept.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct Recordings {
    /// Folder of recordings; null for none, and then nothing is recorded. Each server needs its own.
    pub folder: Option<PathBuf>,
    /// Rules of streams that are recorded whenever they have a source; the first one that fits a
    /// stream counts. Other streams are recorded when the API says so.
    pub record: Vec<RecordRule>,
    /// Minutes of a file, 1 to 60. Files are cut at the next keyframe.
    #[serde(deserialize_with = "parts::file_minutes")]
    #[schemars(range(min = 1, max = 60))]
    pub file_minutes: u64,
    /// Seconds of footage that a power failure may cost, 1 to 60. A spinning disk with many streams
    /// needs 10. A crash of the server costs none of what was written.
    #[serde(deserialize_with = "parts::sync_s")]
    #[schemars(range(min = 1, max = 60))]
    pub sync_s: u64,
    /// Days after which a file is deleted; null keeps files while there is space.
    #[serde(deserialize_with = "parts::positive_or_null")]
    #[schemars(range(min = 1))]
    pub keep_days: Option<u64>,
    /// Days after which a file with a mark is deleted, if that is later; null keeps such files while
    /// there is space. Marks for ever are kept.
    #[serde(deserialize_with = "parts::positive_or_null")]
    #[schemars(range(min = 1))]
    pub keep_marked_days: Option<u64>,
    /// Most GiB of all files of a folder: the oldest ones go. Null takes the whole disk.
    #[serde(deserialize_with = "parts::positive_or_null")]
    #[schemars(range(min = 1))]
    pub max_gib: Option<u64>,
    /// GiB of the disk that stay free: the oldest files go.
    pub free_gib: u64,
    /// Bucket of S3-compatible storage that gets a copy of each finished file; null for none. A file
    /// then stays until its copy is confirmed; where space is needed, such files go last.
    pub copy: Option<RemoteCopy>,
}

/// A rule for streams that are recorded whenever they have a source.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct RecordRule {
    /// Patterns of the streams.
    pub streams: Vec<Pattern>,
    /// Folder of the files, in place of `recordings.folder`.
    pub folder: Option<PathBuf>,
    /// Days after which a file is deleted, in place of `recordings.keep_days`.
    #[serde(deserialize_with = "parts::positive_or_null")]
    #[schemars(range(min = 1))]
    pub keep_days: Option<u64>,
    /// Days after which a file with a mark is deleted, in place of `recordings.keep_marked_days`.
    #[serde(deserialize_with = "parts::positive_or_null")]
    #[schemars(range(min = 1))]
    pub keep_marked_days: Option<u64>,
    /// Layers of a stream with several: `best`, the best of each time; `all`, each in files of its own;
    /// otherwise the name of one.
    pub layers: RecordedLayers,
}

/// Which layers are recorded, as the file has it.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(from = "String", into = "String")]
#[schemars(with = "String")]
pub struct RecordedLayers(Layers);

impl From<String> for RecordedLayers {
    fn from(text: String) -> Self {
        Self(match text.as_str() {
            "best" => Layers::Best,
            "all" => Layers::All,
            _ => Layers::Named(text),
        })
    }
}

impl From<RecordedLayers> for String {
    fn from(layers: RecordedLayers) -> Self {
        match layers.0 {
            Layers::Best => "best".to_owned(),
            Layers::All => "all".to_owned(),
            Layers::Named(name) => name,
        }
    }
}

impl Default for Recordings {
    fn default() -> Self {
        Self {
            folder: None,
            record: Vec::new(),
            file_minutes: 10,
            sync_s: 10,
            keep_days: None,
            keep_marked_days: None,
            max_gib: None,
            free_gib: 5,
            copy: None,
        }
    }
}

impl Recordings {
    /// Returns every folder and file that is named.
    pub(super) fn paths_mut(&mut self) -> impl Iterator<Item = &mut PathBuf> {
        let of_rules = self.record.iter_mut();
        let of_rules = of_rules.filter_map(|it| it.folder.as_mut());
        let roots = self.copy.iter_mut().filter_map(|it| it.roots.as_mut());
        self.folder.iter_mut().chain(of_rules).chain(roots)
    }

    /// Returns what is recorded, and how. `fetched` are the sources of the configuration that run for a
    /// recording alone.
    fn plan(&self, fetched: BTreeSet<StreamName>) -> Plan {
        let mut paths: Vec<&PathBuf> = Vec::new();
        let of_rules = self.record.iter().filter_map(|it| it.folder.as_ref());
        for path in self.folder.iter().chain(of_rules) {
            if !paths.contains(&path) {
                paths.push(path);
            }
        }
        let folder = |path: &PathBuf| FolderPlan {
            path: path.clone(),
            sync: Duration::from_secs(self.sync_s),
            bytes_max: self.max_gib.map(gib),
            free_min: gib(self.free_gib),
        };
        let recordings = self.clone();
        Plan {
            folders: paths.into_iter().map(folder).collect(),
            of_stream: Arc::new(move |name| {
                let plan = recordings.of_stream(name)?;
                let is_demanded = fetched.contains(name);
                Some(StreamPlan {
                    is_demanded,
                    ..plan
                })
            }),
        }
    }

    /// Returns how a stream is recorded; `None` without a folder for it. Voices of rooms are private,
    /// and streams of a check are nobody's.
    fn of_stream(&self, name: &StreamName) -> Option<StreamPlan> {
        if rooms::is_voice(name.as_str()) || name.is_of_check() {
            return None;
        }
        let fits = |it: &&RecordRule| it.streams.iter().any(|it| it.matches(name.as_str()));
        let rule = self.record.iter().find(fits);
        let folder = rule.and_then(|it| it.folder.as_ref());
        let keep_days = rule.and_then(|it| it.keep_days).or(self.keep_days);
        let marked = rule.and_then(|it| it.keep_marked_days);
        let copy = self.copy.as_ref().filter(|it| it.fits(name));
        Some(StreamPlan {
            folder: folder.or(self.folder.as_ref())?.clone(),
            is_automatic: rule.is_some(),
            is_demanded: false,
            file: Duration::from_secs(self.file_minutes * 60),
            layers: rule.map(|it| it.layers.0.clone()).unwrap_or_default(),
            keep: Keep {
                age: keep_days.map(days),
                marked_age: marked.or(self.keep_marked_days).map(days),
                is_copied: copy.is_some(),
                copy_age: copy.and_then(|it| it.keep_days).map(days),
            },
        })
    }
}

impl Config {
    /// Returns what is recorded, and how.
    pub fn recording_plan(&self) -> Plan {
        // In a cluster, the server that has the source is not known beforehand.
        let is_alone = self.cluster.is_none();
        let sources = self.sources.iter().filter(|_| is_alone);
        let fetched = sources.filter(|(_, input)| !input.is_published());
        let fetched = fetched.map(|(name, _)| name.clone());
        self.recordings.plan(fetched.collect())
    }
}

/// Reads the section, in which each rule needs a folder.
pub(super) fn checked<'de, D: Deserializer<'de>>(from: D) -> Result<Recordings, D::Error> {
    let recordings = Recordings::deserialize(from)?;
    let mut rules = recordings.record.iter();
    match rules.position(|it| it.folder.is_none() && recordings.folder.is_none()) {
        Some(place) => Err(D::Error::custom(format_args!(
            "rule {} of `record` has no folder, so nothing would be recorded: set `recordings.folder`, or \
             `folder` in the rule",
            place + 1
        ))),
        None => Ok(recordings),
    }
}

fn gib(number: u64) -> u64 {
    number.saturating_mul(1 << 30)
}

fn days(number: u64) -> Duration {
    Duration::from_secs(number.saturating_mul(86_400))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: &str) -> Recordings {
        serde_saphyr::from_str(text).expect("a section")
    }

    fn of(recordings: &Recordings, name: &str) -> Option<StreamPlan> {
        let name = StreamName::parse(name).expect("a name");
        (recordings.plan(BTreeSet::new()).of_stream)(&name)
    }

    #[test]
    fn the_first_rule_that_fits_counts_and_others_wait_for_the_api() {
        let recordings = read(
            "folder: /a\nkeep_days: 7\nfile_minutes: 5\nrecord:\n\
             - {streams: [gate], folder: /b, keep_days: 30, layers: all}\n\
             - {streams: ['site/**', 'g*'], layers: h}\n",
        );
        let gate = of(&recordings, "gate").expect("a folder");
        assert_eq!(
            (gate.folder.to_str(), gate.is_automatic),
            (Some("/b"), true)
        );
        assert_eq!((gate.layers, gate.keep.age), (Layers::All, Some(days(30))));
        let yard = of(&recordings, "site/yard/2").expect("a folder");
        assert_eq!(
            (yard.folder.to_str(), yard.is_automatic),
            (Some("/a"), true)
        );
        assert_eq!(yard.layers, Layers::Named("h".to_owned()));
        assert_eq!(
            (yard.file, yard.keep.age),
            (Duration::from_secs(300), Some(days(7)))
        );
        let other = of(&recordings, "other").expect("a folder");
        assert!(!other.is_automatic && other.layers == Layers::Best);
        let folders = recordings.plan(BTreeSet::new()).folders;
        assert_eq!(folders.len(), 2);
        assert_eq!(folders[0].free_min, 5 << 30);
        assert!(of(&recordings, "glassline-doctor-1").is_none());
        assert!(
            of(&read("record: [{streams: ['*']}]"), "gate").is_none(),
            "no folder"
        );
    }

    #[test]
    fn streams_are_copied_by_their_names_and_a_bucket_has_a_name() {
        let copy = |more: &str| {
            format!(
                "folder: /a\ncopy: {{endpoint: 'https://s3.example', access_key: a, secret_key: b, {more}}}"
            )
        };
        let recordings = read(&copy(
            "bucket: footage, streams: ['site/**'], keep_days: 30",
        ));
        let keep = |name| of(&recordings, name).expect("a folder").keep;
        assert!(keep("site/yard").is_copied && !keep("gate").is_copied);
        assert_eq!(
            (keep("site/yard").copy_age, keep("gate").copy_age),
            (Some(days(30)), None)
        );
        let all = read(&copy("bucket: footage"));
        assert!(of(&all, "gate").expect("a folder").keep.is_copied);
        let wrong = serde_saphyr::from_str::<Recordings>(&copy("bucket: s3://footage"));
        let wrong = wrong.expect_err("no name").to_string();
        assert!(wrong.contains("3 to 63"), "{wrong}");
        let shown = format!("{recordings:?}");
        assert!(!shown.contains("secret_key: \"b"), "{shown}");
    }

    #[test]
    fn values_that_a_disk_or_a_crash_would_suffer_from_are_refused() {
        let refused = |text: &str| {
            let read = serde_saphyr::from_str::<Recordings>(text);
            read.expect_err("a wrong value").to_string()
        };
        assert!(refused("file_minutes: 61").contains("must be 1 to 60"));
        assert!(refused("sync_s: 0").contains("must be 1 to 60"));
        assert!(refused("keep_days: 0").contains("at least 1"));
        assert!(refused("record: [{streams: ['a*b']}]").contains('*'));
        assert!(refused("record: [{stream: x}]").contains("stream"));
    }
}
