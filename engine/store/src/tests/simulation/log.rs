//! A log that outlives the processes that write it, as a cluster keeps it, and a process whose disk is empty.

use std::sync::{Arc, Mutex, PoisonError};

use futures_util::FutureExt as _;
use futures_util::future::BoxFuture;
use rondo_protocol::id::ThreadId;
use tokio::sync::{mpsc, oneshot};

use super::simulated::{End, Operation, SimulatedEnv};
use crate::replicated::{Copied, ReplicatedStore};
use crate::simulated::{Contents, Device, Fate, Fates, SimulatedStore};
use crate::{Error, Replica as _, WriteLog};

/// The entries that were made durable, whoever was told.
#[derive(Default)]
pub(super) struct Log(Mutex<Vec<Vec<Vec<u8>>>>);

/// Writes on their way, each with who waits for it.
type Waiting = (Vec<u8>, oneshot::Sender<Result<(), Error>>);

/// The log of one process.
struct Written(mpsc::UnboundedSender<Waiting>);

/// A disk that never fails: nothing depends on it.
struct Sound;

impl Fates for Sound {
    fn of_write(&self, _: usize, _: bool) -> Fate {
        Fate::Done
    }

    fn of_read(&self) -> Fate {
        Fate::Done
    }
}

impl WriteLog for Written {
    fn knows(&self, _: &ThreadId) -> bool {
        true
    }

    fn append(
        &self,
        _: &ThreadId,
        _: &[ThreadId],
        write: Vec<u8>,
        urgent: bool,
    ) -> BoxFuture<'static, Result<(), Error>> {
        let (done, outcome) = oneshot::channel();
        // Without a process there is nobody to write it.
        let _ = self.0.send((write, done));
        if urgent { outcome.map(|told| told.unwrap_or_else(|_| Err(lost()))).boxed() } else { async { Ok(()) }.boxed() }
    }
}

fn lost() -> Error {
    Error::Poisoned { what: "the log did not answer".to_owned() }
}

impl Log {
    fn entries(&self) -> Vec<Vec<Vec<u8>>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// What a store holds that was brought up to the log.
    pub(super) async fn contents(&self, root: &ThreadId) -> Result<Contents, Error> {
        let (device, folder) = (Arc::new(Device::new(Arc::new(Sound))), tempfile::tempdir().map_err(|_| lost())?);
        let store = SimulatedStore::open(Arc::clone(&device), folder.path(), || async {})?;
        self.bring_up(&Copied::alone(store), root).await?;
        Ok(device.contents())
    }

    async fn bring_up(&self, copy: &Copied<SimulatedStore>, root: &ThreadId) -> Result<(), Error> {
        for (at, entry) in (0..).zip(self.entries()) {
            copy.apply(root, at..at + 1, entry).await?;
        }
        Ok(())
    }

    /// The store of a process whose disk is empty: brought up to the log, which its writes go to.
    pub(super) async fn store(
        self: &Arc<Self>,
        simulated: &Arc<SimulatedEnv>,
        root: &ThreadId,
    ) -> Result<ReplicatedStore<SimulatedStore>, Error> {
        let folder = tempfile::tempdir().map_err(|_| lost())?;
        let local = SimulatedStore::open(Arc::new(Device::new(Arc::new(Sound))), folder.path(), || async {})?;
        let copy = Copied::alone(local.clone());
        self.bring_up(&copy, root).await?;
        let (sender, mut waiting) = mpsc::unbounded_channel::<Waiting>();
        let (log, simulated, root) = (Arc::clone(self), Arc::clone(simulated), root.clone());
        tokio::spawn(async move {
            let _folder = folder;
            while let Some(first) = waiting.recv().await {
                Arc::clone(&simulated).pause().await;
                let mut taken = vec![first];
                taken.extend(std::iter::from_fn(|| waiting.try_recv().ok()));
                let (writes, waiters): (Vec<_>, Vec<_>) = taken.into_iter().unzip();
                let fate =
                    simulated.fate(Operation::Write, End::Killed, &format!("{} writes in an entry", writes.len()));
                let mut outcome = if fate == Fate::Done { Ok(()) } else { Err(lost()) };
                if fate != (Fate::Fails { is_done: false }) {
                    let at = {
                        let mut entries = log.0.lock().unwrap_or_else(PoisonError::into_inner);
                        entries.push(writes.clone());
                        u64::try_from(entries.len()).unwrap_or_default()
                    };
                    if outcome.is_ok() {
                        outcome = copy.apply(&root, at - 1..at, writes).await;
                    }
                }
                let has_failed = outcome.is_err();
                for waiter in waiters {
                    let _ = waiter.send(outcome.clone());
                }
                if has_failed {
                    // Its invocation has ended: nothing that the process still writes reaches the log.
                    return;
                }
            }
        });
        Ok(ReplicatedStore::new(local, Arc::new(Written(sender))))
    }
}
