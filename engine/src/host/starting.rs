//! A run that is about to begin: a workflow that somebody named, what it was given, and all that this takes.

use std::collections::BTreeMap;
use std::path::PathBuf;

use rondo_core::grant::Grants;
use rondo_core::local::{Labels, NewThread, limited};
use rondo_core::resolved_roles::model_roles;
use rondo_protocol::Value;
use rondo_protocol::diagnostic::Diagnostic;
use rondo_protocol::workflow::{Checked, Workflow};
use rondo_settings::{Provider, Settings, Unresolved};

use super::answers_from::{AnswersFrom, ReplaySource};
use super::consent::{ConsentRequest, Subject, is_plain_http, named};
use super::labels::labels;
use super::limit_choice::limits;
use super::model_choice::set_models;
use super::operator::Operator;
use super::run_config::{RunSpec, resolve_models};
use super::tooling;
use super::untaken::untaken;
use super::workflow::Loaded;
use crate::failure::Failure;
use crate::files::absolute;

/// What somebody chose for a run, besides its workflow and its input.
#[derive(Default)]
pub struct RunChoices {
    /// Models in place of the workflow's, `NAME` or `ROLE=NAME`.
    pub models: Vec<String>,
    /// Limits in place of the workflow's, `KEY=VALUE`.
    pub limits: Vec<String>,
    pub answers: AnswersFrom,
    pub labels: Labels,
    pub record: Option<PathBuf>,
    pub flags: BTreeMap<String, String>,
}

/// A run before consent.
pub struct Draft {
    pub loaded: Loaded,
    pub settings: Settings,
    /// The thread, without its input.
    pub new: NewThread,
    replay: ReplaySource,
    record: Option<PathBuf>,
    flags: BTreeMap<String, String>,
}

impl Draft {
    /// The run of a workflow, before it has an input.
    pub fn new(operator: &Operator, loaded: Loaded, choices: RunChoices) -> Result<Self, Failure> {
        let here = &*operator.folder;
        let RunChoices { models, limits: words, answers, labels: Labels { label, tags }, record, flags } = choices;
        let (limits, labels) = (limits(&words)?, labels(label.as_deref(), &tags)?);
        let answers = if answers == AnswersFrom::Unchosen { operator.answers.clone() } else { answers };
        let checked = &loaded.checked;
        let replay = answers.read(Some(loaded.folder()), &checked.workflow, here)?;
        let (script, recorded) = replay.files();
        let mut settings = operator.files.whole()?;
        tooling::hold(&mut settings, loaded.files(script.as_deref(), here), &checked.workflow);
        let mut workflow = checked.workflow.clone();
        set_models(&models, &mut workflow, &mut settings)?;
        let new = NewThread {
            workflow,
            policy: limited(checked.policy.clone(), &limits)?,
            input: Value::Null,
            file: Some(absolute(&loaded.path, here)),
            script,
            recorded,
            workspace: Some(settings.workspace.to_string_lossy().into_owned()),
            labels,
        };
        Ok(Self { loaded, settings, new, replay, record, flags })
    }

    /// Whether the run fails for want of a key or of a model's id.
    pub fn lacks_model(&self) -> bool {
        let is_lacking = |workflow: &Workflow, name: &str| {
            let resolved = self.settings.model(name, workflow.models.get(name), None);
            matches!(resolved, Err(Unresolved::NoModel { .. } | Unresolved::NoKey { .. }))
        };
        let workflow = &self.new.workflow;
        !self.replay.is_any() && model_roles(workflow).any(|(_, _, role)| is_lacking(workflow, &role.model))
    }

    /// What the run may use, after asking about what nobody agreed to. `shown` is how its workflow was named.
    pub fn permitted(&self, operator: &Operator, shown: &str) -> Result<Grants, Failure> {
        if operator.is_remote() {
            return Ok(Grants::default());
        }
        let checked = &self.loaded.checked;
        let file = self.new.file.as_deref().unwrap_or_default();
        let subject = Subject { workflow: &checked.workflow, policy: &checked.policy, file, is_current: true };
        let asked = ConsentRequest::of(&operator.files, &self.settings, Some(subject))?;
        asked.permitted(shown, operator.consent, &self.settings)
    }

    /// What the models of the run do not take of what the workflow asks of them; nothing of a script or a recording.
    pub fn untaken(&self, operator: &Operator) -> Vec<Diagnostic> {
        if self.replay.is_any() {
            return Vec::new();
        }
        // With the models that were chosen for this run.
        let workflow = self.new.workflow.clone();
        untaken(&Checked { workflow, ..self.loaded.checked.clone() }, &self.settings, &operator.provided)
    }

    /// The run with these grants: enough to show it.
    pub fn with_grants(self, operator: &Operator, grants: Grants) -> (NewThread, RunSpec) {
        let run_spec = operator.run_spec(self.settings, grants, self.replay);
        let run_spec = RunSpec { record: self.record, flags: self.flags, ..run_spec };
        (self.new, run_spec)
    }

    /// The run with these grants, ready to begin, and notices for the person who starts it.
    pub fn ready(self, operator: &Operator, grants: Grants) -> Result<(NewThread, RunSpec, Vec<String>), Failure> {
        let mut notices = Vec::new();
        if operator.is_remote() {
            let (new, run_spec) = self.with_grants(operator, grants);
            return Ok((new, run_spec, notices));
        }
        if !named(&self.new.workflow).is_empty() {
            notices.extend(tooling::code_in_reach(&self.settings));
        }
        if !self.replay.is_any() {
            notices.extend(of_plain_http(&self.settings));
        }
        notices.extend(self.untaken(operator).iter().map(ToString::to_string));
        let (new, run_spec) = self.with_grants(operator, grants);
        // Missing configuration is reported before a thread begins.
        resolve_models(&new.workflow, &run_spec)?;
        Ok((new, run_spec, notices))
    }
}

/// Notices of the providers that are reached by unencrypted HTTP.
pub(crate) fn of_plain_http(settings: &Settings) -> Vec<String> {
    let notice = |(name, provider): (&String, &Provider)| {
        let from = &provider.base_url.from;
        (provider.is_usable() && is_plain_http(&provider.base_url.value)).then(|| {
            format!("provider {name}: prompts and the key go over plain http, by {from}; anybody on the way reads them")
        })
    };
    settings.providers.iter().filter_map(notice).collect()
}
