//! The steps of a thread, and the requests that models were sent in each.

use std::ops::RangeInclusive;

use axum::extract::State;
use axum::http::HeaderMap;
use axum::response::{IntoResponse as _, Response};
use rondo::agent_kit::prefix;
use rondo::core::conversation::rebuild;
use rondo::failure::Failure;
use rondo::protocol::diagnostic::Code;
use rondo::protocol::id::ThreadId;
use rondo::protocol::object::Record;
use rondo::store::{Read, Row, StoredRecord};
use rondo::views::in_flight::{VisitLine, visits};
use rondo::views::lines::RecordLine;
use rondo::views::records::records;
use rondo::views::request::RequestLine;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::Server;
use super::body::{Json, NDJSON, typed, wants_lines};
use super::params::{Path, Query, limit};
use super::problem::Problem;

/// How many steps a list has unless the client asks for another number, and at most.
const PAGE: u64 = 100;
const MAX_PAGE: u64 = 1000;

/// A list ends early once its lines come to so many bytes.
const MAX_PAGE_BYTES: usize = 8 << 20;

#[derive(Debug, Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct StepsQuery {
    /// The step after which the list begins.
    after: u64,
    /// How many steps it has at most.
    limit: Option<u64>,
}

pub type Raw = Box<serde_json::value::RawValue>;

#[derive(Debug, Serialize, JsonSchema)]
pub struct StepList {
    #[schemars(with = "Vec<RecordLine>")]
    steps: Vec<Raw>,
    /// The `after` of the next page; `None` at the end.
    next: Option<u64>,
    /// The visits that are not committed, at the end of the list only.
    #[schemars(with = "Vec<VisitLine>")]
    in_flight: Vec<Raw>,
}

pub fn raw<T: Serialize>(line: &T) -> Result<Raw, Failure> {
    serde_json::value::to_raw_value(line)
        .map_err(|error| Failure::new(Code::InternalFault, format!("a line has no JSON form: {error}")))
}

pub async fn list(
    State(server): State<Server>,
    Path(word): Path<String>,
    query: Query<StepsQuery>,
    headers: HeaderMap,
) -> Result<Response, Problem> {
    let StepsQuery { after, limit: asked } = query.0;
    let limit = limit(asked, PAGE, MAX_PAGE)?;
    let list = server.of_thread(word, move |_, store, (thread, row)| {
        let last = row.seq.min(after.saturating_add(limit));
        let (steps, read_to) = read_steps(store, &thread, &row, after.saturating_add(1)..=last)?;
        let is_end = read_to >= row.seq;
        let uncommitted = if is_end { visits(store, &thread, &row)? } else { Vec::new() };
        let in_flight = uncommitted.iter().map(|visit| raw(&VisitLine::of(visit))).collect::<Result<_, _>>()?;
        Ok(StepList { steps, next: (!is_end).then_some(read_to), in_flight })
    });
    let list = list.await?;
    if wants_lines(&headers) {
        return Ok(lines(list.steps.iter().chain(&list.in_flight)));
    }
    Ok(Json(list).into_response())
}

/// The lines of these steps, and the last step that they include.
fn read_steps(
    store: &dyn Read,
    thread: &ThreadId,
    row: &Row,
    seqs: RangeInclusive<u64>,
) -> Result<(Vec<Raw>, u64), Failure> {
    let (mut lines, mut bytes, mut read_to) = (Vec::new(), 0, *seqs.end());
    records(store, (thread, row), seqs, &|_| true, &mut |line| {
        let seq = match &line {
            RecordLine::Step(step) => step.seq,
            RecordLine::Rebind(rebind) => rebind.seq,
            RecordLine::Compaction(compaction) => compaction.seq,
        };
        let line = raw(&line)?;
        bytes += line.get().len();
        lines.push(line);
        if bytes >= MAX_PAGE_BYTES {
            read_to = seq;
        }
        Ok(bytes < MAX_PAGE_BYTES)
    })?;
    Ok((lines, read_to))
}

fn lines<'l>(lines: impl Iterator<Item = &'l Raw>) -> Response {
    typed(lines.flat_map(|line| [line.get(), "\n"]).collect::<String>(), NDJSON)
}

pub async fn one(State(server): State<Server>, Path((word, seq)): Path<(String, u64)>) -> Result<Response, Problem> {
    let step = server.of_thread(word, move |_, store, (thread, row)| {
        let (mut steps, _) = read_steps(store, &thread, &row, seq..=seq.min(row.seq))?;
        steps.pop().filter(|_| seq > 0).ok_or_else(|| no_step(&thread, &row, seq))
    });
    step.await.map(|step| Json(step).into_response())
}

fn no_step(thread: &ThreadId, row: &Row, seq: u64) -> Failure {
    Failure::new(Code::ThreadUnknown, format!("thread {thread} has no step {seq}; its last is {}", row.seq))
}

#[derive(Debug, Serialize, JsonSchema)]
pub struct Requests {
    #[schemars(with = "Vec<RequestLine>")]
    requests: Vec<Raw>,
    /// For each request, how much of it is that of the role's visit before: what a provider's cache can serve.
    shared: Vec<Shared>,
}

#[derive(Debug, Clone, Copy, Serialize, JsonSchema)]
struct Shared {
    request_bytes: u64,
    bytes: u64,
    messages: usize,
}

pub async fn messages(
    State(server): State<Server>,
    Path((word, seq)): Path<(String, u64)>,
    headers: HeaderMap,
) -> Result<Response, Problem> {
    let requests = server.of_thread(word, move |_, store, (thread, row)| {
        if !(1..=row.seq).contains(&seq) {
            return Err(no_step(&thread, &row, seq));
        }
        read_requests(store, &thread, &Row { seq, ..row })
    });
    let requests = requests.await?;
    if wants_lines(&headers) {
        return Ok(lines(requests.requests.iter()));
    }
    Ok(Json(requests).into_response())
}

/// The requests of the last step of `row`, and what each shares with the requests of its role just before it. A request
/// follows from the steps before it, so those after it are not read.
fn read_requests(store: &dyn Read, thread: &ThreadId, row: &Row) -> Result<Requests, Failure> {
    let last = store.record_at(thread, row.seq)?.map(|(stored, _)| stored);
    let is_before = |stored: &StoredRecord| match (&stored.record, last.as_ref().map(|last| (&last.record, last.visit)))
    {
        (Record::Step(step), Some((Record::Step(last), visit))) => {
            step.role == last.role && step.lane == last.lane && stored.visit + 1 == visit
        }
        _ => false,
    };
    let (mut requests, mut shared, mut outcome) = (Vec::new(), Vec::new(), Ok(()));
    let mut earlier: Vec<prefix::Request> = Vec::new();
    let wants = |stored: &StoredRecord| stored.seq == row.seq || is_before(stored);
    rebuild::requests(store, thread, row, &wants, &mut |request| {
        let sent = prefix::Request::new(&request.head, request.messages().clone());
        if request.seq == row.seq {
            shared.push(Shared::of(&sent, &earlier));
            outcome = raw(&RequestLine::of(&request)).map(|line| requests.push(line));
        }
        earlier.push(sent);
        outcome.is_ok()
    })?;
    outcome.map(|()| Requests { requests, shared })
}

impl Shared {
    /// The longest beginning that a request has in common with one of the earlier ones.
    fn of(request: &prefix::Request, earlier: &[prefix::Request]) -> Self {
        let none = Self { request_bytes: request.bytes(), bytes: 0, messages: 0 };
        let with = |before: &prefix::Request| {
            let has_same_head = before.head() == request.head();
            let messages = if has_same_head { before.messages.common(&request.messages).len() } else { 0 };
            Self { bytes: prefix::compare(before, request).shared_bytes, messages, ..none }
        };
        earlier.iter().map(with).max_by_key(|shared| shared.bytes).unwrap_or(none)
    }
}
