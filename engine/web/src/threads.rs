//! Threads: one, and lists of them, newest first.

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;

use axum::extract::State;
use rondo::core::conversation::rebuild;
use rondo::core::env::{Env as _, SystemEnv};
use rondo::core::local::origin;
use rondo::core::thread::{Origin, Stop};
use rondo::failure::Failure;
use rondo::host::find_thread::find_thread;
use rondo::host::store_access::DrivenThreads;
use rondo::protocol::Value;
use rondo::protocol::call::FaultClass;
use rondo::protocol::digest::Kind;
use rondo::protocol::hint::Hint;
use rondo::protocol::id::{LanePath, RoleName, ThreadId};
use rondo::protocol::object::Start;
use rondo::store::{Base, Parent, Read, Row, Status, rows_after};
use rondo::tell::{self, word};
use rondo::views::form::FormView;
use rondo::views::lines::{ThreadLine, thread_line};
use rondo::views::since::since;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::body::Json;
use super::params::{Path, Query, invalid, limit};
use super::problem::Problem;
use super::{Inner, Server};

/// How many threads a list has unless the client asks for another number, and at most.
const PAGE: usize = 50;
const MAX_PAGE: usize = 500;

/// How many rows one request looks through; the list then continues from its cursor.
const MAX_ROWS_READ: usize = 20_000;

/// The first window of a list, in milliseconds back from its end; each further one is twice as long.
const FIRST_WINDOW_MS: u64 = 60_000;

/// A thread, as `rondo show --json` has it, with what its row says besides.
#[derive(Debug, Serialize, JsonSchema)]
pub struct ThreadView {
    #[serde(flatten)]
    line: ThreadLine,
    started_at_ms: u64,
    ended_at_ms: Option<u64>,
    /// Whether this server drives it.
    runs_here: bool,
    /// The thread and the visit that started it, of a child.
    parent: Option<ParentView>,
    /// The thread that it was forked from, and the last step that both have.
    base: Option<BaseView>,
    /// Why it failed.
    reason: Option<String>,
    /// The fault at which it stopped.
    stop: Option<StopView>,
    result: Option<Value>,
    /// Whether a script or a recording answers in place of models.
    is_offline: bool,
    /// The forms that it waits for.
    forms: Vec<FormView>,
    /// Its input; `None` in lists.
    #[schemars(with = "Option<BTreeMap<String, Value>>")]
    input: Option<Value>,
}

/// A fault at which a thread stopped.
#[derive(Debug, Serialize, JsonSchema)]
struct StopView {
    code: String,
    class: FaultClass,
    message: String,
    /// What to do about it.
    hint: Option<String>,
    /// The same as data.
    hint_parts: Option<Hint>,
}

impl From<Stop> for StopView {
    fn from(Stop { code, class, message, hint }: Stop) -> Self {
        Self { code, class, message, hint: hint.as_ref().map(tell::hint), hint_parts: hint }
    }
}

#[derive(Debug, Serialize, JsonSchema)]
struct ParentView {
    thread: ThreadId,
    role: RoleName,
    lane: LanePath,
    visit: u64,
}

#[derive(Debug, Serialize, JsonSchema)]
struct BaseView {
    thread: ThreadId,
    seq: u64,
}

impl ThreadView {
    pub fn new(
        server: &Inner,
        store: &dyn Read,
        driven: &DrivenThreads,
        (thread, row): (&ThreadId, &Row),
        has_input: bool,
    ) -> Result<Self, Failure> {
        let line = thread_line(store, driven, thread, row)?;
        let origin = origin(thread, row)?;
        let input = has_input.then(|| rebuild::beginning(store, row).map(|begun| begun.start.input)).transpose()?;
        let Origin { started_at_ms, ending, stop, forms, script, recorded, .. } = origin;
        let (ended_at_ms, reason, result) = match ending {
            Some(ending) => (Some(ending.at_ms), ending.reason, Some(Arc::unwrap_or_clone(ending.result))),
            None => (None, None, None),
        };
        let forms = if line.status == Status::Waiting { forms } else { Vec::new() };
        let parent = |Parent { thread, role, lane, visit, .. }| ParentView { thread, role, lane, visit };
        Ok(Self {
            // A run holds its thread for a moment after it has written that the thread waits, stopped or ended.
            runs_here: line.status == Status::Running && server.host.engine().is_running(thread),
            parent: row.parent.clone().map(parent),
            base: row.base.clone().map(|Base { thread, seq, .. }| BaseView { thread, seq }),
            started_at_ms,
            ended_at_ms,
            reason,
            stop: stop.filter(|_| line.status == Status::Stopped).map(StopView::from),
            result: result.filter(|result| !result.is_null()),
            is_offline: script.is_some() || recorded.is_some(),
            forms: forms.iter().map(|open| FormView::new(thread, open)).collect(),
            input,
            line,
        })
    }
}

impl Server {
    /// The view of the thread that a word names, as it stands now.
    pub async fn view(&self, word: String) -> Result<ThreadView, Problem> {
        self.reading(move |server, store| {
            let ((thread, row), driven) = server.host.with_driven(|| find_thread(store, &word))?;
            ThreadView::new(server, store, &driven, (&thread, &row), true)
        })
        .await
    }
}

pub async fn one(State(server): State<Server>, Path(word): Path<String>) -> Result<Json<ThreadView>, Problem> {
    server.view(word).await.map(Json)
}

/// Which threads a list has.
#[derive(Debug, Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct ListQuery {
    #[schemars(with = "Status")]
    status: Option<String>,
    /// The name of their workflow.
    workflow: Option<String>,
    /// The label of a thread.
    name: Option<String>,
    tag: Option<String>,
    /// Only threads that began in this time, such as `12h`, or since a day, such as `2026-11-01`.
    since: Option<String>,
    /// What the id, a label, a tag, the workflow or the input holds.
    q: Option<String>,
    /// Child threads too.
    children: bool,
    /// How many threads the list has at most.
    limit: Option<usize>,
    /// `next` of the list before.
    cursor: Option<String>,
}

#[derive(Debug, Serialize, JsonSchema)]
pub struct ThreadList {
    threads: Vec<ThreadView>,
    /// The cursor of the next page; `None` at the end.
    next: Option<ThreadId>,
}

struct Filter {
    query: ListQuery,
    from_ms: u64,
    limit: usize,
    before: Option<ThreadId>,
}

impl Filter {
    fn read(query: ListQuery) -> Result<Self, Problem> {
        let since = query.since.as_deref().map(since).transpose().map_err(|what| of_key("since", &what))?;
        let before = query.cursor.as_deref().map(ThreadId::new).transpose();
        let known = Status::ALL.map(|status| word(&status));
        if query.status.as_ref().is_some_and(|status| !known.contains(status)) {
            return Err(of_key("status", &format!("one of {}", known.join(", "))));
        }
        let limit = limit(query.limit, PAGE, MAX_PAGE)?;
        let from_ms = since.unwrap_or(0);
        let before = before.map_err(|what| of_key("cursor", &what.to_string()))?;
        Ok(Self { query: ListQuery { q: query.q.map(|text| text.to_lowercase()), ..query }, from_ms, limit, before })
    }

    /// Whether a row is wanted, as far as it tells itself.
    fn wants_row(&self, thread: &ThreadId, row: &Row) -> bool {
        (self.query.children || row.parent.is_none())
            && thread.unix_ms() >= self.from_ms
            && self.query.name.as_ref().is_none_or(|name| row.label.as_ref() == Some(name))
            && self.query.tag.as_ref().is_none_or(|tag| row.tags.contains(tag))
    }

    fn finds(&self, store: &dyn Read, view: &ThreadView, row: &Row) -> Result<bool, Failure> {
        let Some(search) = &self.query.q else { return Ok(true) };
        let holds = |text: &str| text.to_lowercase().contains(search);
        let ThreadLine { thread, name, label, tags, .. } = &view.line;
        let words = [Some(thread.as_str()), Some(name), label.as_deref()];
        if words.into_iter().flatten().chain(tags.iter().map(String::as_str)).any(holds) {
            return Ok(true);
        }
        let start: Start = rebuild::object(store, Kind::Start, row.start)?;
        let mut open = vec![&start.input];
        while let Some(value) = open.pop() {
            match value {
                Value::Str(text) if holds(text) => return Ok(true),
                Value::List(items) => open.extend(items),
                Value::Object(members) => open.extend(members.values()),
                Value::Bool(_) | Value::Int(_) | Value::Float(_) if holds(&value.to_text()) => return Ok(true),
                _ => {}
            }
        }
        Ok(false)
    }

    fn wants(&self, view: &ThreadView) -> bool {
        self.query.status.as_ref().is_none_or(|status| word(&view.line.status) == *status)
            && self.query.workflow.as_ref().is_none_or(|workflow| *workflow == view.line.name)
    }
}

fn of_key(key: &str, what: &str) -> Problem {
    invalid(format!("{key}: {what}"))
}

pub async fn list(State(server): State<Server>, query: Query<ListQuery>) -> Result<Json<ThreadList>, Problem> {
    let filter = Filter::read(query.0)?;
    server.json(move |server, store| listed(server, store, &filter)).await
}

/// Rows can only be read forwards, and the newest are wanted: reads windows of time, each before the last one and twice
/// as long.
fn listed(server: &Inner, store: &dyn Read, filter: &Filter) -> Result<ThreadList, Failure> {
    let mut list = ThreadList { threads: Vec::new(), next: None };
    let (mut before, mut rows_read, mut window_ms) = (filter.before.clone(), 0, FIRST_WINDOW_MS);
    loop {
        let end_ms = before.as_ref().map_or_else(|| SystemEnv::default().now_ms(), ThreadId::unix_ms);
        let start_ms = end_ms.saturating_sub(window_ms).max(filter.from_ms);
        window_ms = window_ms.saturating_mul(2);
        let (rows, driven) = server.host.with_driven(|| window(store, start_ms, before.as_ref()))?;
        for (thread, row) in rows.into_iter().rev() {
            rows_read += 1;
            if filter.wants_row(&thread, &row) {
                let view = ThreadView::new(server, store, &driven, (&thread, &row), false)?;
                if filter.wants(&view) && filter.finds(store, &view, &row)? {
                    list.threads.push(view);
                }
            }
            before = Some(thread);
            if list.threads.len() == filter.limit || rows_read == MAX_ROWS_READ {
                list.next = before;
                return Ok(list);
            }
        }
        if start_ms <= filter.from_ms {
            return Ok(list);
        }
        before = Some(ThreadId::from_parts(start_ms, 0));
    }
}

/// The newest rows from `start_ms` on and before `before`, oldest first, at most as many as one request reads.
fn window(store: &dyn Read, start_ms: u64, before: Option<&ThreadId>) -> Result<VecDeque<(ThreadId, Row)>, Failure> {
    let mut rows = VecDeque::new();
    // The least id of that time is not drawn in practice, so nothing is left out by starting after it.
    for row in rows_after(store, (start_ms > 0).then(|| ThreadId::from_parts(start_ms, 0))) {
        let (thread, row) = row?;
        if before.is_some_and(|before| thread >= *before) {
            break;
        }
        rows.push_back((thread, row));
        if rows.len() > MAX_ROWS_READ {
            rows.pop_front();
        }
    }
    Ok(rows)
}
