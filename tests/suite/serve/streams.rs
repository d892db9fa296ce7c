//! Event streams: each durable event once and in order, whatever happens between.

use std::time::Duration;

use rustix::process::Signal;
use serde_json::{Value, json};

use super::client::{Sent, Server};
use super::place;

/// The ids of the durable events.
fn ids(events: &[Sent]) -> Vec<String> {
    events.iter().filter_map(|(id, _)| id.clone()).collect()
}

/// The durable events, as the stream of a thread that has ended has them.
fn durable(events: &[Sent]) -> Vec<Value> {
    events.iter().filter(|(id, _)| id.is_some()).map(|(_, data)| data.clone()).collect()
}

#[test]
fn a_stream_has_what_a_run_prints_and_goes_on_after_any_event() {
    let place = place();
    let server = Server::start(&place, &[]);
    let thread = server.run(&json!({"workflow": "pair", "input": {"topic": "tides"}, "offline": true}));
    let path = format!("/threads/{thread}/events");
    let live = server.events(&path, None).until("thread_finished");
    assert!(live.iter().any(|(id, data)| id.is_none() && data["event"] == "step_started"), "{live:?}");
    for (id, data) in &live {
        assert_eq!(id.as_deref(), data["id"].as_str(), "the id of a stream is that of the event");
    }
    let replayed = server.events(&path, None).until("thread_finished");
    assert_eq!(durable(&live), durable(&replayed));
    let all = ids(&replayed);
    for (at, id) in all.iter().enumerate() {
        let mut rest = server.events(&path, Some(id));
        if at + 1 == all.len() {
            assert_eq!(rest.status, 204, "nothing follows");
        } else {
            assert_eq!(ids(&rest.until("thread_finished")), all[at + 1..]);
            assert_eq!(rest.next(), None);
        }
    }
    assert_eq!(server.get(&format!("/threads/{thread}/events?after=99.1")).status, 400);
    assert_eq!(server.get(&format!("/threads/{thread}/events?after=soon")).status, 400);

    // The run of a terminal prints the same events.
    let words = ["run", "pair", "--offline", "-i", "topic=tides", "--json"];
    let printed = place.run(words).exits(0).json();
    let of_run: Vec<&Value> = printed.iter().filter(|event| !event["id"].is_null()).collect();
    let names = |events: &[&Value]| events.iter().map(|event| event["event"].clone()).collect::<Vec<_>>();
    assert_eq!(names(&of_run), names(&durable(&live).iter().collect::<Vec<_>>()));
}

#[test]
fn a_stream_loses_and_doubles_nothing_over_kills_of_the_server() {
    let place = place();
    let mut server = Server::start(&place, &[]);
    let thread = server.run(&json!({"workflow": "pair", "input": {"topic": "tides"}, "offline": true}));
    let path = format!("/threads/{thread}/events");
    let (mut heard, mut last): (Vec<Sent>, Option<String>) = (Vec::new(), None);
    for kill in 0..3 {
        let mut events = server.events(&path, last.as_deref());
        while let Some(event) = events.next() {
            last = event.0.clone().or(last);
            let is_committed = event.1["event"] == "step_committed";
            heard.push(event);
            if is_committed {
                break;
            }
        }
        let signal = if kill == 1 { Signal::TERM } else { Signal::KILL };
        server.process.signal(signal);
        server.process.finish_within(Duration::from_secs(15));
        server = Server::start(&place, &[]);
        server.wait(&thread, "stopped");
        server.post(&format!("/threads/{thread}/resume"), &json!({})).is(202);
    }
    heard.extend(server.events(&path, last.as_deref()).until("thread_finished"));
    let whole = server.events(&path, None).until("thread_finished");
    assert_eq!(durable(&heard), durable(&whole));
}

#[test]
fn a_thread_that_another_process_drives_streams_too() {
    let place = place();
    let server = Server::start(&place, &[]);
    let mut run = place.start(["run", "pair", "--offline", "-i", "topic=tides", "--json"]);
    let thread = run.event("thread_started")["thread"].as_str().unwrap().to_owned();
    let view = server.get(&format!("/threads/{thread}")).is(200).json();
    assert_eq!((&view["status"], &view["runs_here"]), (&json!("running"), &json!(false)));
    let streamed = server.events(&format!("/threads/{thread}/events"), None).until("thread_finished");
    let printed = run.finish().exits(0).json();
    let of_run: Vec<Value> = printed.into_iter().filter(|event| !event["id"].is_null()).collect();
    assert_eq!(durable(&streamed), of_run);
}

#[test]
fn the_stream_of_all_threads_has_each_as_it_runs() {
    let place = place();
    let server = Server::start(&place, &[]);
    let mut all = server.events("/events", None);
    assert_eq!(all.status, 200);
    let body = json!({"workflow": "pair", "input": {"topic": "tides"}, "offline": true});
    let threads = [server.run(&body), server.run(&body)];
    let mut ended = Vec::new();
    while ended.len() < 2 {
        let (id, data) = all.next().unwrap();
        assert_eq!(id, None, "an id would be one of a single thread");
        if data["event"] == "thread_finished" {
            ended.push(data["thread"].as_str().unwrap().to_owned());
        }
    }
    ended.sort();
    let mut threads = threads.to_vec();
    threads.sort();
    assert_eq!(ended, threads);
}

#[test]
fn a_client_that_never_reads_slows_no_run() {
    let place = place();
    let server = Server::start(&place, &[]);
    let body = json!({"workflow": "pair", "input": {"topic": "tides"}, "offline": true});
    let thread = server.run(&body);
    let _deaf: Vec<_> = (0..50).map(|_| server.events(&format!("/threads/{thread}/events"), None)).collect();
    server.wait(&thread, "done");
    server.run(&body);
}
