//! `rondo cancel`: ends a thread for good.

use super::consent::By;
use super::exit::Exit;
use super::failure::Failure;
use super::output::{Output, tell};
use super::person::is_attended;
use super::runner::{Task, run_task};
use super::session::{self, look_into, own_store, settings, thread_in};
use super::{JsonArgs, StoreArgs};
use crate::Cancelled;
use crate::config::Flags;

/// End a thread for good; it cannot be resumed
#[derive(Debug, clap::Args)]
pub struct CancelArgs {
    /// A thread's id, the beginning of one, or `last`
    thread: String,
    #[command(flatten)]
    store: StoreArgs,
    #[command(flatten)]
    pub(super) json: JsonArgs,
}

/// Cancels a thread.
pub fn cancel(args: &CancelArgs, output: &mut Output) -> Result<Exit, Failure> {
    let settings = settings(&Flags { store: args.store.store.clone(), durability: None })?;
    session::sources(&Flags::default())?.refuse_unsafe()?;
    let store = own_store(&settings, By::of(false, !output.is_json() && is_attended()))?;
    let (look, thread, _) = thread_in(look_into(&store.folder)?, &args.thread)?;
    drop(look);
    let id = thread.clone();
    let task: Task = Box::new(move |context| {
        Box::pin(async move {
            if let Cancelled::Ended { ending, head } = context.engine.cancel(&id).await? {
                context.ended(id, ending, head).await;
            }
            Ok(Exit::Done)
        })
    });
    let exit = run_task(task, store, settings.durability.value, output)?;
    if exit == Exit::Done && !output.is_json() {
        tell(&format!("thread {thread} is cancelled\n"));
    }
    Ok(exit)
}
