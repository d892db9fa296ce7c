use std::path::{Path, PathBuf};

use rondo::host::picture::draw;
use rondo::picture::{Format, Hooks};
use rondo::settings::Flags;

use super::settings_files::settings;
use super::{Exit, Failure, Output, choice, output_file, workflow, working_folder};

/// Draw a workflow's graph with its hooks
#[derive(Debug, clap::Args)]
pub struct GraphArgs {
    /// A workflow file, a folder that holds workflow.yaml, or a name below workflows/
    workflow: String,
    /// The format of the picture; without it the extension of FILE decides, else it is `mermaid`
    #[arg(long, value_parser = choice(FORMATS))]
    format: Option<Format>,
    /// Write the picture to this file instead of stdout
    #[arg(short, long, value_name = "FILE")]
    output: Option<PathBuf>,
    /// `badges` names on each role the hooks that its calls pass; `full` draws them as nodes (`json` always does)
    #[arg(long, default_value = "badges", value_parser = choice([("badges", Hooks::Badges), ("full", Hooks::Full)]))]
    hooks: Hooks,
}

const FORMATS: [(&str, Format); 4] =
    [("mermaid", Format::Mermaid), ("dot", Format::Dot), ("json", Format::Json), ("svg", Format::Svg)];

/// Endings of files with pixels, which are not drawn.
const PIXELS: [&str; 6] = ["gif", "jpeg", "jpg", "pdf", "png", "webp"];

fn of_ending(file: &Path) -> Result<Format, Failure> {
    let ending = file.extension().and_then(|ending| ending.to_str()).unwrap_or_default();
    if PIXELS.contains(&ending.to_ascii_lowercase().as_str()) {
        let message = format!("{}: a picture is drawn as Mermaid, DOT, JSON or SVG", file.display());
        let svg = file.with_extension("svg");
        let hint = format!("write `-o {}`, which browsers show and image programs convert", svg.display());
        return Err(output_file::refused(message).with_hint(hint));
    }
    Ok(match ending {
        "mmd" => Format::Mermaid,
        "gv" => Format::Dot,
        ending => {
            let named = FORMATS.into_iter().find(|(name, _)| name.eq_ignore_ascii_case(ending));
            named.map_or(Format::Mermaid, |(_, format)| format)
        }
    })
}

pub fn graph(args: &GraphArgs, output: &mut Output) -> Result<Exit, Failure> {
    let format = match (args.format, &args.output) {
        (Some(format), _) => format,
        (None, Some(file)) => of_ending(file)?,
        (None, None) => Format::Mermaid,
    };
    let checked = workflow::load(&args.workflow, &working_folder()?)?.checked;
    let settings = settings(&Flags::default())?;
    let drawn = draw((&checked.workflow, &checked.policy), &settings, format, args.hooks)?;
    match &args.output {
        Some(file) => output_file::write(file, &drawn)?,
        None => output.write(&drawn)?,
    }
    Ok(Exit::Done)
}
