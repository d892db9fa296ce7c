//! Where the result of a run goes: stdout or a file, all of it or one text.

use std::path::PathBuf;

use rondo::protocol::Value;
use rondo::protocol::diagnostic::Code;

use super::show::pretty;
use super::{Failure, Output, Style, output_file};

#[derive(Debug, Clone, Default, clap::Args)]
pub struct View {
    /// Show results and faults only
    #[arg(short, long)]
    pub quiet: bool,
    /// Show answers in full while they are written
    #[arg(short, long, conflicts_with = "quiet")]
    pub verbose: bool,
    /// Write the result to this file instead of stdout; of a batch, a line for each result
    #[arg(short, long, value_name = "FILE")]
    pub output: Option<PathBuf>,
    /// Write only this key of the result: a text as it is, anything else as JSON
    #[arg(long, value_name = "KEY", conflicts_with = "json")]
    pub raw: Option<String>,
}

impl View {
    pub fn show_result(&self, result: &Value, output: &mut Output) -> Result<(), Failure> {
        let text = match &self.raw {
            Some(key) => raw(result, key)?,
            None => pretty(result),
        };
        match &self.output {
            Some(file) => output_file::write(file, text.as_bytes()).map_err(|failure| {
                failure.with_hint("`rondo resume last -o FILE` writes the result again; nothing is run twice")
            }),
            None if output.is_json() => Ok(()),
            // A shell gets every byte, a terminal none that steers it.
            None if self.raw.is_some() && !Style::stdout().is_terminal => output.write(text.as_bytes()),
            None => output.text(&text),
        }
    }
}

/// One key of a result: a text as it is, anything else as JSON; with a newline at its end.
fn raw(result: &Value, key: &str) -> Result<String, Failure> {
    let Some(value) = result.get(key) else {
        let message = format!("the result has no key `{}`", key.chars().take(40).collect::<String>());
        let hint = match result {
            Value::Object(members) if !members.is_empty() => {
                let keys = members.keys().cloned().collect::<Vec<_>>().join(", ");
                format!("its keys: {keys}; `rondo resume last --raw KEY` writes one, and runs nothing again")
            }
            _ => "it is no object; leave --raw out".to_owned(),
        };
        return Err(Failure::new(Code::UnknownInput, message).with_hint(hint));
    };
    let text = value.as_str().map_or_else(|| value.to_text(), str::to_owned);
    Ok(if text.ends_with('\n') { text } else { text + "\n" })
}
