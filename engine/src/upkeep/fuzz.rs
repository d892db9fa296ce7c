//! What an import takes, for cargo-fuzz and its seeded twin: any bytes are a whole export, or refused.

#![expect(clippy::expect_used, reason = "a check says what it expects by failing")]

use rondo_protocol::Digest;
use serde_json::{Value, json};

use super::transfer::{Chosen, Staged, export, stage};

/// The time of an import, in Unix milliseconds.
const NOW_MS: u64 = 2_000_000_000_000;

/// An import file. One that is accepted is exported again to a file that is accepted and exported to the same bytes.
pub fn import(input: &[u8]) {
    // Most changes break the digest in the last line, so that it is mostly made to fit.
    let file = if input.len().is_multiple_of(8) { input.to_vec() } else { sealed(input) };
    let written = |staged: &Staged| {
        let mut lines = Vec::new();
        let written = export(staged.store(), &Chosen::All, None, &mut |line| {
            lines.extend_from_slice(line);
            Ok(true)
        });
        written.expect("what was accepted is exported");
        lines
    };
    let Ok(first) = stage(&*file).map(|staged| written(&staged)) else { return };
    let staged = stage(&*first).expect("what was exported is accepted");
    assert!(first == written(&staged), "an export depends on more than its threads");
    // As somebody else's it is reduced to something that is accepted too, or refused.
    if staged.claimed(NOW_MS).is_ok() {
        let again = stage(&*written(&staged)).expect("what was claimed is accepted");
        written(&again);
    }
}

/// The lines with a last line that counts and hashes them.
fn sealed(input: &[u8]) -> Vec<u8> {
    let is_other = |line: &&[u8]| !line.starts_with(b"{\"end\"") && line.ends_with(b"\n");
    let lines: Vec<&[u8]> = input.split_inclusive(|byte| *byte == b'\n').filter(is_other).collect();
    let count = |name: &str| {
        let members = lines.iter().filter_map(|line| serde_json::from_slice::<Value>(line).ok());
        members.filter(|line| line.get(name).is_some()).count()
    };
    let mut sealed = lines.concat();
    let sha256 = Digest::sha256(&sealed).to_string();
    let end = json!({"threads": count("thread"), "steps": count("step"), "objects": count("object"),
                     "batches": count("batch"), "sha256": sha256});
    sealed.extend_from_slice(format!("{}\n", json!({ "end": end })).as_bytes());
    sealed
}
