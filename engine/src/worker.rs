//! A worker: a process that drives threads of a cluster.

use std::collections::BTreeSet;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use futures_util::future::BoxFuture;
use parking_lot::Mutex;
use rondo_core::env::{Env as _, SystemEnv};
use rondo_core::exit::Exit;
use rondo_core::local::{Ended, PersonAnswer, RaisedLimits};
use rondo_core::thread::OpenForm;
use rondo_core::{Cancelled, Error};
use rondo_protocol::call::FaultClass;
use rondo_protocol::diagnostic::Code;
use rondo_protocol::event::Outcome;
use rondo_protocol::id::ThreadId;
use rondo_restate::{Client, Driver, Leaving, Sessions, Wake};
use serde::de::DeserializeOwned;

use crate::Rondo;
use crate::cluster::{Choices, Cluster, Refusal};
use crate::failure::Failure;
use crate::host::answers_from::AnswersFrom;
use crate::host::continuing::{ContinueChoices, ContinueTarget, ResumeSource, continued};
use crate::host::find_thread::no_threads;
use crate::host::thread_row;
use crate::rondo::blocking;
use crate::rondo::run::{self, Run};
use crate::tell::{plural, word};

/// A process that drives threads of a cluster.
pub struct Worker {
    driver: ThreadDriver,
    inner: rondo_restate::Worker,
}

impl Worker {
    /// A worker with this store, settings and consent.
    ///
    /// # Errors
    /// If the store cannot be opened, or nobody agreed to use it.
    pub async fn open(cluster: &Cluster, rondo: &Rondo) -> Result<Self, Failure> {
        let asking = rondo.clone();
        let own = blocking(move || asking.trusted_store(&asking.operator().agreed_settings()?));
        let sessions = Arc::new(Sessions::default());
        let copied = rondo.open_replicated(own.await?, Arc::clone(&sessions) as _).await?;
        let driver = ThreadDriver { rondo: rondo.clone(), draining: Arc::default(), is_ending: Arc::default() };
        let (client, replica) = (cluster.client(), Arc::new(copied));
        let inner = rondo_restate::Worker { client, driver: Arc::new(driver.clone()), replica, sessions };
        Ok(Self { driver, inner })
    }

    /// Serves the cluster at `listen` until `stop` is ready, registered under `advertised`. `ready` is called once the
    /// cluster knows it. Threads that are under way then go on elsewhere.
    ///
    /// # Errors
    /// If nothing can listen there, or the cluster cannot be reached.
    pub async fn serve(
        self,
        listen: SocketAddr,
        advertised: &str,
        ready: impl FnOnce(),
        stop: impl Future<Output = ()> + Send + 'static,
    ) -> Result<(), Failure> {
        let listener = rondo_restate::Worker::listen(listen)
            .map_err(|error| Failure::new(Code::PortTaken, format!("nothing can listen at {listen}: {error}")))?;
        let (client, driver) = (self.inner.client.clone(), self.driver.clone());
        let leaving = async move {
            stop.await;
            driver.is_ending.store(true, Ordering::SeqCst);
            if let Ok(host) = driver.rondo.host().await {
                host.engine().stop_all().await;
            }
        };
        let serving = tokio::spawn(self.inner.serve(listener, leaving));
        registered(&client, advertised).await.inspect_err(|_| serving.abort())?;
        ready();
        serving.await.map_err(Failure::internal)?;
        self.driver.rondo.close().await;
        Ok(())
    }
}

/// A cluster that has just begun is asked again for a while.
async fn registered(client: &Client, advertised: &str) -> Result<(), Failure> {
    let mut last = client.register(advertised).await;
    for _ in 0..20 {
        match last {
            Err(rondo_restate::Error::Unreachable { .. } | rondo_restate::Error::Refused { status: 503, .. }) => {}
            other => return Ok(other?),
        }
        tokio::time::sleep(Duration::from_millis(250)).await;
        last = client.register(advertised).await;
    }
    Ok(last?)
}

/// Why a worker did not do what it was asked.
enum Unable {
    /// Nobody would.
    Refused(Failure),
    /// Another worker may.
    Here(String),
}

impl From<Failure> for Unable {
    fn from(failure: Failure) -> Self {
        // What a worker lacks: consent, grants, providers, its store.
        match failure.exit() {
            Exit::Denied | Exit::Provider | Exit::InputOutput | Exit::Damaged | Exit::Busy
                if failure.code() != Code::NotWaiting =>
            {
                Self::Here(format!("{failure:?}"))
            }
            _ => Self::Refused(failure),
        }
    }
}

#[derive(Clone)]
struct ThreadDriver {
    rondo: Rondo,
    /// Threads that go on under another invocation.
    draining: Arc<Mutex<BTreeSet<ThreadId>>>,
    is_ending: Arc<AtomicBool>,
}

impl ThreadDriver {
    async fn driven(&self, thread: &ThreadId, wake: Wake, how: Option<String>, again: bool) -> Result<Leaving, Unable> {
        self.draining.lock().remove(thread);
        let ended = match wake {
            Wake::Cancel => return self.cancelled(thread).await,
            Wake::Continue(_, choices) if !again => {
                let choices: Choices = read(&choices.0)?;
                self.continued(thread, how, &choices, None).await?
            }
            Wake::Answer(answer) => {
                let answer: PersonAnswer = read(&answer.0)?;
                let none = Choices::default();
                let is_open = |open: &OpenForm| open.digest(thread) == answer.form;
                // What a worker wrote before this one may be the beginning of the answer: if its form is open still, it is
                // given again.
                let before = if again { Some(self.continued(thread, how.clone(), &none, None).await?) } else { None };
                match before {
                    Some(Ended::Waiting(open)) if !open.iter().any(is_open) => Ended::Waiting(open),
                    Some(Ended::Waiting(_)) | None => self.continued(thread, how, &none, Some(answer)).await?,
                    Some(ended) => ended,
                }
            }
            Wake::Continue(..) | Wake::Timer(_) | Wake::Follow => {
                self.continued(thread, how, &Choices::default(), None).await?
            }
        };
        self.left(thread, ended)
    }

    fn left(&self, thread: &ThreadId, ended: Ended) -> Result<Leaving, Unable> {
        match ended {
            Ended::Finished(_) => Ok(Leaving::Settled),
            Ended::Waiting(open) => {
                let now_ms = SystemEnv::default().now_ms();
                let until = open.iter().filter_map(OpenForm::expires_at_ms).min();
                Ok(Leaving::Waiting(until.map(|at| at.saturating_sub(now_ms).max(1))))
            }
            Ended::Stopped(fault) => match fault.class {
                FaultClass::Store => Err(Unable::Here(fault.message)),
                FaultClass::Cancelled if self.is_ending.load(Ordering::SeqCst) => {
                    Err(Unable::Here("it is ending".to_owned()))
                }
                FaultClass::Cancelled if self.draining.lock().remove(thread) => Ok(Leaving::Drained),
                _ => Ok(Leaving::Settled),
            },
        }
    }

    async fn continued(
        &self,
        thread: &ThreadId,
        how: Option<String>,
        choices: &Choices,
        answer: Option<PersonAnswer>,
    ) -> Result<Ended, Unable> {
        let rondo = &self.rondo;
        let host = rondo.host().await?.clone();
        let answers = how.map_or(AnswersFrom::Unchosen, |script| AnswersFrom::Text(script.into()));
        let RaisedLimits { thread: raised_of, limits } = choices.raised.clone();
        let choices = ContinueChoices { answers, in_doubt: choices.in_doubt, limits, ..ContinueChoices::default() };
        let (asking, id) = (rondo.clone(), thread.clone());
        let (mut run_spec, _) = blocking(move || {
            let store = host.engine().store();
            let row = store.row(&id)?.ok_or_else(no_threads)?;
            let settings = asking.operator().agreed_settings()?;
            let source = ResumeSource::of(&**store, (&id, &row), ContinueTarget::Thread, asking.folder())?;
            // Its tools work where the worker's do.
            let workspace = Some(settings.workspace.to_string_lossy().into_owned());
            let source = source.map(|source| ResumeSource { workspace, ..source });
            continued(asking.operator(), settings, source, choices)
        })
        .await?;
        run_spec.raised.thread = raised_of;
        let run_config = run::configured_for(rondo, thread, &run_spec).await?;
        let mut run: Run = match answer {
            Some(answer) => run::answer(rondo, thread, answer, run_spec, run_config).await?,
            None => run::resume(rondo, thread, run_spec, run_config).await?,
        };
        Ok(run.ended().await)
    }

    /// Tells the person at the worker how it left a thread.
    async fn tell_left(&self, thread: &ThreadId, left: &Leaving) {
        let Some(host) = self.rondo.opened_host().filter(|_| *left != Leaving::Drained).cloned() else { return };
        let id = thread.clone();
        let read = blocking(move || Ok(host.engine().store().row(&id)?));
        // That it cannot be read is told where it is read for more than this.
        if let Ok(Some(row)) = read.await {
            let (name, status) = (thread_row::name(&row), word(&row.status));
            self.rondo.tell_all(&[format!("{thread}  {name}  {status}  {}", plural(row.seq, "step"))]);
        }
    }

    async fn cancelled(&self, thread: &ThreadId) -> Result<Leaving, Unable> {
        let host = self.rondo.host().await?;
        match host.engine().cancel(thread).await {
            Ok(Cancelled::Ended) => Ok(Leaving::Settled),
            Ok(Cancelled::Stopping) => Err(Unable::Here("the thread has not ended here yet".to_owned())),
            Err(Error::HasEnded { ending, .. }) if ending.outcome == Outcome::Cancelled => Ok(Leaving::Settled),
            Err(error) => Err(Failure::from(error).into()),
        }
    }
}

fn read<T: DeserializeOwned>(text: &str) -> Result<T, Failure> {
    serde_json::from_str(text).map_err(|error| Failure::new(Code::RequestUnreadable, error.to_string()))
}

impl Driver for ThreadDriver {
    fn drive(
        &self,
        thread: ThreadId,
        wake: Wake,
        how: Option<String>,
        again: bool,
    ) -> BoxFuture<'static, Result<Leaving, String>> {
        let driver = self.clone();
        Box::pin(async move {
            match driver.driven(&thread, wake, how, again).await {
                Ok(left) => {
                    driver.tell_left(&thread, &left).await;
                    Ok(left)
                }
                Err(Unable::Here(why)) => {
                    driver.rondo.tell_all(&[format!("{thread}  left to another worker: {why}")]);
                    Err(why)
                }
                Err(Unable::Refused(failure)) => {
                    let refusal = serde_json::to_string(&Refusal::of(&failure));
                    Ok(Leaving::Refused(refusal.unwrap_or_else(|error| error.to_string())))
                }
            }
        })
    }

    fn drain(&self, thread: &ThreadId) {
        self.draining.lock().insert(thread.clone());
        if let Some(host) = self.rondo.opened_host() {
            host.engine().drain(thread);
        }
    }

    fn cancel(&self, thread: &ThreadId) {
        let (driver, thread) = (self.clone(), thread.clone());
        tokio::spawn(async move {
            if let Some(host) = driver.rondo.opened_host() {
                // The end of its run tells.
                let _ = host.engine().cancel(&thread).await;
            }
        });
    }

    fn abandon(&self, thread: &ThreadId) -> BoxFuture<'static, ()> {
        let (driver, thread) = (self.clone(), thread.clone());
        Box::pin(async move {
            if let Some(host) = driver.rondo.opened_host() {
                host.engine().abandon(&thread).await;
            }
        })
    }
}
