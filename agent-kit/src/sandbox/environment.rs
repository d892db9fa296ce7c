//! Where the programs that are started look for other programs and for modules.
//!
//! What lies in the folder that a program starts in was written by the author of the project, or by a tool. It must not
//! become a part of a program only because that looks there.

use std::path::Path;

/// The path that is searched for programs when none is allowed from outside.
pub const DEFAULT_PATH: &str = "/usr/local/bin:/usr/bin:/bin";

/// Tells Python to import neither from the folder that it starts in nor from that of its script
/// (<https://docs.python.org/3/using/cmdline.html#envvar-PYTHONSAFEPATH>). `PYTHONNOUSERSITE` is not set beside it: the
/// user's own site is no place where a project writes, and programs that the user installed live there.
pub const PYTHON_SAFE_PATH: (&str, &str) = ("PYTHONSAFEPATH", "1");

/// A search path without what depends on the folder that a program starts in: empty parts, `.` and other relative
/// ones. One that has nothing else is the usual one.
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
