//! The same from the command line: `review-loop` run twice, `rondo cache`, `--cache`, and what `show` tells of it.

use std::path::Path;

use serde_json::Value;

use crate::binary::{Finished, Place};

/// A place that holds the workflow that ships.
fn place() -> Place {
    let place = Place::new();
    let shipped = Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap().join("workflows/review-loop");
    for name in ["workflow.yaml", "script.yaml", "prompts/writer.md", "prompts/editor.md", "prompts/rewrite.md"] {
        place.file(&format!("review-loop/{name}"), std::fs::read(shipped.join(name)).unwrap());
    }
    place
}

fn run(place: &Place, more: &[&str]) -> Finished {
    place.run(["run", "review-loop", "--offline", "--json"].iter().chain(more)).exits(0)
}

/// Who answered each step of the last thread: role, visit, whether a hook did.
fn steps(place: &Place) -> Vec<(String, u64, bool)> {
    let shown = place.run(["show", "last", "--json"]).exits(0);
    let steps = shown.events("step").into_iter().map(|step| {
        let by_hook = step["note"]["answered_by"] == "response_cache";
        assert_eq!(step["note"]["cost_usd"].is_null(), !by_hook, "what a hook answered costs 0, and says so: {step}");
        (step["role"].as_str().unwrap().to_owned(), step["visit"].as_u64().unwrap(), by_hook)
    });
    steps.collect()
}

#[test]
fn the_second_run_of_review_loop_asks_no_model_and_an_edited_prompt_asks_only_for_what_follows_from_it() {
    let place = place();
    let first = run(&place, &[]);
    assert!(steps(&place).iter().all(|(_, _, by_hook)| !by_hook));
    let second = run(&place, &[]);
    assert_eq!(first.event("thread_finished")["head"], second.event("thread_finished")["head"]);
    assert_eq!(first.event("thread_finished")["result"], second.event("thread_finished")["result"]);
    let steps_of_second = steps(&place);
    assert!(steps_of_second.iter().all(|(_, _, by_hook)| *by_hook), "{steps_of_second:?}");
    let answered = second.events("hook_answered");
    assert_eq!(answered.len(), steps_of_second.len());
    assert!(answered.iter().all(|event| event["key"].as_str().is_some_and(|key| key.len() == 64)));
    let totals = place.run(["threads", "--json"]).json().pop().unwrap();
    assert_eq!(
        (&totals["totals"]["cost_usd"], &totals["totals"]["prompt_tokens"]),
        (&Value::from(0.0), &Value::from(0))
    );
    let shown = place.run(["show", "last"]).exits(0).text();
    assert!(shown.contains("by response_cache"), "{shown}");
    assert!(shown.contains("response_cache: answered 6 calls; hits 6, lookups 6"), "{shown}");

    let edited = std::fs::read_to_string(place.path().join("review-loop/prompts/editor.md")).unwrap();
    place.file("review-loop/prompts/editor.md", format!("{edited}\nBe brief.\n"));
    run(&place, &[]);
    for (role, visit, by_hook) in steps(&place) {
        // The script's editor says the same as before, so that the writer is asked the same.
        assert_eq!(by_hook, role == "writer", "{role}, visit {visit}");
    }
    let explained = place.run(["cache", "explain", "last:2"]).exits(0).text();
    assert!(!explained.contains("tool_cache"), "the thread has no such hook: {explained}");
    let differs: Vec<&str> = explained.lines().filter(|line| line.contains("differs: ")).collect();
    assert!(matches!(differs.as_slice(), [line] if line.trim().starts_with("system")), "{explained}");
    let line = place.run(["cache", "explain", "last:2", "--json"]).exits(0).json().remove(0);
    assert_eq!(line["outcome"], "absent");
    assert_eq!(line["differs"].as_object().unwrap().keys().collect::<Vec<_>>(), ["system"]);
}

#[test]
fn a_thread_without_a_cache_and_one_whose_cache_the_operator_imposed_are_told_apart() {
    let place = place();
    let file = place.path().join("review-loop/workflow.yaml");
    let text = std::fs::read_to_string(&file).unwrap();
    std::fs::write(&file, text.replacen("hooks:\n  - { use: response_cache, ttl: 24h }\n", "", 1)).unwrap();
    run(&place, &[]);
    let explained = place.run(["cache", "explain", "last:1"]).exits(0);
    assert_eq!(explained.text().trim_end(), "the thread has no hook of the kind response_cache or tool_cache");
    assert!(place.run(["cache", "explain", "last:1", "--json"]).exits(0).json().is_empty());

    place.settings("[[impose]]\nuse = \"response_cache\"\n");
    run(&place, &[]);
    let explained = place.run(["cache", "explain", "last:1"]).exits(0).text();
    assert!(explained.contains("imposed_1_response_cache: absent") && !explained.contains("tool_cache"), "{explained}");
}

#[test]
fn what_is_kept_is_counted_cleared_and_filled_again() {
    let place = place();
    run(&place, &[]);
    run(&place, &[]);
    let stats = place.run(["cache", "stats", "--json"]).exits(0).json();
    let writer = stats.iter().find(|line| line["kind"] == "response_cache" && line["role"] == "writer").unwrap();
    let figure = |name: &str| writer[name].as_u64();
    assert_eq!((figure("lookups"), figure("hits"), figure("misses")), (Some(6), Some(3), Some(3)));
    assert_eq!((figure("entries"), figure("recorded"), figure("expired")), (Some(3), Some(3), Some(0)));
    assert!(figure("bytes") > Some(1000));
    let table = place.run(["cache", "stats"]).exits(0).text();
    assert!(table.contains("lookups") && table.contains("review-loop"), "{table}");

    let cleared = place.run(["cache", "clear", "--role", "editor", "--json"]).exits(0).json();
    let cleared = cleared.iter().find(|line| line["kind"] == "response_cache").unwrap();
    assert_eq!(cleared["forgotten"], 3);
    run(&place, &[]);
    assert!(steps(&place).iter().all(|(role, _, by_hook)| *by_hook == (role == "writer")));

    place.run(["cache", "clear", "--older-than", "1h"]).exits(0);
    run(&place, &[]);
    assert!(steps(&place).iter().all(|(_, _, by_hook)| *by_hook), "what is younger than an hour was cleared");
    place.run(["cache", "clear"]).exits(0);
    run(&place, &["--cache", "off"]);
    let warmed = place.run(["cache", "warm", "last", "--json"]).exits(0).json();
    let warmed = warmed.iter().find(|line| line["kind"] == "response_cache").unwrap();
    assert_eq!((&warmed["calls"], &warmed["kept"]), (&Value::from(6), &Value::from(6)));
    run(&place, &[]);
    assert!(steps(&place).iter().all(|(_, _, by_hook)| *by_hook), "what was filled again was not found");
}

#[test]
fn a_script_that_was_edited_is_never_answered_by_the_old_one() {
    let place = place();
    run(&place, &[]);
    let script = std::fs::read_to_string(place.path().join("review-loop/script.yaml")).unwrap();
    place.file("review-loop/script.yaml", format!("{script}\n"));
    run(&place, &[]);
    assert!(steps(&place).iter().all(|(_, _, by_hook)| *by_hook), "a blank line is no other answer");
    place.file("review-loop/script.yaml", script.replacen("tide pools", "rock pools", 1));
    run(&place, &[]);
    assert!(steps(&place).iter().all(|(_, _, by_hook)| !by_hook));
}

#[test]
fn a_step_or_a_thread_that_is_none_is_said_so() {
    let place = place();
    assert!(place.run(["cache", "stats"]).exits(2).stderr.contains("there is no store"));
    run(&place, &[]);
    for (words, said) in [
        (["cache", "explain", "nothing"], "is no step"),
        (["cache", "explain", "last:99"], "has no step 99"),
        (["cache", "warm", "zzz"], "no thread has the name \"zzz\""),
    ] {
        let ended = place.run(words).exits(2);
        assert!(ended.stderr.contains(said), "{words:?}: {}", ended.stderr);
    }
    assert!(place.run(["cache", "clear", "--older-than", "soon"]).exits(2).stderr.contains("is not a duration"));
    assert!(place.run(["run", "review-loop", "--offline", "--cache", "maybe"]).exits(2).stderr.contains("--cache"));
}

/// A run whose calls could all be answered by what was kept is recorded whole, and plays where nothing was kept.
#[test]
fn a_recording_does_without_what_was_kept() {
    let recording = place();
    let first = run(&recording, &[]);
    recording.run(["record", "review-loop", "--offline", "--to", "a.jsonl", "--json"]).exits(0);
    assert!(steps(&recording).iter().all(|(_, _, by_hook)| !by_hook), "every call reached its port");

    let playing = place();
    let cassette = playing.file("a.jsonl", std::fs::read(recording.path().join("a.jsonl")).unwrap());
    let play =
        |words: &[&str]| playing.run(["run", "review-loop", "--recorded", &cassette, "--json"].iter().chain(words));
    let played = play(&[]).exits(0);
    assert_eq!(played.event("thread_finished")["head"], first.event("thread_finished")["head"]);
    // What a recording said is kept for that recording, and not for the script that was recorded.
    play(&[]).exits(0);
    assert!(steps(&playing).iter().all(|(_, _, by_hook)| *by_hook));
    run(&playing, &[]);
    assert!(steps(&playing).iter().all(|(_, _, by_hook)| !by_hook));
}

/// Whoever can write the store cannot answer in a model's place, and losing the secret costs answers and nothing else.
#[test]
fn without_the_secret_that_they_were_kept_with_answers_are_misses_and_no_error() {
    let place = place();
    let first = run(&place, &[]);
    std::fs::remove_file(place.home().join(".local/share/rondo/secret")).unwrap();
    let second = run(&place, &["--trust"]);
    assert_eq!(first.event("thread_finished")["head"], second.event("thread_finished")["head"]);
    assert!(steps(&place).iter().all(|(_, _, by_hook)| !by_hook), "an answer kept with another secret was given");

    let shown = place.run(["trust", "--store", "--json"]).exits(3).event("trust");
    place.run(["trust", "--store", "--yes", shown["digest"].as_str().unwrap()]).exits(0);
    run(&place, &[]);
    run(&place, &[]);
    assert!(steps(&place).iter().all(|(_, _, by_hook)| *by_hook), "nothing was kept with the new secret");
}
