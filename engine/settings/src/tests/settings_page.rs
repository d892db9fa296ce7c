//! `docs/settings.md` against the reader: every key has a row, every example is accepted, and the columns are true.

use std::collections::{BTreeMap, BTreeSet};

use rondo_agent_kit::sandbox::process::Limits;

use super::super::{layers, program};
use super::*;

const PAGE: &str = include_str!("../../../docs/settings.md");

/// No key is like it, so that the reader names all that it knows.
const UNKNOWN: &str = "zzzzzzzzzzzzzzzzzzzz";

struct Row {
    key: &'static str,
    default: &'static str,
    example: &'static str,
    in_project: &'static str,
}

/// The rows of each table of the settings, by its heading without brackets.
fn tables() -> BTreeMap<&'static str, Vec<Row>> {
    let mut tables = BTreeMap::new();
    for section in PAGE.split("\n#") {
        let (heading, text) = section.split_once('\n').unwrap();
        let Some(name) = heading.trim_start_matches(['#', ' ']).strip_prefix('[') else { continue };
        let code = |cell: &'static str| cell.trim().trim_matches('`');
        let row = |line: &'static str| {
            let cells: Vec<&str> = line.strip_prefix("| `")?.split(" | ").collect();
            let [key, _, default, example, in_project, _] = cells[..] else { panic!("{line}") };
            Some(Row { key: code(key), default: default.trim(), example: code(example), in_project })
        };
        tables.insert(name.trim_end_matches(']'), text.lines().filter_map(row).collect());
    }
    tables
}

/// The beginning of a file with the table, and with the keys that it cannot be without, but for `key`.
fn opening(table: &str, key: &str) -> String {
    let required: &[&str] = match table {
        "tool.NAME" | "hook.NAME" => &["argv = [\"make\"]"],
        "model.NAME.price" => &["input = 1", "output = 2"],
        "mcp.NAME" if ["url", "key_env", "headers_env"].contains(&key) => &["url = \"https://a\""],
        "mcp.NAME" => &["command = \"docs\""],
        _ => &[],
    };
    let mut text = match table {
        "mcp.NAME.sandbox" => "[mcp.x]\ncommand = \"docs\"\n".to_owned(),
        "hook.NAME.sandbox" => "[hook.x]\nargv = [\"policy\"]\n".to_owned(),
        _ => String::new(),
    };
    text.extend(["[", &table.replace("NAME", "x"), "]\n"]);
    let others = required.iter().filter(|line| !line.starts_with(&format!("{key} ")));
    text.extend(others.flat_map(|line| [*line, "\n"]));
    text
}

/// The keys that the reader knows in a table, from what it says of one that it does not know.
fn known(text: &str) -> BTreeSet<String> {
    let faults = read("rondo.toml", text, Layer::User).unwrap_err();
    let hints = faults.iter().filter_map(|fault| fault.hint.as_deref()?.strip_prefix("known here: "));
    hints.flat_map(|keys| keys.split(", ").map(str::to_owned)).collect()
}

#[test]
fn every_key_has_a_row() {
    let tables = tables();
    let top: BTreeSet<String> =
        tables.keys().map(|table| table.trim_start_matches('[').split('.').next().unwrap().to_owned()).collect();
    assert_eq!(top, known(&format!("{UNKNOWN} = 1\n")));
    for (table, rows) in tables.iter().filter(|(table, _)| **table != "[impose") {
        let keys: BTreeSet<String> = rows.iter().map(|row| row.key.to_owned()).collect();
        assert_eq!(keys, known(&format!("{}{UNKNOWN} = 1\n", opening(table, ""))), "[{table}]");
    }
}

#[test]
fn every_example_is_accepted_and_counts_or_asks_as_its_row_says() {
    for (table, rows) in tables() {
        for Row { key, example, in_project, .. } in rows {
            let text = format!("{}{example}\n", opening(table, key));
            let user = read("config.toml", &text, Layer::User);
            assert!(user.is_ok(), "{text}{user:?}");
            let project = read("rondo.toml", &text, Layer::Project).unwrap();
            let asks = !layers::asks(&project, &Stated::default()).is_empty();
            let counts = layers::without_asking(&project, &Stated::default()) != Stated::default();
            let word = match (asks, counts) {
                (true, _) => "asks",
                (false, true) => "counts",
                (false, false) => "never",
            };
            assert_eq!(in_project.split(';').next(), Some(word), "{text}");
        }
    }
    let blocks = PAGE.split("\n```toml\n").skip(1).map(|rest| rest.split("\n```").next().unwrap());
    let faults: Vec<_> = blocks.filter_map(|block| read("config.toml", block, Layer::User).err()).collect();
    assert_eq!(faults, Vec::<Vec<_>>::new());
}

/// The rows of a table whose default is a value, written as a file.
fn defaults(table: &str) -> String {
    let rows = &tables()[table];
    let value = |row: &&Row| row.default.starts_with('`') && !row.default[1..].starts_with(char::is_alphabetic);
    let lines = rows.iter().filter(value).map(|row| format!("{} = {}\n", row.key, row.default.trim_matches('`')));
    opening(table, "").replace("[provider.x]", "[provider.openai]") + &lines.collect::<String>()
}

#[test]
fn the_defaults_are_those_of_the_program() {
    let (stated, without) =
        (in_force(&defaults("store"), &Flags::default(), &[]), in_force("", &Flags::default(), &[]));
    assert_eq!((&stated.store.value, stated.durability.value), (&without.store.value, without.durability.value));
    let stated = in_force(&defaults("provider.NAME"), &Flags::default(), &[]);
    let values = |settings: &Settings| {
        let provider = &settings.providers["openai"];
        let times = (provider.connect_timeout_ms.value, provider.idle_timeout_ms.value);
        (provider.base_url.value.clone(), provider.key_env.value.clone(), times, provider.prompt_cache.value)
    };
    assert_eq!(values(&stated), values(&without));
    assert!(stated.providers["openai"].connect_timeout_ms.from != Origin::Default);

    let tool = |text: &str| {
        let stated = read("rondo.toml", text, Layer::User).unwrap();
        format!("{:?}", program::settings("x", &stated.tools["x"], None))
    };
    assert_eq!(tool(&defaults("tool.NAME")), tool(&opening("tool.NAME", "")));

    let totals = read("rondo.toml", &defaults("sandbox"), Layer::User).unwrap().sandbox;
    let most = Limits::default();
    assert_eq!(
        (totals.memory_bytes, totals.processes, totals.disk_bytes),
        (Some(most.memory_bytes), Some(most.processes), Some(most.file_bytes))
    );
}
