//! A service that journals empty runs: what a step of a thread is compared with. `bare PORT` serves it.

use std::time::Instant;

use restate_sdk::prelude::*;

struct Bare;

#[object]
impl Bare {
    /// Journals so many runs of a hundred bytes, one after the other, and returns the microseconds that this took.
    #[handler]
    async fn run(&self, ctx: ObjectContext<'_>, runs: u64) -> HandlerResult<u64> {
        let began = Instant::now();
        for number in 0..runs {
            ctx.run(async || Ok("a".repeat(100))).name(number.to_string()).await?;
        }
        Ok(u64::try_from(began.elapsed().as_micros())?)
    }
}

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let port = std::env::args().nth(1).ok_or("bare PORT")?.parse::<u16>()?;
    HttpServer::new(Endpoint::builder().bind(Bare).build()).listen_and_serve(([127, 0, 0, 1], port).into()).await;
    Ok(())
}
