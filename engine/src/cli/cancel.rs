//! `rondo cancel`: ends a thread for good.

use super::consent::By;
use super::exit::Exit;
use super::failure::Failure;
use super::output::{Output, tell};
use super::person::is_attended;
use super::request::Request;
use super::session::{self, look_into, own_store, settings, thread_in};
use super::watch::{Showing, watch};
use super::{JsonArgs, StoreArgs};
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
    let showing = Showing { is_quiet: true, concurrency: 1 };
    let request = Request::Cancel { thread: thread.clone() };
    let exit = watch(std::iter::once(request), store, settings.durability.value, showing, output)?;
    if exit == Exit::Done && !output.is_json() {
        tell(&format!("thread {thread} is cancelled\n"));
    }
    Ok(exit)
}
