//! The options that name and tag a thread.

use rondo::core::Labels;
use rondo::host::labels::labels;
use rondo::protocol::diagnostic::Code;

use super::Failure;

#[derive(Debug, Clone, Default, clap::Args)]
pub struct LabelArgs {
    /// Name the thread; the name stands for its id as long as no other thread has it
    #[arg(long, value_name = "NAME")]
    name: Option<String>,
    /// Tag the thread, or all threads of a batch; can be given several times
    #[arg(long = "tag", value_name = "WORD")]
    tags: Vec<String>,
}

impl LabelArgs {
    pub fn labels(&self, is_batch: bool) -> Result<Labels, Failure> {
        if is_batch && self.name.is_some() {
            let failure = Failure::new(Code::LabelRefused, "--name names one thread, and this is a batch");
            return Err(failure.with_hint("give its threads a --tag"));
        }
        labels(self.name.as_deref(), &self.tags)
    }
}
