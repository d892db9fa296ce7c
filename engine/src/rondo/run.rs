//! Runs: one that is about to begin, and one that continues.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::Arc;

use rondo_agent_kit::model::recorded::Recorder;
use rondo_core::exit::Exit;
use rondo_core::local::{Ended, ForkRequest, NewThread, PersonAnswer, RunConfig, Stopper, ThreadHandle};
use rondo_core::thread::Ending;
use rondo_core::{Cancelled, Resumed, local};
use rondo_protocol::Value;
use rondo_protocol::diagnostic::Diagnostic;
use rondo_protocol::event::Event;
use rondo_protocol::id::ThreadId;
use rondo_protocol::workflow::{Workflow, types};

use super::end::End;
#[cfg(feature = "restate")]
use super::remote::{self, RemoteRun};
use super::{Rondo, blocking};
use crate::failure::Failure;
use crate::host::answering::not_waiting;
use crate::host::answers_from::AnswersFrom;
use crate::host::recording;
use crate::host::run_config::{RunSpec, run_config};
use crate::host::starting::{Draft, RunChoices};
use crate::host::store_access::TrustedStore;
use crate::host::untaken;
use crate::host::workflow::Loaded;

/// A run that is about to begin.
#[must_use = "nothing begins before `start`"]
pub struct NewRun {
    rondo: Rondo,
    name: String,
    loaded: Loaded,
    input: BTreeMap<String, Value>,
    chosen: RunChoices,
}

impl NewRun {
    #[doc(hidden)]
    pub fn new(rondo: Rondo, name: String, loaded: Loaded) -> Self {
        Self { rondo, name, loaded, input: BTreeMap::new(), chosen: RunChoices::default() }
    }

    /// A value of the input.
    pub fn input(mut self, name: &str, value: impl Into<Value>) -> Self {
        self.input.insert(name.to_owned(), value.into());
        self
    }

    /// Another model for this run: a logical name or a provider's id, for one role (`ROLE=NAME`) or for all.
    pub fn model(mut self, name: &str) -> Self {
        self.chosen.models.push(name.to_owned());
        self
    }

    /// A limit in place of the workflow's, such as `("cost_usd", 2)` or `("wall_time", "30m")`.
    pub fn limit(mut self, key: &str, value: impl std::fmt::Display) -> Self {
        self.chosen.limits.push(format!("{key}={value}"));
        self
    }

    /// Answers in place of models from `script.yaml` beside the workflow.
    pub fn offline(mut self) -> Self {
        self.chosen.answers = AnswersFrom::ScriptBeside;
        self
    }

    /// Answers in place of models from a script.
    pub fn script(mut self, file: impl Into<PathBuf>) -> Self {
        self.chosen.answers = AnswersFrom::Script(file.into());
        self
    }

    /// Answers in place of models from a recording.
    pub fn recording(mut self, file: impl Into<PathBuf>) -> Self {
        self.chosen.answers = AnswersFrom::Recording(file.into());
        self
    }

    /// Records the requests to models and their answers in a new file.
    pub fn record_to(mut self, file: impl Into<PathBuf>) -> Self {
        self.chosen.record = Some(file.into());
        self
    }

    /// A name for the thread.
    pub fn label(mut self, label: &str) -> Self {
        self.chosen.labels.label = Some(label.to_owned());
        self
    }

    /// A word to find the thread by.
    pub fn tag(mut self, tag: &str) -> Self {
        self.chosen.labels.tags.push(tag.to_owned());
        self
    }

    /// A flag of a hook kind, such as `("cache", "off")`.
    pub fn hook_flag(mut self, name: &str, value: &str) -> Self {
        self.chosen.flags.insert(name.to_owned(), value.to_owned());
        self
    }

    /// What the check of the workflow warns of.
    pub fn warnings(&self) -> &[Diagnostic] {
        &self.loaded.checked.warnings
    }

    #[doc(hidden)]
    pub fn loaded(&self) -> &Loaded {
        &self.loaded
    }

    #[doc(hidden)]
    pub fn choose(self, chosen: RunChoices) -> Self {
        Self { chosen, ..self }
    }

    /// Starts the thread.
    ///
    /// # Errors
    /// If the input, the settings or a model do not fit, nobody agreed to what the workflow asks for, or the store cannot
    /// be written.
    ///
    /// # Durability
    /// The thread's row is durable when this returns.
    pub async fn start(mut self) -> Result<Run, Failure> {
        let input = std::mem::take(&mut self.input);
        let checked = types::check_input(&self.loaded.checked.workflow, input);
        let input = checked.map_err(|faults| Failure::of_inputs(&faults))?;
        let prepared = blocking(move || self.prepare()).await?;
        prepared.start(input, None).await
    }

    #[doc(hidden)]
    pub fn draft(self) -> Result<Draft, Failure> {
        Draft::new(self.rondo.operator(), self.loaded, self.chosen)
    }

    /// Obtains consent, and all that threads of this run need but their input. May ask a person, and blocks.
    #[doc(hidden)]
    pub fn prepare(self) -> Result<Prepared, Failure> {
        let (rondo, name) = (self.rondo.clone(), self.name.clone());
        rondo.operator().files.refuse_unsafe()?;
        prepare(&rondo, &name, self.draft()?)
    }
}

/// Obtains consent for a draft whose workflow was named so, see [`NewRun::prepare`].
#[doc(hidden)]
pub fn prepare(rondo: &Rondo, name: &str, draft: Draft) -> Result<Prepared, Failure> {
    let grants = draft.permitted(rondo.operator(), name)?;
    let to_open = rondo.store_to_open(&draft.settings)?;
    let (new, run_spec, notices) = draft.ready(rondo.operator(), grants)?;
    rondo.tell_all(&notices);
    Ok(Prepared { rondo: rondo.clone(), new, run_spec, to_open })
}

/// All that threads of one run need, but their input.
#[doc(hidden)]
pub struct Prepared {
    pub rondo: Rondo,
    pub new: NewThread,
    pub run_spec: RunSpec,
    pub to_open: Option<TrustedStore>,
}

impl Prepared {
    /// Starts a thread on an input that was checked; with an id that was drawn, if there is one.
    pub async fn start(&self, input: Value, drawn: Option<ThreadId>) -> Result<Run, Failure> {
        self.rondo.open_store(self.to_open.clone()).await?;
        let run_config = configured(&self.rondo, &self.new.workflow, &self.run_spec).await?;
        begin(&self.rondo, NewThread { input, ..self.new.clone() }, self.run_spec.clone(), run_config, drawn).await
    }
}

/// The configuration of a run; its notices are told.
#[doc(hidden)]
pub async fn configured(rondo: &Rondo, workflow: &Workflow, run_spec: &RunSpec) -> Result<RunConfig, Failure> {
    if rondo.operator().is_remote() {
        return Ok(run_spec.of_beginning());
    }
    rondo.0.keeper.keep(run_spec.equipment.resources());
    let (run_config, notices) = run_config(workflow, run_spec).await?;
    rondo.tell_all(&notices);
    Ok(run_config)
}

/// The configuration of a thread that continues. One that has ended makes no calls.
#[doc(hidden)]
pub async fn configured_for(rondo: &Rondo, thread: &ThreadId, run_spec: &RunSpec) -> Result<RunConfig, Failure> {
    let (workflow, origin) = rondo.host().await?.engine().definition(thread)?;
    match origin.ending {
        Some(_) => Ok(RunConfig::default()),
        None => configured(rondo, &workflow, run_spec).await,
    }
}

/// Starts a thread, recorded if that was chosen; with an id that was drawn, if there is one.
#[doc(hidden)]
pub async fn begin(
    rondo: &Rondo,
    new: NewThread,
    run_spec: RunSpec,
    mut run_config: RunConfig,
    drawn: Option<ThreadId>,
) -> Result<Run, Failure> {
    #[cfg(feature = "restate")]
    if let Some(run) = remote::begin(rondo, new.clone(), &run_spec, drawn.clone()).await? {
        return Ok(Run::remote(rondo, run_spec, run));
    }
    untaken::files(&new.workflow, &new.input, &run_config.models, run_spec.equipment.settings())?;
    let to = run_spec.record.clone();
    let recorder = to.as_deref().map(|to| recording::begin(to, &new.workflow.name)).transpose()?;
    run_config.recorder.clone_from(&recorder);
    let engine = rondo.host().await?.engine();
    let started = match drawn {
        Some(thread) => engine.start_drawn(new, run_config, thread).await,
        None => engine.start(new, run_config).await,
    };
    let handle = started.inspect_err(|_| recording::discard(to.as_deref()))?;
    Ok(Run::of(rondo.clone(), run_spec, recorder, handle))
}

/// Continues a thread. The run of one that has ended is over.
#[doc(hidden)]
pub async fn resume(
    rondo: &Rondo,
    thread: &ThreadId,
    run_spec: RunSpec,
    run_config: RunConfig,
) -> Result<Run, Failure> {
    #[cfg(feature = "restate")]
    if let Some(run) = remote::resume(rondo, thread, &run_spec, None).await? {
        return Ok(Run::remote(rondo, run_spec, run));
    }
    let engine = rondo.host().await?.engine();
    match engine.resume(thread, |_, _| Ok::<_, local::Error>(run_config)).await? {
        Resumed::Running(handle) => Ok(Run::of(rondo.clone(), run_spec, None, handle)),
        Resumed::Ended { ending } => Run::over(rondo, thread, run_spec, ending).await,
    }
}

/// Continues a thread with the answer to a form, in the recording that its configuration names.
#[doc(hidden)]
pub async fn answer(
    rondo: &Rondo,
    thread: &ThreadId,
    answer: PersonAnswer,
    run_spec: RunSpec,
    run_config: RunConfig,
) -> Result<Run, Failure> {
    #[cfg(feature = "restate")]
    if let Some(run) = remote::resume(rondo, thread, &run_spec, Some(&answer)).await? {
        return Ok(Run::remote(rondo, run_spec, run));
    }
    let recorder = run_config.recorder.clone();
    let engine = rondo.host().await?.engine();
    match engine.answer(thread, answer, |_, _| Ok::<_, local::Error>(run_config)).await? {
        Resumed::Running(handle) => Ok(Run::of(rondo.clone(), run_spec, recorder, handle)),
        Resumed::Ended { ending } => Err(not_waiting(thread, ending.outcome.name())),
    }
}

/// Makes a fork, which can be resumed. An edited input enters as that of a new thread.
#[doc(hidden)]
pub async fn fork(
    rondo: &Rondo,
    thread: &ThreadId,
    at: u64,
    request: &ForkRequest,
    run_spec: &RunSpec,
) -> Result<ThreadId, Failure> {
    #[cfg(feature = "restate")]
    if let Some(fork) = remote::fork(rondo, (thread, at, request), run_spec).await? {
        return Ok(fork);
    }
    if let Some(edited) = &request.edited {
        run_spec.read_keys(&edited.workflow).await?;
    }
    let engine = rondo.host().await?.engine();
    Ok(engine.fork(thread, at, request, &run_spec.of_beginning()).await?)
}

/// Ends a thread for good, wherever it runs.
#[doc(hidden)]
pub async fn cancel(rondo: &Rondo, thread: &ThreadId) -> Result<Cancelled, Failure> {
    #[cfg(feature = "restate")]
    if let Some(cancelled) = remote::cancel(rondo, thread).await? {
        return Ok(cancelled);
    }
    Ok(rondo.host().await?.engine().cancel(thread).await?)
}

/// A thread that runs in this process. It continues if this is dropped.
pub struct Run {
    rondo: Rondo,
    thread: ThreadId,
    spec: RunSpec,
    recorder: Option<Arc<Recorder>>,
    stopper: Stopper,
    state: State,
}

enum State {
    Running(ThreadHandle),
    /// A worker of a cluster drives it.
    #[cfg(feature = "restate")]
    Remote(Box<RemoteRun>),
    /// It ran before: its last event, until that is taken.
    Over(Option<Box<Event>>, Ending),
    Ended(Ended),
}

impl Run {
    fn of(rondo: Rondo, spec: RunSpec, recorder: Option<Arc<Recorder>>, handle: ThreadHandle) -> Self {
        let (thread, stopper) = (handle.thread.clone(), handle.stopper.clone());
        Self { rondo, thread, spec, recorder, stopper, state: State::Running(handle) }
    }

    #[cfg(feature = "restate")]
    fn remote(rondo: &Rondo, spec: RunSpec, run: RemoteRun) -> Self {
        let (rondo, thread, stopper) = (rondo.clone(), run.thread.clone(), run.stopper.clone());
        Self { rondo, thread, spec, recorder: None, stopper, state: State::Remote(Box::new(run)) }
    }

    async fn over(rondo: &Rondo, thread: &ThreadId, spec: RunSpec, ending: Ending) -> Result<Self, Failure> {
        let (id, host) = (thread.clone(), rondo.host().await?.clone());
        let last = blocking(move || {
            let store = host.engine().store();
            Ok(local::finished(&**store, store.durability(), &id)?)
        });
        let state = State::Over(last.await?.map(Box::new), ending);
        let (rondo, thread, stopper) = (rondo.clone(), thread.clone(), Stopper::default());
        Ok(Self { rondo, thread, spec, recorder: None, stopper, state })
    }

    /// The thread.
    pub fn thread(&self) -> &ThreadId {
        &self.thread
    }

    /// The next event; `None` once the run has ended. A slow reader does not slow the run: it misses provisional events.
    ///
    /// # Cancel safety
    /// No event is lost.
    pub async fn next(&mut self) -> Option<Event> {
        match &mut self.state {
            State::Running(handle) => handle.events.recv().await,
            #[cfg(feature = "restate")]
            State::Remote(run) => run.next().await,
            State::Over(last, _) => last.take().map(|last| *last),
            State::Ended(_) => None,
        }
    }

    /// Stops the run; the thread can be resumed. Calls in flight have a few seconds to end.
    pub fn stop(&self) {
        self.stopper.stop();
    }

    #[doc(hidden)]
    pub fn stopper(&self) -> &Stopper {
        &self.stopper
    }

    /// Waits for the end of the run, and drops its remaining events.
    ///
    /// # Errors
    /// If a recording could not be written.
    pub async fn end(mut self) -> Result<End, Failure> {
        let ended = self.ended().await;
        self.finish_recording(&ended)?;
        Ok(End::of(&self.thread, ended))
    }

    #[doc(hidden)]
    pub async fn ended(&mut self) -> Ended {
        let ended = match std::mem::replace(&mut self.state, State::Ended(Ended::Waiting(Vec::new()))) {
            State::Running(handle) => handle.ended().await,
            #[cfg(feature = "restate")]
            State::Remote(run) => run.ended().await,
            State::Over(_, ending) => Ended::Finished(ending),
            State::Ended(ended) => ended,
        };
        self.state = State::Ended(ended.clone());
        ended
    }

    /// Completes the recording. A run that stopped because of its fault has reported it.
    #[doc(hidden)]
    pub fn finish_recording(&mut self, ended: &Ended) -> Result<(), Failure> {
        match self.recorder.take().map(|recorder| recorder.finish()) {
            Some(Err(fault)) if Exit::of_ended(ended) != Exit::InputOutput => Err(recording::failed(fault)),
            _ => Ok(()),
        }
    }

    /// Goes on with the answer to a form, in the same recording.
    #[doc(hidden)]
    pub async fn answered(self, answer: PersonAnswer, run_config: RunConfig) -> Result<Self, Failure> {
        let run_config = RunConfig { recorder: self.recorder, ..run_config };
        self::answer(&self.rondo, &self.thread, answer, self.spec, run_config).await
    }

    /// Whether the thread had ended before, so that nothing runs.
    #[doc(hidden)]
    pub fn was_over(&self) -> bool {
        matches!(self.state, State::Over(..))
    }

    #[doc(hidden)]
    pub fn run_spec(&self) -> &RunSpec {
        &self.spec
    }
}
