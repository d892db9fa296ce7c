use std::borrow::Cow;
use std::fs::OpenOptions;
use std::io::Write;
use std::path::{Path, PathBuf};

use rondo::protocol::diagnostic::{Code, nearest};
use rondo::protocol::text::shell_argument;
use rondo::settings::Flags;
use rondo::tell::tell;
use rondo::workflows::shipped;

use super::consent::{ConsentRequest, Shown, Subject};
use super::{Exit, Failure, Output, files, output_file, settings_files, workflow, working_folder};

/// Write a small workflow to start from; existing files are kept
#[derive(Debug, clap::Args)]
pub struct InitArgs {
    /// The folder, created if it is missing
    #[arg(default_value = ".")]
    dir: PathBuf,
    /// List the workflows that can be copied
    #[arg(long, conflicts_with = "from")]
    list: bool,
    /// Copy a workflow that ships with rondo, with its prompts, script and tests
    #[arg(long, value_name = "NAME")]
    from: Option<String>,
}

const WORKFLOW: &str = "workflow.yaml";

/// Where the snapshots of a workflow's tests stand: too many files to name each.
const SNAPSHOTS: &str = "tests/snapshots/";

pub(super) const FILES: [(&str, &str); 5] = [
    (WORKFLOW, include_str!("init/workflow.yaml")),
    ("script.yaml", include_str!("init/script.yaml")),
    ("prompts/writer.md", include_str!("init/prompts/writer.md")),
    ("prompts/editor.md", include_str!("init/prompts/editor.md")),
    ("rondo.toml", include_str!("init/rondo.toml")),
];

/// The first line of a workflow: where an editor finds the schema.
const SCHEMA_LINE: &str = "# yaml-language-server: $schema=./workflow.schema.json\n";

/// A workflow that ships with rondo, as it stands in `folder`: with the line for editors, and with the commands of its
/// first comment naming that folder.
fn copied(name: &str, text: &str, folder: &Path) -> String {
    let folder = argument(folder);
    let (comment, rest) = text.split_at(text.find("\nrondo:").unwrap_or(0));
    let comment = comment
        .replace(&format!("workflows/{name}"), &folder)
        .replace(&format!("rondo run {name} "), &format!("rondo run {folder} "));
    format!("{SCHEMA_LINE}{comment}{rest}")
}

fn template(name: &str, folder: &Path) -> Result<Vec<(&'static str, Cow<'static, str>)>, Failure> {
    if !shipped::names().any(|known| known == name) {
        let shown: String = name.chars().take(40).collect();
        let failure = output_file::refused(format!("no workflow {shown:?} ships with rondo"));
        let meant = nearest(name, shipped::names()).map_or_else(String::new, |near| format!("did you mean {near}? "));
        return Err(failure.with_hint(format!("{meant}`rondo init --list` lists them")));
    }
    let in_folder = |path: &'static str| path.strip_prefix(name)?.strip_prefix('/');
    let file = |(path, text): &(&'static str, &'static str)| {
        let path = in_folder(path)?;
        Some((path, if path == WORKFLOW { copied(name, text, folder).into() } else { Cow::Borrowed(*text) }))
    };
    Ok(rondo::workflows::FILES.iter().filter_map(file).collect())
}

fn list(output: &mut Output) -> Result<Exit, Failure> {
    for name in shipped::names() {
        let file = format!("{}{name}/workflow.yaml", shipped::SCHEME);
        let about = workflow::read(PathBuf::from(file))?.checked.policy.description.clone();
        output.text(&format!("{name:16}  {about}\n"))?;
    }
    Ok(Exit::Done)
}

pub fn init(args: &InitArgs, output: &mut Output) -> Result<Exit, Failure> {
    if args.list {
        return list(output);
    }
    let files = match &args.from {
        Some(name) => template(name, &args.dir)?,
        None => FILES.iter().map(|(path, text)| (*path, Cow::Borrowed(*text))).collect(),
    };
    let folder = working_folder()?.join(&args.dir);
    let folders = files.iter().filter_map(|(name, _)| Some(folder.join(name).parent()?.to_owned()));
    if let Some(link) = folders.chain([folder.clone()]).find(|folder| folder.is_symlink()) {
        let message = format!("{} is a link; nothing was written", link.display());
        return Err(output_file::refused(message).with_hint("name the folder itself"));
    }
    // A dangling link counts as existing: writing through it would write elsewhere.
    let is_there = |name: &&str| std::fs::symlink_metadata(folder.join(name)).is_ok();
    let taken: Vec<&str> = files.iter().map(|(name, _)| *name).filter(is_there).collect();
    if !taken.is_empty() {
        let message = format!("already in {}: {}; nothing was written", args.dir.display(), taken.join(", "));
        return Err(output_file::refused(message).with_hint("give another folder, such as `rondo init demo`"));
    }
    let mut snapshots = 0_usize;
    for (name, text) in &files {
        write_new(&folder.join(name), text)?;
        if name.starts_with(SNAPSHOTS) {
            snapshots += 1;
        } else {
            output.text(&format!("{}\n", args.dir.join(name).display()))?;
        }
    }
    if snapshots > 0 {
        output.text(&format!("{}  {snapshots} files\n", args.dir.join(SNAPSHOTS).display()))?;
    }
    if let Err(failure) = trust(&folder, &files) {
        tell(&format!("{failure}; so it is not recorded as yours\n"));
    }
    let (dir, in_dir) = (argument(&args.dir), |name: &str| argument(&args.dir.join(name)));
    let (shown, schema) = if args.dir == Path::new(".") {
        (WORKFLOW, String::new())
    } else {
        (dir.as_str(), format!(" {}", in_dir("workflow.schema.json")))
    };
    let input = files.iter().find(|(name, _)| *name == "input.json");
    let input = input.map_or_else(String::new, |(name, _)| format!(" --input-file {}", in_dir(name)));
    // What works on a fixture does not run in this folder: its first comment says where it does.
    let run = if files.iter().any(|(name, _)| name.starts_with("fixture/")) {
        format!("How to run it: see the first lines of {}", args.dir.join(WORKFLOW).display())
    } else {
        format!("Try it: rondo run {shown} --offline{input}")
    };
    let test = if snapshots > 0 { format!("Test it: rondo test {dir}\n") } else { String::new() };
    tell(&format!("\n{run}\n{test}For an editor: rondo schema --write{schema}\n"));
    Ok(Exit::Done)
}

fn argument(path: &Path) -> String {
    shell_argument(&path.to_string_lossy()).into_owned()
}

/// Records the new workflow as the user's own: its author need not be asked about it until it asks for more. What stands
/// in the folder or above it besides the files that were written counts for nothing, settings above all.
fn trust(folder: &Path, written: &[(&str, Cow<'_, str>)]) -> Result<(), Failure> {
    let folder = folder.canonicalize().unwrap_or_else(|_| folder.to_owned());
    let settings_files = settings_files::of_user_for(folder.clone())?;
    let settings = settings_files.whole()?;
    if settings.trust.is_none() {
        return Ok(());
    }
    let loaded = workflow::read(folder.join(WORKFLOW))?;
    let is_written = |(read, text): (&String, &String)| {
        written.iter().any(|(name, written)| folder.join(name) == folder.join(read) && written == text)
    };
    if let Some((name, _)) = loaded.sources.iter().find(|source| !is_written(*source)) {
        return Err(Failure::new(Code::NotTrusted, format!("{name} is not what was written")));
    }
    let file = files::absolute(&loaded.path, &folder);
    let (workflow, policy) = (&loaded.checked.workflow, &loaded.checked.policy);
    let subject = Subject { workflow, policy, file: &file, is_current: true };
    ConsentRequest::of(&settings_files, &settings, Some(subject))?.record(Shown::Written, true, &settings)?;
    // What a run from here meets.
    let here = settings_files::read(&Flags::default())?;
    if let Some(project) = here.project().filter(|_| !here.asks().is_empty()) {
        tell(&format!("{} asks for more: `rondo trust` shows it\n", project.path.display()));
    }
    Ok(())
}

pub(super) fn write_new(path: &Path, text: &str) -> Result<(), Failure> {
    let failed = output_file::failed(path);
    if let Some(folder) = path.parent() {
        std::fs::create_dir_all(folder).map_err(failed)?;
    }
    let mut file = OpenOptions::new().write(true).create_new(true).open(path).map_err(failed)?;
    file.write_all(text.as_bytes()).map_err(failed)
}
