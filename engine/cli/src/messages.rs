use std::fmt::Write as _;

use rondo::core::conversation::rebuild::{self, Request};
use rondo::protocol::diagnostic::Code;
use rondo::protocol::digest::Kind;
use rondo::protocol::id::{LanePath, RoleName, ThreadId};
use rondo::protocol::message::Message;
use rondo::protocol::object::{Head, Record, Transcript};
use rondo::store::{Read, Row, StoredRecord};
use rondo::views::in_flight::visits as uncommitted_visits;
use rondo::views::lines::who;
use rondo::views::request::RequestLine;

use super::find_thread::find_thread_in;
use super::step_filter::{FilterArgs, known_role};
use super::{Exit, Failure, Output, PlaceArgs, in_flight, json, some};

const SHOWN_LANES: usize = 20;

/// Show requests as they were sent, rebuilt from the store
#[derive(Debug, clap::Args)]
#[command(arg = json())]
pub struct MessagesArgs {
    /// A thread's id, a prefix of one, or `last`
    #[arg(default_value = "last")]
    thread: String,
    #[command(flatten)]
    filter: FilterArgs,
    /// Only those of this visit of the role, from 1 [in the lane with that visit, if --lane does not name one]
    #[arg(
        long,
        requires = "role",
        conflicts_with_all = ["status", "grep", "steps", "newest"],
        value_parser = clap::value_parser!(u64).range(1..)
    )]
    visit: Option<u64>,
    #[command(flatten)]
    store: PlaceArgs,
}

pub fn messages(args: &MessagesArgs, output: &mut Output) -> Result<Exit, Failure> {
    let (view, thread, row) = find_thread_in(args.store.copied()?.existing()?, &args.thread)?;
    let store = view.store.as_ref();
    let workflow = rebuild::beginning(store, &row)?.workflow;
    let mut uncommitted = uncommitted_visits(store, &thread, &row)?;
    if let (Some(role), Some(visit)) = (&args.filter.role, args.visit) {
        let role = known_role(role, &thread, &workflow)?;
        let (found, lane) = (visits(store, &thread, &row, &role, visit)?, args.filter.lane()?);
        let of_lane = |of: &LanePath| lane.as_ref().is_none_or(|lane| lane == of);
        if !found.iter().any(|(of, _)| of_lane(of)) {
            uncommitted.retain(|of| of.role.as_ref() == Some(&role) && of.visit == Some(visit) && of_lane(&of.lane));
            if !uncommitted.is_empty() {
                return in_flight::show(uncommitted.iter(), output).map(|()| Exit::Done);
            }
        }
        let seq = seq_of_visit(&found, &thread, &role, visit, lane.as_ref())?;
        return tell_requests(store, &thread, &row, seq, &|stored| stored.seq == seq, output).map(|_| Exit::Done);
    }
    let filter = args.filter.read(&thread, &workflow)?;
    let seqs = filter.seqs(store, &thread, row.seq, &|stored| has_request(store, stored))?;
    let wants = |stored: &StoredRecord| seqs.contains(&stored.seq) && filter.wants(stored);
    let has_any = tell_requests(store, &thread, &row, *seqs.end(), &wants, output)?;
    uncommitted.retain(|visit| filter.wants_in_flight(visit));
    in_flight::show(uncommitted.iter(), output)?;
    if !has_any && uncommitted.is_empty() {
        output.aside("no request is like that\n")?;
    }
    Ok(Exit::Done)
}

fn has_request(store: &dyn Read, stored: &StoredRecord) -> Result<bool, Failure> {
    let transcript = match &stored.record {
        Record::Step(step) => step.transcript,
        Record::Compaction(compaction) => compaction.transcript,
        Record::Rebind(_) => None,
    };
    let Some(digest) = transcript else { return Ok(false) };
    let transcript: Transcript = rebuild::object(store, Kind::Transcript, digest)?;
    Ok(transcript.counts().0 > 0)
}

/// Prints the requests of the wanted steps up to `last`. Returns whether there are any.
fn tell_requests(
    store: &dyn Read,
    thread: &ThreadId,
    row: &Row,
    last: u64,
    wants: &dyn Fn(&StoredRecord) -> bool,
    output: &mut Output,
) -> Result<bool, Failure> {
    let (mut outcome, mut has_any) = (Ok(()), false);
    // A request follows from the steps before it, so those after the last one wanted are not read.
    let row = Row { seq: last.min(row.seq), ..row.clone() };
    rebuild::requests(store, thread, &row, wants, &mut |request| {
        has_any = true;
        outcome = output.show(&RequestLine::of(&request), || text(&request));
        outcome.is_ok() && !output.is_closed()
    })?;
    outcome.map(|()| has_any)
}

/// The number of the step of a visit, of which `found` has those in all lanes.
fn seq_of_visit(
    found: &[(LanePath, u64)],
    thread: &ThreadId,
    role: &RoleName,
    visit: u64,
    lane: Option<&LanePath>,
) -> Result<u64, Failure> {
    let unknown = |what: String| Failure::new(Code::ThreadUnknown, what);
    let of_lane = |seat: &&(LanePath, u64)| lane.is_none_or(|lane| *lane == seat.0);
    match found.iter().filter(of_lane).collect::<Vec<_>>().as_slice() {
        [(_, seq)] => Ok(*seq),
        [] => {
            let lane = lane.filter(|lane| !lane.is_trunk());
            let place = lane.map_or_else(String::new, |lane| format!(" in lane {lane}"));
            let failure = unknown(format!("thread {thread} has no visit {visit} of role {role}{place}"));
            Err(match found {
                [] => failure.with_hint("`rondo show` lists the visits"),
                _ => failure.with_hint(format!("lanes with that visit: {}", names(found))),
            })
        }
        [..] => {
            let message = format!("visit {visit} of role {role} was made in {} lanes of thread {thread}", found.len());
            Err(unknown(message).with_hint(format!("name one by --lane: {}", names(found))))
        }
    }
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
    store.steps(thread, 1..=row.seq, &mut |stored, _| {
        if stored.step.role == *role && stored.visit == visit {
            found.push((stored.step.lane, stored.seq));
        }
        true
    })?;
    let place = |lane: &LanePath| lane.parts().map(|(role, index)| (index, role.to_owned())).collect::<Vec<_>>();
    found.sort_by_key(|(lane, _)| place(lane));
    Ok(found)
}

fn names(found: &[(LanePath, u64)]) -> String {
    let name =
        |(lane, _): &(LanePath, u64)| if lane.is_trunk() { "\"\" (the trunk)" } else { lane.as_str() }.to_owned();
    some(found.iter().map(name), SHOWN_LANES)
}

fn text(request: &Request) -> String {
    let Request { seq, role, lane, visit, recorded, head, .. } = request;
    let mut text = format!("{seq:>3}. {}, visit {visit}\nrequest {recorded}  model {}\n", who(role, lane), head.model);
    text.push_str(&parts(head, request.messages().messages()));
    if let Some(asked) = request.asked {
        let _ = writeln!(text, "\nbefore a hook rewrote it: request {asked}");
        for message in request.plain.messages() {
            part(&mut text, "asked", &message.text());
        }
    }
    text.push('\n');
    text
}

pub(super) fn parts<'m>(head: &Head, messages: impl IntoIterator<Item = &'m Message>) -> String {
    let mut text = String::new();
    part(&mut text, "system", &head.system);
    for message in messages {
        part(&mut text, message.role().as_str(), &message.text());
        for file in message.files() {
            let _ = writeln!(text, "[file {file} {}]", file.digest);
        }
        for tool in message.tool_calls() {
            let _ = writeln!(text, "[asks for {} {}]", tool.name, tool.arguments);
        }
    }
    text
}

fn part(text: &mut String, speaker: &str, words: &str) {
    let _ = writeln!(text, "\n--- {speaker}");
    // Indented: no text of a model or a tool can look like another part.
    for line in words.lines() {
        let _ = writeln!(text, "{}{line}", if line.is_empty() { "" } else { "  " });
    }
}
