//! What holds in every protocol: the bytes of a request begin with those of the one before, a killed run asks what it
//! would have asked, and no fault of a server is taken for an answer.

use std::sync::mpsc::channel;

use serde_json::Value;

use super::server::{Act, EVENTS, Request, Server};
use super::spoken::{ALL, Spoken, Turn};
use crate::binary::{Finished, PATIENCE};

const LOOP: &str = r#"
rondo: 1
name: loop
models: { default: { max_output_tokens: 4000, reasoning_effort: low } }
roles:
  writer:
    system: "You write: \"short\" texts.\nÉtudes 😀"
    tools: [read_file]
    history: exact
    output: { drafted: { title: string } }
  editor:
    system: You edit.
    tools: [read_file]
    format: json
    output: { revise: { comment: string }, approved: {} }
graph:
  start: { to: writer, prompt: "Read a.txt and write about \"salt\" marshes." }
  writer:
    drafted: { to: editor, prompt: "Judge {{ output.title }}:\n\n{{ body }}" }
  editor:
    revise: { to: writer, max: 3, prompt: "{{ output.comment }}", on_max: { to: fail } }
    approved: { to: end }
"#;

/// The replies of two rounds: thoughts, tools one by one and side by side, and an answer that breaks its contract.
fn story() -> [Turn<'static>; 9] {
    [
        Turn::calls(&["call_1"]).thinking(1),
        Turn::calls(&["call_2", "call_3"]).thinking(2),
        Turn::text("---\nstatus: drafted\ntitle: One\n---\n\nFirst \"draft\" \\ \u{7} \u{2028} é\n").thinking(3),
        Turn::calls(&["call_4"]).thinking(4),
        Turn::text(r#"{"status":"revise","comment":"shorter }],\" please"}"#),
        Turn::text("no front matter").thinking(5),
        Turn::calls(&["call_5"]).thinking(6),
        Turn::text("---\nstatus: drafted\ntitle: Two\n---\n\nSecond\n"),
        Turn::text(r#"{ "status" : "approved" }"#),
    ]
}

/// Which of its requests are the writer's. Each of them holds all that the one before held.
const OF_WRITER: [usize; 6] = [0, 1, 2, 5, 6, 7];

/// Of the editor, whose later visits leave out its tools: those that each begin with the one before.
const OF_EDITOR: [[usize; 2]; 2] = [[3, 4], [3, 8]];

fn play(spoken: Spoken, number: usize) -> Act {
    let number_u64 = u64::try_from(number).unwrap();
    let usage = Some(spoken.usage([1000 + number_u64, 10 * number_u64, 1 + number_u64]));
    spoken.reply(&Turn { usage, ..story()[number].clone() })
}

/// The bodies of a run that nothing disturbs.
fn bodies(spoken: Spoken) -> Vec<String> {
    let server = Server::new(move |number| play(spoken, number));
    let said = spoken.client(&server, LOOP).run(&["run", "workflow.yaml", "--json"]);
    assert_eq!(said.code, Some(0), "{spoken:?} {said:?}");
    let requests = server.requests();
    assert_eq!(requests.len(), story().len(), "{spoken:?}");
    for Request { head, .. } in &requests {
        assert!(head.starts_with(spoken.request_line()), "{head}");
    }
    let usage =
        |event: &Value| ["prompt_tokens", "cached_tokens", "output_tokens"].map(|name| event["usage"][name].as_u64());
    let counted: Vec<_> = said.events("call_settled").iter().map(usage).collect();
    let wanted: Vec<_> = (0..9).map(|n| [Some(1000 + n), Some(10 * n), Some(1 + n)]).collect();
    assert_eq!(counted, wanted, "{spoken:?}");
    requests.into_iter().map(|request| request.body).collect()
}

/// Law `prefix`, on the bytes of the wire.
#[test]
fn each_request_begins_with_the_bytes_of_the_one_before_up_to_the_end_of_its_messages() {
    for spoken in ALL {
        let bodies = bodies(spoken);
        let of_writer = OF_WRITER.windows(2).map(|pair| [pair[0], pair[1]]);
        for [before, after] in of_writer.chain(OF_EDITOR) {
            let ((earlier, behind), (later, behind_later)) =
                (spoken.split(&bodies[before]), spoken.split(&bodies[after]));
            let added = later.strip_prefix(earlier);
            let added = added.unwrap_or_else(|| panic!("{spoken:?}: {later}\ndoes not begin with\n{earlier}"));
            assert!(added.starts_with(','), "{spoken:?}: {added}");
            assert_eq!(behind, behind_later, "{spoken:?}: what follows the messages changed");
        }
        // What a provider attached to a call comes back as it was sent, in each later request of the role.
        for (thought, at) in [(1, 0), (2, 1), (6, 4)] {
            for later in &OF_WRITER[at + 1..] {
                let body = &bodies[*later];
                assert!(body.contains(&spoken.returned(thought)), "{spoken:?} {thought} in {later}: {body}");
            }
        }
        assert!(bodies[4].contains(&spoken.returned(4)), "{spoken:?}: {}", bodies[4]);
        for (at, body) in bodies.iter().enumerate() {
            let of_other = if OF_WRITER.contains(&at) { vec![4] } else { vec![1, 2, 3, 5, 6] };
            for thought in of_other {
                assert!(!body.contains(&spoken.opaque(thought)), "{spoken:?} {thought} in {at}: {body}");
            }
        }
    }
}

/// A run that is killed within the reply to each of its requests asks the same again, byte for byte, and goes on as if
/// nothing had happened.
fn killed_within_each_reply(spoken: Spoken) {
    let bodies = bodies(spoken);
    for killed_at in 0..bodies.len() {
        let (sender, heard) = channel();
        let known = bodies.clone();
        let server = Server::reading(move |number, request| {
            let at = known.iter().position(|body| *body == request.body);
            let Some(at) = at else { return Act::refusal(400, "", "this was never asked") };
            if at == killed_at && number == killed_at {
                let events = spoken.events(&story()[at]);
                sender.send(()).unwrap();
                return Act::Hang([EVENTS, &events[..events.len() - 2].concat()].concat());
            }
            play(spoken, at)
        });
        let client = spoken.client(&server, LOOP);
        let running = client.start(&["run", "workflow.yaml", "--json"]);
        heard.recv_timeout(PATIENCE).unwrap();
        running.kill();
        let resumed = client.run(&["resume", "last", "--json"]);
        assert_eq!(resumed.code, Some(0), "{spoken:?}, killed at {killed_at}: {resumed:?}");
        let asked: Vec<String> = server.requests().into_iter().map(|request| request.body).collect();
        let wanted = [&bodies[..=killed_at], &bodies[killed_at..]].concat();
        assert!(asked == wanted, "{spoken:?}, killed at {killed_at}: {asked:#?}");
    }
}

#[test]
fn a_run_killed_within_any_reply_of_chat_completions_asks_the_same_again() {
    killed_within_each_reply(Spoken::OpenAiChat);
}

#[test]
fn a_run_killed_within_any_reply_of_responses_asks_the_same_again() {
    killed_within_each_reply(Spoken::OpenAiResponses);
}

#[test]
fn a_run_killed_within_any_reply_of_anthropic_asks_the_same_again() {
    killed_within_each_reply(Spoken::Anthropic);
}

#[test]
fn a_run_killed_within_any_reply_of_gemini_asks_the_same_again() {
    killed_within_each_reply(Spoken::Gemini);
}

const GOOD: &str = "---\nstatus: done\n---\n\nAll is well.";

/// One role that tries twice.
const FRAGILE: &str = "
rondo: 1
name: fragile
roles:
  a: { system: x, tools: [read_file], retry: { attempts: 2, backoff: 1ms } }
graph:
  start: { to: a, prompt: go }
  a: { done: { to: end } }
";

/// The same again and again.
const AGAIN: &str = "
rondo: 1
name: again
roles:
  a:
    system: x
    tools: [read_file]
    history: none
    retry: { attempts: 2, backoff: 1ms }
    output: { again: {}, done: {} }
graph:
  start: { to: a, prompt: go }
  a:
    again: { to: a, prompt: go, max: 200, on_max: { to: fail } }
    done: { to: end }
limits: { steps: 200, visits: 200 }
";

/// The codes of the faults that were tried again.
fn retried(said: &Finished) -> Vec<String> {
    said.events("call_retried").iter().map(|event| event["code"].as_str().unwrap().to_owned()).collect()
}

/// Parts of a reply that is cut behind each event, and in the midst of each, in front of the one that makes it whole.
fn cuts(spoken: Spoken, turn: &Turn<'_>) -> Vec<String> {
    let events = spoken.events(turn);
    let mut cuts = Vec::new();
    for end in 0..spoken.completing(&events) {
        let whole = events[..end].concat();
        cuts.push([&whole, &events[end][..events[end].len() / 2]].concat());
        cuts.push(whole);
    }
    cuts
}

#[test]
fn a_stream_cut_anywhere_is_a_fault_that_is_tried_again_and_never_an_answer() {
    // The connection ends in good order, or before what was announced.
    let short = EVENTS.replace("connection", "content-length: 999999\r\nconnection");
    for spoken in ALL {
        let cuts = [Turn::text(GOOD), Turn::calls(&["call_1"])].map(|turn| cuts(spoken, &turn.thinking(1))).concat();
        let cuts: Vec<String> =
            [EVENTS, &short].iter().flat_map(|head| cuts.iter().map(move |cut| format!("{head}{cut}"))).collect();
        let count = cuts.len();
        assert!(count > 30, "{spoken:?} {count}");
        let server = Server::new(move |number| match number {
            number if number % 2 == 0 => Act::text(cuts[number / 2].clone()),
            number if number / 2 + 1 == count => spoken.text(GOOD),
            _ => spoken.text("---\nstatus: again\n---\n\nNot yet."),
        });
        let said = spoken.client(&server, AGAIN).run(&["run", "workflow.yaml", "--json"]);
        assert_eq!(said.code, Some(0), "{spoken:?} {said:?}");
        assert_eq!(retried(&said), vec!["RN1008"; count], "{spoken:?}");
        assert_eq!(said.events("tool_started"), Vec::<Value>::new(), "{spoken:?}: a call of a cut reply was made");
        let requests = server.requests();
        assert_eq!(requests.len(), 2 * count, "{spoken:?}");
        assert!(requests.iter().all(|request| request.body == requests[0].body), "{spoken:?}: attempts differ");
    }
}

/// What a refusal becomes: its code, and whether it is tried again.
type Became = (&'static str, bool);

const BUSY: Became = ("RN1004", true);
const FAILED: Became = ("RN1005", true);
const REFUSED: Became = ("RN1006", false);
const KEY: Became = ("RN1007", false);
const NO_MONEY: Became = ("RN1011", false);

/// The first request is answered so, and every later one well.
#[track_caller]
fn becomes(spoken: Spoken, became: Became, act: impl Fn() -> Act + Send + Sync + 'static) {
    let server = Server::new(move |number| if number == 0 { act() } else { spoken.text(GOOD) });
    let client = spoken.client(&server, FRAGILE);
    let said = client.run(&["run", "workflow.yaml", "--json"]);
    let (code, is_retried) = became;
    let requests = server.requests();
    if is_retried {
        assert_eq!((said.code, retried(&said)), (Some(0), vec![code.to_owned()]), "{spoken:?} {said:?}");
        assert_eq!(requests.len(), 2, "{spoken:?} {said:?}");
        assert_eq!(requests[0].body, requests[1].body, "{spoken:?}: attempts differ");
    } else {
        assert_eq!((said.code, retried(&said), requests.len()), (Some(5), vec![], 1), "{spoken:?} {said:?}");
        assert_eq!(said.event("error")["code"], code, "{spoken:?} {said:?}");
        client.run(&["resume", "last", "--json"]).exits(0);
    }
}

#[test]
fn a_refusal_is_tried_again_where_another_attempt_may_cure_it() {
    let overloaded =
        r#"{"type":"error","error":{"type":"overloaded_error","message":"Overloaded"},"request_id":"req_1"}"#;
    let of_anthropic = r#"{"type":"error","error":{"type":"rate_limit_error","message":"slow down"}}"#;
    let of_google = r#"{"error":{"code":429,"message":"slow down","status":"RESOURCE_EXHAUSTED"}}"#;
    let of_openai = r#"{"error":{"message":"slow down","type":"requests","param":null,"code":"rate_limit_exceeded"}}"#;
    let quota =
        r#"{"error":{"message":"no credit","type":"insufficient_quota","param":null,"code":"insufficient_quota"}}"#;
    let billing = r#"{"type":"error","error":{"type":"billing_error","message":"no credit"}}"#;
    let broken = r#"{"error":{"message":"x","#;
    for spoken in ALL {
        let limit = match spoken {
            Spoken::OpenAiChat | Spoken::OpenAiResponses => of_openai,
            Spoken::Anthropic => of_anthropic,
            Spoken::Gemini => of_google,
        };
        // A limit on spending has the status of a limit on rate, and no time to wait.
        let without_time = if spoken == Spoken::Anthropic { NO_MONEY } else { BUSY };
        for (status, headers, body, became) in [
            (529, "", overloaded, FAILED),
            (500, "", "<html>oops</html>", FAILED),
            (503, "", "", FAILED),
            (502, "", broken, FAILED),
            (504, "", "", ("RN1003", true)),
            (429, "retry-after: 0\r\n", limit, BUSY),
            (429, "retry-after: 0\r\n", "slow down", BUSY),
            (429, "", limit, without_time),
            (429, "retry-after: 0\r\n", quota, NO_MONEY),
            (429, "", quota, NO_MONEY),
            (402, "", "", NO_MONEY),
            (402, "", "<html>", NO_MONEY),
            (402, "retry-after: 0\r\n", billing, NO_MONEY),
            (401, "", "", KEY),
            (403, "", broken, KEY),
            (400, "", "<html>", REFUSED),
            (404, "", broken, REFUSED),
            (413, "", "[]", REFUSED),
        ] {
            println!("{spoken:?} {status} {headers:?} {body}");
            becomes(spoken, became, move || Act::refusal(status, headers, body));
        }
    }
}

#[test]
fn an_error_within_a_stream_is_tried_again_as_a_refusal_is() {
    for spoken in ALL {
        let begun = spoken.events(&Turn::calls(&["call_1"]).thinking(1));
        let begun = [EVENTS, &begun[..spoken.completing(&begun) - 1].concat()].concat();
        let of_openai = |code: &str| format!(r#"{{"message":"so","type":"{code}","code":"{code}"}}"#);
        let errors = match spoken {
            Spoken::OpenAiChat => vec![
                (format!("data: {{\"error\":{}}}\n\n", of_openai("server_error")), FAILED),
                (format!("data: {{\"error\":{}}}\n\n", of_openai("rate_limit_exceeded")), BUSY),
                (format!("data: {{\"error\":{}}}\n\n", of_openai("insufficient_quota")), NO_MONEY),
            ],
            Spoken::OpenAiResponses => {
                let error = |code: &str| {
                    format!(
                        "event: error\ndata: {{\"type\":\"error\",\"code\":\"{code}\",\"message\":\"so\",\"param\":null}}\n\n"
                    )
                };
                let failed = |code: &str| {
                    let response = format!(r#"{{"status":"failed","error":{},"usage":null}}"#, of_openai(code));
                    format!(
                        "event: response.failed\ndata: {{\"type\":\"response.failed\",\"response\":{response}}}\n\n"
                    )
                };
                vec![
                    (error("server_error"), FAILED),
                    (error("rate_limit_exceeded"), BUSY),
                    (error("insufficient_quota"), NO_MONEY),
                    (failed("server_error"), FAILED),
                    (failed("rate_limit_exceeded"), BUSY),
                    (failed("insufficient_quota"), NO_MONEY),
                    (failed("invalid_prompt"), REFUSED),
                ]
            }
            Spoken::Anthropic => {
                let error = |kind: &str| {
                    let error = format!(r#"{{"type":"{kind}","message":"so"}}"#);
                    format!("event: error\ndata: {{\"type\":\"error\",\"error\":{error},\"request_id\":\"r\"}}\n\n")
                };
                vec![
                    (error("overloaded_error"), FAILED),
                    (error("api_error"), FAILED),
                    (error("rate_limit_error"), BUSY),
                    (error("timeout_error"), ("RN1003", true)),
                    (error("billing_error"), NO_MONEY),
                    (error("invalid_request_error"), REFUSED),
                ]
            }
            Spoken::Gemini => {
                let error = |code: u16, status: &str| {
                    format!(r#"{{"error":{{"code":{code},"message":"so","status":"{status}"}}}}"#)
                };
                let data = |json: &str| format!("data: {json}\n\n");
                vec![
                    (data(&error(503, "UNAVAILABLE")), FAILED),
                    (data(&error(429, "RESOURCE_EXHAUSTED")), BUSY),
                    (data(&format!("[{}]", error(503, "UNAVAILABLE"))), FAILED),
                    (data(&error(400, "INVALID_ARGUMENT")), REFUSED),
                    (data(&error(504, "DEADLINE_EXCEEDED")), ("RN1003", true)),
                ]
            }
        };
        for (error, became) in errors {
            let sent = [begun.as_str(), &error].concat();
            println!("{error}");
            becomes(spoken, became, move || Act::text(sent.clone()));
        }
    }
}

#[test]
fn an_end_that_nobody_knows_is_no_answer() {
    for spoken in ALL {
        for end in ["from_the_future", "", "pause_turn"] {
            let known = Turn::text(GOOD).thinking(1);
            let odd = Turn { end: Some(end), ..known };
            // Without any word the reply has no end.
            let is_none = end.is_empty() && matches!(spoken, Spoken::OpenAiChat | Spoken::Gemini);
            let code = if is_none { "RN1008" } else { "RN1009" };
            becomes(spoken, (code, true), move || spoken.reply(&odd));
        }
    }
}

/// Figures that are missing, odd or contradict themselves never cost an answer, and none is made up.
#[test]
fn odd_usage_figures_never_cost_an_answer() {
    for spoken in ALL {
        let figures = |members: &str| format!("{{{members}}}");
        let [input, output] = match spoken {
            Spoken::OpenAiChat => ["prompt_tokens", "completion_tokens"],
            Spoken::OpenAiResponses | Spoken::Anthropic => ["input_tokens", "output_tokens"],
            Spoken::Gemini => ["promptTokenCount", "candidatesTokenCount"],
        };
        let cached = match spoken {
            Spoken::OpenAiChat => r#""prompt_tokens_details":{"cached_tokens":900}"#,
            Spoken::OpenAiResponses => r#""input_tokens_details":{"cached_tokens":900}"#,
            Spoken::Anthropic => r#""cache_read_input_tokens":null,"cache_creation_input_tokens":"many""#,
            Spoken::Gemini => r#""cachedContentTokenCount":900"#,
        };
        let thoughts = match spoken {
            Spoken::OpenAiChat => r#""completion_tokens_details":{"reasoning_tokens":900}"#,
            Spoken::OpenAiResponses | Spoken::Anthropic => {
                r#""output_tokens_details":{"reasoning_tokens":900,"thinking_tokens":900}"#
            }
            // They are counted beside the output.
            Spoken::Gemini => r#""thoughtsTokenCount":0"#,
        };
        for (usage, counted) in [
            (None, None),
            (Some("{}".to_owned()), None),
            (Some("[]".to_owned()), None),
            (Some("7".to_owned()), None),
            // Gemini leaves out what is zero.
            (Some(figures(&format!(r#""{input}":5"#))), (spoken == Spoken::Gemini).then_some([5, 0])),
            (Some(figures(&format!(r#""{output}":5"#))), None),
            (Some(figures(&format!(r#""{input}":-5,"{output}":1180591620717411303424"#))), None),
            (Some(figures(&format!(r#""{input}":"many","{output}":[1]"#))), None),
            // More were cached than there were, and more thought than written.
            (Some(figures(&format!(r#""{input}":50,"{output}":5,{cached},{thoughts}"#))), Some([50, 5])),
        ] {
            let turn = Turn { usage: usage.clone(), ..Turn::text(GOOD) };
            let server = Server::new(move |_| spoken.reply(&turn));
            let said = spoken.client(&server, FRAGILE).run(&["run", "workflow.yaml", "--json"]);
            assert_eq!((said.code, server.requests().len()), (Some(0), 1), "{spoken:?} {usage:?} {said:?}");
            let settled = &said.event("call_settled")["usage"];
            let Some([prompt, output]) = counted else {
                assert_eq!(*settled, Value::Null, "{spoken:?} {usage:?}");
                continue;
            };
            assert_eq!(
                (&settled["prompt_tokens"], &settled["output_tokens"]),
                (&prompt.into(), &output.into()),
                "{spoken:?}"
            );
            assert!(settled["cached_tokens"].as_u64() <= Some(prompt), "{spoken:?} {settled}");
            assert!(settled["reasoning_tokens"].as_u64() <= Some(output), "{spoken:?} {settled}");
        }
    }
}

/// A body whose messages hold nothing that the provider attached.
fn without_reasoning(spoken: Spoken, body: &str) -> Value {
    let mut body: Value = serde_json::from_str(body).unwrap();
    match spoken {
        Spoken::OpenAiChat => {}
        Spoken::OpenAiResponses => {
            let items = body["input"].as_array_mut().unwrap();
            items.retain(|item| item["type"] != "reasoning");
            for item in items {
                // Ids name what was stored together with the reasoning.
                if item["type"] == "function_call" {
                    let item = item.as_object_mut().unwrap();
                    item.remove("id");
                    item.remove("status");
                }
            }
        }
        Spoken::Anthropic => {
            for message in body["messages"].as_array_mut().unwrap() {
                message["content"].as_array_mut().unwrap().retain(|block| block["type"] != "thinking");
            }
        }
        Spoken::Gemini => {
            let contents = body["contents"].as_array_mut().unwrap();
            let parts = contents.iter_mut().flat_map(|content| content["parts"].as_array_mut().unwrap());
            for part in parts.filter_map(Value::as_object_mut) {
                if let Some(signature) = part.get_mut("thoughtSignature") {
                    *signature = "skip_thought_signature_validator".into();
                }
                for name in ["functionCall", "functionResponse"] {
                    part.get_mut(name).and_then(Value::as_object_mut).map(|call| call.remove("id"));
                }
            }
        }
    }
    body
}

/// Law: a refused signature costs exactly one more request, which is not an attempt.
#[test]
fn reasoning_that_is_refused_once_is_left_out_from_then_on_and_no_retry_counts_for_it() {
    let invalid = |spoken: Spoken| match spoken {
        Spoken::OpenAiChat => None,
        Spoken::OpenAiResponses => Some(
            r#"{"error":{"message":"The encrypted content could not be verified.","type":"invalid_request_error","param":null,"code":"invalid_encrypted_content"}}"#,
        ),
        Spoken::Anthropic => Some(
            r#"{"type":"error","error":{"type":"invalid_request_error","message":"messages.1.content.0: Invalid `signature` in `thinking` block"}}"#,
        ),
        Spoken::Gemini => {
            Some(r#"{"error":{"code":400,"message":"Thought signature is not valid.","status":"INVALID_ARGUMENT"}}"#)
        }
    };
    for (spoken, refusal) in ALL.into_iter().filter_map(|spoken| Some((spoken, invalid(spoken)?))) {
        let server = Server::reading(move |number, request| match number {
            0 => spoken.reply(&Turn::calls(&["call_1"]).thinking(1)),
            _ if request.body.contains(&spoken.opaque(1)) => Act::refusal(400, "", refusal),
            2 => spoken.reply(&Turn::calls(&["call_2"])),
            _ => spoken.text(GOOD),
        });
        let once = FRAGILE.replace("attempts: 2", "attempts: 1");
        let said = spoken.client(&server, &once).run(&["run", "workflow.yaml", "--json"]);
        assert_eq!((said.code, retried(&said)), (Some(0), vec![]), "{spoken:?} {said:?}");
        let bodies: Vec<String> = server.requests().into_iter().map(|request| request.body).collect();
        assert_eq!(bodies.len(), 4, "what continues it is sent without it at once: {spoken:?}");
        assert!(bodies[1].contains(&spoken.returned(1)), "{spoken:?} {}", bodies[1]);
        let sent: Value = serde_json::from_str(&bodies[2]).unwrap();
        assert_eq!(sent, without_reasoning(spoken, &bodies[1]), "{spoken:?}");

        // A server that refuses the other form too is believed.
        let server = Server::new(move |number| match number {
            0 => spoken.reply(&Turn::calls(&["call_1"]).thinking(1)),
            _ => Act::refusal(400, "", refusal),
        });
        let said = spoken.client(&server, FRAGILE).run(&["run", "workflow.yaml", "--json"]);
        assert_eq!((said.code, retried(&said), server.requests().len()), (Some(5), vec![], 3), "{spoken:?} {said:?}");
        assert_eq!(said.event("error")["code"], "RN1006", "{spoken:?}");
    }
}
