//! `rondo graph`: the graph of a workflow with its hooks, as a picture.

use std::path::{Path, PathBuf};

use clap::ValueEnum;
use rondo::host::picture::draw;
use rondo::picture;
use rondo::protocol::diagnostic::Code;
use rondo::settings::Flags;

use super::exit::Exit;
use super::failure::Failure;
use super::output::Output;
use super::settings_files::settings;
use super::{output_file, workflow, working_folder};

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
}

impl From<Format> for picture::Format {
    fn from(format: Format) -> Self {
        match format {
            Format::Mermaid => Self::Mermaid,
            Format::Dot => Self::Dot,
            Format::Json => Self::Json,
            Format::Svg => Self::Svg,
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

/// Endings of files with pixels, which are not drawn.
const PIXELS: [&str; 6] = ["gif", "jpeg", "jpg", "pdf", "png", "webp"];

/// The format that the ending of a file's name stands for.
fn of_ending(file: &Path) -> Result<Format, Failure> {
    let ending = file.extension().and_then(|ending| ending.to_str()).unwrap_or_default();
    if PIXELS.contains(&ending.to_ascii_lowercase().as_str()) {
        let message = format!("{}: a picture is drawn as Mermaid, DOT, JSON or SVG", file.display());
        let hint = format!(
            "write `-o {}`, which browsers show and image programs convert",
            file.with_extension("svg").display()
        );
        return Err(Failure::new(Code::WriteFailed, message).with_exit(Exit::Invalid).with_hint(hint));
    }
    Ok(match ending {
        "mmd" => Format::Mermaid,
        "gv" => Format::Dot,
        ending => Format::from_str(ending, true).unwrap_or(Format::Mermaid),
    })
}

pub fn graph(args: &GraphArgs, output: &mut Output) -> Result<Exit, Failure> {
    let format = match (args.format, &args.output) {
        (Some(format), _) => format,
        (None, Some(file)) => of_ending(file)?,
        (None, None) => Format::Mermaid,
    };
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
