//! The pages that `rondo explain` prints, the tutorial and the README: held to the program, and their examples run.

mod api;
mod durability;
mod lines;
mod readme;
mod reference;
mod scenarios;
mod tutorial;
mod variables;

use std::path::Path;

/// The text of a page.
fn page(name: &str) -> String {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../engine/docs").join(name);
    std::fs::read_to_string(path).unwrap()
}

/// The code blocks of a page in a language.
fn blocks(page: &str, language: &str) -> Vec<String> {
    let blocks = page.split("\n```").skip(1).step_by(2);
    let of = |block: &str| block.strip_prefix(language)?.strip_prefix('\n').map(str::to_owned);
    blocks.filter_map(of).collect()
}
