//! The hosts that the operator grants.

use std::net::IpAddr;

use reqwest::Url;

use super::address;

#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("`{entry}` cannot be granted: {why}")]
pub struct HostError {
    pub entry: String,
    /// Why not, and what to write.
    pub why: &'static str,
}

/// A host of a URL, as the URL's parser understood it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Host {
    /// A name in lower case, its international characters as `xn--`.
    Name(String),
    /// An address, however it was spelt.
    Address(IpAddr),
}

impl Host {
    pub fn of(url: &Url) -> Option<Self> {
        let host = url.host_str().filter(|host| !host.is_empty())?;
        let bare = host.strip_prefix('[').and_then(|host| host.strip_suffix(']')).unwrap_or(host);
        Some(bare.parse().map_or_else(|_| Self::Name(host.to_owned()), Self::Address))
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Granted {
    /// It may go to public addresses.
    Public,
    /// The operator named this very address and port, whatever address it is.
    Exact,
    /// The operator named `localhost` and this port: it may go to loopback addresses only.
    Loopback,
}

#[derive(Debug, Clone, Default)]
pub struct Hosts(Vec<GrantedHost>);

#[derive(Debug, Clone)]
struct GrantedHost {
    pattern: Pattern,
    /// `None` = the default port of the scheme.
    port: Option<u16>,
}

#[derive(Debug, Clone)]
enum Pattern {
    Host(Host),
    /// Every name below this one, which begins with a dot.
    Below(String),
}

impl Hosts {
    /// Reads grants: `example.com`, `*.example.com`, `example.com:8443`, `127.0.0.1:8080`.
    pub fn new(entries: &[String]) -> Result<Self, HostError> {
        entries.iter().map(|entry| GrantedHost::read(entry)).collect::<Result<_, _>>().map(Self)
    }

    /// What is granted for `url`; `None` = nothing.
    pub fn grant(&self, host: &Host, url: &Url) -> Option<Granted> {
        self.0.iter().find_map(|entry| entry.grant(host, url))
    }
}

impl GrantedHost {
    fn read(text: &str) -> Result<Self, HostError> {
        let refuse = |why| Err(HostError { entry: text.to_owned(), why });
        if text.contains(|c: char| c.is_whitespace() || c.is_control() || "/\\@?#%".contains(c)) {
            return refuse("write a host alone, such as `example.com` or `example.com:8443`");
        }
        let colon = text.rfind(':').filter(|colon| !text.ends_with(']') && *colon > 0);
        let (name, port) = colon.map_or((text, None), |colon| {
            let (name, port) = text.split_at(colon);
            (name, Some(port.trim_start_matches(':')))
        });
        let port = match port.map(str::parse::<u16>) {
            None => None,
            Some(Ok(port)) if port > 0 => Some(port),
            Some(_) => return refuse("its port is not a number from 1 to 65535"),
        };
        let (is_below, name) = name.strip_prefix("*.").map_or((false, name), |name| (true, name));
        if name.contains('*') {
            return refuse("a `*` is allowed only at the beginning, as in `*.example.com`");
        }
        let host = Url::parse(&format!("http://{name}/")).ok().and_then(|url| Host::of(&url));
        let pattern = match host {
            None => return refuse("it is not the name of a host"),
            Some(Host::Name(name)) if name.ends_with('.') => return refuse("write it without the dot at its end"),
            Some(Host::Address(_)) if is_below => return refuse("an address has no subdomains"),
            Some(Host::Name(name)) if is_below => Pattern::Below(format!(".{name}")),
            Some(Host::Name(name)) if is_localhost(&name) && port.is_none() => {
                return refuse("write the port too: only `localhost` with a port is granted");
            }
            Some(Host::Address(address)) if address::objection(address).is_some() && port.is_none() => {
                return refuse("it is not a public address; write the port too, as in `127.0.0.1:8080`");
            }
            Some(host) => Pattern::Host(host),
        };
        Ok(Self { pattern, port })
    }

    fn grant(&self, host: &Host, url: &Url) -> Option<Granted> {
        let is_port = match self.port {
            // `Url::port` is `None` for the default port of the scheme.
            None => url.port().is_none(),
            Some(port) => url.port_or_known_default() == Some(port),
        };
        if !is_port {
            return None;
        }
        match (&self.pattern, host) {
            (Pattern::Host(Host::Address(granted)), Host::Address(asked)) if granted == asked => {
                Some(if self.port.is_some() { Granted::Exact } else { Granted::Public })
            }
            (Pattern::Host(Host::Name(granted)), Host::Name(asked)) if granted == asked => {
                Some(if is_localhost(asked) { Granted::Loopback } else { Granted::Public })
            }
            (Pattern::Below(end), Host::Name(asked)) if asked.ends_with(end.as_str()) => Some(Granted::Public),
            _ => None,
        }
    }
}

fn is_localhost(name: &str) -> bool {
    name == "localhost"
}

#[cfg(test)]
mod tests;
