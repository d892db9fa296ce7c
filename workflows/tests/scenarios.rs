//! Every workflow passes its scenarios: what `rondo test workflows --check` does.

#![expect(clippy::unwrap_used, reason = "a test says what it expects by failing")]

use std::path::{Path, PathBuf};

use rondo_author::scenario::{Definition, Options, Suite, Verdict};
use rondo_protocol::workflow;
use rondo_settings::files::FolderFiles;

/// How many scenarios each workflow has at least.
const LEAST: usize = 3;

fn shipped() -> Vec<PathBuf> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR"));
    let folders = std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path());
    let mut files: Vec<PathBuf> =
        folders.map(|folder| folder.join("workflow.yaml")).filter(|file| file.is_file()).collect();
    files.sort();
    files
}

#[test]
fn every_workflow_passes_its_scenarios() {
    let files = shipped();
    assert!(!files.is_empty());
    for file in files {
        let shown = file.display();
        let suite = Suite::read(&file).unwrap();
        assert!(suite.len() >= LEAST, "{shown}: {} scenarios", suite.len());
        assert_eq!(suite.pending.len(), 0, "{shown}: snapshots wait to be looked at");
        let text = std::fs::read_to_string(&file).unwrap();
        let (name, files) = (file.to_str().unwrap(), FolderFiles::new(file.parent().unwrap()));
        let definition = workflow::read(name, &text, &files)
            .and_then(|checked| Definition::of(name, checked))
            .unwrap_or_else(|faults| panic!("{shown}: {faults:?}"));
        let report = suite.run(&definition, &Options::default());
        for tested in &report.scenarios {
            assert_eq!(tested.verdict, Verdict::Passed, "{tested:#?}");
        }
        assert!(report.is_passed(), "{shown}: {:?}", report.stale);
    }
}
