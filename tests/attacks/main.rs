//! What a stranger's folder, store, server or text tries against whoever runs this program in it.
//!
//! Each attempt goes through the binary, as the user of the tests and, where these are root, as another user too; and it
//! is made once more against a careless double below the public face of the binary, where it succeeds. An attempt that
//! succeeds nowhere would show nothing.

#![expect(
    clippy::unwrap_used,
    clippy::panic,
    clippy::indexing_slicing,
    reason = "what gets through, and a scene that cannot be made, fails its test"
)]

mod agreement;
mod approvals;
mod attempt;
mod changes;
mod commands;
mod double;
mod exchanges;
mod files;
mod imports;
mod keys;
mod records;
mod rewriting;
mod scene;
mod server;
mod servers;
mod settings;
mod stores;
mod terminal;
mod traces;
mod verbs;
mod workflows;

#[expect(dead_code, reason = "shared with the suite, which uses more of it")]
#[path = "../suite/binary.rs"]
mod binary;

use attempt::Attempt;

/// Attempts that there must be, and how many of them in shapes that nobody had named before.
const LEAST: (usize, usize) = (378, 279);

fn families() -> Vec<(&'static str, Vec<Attempt>)> {
    vec![
        ("settings", settings::attempts()),
        ("files of settings", files::attempts()),
        ("changes after consent", changes::attempts()),
        ("exchanges", exchanges::attempts()),
        ("agreement", agreement::attempts()),
        ("records and secret", records::attempts()),
        ("stores", stores::attempts()),
        ("imports", imports::attempts()),
        ("workflows", workflows::attempts()),
        ("servers", servers::attempts()),
        ("server", server::attempts()),
        ("terminal", terminal::attempts()),
        ("keys", keys::attempts()),
        ("commands", commands::attempts()),
        ("approvals", approvals::attempts()),
        ("rewriting", rewriting::attempts()),
    ]
}

#[test]
fn there_are_enough_attempts_and_each_has_a_name_of_its_own() {
    let families = families();
    let mut names = std::collections::BTreeSet::new();
    let (mut all, mut other) = (0, 0);
    for (family, attempts) in &families {
        let unnamed = attempts.iter().filter(|attempt| !attempt.is_named).count();
        println!("{family}: {} attempts, {unnamed} of other shapes", attempts.len());
        all += attempts.len();
        other += unnamed;
        for attempt in attempts {
            assert!(names.insert(attempt.name.clone()), "two attempts are called {:?}", attempt.name);
        }
    }
    println!("all: {all} attempts, {other} of other shapes");
    assert!(all >= LEAST.0 && other >= LEAST.1, "{all} attempts, {other} of other shapes");
}

#[test]
fn an_import_is_a_claim() {
    attempt::hold(&imports::attempts());
}

#[test]
fn the_server_is_its_users() {
    attempt::hold(&server::attempts());
}

#[test]
fn what_was_shown_is_what_runs() {
    attempt::hold(&exchanges::attempts());
}

#[test]
fn settings_of_a_clone_do_nothing_before_consent() {
    attempt::hold(&settings::attempts());
}

#[test]
fn files_of_settings_that_others_can_change_are_nobodys_word() {
    attempt::hold(&files::attempts());
}

#[test]
fn what_changed_after_consent_is_asked_again() {
    attempt::hold(&changes::attempts());
}

#[test]
fn only_what_was_shown_is_agreed_to() {
    attempt::hold(&agreement::attempts());
}

#[test]
fn records_and_secret_are_the_users_own() {
    attempt::hold(&records::attempts());
}

#[test]
fn a_store_that_came_with_a_folder_answers_nothing_and_leads_nowhere() {
    attempt::hold(&stores::attempts());
}

#[test]
fn a_workflow_that_came_with_a_folder_stays_in_it() {
    attempt::hold(&workflows::attempts());
}

#[test]
fn servers_start_and_hear_nothing_before_permission() {
    attempt::hold(&servers::attempts());
}

#[test]
fn texts_of_a_folder_do_not_speak_for_the_program() {
    attempt::hold(&terminal::attempts());
}

#[test]
fn keys_are_in_no_file_and_on_no_way_out() {
    attempt::hold(&keys::attempts());
}

#[test]
fn nobody_allows_what_nobody_was_shown() {
    attempt::hold(&approvals::attempts());
}

#[test]
fn denied_commands_are_known_in_disguise() {
    attempt::hold(&commands::attempts());
}

#[test]
fn tools_do_not_rewrite_a_workflow_that_the_user_agreed_to() {
    attempt::hold(&rewriting::attempts());
}
