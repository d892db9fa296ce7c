//! What can be done with a thread that is there: continue, answer, fork, cancel and read it.

use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;

use rondo_agent_kit::tool::InDoubt;
use rondo_author::prefix::{self, RoleSum, VisitPrefix};
use rondo_core::conversation::rebuild::{self, Request};
use rondo_core::local::{
    Answerer, Edited, FilledForm, ForkPlan, ForkRequest, PersonSaid, Subscription, origin, plan_fork,
};
use rondo_core::store::{Read, Row, rows_after};
use rondo_core::thread::OpenForm;
use rondo_protocol::diagnostic::Code;
use rondo_protocol::digest::Kind;
use rondo_protocol::event::EventId;
use rondo_protocol::id::{LanePath, RoleName, ThreadId};
use rondo_protocol::object::Start;
use rondo_protocol::workflow::{Workflow, types};
use rondo_protocol::{Digest, Value};

use super::run::{self, Run};
use super::{Rondo, blocking};
use crate::failure::Failure;
use crate::host::answering::{
    self, FormName, ResolvedForm, check, declared, only_a_person, other_kind, resolve_form, role, statuses,
};
use crate::host::answers_from::AnswersFrom;
use crate::host::continuing::{ContinueChoices, ContinueTarget, ResumeSource, continued};
use crate::host::find_thread::{find_thread, root};
use crate::host::limit_choice::limits;
use crate::host::run_config::RunSpec;
use crate::views::diff::{Comparison, StepPair};
use crate::views::form::FormView;
use crate::views::lines::{RecordLine, ThreadLine, thread_line};
use crate::views::records::records;
use crate::views::usage::{By, Groups, sums};

/// A thread that is about to go on.
#[must_use = "nothing continues before `start`"]
pub struct Resume {
    rondo: Rondo,
    thread: ThreadId,
    limits: Vec<String>,
    answers: AnswersFrom,
    in_doubt: Option<InDoubt>,
}

/// An answer that is about to be given to a form, or to a tool call that waits for approval.
#[must_use = "nothing is answered before `start`"]
pub struct Answer {
    rondo: Rondo,
    thread: ThreadId,
    role: Option<String>,
    lane: Option<String>,
    form: Option<Digest>,
    status: Option<String>,
    fields: BTreeMap<String, Value>,
    body: String,
    approval: Option<bool>,
    why: String,
    by: Answerer,
}

/// A fork that is about to be made.
#[must_use = "nothing is forked before `start`"]
pub struct Fork {
    rondo: Rondo,
    thread: ThreadId,
    at: Option<u64>,
    answer: Option<String>,
    input: BTreeMap<String, Value>,
}

/// How two threads differ.
#[non_exhaustive]
pub struct Diff {
    /// The last step that both threads have; `None` if they have none in common.
    pub common: Option<u64>,
    /// The steps after it, those of one role, lane and visit side by side.
    pub steps: Vec<StepPair>,
}

/// What each request shares with its role's previous one.
#[non_exhaustive]
pub struct Prefixes {
    /// In the order of the steps.
    pub visits: Vec<VisitPrefix>,
    /// The sums of each role.
    pub roles: Vec<RoleSum>,
}

impl Rondo {
    /// Continues a thread that stopped, where it stopped. Of one that has ended, the run is over at once.
    pub fn resume(&self, thread: &ThreadId) -> Resume {
        let (limits, answers, in_doubt) = (Vec::new(), self.operator().answers.clone(), None);
        Resume { rondo: self.clone(), thread: thread.clone(), limits, answers, in_doubt }
    }

    /// Answers a form that a thread waits for.
    pub fn answer(&self, thread: &ThreadId) -> Answer {
        let (role, lane, form, status, fields, body, approval, why) = Default::default();
        let (rondo, thread, by) = (self.clone(), thread.clone(), answering::this_person());
        Answer { rondo, thread, role, lane, form, status, fields, body, approval, why, by }
    }

    /// A second thread that shares the beginning of this one.
    pub fn fork(&self, thread: &ThreadId) -> Fork {
        let (at, answer, input) = Default::default();
        Fork { rondo: self.clone(), thread: thread.clone(), at, answer, input }
    }

    /// Ends a thread for good, wherever it runs.
    ///
    /// # Errors
    /// If there is no such thread, or it has ended in another way.
    pub async fn cancel(&self, thread: &ThreadId) -> Result<(), Failure> {
        run::cancel(self, thread).await.map(drop)
    }

    /// The thread with this id, name or beginning of an id, or `last`.
    ///
    /// # Errors
    /// If there is none, or more than one.
    pub async fn find(&self, word: &str) -> Result<ThreadId, Failure> {
        let word = word.to_owned();
        self.reading(None, move |store| Ok(find_thread(store, &word)?.0)).await
    }

    /// Threads, oldest first: at most `limit`, and only those after `after`.
    ///
    /// # Errors
    /// If the store is damaged.
    pub async fn threads(&self, after: Option<&ThreadId>, limit: usize) -> Result<Vec<ThreadLine>, Failure> {
        let (host, after) = (self.host().await?.clone(), after.cloned());
        let lines = move |store: &dyn Read| {
            let rows = || Ok(rows_after(store, after).take(limit).collect::<Result<Vec<_>, _>>()?);
            let (rows, driven) = host.with_driven(rows)?;
            rows.iter().map(|(thread, row)| thread_line(store, &driven, thread, row)).collect()
        };
        self.reading(None, lines).await
    }

    /// A thread as it stands.
    ///
    /// # Errors
    /// If there is no such thread.
    pub async fn thread(&self, thread: &ThreadId) -> Result<ThreadLine, Failure> {
        let (host, word) = (self.host().await?.clone(), thread.clone());
        let line = move |store: &dyn Read| {
            let ((thread, row), driven) = host.with_driven(|| find_thread(store, word.as_str()))?;
            thread_line(store, &driven, &thread, &row)
        };
        self.reading(Some(thread), line).await
    }

    /// The forms that a thread waits for.
    ///
    /// # Errors
    /// If there is no such thread.
    pub async fn forms(&self, thread: &ThreadId) -> Result<Vec<FormView>, Failure> {
        let forms = |_: &dyn Read, thread: &ThreadId, row: &Row| {
            let open = origin(thread, row)?.forms;
            Ok(open.iter().map(|open| FormView::new(thread, open)).collect())
        };
        self.reading_thread(thread, forms).await
    }

    /// The steps of a thread, with its rebinds and compactions, in order.
    ///
    /// # Errors
    /// If there is no such thread, or a step is damaged.
    pub async fn steps(&self, thread: &ThreadId) -> Result<Vec<RecordLine>, Failure> {
        let read = |store: &dyn Read, thread: &ThreadId, row: &Row| {
            let mut all = Vec::new();
            records(store, (thread, row), 1..=row.seq, &|_| true, &mut |line| {
                all.push(line);
                Ok(true)
            })?;
            Ok(all)
        };
        self.reading_thread(thread, read).await
    }

    /// The requests that a visit of a role sent, rebuilt from the steps and proven by their digests. `lane` is empty for
    /// the trunk; `visit` counts from 1.
    ///
    /// # Errors
    /// If there is no such thread, or a step is damaged.
    pub async fn messages(
        &self,
        thread: &ThreadId,
        role: &RoleName,
        lane: &LanePath,
        visit: u64,
    ) -> Result<Vec<Request>, Failure> {
        let (role, lane) = (role.clone(), lane.clone());
        let read = move |store: &dyn Read, thread: &ThreadId, row: &Row| {
            let mut all = Vec::new();
            rebuild::requests(store, thread, row, &|_| true, &mut |request| {
                if request.role == role && request.lane == lane && request.visit == visit {
                    all.push(request);
                }
                true
            })?;
            Ok(all)
        };
        self.reading_thread(thread, read).await
    }

    /// What each request of a thread shares with its role's previous one.
    ///
    /// # Errors
    /// If there is no such thread, or a step is damaged.
    pub async fn prefix(&self, thread: &ThreadId) -> Result<Prefixes, Failure> {
        let settings = self.operator().files.in_force()?;
        let read = move |store: &dyn Read, thread: &ThreadId, row: &Row| {
            let workflow = rebuild::beginning(store, row)?.workflow;
            let (prices, mut visits) = (prefix::prices(&workflow, &|model| settings.stated_price(model)), Vec::new());
            let roles = prefix::visits(store, thread, row, &prices, &mut |visit| {
                visits.push(visit);
                true
            })?;
            Ok(Prefixes { visits, roles })
        };
        self.reading_thread(thread, read).await
    }

    /// How two threads differ, from where they part.
    ///
    /// # Errors
    /// If there is no such thread, or a step is damaged.
    pub async fn diff(&self, a: &ThreadId, b: &ThreadId) -> Result<Diff, Failure> {
        let (host, thread, other) = (self.host().await?.clone(), a.clone(), b.clone());
        self.catch_up(Some(b)).await?;
        let read = move |store: &dyn Read| {
            let both = || Ok((find_thread(store, thread.as_str())?, find_thread(store, other.as_str())?));
            let (((a, a_row), (b, b_row)), driven) = host.with_driven(both)?;
            let compared = Comparison::new(store, &driven, (&a, &a_row), (&b, &b_row))?;
            let mut steps = Vec::new();
            compared.pairs(&mut |pair| {
                steps.push(pair);
                Ok(true)
            })?;
            Ok(Diff { common: compared.last_common()?.map(|stored| stored.seq), steps })
        };
        self.reading(Some(a), read).await
    }

    /// What the steps of these threads and their children used; without any, those of all threads.
    ///
    /// # Errors
    /// If a step is damaged.
    pub async fn usage(&self, threads: &[ThreadId], by: Option<By>) -> Result<Groups, Failure> {
        let threads: BTreeSet<ThreadId> = threads.iter().cloned().collect();
        let threads = Some(threads).filter(|threads| !threads.is_empty());
        self.reading(None, move |store| Ok(sums(store, threads, by, 0)?)).await
    }

    /// The events of a thread: the durable ones after `after`, then new ones while it runs in this process.
    ///
    /// # Errors
    /// If there is no such thread, or it has no such event.
    pub async fn subscribe(&self, thread: &ThreadId, after: EventId) -> Result<Subscription, Failure> {
        let (host, thread) = (self.host().await?.clone(), thread.clone());
        blocking(move || host.engine().subscribe(&thread, after).map_err(Failure::from)).await
    }

    async fn reading_thread<T: Send + 'static>(
        &self,
        thread: &ThreadId,
        read: impl FnOnce(&dyn Read, &ThreadId, &Row) -> Result<T, Failure> + Send + 'static,
    ) -> Result<T, Failure> {
        let word = thread.clone();
        self.reading(Some(thread), move |store| {
            let (thread, row) = find_thread(store, word.as_str())?;
            read(store, &thread, &row)
        })
        .await
    }

    fn continued(
        &self,
        store: &dyn Read,
        thread: (&ThreadId, &Row),
        target: ContinueTarget<'_>,
        choices: ContinueChoices,
    ) -> Result<RunSpec, Failure> {
        let source = ResumeSource::of(store, thread, target, self.folder())?;
        let (run_spec, notices) = continued(self.operator(), self.operator().agreed_settings()?, source, choices)?;
        self.tell_all(&notices);
        Ok(run_spec)
    }

    /// The choices for a thread that continues as it began.
    fn as_begun(&self) -> ContinueChoices {
        ContinueChoices { answers: self.operator().answers.clone(), ..ContinueChoices::default() }
    }
}

impl Resume {
    /// Raises a limit of the thread, such as `("tokens", 90_000)` or `("wall_time", "2h")`.
    pub fn limit(mut self, key: &str, value: impl std::fmt::Display) -> Self {
        self.limits.push(format!("{key}={value}"));
        self
    }

    /// What happens with tool calls of which nobody knows whether they had their effect.
    pub fn in_doubt(self, in_doubt: InDoubt) -> Self {
        Self { in_doubt: Some(in_doubt), ..self }
    }

    /// Answers in place of models from a script.
    pub fn script(self, file: impl Into<PathBuf>) -> Self {
        Self { answers: AnswersFrom::Script(file.into()), ..self }
    }

    /// Answers in place of models from a recording.
    pub fn recording(self, file: impl Into<PathBuf>) -> Self {
        Self { answers: AnswersFrom::Recording(file.into()), ..self }
    }

    /// Continues it. A child continues with the thread at the top of its tree.
    ///
    /// # Errors
    /// If there is no such thread, it runs, what it began with cannot be read again, or consent is missing.
    pub async fn start(self) -> Result<Run, Failure> {
        let Self { rondo, thread, limits: chosen, answers, in_doubt } = self;
        let preparing = rondo.clone();
        let prepared = rondo.reading_thread(&thread, move |store, named, row| {
            let (thread, row) = root(store, (named.clone(), row.clone()))?;
            let limits = limits(&chosen)?;
            let choices = ContinueChoices { answers, in_doubt, limits, ..preparing.as_begun() };
            let mut run_spec = preparing.continued(store, (&thread, &row), ContinueTarget::Thread, choices)?;
            run_spec.raised.thread = Some(named.clone());
            Ok((thread, run_spec))
        });
        let (thread, run_spec) = prepared.await?;
        let run_config = run::configured_for(&rondo, &thread, &run_spec).await?;
        run::resume(&rondo, &thread, run_spec, run_config).await
    }
}

impl Answer {
    /// The form that is meant, by its digest. Without it, and without [`role`](Self::role) and [`lane`](Self::lane), it is
    /// the only one that is open.
    pub fn form(self, digest: Digest) -> Self {
        Self { form: Some(digest), ..self }
    }

    /// The role whose form is meant.
    pub fn role(self, role: &str) -> Self {
        Self { role: Some(role.to_owned()), ..self }
    }

    /// The lane whose form is meant.
    pub fn lane(self, lane: &str) -> Self {
        Self { lane: Some(lane.to_owned()), ..self }
    }

    /// The status that the form is filled in with.
    pub fn status(self, status: &str) -> Self {
        Self { status: Some(status.to_owned()), ..self }
    }

    /// A field of the status.
    pub fn field(mut self, name: &str, value: impl Into<Value>) -> Self {
        self.fields.insert(name.to_owned(), value.into());
        self
    }

    /// The text of the answer.
    pub fn body(self, body: &str) -> Self {
        Self { body: body.to_owned(), ..self }
    }

    /// Lets the tool call be made that waits for approval.
    pub fn approve(self) -> Self {
        Self { approval: Some(true), ..self }
    }

    /// Refuses it. The role that asked for the call reads why.
    pub fn refuse(self, why: &str) -> Self {
        Self { approval: Some(false), why: why.to_owned(), ..self }
    }

    /// Who answers: the person whose process this is, unless another one is named. A program approves nothing.
    pub fn by(self, by: Answerer) -> Self {
        Self { by, ..self }
    }

    /// Gives the answer, and continues the thread.
    ///
    /// # Errors
    /// If no such form is open, or the answer does not fit it; nothing has changed then.
    pub async fn start(mut self) -> Result<Run, Failure> {
        let (status, fields, body) =
            (self.status.take(), std::mem::take(&mut self.fields), std::mem::take(&mut self.body));
        let (approval, why) = (self.approval, std::mem::take(&mut self.why));
        self.start_with(move |open, workflow| match (status.as_deref(), approval) {
            (None, Some(is_allowed)) if open.is_approval() => Ok(PersonSaid::Approval { is_allowed, why }),
            (Some(status), None) if !open.is_approval() => {
                let (status, _) = declared(role(workflow, &open.visit)?, status)?;
                Ok(PersonSaid::Form(FilledForm { status: status.clone(), fields: fields.into_iter().collect(), body }))
            }
            (None, None) if !open.is_approval() => {
                let failure = Failure::new(Code::AnswerUnclear, "the answer has no status");
                Err(failure.with_hint(statuses(role(workflow, &open.visit)?)))
            }
            _ => Err(other_kind(open)),
        })
        .await
    }

    /// Like [`start`](Self::start), with what is said made from the form.
    #[doc(hidden)]
    pub async fn start_with(
        self,
        said: impl FnOnce(&OpenForm, &Workflow) -> Result<PersonSaid, Failure> + Send + 'static,
    ) -> Result<Run, Failure> {
        let Self { rondo, thread, role, lane, form, by, .. } = self;
        let preparing = rondo.clone();
        let prepared = rondo.reading_thread(&thread, move |store, thread, row| {
            let named = FormName { role: role.as_deref(), lane: lane.as_deref(), digest: form };
            let found = (thread.clone(), row.clone());
            let (ResolvedForm { root, open, workflow }, row) = resolve_form(store, found, named)?;
            if open.is_approval() && matches!(by, Answerer::Client(_)) {
                return Err(only_a_person(&root, &open));
            }
            let said = said(&open, &workflow)?;
            let answer = answering::answer(&root, open, said, by);
            check(&workflow, &answer)?;
            let run_spec = preparing.continued(store, (&root, &row), ContinueTarget::Thread, preparing.as_begun())?;
            Ok((root, answer, run_spec))
        });
        let (thread, answer, run_spec) = prepared.await?;
        let run_config = run::configured_for(&rondo, &thread, &run_spec).await?;
        run::answer(&rondo, &thread, answer, run_spec, run_config).await
    }
}

impl Fork {
    /// The last step that both threads have; with [`answer`](Self::answer) the one that is answered otherwise. Without it,
    /// as many as the change leaves.
    pub fn at(self, seq: u64) -> Self {
        Self { at: Some(seq), ..self }
    }

    /// The answer of that step, exactly as its role would give it.
    pub fn answer(self, text: &str) -> Self {
        Self { answer: Some(text.to_owned()), ..self }
    }

    /// An input that changes.
    pub fn input(mut self, name: &str, value: impl Into<Value>) -> Self {
        self.input.insert(name.to_owned(), value.into());
        self
    }

    /// What would be shared, changed and run again. Nothing is written.
    ///
    /// # Errors
    /// If there is no such thread or step, or the input does not fit.
    pub async fn plan(self) -> Result<ForkPlan, Failure> {
        let Self { rondo, thread, at, answer, input } = self;
        let planned = rondo.reading_thread(&thread, move |store, thread, row| {
            Ok(plan_fork(store, thread, &request(store, (thread, row), at, answer, input)?)?)
        });
        planned.await
    }

    /// Makes the fork and runs it. If nothing stays as it is, it is a thread of its own.
    ///
    /// # Errors
    /// As [`plan`](Self::plan), and as [`Resume::start`].
    pub async fn start(self) -> Result<Run, Failure> {
        let Self { rondo, thread, at, answer, input } = self;
        let preparing = rondo.clone();
        let prepared = rondo.reading_thread(&thread, move |store, thread, row| {
            let mut request = request(store, (thread, row), at, answer, input)?;
            let plan = plan_fork(store, thread, &request)?;
            let run_spec =
                preparing.continued(store, (thread, row), ContinueTarget::Fork(None), preparing.as_begun())?;
            (request.script, request.recorded) = run_spec.replay.files();
            Ok((thread.clone(), request, plan, run_spec))
        });
        let (thread, request, plan, run_spec) = prepared.await?;
        let (_, origin) = rondo.host().await?.engine().definition(&thread)?;
        if let Some(new) = request.of_its_own(plan.at, origin) {
            let run_config = run::configured(&rondo, &new.workflow, &run_spec).await?;
            return run::begin(&rondo, new, run_spec, run_config, None).await;
        }
        let fork = run::fork(&rondo, &thread, plan.at, &request, &run_spec).await?;
        let run_config = run::configured_for(&rondo, &fork, &run_spec).await?;
        run::resume(&rondo, &fork, run_spec, run_config).await
    }
}

fn request(
    store: &dyn Read,
    (thread, row): (&ThreadId, &Row),
    at: Option<u64>,
    answer: Option<String>,
    input: BTreeMap<String, Value>,
) -> Result<ForkRequest, Failure> {
    if let Some(at) = at.filter(|at| !(1..=row.seq).contains(at)) {
        let what = format!("thread {thread} has no step {at}; its last is {}", row.seq);
        return Err(Failure::new(Code::ForkUnclear, what));
    }
    let edited = if input.is_empty() { None } else { Some(with_input(store, row, input)?) };
    Ok(ForkRequest { at, edited, answer, ..ForkRequest::default() })
}

/// The definition of a thread with some of its inputs changed.
fn with_input(store: &dyn Read, row: &Row, changed: BTreeMap<String, Value>) -> Result<Edited, Failure> {
    let (workflow, policy) = (rebuild::beginning(store, row)?.workflow, rebuild::policy(store, row)?);
    let mut members = match rebuild::object::<Start>(store, Kind::Start, row.start)?.input {
        Value::Object(members) => members,
        _ => BTreeMap::new(),
    };
    members.extend(changed);
    let input = types::check_input(&workflow, members).map_err(|faults| Failure::of_inputs(&faults))?;
    Ok(Edited { workflow, policy, input: Some(input), file: None })
}
