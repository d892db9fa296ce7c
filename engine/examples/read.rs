//! Reads the store of a folder: its threads, and what each step said. `cargo run --example read -- FOLDER`

use rondo::{RecordLine, Rondo};

#[tokio::main]
async fn main() -> Result<(), rondo::Error> {
    let folder = std::env::args().nth(1).unwrap_or_else(|| ".".to_owned());
    let rondo = Rondo::open(folder).await?;
    let mut after = None;
    loop {
        let threads = rondo.threads(after.as_ref(), 100).await?;
        for line in &threads {
            println!("{} {}: {} steps", line.thread, line.name, line.totals.steps);
            for step in rondo.steps(&line.thread).await? {
                if let RecordLine::Step(step) = step {
                    println!("  {:>3} {} {}", step.seq, step.role, step.status);
                }
            }
        }
        let Some(last) = threads.last() else { return Ok(()) };
        after = Some(last.thread.clone());
    }
}
