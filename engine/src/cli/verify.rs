//! `rondo verify`: rebuilds every request of a thread and compares it with what was recorded.

use rondo_protocol::Digest;
use rondo_protocol::id::{LanePath, RoleName, ThreadId};
use serde::Serialize;

use super::exit::Exit;
use super::failure::Failure;
use super::find_thread::find_thread_in;
use super::lines::who;
use super::output::Output;
use super::store_access::view_store;
use super::{JsonArgs, StoreArgs};
use crate::conversation::rebuild::{self, Request};

/// Prove what was sent: rebuild every request from the steps and compare digests
#[derive(Debug, clap::Args)]
pub struct VerifyArgs {
    /// A thread's id, the beginning of one, or `last`
    #[arg(default_value = "last")]
    thread: String,
    #[command(flatten)]
    store: StoreArgs,
    #[command(flatten)]
    pub(super) json: JsonArgs,
}

/// A request that is not what was recorded.
#[derive(Debug, Serialize)]
struct FaultLine {
    event: &'static str,
    thread: ThreadId,
    seq: u64,
    role: RoleName,
    lane: LanePath,
    visit: u64,
    recorded: Digest,
    rebuilt: Digest,
    what: String,
}

/// What came of it.
#[derive(Debug, Serialize)]
struct SumLine {
    event: &'static str,
    thread: ThreadId,
    head: Option<Digest>,
    requests: u64,
    faults: u64,
}

/// Verifies a thread.
pub fn verify(args: &VerifyArgs, output: &mut Output) -> Result<Exit, Failure> {
    let (view, thread, row) = find_thread_in(view_store(&args.store)?, &args.thread)?;
    let (mut requests, mut faults) = (0_u64, 0_u64);
    let mut outcome = Ok(());
    if row.seq > 0 {
        rebuild::requests(view.store.as_ref(), &thread, &row, &|_| true, &mut |request| {
            requests += 1;
            if !request.is_proven() {
                faults += 1;
                outcome = tell(&thread, request, output);
            }
            outcome.is_ok()
        })?;
    }
    outcome?;
    let head = super::lines::thread_line(&thread, &row, &view.driven).head;
    if output.is_json() {
        output.line(&SumLine { event: "verified", thread, head, requests, faults })?;
    } else {
        let head = head.map_or_else(|| "none yet".to_owned(), |head| head.to_string());
        output.text(&format!("{thread}: {requests} requests rebuilt, {faults} differ; head {head}\n"))?;
    }
    Ok(if faults == 0 { Exit::Done } else { Exit::Damaged })
}

fn tell(thread: &ThreadId, request: Request, output: &mut Output) -> Result<(), Failure> {
    let what = request.fault.unwrap_or_else(|| "the rebuilt request is not the one that was recorded".to_owned());
    let Request { seq, role, lane, visit, recorded, rebuilt, .. } = request;
    if output.is_json() {
        let thread = thread.clone();
        return output.line(&FaultLine { event: "fault", thread, seq, role, lane, visit, recorded, rebuilt, what });
    }
    output.text(&format!(
        "step {seq}, {}, visit {visit}: {what}\n  recorded {recorded}\n  rebuilt  {rebuilt}\n",
        who(&role, &lane)
    ))
}
