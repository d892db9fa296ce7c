//! `rondo bench`: figures of this machine, and nothing that stays.

use std::fs;

use crate::binary::Place;

#[test]
fn a_machine_is_measured_and_nothing_stays() {
    let place = Place::new();
    let sizes = ["--steps", "20", "--threads", "2", "--lanes", "4"];
    let plotted = ["bench", "--json", "--plots", "plots", "--entries", "20"];
    let measured = place.run([&plotted[..], &sizes].concat()).exits(0).json();
    let names: Vec<&str> = measured.iter().map(|line| line["name"].as_str().unwrap()).collect();
    let steps =
        ["sync", "log", "memory"].map(|durability| ["p50", "p90"].map(|of| format!("step, {durability}, {of}")));
    let mut wanted = [vec!["rondo --version".to_owned()], steps.concat()].concat();
    wanted.extend(["2 threads, sync".to_owned(), "4 lanes of a thread, sync".to_owned()]);
    assert_eq!(names, wanted);
    for line in &measured {
        assert!(line["event"] == "figure" && line["value"].as_f64().unwrap() > 0.0, "{line}");
    }
    assert_eq!(measured[0]["reference"], "a program that does nothing");
    assert_eq!(measured[1]["reference"], "append and sync");
    for (plot, marks) in [("steps.svg", 2), ("lanes.svg", 1), ("threads.svg", 1), ("entries.svg", 2)] {
        let svg = fs::read_to_string(place.path().join("plots").join(plot)).unwrap();
        let panels = if cfg!(target_os = "linux") { 3 } else { 2 };
        assert_eq!(
            (svg.matches("<polyline").count(), svg.matches("<circle").count()),
            (panels, marks * panels),
            "{svg}"
        );
    }
    let left = fs::read_dir(place.path()).unwrap().map(|entry| entry.unwrap().file_name());
    assert_eq!(left.collect::<Vec<_>>(), ["plots"]);

    let table = place.run([&["bench"][..], &sizes].concat()).exits(0).text();
    assert!(table.starts_with("figure") && table.contains("step, sync, p50"), "{table}");
    place.run(["bench", "--steps", "1"]).exits(2);
    // Entries are only plotted.
    place.run(["bench", "--entries", "20"]).exits(2);
}

#[test]
fn a_workflow_of_the_users_is_measured_with_its_script() {
    let place = Place::new();
    let words = ["bench", "review-loop", "-i", "topic=tide pools", "--threads", "3"];
    let measured = place.run([&words[..], &["--json"]].concat()).exits(0).json();
    let names: Vec<&str> = measured.iter().map(|line| line["name"].as_str().unwrap()).collect();
    let threads =
        ["sync", "log", "memory"].map(|durability| ["p50", "p90"].map(|of| format!("a thread, {durability}, {of}")));
    assert_eq!(names, [&threads.concat()[..], &["3 threads at once, sync".to_owned()]].concat());
    assert!(measured.iter().all(|line| line["value"].as_f64().unwrap() > 0.0), "{measured:?}");
    assert_eq!(fs::read_dir(place.path()).unwrap().count(), 0);

    // What the workflow lacks is told as by `run`.
    let refused = place.run(["bench", "describe-image"]).exits(2);
    assert!(refused.stderr.contains("picture"), "{refused:?}");
    place.run(["bench", "review-loop", "--steps", "20"]).exits(2);
    place.run(["bench", "-i", "topic=tide pools"]).exits(2);
}
