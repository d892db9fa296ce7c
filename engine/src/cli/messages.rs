//! `rondo messages`: the requests sent to a model, rebuilt from the steps.

use std::fmt::Write as _;

use rondo_protocol::Digest;
use rondo_protocol::diagnostic::{Code, nearest};
use rondo_protocol::id::{LanePath, RoleName, ThreadId};
use rondo_protocol::message::Message;
use rondo_protocol::object::Head;
use serde::Serialize;

use super::exit::Exit;
use super::failure::Failure;
use super::find_thread::find_thread_in;
use super::output::Output;
use super::store_access::view_store;
use super::{JsonArgs, StoreArgs};
use crate::conversation::rebuild::{self, Request};
use crate::store::{Read, Row, StoredStep};

/// How many lanes an ambiguous visit lists.
const SHOWN_LANES: usize = 20;

/// Show the requests of one step, rebuilt from the store
#[derive(Debug, clap::Args)]
pub struct MessagesArgs {
    /// A thread's id, the beginning of one, or `last`
    #[arg(default_value = "last")]
    thread: String,
    /// Whose step
    #[arg(long)]
    role: String,
    /// Which visit of that role, from 1
    #[arg(long, value_parser = clap::value_parser!(u64).range(1..))]
    visit: u64,
    /// In which lane, such as `reviewer[2]`; `--lane ""` is the trunk [default: the one with that visit]
    #[arg(long)]
    lane: Option<String>,
    #[command(flatten)]
    store: StoreArgs,
    #[command(flatten)]
    pub(super) json: JsonArgs,
}

#[derive(Debug, Serialize)]
struct RequestLine<'a> {
    digest: Digest,
    asked: Option<BeforeHook<'a>>,
    head: &'a Head,
    messages: &'a [Message],
}

/// A request before a hook rewrote it.
#[derive(Debug, Serialize)]
struct BeforeHook<'a> {
    digest: Digest,
    messages: &'a [Message],
}

pub fn messages(args: &MessagesArgs, output: &mut Output) -> Result<Exit, Failure> {
    let (view, thread, row) = find_thread_in(view_store(&args.store)?, &args.thread)?;
    let store = view.store.as_ref();
    let unknown = |what: String| Failure::new(Code::ThreadUnknown, what);
    let role = RoleName::new(&args.role).map_err(|error| unknown(error.to_string()))?;
    let beginning = rebuild::beginning(store, &row)?;
    if beginning.workflow.role(role.as_str()).is_none() {
        let failure = unknown(format!("thread {thread} has no role {role}"));
        let names = beginning.workflow.roles.iter().map(|(name, _)| name.as_str());
        return Err(match nearest(role.as_str(), names.clone()) {
            Some(near) => failure.with_hint(format!("did you mean `{near}`?")),
            None => failure.with_hint(format!("its roles: {}", names.collect::<Vec<_>>().join(", "))),
        });
    }
    let lane = args
        .lane
        .as_ref()
        .map(|lane| LanePath::new(lane.as_str()))
        .transpose()
        .map_err(|error| unknown(error.to_string()))?;
    let found = visits(store, &thread, &row, &role, args.visit)?;
    let of_lane = |seat: &&(LanePath, u64)| lane.as_ref().is_none_or(|lane| *lane == seat.0);
    let seq = match found.iter().filter(of_lane).collect::<Vec<_>>().as_slice() {
        [(_, seq)] => *seq,
        [] => {
            let place =
                lane.filter(|lane| !lane.is_trunk()).map_or_else(String::new, |lane| format!(" in lane {lane}"));
            let failure = unknown(format!("thread {thread} has no visit {} of role {role}{place}", args.visit));
            return Err(failure.with_hint(if found.is_empty() {
                "`rondo show` lists the visits".to_owned()
            } else {
                format!("lanes with that visit: {}", names(&found))
            }));
        }
        [..] => {
            let (count, visit) = (found.len(), args.visit);
            let message = format!("visit {visit} of role {role} was made in {count} lanes of thread {thread}");
            return Err(unknown(message).with_hint(format!("name one by --lane: {}", names(&found))));
        }
    };
    let mut outcome = Ok(());
    rebuild::requests(store, &thread, &row, &|wanted| wanted == seq, &mut |request| {
        outcome = tell(&request, output);
        outcome.is_ok() && !output.is_closed()
    })?;
    outcome.map(|()| Exit::Done)
}

/// The lanes in which a role made a visit, in declared order, each with its step number.
fn visits(
    store: &dyn Read,
    thread: &ThreadId,
    row: &Row,
    role: &RoleName,
    visit: u64,
) -> Result<Vec<(LanePath, u64)>, Failure> {
    let mut found = Vec::new();
    if row.seq > 0 {
        let each = &mut |stored: StoredStep, _| {
            if stored.step.role == *role && stored.visit == visit {
                found.push((stored.step.lane, stored.seq));
            }
            true
        };
        store.steps(thread, 1..=row.seq, each)?;
    }
    let place = |lane: &LanePath| lane.parts().map(|(role, index)| (index, role.to_owned())).collect::<Vec<_>>();
    found.sort_by_key(|(lane, _)| place(lane));
    Ok(found)
}

/// The names of lanes, in the form for `--lane`.
fn names(found: &[(LanePath, u64)]) -> String {
    let shown = found.iter().take(SHOWN_LANES);
    let name =
        |(lane, _): &(LanePath, u64)| if lane.is_trunk() { "\"\" (the trunk)".to_owned() } else { lane.to_string() };
    let shown: Vec<String> = shown.map(name).collect();
    match found.len() - shown.len() {
        0 => shown.join(", "),
        more => format!("{} and {more} more", shown.join(", ")),
    }
}

fn tell(request: &Request, output: &mut Output) -> Result<(), Failure> {
    let messages = request.asked_messages.as_deref().unwrap_or_default();
    let asked = request.asked.map(|digest| BeforeHook { digest, messages });
    let line = RequestLine { digest: request.recorded, asked, head: &request.head, messages: &request.messages };
    output.show(&line, || text(request))
}

pub(super) fn text(request: &Request) -> String {
    let mut text = format!("request {}  model {}\n", request.recorded, request.head.model);
    part(&mut text, "system", &request.head.system);
    for message in &request.messages {
        part(&mut text, message.role().as_str(), &message.text());
        for tool in message.tool_calls() {
            let _ = writeln!(text, "[asks for {} {}]", tool.name, tool.arguments);
        }
    }
    if let Some(asked) = request.asked {
        let _ = writeln!(text, "\nbefore a hook rewrote it: request {asked}");
        for message in request.asked_messages.iter().flatten() {
            part(&mut text, "asked", &message.text());
        }
    }
    text.push('\n');
    text
}

fn part(text: &mut String, speaker: &str, words: &str) {
    let _ = writeln!(text, "\n--- {speaker}");
    // Indented: no text of a model or a tool can look like another part.
    for line in words.lines() {
        let _ = writeln!(text, "{}{line}", if line.is_empty() { "" } else { "  " });
    }
}
