//! An index with many rows, for tests.

use super::{COLUMNS, FolderIndex};
use crate::catalogue::CatalogueError;

impl FolderIndex {
    /// Notes closed files of ten minutes, one after the other, of streams called `cam0`, `cam1`, ….
    pub(crate) fn fill(
        &self,
        streams: u32,
        files_each: u32,
        start_s: u64,
    ) -> Result<(), CatalogueError> {
        let query = format!(
            "WITH RECURSIVE n(i) AS (SELECT 0 UNION ALL SELECT i + 1 FROM n WHERE i + 1 < {}) \
             INSERT INTO files ({COLUMNS}) SELECT 'cam' || (i % {streams}) || '/' || i, \
             'cam' || (i % {streams}), '', 1, i / {streams}, ({start_s} + i / {streams} * 600) * 1000000, \
             600000000, 225000000, '[]', '{{\"because\":\"length\"}}', 1 FROM n",
            streams * files_each
        );
        self.change(|index| index.execute_batch(&query))
    }
}
