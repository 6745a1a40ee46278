//! What `config check --try` tries, as findings.

use glassline_server::Tried;

use super::finding::Finding;

/// Makes a finding of a trial; `why` says what a fault means for viewers.
pub(super) fn finding(check: &'static str, tried: &Tried, why: &str) -> Finding {
    match &tried.outcome {
        Ok(said) => Finding::ok(check, &tried.key, said),
        Err(fault) => {
            let finding = Finding::failure(check, &tried.key, &fault.wrong).why(why);
            match fault.remedy.as_str() {
                "" => finding.change(format!("correct `{}` in the configuration", tried.key)),
                remedy => finding.change(remedy),
            }
        }
    }
}
