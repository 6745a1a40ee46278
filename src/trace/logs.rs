//! `glassline trace LOG…`: reads logs and traces of WebRTC engines, and shows a table of their
//! stages.

use std::fs::File;
use std::io::BufReader;
use std::process::ExitCode;

use glassline_lab::call::import::Refused;
use glassline_lab::call::{Importer, report};

use super::Options;
use crate::bench::files::Outputs;
use crate::exit::Failure;

/// Bytes that are read from a file at once.
const BUFFER_BYTES: usize = 64 << 10;

pub(super) fn run(options: &Options, quiet: bool) -> Result<ExitCode, Failure> {
    if options.watch {
        return Err(Failure::usage(
            "--watch shows a stream again and again; a log file is read once",
        ));
    }
    let mut importer = Importer::new();
    for name in &options.names {
        let failed = |error| Failure::runtime(format_args!("{name}: {error}"));
        let file = File::open(name).map_err(failed)?;
        let file = BufReader::with_capacity(BUFFER_BYTES, file);
        importer.read(name, file).map_err(|refused| match refused {
            Refused::Read { .. } => Failure::runtime(refused),
            _ => Failure::usage(refused),
        })?;
    }
    let report = importer.finish();
    let mut outputs = Outputs::open(&options.files)?;
    if !quiet {
        outputs.print(|color| report.to_text(color))?;
    }
    outputs.write(
        || report.to_json(),
        || report.to_csv(),
        || report::svg::draw(&report),
    )?;
    Ok(ExitCode::SUCCESS)
}
