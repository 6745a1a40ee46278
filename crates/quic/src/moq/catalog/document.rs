use serde_json::{Map, Value};

use super::Catalog;
use super::error::{BYTES_MAX, CatalogError};

/// The catalog document of a broadcast, to which its patches are applied.
#[derive(Debug, Default)]
pub(in crate::moq) struct Document {
    value: Value,
}

impl Document {
    /// Applies a frame of the catalog's track. `is_first`: whether the frame is the first one
    /// of its group, which holds a whole document.
    ///
    /// # Errors
    /// [`CatalogError`] if the frame is too long, is not JSON, or contradicts itself.
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
    /// Parses a whole document.
    ///
    /// # Errors
    /// [`CatalogError`] names the first error.
    pub fn parse(document: &[u8]) -> Result<Self, CatalogError> {
        Document::default().take(document, true)
    }
}

/// Applies a merge patch (RFC 7396 §2). The parser bounds the depth of a patch to 128.
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
