//! Law `vocabulary`: the runtime does not know caches. The word stands in the two hook kinds that keep answers, and where
//! a *provider's* own is meant; nowhere else in the sources.

use std::path::{Path, PathBuf};

/// Where the word may stand: the two kinds, the store's settings of RocksDB, and the provider's fields.
const ROOMS: [&str; 5] = [
    "engine/src/hook/kinds/response_cache",
    "engine/src/hook/kinds/tool_cache",
    "engine/src/store/rocks.rs",
    "engine/src/store/rocks/opening.rs",
    "agent-kit/src/model",
];

/// Names that hold the word and mean none of rondo's own, with the places where they stand.
const NAMES: [(&str, &str); 13] = [
    // Figures of a provider, as its interface and ours call them.
    ("", "cached_tokens"),
    ("", "cached_input"),
    ("", "cache_write"),
    // The operator's keys for what is sent to a provider, in the reader of the operator's file.
    ("engine/src/config/", "prompt_cache"),
    // What a person is told of a provider's figures.
    ("engine/src/cli/show.rs", "% cached)"),
    ("engine/src/cli/doctor.rs", "{} in, {} cached, {} out"),
    // What a file may name, in the one table that its reader has.
    ("protocol/src/workflow/hooks.rs", "response_cache"),
    ("protocol/src/workflow/hooks.rs", "tool_cache"),
    // The lines of the registry.
    ("engine/src/hook/kinds/mod.rs", "_cache"),
    ("engine/src/hook/kinds/mod.rs", "Cache::default"),
    // Names of the system and of the standard library.
    ("protocol/src/", "sort_by_cached_key"),
    ("agent-kit/src/", "ld.so.cache"),
    ("agent-kit/src/sandbox/credentials.rs", ".cache/huggingface"),
];

/// Calls of the MCP package, which has the word in two names.
const OF_PACKAGES: [&str; 2] = ["ClientCacheConfig", "set_response_cache_config"];

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap().to_path_buf()
}

fn sources(folder: &Path, found: &mut Vec<PathBuf>) {
    let mut entries: Vec<PathBuf> = std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path()).collect();
    entries.sort();
    for path in entries {
        if path.is_dir() {
            sources(&path, found);
        } else if path.extension().is_some_and(|extension| extension == "rs") {
            found.push(path);
        }
    }
}

/// The lines of a file in which the word stands although it may not.
fn strays(file: &str, text: &str) -> Vec<String> {
    if ROOMS.iter().any(|room| file.starts_with(room)) {
        return Vec::new();
    }
    let mut strays = Vec::new();
    for (number, line) in text.lines().enumerate() {
        let mut rest = line.to_owned();
        for (room, name) in NAMES {
            if file.starts_with(room) {
                rest = rest.replace(name, "");
            }
        }
        for name in OF_PACKAGES {
            rest = rest.replace(name, "");
        }
        if rest.to_lowercase().contains("cach") || rest.to_lowercase().contains("memoi") {
            strays.push(format!("{file}:{}: {}", number + 1, line.trim()));
        }
    }
    strays
}

#[test]
fn vocabulary() {
    let root = root();
    let mut files = Vec::new();
    for crate_name in ["protocol", "agent-kit", "engine"] {
        sources(&root.join(crate_name).join("src"), &mut files);
    }
    assert!(files.len() > 200, "only {} sources were found", files.len());
    let mut found = Vec::new();
    for path in files {
        let name = path.strip_prefix(&root).unwrap().to_string_lossy().into_owned();
        found.extend(strays(&name, &std::fs::read_to_string(&path).unwrap()));
    }
    assert!(found.is_empty(), "the runtime does not know caches:\n{}", found.join("\n"));
}

#[test]
fn a_line_with_the_word_is_found() {
    assert_eq!(strays("engine/src/scheduler/worker.rs", "let a = 1;\nlet cache = 2;").len(), 1);
    assert_eq!(strays("engine/src/scheduler/worker.rs", "// Memoised: see above").len(), 1);
    assert_eq!(strays("engine/src/scheduler/worker.rs", "ResponseCache::default()").len(), 1);
    assert_eq!(strays("engine/src/scheduler/worker.rs", "usage.cached_tokens"), Vec::<String>::new());
    assert_eq!(strays("engine/src/hook/kinds/tool_cache/mod.rs", "a cache"), Vec::<String>::new());
}
