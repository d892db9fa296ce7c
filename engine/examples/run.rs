//! Runs a workflow of this folder and prints its result. `cargo run --example run -- review-loop --offline`

use rondo::{Rondo, What};

#[tokio::main]
async fn main() -> Result<(), rondo::Error> {
    let rondo = Rondo::open(".").await?;
    let name = std::env::args().nth(1).unwrap_or_else(|| "review-loop".to_owned());
    let new = rondo.workflow(&name)?;
    let new = if std::env::args().any(|word| word == "--offline") { new.offline() } else { new };
    let mut run = new.start().await?;
    while let Some(event) = run.next().await {
        if let What::StepCommitted { role, status, .. } = &event.what {
            println!("{role}: {status}");
        }
    }
    println!("{}", run.end().await?.result()?["article"]);
    Ok(())
}
