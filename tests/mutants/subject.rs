//! What is mutated: a workflow's folder, read whole.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use rondo_author::scenario::{Definition, Suite};
use rondo_protocol::diagnostic::Diagnostic;
use rondo_protocol::source::{self, Node};
use rondo_protocol::workflow;

use crate::mutant::FILE;
use crate::tree;

/// The workflows that ship.
const SHIPPED: [&str; 8] =
    ["debate", "fix-failing-test", "map-files", "panel", "repo-report", "review-diff", "review-loop", "triage"];

/// A workflow with its scenarios.
#[derive(Debug)]
pub struct Subject {
    /// Its name.
    pub name: String,
    /// Where it stands.
    pub folder: PathBuf,
    /// The workflow file as a tree.
    pub root: Node,
    /// What the workflow may include, by paths from its folder.
    pub files: BTreeMap<String, String>,
    /// Its scenarios and what was accepted of them.
    pub suite: Suite,
}

impl Subject {
    /// Every workflow that ships.
    pub fn shipped() -> Vec<Self> {
        let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../workflows");
        SHIPPED.iter().map(|name| Self::read(&folder.join(name), name)).collect()
    }

    /// The workflow in `folder`.
    pub fn read(folder: &Path, name: &str) -> Self {
        let text = std::fs::read_to_string(folder.join(FILE)).unwrap();
        let root = source::yaml(&text).unwrap_or_else(|fault| panic!("{name}: {fault}"));
        let mut files = BTreeMap::from([(FILE.to_owned(), text)]);
        let mut prompts: Vec<PathBuf> = match std::fs::read_dir(folder.join("prompts")) {
            Ok(entries) => entries.map(|entry| entry.unwrap().path()).collect(),
            Err(_) => Vec::new(),
        };
        prompts.sort();
        for path in prompts {
            let name = format!("prompts/{}", path.file_name().unwrap().to_string_lossy());
            files.insert(name, std::fs::read_to_string(&path).unwrap());
        }
        let suite = Suite::read(&folder.join(FILE)).unwrap();
        assert!(!suite.is_empty(), "{name} has no scenarios");
        Self { name: name.to_owned(), folder: folder.to_path_buf(), root, files, suite }
    }

    /// The definition with these files in place of its own.
    ///
    /// # Errors
    /// What `rondo validate` would say.
    pub fn definition(&self, others: &BTreeMap<String, String>) -> Result<Definition, Vec<Diagnostic>> {
        let mut files = self.files.clone();
        files.extend(others.iter().map(|(name, text)| (name.clone(), text.clone())));
        let text = files.get(FILE).cloned().unwrap_or_default();
        Definition::of(FILE, workflow::read(FILE, &text, &files)?)
    }

    /// The workflow unchanged, as every mutant is written.
    pub fn as_tree(&self) -> BTreeMap<String, String> {
        BTreeMap::from([(FILE.to_owned(), tree::json(&self.root))])
    }

    /// Whether the workflow still checks with these files.
    pub fn checks(&self, others: &BTreeMap<String, String>) -> bool {
        self.definition(others).is_ok()
    }
}
