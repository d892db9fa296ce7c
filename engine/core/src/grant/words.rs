//! Splits a call of `shell` into words like the shell.
//!
//! Only a command that consists of plain words can be identified by them. One with an operator, an expansion or a
//! pattern may run anything, and so may a program that runs another one.

use rondo_protocol::Value;

/// Programs that run their arguments or input as programs.
const RUN_OTHERS: [&str; 47] = [
    "sh", "bash", "dash", "ash", "zsh", "ksh", "mksh", "fish", "csh", "tcsh", "busybox", "toybox", "env", "command",
    "builtin", "exec", "eval", "source", ".", "nice", "nohup", "time", "timeout", "setsid", "stdbuf", "ionice", "chrt",
    "taskset", "unshare", "nsenter", "chroot", "sudo", "doas", "su", "xargs", "parallel", "find", "watch", "script",
    "flock", "strace", "ssh", "trap", "awk", "gawk", "mawk", "nawk",
];

/// Name prefixes of programs that run program text, and the options before that text.
const INTERPRETERS: [&str; 8] = ["perl", "python", "ruby", "node", "deno", "php", "lua", "tclsh"];
const PROGRAM_TEXTS: [&str; 5] = ["-c", "-e", "-E", "-r", "--eval"];

/// Characters with a special meaning to the shell outside quotes.
const SPECIAL: &str = ";&|<>()$`{}[]*?!~#\n";

/// The words of the command in the arguments of `shell`; `None` if they cannot be determined.
pub(super) fn of_command(arguments: &Value) -> Option<Vec<String>> {
    let words = match (arguments.get("argv"), arguments.get("script")) {
        (Some(Value::List(argv)), None | Some(Value::Null)) => {
            argv.iter().map(|word| word.as_str().map(str::to_owned)).collect::<Option<Vec<_>>>()?
        }
        (None | Some(Value::Null), Some(script)) => split(script.as_str()?)?,
        _ => return None,
    };
    named_by_its_file(words)
}

/// The words with the program reduced to its file name, because `/usr/bin/git` is `git`.
fn named_by_its_file(mut words: Vec<String>) -> Option<Vec<String>> {
    let program = words.first_mut()?;
    let name = program.rsplit('/').next()?.to_owned();
    // `A=b program` sets a variable, which may change what the program does.
    if name.is_empty() || program.contains('=') || RUN_OTHERS.contains(&name.as_str()) {
        return None;
    }
    *program = name;
    let is_interpreter = INTERPRETERS.iter().any(|known| words.first().is_some_and(|name| name.starts_with(known)));
    if is_interpreter && words.iter().skip(1).any(|word| PROGRAM_TEXTS.iter().any(|option| word.starts_with(option))) {
        return None;
    }
    Some(words)
}

/// Splits a shell line into words (POSIX.1-2024, Shell Command Language, 2.2 Quoting and 2.3 Token Recognition).
fn split(line: &str) -> Option<Vec<String>> {
    let mut words = Vec::new();
    let mut word: Option<String> = None;
    let mut rest = line.trim().chars();
    while let Some(c) = rest.next() {
        match c {
            ' ' | '\t' => words.extend(word.take()),
            '\'' => {
                let word = word.get_or_insert_default();
                loop {
                    match rest.next()? {
                        '\'' => break,
                        c => word.push(c),
                    }
                }
            }
            '"' => {
                let word = word.get_or_insert_default();
                loop {
                    match rest.next()? {
                        '"' => break,
                        '$' | '`' => return None,
                        '\\' => match rest.next()? {
                            c @ ('"' | '\\' | '$' | '`') => word.push(c),
                            '\n' => {}
                            c => word.extend(['\\', c]),
                        },
                        c => word.push(c),
                    }
                }
            }
            '\\' => match rest.next()? {
                '\n' => {}
                c => word.get_or_insert_default().push(c),
            },
            c if SPECIAL.contains(c) || c.is_control() => return None,
            c => word.get_or_insert_default().push(c),
        }
    }
    words.extend(word);
    (!words.is_empty()).then_some(words)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_is_split_as_the_shell_splits_it() {
        let words = |line: &str| split(line).map(|words| words.join("|"));
        assert_eq!(words(r#"git  push 'a b' "c \"d\"" e\ f g'h'"#).as_deref(), Some("git|push|a b|c \"d\"|e f|gh"));
        assert_eq!(words("git \\\npush").as_deref(), Some("git|push"));
        for sly in [
            "git status; git push",
            "git status && x",
            "a | b",
            "a & b",
            "$(git push)",
            "`git push`",
            "a > b",
            "a $X",
            "a \"$X\"",
            "gi? push",
            "a\nb",
            "(git push)",
            "{ git; }",
            "'open",
            "\"open",
            "",
            "# git",
        ] {
            assert_eq!(split(sly), None, "{sly:?}");
        }
    }
}
