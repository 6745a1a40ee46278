//! One bucket: files go in, ranges of bytes come out.

use std::fmt;
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::time::Duration;

use bytes::Bytes;
use glassline_access::outbound::HttpClient;
use object_store::aws::{AmazonS3, AmazonS3Builder, Checksum};
use object_store::client::HttpConnector;
use object_store::path::Path as Key;
use object_store::{
    BackoffConfig, Error, MultipartUpload, ObjectStoreExt, PutPayload, PutResult, RetryConfig,
};
use tokio::fs::File;
use tokio::io::AsyncReadExt;
use tokio::task::{JoinError, JoinSet};

use crate::connector::{Connector, PARTS_IN_FLIGHT};
use crate::fault::CopyError;

/// Length of a part in bytes. S3 asks for 5 MiB at least, but for the last part.
const PART_BYTES: u64 = 8 << 20;

/// Most parts that S3 takes of one object.
const PARTS_MAX: u64 = 10_000;

/// Longest range that one read returns, in bytes.
const READ_BYTES_MAX: u64 = 8 << 20;

/// Where a bucket is, and the key that opens it.
#[derive(Clone, Default, derive_more::Debug)]
#[debug("BucketSettings {{ endpoint: {endpoint:?}, bucket: {bucket:?}, prefix: {prefix:?}, .. }}")]
pub struct BucketSettings {
    /// URL of the storage, without the bucket: `https://s3.eu-central-1.amazonaws.com`.
    pub endpoint: String,
    /// Name of the bucket.
    pub bucket: String,
    /// Beginning of the keys of all objects; may be empty.
    pub prefix: String,
    /// Region that requests are signed for; `us-east-1` where the storage has none.
    pub region: String,
    /// Identifier of the access key.
    pub access_key: String,
    /// Secret of the access key.
    pub secret_key: String,
    /// Most bytes a second that are sent; `None` for no limit.
    pub bytes_per_s: Option<u64>,
}

/// A copy of a file that the storage has confirmed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Copied {
    /// Key of the object, with the prefix of the bucket.
    pub key: String,
    /// Length in bytes.
    pub bytes: u64,
    /// Tag by which the storage names this content, if it has one.
    pub tag: Option<String>,
}

/// A bucket of a storage that speaks S3.
pub struct Bucket {
    store: AmazonS3,
    prefix: Key,
    /// Bucket and endpoint, for messages.
    shown: String,
}

impl Bucket {
    /// Creates a bucket that is reached by `client`. Nothing is sent yet.
    ///
    /// # Errors
    /// Returns [`CopyError::Settings`] if the settings describe no bucket.
    pub fn new(settings: &BucketSettings, client: HttpClient) -> Result<Self, CopyError> {
        Self::over(settings, Connector::new(client, settings.bytes_per_s))
    }

    pub(crate) fn over(
        settings: &BucketSettings,
        connector: impl HttpConnector,
    ) -> Result<Self, CopyError> {
        let unusable = |text: String| CopyError::Settings(text);
        for (name, value) in [
            ("endpoint", &settings.endpoint),
            ("bucket", &settings.bucket),
            ("access_key", &settings.access_key),
            ("secret_key", &settings.secret_key),
        ] {
            if value.is_empty() {
                return Err(unusable(format!("{name} is empty")));
            }
        }
        let retry = RetryConfig {
            backoff: BackoffConfig::default(),
            max_retries: 2,
            retry_timeout: Duration::from_secs(30),
        };
        let store = AmazonS3Builder::new()
            .with_endpoint(settings.endpoint.trim_end_matches('/'))
            .with_bucket_name(&settings.bucket)
            .with_region(&settings.region)
            .with_access_key_id(&settings.access_key)
            .with_secret_access_key(&settings.secret_key)
            .with_allow_http(settings.endpoint.starts_with("http://"))
            .with_disable_bulk_delete(true)
            .with_checksum_algorithm(Checksum::SHA256)
            .with_retry(retry)
            .with_http_connector(connector)
            .build()
            .map_err(|error| unusable(error.to_string()))?;
        let prefix = Key::from(settings.prefix.as_str());
        Ok(Self {
            store,
            prefix,
            shown: format!("bucket {} at {}", settings.bucket, settings.endpoint),
        })
    }

    /// Copies a closed file to the object `key`. The storage checks the SHA-256 of each part, and is
    /// asked for the length of the whole at the end. Memory: three parts of 8 MiB, more for files
    /// beyond 78 GiB.
    ///
    /// # Errors
    /// Returns [`CopyError`]. The parts of a failed copy are given up at the storage.
    pub async fn put_file(&self, local: &Path, key: &str) -> Result<Copied, CopyError> {
        let mut parts = Parts::open(local).await?;
        let bytes = parts.left;
        let put = if bytes <= parts.part_bytes {
            let whole = parts.next().await?.unwrap_or_default();
            let at = self.key(key);
            let put = self.store.put(&at, PutPayload::from(whole)).await;
            put.map_err(|error| self.failed(key, &error))?
        } else {
            self.put_in_parts(&mut parts, key).await?
        };
        let held = self.length_of(key).await?;
        if held != bytes {
            // An object that is not whole must not be taken for a copy by anybody.
            self.delete(key).await?;
            return Err(CopyError::Incomplete {
                storage: self.shown.clone(),
                key: key.to_owned(),
                bytes,
                held,
            });
        }
        Ok(Copied {
            key: self.key(key).to_string(),
            bytes,
            tag: put.e_tag,
        })
    }

    async fn put_in_parts(&self, parts: &mut Parts, key: &str) -> Result<PutResult, CopyError> {
        let failed = |error| self.failed(key, &error);
        let upload = self.store.put_multipart(&self.key(key)).await;
        let mut upload = upload.map_err(failed)?;
        let put = match put_all(parts, &mut *upload).await {
            Ok(()) => upload.complete().await.map_err(PartError::Storage),
            Err(error) => Err(error),
        };
        if put.is_err() {
            // The first error is told; a storage that is away does not give up anything either.
            let _ = upload.abort().await;
        }
        put.map_err(|error| match error {
            PartError::File(error) => error,
            PartError::Storage(error) => failed(error),
        })
    }

    /// Returns the length of the object `key` in bytes.
    ///
    /// # Errors
    /// Returns [`CopyError::Missing`] if there is no such object, another one if the storage fails.
    pub async fn length_of(&self, key: &str) -> Result<u64, CopyError> {
        let head = self.store.head(&self.key(key)).await;
        Ok(head.map_err(|error| self.failed(key, &error))?.size)
    }

    /// Returns bytes of the object `key`: those of `range`, at most 8 MiB of them from its start on.
    ///
    /// # Errors
    /// Returns [`CopyError`] if there is no such object or range, or if the storage fails.
    pub async fn read(&self, key: &str, range: Range<u64>) -> Result<Bytes, CopyError> {
        let end = range.end.min(range.start.saturating_add(READ_BYTES_MAX));
        let read = self.store.get_range(&self.key(key), range.start..end).await;
        read.map_err(|error| self.failed(key, &error))
    }

    /// Returns the error of a request that was not answered within `time`.
    pub(crate) fn late(&self, time: Duration) -> CopyError {
        CopyError::Storage {
            storage: self.shown.clone(),
            text: format!("no answer within {} s", time.as_secs()),
        }
    }

    /// Deletes the object `key`. An object that is not there is deleted.
    ///
    /// # Errors
    /// Returns [`CopyError`] if the storage fails.
    pub async fn delete(&self, key: &str) -> Result<(), CopyError> {
        let deleted = self.store.delete(&self.key(key)).await;
        match deleted.map_err(|error| self.failed(key, &error)) {
            Err(CopyError::Missing { .. }) => Ok(()),
            other => other,
        }
    }

    /// Returns the key of an object with the prefix of the bucket. Characters that S3 does not take are
    /// escaped.
    fn key(&self, key: &str) -> Key {
        self.prefix.parts().chain(Key::from(key).parts()).collect()
    }

    fn failed(&self, key: &str, error: &Error) -> CopyError {
        CopyError::of_store(&self.shown, key, error)
    }
}

impl fmt::Debug for Bucket {
    /// Shows where the bucket is, without its key.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Bucket").field(&self.shown).finish()
    }
}

/// The error that ended an upload in parts.
enum PartError {
    File(CopyError),
    Storage(Error),
}

/// Uploads all parts, [`PARTS_IN_FLIGHT`] at a time.
async fn put_all(parts: &mut Parts, upload: &mut dyn MultipartUpload) -> Result<(), PartError> {
    let mut flying = JoinSet::new();
    while let Some(part) = parts.next().await.map_err(PartError::File)? {
        flying.spawn(upload.put_part(PutPayload::from(part)));
        if flying.len() == PARTS_IN_FLIGHT {
            landed(flying.join_next().await)?;
        }
    }
    while let Some(part) = flying.join_next().await {
        landed(Some(part))?;
    }
    Ok(())
}

fn landed(part: Option<Result<Result<(), Error>, JoinError>>) -> Result<(), PartError> {
    match part {
        Some(Ok(part)) => part.map_err(PartError::Storage),
        Some(Err(error)) => Err(PartError::Storage(error.into())),
        None => Ok(()),
    }
}

/// A closed file, read part by part.
struct Parts {
    path: PathBuf,
    file: File,
    /// Bytes that were not read yet.
    left: u64,
    part_bytes: u64,
}

impl Parts {
    async fn open(path: &Path) -> Result<Self, CopyError> {
        let failed = |source| CopyError::local(path, source);
        let file = File::open(path).await.map_err(failed)?;
        let left = file.metadata().await.map_err(failed)?.len();
        Ok(Self {
            path: path.to_owned(),
            file,
            left,
            part_bytes: part_bytes(left),
        })
    }

    /// Returns the next part; `None` at the end.
    async fn next(&mut self) -> Result<Option<Bytes>, CopyError> {
        let failed = |source| CopyError::local(&self.path, source);
        let changed = || CopyError::Changed {
            path: self.path.clone(),
        };
        if self.left == 0 {
            // A file that grew is no closed file.
            let more = self.file.read_u8().await;
            return more.map_or(Ok(None), |_| Err(changed()));
        }
        let wanted = self.left.min(self.part_bytes);
        let mut part = Vec::with_capacity(usize::try_from(wanted).unwrap_or_default());
        let mut file = (&mut self.file).take(wanted);
        let read = file.read_to_end(&mut part).await.map_err(failed)? as u64;
        if read < wanted {
            return Err(changed());
        }
        self.left -= read;
        Ok(Some(part.into()))
    }
}

/// Returns the length of parts for a file of `bytes` bytes.
fn part_bytes(bytes: u64) -> u64 {
    PART_BYTES.max(bytes.div_ceil(PARTS_MAX))
}

#[cfg(test)]
mod tests;
