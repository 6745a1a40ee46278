//! An image for containers as a folder (OCI image layout 1.1), written without a daemon.
//!
//! ```text
//! index.json ─► index of all processors ─► manifest ─► configuration
//!                                                  └─► layers: base, program
//! ```
//!
//! Everything but `index.json` is in `blobs/sha256/`, named by its sum.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use serde_json::{Value, json};

use super::root_files::{RootFiles, USER};
use super::tar::{self, Entry};
use crate::architecture::Architecture;
use crate::package::{at, commit, fresh, write};
use crate::process;

const MANIFEST: &str = "application/vnd.oci.image.manifest.v1+json";
const INDEX: &str = "application/vnd.oci.image.index.v1+json";
const CONFIGURATION: &str = "application/vnd.oci.image.config.v1+json";
const LAYER: &str = "application/vnd.oci.image.layer.v1.tar";

/// Pages, WHEP and API; HTTPS; media; RTSP; QUIC: those of `packaging/Dockerfile`.
const PORTS: [&str; 6] = [
    "8889/tcp", "8443/tcp", "8189/udp", "8189/tcp", "8554/tcp", "4443/udp",
];

/// An image layout that is being written.
pub(super) struct Layout {
    folder: PathBuf,
    version: String,
    /// Seconds since 1970 that everything has as its time.
    seconds: u64,
    is_compressed: bool,
    manifests: Vec<Value>,
}

/// A blob: its sum and its size.
struct Blob {
    digest: String,
    bytes: u64,
}

impl Blob {
    fn descriptor(&self, media_type: &str) -> Value {
        json!({"mediaType": media_type, "digest": self.digest, "size": self.bytes})
    }
}

impl Layout {
    /// Creates an empty layout.
    ///
    /// # Errors
    /// The folder cannot be made.
    pub(super) fn create(folder: &Path, version: &str, seconds: u64) -> Result<Self, String> {
        fresh(&folder.join("blobs/sha256"))?;
        write(
            &folder.join("oci-layout"),
            json!({"imageLayoutVersion": "1.0.0"}).to_string(),
        )?;
        Ok(Self {
            folder: folder.to_owned(),
            version: version.to_owned(),
            seconds,
            is_compressed: true,
            manifests: Vec::new(),
        })
    }

    /// Compresses layers from now on, or does not.
    pub(super) const fn compress(&mut self, is_compressed: bool) {
        self.is_compressed = is_compressed;
    }

    /// Adds the image for one processor.
    ///
    /// # Errors
    /// A file cannot be written, or a tool fails.
    pub(super) fn add(
        &mut self,
        architecture: Architecture,
        root: &RootFiles,
    ) -> Result<(), String> {
        let mut layers = Vec::new();
        let mut sums = Vec::new();
        for entries in [&root.base, &root.program] {
            let (layer, sum) = self.layer(entries)?;
            layers.push(layer);
            sums.push(sum);
        }
        let configuration = self.configuration(architecture, &sums)?;
        let configuration = self.blob(configuration.to_string().as_bytes())?;
        let manifest = json!({
            "schemaVersion": 2,
            "mediaType": MANIFEST,
            "config": configuration.descriptor(CONFIGURATION),
            "layers": layers,
            "annotations": self.annotations(),
        });
        let mut described = self
            .blob(manifest.to_string().as_bytes())?
            .descriptor(MANIFEST);
        described["platform"] = json!({"architecture": architecture.debian(), "os": "linux"});
        self.manifests.push(described);
        Ok(())
    }

    /// Writes the index of all processors.
    ///
    /// # Errors
    /// A file cannot be written.
    pub(super) fn finish(self) -> Result<(), String> {
        let index = json!({
            "schemaVersion": 2,
            "mediaType": INDEX,
            "manifests": self.manifests,
            "annotations": self.annotations(),
        });
        let mut described = self.blob(index.to_string().as_bytes())?.descriptor(INDEX);
        described["annotations"] = json!({"org.opencontainers.image.ref.name": self.version});
        let top = json!({"schemaVersion": 2, "mediaType": INDEX, "manifests": [described]});
        write(&self.folder.join("index.json"), top.to_string())
    }

    fn annotations(&self) -> Value {
        json!({
            "org.opencontainers.image.title": "glassline",
            "org.opencontainers.image.version": self.version,
            "org.opencontainers.image.revision": commit(),
            "org.opencontainers.image.licenses": "MIT OR Apache-2.0",
        })
    }

    fn configuration(&self, architecture: Architecture, sums: &[String]) -> Result<Value, String> {
        let ports: serde_json::Map<String, Value> = PORTS
            .iter()
            .map(|port| ((*port).to_owned(), json!({})))
            .collect();
        let created = self.created()?;
        let history = ["base", "program"].map(|it| json!({"created": created, "created_by": it}));
        Ok(json!({
            "created": created,
            "architecture": architecture.debian(),
            "os": "linux",
            "config": {
                "User": format!("{USER}:{USER}"),
                "ExposedPorts": ports,
                "Env": ["PATH=/usr/bin", "STATE_DIRECTORY=/var/lib/glassline"],
                "Entrypoint": ["/usr/bin/glassline"],
                "Cmd": ["serve", "/etc/glassline/glassline.yml"],
                "Volumes": {"/var/lib/glassline": {}},
                "Labels": self.annotations(),
            },
            "rootfs": {"type": "layers", "diff_ids": sums},
            "history": history,
        }))
    }

    /// Returns the time as RFC 3339 writes it.
    fn created(&self) -> Result<String, String> {
        let mut date = Command::new("date");
        date.args(["--utc", "+%Y-%m-%dT%H:%M:%SZ", "--date"]);
        date.arg(format!("@{}", self.seconds));
        let printed = process::output_of(&mut date);
        printed
            .map(|it| it.trim().to_owned())
            .ok_or_else(|| format!("{} failed", process::line(&date)))
    }

    /// Writes a layer; returns its descriptor, and the sum of the archive before it is compressed.
    fn layer(&self, entries: &[Entry]) -> Result<(Value, String), String> {
        let path = self.folder.join("layer.tar");
        let mut bytes = Vec::new();
        tar::write(entries, self.seconds, &mut bytes).map_err(|error| at(&path, &error))?;
        write(&path, bytes)?;
        let sum = digest_of(&path)?;
        if !self.is_compressed {
            let blob = self.keep(&path)?;
            return Ok((blob.descriptor(LAYER), sum));
        }
        let compressed = self.folder.join("layer.tar.gz");
        let file = fs::File::create(&compressed).map_err(|error| at(&compressed, &error))?;
        let mut gzip = Command::new("gzip");
        gzip.args(["--best", "--no-name", "--stdout"]).arg(&path);
        let status = gzip.stdout(file).stdin(Stdio::null()).status();
        if !status.is_ok_and(|it| it.success()) {
            return Err(format!("{} failed", process::line(&gzip)));
        }
        fs::remove_file(&path).map_err(|error| at(&path, &error))?;
        let blob = self.keep(&compressed)?;
        Ok((blob.descriptor(&format!("{LAYER}+gzip")), sum))
    }

    fn blob(&self, bytes: &[u8]) -> Result<Blob, String> {
        let path = self.folder.join("blob");
        write(&path, bytes)?;
        self.keep(&path)
    }

    /// Moves a file to its place among the blobs.
    fn keep(&self, path: &Path) -> Result<Blob, String> {
        let digest = digest_of(path)?;
        let bytes = fs::metadata(path).map_err(|error| at(path, &error))?.len();
        let name = digest.trim_start_matches("sha256:");
        let place = self.folder.join("blobs/sha256").join(name);
        fs::rename(path, &place).map_err(|error| at(&place, &error))?;
        Ok(Blob { digest, bytes })
    }
}

/// Returns the sum of a file as images name it.
fn digest_of(path: &Path) -> Result<String, String> {
    let mut command = Command::new("sha256sum");
    let printed = process::output_of(command.arg(path)).unwrap_or_default();
    let sum = printed.split_whitespace().next();
    let sum = sum.ok_or_else(|| format!("{} failed", process::line(&command)))?;
    Ok(format!("sha256:{sum}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn json_of(layout: &Path, descriptor: &Value) -> Value {
        let digest = descriptor["digest"].as_str().expect("a sum");
        let path = layout.join("blobs").join(digest.replace(':', "/"));
        assert_eq!(digest_of(&path).expect("readable"), digest);
        let bytes = fs::read(path).expect("a blob");
        assert_eq!(descriptor["size"].as_u64(), Some(bytes.len() as u64));
        serde_json::from_slice(&bytes).expect("JSON")
    }

    #[test]
    fn every_part_of_the_layout_has_its_sum_and_size() {
        let folder = std::env::temp_dir().join(format!("glassline-oci-{}", std::process::id()));
        for is_compressed in [true, false] {
            let mut layout = Layout::create(&folder, "0.2.0", 1_000_000_000).expect("ours");
            layout.compress(is_compressed);
            for architecture in Architecture::ALL {
                let program = architecture.debian().as_bytes().to_vec();
                let root = RootFiles {
                    base: vec![Entry::folder("etc")],
                    program: vec![Entry::program("usr/bin/glassline", program)],
                };
                layout.add(architecture, &root).expect("written");
            }
            layout.finish().expect("written");
            let top = fs::read(folder.join("index.json")).expect("an index");
            let top: Value = serde_json::from_slice(&top).expect("JSON");
            let named = &top["manifests"][0];
            assert_eq!(
                named["annotations"]["org.opencontainers.image.ref.name"],
                "0.2.0"
            );
            let index = json_of(&folder, named);
            let manifests = index["manifests"].as_array().expect("a list");
            let platforms: Vec<_> = manifests
                .iter()
                .map(|it| &it["platform"]["architecture"])
                .collect();
            assert_eq!(platforms, ["amd64", "arm64"]);
            for described in manifests {
                let manifest = json_of(&folder, described);
                let configuration = json_of(&folder, &manifest["config"]);
                assert_eq!(configuration["created"], "2001-09-09T01:46:40Z");
                let layers = manifest["layers"].as_array().expect("a list");
                let sums = configuration["rootfs"]["diff_ids"]
                    .as_array()
                    .expect("a list");
                assert_eq!(layers.len(), sums.len());
                for (layer, sum) in layers.iter().zip(sums) {
                    check_layer(&folder, layer, sum, is_compressed);
                }
            }
            // The base of both is the same blob; nothing else is left behind.
            let blobs = fs::read_dir(folder.join("blobs/sha256"))
                .expect("a folder")
                .count();
            assert_eq!(blobs, 1 + 2 * 3 + 1);
            assert_eq!(fs::read_dir(&folder).expect("a folder").count(), 3);
        }
        fs::remove_dir_all(folder).expect("ours");
    }

    fn check_layer(layout: &Path, layer: &Value, sum: &Value, is_compressed: bool) {
        let digest = layer["digest"].as_str().expect("a sum");
        let path = layout.join("blobs").join(digest.replace(':', "/"));
        assert_eq!(digest_of(&path).expect("readable"), digest);
        let media_type = layer["mediaType"].as_str().expect("a type");
        assert_eq!(media_type.ends_with("+gzip"), is_compressed);
        let unpacked = layout.with_extension("layer");
        let file = fs::File::create(&unpacked).expect("ours");
        let program = if is_compressed { "zcat" } else { "cat" };
        let input = fs::File::open(&path).expect("a blob");
        let status = Command::new(program).stdin(input).stdout(file).status();
        assert!(status.expect("a tool").success());
        assert_eq!(digest_of(&unpacked).expect("readable"), *sum);
        fs::remove_file(unpacked).expect("ours");
    }
}
