//! The search paths for programs and modules.
//!
//! The working folder of a program was written by the author of the project, or by a tool. Its contents must not become
//! part of a program just because the program searches there.

use std::path::Path;

pub const DEFAULT_PATH: &str = "/usr/local/bin:/usr/bin:/bin";

/// Makes Python import neither from the working folder nor from the folder of its script
/// (<https://docs.python.org/3/using/cmdline.html#envvar-PYTHONSAFEPATH>). `PYTHONNOUSERSITE` is not set: projects do
/// not write to the user site, and the user's programs are installed there.
pub const PYTHON_SAFE_PATH: (&str, &str) = ("PYTHONSAFEPATH", "1");

/// Removes empty, `.` and other relative parts from a search path; the default path if nothing is left.
pub fn absolute_path(path: &str) -> String {
    let parts: Vec<&str> = path.split(':').filter(|part| Path::new(part).is_absolute()).collect();
    if parts.is_empty() { DEFAULT_PATH.to_owned() } else { parts.join(":") }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_search_path_has_no_relative_parts() {
        assert_eq!(absolute_path(":/usr/bin:.:bin:./x:../y::/bin:"), "/usr/bin:/bin");
        assert_eq!(absolute_path("/opt/a b/bin"), "/opt/a b/bin");
        for none in ["", ".", ":", "node_modules/.bin:~/bin"] {
            assert_eq!(absolute_path(none), DEFAULT_PATH, "{none:?}");
        }
    }
}
