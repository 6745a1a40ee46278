//! Metrics of recordings.

use glassline_recording::{Recorders, RecordingState, RecordingStatus};
use glassline_service::metrics::Metric;

use super::CopyFigures;

/// Appends the metrics of all recordings and their folders.
pub(super) fn write(recorders: &Recorders, text: &mut String) {
    let statuses = recorders.statuses();
    of_streams(&statuses, text);
    of_folders(recorders, text);
    let deleted = recorders.deleted();
    let help = "Files of recordings that were deleted because they are not to be kept.";
    Metric::counter(text, "recording_deleted_files_total", help).value(deleted.files);
    let help = "Bytes of the files of recordings that were deleted.";
    Metric::counter(text, "recording_deleted_bytes_total", help).value(deleted.bytes);
    let help =
        "Files of recordings that were deleted before they had a copy, because space was needed.";
    Metric::counter(text, "recording_deleted_uncopied_files_total", help)
        .value(deleted.uncopied_files);
}

/// Appends the metrics of copies in object storage.
pub(super) fn of_copies(copies: &CopyFigures, text: &mut String) {
    let (waiting, copied) = (&copies.waiting, &copies.copied);
    let help = "Finished files of recordings that wait for a copy in object storage.";
    Metric::gauge(text, "recording_copies_waiting_files", help).value(waiting.files);
    let help = "Bytes of the files that wait for a copy.";
    Metric::gauge(text, "recording_copies_waiting_bytes", help).value(waiting.bytes);
    let help =
        "Time since the beginning of the oldest file that waits for a copy; 0 if none waits.";
    Metric::gauge(text, "recording_copies_oldest_seconds", help).value(copies.oldest.as_secs_f64());
    let help = "Files that could not be read for a copy, and are not tried again.";
    Metric::gauge(text, "recording_copies_refused_files", help).value(waiting.refused);
    let help = "Files whose copy the object storage has confirmed.";
    Metric::counter(text, "recording_copied_files_total", help).value(copied.files);
    let help = "Bytes of the files whose copy the object storage has confirmed.";
    Metric::counter(text, "recording_copied_bytes_total", help).value(copied.bytes);
    let help = "Attempts to copy a file that failed.";
    Metric::counter(text, "recording_copy_failures_total", help).value(copied.failures);
}

fn of_streams(statuses: &[RecordingStatus], text: &mut String) {
    let by_stream = |mut metric: Metric<'_>, read: fn(&RecordingStatus) -> f64| {
        for status in statuses {
            metric.of([("stream", status.stream.as_str())], read(status));
        }
    };
    let help = "Whether frames of a stream are recorded now: 1, or 0 while there is no source or frames are lost.";
    by_stream(Metric::gauge(text, "recording_active", help), |it| {
        f64::from(u8::from(it.state == RecordingState::Recording))
    });
    let help = "Bytes of recordings that were written.";
    by_stream(Metric::counter(text, "recording_bytes_total", help), |it| {
        it.bytes as f64
    });
    let help = "Fragments of about a second that were written.";
    by_stream(
        Metric::counter(text, "recording_fragments_total", help),
        |it| it.fragments as f64,
    );
    let help = "Time from the publication of the newest frame until it was written.";
    by_stream(Metric::gauge(text, "recording_lag_seconds", help), |it| {
        it.lag.as_secs_f64()
    });
    let help = "Seconds of footage that were not recorded, by reason.";
    let mut lost = Metric::counter(text, "recording_lost_seconds_total", help);
    for status in statuses {
        for loss in &status.losses {
            let reason = loss.reason.to_string();
            let labels = [("stream", status.stream.as_str()), ("reason", &reason)];
            lost.of(labels, loss.time.as_secs_f64());
        }
    }
}

fn of_folders(recorders: &Recorders, text: &mut String) {
    let folders = recorders.folders();
    let named: Vec<(String, _)> = folders
        .iter()
        .map(|it| (it.path.display().to_string(), it))
        .collect();
    let help = "Whether recordings can be written to a folder.";
    let mut ready = Metric::gauge(text, "recording_folder_ready", help);
    for (path, folder) in &named {
        ready.of([("folder", path)], u8::from(folder.problem.is_none()));
    }
    let help = "Part of the last ten seconds in which a disk worked for recordings, of 1.";
    let mut share = Metric::gauge(text, "recording_disk_share", help);
    for (path, folder) in &named {
        share.of([("folder", path)], folder.disk_share);
    }
    let help = "Seconds for which threads waited for a disk: `write` for the system to take footage, `sync` for the disk.";
    let mut waits = Metric::counter(text, "recording_disk_seconds_total", help);
    for (path, folder) in &named {
        for (work, time) in [("write", folder.write_time), ("sync", folder.sync_time)] {
            waits.of(
                [("folder", path.as_str()), ("work", work)],
                time.as_secs_f64(),
            );
        }
    }
}
