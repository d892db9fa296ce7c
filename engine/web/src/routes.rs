//! The routes of the API: the address of each, its handler, and what the document of the API says of it.

use rondo::picture::json::Graph;
use rondo::protocol::event::EventLine;
use rondo::views::fork::ForkLine;
use rondo::views::lines::RecordLine;
use serde_json::json;

use super::access::{self, SessionBegun, SessionRequest};
use super::batches::{self, BatchList, BatchView, LinesQuery};
use super::changes::{self, AnswerRequest, ForkBody, ResumeRequest};
use super::events::{self, EventsQuery};
use super::model::chat::{self, ChatRequest, Completion};
use super::model::{self, ModelList, ModelView};
use super::openapi::{self, Answer, DELETE, GET, Operation, POST, Schemas, route};
use super::reports::{self, DiffQuery, DiffReport, PrefixReport, UsageQuery, UsageReport};
use super::starting::{self, StartRequest};
use super::steps::{self, Requests, StepList, StepsQuery};
use super::thread_files;
use super::threads::{self, ListQuery, ThreadList, ThreadView};
use super::workflows::{self, WorkflowDetails, WorkflowList};
use super::{Health, healthz};

type Group = fn(&mut Schemas) -> Vec<Operation>;

/// What begins the addresses of a group of routes, and the group.
pub const GROUPS: [(&str, Group); 2] = [("/api/v1", api), ("/v1", models)];

fn api(of: &mut Schemas) -> Vec<Operation> {
    let event = of.answer::<EventLine<'_>>();
    let open = json!({"type": "object"});
    vec![
        route(POST, "/session", access::begin_session, "Begin a session", of.json::<SessionBegun>())
            .body(of.body::<SessionRequest>())
            .open(),
        route(
            DELETE,
            "/session",
            access::end_session,
            "End the session that sends it, or with the token all",
            Answer::Nothing,
        ),
        route(GET, "/healthz", healthz, "Whether the server answers", of.json::<Health>()).open(),
        route(GET, "/openapi.json", openapi::document, "This document", Answer::Json(open)),
        route(GET, "/workflows", workflows::list, "The workflows that can be started", of.json::<WorkflowList>()),
        route(GET, "/workflows/{name}", workflows::one, "A workflow, with its input", of.json::<WorkflowDetails>()),
        route(GET, "/workflows/{name}/graph", workflows::graph, "Its graph", of.json::<Graph<'_>>()),
        route(GET, "/threads", threads::list, "Threads, newest first", of.json::<ThreadList>())
            .query(of.query::<ListQuery>()),
        route(POST, "/threads", starting::start, "Start a thread", Answer::Accepted).body(of.body::<StartRequest>()),
        route(GET, "/threads/{thread}", threads::one, "A thread", of.json::<ThreadView>()),
        route(GET, "/threads/{thread}/steps", steps::list, "Its steps", of.json::<StepList>())
            .query(of.query::<StepsQuery>()),
        route(GET, "/threads/{thread}/steps/{seq}", steps::one, "A step", of.json::<RecordLine>()),
        route(GET, "/threads/{thread}/steps/{seq}/messages", steps::messages, "Its requests", of.json::<Requests>()),
        route(
            GET,
            "/threads/{thread}/files/{digest}",
            thread_files::one,
            "A file of its input",
            Answer::Text("application/octet-stream"),
        ),
        route(GET, "/threads/{thread}/prefix", reports::prefix, "What its requests share", of.json::<PrefixReport>()),
        route(GET, "/threads/{thread}/usage", reports::usage, "What its steps used", of.json::<UsageReport>()),
        route(GET, "/threads/{thread}/diff", reports::diff, "How another thread differs", of.json::<DiffReport>())
            .query(of.query::<DiffQuery>()),
        route(GET, "/threads/{thread}/graph", reports::graph, "The graph that it runs", of.json::<Graph<'_>>()),
        route(GET, "/threads/{thread}/scenario", reports::scenario, "A scenario of it", Answer::Text("text/yaml")),
        route(GET, "/threads/{thread}/events", events::of_thread, "Its events", Answer::EventsToEnd(event.clone()))
            .query(of.query::<EventsQuery>()),
        route(POST, "/threads/{thread}/resume", changes::resume, "Resume it", Answer::Accepted)
            .optional_body(of.body::<ResumeRequest>()),
        route(POST, "/threads/{thread}/stop", changes::stop, "Stop its run", Answer::Accepted),
        route(POST, "/threads/{thread}/cancel", changes::cancel, "End it for good", Answer::Accepted),
        route(POST, "/threads/{thread}/answer", changes::answer, "Answer a form", Answer::Accepted)
            .body(of.body::<AnswerRequest>()),
        route(
            POST,
            "/threads/{thread}/fork",
            changes::fork,
            "Fork it",
            Answer::AcceptedOr(of.answer::<ForkLine<'_>>()),
        )
        .optional_body(of.body::<ForkBody>()),
        route(GET, "/batches", batches::list, "Batches, newest first", of.json::<BatchList>()),
        route(GET, "/batches/{batch}", batches::one, "A batch with its lines", of.json::<BatchView>())
            .query(of.query::<LinesQuery>()),
        route(GET, "/usage", reports::usage_of_all, "What all threads used", of.json::<UsageReport>())
            .query(of.query::<UsageQuery>()),
        route(GET, "/events", events::of_all, "Events of all threads, live", Answer::Events(event)),
    ]
}

fn models(of: &mut Schemas) -> Vec<Operation> {
    vec![
        route(GET, "/models", model::models, "Workflows as models", of.json::<ModelList>()),
        route(GET, "/models/{model}", model::model, "A workflow as a model", of.json::<ModelView>()),
        route(
            POST,
            "/chat/completions",
            chat::complete,
            "Ask a workflow, as OpenAI's API does",
            of.json::<Completion>(),
        )
        .body(of.body::<ChatRequest>()),
    ]
}
