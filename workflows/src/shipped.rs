//! The workflows inside the binary, each a folder of texts. Their paths start with `rondo:`.

use std::path::{Component, Path};

use crate::FILES;

/// The prefix of their file names.
pub const SCHEME: &str = "rondo:";

/// Whether a file is one of them. A folder on disk with the same name is not.
pub fn is_one(file: &str) -> bool {
    text(Path::new(file)).is_some()
}

/// The text of the file at `path`, such as `rondo:debate/prompts/host.md`.
pub fn text(path: &Path) -> Option<&'static str> {
    let path = path.to_str()?.strip_prefix(SCHEME)?;
    let parts: Vec<&str> = Path::new(path)
        .components()
        .filter(|part| !matches!(part, Component::CurDir))
        .map(|part| part.as_os_str().to_str())
        .collect::<Option<_>>()?;
    let path = parts.join("/");
    FILES.iter().find(|(name, _)| *name == path).map(|(_, text)| *text)
}

/// The names of the workflows.
pub fn names() -> impl Iterator<Item = &'static str> {
    FILES.iter().filter_map(|(path, _)| path.strip_suffix("/workflow.yaml")).filter(|name| !name.contains('/'))
}

/// The file of the workflow with a name.
pub fn file(name: &str) -> Option<String> {
    names().any(|known| known == name).then(|| format!("{SCHEME}{name}/workflow.yaml"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_workflow_is_there_with_its_prompts_and_script() {
        assert!(names().any(|name| name == "review-loop"));
        let file = file("review-loop").unwrap();
        assert!(text(Path::new(&file)).unwrap().contains("rondo: 1"));
        assert!(text(&Path::new(&file).parent().unwrap().join("./script.yaml")).is_some());
        assert!(is_one(&file) && !is_one("rondo:evil/workflow.yaml"));
        for other in ["rondo:review-loop/../debate/workflow.yaml", "rondo:none", "review-loop/workflow.yaml"] {
            assert_eq!(text(Path::new(other)), None, "{other}");
        }
    }
}
