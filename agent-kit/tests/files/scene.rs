//! A folder with files, and the tools on it.

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use rondo_agent_kit::redact::Redactor;
use rondo_agent_kit::sandbox::files::{Access, Workspace};
use rondo_agent_kit::tool::{Error, Invocation, Tool, file_tools};
use rondo_protocol::call::Effect;
use rondo_protocol::canonical;
use rondo_protocol::file::File;
use rondo_protocol::read_set::ReadSet;
use serde_json::Value;
use tempfile::TempDir;

pub struct Scene {
    folder: TempDir,
    pub workspace: Arc<Workspace>,
    tools: Vec<Arc<dyn Tool>>,
    pub redactor: Redactor,
}

impl Scene {
    /// With these files, everything granted.
    pub fn of(files: &[(&str, &str)]) -> Self {
        Self::granting(&["."], &["."], files)
    }

    pub fn granting(read: &[&str], write: &[&str], files: &[(&str, &str)]) -> Self {
        let folder = tempfile::tempdir().unwrap();
        for (path, text) in files {
            let path = folder.path().join(path);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, text).unwrap();
        }
        let paths = |paths: &[&str]| paths.iter().map(PathBuf::from).collect();
        let access = Access { read: paths(read), write: paths(write), hidden: paths(&[".rondo"]), ..Access::default() };
        let workspace = Arc::new(Workspace::open(folder.path(), access).unwrap());
        let tools = file_tools(&workspace);
        Self { folder, workspace, tools, redactor: Redactor::default() }
    }

    pub fn path(&self) -> &Path {
        self.folder.path()
    }

    pub fn text(&self, path: &str) -> String {
        fs::read_to_string(self.path().join(path)).unwrap()
    }

    fn tool(&self, name: &str) -> &Arc<dyn Tool> {
        self.tools.iter().find(|tool| tool.spec().name == name).unwrap()
    }

    pub fn call(&self, tool: &str, arguments: &Value) -> Result<String, Error> {
        self.watched(tool, arguments).0
    }

    /// The files that a call answers with.
    pub fn files(&self, tool: &str, arguments: &Value) -> Vec<File> {
        let arguments = canonical::from_slice(arguments.to_string().as_bytes()).unwrap();
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        runtime.block_on(self.tool(tool).run(arguments, &Invocation::new("key"))).unwrap().files
    }

    /// What a call answers, and what it saw.
    pub fn watched(&self, tool: &str, arguments: &Value) -> (Result<String, Error>, Option<ReadSet>) {
        let arguments = canonical::from_slice(arguments.to_string().as_bytes()).unwrap();
        let invocation = Invocation { redactor: self.redactor.clone(), ..Invocation::new("key") };
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        let result = runtime.block_on(self.tool(tool).run(arguments, &invocation));
        (result.map(|content| content.text), invocation.watch.take())
    }

    /// What so many calls answer that are made at once.
    pub fn at_once(&self, count: usize, tool: &str, arguments: &Value) -> Vec<Result<String, Error>> {
        let arguments: rondo_protocol::Value = canonical::from_slice(arguments.to_string().as_bytes()).unwrap();
        let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(4).enable_all().build().unwrap();
        let call = || {
            let (tool, arguments) = (Arc::clone(self.tool(tool)), arguments.clone());
            runtime.spawn(async move { tool.run(arguments, &Invocation::new("key")).await.map(|content| content.text) })
        };
        let calls: Vec<_> = (0..count).map(|_| call()).collect();
        calls.into_iter().map(|call| runtime.block_on(call).unwrap()).collect()
    }

    /// What a call answers, errors as a model is shown them.
    pub fn says(&self, tool: &str, arguments: &Value) -> String {
        self.call(tool, arguments).unwrap_or_else(|error| error.to_string())
    }

    pub fn effect(&self, tool: &str, arguments: &Value) -> Effect {
        self.tool(tool).effect(&canonical::from_slice(arguments.to_string().as_bytes()).unwrap())
    }

    pub fn specs(&self) -> Vec<(String, String)> {
        self.tools.iter().map(|tool| (tool.spec().name.clone(), tool.spec().parameters.clone())).collect()
    }

    /// Every name in the folder, deep.
    pub fn names(&self) -> Vec<String> {
        let mut names = Vec::new();
        let mut left = vec![self.path().to_owned()];
        while let Some(folder) = left.pop() {
            for entry in fs::read_dir(folder).unwrap().map(Result::unwrap) {
                if entry.file_type().unwrap().is_dir() {
                    left.push(entry.path());
                } else {
                    names.push(entry.path().strip_prefix(self.path()).unwrap().to_str().unwrap().to_owned());
                }
            }
        }
        names.sort();
        names
    }
}
