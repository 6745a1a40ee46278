//! The notes of a release: its part of the changelog, and its files.

/// Returns the part of a changelog about `version`, without its heading.
///
/// # Errors
/// The changelog has no part about the version, or an empty one.
pub(super) fn of_version(changelog: &str, version: &str) -> Result<String, String> {
    let heading = format!("## [{version}]");
    let mut lines = changelog
        .lines()
        .skip_while(|line| !line.starts_with(&heading));
    let first = lines.next().ok_or_else(|| {
        format!("CHANGELOG.md has no heading `{heading} - YYYY-MM-DD`: write it, with what is new")
    })?;
    let part: Vec<&str> = lines.take_while(|line| !line.starts_with("## ")).collect();
    let part = part.join("\n");
    match part.trim() {
        "" => Err(format!("CHANGELOG.md says nothing below `{first}`")),
        text => Ok(text.to_owned()),
    }
}

/// Returns the notes with what the programs need, and the names and sizes of all files.
pub(super) fn with_files(notes: &str, needs: &str, files: &[(String, u64)]) -> String {
    // Links of the changelog lead into the checkout.
    let rows = files.iter().map(|(name, bytes)| {
        let mib = *bytes as f64 / f64::from(1 << 20);
        format!("| `{name}` | {mib:.1} MiB |\n")
    });
    let rows: String = rows.collect();
    format!(
        "{notes}\n\n## Files\n\n{needs}\n| file | size |\n|---|---|\n{rows}\n`sha256sum --check SHA256SUMS` \
         compares what was downloaded.\n"
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    const CHANGELOG: &str = "# Changelog\n\n## [Unreleased]\n\n## [0.2.0] - 2026-11-30\n\n### New\n\n- A thing.\n\n\
                             ## [0.1.0]\n\n- Old.\n\n## [0.0.9]\n";

    #[test]
    fn the_notes_are_the_part_of_one_version() {
        assert_eq!(
            of_version(CHANGELOG, "0.2.0").as_deref(),
            Ok("### New\n\n- A thing.")
        );
        assert_eq!(of_version(CHANGELOG, "0.1.0").as_deref(), Ok("- Old."));
        assert!(
            of_version(CHANGELOG, "0.0.9")
                .expect_err("empty")
                .contains("nothing")
        );
        assert!(
            of_version(CHANGELOG, "0.3.0")
                .expect_err("absent")
                .contains("## [0.3.0]")
        );
    }

    #[test]
    fn the_notes_name_each_file_with_its_size() {
        let files = [("a.deb".to_owned(), 3 << 19)];
        let text = with_files("- A thing.", "- amd64: glibc 2.35 or newer\n", &files);
        assert!(text.starts_with("- A thing.\n\n## Files"), "{text}");
        assert!(text.contains("| `a.deb` | 1.5 MiB |"), "{text}");
    }
}
