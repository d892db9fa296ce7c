use rondo::core::Cancelled;
use rondo::core::local::finished;
use rondo::run::cancel as cancel_thread;

use super::find_thread::find_thread;
use super::named_command::hinted;
use super::runner::{Session, Writing, with_session};
use super::store_access::existing_store_at;
use super::{Exit, Failure, Output, PlaceArgs, json};

/// End a thread for good; it cannot be resumed
#[derive(Debug, clap::Args)]
#[command(arg = json())]
pub struct CancelArgs {
    /// A thread's id, a prefix of one, or `last`
    thread: String,
    #[command(flatten)]
    place: PlaceArgs,
}

pub fn cancel(args: &CancelArgs, output: &mut Output) -> Result<Exit, Failure> {
    let (rondo, store) = args.place.trusted(output)?;
    let (thread, _) = find_thread(existing_store_at(&store.opening.folder)?.store.as_ref(), &args.thread)?;
    let writing = Writing { rondo, to_open: Some(store) };
    let exit = with_session(writing, async |Session { rondo, host, .. }| {
        if cancel_thread(&rondo, &thread).await? == Cancelled::Ended && output.is_json() {
            let store = host.engine().store();
            if let Some(event) = finished(store.as_ref(), store.durability(), &thread)? {
                output.line(&event.line(hinted))?;
            }
        }
        Ok(Exit::Done)
    })?;
    output.tell(&format!("thread {thread} is cancelled\n"));
    Ok(exit)
}
