//! What answers in place of models: a script or a recording.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use rondo_agent_kit::model::script::Script;
use rondo_protocol::diagnostic::Code;
use rondo_protocol::source::Source;
use rondo_protocol::workflow::Workflow;
use rondo_protocol::workflow::read::Files as _;
use rondo_settings::files::FolderFiles;

use super::known_keys::refuse_keys;
use super::recording::Recording;
use super::run_config::script_roles;
use crate::failure::{Failure, Faulty};
use crate::files::{STDIN, absolute, read_argument, read_text};

/// The most bytes of a script; the reader's own limit is lower and has better messages.
const MAX_SCRIPT_BYTES: usize = 16 << 20;

/// The script next to a workflow that `--offline` plays.
pub const SCRIPT_NAME: &str = "script.yaml";

/// What somebody chose to answer in place of models.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub enum AnswersFrom {
    /// Nothing: models are asked, or what the thread began with continues.
    #[default]
    Unchosen,
    /// A script; `-` is standard input.
    Script(PathBuf),
    /// The script next to the workflow.
    ScriptBeside,
    Recording(PathBuf),
    /// A script that the program has as text.
    Text(Arc<str>),
}

/// A script or a recording that was read.
#[derive(Debug, Clone, Default)]
pub struct ReplaySource {
    /// A script and its file, as an absolute path.
    pub script: Option<(Script, String)>,
    pub text: Option<Arc<str>>,
    pub recorded: Option<Recording>,
}

impl ReplaySource {
    /// The script and the recording that a thread names.
    pub fn named(
        script: Option<&str>,
        recorded: Option<&str>,
        workflow: &Workflow,
        here: &Path,
    ) -> Result<Self, Failure> {
        let script = match script.map(Path::new) {
            Some(file) => Self::of_script(file, read_text(file, MAX_SCRIPT_BYTES)?, workflow, here)?,
            None => Self::default(),
        };
        let recorded = recorded.map(|file| Recording::read(Path::new(file), here)).transpose()?;
        Ok(Self { recorded, ..script })
    }

    /// A script, checked against the roles of a workflow.
    fn of_script(file: &Path, text: String, workflow: &Workflow, here: &Path) -> Result<Self, Failure> {
        let name = file.to_string_lossy().into_owned();
        let sources = BTreeMap::from([(name.clone(), text.clone())]);
        refuse_keys(&sources)?;
        let source = Source::new(name, text.clone());
        let refuse = |faults| Failure::from(Faulty { faults, sources: sources.clone() });
        let script = Script::read(&source).map_err(refuse)?;
        let faults = script.check(&source, &script_roles(workflow)?);
        if !faults.is_empty() {
            return Err(refuse(faults));
        }
        let named = if file == Path::new(STDIN) { STDIN.to_owned() } else { absolute(file, here) };
        Ok(Self { script: Some((script, named)), text: Some(text.into()), recorded: None })
    }

    /// The text of the script, which travels to whoever drives the thread.
    #[cfg(feature = "restate")]
    pub(crate) fn script_text(&self) -> Option<String> {
        self.text.as_deref().map(str::to_owned)
    }

    /// The files of the script and of the recording, as a thread names them.
    pub fn files(&self) -> (Option<String>, Option<String>) {
        let script = self.script.as_ref().map(|(_, file)| file.clone());
        (script, self.recorded.as_ref().map(|recording| recording.file.clone()))
    }

    pub fn is_any(&self) -> bool {
        self.script.is_some() || self.recorded.is_some()
    }
}

impl AnswersFrom {
    /// Reads it, for a workflow whose file is in `folder`.
    pub fn read(&self, folder: Option<&Path>, workflow: &Workflow, here: &Path) -> Result<ReplaySource, Failure> {
        let of_script = |file: &Path, text: String| ReplaySource::of_script(file, text, workflow, here);
        match (self, folder) {
            (Self::Script(file), _) => of_script(file, read_argument(file, MAX_SCRIPT_BYTES)?),
            (Self::Text(text), _) => of_script(Path::new(STDIN), text.to_string()),
            (Self::ScriptBeside, Some(folder)) => of_script(&folder.join(SCRIPT_NAME), script_beside(folder)?),
            (Self::Recording(file), _) => {
                Ok(ReplaySource { recorded: Some(Recording::read(file, here)?), ..ReplaySource::default() })
            }
            (Self::ScriptBeside | Self::Unchosen, _) => Ok(ReplaySource::default()),
        }
    }
}

/// The script in the folder of a workflow, whoever put it there: no pipe, and no link out of the folder.
fn script_beside(folder: &Path) -> Result<String, Failure> {
    FolderFiles::new(folder)
        .read(SCRIPT_NAME, MAX_SCRIPT_BYTES)
        .map_err(|error| Failure::new(Code::FileRefused, format!("{}: {error}", folder.join(SCRIPT_NAME).display())))
}
