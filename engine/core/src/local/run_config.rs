//! The definition of a thread, and the configuration of its run.

use std::any::Any;
use std::collections::BTreeMap;
use std::sync::Arc;

use rondo_agent_kit::model::recorded::Recorder;
use rondo_agent_kit::model::scripted::Scripted;
use rondo_agent_kit::redact::Redactor;
use rondo_agent_kit::tool::{InDoubt, ToolSet};
use rondo_protocol::Value;
use rondo_protocol::id::RoleName;
use rondo_protocol::workflow::{Checked, HookUse, Policy, Workflow};

use super::limits::RaisedLimits;
use crate::grant::{Approver, Ceilings, Grants};
use crate::hook::HookResources;
use crate::models::Models;

/// The operator's configuration of a run.
#[derive(Clone, Default)]
pub struct RunConfig {
    /// The provider of each logical model.
    pub models: Models,
    /// The available tools.
    pub tools: ToolSet,
    /// The tools that roles may call.
    pub grants: Grants,
    /// Hooks around every workflow, outermost first.
    pub imposed: Vec<HookUse>,
    /// Approves single calls, if the operator wants that.
    pub approver: Option<Arc<dyn Approver>>,
    /// The policy for calls that may have had their effect, overriding that of each tool.
    pub in_doubt: Option<InDoubt>,
    /// Answers in place of tools, for tool roles.
    pub script: Option<Arc<Scripted>>,
    /// Records the models' requests and answers.
    pub recorder: Option<Arc<Recorder>>,
    /// The values that must never enter a thread.
    pub redactor: Arc<Redactor>,
    /// The operator's limits.
    pub ceilings: Ceilings,
    /// The operator's rules for files.
    pub files: super::FileRules,
    /// How long one call may take with all its attempts, in milliseconds.
    pub call_total_ms: Option<u64>,
    /// The resources of hooks.
    pub hook_resources: HookResources,
    /// What is needed for as long as the run lasts, such as the servers of tools.
    pub held: Vec<Arc<dyn Any + Send + Sync>>,
    /// The flags of hook kinds for this run, by name.
    pub flags: BTreeMap<String, String>,
    /// Limits of the thread to raise, when it is resumed.
    pub raised: RaisedLimits,
    /// The configurations of child workflows, by the role that runs them.
    pub children: BTreeMap<RoleName, RunConfig>,
}

impl RunConfig {
    /// The same with `script` in place of every script in it.
    pub(super) fn scripted(mut self, script: &Arc<Scripted>) -> Self {
        self.script = self.script.map(|_| Arc::clone(script));
        for model in self.models.0.values_mut().filter(|model| model.provider.is_script()) {
            model.provider = Arc::clone(script) as _;
        }
        self
    }
}

/// A new thread.
#[derive(Clone)]
pub struct NewThread {
    /// The checked workflow.
    pub workflow: Workflow,
    /// Its policy.
    pub policy: Policy,
    /// The checked input: an object, defaults filled in.
    pub input: Value,
    /// The workflow's file, as an absolute path.
    pub file: Option<String>,
    /// The script that answers in place of models, as an absolute path.
    pub script: Option<String>,
    /// The recording that answers in place of models, as an absolute path.
    pub recorded: Option<String>,
    /// The folder that tools work in, as an absolute path.
    pub workspace: Option<String>,
    /// How people call it.
    pub labels: Labels,
}

/// How people call a thread. Nothing else depends on it.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Labels {
    /// Its name.
    pub label: Option<String>,
    /// Words to find it by.
    pub tags: Vec<String>,
}

impl NewThread {
    /// A thread of a checked workflow on a checked input, without a file.
    pub fn of(checked: Checked, input: Value) -> Self {
        let Checked { workflow, policy, .. } = checked;
        Self {
            workflow,
            policy,
            input,
            file: None,
            script: None,
            recorded: None,
            workspace: None,
            labels: Labels::default(),
        }
    }
}
