//! The identity of a folder, which goes with its disk.

use std::fmt;
use std::hash::{BuildHasher as _, RandomState};
use std::io;
use std::path::Path;
use std::str::FromStr;

use glassline_runtime::small_file;
use serde::{Deserialize, Serialize};

/// Identity of a folder of recordings.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct FolderId(u64);

impl FolderId {
    /// Draws the identity of a new folder. It tells folders apart and is no secret.
    pub(super) fn draw() -> Self {
        Self(RandomState::new().hash_one(std::process::id()))
    }
}

impl fmt::Display for FolderId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:016x}", self.0)
    }
}

impl FromStr for FolderId {
    type Err = &'static str;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let number = u64::from_str_radix(text, 16).ok();
        number
            .map(Self)
            .ok_or("an identity has 16 digits of 0 to f")
    }
}

impl TryFrom<String> for FolderId {
    type Error = &'static str;

    fn try_from(text: String) -> Result<Self, Self::Error> {
        text.parse()
    }
}

impl From<FolderId> for String {
    fn from(id: FolderId) -> Self {
        id.to_string()
    }
}

/// The file that has the identity.
#[derive(Serialize, Deserialize)]
struct Identity {
    folder: FolderId,
}

const FILE: &str = "identity.json";

/// Largest such file that is read.
const BYTES_MAX: u64 = 4 << 10;

/// Reads the identity from our folder; `None` if there is none.
pub(super) fn read(own: &Path) -> io::Result<Option<FolderId>> {
    match small_file::read(&own.join(FILE), BYTES_MAX) {
        Ok(text) => {
            let identity: Identity = serde_json::from_slice(&text)?;
            Ok(Some(identity.folder))
        }
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(error) => Err(error),
    }
}

/// Writes the identity into our folder: whole, or not at all.
pub(super) fn write(own: &Path, folder: FolderId) -> io::Result<()> {
    let text = serde_json::to_vec(&Identity { folder })?;
    let new = own.join("identity.new");
    std::fs::write(&new, text)?;
    std::fs::File::open(&new)?.sync_all()?;
    std::fs::rename(new, own.join(FILE))
}
