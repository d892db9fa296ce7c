//! Histories: a message rebuilt from memory, scanned from a warm store, and decoded.

use std::sync::Arc;
use std::sync::atomic::AtomicU64;
use std::time::Instant;

use rondo_agent_kit::conversation::{Builder, Episode, HistoryPolicy};
use rondo_protocol::Value;
use rondo_protocol::event::Durability;
use rondo_protocol::id::{LanePath, RoleName, Status};
use rondo_protocol::message::{Conversation, Message};
use rondo_protocol::workflow::{Context, ContextWhat, History};
use rondo_tests::{follow, start};

use crate::durable::open;
use crate::support::{BODY, engine, print, quick, runtime, two_roles};

const STEPS: u64 = 10_000;

pub fn messages() {
    let role = RoleName::new("a").expect("a name");
    let episode = |seq: u64| Episode {
        seq,
        role: RoleName::new(if seq % 2 == 1 { "a" } else { "b" }).expect("a name"),
        lane: LanePath::trunk(),
        opened_by: Vec::new(),
        prompt: BODY.to_owned(),
        answer: BODY.to_owned(),
        status: Status::new("done").expect("a status"),
        output: Value::empty_object(),
        body: String::new(),
        transcript: None,
    };
    let episodes: Vec<Episode> = (1..=STEPS).map(episode).collect();
    let context = Context { what: ContextWhat::None, ..Context::default() };
    let history_policy = HistoryPolicy { history: History::Condensed, context };
    let started = Instant::now();
    let mut builder = Builder::new(history_policy);
    for own in episodes.iter().filter(|episode| episode.role == role) {
        builder.open(&own.prompt, "", &[]);
        builder.close(own.place(), &own.answer, None);
    }
    let rebuilt_conversation = builder.open("Go.", "", &[]);
    let rebuilt = started.elapsed();
    let messages: Vec<Message> = rebuilt_conversation.messages().into_iter().cloned().collect();
    let count = u32::try_from(messages.len()).unwrap_or(1);
    let started = Instant::now();
    std::hint::black_box(messages.into_iter().collect::<Conversation>());
    let hashed = started.elapsed();
    let ns = |elapsed: std::time::Duration| format!("{:.0} ns", elapsed.as_secs_f64() * 1e9 / f64::from(count));
    let reference = format!("{} of it for its digest and the chain", ns(hashed));
    print("history, a message from memory", &ns(rebuilt), &reference);

    let folder = tempfile::tempdir().expect("a folder");
    let store = open(folder.path(), Durability::Log);
    let count = Arc::new(AtomicU64::new(0));
    let checked = two_roles(STEPS, "outputs");
    let thread = runtime().block_on(async {
        let mut handle = start(&engine(Arc::clone(&store)), &checked, Value::empty_object(), quick(&count)).await;
        handle.events.close();
        let thread = handle.thread.clone();
        follow(handle).await;
        thread
    });
    let scan = || {
        let started = Instant::now();
        let mut bytes = 0;
        store
            .steps(&thread, 1..=STEPS, &mut |stored, _| {
                bytes += stored.step.answer.len();
                true
            })
            .expect("a scan");
        std::hint::black_box(bytes);
        started.elapsed()
    };
    scan();
    let decoded = scan();
    // A step is two messages of its role's history: its prompt and its answer.
    let messages = u32::try_from(STEPS * 2).unwrap_or(1);
    let decoded = format!("{:.0} ns", decoded.as_secs_f64() * 1e9 / f64::from(messages));
    print("history, a message scanned, verified and decoded", &decoded, "digest of each step recomputed");
}
