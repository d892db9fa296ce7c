//! `rondo validate`: every fault of workflow files, before anything is paid for.

use std::io::Read;
use std::path::PathBuf;

use rondo_protocol::diagnostic::{Code, Diagnostic, Severity};
use serde::Serialize;

use super::exit::Exit;
use super::failure::{Failure, Faulty};
use super::output::{Output, Style, tell};
use super::{JsonArgs, report, workflow, working_folder};

/// The most bytes that are read from stdin; the reader's own budget is lower and has better words.
const MAX_STDIN_BYTES: u64 = 16 << 20;

/// Check workflow files and tell every fault with its place
#[derive(Debug, clap::Args)]
pub struct ValidateArgs {
    /// Workflow files, folders, or names below workflows/
    #[arg(required_unless_present = "stdin")]
    files: Vec<String>,
    /// Read one workflow from stdin; a file named beside it gives its name and folder
    #[arg(long)]
    stdin: bool,
    #[command(flatten)]
    pub(super) json: JsonArgs,
}

/// A diagnostic as a JSON line.
#[derive(Debug, Serialize)]
struct Line<'a> {
    event: &'static str,
    #[serde(flatten)]
    diagnostic: &'a Diagnostic,
}

/// Checks files.
pub fn validate(args: &ValidateArgs, output: &mut Output) -> Result<Exit, Failure> {
    let here = working_folder()?;
    let mut errors = 0;
    let mut warnings = 0;
    let mut checked = 0;
    if args.stdin {
        let name = args.files.first().map_or("stdin.yaml", String::as_str);
        let found = stdin_text().and_then(|text| workflow::check(PathBuf::from(name), text));
        count(found, output, &mut errors, &mut warnings)?;
        checked += 1;
    } else {
        for name in &args.files {
            count(workflow::load(name, &here), output, &mut errors, &mut warnings)?;
            checked += 1;
        }
    }
    if !output.is_json() {
        let files = if checked == 1 { "1 file".to_owned() } else { format!("{checked} files") };
        let many = |count: usize, word: &str| format!("{count} {word}{}", if count == 1 { "" } else { "s" });
        tell(&format!("{files}: {}, {}\n", many(errors, "error"), many(warnings, "warning")));
    }
    Ok(if errors == 0 { Exit::Done } else { Exit::Invalid })
}

fn count(
    found: Result<workflow::Loaded, Failure>,
    output: &mut Output,
    errors: &mut usize,
    warnings: &mut usize,
) -> Result<(), Failure> {
    let faulty = match found {
        Ok(loaded) => {
            let mut faults = loaded.checked.warnings;
            faults.extend(loaded.checked.not_yet);
            faults.sort_by(|a, b| (&a.file, a.span).cmp(&(&b.file, b.span)));
            Faulty { faults, sources: loaded.sources }
        }
        Err(Failure::Diagnostics(faulty)) => faulty,
        Err(failure) => {
            // One file that cannot be read does not hide the faults of the others.
            report::failure(&failure, output);
            *errors += 1;
            return Ok(());
        }
    };
    *errors += faulty.faults.iter().filter(|fault| fault.severity == Severity::Error).count();
    *warnings += faulty.faults.iter().filter(|fault| fault.severity == Severity::Warning).count();
    if output.is_json() {
        for diagnostic in &faulty.faults {
            output.line(&Line { event: "diagnostic", diagnostic })?;
        }
        return Ok(());
    }
    output.write(report::diagnostics(&faulty, Style::stdout()).as_bytes())
}

fn stdin_text() -> Result<String, Failure> {
    let unreadable = |what: String| Failure::new(Code::FileRefused, format!("stdin: {what}"));
    let mut bytes = Vec::new();
    std::io::stdin()
        .lock()
        .take(MAX_STDIN_BYTES + 1)
        .read_to_end(&mut bytes)
        .map_err(|error| unreadable(error.to_string()))?;
    if u64::try_from(bytes.len()).unwrap_or(u64::MAX) > MAX_STDIN_BYTES {
        return Err(unreadable(format!("it is larger than {MAX_STDIN_BYTES} bytes")));
    }
    String::from_utf8(bytes).map_err(|_| unreadable("it is not UTF-8".to_owned()))
}
