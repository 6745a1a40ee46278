//! The two buckets of records: how they are made, and what is wrong with those that are there.

use glassline_cluster::engine::{KeyKind, VALUE_BYTES_MAX};
use serde::{Deserialize, Serialize};

/// Room for the headers of a record beside its value.
const HEADER_BYTES_MAX: usize = 512;

/// Subjects on which the leader of a bucket tells of changes, before the key.
pub(crate) const CHANGED: &str = "glassline.changed.";

/// One of the two buckets.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Bucket {
    /// Name of its stream in JetStream.
    pub(crate) stream: &'static str,
    /// Prefix of the subjects of its keys.
    pub(crate) prefix: &'static str,
    max_age_s: u64,
    max_bytes: i64,
}

pub(crate) const STREAMS: Bucket = Bucket {
    stream: "KV_glassline_streams",
    prefix: "$KV.glassline_streams.",
    max_age_s: 0,
    // A million streams.
    max_bytes: 256 << 20,
};

pub(crate) const NODES: Bucket = Bucket {
    stream: "KV_glassline_nodes",
    prefix: "$KV.glassline_nodes.",
    // Nodes write each minute; the age only collects those that are gone.
    max_age_s: 600,
    max_bytes: 16 << 20,
};

pub(crate) const ALL: [Bucket; 2] = [STREAMS, NODES];

/// Returns the bucket of the keys of `kind`.
pub(crate) fn of_kind(kind: KeyKind) -> Bucket {
    match kind {
        KeyKind::Streams => STREAMS,
        KeyKind::Nodes => NODES,
    }
}

/// Settings of a stream in JetStream, those that matter here.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct StreamConfig {
    name: String,
    #[serde(default)]
    pub(crate) subjects: Vec<String>,
    #[serde(default)]
    retention: String,
    #[serde(default)]
    storage: String,
    #[serde(default)]
    num_replicas: u8,
    #[serde(default)]
    max_msgs_per_subject: i64,
    #[serde(default)]
    max_msg_size: i64,
    #[serde(default)]
    max_bytes: i64,
    /// Time in nanoseconds after which JetStream drops a message; 0 for never.
    #[serde(default)]
    max_age: u64,
    #[serde(default)]
    discard: String,
    #[serde(default)]
    deny_delete: bool,
    #[serde(default)]
    allow_rollup_hdrs: bool,
    #[serde(default)]
    allow_direct: bool,
    #[serde(default)]
    pub(crate) allow_msg_ttl: bool,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    republish: Option<Republish>,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
struct Republish {
    src: String,
    dest: String,
}

/// Answer of JetStream about a stream.
#[derive(Clone, Debug, Deserialize)]
pub(crate) struct StreamInfo {
    pub(crate) config: StreamConfig,
}

impl Bucket {
    /// Subject of a key.
    pub(crate) fn subject(&self, key: &str) -> String {
        format!("{}{key}", self.prefix)
    }

    /// Settings with which the bucket is made.
    pub(crate) fn config(&self, replicas: u8) -> StreamConfig {
        StreamConfig {
            name: self.stream.to_owned(),
            subjects: vec![format!("{}>", self.prefix)],
            retention: "limits".to_owned(),
            storage: "file".to_owned(),
            num_replicas: replicas,
            max_msgs_per_subject: 1,
            max_msg_size: (VALUE_BYTES_MAX + HEADER_BYTES_MAX) as i64,
            max_bytes: self.max_bytes,
            max_age: self.max_age_s * 1_000_000_000,
            discard: "new".to_owned(),
            deny_delete: true,
            allow_rollup_hdrs: true,
            // A direct read is answered by any replica, a stale one included.
            allow_direct: false,
            // Marks of deletions go by themselves.
            allow_msg_ttl: true,
            republish: Some(Republish {
                src: format!("{}>", self.prefix),
                dest: format!("{CHANGED}>"),
            }),
        }
    }

    /// Returns what is wrong with a bucket that is there, each with what to do.
    pub(crate) fn differences(&self, found: &StreamConfig, replicas: u8) -> Vec<String> {
        let wanted = self.config(replicas);
        let stream = self.stream;
        let mut all = Vec::new();
        let mut differs = |what: &str, is: String, should: String, danger: &str, how: &str| {
            if is != should {
                all.push(format!(
                    "bucket {stream}: {what} is {is} and should be {should}, or {danger}; {how}"
                ));
            }
        };
        let edit = |argument: String| format!("run `nats stream edit {stream} {argument}`");
        let anew = "stop all nodes and delete the bucket: the nodes make it anew";
        differs(
            "num_replicas",
            found.num_replicas.to_string(),
            replicas.to_string(),
            "records are lost with a server",
            &edit(format!("--replicas {replicas}")),
        );
        differs(
            "storage",
            found.storage.clone(),
            wanted.storage,
            "records are lost when the servers restart",
            anew,
        );
        differs(
            "max_age",
            seconds(found.max_age),
            seconds(wanted.max_age),
            "records vanish or stay for ever",
            &edit(format!("--max-age {}s", self.max_age_s)),
        );
        differs(
            "max_msgs_per_subject",
            found.max_msgs_per_subject.to_string(),
            wanted.max_msgs_per_subject.to_string(),
            "old records fill the disk",
            &edit("--max-msgs-per-subject 1".to_owned()),
        );
        differs(
            "allow_direct",
            found.allow_direct.to_string(),
            wanted.allow_direct.to_string(),
            "other programs read stale records",
            &edit("--no-allow-direct".to_owned()),
        );
        differs(
            "discard",
            found.discard.clone(),
            wanted.discard,
            "a full bucket forgets the oldest records",
            &edit("--discard new".to_owned()),
        );
        let least = VALUE_BYTES_MAX as i64;
        if found.max_msg_size > 0 && found.max_msg_size < least {
            let size = found.max_msg_size.to_string();
            let how = edit(format!("--max-msg-size {}", wanted.max_msg_size));
            let should = wanted.max_msg_size.to_string();
            differs(
                "max_msg_size",
                size,
                should,
                "large records are refused",
                &how,
            );
        }
        let of = |republish: &Option<Republish>| match republish {
            Some(it) => format!("{} to {}", it.src, it.dest),
            None => "absent".to_owned(),
        };
        differs(
            "republish",
            of(&found.republish),
            of(&wanted.republish),
            "nodes do not hear of changes",
            anew,
        );
        differs(
            "subjects",
            found.subjects.join(", "),
            wanted.subjects.join(", "),
            "records are refused",
            anew,
        );
        all
    }
}

fn seconds(nanoseconds: u64) -> String {
    format!("{} s", nanoseconds / 1_000_000_000)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_bucket_as_it_is_made_has_no_differences() {
        for bucket in ALL {
            for replicas in [1, 3] {
                let config = bucket.config(replicas);
                let json = serde_json::to_vec(&config).expect("JSON");
                let read: StreamConfig = serde_json::from_slice(&json).expect("its own");
                assert_eq!(bucket.differences(&read, replicas), Vec::<String>::new());
            }
        }
    }

    #[test]
    fn each_difference_says_what_to_do() {
        let mut found = STREAMS.config(1);
        found.allow_direct = true;
        found.republish = None;
        found.max_age = 10_000_000_000;
        found.max_msg_size = 100;
        let said = STREAMS.differences(&found, 3);
        assert_eq!(said.len(), 5, "{said:#?}");
        assert_eq!(
            said[0],
            "bucket KV_glassline_streams: num_replicas is 1 and should be 3, or records are lost \
             with a server; run `nats stream edit KV_glassline_streams --replicas 3`"
        );
        assert!(
            said.iter().any(|it| it.contains("republish is absent")),
            "{said:#?}"
        );
    }

    #[test]
    fn a_larger_message_than_needed_is_no_difference() {
        let mut found = STREAMS.config(1);
        for size in [-1, 0, 1 << 20] {
            found.max_msg_size = size;
            assert_eq!(STREAMS.differences(&found, 1), Vec::<String>::new());
        }
    }
}
