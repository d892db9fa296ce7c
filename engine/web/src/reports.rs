//! What is computed from a thread: prefixes, usage, comparisons, its graph, and a scenario made of it.

use axum::extract::State;
use axum::response::Response;
use rondo::author::prefix;
use rondo::core::conversation::rebuild;
use rondo::core::local::origin;
use rondo::failure::Failure;
use rondo::host::find_thread::find_thread;
use rondo::protocol::diagnostic::Code;
use rondo::protocol::source;
use rondo::views::diff::{Comparison, DiffLine, DiffStepLine, TotalsLine};
use rondo::views::prefix::{RoleLine, VisitLine, role_line, visit_line};
use rondo::views::scenario::{ScenarioRecorder, yaml};
use rondo::views::since::since;
use rondo::views::usage::{self, By, Groups, UsageLine, of_thread};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::Server;
use super::body::{Json, typed};
use super::params::{Path, Query, invalid};
use super::problem::Problem;
use super::steps::{Raw, raw};
use super::workflows::drawn;

#[derive(Debug, Serialize, JsonSchema)]
pub struct PrefixReport {
    #[schemars(with = "Vec<VisitLine>")]
    visits: Vec<Raw>,
    #[schemars(with = "Vec<RoleLine>")]
    roles: Vec<Raw>,
}

pub async fn prefix(State(server): State<Server>, Path(word): Path<String>) -> Result<Json<PrefixReport>, Problem> {
    let report = server.of_thread(word, |server, store, (thread, row)| {
        let workflow = rebuild::beginning(store, &row)?.workflow;
        let prices = prefix::prices(&workflow, &|model| server.settings.stated_price(model));
        let (mut visits, mut outcome) = (Vec::new(), Ok(()));
        let sums = prefix::visits(store, &thread, &row, &prices, &mut |visit| {
            outcome = raw(&visit_line(&visit, None)).map(|line| visits.push(line));
            outcome.is_ok()
        })?;
        outcome?;
        let roles = sums.iter().map(|sum| raw(&role_line(sum))).collect::<Result<_, _>>()?;
        Ok(PrefixReport { visits, roles })
    });
    report.await.map(Json)
}

#[derive(Debug, Serialize, JsonSchema)]
pub struct UsageReport {
    /// By role, or what was asked for.
    usage: Vec<UsageLine>,
    total: UsageLine,
}

pub async fn usage(State(server): State<Server>, Path(word): Path<String>) -> Result<Json<UsageReport>, Problem> {
    let report = server.of_thread(word, |_, store, (thread, row)| {
        UsageReport::new(By::Role, |by| of_thread(store, (&thread, &row), by))
    });
    report.await.map(Json)
}

impl UsageReport {
    fn new(by: By, sums: impl Fn(Option<By>) -> Result<Groups, rondo::store::Error>) -> Result<Self, Failure> {
        let groups = sums(Some(by))?;
        let usage = groups.iter().map(|(key, sums)| UsageLine::new(Some(by), key.clone(), sums)).collect();
        let all = sums(None)?.get(&None).copied().unwrap_or_default();
        Ok(Self { usage, total: UsageLine::new(None, None, &all) })
    }
}

/// What is added up.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct UsageQuery {
    by: By,
    /// Only steps that ended in this time, such as `7d`, or since a day, such as `2026-11-01`.
    since: Option<String>,
}

pub async fn usage_of_all(
    State(server): State<Server>,
    query: Query<UsageQuery>,
) -> Result<Json<UsageReport>, Problem> {
    let since = query.0.since.map(|text| since(&text).map_err(|what| invalid(format!("since: {what}")))).transpose()?;
    let from_ms = since.unwrap_or(0);
    server.json(move |_, store| UsageReport::new(query.0.by, |by| usage::sums(store, None, by, from_ms))).await
}

#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct DiffQuery {
    /// The thread to compare it with.
    against: String,
}

#[derive(Debug, Serialize, JsonSchema)]
pub struct DiffReport {
    #[schemars(with = "DiffLine")]
    diff: Raw,
    #[schemars(with = "Vec<DiffStepLine>")]
    steps: Vec<Raw>,
    totals: TotalsLine,
}

pub async fn diff(
    State(server): State<Server>,
    Path(word): Path<String>,
    query: Query<DiffQuery>,
) -> Result<Json<DiffReport>, Problem> {
    let report = server.reading(move |server, store| {
        let both = || Ok((find_thread(store, &word)?, find_thread(store, &query.0.against)?));
        let (((a, a_row), (b, b_row)), driven) = server.host.with_driven(both)?;
        let compared = Comparison::new(store, &driven, (&a, &a_row), (&b, &b_row))?;
        let mut steps = Vec::new();
        compared.pairs(&mut |pair| {
            steps.extend(pair.line().map(|line| raw(&line)).transpose()?);
            Ok(true)
        })?;
        Ok(DiffReport { diff: raw(&compared.head())?, steps, totals: compared.totals() })
    });
    report.await.map(Json)
}

pub async fn graph(State(server): State<Server>, Path(word): Path<String>) -> Result<Response, Problem> {
    let picture = server.of_thread(word, |server, store, (_, row)| {
        drawn(server, &rebuild::beginning(store, &row)?.workflow, &rebuild::policy(store, &row)?)
    });
    picture.await.map(|picture| typed(picture, "application/json"))
}

/// A scenario for `rondo test` that repeats the thread's answers.
pub async fn scenario(State(server): State<Server>, Path(word): Path<String>) -> Result<Response, Problem> {
    let text = server.of_thread(word, |_, store, (thread, row)| {
        let beginning = rebuild::beginning(store, &row)?;
        let mut recorder = ScenarioRecorder::read(store, &thread, &row)?;
        let text = yaml(&recorder.scenario(thread.as_str(), &beginning.start.input, &origin(&thread, &row)?)?);
        source::yaml(&text).map_err(|_| {
            let what = format!("the answers of the thread take {} bytes, more than a scenario can hold", text.len());
            Failure::new(Code::ScenarioName, what)
        })?;
        Ok(text)
    });
    text.await.map(|text| typed(text, "text/yaml; charset=utf-8"))
}
