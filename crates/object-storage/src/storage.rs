//! A storage in memory that speaks the part of S3 which the crate uses, with faults on request.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use aws_lc_rs::digest;
use axum::http::{Method, Response, StatusCode};
use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use bytes::Bytes;
use http_body_util::{BodyExt, Full};
use object_store::ClientOptions;
use object_store::client::{
    HttpClient, HttpConnector, HttpError, HttpErrorKind, HttpRequest, HttpResponse,
    HttpResponseBody, HttpService,
};
use parking_lot::Mutex;

use crate::bucket::BucketSettings;

/// A fault of the storage.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Fault {
    /// Every connection is refused.
    Away,
    /// Each request is answered by this status.
    Answers(u16),
    /// The second part of uploads is confirmed and lost.
    LosesAPart,
    /// A bit of each part changes on the way.
    Damages,
    /// Each answer takes so long.
    Slow(Duration),
}

#[derive(Debug, Default)]
struct Held {
    objects: BTreeMap<String, Bytes>,
    uploads: BTreeMap<String, BTreeMap<u32, Bytes>>,
    fault: Option<Fault>,
    requests: usize,
}

/// The storage. Clones share one content.
#[derive(Clone, Debug, Default)]
pub(crate) struct Storage(Arc<Mutex<Held>>);

impl Storage {
    pub(crate) fn set(&self, fault: Option<Fault>) {
        self.0.lock().fault = fault;
    }

    pub(crate) fn put(&self, key: &str, object: Vec<u8>) {
        let mut held = self.0.lock();
        held.objects.insert(key.to_owned(), object.into());
    }

    pub(crate) fn object(&self, key: &str) -> Option<Bytes> {
        self.0.lock().objects.get(key).cloned()
    }

    /// Number of uploads that were neither completed nor given up.
    pub(crate) fn open_uploads(&self) -> usize {
        self.0.lock().uploads.len()
    }

    pub(crate) fn requests(&self) -> usize {
        self.0.lock().requests
    }

    /// Returns settings of a bucket here.
    pub(crate) fn settings() -> BucketSettings {
        BucketSettings {
            endpoint: "http://storage.test".to_owned(),
            bucket: "footage".to_owned(),
            prefix: "site".to_owned(),
            region: "us-east-1".to_owned(),
            access_key: "key".to_owned(),
            secret_key: "secret".to_owned(),
            bytes_per_s: None,
        }
    }
}

impl HttpConnector for Storage {
    fn connect(&self, _: &ClientOptions) -> object_store::Result<HttpClient> {
        Ok(HttpClient::new(self.clone()))
    }
}

#[async_trait]
impl HttpService for Storage {
    async fn call(&self, request: HttpRequest) -> Result<HttpResponse, HttpError> {
        let (parts, body) = request.into_parts();
        let body = body.collect().await?.to_bytes();
        let fault = self.0.lock().fault;
        if let Some(Fault::Slow(time)) = fault {
            tokio::time::sleep(time).await;
        }
        let mut held = self.0.lock();
        held.requests += 1;
        match held.fault {
            Some(Fault::Away) => {
                let refused = std::io::Error::other("connection refused");
                return Err(HttpError::new(HttpErrorKind::Connect, refused));
            }
            Some(Fault::Answers(status)) => return Ok(answer(status, Bytes::new())),
            _ => {}
        }
        let path = parts.uri.path().to_owned();
        let key = path
            .strip_prefix("/footage/")
            .unwrap_or_default()
            .to_owned();
        let query = parts.uri.query().unwrap_or_default();
        let value = |name: &str| {
            let mut pairs = query.split('&').filter_map(|pair| pair.split_once('='));
            pairs
                .find(|(it, _)| *it == name)
                .map(|(_, value)| value.to_owned())
        };
        let checksum = parts.headers.get("x-amz-checksum-sha256");
        let range = parts.headers.get("range").and_then(|it| it.to_str().ok());
        Ok(match (parts.method.clone(), value("uploadId")) {
            (Method::POST, None) => {
                let id = format!("u{}", held.requests);
                held.uploads.insert(id.clone(), BTreeMap::new());
                let text = format!(
                    "<InitiateMultipartUploadResult><Bucket>footage</Bucket><Key>{key}</Key>\
                     <UploadId>{id}</UploadId></InitiateMultipartUploadResult>"
                );
                answer(200, text.into())
            }
            (Method::PUT, upload) => {
                let mut sent = body.to_vec();
                if held.fault == Some(Fault::Damages) {
                    sent[0] ^= 1;
                }
                let sum = BASE64_STANDARD.encode(digest::digest(&digest::SHA256, &sent));
                if checksum.is_none_or(|it| it.as_bytes() != sum.as_bytes()) {
                    return Ok(answer(400, "<Error><Code>BadDigest</Code></Error>".into()));
                }
                match upload {
                    None => drop(held.objects.insert(key, sent.into())),
                    Some(id) => {
                        let number = value("partNumber").and_then(|it| it.parse().ok());
                        let number = number.expect("each part has a number");
                        let is_lost = held.fault == Some(Fault::LosesAPart) && number == 2;
                        let upload = held.uploads.get_mut(&id).expect("it was begun");
                        if !is_lost {
                            upload.insert(number, sent.into());
                        }
                    }
                }
                answer(200, Bytes::new())
            }
            (Method::POST, Some(id)) => {
                let parts = held.uploads.remove(&id).expect("it was begun");
                let whole: Vec<u8> = parts.into_values().flatten().collect();
                held.objects.insert(key.clone(), whole.into());
                let text = "<CompleteMultipartUploadResult><ETag>\"whole\"</ETag>\
                            </CompleteMultipartUploadResult>";
                answer(200, text.into())
            }
            (Method::DELETE, Some(id)) => {
                held.uploads.remove(&id);
                answer(204, Bytes::new())
            }
            (Method::DELETE, None) => {
                held.objects.remove(&key);
                answer(204, Bytes::new())
            }
            (method, _) => match held.objects.get(&key) {
                None => answer(404, Bytes::new()),
                Some(object) => read(object, range, method == Method::HEAD),
            },
        })
    }
}

/// Answers HEAD and GET.
fn read(object: &Bytes, range: Option<&str>, is_head: bool) -> HttpResponse {
    let range = range.and_then(|it| it.strip_prefix("bytes=")?.split_once('-'));
    let Some((start, last)) = range else {
        let mut whole = answer(
            200,
            if is_head {
                Bytes::new()
            } else {
                object.clone()
            },
        );
        let length = object.len().into();
        whole.headers_mut().insert("content-length", length);
        return whole;
    };
    let start: usize = start.parse().expect("a number");
    let end = object
        .len()
        .min(last.parse::<usize>().expect("a number") + 1);
    if start >= end {
        return answer(416, Bytes::new());
    }
    let mut part = answer(206, object.slice(start..end));
    let shown = format!("bytes {start}-{}/{}", end - 1, object.len());
    let shown = shown.parse().expect("ASCII");
    part.headers_mut().insert("content-range", shown);
    part
}

fn answer(status: u16, body: Bytes) -> HttpResponse {
    let length = body.len();
    let body = Full::new(body).map_err(|never| match never {});
    let mut answer = Response::new(HttpResponseBody::new(body));
    *answer.status_mut() = StatusCode::from_u16(status).expect("a status");
    let headers = answer.headers_mut();
    headers.insert("content-length", length.into());
    headers.insert("etag", "\"tag\"".parse().expect("ASCII"));
    let date = "Mon, 30 Nov 2026 00:00:00 GMT".parse().expect("ASCII");
    headers.insert("last-modified", date);
    answer
}
