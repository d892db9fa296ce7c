//! `rondo graph`: the graph of a workflow with its hooks, as a picture.

use std::io::IsTerminal as _;
use std::path::{Path, PathBuf};

use clap::ValueEnum;
use rondo_protocol::diagnostic::Code;

use super::exit::Exit;
use super::failure::Failure;
use super::output::Output;
use super::settings_files::settings;
use super::{output_file, workflow, working_folder};
use crate::config::Flags;
use crate::host::picture::draw;
use crate::picture;

/// Draw a workflow's graph with its hooks
#[derive(Debug, clap::Args)]
pub struct GraphArgs {
    /// A workflow file, a folder that holds workflow.yaml, or a name below workflows/
    workflow: String,
    /// The format of the picture; without it the ending of FILE tells it, else it is `mermaid`
    #[arg(long, value_enum)]
    format: Option<Format>,
    /// Write the picture to this file instead of stdout
    #[arg(short, long, value_name = "FILE")]
    output: Option<PathBuf>,
    /// `badges` names on each role the hooks that its calls pass; `full` draws them as nodes (`json` always does)
    #[arg(long, value_enum, default_value_t = Hooks::Badges)]
    hooks: Hooks,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Format {
    Mermaid,
    Dot,
    Json,
    Svg,
    Png,
}

impl Format {
    /// The one that the ending of a file's name stands for.
    fn of(file: &Path) -> Option<Self> {
        let ending = file.extension()?.to_str()?;
        match ending {
            "mmd" => Some(Self::Mermaid),
            "gv" => Some(Self::Dot),
            ending => Self::from_str(ending, true).ok(),
        }
    }
}

impl From<Format> for picture::Format {
    fn from(format: Format) -> Self {
        match format {
            Format::Mermaid => Self::Mermaid,
            Format::Dot => Self::Dot,
            Format::Json => Self::Json,
            Format::Svg => Self::Svg,
            Format::Png => Self::Png,
        }
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Hooks {
    Badges,
    Full,
}

impl From<Hooks> for picture::Hooks {
    fn from(hooks: Hooks) -> Self {
        match hooks {
            Hooks::Badges => Self::Badges,
            Hooks::Full => Self::Full,
        }
    }
}

pub fn graph(args: &GraphArgs, output: &mut Output) -> Result<Exit, Failure> {
    let format = args.format.or_else(|| Format::of(args.output.as_deref()?)).unwrap_or(Format::Mermaid);
    if format == Format::Png && args.output.is_none() && std::io::stdout().is_terminal() {
        let failure = Failure::new(Code::WriteFailed, "a terminal cannot show a PNG; nothing was drawn");
        return Err(failure.with_exit(Exit::Invalid).with_hint("name a file: `-o FILE.png`"));
    }
    let loaded = workflow::load(&args.workflow, &working_folder()?)?;
    let checked = &loaded.checked;
    let settings = settings(&Flags::default())?;
    let drawn = draw((&checked.workflow, &checked.policy), &settings, format.into(), args.hooks.into())?;
    match &args.output {
        Some(file) => output_file::write(file, &drawn)
            .map_err(|error| Failure::new(Code::WriteFailed, format!("{}: {error}", file.display())))?,
        None => output.write(&drawn)?,
    }
    Ok(Exit::Done)
}
