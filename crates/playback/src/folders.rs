//! The folders of recordings of this server, each of which is asked on threads of its own: a disk that hangs is
//! named, and the others answer.

use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

use futures_util::future::join_all;
use glassline_recording::{Catalogue, CatalogueError, NewMark, RecordedFile, TimeRange};

use super::missing::{Missing, MissingPart, PartKind};
use super::pools::{Looks, Origin};
use super::{NoFootage, Playback, Subject};

/// Longest wait of a reader for the disk of one folder. A disk that sleeps takes some ten seconds to spin up.
const READER_WITHIN: Duration = Duration::from_secs(15);

/// Longest wait of another server, which itself waits for two seconds.
const SERVER_WITHIN: Duration = Duration::from_secs(1);

/// Whoever asks what a folder has.
#[derive(Clone, Copy, Debug)]
pub(super) enum Asker {
    /// A reader of this server.
    Reader,
    /// Another server of the cluster.
    Server,
}

/// Answers of the folders of this server.
#[derive(Debug)]
pub(super) struct FolderAnswers<T> {
    /// Answers of the folders whose disks gave them in time.
    pub(super) said: Vec<T>,
    /// The folders whose disks gave no answer in time.
    pub(super) missing: Missing,
}

impl Playback {
    /// Asks each folder of `catalogue` at the same time.
    ///
    /// # Errors
    /// Returns [`NoFootage`] if an index fails.
    pub(super) async fn ask_folders<T: Send + 'static, E: Send + 'static>(
        &self,
        catalogue: &Catalogue,
        asker: Asker,
        look: impl Fn(&Catalogue) -> Result<T, E> + Clone + Send + 'static,
    ) -> Result<FolderAnswers<T>, NoFootage>
    where
        NoFootage: From<E>,
    {
        let asked = join_all(catalogue.by_folder().into_iter().map(|(path, alone)| {
            let look = look.clone();
            async move {
                let said = self.ask_folder(&path, asker, move || look(&alone)).await;
                (path, said)
            }
        }));
        let (mut said, mut missing) = (Vec::new(), Missing::default());
        for (path, answer) in asked.await {
            match answer {
                Some(answer) => said.push(answer?),
                None => missing.0.push(asker.unanswered(&path)),
            }
        }
        Ok(FolderAnswers { said, missing })
    }

    /// Asks the folder at `path`. Returns `None` if its disk gives nothing in time.
    pub(super) async fn ask_folder<T: Send + 'static, E: Send + 'static>(
        &self,
        path: &Path,
        asker: Asker,
        look: impl FnOnce() -> Result<T, E> + Send + 'static,
    ) -> Option<Result<T, NoFootage>>
    where
        NoFootage: From<E>,
    {
        self.pools.add_folder(path);
        let threads = self.pools.of(Origin::Disk(path));
        let looks: &Looks = match asker {
            Asker::Reader => &threads.looks,
            Asker::Server => &threads.answers,
        };
        let said = looks.run(asker.within(), look).await?;
        Some(said.map_err(|_| NoFootage::Panicked).and_then(|it| Ok(it?)))
    }

    /// Returns the stream without the folders whose disks give nothing, the folder that has something nearest to
    /// `at`, and those that are missing.
    ///
    /// # Errors
    /// Returns [`NoFootage`] if an index fails.
    pub(super) async fn answering(
        &self,
        mut of: Subject,
        at: SystemTime,
    ) -> Result<(Subject, Option<PathBuf>, Missing), NoFootage> {
        let (stream, layer) = (of.stream.clone(), of.layer.clone());
        let look = move |catalogue: &Catalogue| catalogue.around(&stream, layer.as_deref(), at, 1);
        let told = self.ask_folders(&of.catalogue, Asker::Reader, look).await?;
        if !told.missing.0.is_empty() {
            let is_missing =
                |path: &Path| told.missing.0.iter().any(|it| Path::new(&it.name) == path);
            of.catalogue = of.catalogue.without(is_missing);
        }
        let files = told.said.into_iter().flatten();
        let nearest = files.min_by_key(|it| distance(it, at)).map(|it| it.path);
        Ok((of, nearest, told.missing))
    }

    /// Marks a span in the folder of this server that has the end of it, or in any if none has something of it.
    ///
    /// # Errors
    /// Returns [`NoFootage`] if a disk does not take the mark.
    pub(super) async fn mark_here(
        &self,
        catalogue: &Catalogue,
        mark: NewMark,
        asker: Asker,
    ) -> Result<(), NoFootage> {
        let (stream, range) = (
            mark.stream.clone(),
            TimeRange {
                from: mark.from,
                to: mark.to,
            },
        );
        let look = move |catalogue: &Catalogue| catalogue.files(&stream, range);
        let told = self.ask_folders(catalogue, asker, look).await?;
        let newest = told.said.into_iter().flatten().max_by_key(|it| it.start);
        let is_missing = |path: &Path| told.missing.0.iter().any(|it| Path::new(&it.name) == path);
        let takes = |path: &Path| match &newest {
            Some(file) => file.path.starts_with(path),
            None => !is_missing(path),
        };
        let mut folders = catalogue.by_folder().into_iter();
        let Some((path, alone)) = folders.find(|(path, _)| takes(path)) else {
            return Err(match told.missing.0.is_empty() {
                true => CatalogueError::NoFolder.into(),
                false => NoFootage::Away(told.missing.to_string()),
            });
        };
        let marking = self.ask_folder(&path, asker, move || alone.mark(mark));
        match marking.await {
            Some(marked) => marked.map(drop),
            None => Err(NoFootage::Away(
                Missing(vec![asker.unanswered(&path)]).to_string(),
            )),
        }
    }
}

impl Asker {
    const fn within(self) -> Duration {
        match self {
            Self::Reader => READER_WITHIN,
            Self::Server => SERVER_WITHIN,
        }
    }

    fn unanswered(self, folder: &Path) -> MissingPart {
        MissingPart {
            kind: PartKind::Folder,
            name: folder.display().to_string(),
            why: format!("its disk gave nothing for {} s", self.within().as_secs()),
        }
    }
}

/// Returns how far what is in a file is from `at`.
fn distance(file: &RecordedFile, at: SystemTime) -> Duration {
    let before = file.start.duration_since(at).unwrap_or_default();
    before + at.duration_since(file.end()).unwrap_or_default()
}
