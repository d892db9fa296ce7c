//! A workflow file that differs from what a stopped thread began with.

use std::path::Path;

use rondo::core::local::{Edited, ForkRequest, plan_fork};
use rondo::host::continuing::ResumeSource;
use rondo::protocol::call::FaultClass;
use rondo::protocol::id::ThreadId;
use rondo::protocol::text::shell_argument;
use rondo::protocol::workflow::{Limits, Policy};
use rondo::store::{Read, Row};
use rondo::workflows::shipped;

use super::fork::plan_text;
use super::named_command::completed;
use super::{thread_row, workflow};

/// What to tell the person who resumes a thread whose file was changed since it began: the thread continues under the
/// definition that it keeps, and what a fork under the file would do. `None` if the file is as it was, or gone. Whoever
/// raises a limit has decided about limits, and hears nothing of those in the file.
pub(super) fn notice(
    store: &dyn Read,
    thread: &ThreadId,
    row: &Row,
    source: &ResumeSource,
    raises_limit: bool,
) -> Option<String> {
    let file = source.file.as_deref().filter(|file| !shipped::is_one(file))?;
    if !Path::new(file).exists() {
        return None;
    }
    let told = format!("{file} was changed since this thread began, and the thread continues as it was");
    let Ok(now) = workflow::read(file.into()) else {
        let argument = shell_argument(file);
        return Some(format!("{told}; the file has faults now, which `rondo validate {argument}` names\n"));
    };
    let (workflow, policy) = (now.checked.workflow, now.checked.policy);
    // `--limit` makes a thread's limits differ from its file's; they matter where it stopped at one.
    let stopped_at_limit =
        thread_row::origin(row).and_then(|origin| origin.stop).is_some_and(|stop| stop.class == FaultClass::Limit);
    let is_as_begun = |limits: &Limits| {
        workflow == source.workflow && Policy { limits: limits.clone(), ..policy.clone() } == source.policy
    };
    if is_as_begun(if stopped_at_limit && !raises_limit { &policy.limits } else { &source.policy.limits }) {
        return None;
    }
    // The thread's own limits may come from `--limit`, so the file need not have changed.
    let told = if is_as_begun(&source.policy.limits) {
        format!("{file} has other limits than this thread, which continues with its own")
    } else {
        told
    };
    let edited = Edited { workflow, policy, input: None, file: Some(file.to_owned()) };
    let request = ForkRequest { edited: Some(edited), ..ForkRequest::default() };
    let fork = completed(&format!("`rondo fork {thread} --with {}`", shell_argument(file))).into_owned();
    Some(match plan_fork(store, thread, &request) {
        Ok(plan) => {
            let plan = plan_text(thread, row, &plan, false).trim_end().replace('\n', "\n  ");
            format!("{told}; with {fork},\n  {plan}\n")
        }
        Err(error) => format!("{told}; {fork} is not possible: {error}\n"),
    })
}
