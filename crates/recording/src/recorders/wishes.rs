//! Which streams are to be recorded, or not, against the configuration. A restart does not forget it.

use std::collections::BTreeMap;
use std::path::PathBuf;

use glassline_hub::StreamName;
use glassline_runtime::{private_file, small_file};

/// Most streams with a wish of their own.
const WISHES_MAX: usize = 10_000;

/// Largest file that is read.
const BYTES_MAX: u64 = 16 << 20;

/// The wishes by the names of their streams.
#[derive(Debug, Default)]
pub(super) struct Wishes {
    /// The file that keeps them; `None` keeps them as long as the server runs.
    file: Option<PathBuf>,
    wishes: BTreeMap<String, bool>,
}

impl Wishes {
    /// Reads the file. One that cannot be read is begun anew.
    pub(super) fn read(file: Option<PathBuf>) -> Self {
        let text = file
            .as_ref()
            .and_then(|it| small_file::read(it, BYTES_MAX).ok());
        let wishes = text.map(|it| serde_json::from_slice(&it));
        let wishes = wishes.unwrap_or_else(|| Ok(BTreeMap::new()));
        let wishes = wishes.unwrap_or_else(|error| {
            let file = file.as_ref().map(|it| it.display().to_string());
            tracing::error!(file, %error, "recordings that were started or stopped over the API are as the configuration says");
            BTreeMap::new()
        });
        Self { file, wishes }
    }

    /// Returns every wish.
    pub(super) fn all(&self) -> impl Iterator<Item = (StreamName, bool)> {
        let wishes = self.wishes.iter();
        wishes.filter_map(|(name, wish)| Some((StreamName::parse(name).ok()?, *wish)))
    }

    /// Keeps the wish for a stream, or forgets it. Fails with the reason as people read it; everything is then
    /// as before.
    pub(super) fn set(&mut self, name: &StreamName, wish: Option<bool>) -> Result<(), String> {
        let mut wishes = self.wishes.clone();
        match wish {
            Some(wish) => wishes.insert(name.to_string(), wish),
            None => wishes.remove(name.as_str()),
        };
        if wishes.len() > WISHES_MAX.max(self.wishes.len()) {
            return Err(format!("{WISHES_MAX} streams have one already"));
        }
        if let Some(file) = self.file.as_ref().filter(|_| wishes != self.wishes) {
            let text = serde_json::to_string_pretty(&wishes).expect("plain data");
            private_file::replace(file, &text)
                .map_err(|error| format!("{}: {error}", file.display()))?;
        }
        self.wishes = wishes;
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::scratch::Scratch;

    #[test]
    fn a_wish_outlives_the_server_and_one_that_cannot_be_kept_is_none() {
        let scratch = Scratch::new();
        // The server has kept nothing before, so not even the folder is there.
        let file = scratch.path().join("state").join("wishes.json");
        let names = ["gate", "site/yard"].map(|it| StreamName::parse(it).expect("a name"));
        let mut wishes = Wishes::read(Some(file.clone()));
        wishes.set(&names[0], Some(true)).expect("a folder");
        wishes.set(&names[1], Some(false)).expect("a folder");
        wishes.set(&names[0], None).expect("a folder");
        let mut again = Wishes::read(Some(file.clone()));
        let kept: Vec<_> = again.all().collect();
        assert_eq!(kept, [(names[1].clone(), false)]);
        std::fs::remove_file(&file).expect("it was written");
        std::fs::create_dir(file.with_extension("json.new")).expect("a folder in the way");
        let refused = again.set(&names[0], Some(true)).expect_err("no file");
        assert!(refused.contains("wishes.json"), "{refused}");
        assert_eq!(again.all().count(), 1);
        std::fs::write(&file, "{").expect("a damaged file");
        assert_eq!(Wishes::read(Some(file)).all().count(), 0);
    }
}
