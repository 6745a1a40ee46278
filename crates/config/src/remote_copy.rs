//! The section `recordings.copy`: storage that gets a copy of each recorded file.

use std::path::PathBuf;

use glassline_access::auth::{Pattern, Secret};
use glassline_access::outbound::{HttpClient, WebUrl};
use glassline_hub::StreamName;
use glassline_object_storage::{Bucket, BucketSettings};
use schemars::JsonSchema;
use serde::de::Error as _;
use serde::{Deserialize, Deserializer, Serialize};

use super::parts;

/// Storage that speaks S3 and gets a copy of each finished file.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct RemoteCopy {
    /// URL of the storage, without the bucket, like `https://s3.eu-central-1.amazonaws.com`.
    pub endpoint: WebUrl,
    /// Name of the bucket, which must exist.
    #[serde(deserialize_with = "bucket_name")]
    pub bucket: String,
    /// Beginning of the keys of all copies, like `site-1`. Servers with one bucket need one each.
    #[serde(default)]
    pub prefix: String,
    /// Region that requests are signed for.
    #[serde(default = "usual_region")]
    pub region: String,
    /// Identifier of the access key.
    pub access_key: Secret,
    /// Secret of the access key.
    pub secret_key: Secret,
    /// Patterns of streams that are copied.
    #[serde(default = "all_streams")]
    pub streams: Vec<Pattern>,
    /// Most megabits a second that are sent; null sends as fast as the network takes copies.
    #[serde(default, deserialize_with = "parts::positive_or_null")]
    #[schemars(range(min = 1))]
    pub max_mbit_s: Option<u64>,
    /// Days after which the copy of a file is deleted that is no longer on the disk; null keeps copies.
    #[serde(default, deserialize_with = "parts::positive_or_null")]
    #[schemars(range(min = 1))]
    pub keep_days: Option<u64>,
    /// PEM file with the root certificates of `endpoint`. Null takes Mozilla's.
    #[serde(default)]
    pub roots: Option<PathBuf>,
}

impl RemoteCopy {
    /// Returns whether the files of a stream are copied.
    pub(super) fn fits(&self, name: &StreamName) -> bool {
        self.streams.iter().any(|it| it.matches(name.as_str()))
    }

    /// Returns the bucket. Nothing is sent yet.
    ///
    /// # Errors
    /// Returns a sentence that says which key is wrong.
    pub fn open(&self) -> Result<Bucket, String> {
        let client = HttpClient::new(self.roots.as_deref()).map_err(|error| error.to_string())?;
        let settings = BucketSettings {
            endpoint: self.endpoint.as_str().to_owned(),
            bucket: self.bucket.clone(),
            prefix: self.prefix.clone(),
            region: self.region.clone(),
            access_key: self.access_key.reveal().to_owned(),
            secret_key: self.secret_key.reveal().to_owned(),
            bytes_per_s: self.max_mbit_s.map(|it| it.saturating_mul(125_000)),
        };
        Bucket::new(&settings, client).map_err(|error| error.to_string())
    }
}

fn usual_region() -> String {
    "us-east-1".to_owned()
}

fn all_streams() -> Vec<Pattern> {
    vec![Pattern::parse("**").expect("a pattern")]
}

/// Reads the name of a bucket, as all kinds of storage take it.
fn bucket_name<'de, D: Deserializer<'de>>(from: D) -> Result<String, D::Error> {
    let name = String::deserialize(from)?;
    let fits = |it: u8| it.is_ascii_alphanumeric() || b".-_".contains(&it);
    match (3..=63).contains(&name.len()) && name.bytes().all(fits) {
        true => Ok(name),
        false => Err(D::Error::custom(
            "the name of a bucket has 3 to 63 letters, digits, dots, dashes and underscores",
        )),
    }
}
