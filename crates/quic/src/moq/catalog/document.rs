use serde_json::{Map, Value};

use super::Catalog;
use super::error::{BYTES_MAX, CatalogError};

/// Follows the document of a broadcast through its patches.
#[derive(Debug, Default)]
pub(in crate::moq) struct Document {
    value: Value,
}

impl Document {
    /// Takes a frame of the catalog's track; `is_first` of its group.
    ///
    /// # Errors
    /// [`CatalogError`]: it is too long, no JSON, or nonsense.
    pub(in crate::moq) fn take(
        &mut self,
        frame: &[u8],
        is_first: bool,
    ) -> Result<Catalog, CatalogError> {
        let bytes = frame.len();
        if bytes > BYTES_MAX {
            return Err(CatalogError::Long { bytes });
        }
        let value: Value = serde_json::from_slice(frame)
            .map_err(|error| CatalogError::Malformed(error.to_string()))?;
        if is_first {
            self.value = value;
        } else {
            merge(&mut self.value, value);
        }
        Catalog::read(&self.value)
    }
}

impl Catalog {
    /// Reads a document as it stands on the wire.
    ///
    /// # Errors
    /// [`CatalogError`] names the first thing that is wrong.
    pub fn parse(document: &[u8]) -> Result<Self, CatalogError> {
        Document::default().take(document, true)
    }
}

/// RFC 7396 §2. The depth of a patch is bounded by the parser's, 128.
fn merge(target: &mut Value, patch: Value) {
    let Value::Object(patch) = patch else {
        *target = patch;
        return;
    };
    if !target.is_object() {
        *target = Value::Object(Map::new());
    }
    if let Value::Object(map) = target {
        for (key, value) in patch {
            if value.is_null() {
                map.remove(&key);
            } else {
                merge(map.entry(key).or_insert(Value::Null), value);
            }
        }
    }
}
