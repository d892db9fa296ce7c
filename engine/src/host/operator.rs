//! What the operator of a process gives to its runs.

use std::path::PathBuf;
use std::sync::Arc;

use rondo_core::grant::Grants;
use rondo_settings::Settings;

use super::answers_from::{AnswersFrom, ReplaySource};
use super::consent::{ConsentRequest, ConsentSource};
use super::run_config::{Approvers, Equipment, Provided, RunSpec};
use super::settings_files::SettingsFiles;
#[cfg(feature = "restate")]
use crate::cluster::Cluster;
use crate::failure::Failure;

/// What the operator of a process gives to its runs. Nothing of it changes while the process lasts.
pub struct Operator {
    /// The settings files, as they were read.
    pub files: SettingsFiles,
    /// The folder that workflows are named from.
    pub folder: PathBuf,
    pub consent: ConsentSource,
    /// What answers in place of models, unless a run has its own.
    pub answers: AnswersFrom,
    pub provided: Arc<Provided>,
    pub approvers: Option<Approvers>,
    /// The cluster whose workers drive the threads. What they may use is the workers' to say.
    #[cfg(feature = "restate")]
    pub cluster: Option<Cluster>,
}

impl Operator {
    /// The settings in force, once there is consent for them.
    pub fn agreed_settings(&self) -> Result<Settings, Failure> {
        self.files.refuse_unsafe()?;
        let settings = self.files.whole()?;
        ConsentRequest::of(&self.files, &settings, None)?.permitted("", self.consent, &settings)?;
        Ok(settings)
    }

    /// Whether threads are driven elsewhere.
    pub fn is_remote(&self) -> bool {
        #[cfg(feature = "restate")]
        return self.cluster.is_some();
        #[cfg(not(feature = "restate"))]
        false
    }

    /// A run with these settings and grants, for which nothing else was chosen.
    pub fn run_spec(&self, settings: Settings, grants: Grants, replay: ReplaySource) -> RunSpec {
        let equipment = Arc::new(Equipment::new(settings, grants, Arc::clone(&self.provided)));
        let (record, in_doubt, raised, flags) = Default::default();
        RunSpec { equipment, replay, record, in_doubt, approvers: self.approvers.clone(), raised, flags }
    }
}
