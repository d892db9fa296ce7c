//! What a [`Rondo`] is made of.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::Arc;

use rondo_agent_kit::model::Model;
use rondo_agent_kit::model::script::Script;
use rondo_agent_kit::tool::Tool;
use rondo_core::env::{Env, SystemEnv};
use rondo_core::grant::Approver;
use rondo_core::hook::{HookKind, Registry};
use rondo_protocol::call::CallKind;
use rondo_protocol::diagnostic::Code;
use rondo_protocol::source::Source;
use rondo_protocol::workflow::{HookUse, OnHookError};
use rondo_settings::Flags;
use tokio::sync::OnceCell;

use super::{Inner, Notices, Rondo, blocking};
#[cfg(feature = "restate")]
use crate::cluster::Cluster;
use crate::failure::{Failure, Faulty};
use crate::host::answers_from::AnswersFrom;
use crate::host::consent::ConsentSource;
use crate::host::operator::Operator;
use crate::host::process::provide_cryptography;
use crate::host::resources::Keeper;
use crate::host::run_config::{Approvers, Provided};
use crate::host::settings_files::{self, Brought, SettingsFiles};

/// What a [`Rondo`] is made of. Without anything said it has no settings but the environment's, asks nobody and keeps its
/// threads in `.rondo` below the working folder.
pub struct Builder {
    folder: PathBuf,
    /// `None` for the files of the user and of the folder.
    settings: Option<String>,
    flags: Flags,
    is_in_memory: bool,
    consent: ConsentSource,
    answers: AnswersFrom,
    script: Option<String>,
    provided: Provided,
    brought: Brought,
    kinds: Vec<Arc<dyn HookKind>>,
    approvers: Option<Approvers>,
    #[cfg(feature = "restate")]
    cluster: Option<Cluster>,
    env: Arc<dyn Env>,
    notices: Notices,
}

impl Default for Builder {
    fn default() -> Self {
        Self {
            folder: PathBuf::from("."),
            settings: Some(String::new()),
            flags: Flags::default(),
            is_in_memory: false,
            consent: ConsentSource::Nobody,
            answers: AnswersFrom::default(),
            script: None,
            provided: Provided::default(),
            brought: Brought::default(),
            kinds: Vec::new(),
            approvers: None,
            #[cfg(feature = "restate")]
            cluster: None,
            env: Arc::new(SystemEnv::default()),
            notices: Arc::new(|_| ()),
        }
    }
}

impl Builder {
    /// The folder that workflows and files are named from, and that tools work in.
    #[must_use]
    pub fn folder(self, folder: impl Into<PathBuf>) -> Self {
        Self { folder: folder.into(), ..self }
    }

    /// Settings in the form of `config.toml`, as the program's own: nobody is asked to agree to them.
    #[must_use]
    pub fn settings(self, toml: &str) -> Self {
        Self { settings: Some(toml.to_owned()), ..self }
    }

    /// The settings of this user and of the folder. What a folder's settings ask for needs consent.
    #[must_use]
    pub fn settings_files(self) -> Self {
        Self { settings: None, ..self }
    }

    /// Keeps threads in memory: they are gone with the last clone.
    #[must_use]
    pub fn in_memory(self) -> Self {
        Self { is_in_memory: true, ..self }
    }

    /// Keeps threads in this folder.
    #[must_use]
    pub fn store(mut self, folder: impl Into<PathBuf>) -> Self {
        self.flags.store = Some(folder.into());
        self
    }

    /// A model for roles that name this one; roles that name none ask `default`.
    #[must_use]
    pub fn model(mut self, name: &str, model: impl Model + 'static) -> Self {
        self.provided.models.insert(name.to_owned(), Arc::new(model));
        self
    }

    /// Answers in place of models, in the YAML of a script (`engine/docs/scripts.md`).
    #[must_use]
    pub fn script(self, text: &str) -> Self {
        Self { script: Some(text.to_owned()), ..self }
    }

    /// Answers in place of models from `script.yaml` beside each workflow.
    #[must_use]
    pub fn offline(self) -> Self {
        Self { answers: AnswersFrom::ScriptBeside, ..self }
    }

    /// A tool of the program, which every role that lists it may call unless the settings deny it. See [`crate::tool`].
    #[must_use]
    pub fn tool(mut self, tool: impl Tool + 'static) -> Self {
        self.brought.tools.push(tool.spec().name.clone());
        self.provided.tools.push(Arc::new(tool));
        self
    }

    /// A server of tools, started by this command when a role first needs one of them. Its tools are `NAME.TOOL`, and
    /// have to be [granted](Self::grant). Servers with more to say stand in [`settings`](Self::settings).
    #[must_use]
    pub fn mcp(mut self, name: &str, command: impl IntoIterator<Item = impl Into<String>>) -> Self {
        self.brought.mcp.push((name.to_owned(), command.into_iter().map(Into::into).collect()));
        self
    }

    /// Grants calls of tools, in the form of an entry of `[grant] tools`, such as `docs.*` or `shell:cargo test*`.
    #[must_use]
    pub fn grant(mut self, rule: &str) -> Self {
        self.brought.grants.push(rule.to_owned());
        self
    }

    /// A hook of the program, around every workflow at calls of this kind. Its failure is the call's.
    #[must_use]
    pub fn hook(mut self, at: CallKind, kind: impl HookKind + 'static) -> Self {
        let (roles, settings) = (None, BTreeMap::new());
        let hook = HookUse { at, kind: kind.name().to_owned(), on_error: OnHookError::Fail, roles, settings };
        self.brought.hooks.push(hook);
        self.kinds.push(Arc::new(kind));
        self
    }

    /// Decides on calls that the settings want approved, each time one is made. Without it a thread waits for an answer.
    #[must_use]
    pub fn approver(self, approver: impl Approver + 'static) -> Self {
        let approver: Arc<dyn Approver> = Arc::new(approver);
        Self { approvers: Some(Arc::new(move || Arc::clone(&approver))), ..self }
    }

    /// Agrees to all that the folder's settings, its workflows and its store ask for. This trusts whoever can write the
    /// folder.
    #[must_use]
    pub fn trust_everything(self) -> Self {
        self.consent_by(ConsentSource::Flag)
    }

    /// The clock, and where ids and random numbers come from.
    #[must_use]
    pub fn clock(self, env: impl Env + 'static) -> Self {
        Self { env: Arc::new(env), ..self }
    }

    /// Receives what a person should know of settings, servers and the store, a sentence each.
    #[must_use]
    pub fn notices(self, tell: impl Fn(&str) + Send + Sync + 'static) -> Self {
        Self { notices: Arc::new(tell), ..self }
    }

    /// A cluster whose workers drive the threads. The store is then a copy of what is read of them.
    #[cfg(feature = "restate")]
    #[must_use]
    pub fn cluster(self, cluster: Option<Cluster>) -> Self {
        Self { cluster, ..self }
    }

    #[doc(hidden)]
    #[must_use]
    pub fn consent_by(self, consent: ConsentSource) -> Self {
        Self { consent, ..self }
    }

    #[doc(hidden)]
    #[must_use]
    pub fn approvers(self, approvers: Option<Approvers>) -> Self {
        Self { approvers, ..self }
    }

    #[doc(hidden)]
    #[must_use]
    pub fn flags(self, flags: Flags) -> Self {
        Self { flags, ..self }
    }

    /// Reads the settings.
    ///
    /// # Errors
    /// If they or the script cannot be read, or others could change them.
    pub async fn open(self) -> Result<Rondo, Failure> {
        blocking(move || self.open_now()).await
    }

    /// Like [`open`](Self::open), on this thread.
    #[doc(hidden)]
    pub fn open_now(self) -> Result<Rondo, Failure> {
        let Self { folder, settings, flags, is_in_memory, consent, mut answers, script, .. } = self;
        let folder = std::path::absolute(&folder)
            .map_err(|error| Failure::new(Code::WriteFailed, format!("the folder {}: {error}", folder.display())))?;
        let files = match settings {
            None => settings_files::read_for(folder.clone(), &flags)?,
            Some(text) => SettingsFiles::of_program(folder.clone(), &text, &flags)?,
        };
        if let Some(text) = script {
            let read = Script::read(&Source::new("script", text.clone()));
            let refuse =
                |faults| Failure::from(Faulty { faults, sources: [("script".to_owned(), text.clone())].into() });
            read.map_err(refuse)?;
            answers = AnswersFrom::Text(text.into());
        }
        provide_cryptography();
        let registry = self.kinds.into_iter().fold(crate::registry(), Registry::with);
        let operator = Operator {
            files: files.with(self.brought),
            folder,
            consent,
            answers,
            provided: Arc::new(self.provided),
            approvers: self.approvers,
            #[cfg(feature = "restate")]
            cluster: self.cluster,
        };
        Ok(Rondo(Arc::new(Inner {
            operator,
            is_in_memory,
            registry,
            env: self.env,
            notices: self.notices,
            host: OnceCell::new(),
            keeper: Keeper::default(),
        })))
    }
}
