//! A thread that is about to go on: what it began with, what somebody chose for it, and all that this takes.

use std::collections::BTreeMap;
use std::path::Path;

use rondo_agent_kit::tool::InDoubt;
use rondo_core::conversation::rebuild;
use rondo_core::grant::Grants;
use rondo_core::local::{RaisedLimit, RaisedLimits, origin};
use rondo_core::thread::{ImportedPast, Origin};
use rondo_protocol::diagnostic::Code;
use rondo_protocol::hint::{Hint, Operation, Verb};
use rondo_protocol::id::ThreadId;
use rondo_protocol::workflow::{Policy, Workflow};
use rondo_settings::Settings;
use rondo_store::{Read, Row};
use rondo_workflows::shipped;

use super::answers_from::{AnswersFrom, ReplaySource};
use super::consent::{ConsentRequest, Subject, named};
use super::operator::Operator;
use super::run_config::RunSpec;
use super::starting::of_plain_http;
use super::tooling::hold;
use super::workflow;
use crate::failure::Failure;
use crate::files::{STDIN, absolute};

/// What somebody chose for a thread that continues.
#[derive(Default)]
pub struct ContinueChoices {
    pub answers: AnswersFrom,
    /// The policy for calls that may have had their effect, overriding that of each tool.
    pub in_doubt: Option<InDoubt>,
    pub limits: Vec<RaisedLimit>,
    pub flags: BTreeMap<String, String>,
}

impl ContinueChoices {
    fn applied(self, run_spec: RunSpec) -> RunSpec {
        let Self { in_doubt, limits, flags, .. } = self;
        RunSpec { in_doubt, raised: RaisedLimits { thread: None, limits }, flags, ..run_spec }
    }
}

#[derive(Clone, Copy)]
pub enum ContinueTarget<'a> {
    Thread,
    /// A fork of it, under this workflow if there is one.
    Fork(Option<&'a workflow::Loaded>),
}

/// What a run was begun with.
pub struct ResumeSource {
    pub workflow: Workflow,
    pub policy: Policy,
    /// The workflow's file, as an absolute path.
    pub file: Option<String>,
    pub script: Option<String>,
    pub recorded: Option<String>,
    pub workspace: Option<String>,
    /// The past that came with somebody else's export.
    pub imported: Option<ImportedPast>,
}

impl ResumeSource {
    /// `None` for a thread that has ended and is not forked.
    pub fn of(
        store: &dyn Read,
        (thread, row): (&ThreadId, &Row),
        target: ContinueTarget<'_>,
        here: &Path,
    ) -> Result<Option<Self>, Failure> {
        let edited = match target {
            ContinueTarget::Fork(loaded) => loaded,
            ContinueTarget::Thread if row.status.has_ended() => return Ok(None),
            ContinueTarget::Thread => None,
        };
        let Origin { file, script, recorded, workspace, imported, .. } = origin(thread, row)?;
        let (workflow, policy, file) = if let Some(loaded) = edited {
            let file = absolute(&loaded.path, here);
            (loaded.checked.workflow.clone(), loaded.checked.policy.clone(), Some(file))
        } else {
            (rebuild::beginning(store, row)?.workflow, rebuild::policy(store, row)?, file)
        };
        Ok(Some(Self { workflow, policy, file, script, recorded, workspace, imported }))
    }

    /// Where answers come from unless somebody chooses otherwise: the file of the run's script or recording.
    pub fn replay_file(&self) -> Option<&str> {
        self.script.as_deref().or(self.recorded.as_deref())
    }

    fn replay(&self, chosen: &AnswersFrom, here: &Path) -> Result<ReplaySource, Failure> {
        let folder = self.file.as_deref().and_then(|file| Path::new(file).parent());
        let replay = chosen.read(folder, &self.workflow, here)?;
        if replay.is_any() {
            return Ok(replay);
        }
        if self.script.as_deref() == Some(STDIN) {
            let hint = Hint::from("give it again with ").operation(Operation::new(Verb::Again).with("script", "FILE"));
            let message = "the script of this run came from standard input";
            return Err(Failure::new(Code::ResumeUnclear, message).with_hint(hint));
        }
        ReplaySource::named(self.script.as_deref(), self.recorded.as_deref(), &self.workflow, here)
    }
}

/// What continuing takes, with notices for the person who continues. Without anything begun, no call will be made.
///
/// Consent for the settings is the caller's: it needs it before it opens the store.
pub fn continued(
    operator: &Operator,
    mut settings: Settings,
    source: Option<ResumeSource>,
    choices: ContinueChoices,
) -> Result<(RunSpec, Vec<String>), Failure> {
    let Operator { files, folder: here, consent, .. } = operator;
    let Some(source) = source else {
        let run_spec = operator.run_spec(settings, Grants::default(), ReplaySource::default());
        return Ok((choices.applied(run_spec), Vec::new()));
    };
    if operator.is_remote() {
        let folder = source.file.as_deref().and_then(|file| Path::new(file).parent());
        let replay = choices.answers.read(folder, &source.workflow, here)?;
        return Ok((choices.applied(operator.run_spec(settings, Grants::default(), replay)), Vec::new()));
    }
    let replay = source.replay(&choices.answers, here)?;
    let ResumeSource { workflow, policy, file, workspace, imported, .. } = &source;
    let begun_in = workspace.as_deref().unwrap_or("a folder that is not known");
    // Where an imported thread worked is not believed, and it continues wherever somebody agrees to that.
    let is_elsewhere = Path::new(begun_in) != settings.workspace && (imported.is_none() || workspace.is_some());
    if !named(workflow).is_empty() && is_elsewhere {
        let here = settings.workspace.display();
        let message = format!("the thread's tools work in {begun_in}, and this run would continue in {here}");
        return Err(Failure::new(Code::ResumeUnclear, message).with_hint(format!("resume it from {begun_in}")));
    }
    // The store names the workflow of a thread; the file shows its current contents.
    let file = file.as_deref().unwrap_or_default();
    let current = workflow::read(file.into()).ok();
    // Limits that somebody typed ask for nothing.
    let mut policy = policy.clone();
    if let Some(now) = &current {
        policy.limits.clone_from(&now.checked.policy.limits);
    }
    let is_current =
        current.as_ref().is_some_and(|now| now.checked.workflow == *workflow && now.checked.policy == policy);
    let named = if shipped::is_one(file) && !is_current { "" } else { file };
    let subject = Subject { workflow, policy: &policy, file: named, is_current };
    let asked = ConsentRequest { settings: None, ..ConsentRequest::of(files, &settings, Some(subject))? };
    let asked = asked.with_past(imported.as_ref(), &settings)?;
    let grants = asked.permitted(named, *consent, &settings)?;
    // If the file is gone, there is nothing to protect.
    let loaded = current.filter(|_| !shipped::is_one(file));
    let script_file = replay.script.as_ref().map(|(_, file)| file.as_str());
    let own = loaded.map(|loaded| loaded.files(script_file, here)).unwrap_or_default();
    hold(&mut settings, own, workflow);
    let notices = if replay.is_any() { Vec::new() } else { of_plain_http(&settings) };
    Ok((choices.applied(operator.run_spec(settings, grants, replay)), notices))
}
