//! Metrics of recordings.

use std::fmt::Write as _;

use glassline_recording::{Recorders, RecordingState, RecordingStatus};
use glassline_service::metrics::head;

use super::CopyFigures;

/// Appends the metrics of all recordings and their folders.
pub(super) fn write(recorders: &Recorders, text: &mut String) {
    let statuses = recorders.statuses();
    of_streams(&statuses, text);
    of_losses(&statuses, text);
    of_folders(recorders, text);
    let deleted = recorders.deleted();
    let help = "Files of recordings that were deleted because they are not to be kept.";
    head(text, "recording_deleted_files_total", "counter", help);
    let _ = writeln!(
        text,
        "glassline_recording_deleted_files_total {}",
        deleted.files
    );
    let help = "Bytes of the files of recordings that were deleted.";
    head(text, "recording_deleted_bytes_total", "counter", help);
    let _ = writeln!(
        text,
        "glassline_recording_deleted_bytes_total {}",
        deleted.bytes
    );
    let help =
        "Files of recordings that were deleted before they had a copy, because space was needed.";
    head(
        text,
        "recording_deleted_uncopied_files_total",
        "counter",
        help,
    );
    let _ = writeln!(
        text,
        "glassline_recording_deleted_uncopied_files_total {}",
        deleted.uncopied_files
    );
}

/// Appends the metrics of copies in object storage.
pub(super) fn of_copies(copies: &CopyFigures, text: &mut String) {
    let rows: [(&str, &str, &str, f64); 7] = [
        (
            "recording_copies_waiting_files",
            "gauge",
            "Finished files of recordings that wait for a copy in object storage.",
            copies.waiting.files as f64,
        ),
        (
            "recording_copies_waiting_bytes",
            "gauge",
            "Bytes of the files that wait for a copy.",
            copies.waiting.bytes as f64,
        ),
        (
            "recording_copies_oldest_seconds",
            "gauge",
            "Time since the beginning of the oldest file that waits for a copy; 0 if none waits.",
            copies.oldest.as_secs_f64(),
        ),
        (
            "recording_copies_refused_files",
            "gauge",
            "Files that could not be read for a copy, and are not tried again.",
            copies.waiting.refused as f64,
        ),
        (
            "recording_copied_files_total",
            "counter",
            "Files whose copy the object storage has confirmed.",
            copies.copied.files as f64,
        ),
        (
            "recording_copied_bytes_total",
            "counter",
            "Bytes of the files whose copy the object storage has confirmed.",
            copies.copied.bytes as f64,
        ),
        (
            "recording_copy_failures_total",
            "counter",
            "Attempts to copy a file that failed.",
            copies.copied.failures as f64,
        ),
    ];
    for (name, kind, help, value) in rows {
        head(text, name, kind, help);
        let _ = writeln!(text, "glassline_{name} {value}");
    }
}

fn of_streams(statuses: &[RecordingStatus], text: &mut String) {
    type Read = fn(&RecordingStatus) -> f64;
    let rows: [(&str, &str, &str, Read); 4] = [
        (
            "recording_active",
            "gauge",
            "Whether frames of a stream are recorded now: 1, or 0 while there is no source or frames are lost.",
            |it| f64::from(u8::from(it.state == RecordingState::Recording)),
        ),
        (
            "recording_bytes_total",
            "counter",
            "Bytes of recordings that were written.",
            |it| it.bytes as f64,
        ),
        (
            "recording_fragments_total",
            "counter",
            "Fragments of about a second that were written.",
            |it| it.fragments as f64,
        ),
        (
            "recording_lag_seconds",
            "gauge",
            "Time from the publication of the newest frame until it was written.",
            |it| it.lag.as_secs_f64(),
        ),
    ];
    for (name, kind, help, read) in rows {
        head(text, name, kind, help);
        for status in statuses {
            let (stream, value) = (&status.stream, read(status));
            let _ = writeln!(text, "glassline_{name}{{stream=\"{stream}\"}} {value}");
        }
    }
}

fn of_losses(statuses: &[RecordingStatus], text: &mut String) {
    let help = "Seconds of footage that were not recorded, by reason.";
    head(text, "recording_lost_seconds_total", "counter", help);
    for status in statuses {
        for loss in &status.losses {
            let (stream, reason, seconds) = (&status.stream, loss.reason, loss.time.as_secs_f64());
            let _ = writeln!(
                text,
                "glassline_recording_lost_seconds_total{{stream=\"{stream}\",reason=\"{reason}\"}} {seconds}"
            );
        }
    }
}

fn of_folders(recorders: &Recorders, text: &mut String) {
    let folders = recorders.folders();
    let help = "Whether recordings can be written to a folder.";
    head(text, "recording_folder_ready", "gauge", help);
    for folder in &folders {
        let (path, is_ready) = (label(&folder.path), u8::from(folder.problem.is_none()));
        let _ = writeln!(
            text,
            "glassline_recording_folder_ready{{folder=\"{path}\"}} {is_ready}"
        );
    }
    let help = "Part of the last ten seconds in which a disk worked for recordings, of 1.";
    head(text, "recording_disk_share", "gauge", help);
    for folder in &folders {
        let (path, share) = (label(&folder.path), folder.disk_share);
        let _ = writeln!(
            text,
            "glassline_recording_disk_share{{folder=\"{path}\"}} {share}"
        );
    }
    let help = "Seconds for which threads waited for a disk: `write` for the system to take footage, `sync` for the disk.";
    head(text, "recording_disk_seconds_total", "counter", help);
    for folder in &folders {
        let times = [("write", folder.write_time), ("sync", folder.sync_time)];
        for (work, time) in times {
            let (path, seconds) = (label(&folder.path), time.as_secs_f64());
            let _ = writeln!(
                text,
                "glassline_recording_disk_seconds_total{{folder=\"{path}\",work=\"{work}\"}} {seconds}"
            );
        }
    }
}

/// Returns a path as the value of a label.
fn label(path: &std::path::Path) -> String {
    let text = path.display().to_string();
    text.replace('\\', "\\\\")
        .replace('"', "\\\"")
        .replace('\n', "\\n")
}
