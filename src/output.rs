//! Output to stdout: what the user asked for.

use std::io::{ErrorKind, Write as _};

use crate::exit::Failure;

/// Prints `text` and flushes it. A reader that closed its end early, like `head`, is no error.
pub(crate) fn print(text: &str) -> Result<(), Failure> {
    let mut out = std::io::stdout().lock();
    match out.write_all(text.as_bytes()).and_then(|()| out.flush()) {
        Err(error) if error.kind() != ErrorKind::BrokenPipe => {
            Err(Failure::runtime(format_args!("stdout: {error}")))
        }
        _ => Ok(()),
    }
}
