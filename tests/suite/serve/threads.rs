//! Threads by the API: started, answered, forked, stopped, and shown as the command line shows them.

use serde_json::{Value, json};

use super::client::Server;
use super::place;

fn pair() -> Value {
    json!({"workflow": "pair", "input": {"topic": "tides"}, "offline": true})
}

#[test]
fn a_thread_is_started_and_shown_as_the_command_line_shows_it() {
    let place = place();
    let server = Server::start(&place, &[]);
    let started = server.post(
        "/threads",
        &json!({"workflow": "pair", "input": {"topic": "tides"}, "offline": true,
        "label": "ebb", "tags": ["sea"], "limits": {"steps": 9, "wall_time": "10m"}}),
    );
    let thread = started.json()["thread"].as_str().unwrap().to_owned();
    assert_eq!(started.is(202).header("location"), Some(format!("/api/v1/threads/{thread}").as_str()));
    let view = server.wait(&thread, "done");
    assert_eq!(view["result"], json!({"text": "four"}));
    assert_eq!(view["input"], json!({"topic": "tides", "words": 20}));
    assert_eq!((&view["label"], &view["tags"], &view["runs_here"]), (&json!("ebb"), &json!(["sea"]), &json!(false)));

    // Another process sees the same thread, and says the same of it.
    let shown = place.run(["show", &thread, "--json"]).exits(0).json();
    for (name, value) in shown[0].as_object().unwrap() {
        assert_eq!(&view[name], value, "{name}");
    }
    let steps = server.get(&format!("/threads/{thread}/steps")).is(200).json();
    assert_eq!(steps["steps"].as_array().unwrap()[..], shown[1..]);
    assert_eq!((&steps["next"], &steps["in_flight"]), (&Value::Null, &json!([])));
    let page = server.get(&format!("/threads/{thread}/steps?after=1&limit=2")).is(200).json();
    assert_eq!((page["steps"].as_array().unwrap().len(), &page["next"]), (2, &json!(3)));
    assert_eq!(server.get(&format!("/threads/{thread}/steps/2")).is(200).json(), shown[2]);
    assert_eq!(server.get("/threads/ebb").is(200).json()["thread"], thread);
}

#[test]
fn requests_are_those_of_the_command_line_byte_for_byte() {
    let place = place();
    let server = Server::start(&place, &[]);
    let thread = server.run(&pair());
    server.wait(&thread, "done");
    let printed = place.run(["messages", &thread, "--json"]).exits(0);
    let mut all = String::new();
    for seq in 1..=4 {
        let path = format!("/api/v1/threads/{thread}/steps/{seq}/messages");
        let lines = server.request("GET", &path, &["Accept: application/x-ndjson"], "").is(200);
        all += std::str::from_utf8(&lines.body).unwrap();
    }
    assert_eq!(all, printed.text() + "\n");
    let third = server.get(&format!("/threads/{thread}/steps/3/messages")).is(200).json();
    let (shared, request) = (&third["shared"][0], &third["requests"][0]);
    // Of the second visit everything that the first one was sent.
    let first = server.get(&format!("/threads/{thread}/steps/1/messages")).is(200).json();
    assert_eq!(shared["bytes"], first["shared"][0]["request_bytes"], "{shared}");
    assert_eq!(shared["messages"], first["requests"][0]["messages"].as_array().unwrap().len());
    assert!(request["messages"].as_array().unwrap().len() > 1);
}

#[test]
fn reports_are_those_of_the_command_line() {
    let place = place();
    let server = Server::start(&place, &[]);
    let thread = server.run(&pair());
    server.wait(&thread, "done");
    let fork = server.post(&format!("/threads/{thread}/fork"), &json!({"at": 2, "input": {"topic": "ebb"}}));
    let fork = fork.is(202).json()["thread"].as_str().unwrap().to_owned();
    server.wait(&fork, "done");
    let prefix = server.get(&format!("/threads/{thread}/prefix")).is(200).json();
    let lines = place.run(["prefix", &thread, "--json"]).exits(0).json();
    assert_eq!(prefix["visits"].as_array().unwrap()[..], lines[..]);
    let diff = server.get(&format!("/threads/{thread}/diff?against={fork}")).is(200).json();
    let lines = place.run(["diff", &thread, &fork, "--json"]).exits(0).json();
    assert_eq!(diff["diff"], lines[0]);
    assert_eq!(diff["totals"], lines[lines.len() - 1]);
    let graph = server.get(&format!("/threads/{thread}/graph")).is(200).body;
    let drawn = place.run(["graph", "pair", "--format", "json"]).exits(0).text();
    assert_eq!(String::from_utf8(graph).unwrap().trim_end(), drawn.trim_end());
    let usage = server.get(&format!("/threads/{thread}/usage")).is(200).json();
    assert_eq!(usage["total"]["steps"], 4);
    let usage = server.get("/usage?by=workflow&since=1h").is(200).json();
    let lines = place.run(["usage", "--by", "workflow", "--json"]).exits(0).json();
    assert_eq!((&usage["usage"][0], &usage["total"]["steps"]), (&lines[0], &lines[0]["steps"]));
    server.get("/usage?by=weather").is(400);
    let scenario = server.get(&format!("/threads/{thread}/scenario")).is(200);
    place.file("workflows/pair/tests/made.yaml", &scenario.body);
    place.run(["test", "workflows/pair/tests/made.yaml", "--accept"]).exits(0);
    place.run(["test", "workflows/pair/tests/made.yaml"]).exits(0);
}

#[test]
fn what_a_fork_would_do_is_told_before_it_is_made() {
    let place = place();
    let server = Server::start(&place, &[]);
    let thread = server.run(&pair());
    server.wait(&thread, "done");
    let fork = |body: Value| server.post(&format!("/threads/{thread}/fork"), &body);
    let plan = fork(json!({"at": 2, "dry_run": true})).is(200).json();
    let told = place.run(["fork", &thread, "--at", "2", "--dry-run", "--json"]).exits(0).json();
    assert_eq!(plan, told[0]);
    let plan = fork(json!({"at": 2, "answer": "no", "dry_run": true})).is(200).json();
    assert_eq!((&plan["at"], &plan["again"]["steps"]), (&json!(1), &json!(2)), "step 2 is answered otherwise");
    fork(json!({"at": 99, "dry_run": true})).is(422);
    assert_eq!(server.get("/threads").is(200).json()["threads"].as_array().unwrap().len(), 1);
}

#[test]
fn a_batch_is_shown_with_its_lines() {
    let place = place();
    place.file("topics.jsonl", "{\"topic\": \"tides\"}\n{\"topics\": \"dunes\"}\n{\"topic\": \"ebb\"}\n");
    place.run(["run", "pair", "--offline", "--input-file", "topics.jsonl"]).exits(2);
    let server = Server::start(&place, &[]);
    let listed = server.get("/batches").is(200).json();
    assert_eq!(listed["batches"][0], place.run(["batches", "--json"]).exits(0).json()[0]);
    let batch = listed["batches"][0]["batch"].as_str().unwrap();
    let view = server.get(&format!("/batches/{batch}?limit=2")).is(200).json();
    let statuses: Vec<&str> =
        view["rows"].as_array().unwrap().iter().map(|row| row["status"].as_str().unwrap()).collect();
    assert_eq!(statuses, ["done", "invalid"]);
    let rest = server.get(&format!("/batches/{batch}?after=2")).is(200).json();
    assert_eq!((&rest["rows"][0]["line"], &rest["batch"]), (&json!(3), &view["batch"]));
    server.get("/batches/nothing").is(404);
}

#[test]
fn a_form_is_answered_and_the_thread_goes_on() {
    let place = place();
    let server = Server::start(&place, &[]);
    let thread = server.run(&json!({"workflow": "ask", "offline": true}));
    let view = server.wait(&thread, "waiting");
    let form = &view["forms"][0];
    assert_eq!((&form["role"], &form["thread"]), (&json!("person"), &json!(thread)));
    let accept = &form["schema"]["oneOf"][0];
    assert_eq!(accept["properties"]["status"], json!({"const": "accept"}));
    assert_eq!(accept["required"], json!(["status", "grade"]));
    let path = format!("/threads/{thread}/answer");
    let answer = |mut said: Value| {
        said["form"] = form["digest"].clone();
        server.post(&path, &said)
    };
    let nameless = server.post(&path, &json!({"status": "accept", "fields": {"grade": 2}})).is(400).json();
    assert!(nameless["detail"].as_str().unwrap().contains("form"), "{nameless}");
    let wrong = answer(json!({"status": "accept", "fields": {"grade": 0}})).is(422).json();
    assert_eq!(wrong["code"], "RN1414", "{wrong}");
    assert_eq!(answer(json!({"status": "maybe"})).is(422).json()["code"], "RN1414");
    for name in ["status", "body"] {
        let misplaced = answer(json!({"status": "accept", "fields": {"grade": 2, name: "z"}})).is(422).json();
        let detail = misplaced["detail"].as_str().unwrap();
        assert!(misplaced["code"] == "RN1414" && detail.contains(name) && detail.contains("beside"), "{misplaced}");
    }
    for no_status in [json!({"approve": true}), json!({})] {
        let told = answer(no_status).is(409).json()["detail"].as_str().unwrap().to_owned();
        assert!(told.contains("status") && !told.contains("--"), "{told}");
    }
    let shown = place.run(["show", &thread, "--json"]).exits(0).event("thread_waiting");
    assert_eq!((&shown["digest"], &shown["form"]), (&form["digest"], &form["form"]));
    answer(json!({"status": "accept", "fields": {"grade": 2}, "body": "well"})).is(202);
    assert_eq!(server.wait(&thread, "done")["result"], json!({"grade": 2}));
    assert_eq!(answer(json!({"status": "accept"})).is(409).json()["code"], "RN1412");
}

#[test]
fn whoever_hears_that_a_thread_waits_may_answer_at_once() {
    let place = place();
    let server = Server::start(&place, &[]);
    for _ in 0..30 {
        let thread = server.run(&json!({"workflow": "ask", "offline": true}));
        let mut events = server.events(&format!("/threads/{thread}/events"), None);
        let form = events.until("thread_waiting").pop().unwrap().1["digest"].clone();
        let answer = json!({"form": form, "status": "accept", "fields": {"grade": 2}});
        server.post(&format!("/threads/{thread}/answer"), &answer).is(202);
        server.wait(&thread, "done");
    }
}

#[test]
fn a_thread_is_stopped_resumed_and_cancelled() {
    let place = place();
    place.file("workflows/pair/script.yaml", SCRIPT_SLOW);
    let server = Server::start(&place, &[]);
    let thread = server.run(&pair());
    let mut events = server.events(&format!("/threads/{thread}/events"), None);
    events.until("step_committed");
    let stopped = server.post(&format!("/threads/{thread}/stop"), &json!({})).is(202).json();
    assert_eq!((&stopped["status"], &stopped["runs_here"]), (&json!("stopped"), &json!(false)));
    assert_eq!(server.post(&format!("/threads/{thread}/stop"), &json!({})).is(409).json()["code"], "RN2009");
    let resumed = server.post(&format!("/threads/{thread}/resume"), &json!({})).is(202).json();
    assert_eq!(resumed["status"], "running");
    let cancelled = server.post(&format!("/threads/{thread}/cancel"), &json!({})).is(202).json();
    assert_eq!(cancelled["status"], "cancelled");
    assert_eq!(server.post(&format!("/threads/{thread}/cancel"), &json!({})).is(409).json()["code"], "RN1407");
    // The stream went on over the stop, to the end.
    let last = events.until("thread_finished").pop().unwrap().1;
    assert_eq!(last["outcome"], "cancelled");
    assert_eq!(events.next(), None);
}

/// Its second step takes longer than the test.
const SCRIPT_SLOW: &str =
    "first: [ { status: done, body: one } ]\nsecond: [ { delay_ms: 600000, status: done, body: two } ]\n";

#[test]
fn a_repeated_start_with_a_key_starts_one_thread_also_after_a_kill() {
    let place = place();
    let server = Server::start(&place, &[]);
    let start = |server: &Server, body: &Value| {
        let lines = ["Content-Type: application/json", "Idempotency-Key: of-today"];
        server.request("POST", "/api/v1/threads", &lines, &body.to_string())
    };
    let first = start(&server, &pair()).is(202).json();
    assert_eq!(start(&server, &pair()).is(202).json()["thread"], first["thread"]);
    let other = json!({"workflow": "pair", "input": {"topic": "wind"}, "offline": true});
    assert_eq!(start(&server, &other).is(422).json()["code"], "RN2007");
    server.process.kill();
    let server = Server::start(&place, &[]);
    assert_eq!(start(&server, &pair()).is(202).json()["thread"], first["thread"]);
    assert_eq!(server.get("/threads").is(200).json()["threads"].as_array().unwrap().len(), 1);
}

#[test]
fn one_key_is_one_thread_also_in_two_servers_at_once() {
    let place = place();
    let mut servers = [Server::start(&place, &[]), Server::start(&place, &[])];
    for number in 0..5 {
        let key = format!("Idempotency-Key: key-{number}");
        let start = &|server: &Server| {
            let lines = ["Content-Type: application/json", key.as_str()];
            let started = server.request("POST", "/api/v1/threads", &lines, &pair().to_string()).is(202).json();
            started["thread"].as_str().unwrap().to_owned()
        };
        let [first, second] = std::thread::scope(|scope| {
            let begun = servers.each_mut().map(|server| scope.spawn(move || start(server)));
            begun.map(|begun| begun.join().unwrap())
        });
        assert_eq!(first, second);
    }
    assert_eq!(servers[0].get("/threads").is(200).json()["threads"].as_array().unwrap().len(), 5);
}

#[test]
fn a_request_that_is_refused_leaves_its_key_free() {
    let place = place();
    let server = Server::start(&place, &[]);
    let start = |body: &Value| {
        let lines = ["Content-Type: application/json", "Idempotency-Key: of-today"];
        server.request("POST", "/api/v1/threads", &lines, &body.to_string())
    };
    start(&json!({"workflow": "pair", "offline": true})).is(422);
    let first = start(&pair()).is(202).json();
    assert_eq!(start(&pair()).is(202).json()["thread"], first["thread"]);
    // It is used now.
    assert_eq!(start(&json!({"workflow": "pair", "offline": true})).is(422).json()["code"], "RN2007");
}

#[test]
fn lists_are_newest_first_in_pages_and_filtered() {
    let place = place();
    let ids: Vec<String> = (0..5)
        .map(|number| {
            // No id has this letter, so that a search for a tag finds no id.
            let tag = format!("u{number}");
            let words = ["run", "pair", "--offline", "-i", "topic=tides", "--json", "--tag", &tag];
            place.run(words).exits(0).event("thread_started")["thread"].as_str().unwrap().to_owned()
        })
        .collect();
    let server = Server::start(&place, &[]);
    let list = |query: &str| {
        let page = server.get(&format!("/threads?{query}")).is(200).json();
        let threads = page["threads"].as_array().unwrap().iter();
        (threads.map(|view| view["thread"].as_str().unwrap().to_owned()).collect::<Vec<_>>(), page["next"].clone())
    };
    let newest_first: Vec<String> = ids.iter().rev().cloned().collect();
    assert_eq!(list(""), (newest_first.clone(), Value::Null));
    let (first, next) = list("limit=2");
    assert_eq!(first, newest_first[..2]);
    let (rest, end) = list(&format!("limit=3&cursor={}", next.as_str().unwrap()));
    assert_eq!(rest, newest_first[2..]);
    assert!(end.is_null() || list(&format!("cursor={}", end.as_str().unwrap())).0.is_empty());
    assert_eq!(list("tag=u3").0, [ids[3].clone()]);
    assert_eq!(list("status=done&workflow=pair&since=1h").0.len(), 5);
    for (text, found) in [("TIDES", 5), ("u3", 1), ("pair", 5), ("lull", 0)] {
        assert_eq!(list(&format!("q={text}")).0.len(), found, "{text}");
    }
    assert_eq!(list("status=failed").0.len(), 0);
    assert_eq!(list("since=2100-01-01").0.len(), 0);
    for query in ["status=odd", "limit=0", "limit=501", "since=soon", "cursor=x", "order=age"] {
        let refused = server.get(&format!("/threads?{query}")).is(400);
        assert_eq!(refused.json()["code"], "RN2005", "{query}");
    }
}

#[test]
fn what_needs_consent_is_refused_with_the_command_that_gives_it() {
    let place = place();
    let with_tool = super::PAIR.replace("first: { system", "first: { tools: [write_file], system");
    place.file("workflows/writing/workflow.yaml", with_tool.replace("name: pair", "name: writing"));
    place.file("workflows/writing/script.yaml", super::SCRIPT);
    let server = Server::start(&place, &[]);
    let details = server.get("/workflows/writing").is(200).json();
    assert_eq!(details["consent"], json!({"is_given": false, "command": "rondo trust writing"}));
    let body = json!({"workflow": "writing", "input": {"topic": "tides"}, "offline": true});
    let refused = server.post("/threads", &body).is(403).json();
    assert!(refused["hint"].as_str().unwrap().contains("rondo trust"), "{refused}");
    place.trust(&["writing"]);
    assert_eq!(server.get("/workflows/writing").is(200).json()["consent"]["is_given"], true);
    server.run(&body);
}

#[test]
fn workflows_are_those_that_the_folder_and_the_program_name() {
    let place = place();
    place.file("workflow.yaml", super::PAIR.replace("name: pair", "name: of-the-folder"));
    place.file("workflows/broken/workflow.yaml", "rondo: 1\nname: broken\nroles: 3\n");
    place.file("elsewhere/workflow.yaml", super::PAIR);
    let server = Server::start(&place, &[]);
    let list = server.get("/workflows").is(200).json();
    let origin = |name: &str| {
        let found = list["workflows"].as_array().unwrap().iter().find(|found| found["name"] == name).cloned();
        found.map(|found| found["origin"].clone())
    };
    assert_eq!(origin("of-the-folder"), Some(json!("folder")));
    assert_eq!(origin("pair"), Some(json!("folder")));
    assert_eq!(origin("debate"), Some(json!("shipped")));
    assert_eq!(origin("elsewhere"), None);
    let broken = list["workflows"].as_array().unwrap().iter().find(|found| found["name"] == "broken").unwrap();
    assert_eq!(broken["faults"][1]["line"], 3, "{broken}");
    assert_eq!(server.get("/workflows/broken").is(422).json()["faults"], broken["faults"]);
    for path in ["elsewhere", "elsewhere/workflow.yaml", "./workflow.yaml", "/etc/passwd", "../work/workflow.yaml"] {
        let body = json!({"workflow": path, "input": {"topic": "x"}, "offline": true});
        assert_eq!(server.post("/threads", &body).is(404).json()["code"], "RN1403", "{path}");
    }
    let details = server.get("/workflows/pair").is(200).json();
    assert_eq!(details["about"], "Two speakers.");
    assert_eq!(details["input"]["required"], json!(["topic"]));
    assert_eq!((&details["has_script"], details["roles"].as_array().unwrap().len()), (&json!(true), 2));
}
