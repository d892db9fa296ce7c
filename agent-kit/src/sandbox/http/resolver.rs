//! Name resolution.

use std::io;
use std::net::IpAddr;

use futures_util::future::BoxFuture;

pub trait Resolver: Send + Sync {
    /// Every address of `host`, which is a name and no address.
    fn resolve<'a>(&'a self, host: &'a str) -> BoxFuture<'a, io::Result<Vec<IpAddr>>>;
}

#[derive(Debug, Clone, Copy, Default)]
pub struct SystemResolver;

impl Resolver for SystemResolver {
    fn resolve<'a>(&'a self, host: &'a str) -> BoxFuture<'a, io::Result<Vec<IpAddr>>> {
        // The port does not matter to a look-up; it only belongs to what the system is asked.
        Box::pin(async move { Ok(tokio::net::lookup_host((host, 0)).await?.map(|address| address.ip()).collect()) })
    }
}
