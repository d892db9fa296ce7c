//! The page of the API: its commands, run in order by a shell against a server.

use std::process::{Command, Stdio};

use super::page;
use crate::binary::{Place, Running, binary};

/// The commands of the page.
fn commands(page: &str) -> String {
    let blocks = page.split("```sh\n").skip(1);
    blocks.map(|block| block.split("```").next().unwrap()).collect::<Vec<_>>().join("\n")
}

#[test]
fn every_command_of_the_page_does_what_it_says() {
    if Command::new("curl").arg("--version").output().is_err() {
        eprintln!("left out: curl is not installed");
        return;
    }
    let place = Place::new();
    let mut server = Running::of(place.command(["serve", "--port", "0", "--json"]));
    let address = server.event("serving")["address"].as_str().unwrap().to_owned();
    // One thread is read before the page's commands know that it has ended.
    let wait =
        format!("until api {address}/api/v1/threads/pools | grep --quiet '\"status\":\"done\"'; do sleep 0.1; done");
    let port = address.rsplit(':').next().unwrap();
    let text = commands(&page("api.md")).replace("http://127.0.0.1:7777", &address);
    let text = text.replace("serve-token-7777", &format!("serve-token-{port}"));
    let (before, after) = text.split_once("\nfor attempt").unwrap();
    let script = format!("set -euo pipefail\n{before}\n{wait}\nfor attempt{after}");
    let mut shell = Command::new("bash");
    shell.args(["-c", &script]).current_dir(place.path()).env("HOME", place.home());
    shell.env("PATH", format!("{}:{}", binary().parent().unwrap().display(), std::env::var("PATH").unwrap()));
    let done = shell.stdin(Stdio::null()).output().unwrap();
    let (said, told) = (String::from_utf8_lossy(&done.stdout), String::from_utf8_lossy(&done.stderr));
    assert!(done.status.success(), "{script}\n{said}\n{told}");
    // The request of the third step, and the last event of the stream.
    assert!(said.contains("\"seq\":3,") && said.contains("\nevent: thread_finished\n"), "{said}");
    let threads = place.run(["threads", "--json"]).exits(0).json();
    assert_eq!(threads.len(), 4, "one by hand, one by key, one fork and one for a chat client: {threads:?}");
}
