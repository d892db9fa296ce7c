//! The fixed list of tools whose results are never kept, whatever effect they declare: what they are called for is what
//! they do, or what they fetch is never the same for long.
//!
//! The list can be added to (`exclude`) and never taken from. A name is compared by its last part (`server.write_file`),
//! letters and digits alone: `WriteFile` and `write-file` are no way around it.

/// The list, by kind.
const DENIED: &[&[&str]] = &[
    // Shells: anything may happen.
    &["shell", "bash", "sh", "shell_exec", "exec", "run_command"],
    // Writers of files.
    &["write", "write_file", "edit_file", "create_file", "delete_file", "move_file", "apply_patch"],
    // Version control and what is put out.
    &["commit", "git_commit", "push", "git_push", "deploy", "send_email"],
    // Databases and the network.
    &["execute_sql", "http_request", "http_get", "http_post", "fetch"],
    // Memories and clocks of an agent.
    &["memory_save", "memory_search", "scheduler"],
];

/// Whether the list holds a tool of that name.
pub fn is_denied(name: &str) -> bool {
    DENIED.iter().copied().flatten().any(|denied| means(denied, name))
}

/// Whether a listed name means a tool: by its whole name or by the last part of it.
pub fn means(listed: &str, name: &str) -> bool {
    let last = name.rsplit(['.', '/', ':']).next().unwrap_or(name);
    let last = last.rsplit("__").next().unwrap_or(last);
    let listed = folded(listed);
    !listed.is_empty() && (listed == folded(name) || listed == folded(last))
}

fn folded(name: &str) -> String {
    name.chars().filter(|char| char.is_alphanumeric()).flat_map(char::to_lowercase).collect()
}
