//! `rondo cancel`: ends a thread for good.

use rondo::core::Cancelled;
use rondo::protocol::id::ThreadId;
#[cfg(feature = "restate")]
use rondo::store::Read;

use super::find_thread::find_thread_in;
#[cfg(feature = "restate")]
use super::find_thread::{find_thread, root};
#[cfg(feature = "restate")]
use super::on;
use super::on::OnArgs;
use super::runner::{Task, Writing, run_task};
use super::store_access::existing_store_at;
use super::{Exit, Failure, Output, StoreArgs, json};

/// End a thread for good; it cannot be resumed
#[derive(Debug, clap::Args)]
#[command(arg = json())]
pub struct CancelArgs {
    /// A thread's id, a prefix of one, or `last`
    thread: String,
    #[command(flatten)]
    store: StoreArgs,
    #[command(flatten)]
    on: OnArgs,
}

pub fn cancel(args: &CancelArgs, output: &mut Output) -> Result<Exit, Failure> {
    let (thread, exit) = ended(args, output)?;
    if exit == Exit::Done {
        output.tell(&format!("thread {thread} is cancelled\n"));
    }
    Ok(exit)
}

/// Ends a thread of a cluster, if one is named, or of a store.
fn ended(args: &CancelArgs, output: &mut Output) -> Result<(ThreadId, Exit), Failure> {
    #[cfg(feature = "restate")]
    if let Some(cluster) = args.on.cluster()? {
        let find = |store: &dyn Read| root(store, find_thread(store, &args.thread)?);
        let ((thread, _), writing) = on::found((&args.on, &args.store), find, output)?;
        let exit = on::cancel(cluster, thread.clone(), writing, output)?;
        return Ok((thread, exit));
    }
    let (rondo, store, durability) = args.store.trusted(output)?;
    let (_, thread, _) = find_thread_in(existing_store_at(&store.folder)?, &args.thread)?;
    let id = thread.clone();
    let task: Task = Box::new(move |context| {
        Box::pin(async move {
            if let Cancelled::Ended { ending, head } = context.engine.cancel(&id).await? {
                context.ended(id, ending, head).await?;
            }
            Ok(Exit::Done)
        })
    });
    let exit = run_task(task, Writing { rondo, to_open: Some((store, durability)) }, output)?;
    Ok((thread, exit))
}
