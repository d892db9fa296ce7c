//! Threads of a cluster: what begins, continues and ends them asks a worker to, and follows the copy of the thread.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::{Duration, Instant};

use rondo_core::local::{self, Ended, ForkRequest, NewThread, PersonAnswer, Stopper, origin};
use rondo_core::store::{MemoryStore, Status};
use rondo_core::thread::Origin;
use rondo_core::{Cancelled, Engine};
use rondo_protocol::call::{Fault, FaultClass};
use rondo_protocol::diagnostic::Code;
use rondo_protocol::event::{Event, EventId};
use rondo_protocol::hint::{Hint, Operation, Verb};
use rondo_protocol::id::ThreadId;

use super::Rondo;
use crate::cluster::{Asked, Choices, Cluster, Copy};
use crate::failure::Failure;
use crate::host::run_config::RunSpec;

/// How often a thread is looked at: at first, and after it has been quiet for a while.
const FIRST_LOOK: Duration = Duration::from_millis(40);
const LATER_LOOK: Duration = Duration::from_secs(1);

/// How long a cluster that does not answer is asked again: nodes that die are replaced within seconds.
const OUTAGE: Duration = Duration::from_secs(20);

/// How long a refusal is waited for; after that, it ends the run.
const TAKEN_UP: Duration = Duration::from_secs(5);

impl Rondo {
    /// The cluster that holds the threads, and the copy of them here; `None` if they are this store's own.
    async fn remote(&self) -> Result<Option<(&Cluster, Copy)>, Failure> {
        let Some(cluster) = &self.operator().cluster else { return Ok(None) };
        let Some(shared) = self.host().await?.shared() else {
            return Err(Failure::new(Code::StoreUnusable, "threads of a cluster are copied to a disk"));
        };
        Ok(Some((cluster, cluster.copy_to(shared.clone()))))
    }

    /// Brings the store up to a thread of the cluster, or to all; does nothing where threads are this store's own.
    pub(super) async fn caught_up(&self, thread: Option<&ThreadId>) -> Result<(), Failure> {
        match (self.remote().await?, thread) {
            (Some((_, copy)), Some(thread)) => copy.thread(thread).await,
            (Some((_, copy)), None) => copy.all().await,
            (None, _) => Ok(()),
        }
    }
}

/// Begins a thread; with an id that was drawn, if there is one.
pub(super) async fn begin(
    rondo: &Rondo,
    new: NewThread,
    run_spec: &RunSpec,
    drawn: Option<ThreadId>,
) -> Result<Option<RemoteRun>, Failure> {
    let Some((cluster, copy)) = rondo.remote().await? else { return Ok(None) };
    unrecorded(run_spec)?;
    // The folder that tools work in is the worker's.
    let new = NewThread { workspace: None, ..new };
    let (env, registry) = rondo.surroundings();
    let thread = drawn.unwrap_or_else(|| env.thread_id());
    let engine = Engine::new(Arc::new(MemoryStore::new()), env, registry);
    let commit = engine.compose(new, &run_spec.of_beginning(), &thread)?;
    let asked = cluster.begin(commit, run_spec.replay.script_text()).await?;
    RemoteRun::of(rondo, (cluster, copy), asked, EventId::NONE).await.map(Some)
}

pub(super) async fn fork(
    rondo: &Rondo,
    (thread, at, request): (&ThreadId, u64, &ForkRequest),
    run_spec: &RunSpec,
) -> Result<Option<ThreadId>, Failure> {
    let Some((cluster, copy)) = rondo.remote().await? else { return Ok(None) };
    let engine = rondo.host().await?.engine();
    let commit = engine.compose_fork(thread, at, request, &run_spec.of_beginning())?;
    let fork = commit.thread.clone();
    cluster.append(commit).await?;
    copy.thread(&fork).await?;
    Ok(Some(fork))
}

/// Continues a thread, perhaps with an answer.
pub(super) async fn resume(
    rondo: &Rondo,
    thread: &ThreadId,
    run_spec: &RunSpec,
    answer: Option<&PersonAnswer>,
) -> Result<Option<RemoteRun>, Failure> {
    let Some((cluster, copy)) = rondo.remote().await? else { return Ok(None) };
    unrecorded(run_spec)?;
    let store = Arc::clone(rondo.host().await?.engine().store());
    let from = local::end(&*store, thread)?.unwrap_or(EventId::NONE);
    let asked = if let Some(answer) = answer {
        cluster.answer(thread, answer).await?
    } else {
        let choices = Choices { raised: run_spec.raised.clone(), in_doubt: run_spec.in_doubt };
        cluster.resume(thread, &choices, run_spec.replay.script_text()).await?
    };
    let run = RemoteRun::of(rondo, (cluster, copy), asked, from).await?;
    run.is_taken_up().await?;
    Ok(Some(run))
}

pub(super) async fn cancel(rondo: &Rondo, thread: &ThreadId) -> Result<Option<Cancelled>, Failure> {
    let Some((cluster, copy)) = rondo.remote().await? else { return Ok(None) };
    let asked = cluster.cancel(thread).await?;
    while !cluster.has_left(&asked).await? {
        tokio::time::sleep(FIRST_LOOK).await;
    }
    copy.thread(thread).await?;
    let row = rondo.host().await?.engine().store().row(thread)?;
    let has_ended = row.map_or(Ok(false), |row| origin(thread, &row).map(|origin| origin.ending.is_some()))?;
    Ok(Some(if has_ended { Cancelled::Ended } else { Cancelled::Stopping }))
}

fn unrecorded(run_spec: &RunSpec) -> Result<(), Failure> {
    if run_spec.record.is_none() && run_spec.replay.recorded.is_none() {
        return Ok(());
    }
    let what = "a thread of a cluster is neither recorded nor played from a recording";
    Err(Failure::new(Code::RecordingRefused, what).with_hint("run it on this machine"))
}

/// A thread that a worker was asked to drive, until the worker leaves it.
pub(super) struct RemoteRun {
    pub(super) thread: ThreadId,
    pub(super) stopper: Stopper,
    cluster: Cluster,
    copy: Copy,
    engine: Engine,
    asked: Asked,
    /// The last event that was read.
    from: EventId,
    events: VecDeque<Event>,
    pause: Duration,
    /// Since when the cluster does not answer.
    silent_since: Option<Instant>,
    ended: Option<Ended>,
}

impl RemoteRun {
    async fn of(
        rondo: &Rondo,
        (cluster, copy): (&Cluster, Copy),
        asked: Asked,
        from: EventId,
    ) -> Result<Self, Failure> {
        let (thread, cluster) = (asked.thread.clone(), cluster.clone());
        // Whoever reads the store from now on finds the thread.
        copy.thread(&thread).await?;
        let (engine, stopper) = (rondo.host().await?.engine().clone(), Stopper::default());
        let (events, pause, silent_since, ended) = (VecDeque::new(), FIRST_LOOK, None, None);
        Ok(Self { thread, stopper, cluster, copy, engine, asked, from, events, pause, silent_since, ended })
    }

    /// Waits until a worker has taken up what it was asked, and has not refused it.
    async fn is_taken_up(&self) -> Result<(), Failure> {
        let before = self.engine.store().row(&self.thread)?.map(|row| row.version);
        let since = Instant::now();
        while since.elapsed() < TAKEN_UP && !self.cluster.has_left(&self.asked).await? {
            self.copy.thread(&self.thread).await?;
            if self.engine.store().row(&self.thread)?.map(|row| row.version) != before {
                break;
            }
            tokio::time::sleep(FIRST_LOOK).await;
        }
        Ok(())
    }

    /// The next event; `None` once the worker has left the thread, or this was told to stop: the thread goes on then.
    ///
    /// # Cancel safety
    /// No event is lost.
    pub(super) async fn next(&mut self) -> Option<Event> {
        let stopper = self.stopper.clone();
        while self.events.is_empty() && self.ended.is_none() {
            let looked = tokio::select! {
                biased;
                () = stopper.is_told() => Ok(Some(left(&self.thread))),
                looked = self.look() => looked,
            };
            match looked {
                Ok(ended) => (self.ended, self.silent_since) = (ended, None),
                Err(failure) if self.may_pass(&failure) => tokio::time::sleep(self.pause).await,
                Err(failure) => self.ended = Some(Ended::Stopped(fault(&failure))),
            }
        }
        self.events.pop_front()
    }

    /// Whether the cluster may answer again, and is waited for.
    fn may_pass(&mut self, failure: &Failure) -> bool {
        let is_outage = matches!(failure.code(), Code::ClusterUnreachable | Code::ClusterSilent | Code::NoWorker);
        is_outage && self.silent_since.get_or_insert_with(Instant::now).elapsed() < OUTAGE
    }

    pub(super) async fn ended(mut self) -> Ended {
        while self.next().await.is_some() {}
        self.ended.unwrap_or_else(|| left(&self.thread))
    }

    /// Reads what is new. Returns how the thread stands once the worker has left it.
    async fn look(&mut self) -> Result<Option<Ended>, Failure> {
        // Also while much happens: each look is work for the cluster and the worker.
        tokio::time::sleep(self.pause).await;
        let has_left = self.cluster.has_left(&self.asked).await?;
        self.copy.thread(&self.thread).await?;
        let before = self.from;
        let mut events = self.engine.subscribe(&self.thread, self.from)?;
        while let Some(event) = events.recv().await {
            self.from = event.id.unwrap_or(self.from);
            self.events.push_back(event);
        }
        self.pause = if self.from == before { (self.pause * 2).min(LATER_LOOK) } else { FIRST_LOOK };
        if has_left { self.stand() } else { Ok(None) }
    }

    /// How the thread stands in the copy; `None` if it is under way.
    fn stand(&self) -> Result<Option<Ended>, Failure> {
        let row = self.engine.store().row(&self.thread)?;
        let Some(row) = row.filter(|row| row.status != Status::Running) else { return Ok(None) };
        let Origin { ending, stop, forms, .. } = origin(&self.thread, &row)?;
        Ok(match (ending, stop) {
            (Some(ending), _) => Some(Ended::Finished(ending)),
            (None, _) if row.status == Status::Waiting => Some(Ended::Waiting(forms)),
            (None, Some(stop)) => {
                let code = Code::find(&stop.code).unwrap_or(Code::Interrupted);
                Some(Ended::Stopped(Fault { hint: stop.hint, ..Fault::new(code, stop.class, stop.message) }))
            }
            (None, None) => None,
        })
    }
}

/// The end of a run that was told to stop: only of looking at it.
fn left(thread: &ThreadId) -> Ended {
    let message = format!("thread {thread} goes on in the cluster");
    let hint = Hint::from(Operation::on(Verb::Show, thread)).words(" tells how it stands");
    let fault = Fault::new(Code::Interrupted, FaultClass::Cancelled, message);
    Ended::Stopped(Fault { hint: Some(hint), ..fault })
}

/// A cluster that does not answer any more, or a worker's refusal: the thread stays as it is.
fn fault(failure: &Failure) -> Fault {
    Fault { hint: failure.hint(), ..Fault::new(failure.code(), FaultClass::Store, failure.message()) }
}
