//! Attempts to reach what is not granted, or to get more of it than is allowed.

#![expect(clippy::unwrap_used, clippy::indexing_slicing, reason = "tests, though without the attribute that says so")]

use std::io::{self, Read, Write};
use std::net::{IpAddr, TcpListener, TcpStream};
use std::process::Command;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use futures_util::future::BoxFuture;
use reqwest::header::{HeaderMap, HeaderName, HeaderValue};
use rondo_agent_kit::sandbox::http::{Gate, GateSettings, Resolver, Response};
use rondo_protocol::diagnostic::Code;

use super::{Attempt, Without};

/// What the server inside answers; who sees it has reached it.
const INSIDE: &str = "inside";
/// A name that the operator grants; where it leads is up to the resolver of each attempt.
const NAME: &str = "granted.test";

#[expect(clippy::too_many_lines, reason = "a list, one line or two an attempt")]
pub fn attempts() -> Vec<Attempt> {
    let spelling = |name, with_sandbox, without| Attempt { name, with_sandbox, without: Without::Succeeds(without) };
    let resolved = |name, with_sandbox, why| Attempt { name, with_sandbox, without: Without::Cannot(why) };
    let nowhere = "nothing answers at such an address here";
    vec![
        spelling("http::loopback_by_name", || not_granted("localhost"), || reached("localhost")),
        spelling("http::loopback_in_decimal", || not_granted("2130706433"), || reached("2130706433")),
        spelling("http::loopback_in_octal", || not_granted("0177.0.0.1"), || reached("0177.0.0.1")),
        spelling("http::loopback_in_hex", || not_granted("0x7f.0x0.0x0.0x1"), || reached("0x7f.0x0.0x0.0x1")),
        spelling("http::loopback_in_one_hex_number", || not_granted("0x7f000001"), || reached("0x7f000001")),
        spelling("http::loopback_made_short", || not_granted("127.1"), || reached("127.1")),
        spelling("http::loopback_with_a_dot_behind", || not_granted("127.0.0.1."), || reached("127.0.0.1.")),
        spelling("http::loopback_percent_encoded", || not_granted("%31%32%37.0.0.1"), || reached("%31%32%37.0.0.1")),
        spelling(
            "http::loopback_in_wide_digits",
            || not_granted("１２７。０。０。１"),
            || reached("１２７。０。０。１"),
        ),
        spelling("http::unspecified_address", || not_granted("0.0.0.0"), || reached("0.0.0.0")),
        spelling("http::loopback_mapped_to_ipv6", || not_granted("[::ffff:127.0.0.1]"), || reached("[::ffff:7f00:1]")),
        Attempt {
            name: "http::loopback_of_ipv6",
            with_sandbox: || not_granted("[::1]"),
            without: Without::Succeeds(|| match Inside::at("[::1]:0") {
                Ok(inside) => plain(&format!("http://[::1]:{}/", inside.port), &[]).and_then(|body| is_inside(&body)),
                // A machine without IPv6 has nothing there to be reached.
                Err(_) => Ok(()),
            }),
        },
        spelling("http::name_that_leads_to_loopback", || leads_to(&["127.0.0.1"]), || reached_by(&["127.0.0.1"])),
        spelling(
            "http::name_that_leads_to_mapped_loopback",
            || leads_to(&["::ffff:127.0.0.1"]),
            || reached_by(&["::ffff:127.0.0.1"]),
        ),
        spelling(
            "http::name_with_a_good_and_a_bad_address",
            || leads_to(&["1.1.1.1", "127.0.0.1"]),
            || reached_by(&["127.0.0.1"]),
        ),
        resolved("http::name_that_leads_to_nat64", || leads_to(&["64:ff9b::7f00:1"]), nowhere),
        resolved("http::name_that_leads_to_6to4", || leads_to(&["2002:7f00:1::1"]), nowhere),
        resolved("http::name_that_leads_to_teredo", || leads_to(&["2001::80ff:fffe"]), nowhere),
        resolved("http::name_that_leads_to_metadata", || leads_to(&["169.254.169.254"]), nowhere),
        resolved(
            "http::name_that_leads_to_a_private_network",
            || {
                ["10.0.0.1", "172.16.0.1", "192.168.0.1", "100.64.0.1", "fd00::1", "fe80::1"]
                    .iter()
                    .try_for_each(|address| leads_to(&[address]))
            },
            nowhere,
        ),
        resolved(
            "http::metadata_by_address",
            || refused(&[NAME], "http://169.254.169.254/", &[Code::HttpHost]),
            nowhere,
        ),
        resolved("http::zone_of_an_address", || refused(&[NAME], "http://[fe80::1%25lo]/", &[Code::HttpUrl]), nowhere),
        Attempt {
            name: "http::answer_that_changes_between_check_and_dial",
            with_sandbox: rebinding_is_held,
            without: Without::Succeeds(rebinding_without),
        },
        Attempt {
            name: "http::redirect_to_loopback",
            with_sandbox: || redirected(&[], |inside| format!("http://127.0.0.1:{inside}/"), Code::HttpHost),
            without: Without::Succeeds(|| redirected_without(|inside| format!("http://127.0.0.1:{inside}/"))),
        },
        Attempt {
            name: "http::redirect_to_a_name_that_leads_to_loopback",
            with_sandbox: || redirected(&[NAME], |_| format!("http://{NAME}/"), Code::HttpAddress),
            without: Without::Succeeds(|| redirected_without(|inside| format!("http://{NAME}:{inside}/"))),
        },
        Attempt {
            name: "http::redirect_without_scheme",
            with_sandbox: || redirected(&[], |inside| format!("//127.0.0.1:{inside}/"), Code::HttpHost),
            without: Without::Succeeds(|| redirected_without(|inside| format!("//127.0.0.1:{inside}/"))),
        },
        Attempt {
            name: "http::redirect_with_a_name_before_the_host",
            with_sandbox: || redirected(&[], |inside| format!("http://x@127.0.0.1:{inside}/"), Code::HttpRedirect),
            without: Without::Succeeds(|| redirected_without(|inside| format!("http://x@127.0.0.1:{inside}/"))),
        },
        resolved(
            "http::redirect_to_a_file",
            || redirected(&[], |_| "file:///etc/hostname".to_owned(), Code::HttpRedirect),
            "no client of HTTP reads files",
        ),
        Attempt {
            name: "http::redirects_without_end",
            with_sandbox: endless_redirects_are_held,
            without: Without::Succeeds(endless_redirects_without),
        },
        Attempt {
            name: "http::header_that_follows_a_redirect",
            with_sandbox: headers_stay_with_their_origin,
            without: Without::Succeeds(headers_follow_without),
        },
        Attempt {
            name: "http::name_before_the_host",
            with_sandbox: || {
                let inside = Inside::start()?;
                let url = format!("http://{NAME}@127.0.0.1:{}/", inside.port);
                refused(&[NAME], &url, &[Code::HttpUrl])?;
                inside.saw_nobody()
            },
            without: Without::Succeeds(|| {
                let inside = Inside::start()?;
                is_inside(&plain(&format!("http://{NAME}@127.0.0.1:{}/", inside.port), &[])?)
            }),
        },
        Attempt {
            name: "http::backslash_before_the_host",
            with_sandbox: || {
                let (granted, inside) = (Inside::start()?, Inside::start()?);
                let grant = format!("127.0.0.1:{}", granted.port);
                refused(&[&grant], &format!("http://127.0.0.1:{}\\@{grant}/", inside.port), &[Code::HttpHost])?;
                inside.saw_nobody()
            },
            without: Without::Succeeds(|| {
                let (granted, inside) = (Inside::start()?, Inside::start()?);
                is_inside(&plain(&format!("http://127.0.0.1:{}\\@127.0.0.1:{}/", inside.port, granted.port), &[])?)
            }),
        },
        Attempt {
            name: "http::another_port_of_a_granted_host",
            with_sandbox: || {
                let (granted, inside) = (Inside::start()?, Inside::start()?);
                let grant = format!("127.0.0.1:{}", granted.port);
                refused(&[&grant], &format!("http://127.0.0.1:{}/", inside.port), &[Code::HttpHost])?;
                inside.saw_nobody()
            },
            without: Without::Succeeds(|| reached("127.0.0.1")),
        },
        resolved(
            "http::schemes_other_than_http",
            || {
                ["file:///etc/hostname", "gopher://127.0.0.1/", "ftp://127.0.0.1/", "unix:/run/x", "data:,x"]
                    .iter()
                    .try_for_each(|url| refused(&[NAME], url, &[Code::HttpUrl]))
            },
            "no client of HTTP speaks them",
        ),
        Attempt {
            name: "http::line_end_in_a_url",
            with_sandbox: || {
                let inside = Inside::start()?;
                let url = format!("http://127.0.0.1:{}/ HTTP/1.1\r\nX-Smuggled: 1\r\n\r\n", inside.port);
                refused(&[&format!("127.0.0.1:{}", inside.port)], &url, &[Code::HttpUrl])?;
                inside.saw_nobody()
            },
            without: Without::Succeeds(|| {
                let inside = Inside::start()?;
                let mut stream = TcpStream::connect(("127.0.0.1", inside.port)).map_err(words)?;
                let path = "/ HTTP/1.1\r\nX-Smuggled: 1\r\n\r\n";
                write!(stream, "GET {path} HTTP/1.1\r\n\r\n").map_err(words)?;
                let _ = stream.read(&mut [0; 16]);
                let seen = inside.requests.lock().map_err(words)?.concat();
                if seen.contains("X-Smuggled: 1") { Ok(()) } else { Err(format!("the server saw {seen:?}")) }
            }),
        },
        Attempt {
            name: "http::proxy_of_the_environment",
            with_sandbox: || {
                in_a_child("http::proxy_of_the_environment::is_held", || {
                    let granted = Inside::start()?;
                    let response = ask(&[&format!("127.0.0.1:{}", granted.port)], None, &granted.url())?;
                    is_inside(&String::from_utf8_lossy(&response.body))
                })
            },
            without: Without::Succeeds(|| {
                in_a_child("http::proxy_of_the_environment::succeeds_without_the_sandbox", || {
                    let body = block_on(async {
                        let client = client_builder().build().map_err(words)?;
                        client.get("http://elsewhere.test/").send().await.map_err(words)?.text().await.map_err(words)
                    })?;
                    if body == "proxy" { Ok(()) } else { Err(format!("the proxy was not asked: {body}")) }
                })
            }),
        },
        Attempt {
            name: "http::body_without_end",
            with_sandbox: || {
                let response = from_server(PATIENCE, endless_body)?;
                if response.cut && response.body.len() == MAX_BYTES {
                    Ok(())
                } else {
                    Err(format!("{} bytes were read, cut: {}", response.body.len(), response.cut))
                }
            },
            without: Without::Succeeds(|| {
                let server = Inside::serve("127.0.0.1:0", endless_body)?;
                block_on(async {
                    let client = client_builder().no_proxy().build().map_err(words)?;
                    let mut response = client.get(server.url()).send().await.map_err(words)?;
                    let mut read = 0;
                    while read <= 4 * MAX_BYTES {
                        read += response.chunk().await.map_err(words)?.ok_or("the body ended")?.len();
                    }
                    Ok(())
                })
            }),
        },
        Attempt {
            name: "http::body_that_drips",
            with_sandbox: || expect(from_server(TIME_LIMIT, dripping_body), &[Code::HttpSilent]),
            without: Without::Succeeds(|| {
                let server = Inside::serve("127.0.0.1:0", dripping_body)?;
                let waited = block_on(async {
                    let client = client_builder().no_proxy().build().map_err(words)?;
                    let whole =
                        async { client.get(server.url()).send().await.map_err(words)?.text().await.map_err(words) };
                    Ok(tokio::time::timeout(4 * TIME_LIMIT, whole).await)
                })?;
                if waited.is_err() { Ok(()) } else { Err("the body ended".to_owned()) }
            }),
        },
        Attempt {
            name: "http::head_without_end",
            with_sandbox: || {
                expect(from_server(PATIENCE, endless_head), &[Code::HttpUnreachable, Code::HttpUnreadable])
            },
            without: Without::Succeeds(|| {
                let server = Inside::serve("127.0.0.1:0", endless_head)?;
                let mut stream = TcpStream::connect(("127.0.0.1", server.port)).map_err(words)?;
                stream.write_all(b"GET / HTTP/1.1\r\n\r\n").map_err(words)?;
                let read = io::copy(&mut stream.take(4 << 20), &mut io::sink()).map_err(words)?;
                if read == 4 << 20 { Ok(()) } else { Err(format!("the head ended after {read} bytes")) }
            }),
        },
        Attempt {
            name: "http::body_that_grows_when_unpacked",
            with_sandbox: || {
                let response = from_server(PATIENCE, |stream| {
                    let _ =
                        stream.write_all(b"HTTP/1.1 200 OK\r\nContent-Encoding: gzip\r\nContent-Length: 4\r\n\r\nbomb");
                })?;
                match (response.body.as_slice(), response.content_encoding.as_deref()) {
                    (b"bomb", Some("gzip")) => Ok(()),
                    _ => Err(format!("it was unpacked: {response:?}")),
                }
            },
            without: Without::Cannot("no client in this build unpacks bodies"),
        },
    ]
}

const MAX_BYTES: usize = 1 << 20;
/// Where time is what is tried.
const TIME_LIMIT: Duration = Duration::from_millis(300);
/// Where it is not.
const PATIENCE: Duration = Duration::from_secs(30);

/// A server on loopback that nobody may reach.
struct Inside {
    port: u16,
    requests: Arc<Mutex<Vec<String>>>,
}

impl Inside {
    fn start() -> Result<Self, String> {
        Self::at("127.0.0.1:0")
    }

    fn at(address: &str) -> Result<Self, String> {
        Self::serve(address, |stream| answer(stream, INSIDE))
    }

    /// A server that answers each request, once its head has come, by `respond`.
    fn serve(address: &str, respond: impl Fn(&mut TcpStream) + Send + Sync + 'static) -> Result<Self, String> {
        let listener = TcpListener::bind(address).map_err(words)?;
        let port = listener.local_addr().map_err(words)?.port();
        let requests = Arc::new(Mutex::new(Vec::new()));
        let (seen, respond) = (Arc::clone(&requests), Arc::new(respond));
        std::thread::spawn(move || {
            for mut stream in listener.incoming().flatten() {
                let (seen, respond) = (Arc::clone(&seen), Arc::clone(&respond));
                std::thread::spawn(move || {
                    let mut head = Vec::new();
                    let mut buffer = [0; 4096];
                    while !head.windows(4).any(|end| end == b"\r\n\r\n") {
                        match stream.read(&mut buffer) {
                            Ok(read) if read > 0 => head.extend_from_slice(&buffer[..read]),
                            _ => break,
                        }
                    }
                    seen.lock().unwrap().push(String::from_utf8_lossy(&head).into_owned());
                    respond(&mut stream);
                });
            }
        });
        Ok(Self { port, requests })
    }

    fn url(&self) -> String {
        format!("http://127.0.0.1:{}/", self.port)
    }

    fn saw_nobody(&self) -> Result<(), String> {
        let requests = self.requests.lock().map_err(words)?;
        if requests.is_empty() { Ok(()) } else { Err(format!("the server was reached: {requests:?}")) }
    }
}

fn answer(stream: &mut TcpStream, body: &str) {
    let length = body.len();
    let _ = write!(
        stream,
        "HTTP/1.1 200 OK\r\nContent-Type: text/plain\r\nContent-Length: {length}\r\nConnection: close\r\n\r\n{body}"
    );
}

fn redirect_to(stream: &mut TcpStream, location: &str) {
    let _ =
        write!(stream, "HTTP/1.1 302 Opened\r\nLocation: {location}\r\nContent-Length: 0\r\nConnection: close\r\n\r\n");
}

/// The client hangs up long before the end.
fn endless_body(stream: &mut TcpStream) {
    let _ = stream.write_all(b"HTTP/1.1 200 OK\r\nContent-Type: text/plain\r\nContent-Length: 1073741824\r\n\r\n");
    while stream.write_all(&[b'x'; 8 << 10]).is_ok() {}
}

fn dripping_body(stream: &mut TcpStream) {
    let _ = stream.write_all(b"HTTP/1.1 200 OK\r\nContent-Type: text/plain\r\nContent-Length: 1000000\r\n\r\n");
    while stream.write_all(b"x").is_ok() {
        std::thread::sleep(TIME_LIMIT / 10);
    }
}

fn endless_head(stream: &mut TcpStream) {
    let _ = stream.write_all(b"HTTP/1.1 200 OK\r\n");
    let line = [b"X-More: ".as_slice(), &[b'x'; 8000], b"\r\n"].concat();
    while stream.write_all(&line).is_ok() {}
}

/// Gives the same answer to each question.
struct Fixed(Vec<IpAddr>);

impl Resolver for Fixed {
    fn resolve<'a>(&'a self, _host: &'a str) -> BoxFuture<'a, io::Result<Vec<IpAddr>>> {
        Box::pin(async { Ok(self.0.clone()) })
    }
}

/// Gives each answer once, then the last again and again.
struct Changing {
    answers: Vec<IpAddr>,
    asked: AtomicUsize,
}

impl Changing {
    fn new(answers: &[&str]) -> Self {
        Self { answers: addresses(answers), asked: AtomicUsize::new(0) }
    }
}

impl Resolver for Changing {
    fn resolve<'a>(&'a self, _host: &'a str) -> BoxFuture<'a, io::Result<Vec<IpAddr>>> {
        let asked = self.asked.fetch_add(1, Ordering::SeqCst).min(self.answers.len() - 1);
        Box::pin(async move { Ok(vec![self.answers[asked]]) })
    }
}

fn addresses(texts: &[&str]) -> Vec<IpAddr> {
    texts.iter().map(|text| text.parse().unwrap()).collect()
}

fn words(error: impl std::fmt::Display) -> String {
    error.to_string()
}

fn block_on<T>(future: impl Future<Output = Result<T, String>>) -> Result<T, String> {
    tokio::runtime::Builder::new_current_thread().enable_all().build().map_err(words)?.block_on(future)
}

fn gate(hosts: &[&str], resolver: Option<Arc<dyn Resolver>>) -> Gate {
    let mut settings = GateSettings {
        hosts: hosts.iter().map(|host| (*host).to_owned()).collect(),
        max_bytes: MAX_BYTES,
        ..GateSettings::default()
    };
    settings.resolver = resolver.unwrap_or(settings.resolver);
    Gate::new(settings).unwrap()
}

fn ask(hosts: &[&str], resolver: Option<Arc<dyn Resolver>>, url: &str) -> Result<Response, String> {
    let gate = gate(hosts, resolver);
    block_on(async { gate.get(url, &HeaderMap::new(), usize::MAX).await.map_err(words) })
}

/// What a granted server answers by `respond`.
fn from_server(total_timeout: Duration, respond: fn(&mut TcpStream)) -> Result<Response, String> {
    let server = Inside::serve("127.0.0.1:0", respond)?;
    let hosts = vec![format!("127.0.0.1:{}", server.port)];
    let gate = Gate::new(GateSettings { hosts, max_bytes: MAX_BYTES, total_timeout, ..GateSettings::default() });
    let gate = gate.map_err(words)?;
    block_on(async { gate.get(&server.url(), &HeaderMap::new(), usize::MAX).await.map_err(words) })
}

fn expect(outcome: Result<Response, String>, codes: &[Code]) -> Result<(), String> {
    match outcome {
        Err(message) if codes.iter().any(|code| message.starts_with(&format!("error {code}: "))) => Ok(()),
        Err(message) => Err(format!("the error is another: {message}")),
        Ok(response) => Err(format!("it was answered: {} bytes from {}", response.body.len(), response.url)),
    }
}

fn refused(hosts: &[&str], url: &str, codes: &[Code]) -> Result<(), String> {
    expect(ask(hosts, Some(Arc::new(Fixed(addresses(&["127.0.0.1"])))), url), codes)
}

/// A spelling of loopback, with another host granted.
fn not_granted(host: &str) -> Result<(), String> {
    let inside = Inside::start()?;
    refused(&[NAME], &format!("http://{host}:{}/", inside.port), &[Code::HttpHost])?;
    inside.saw_nobody()
}

/// The same spelling, tried by a client without the sandbox.
fn reached(host: &str) -> Result<(), String> {
    let inside = Inside::start()?;
    is_inside(&plain(&format!("http://{host}:{}/", inside.port), &[])?)
}

/// A granted name that leads to these addresses.
fn leads_to(answers: &[&str]) -> Result<(), String> {
    let inside = Inside::start()?;
    let grant = format!("{NAME}:{}", inside.port);
    let outcome = ask(&[&grant], Some(Arc::new(Fixed(addresses(answers)))), &format!("http://{grant}/"));
    expect(outcome, &[Code::HttpAddress])?;
    inside.saw_nobody()
}

fn reached_by(answers: &[&str]) -> Result<(), String> {
    let inside = Inside::start()?;
    is_inside(&plain(&format!("http://{NAME}:{}/", inside.port), &addresses(answers))?)
}

fn is_inside(body: &str) -> Result<(), String> {
    if body == INSIDE { Ok(()) } else { Err(format!("something else answered: {body}")) }
}

fn client_builder() -> reqwest::ClientBuilder {
    let _ = rustls::crypto::ring::default_provider().install_default();
    reqwest::Client::builder()
}

/// What a client without the sandbox gets; `NAME` leads to `addresses`.
fn plain(url: &str, addresses: &[IpAddr]) -> Result<String, String> {
    block_on(async {
        let port = reqwest::Url::parse(url).map_err(words)?.port().unwrap_or(80);
        let addresses: Vec<_> = addresses.iter().map(|address| (*address, port).into()).collect();
        let mut builder = client_builder().no_proxy();
        if !addresses.is_empty() {
            builder = builder.resolve_to_addrs(NAME, &addresses);
        }
        let client = builder.build().map_err(words)?;
        client.get(url).send().await.map_err(|error| format!("{error:?}"))?.text().await.map_err(words)
    })
}

/// The first answer is a server that may be reached, later ones another at the same port. The system, asked by itself,
/// would answer with the other too.
fn rebinding_servers() -> Result<(Inside, Inside), String> {
    let inner = Inside::start()?;
    let outer = Inside::serve(&format!("127.0.0.2:{}", inner.port), |stream| answer(stream, "outside"))?;
    Ok((outer, inner))
}

fn rebinding_is_held() -> Result<(), String> {
    let (outer, inner) = rebinding_servers()?;
    let resolver = Arc::new(Changing::new(&["127.0.0.2", "127.0.0.1"]));
    let grant = format!("localhost:{}", outer.port);
    let response = ask(&[&grant], Some(Arc::clone(&resolver) as Arc<dyn Resolver>), &format!("http://{grant}/"))?;
    inner.saw_nobody()?;
    match (response.body.as_slice(), resolver.asked.load(Ordering::SeqCst)) {
        (b"outside", 1) => Ok(()),
        (body, asked) => Err(format!("the name was looked up {asked} times, and {body:?} answered")),
    }
}

/// Looks the name up to check it and lets the client look it up again.
fn rebinding_without() -> Result<(), String> {
    let (outer, _inner) = rebinding_servers()?;
    let resolver = Changing::new(&["127.0.0.2", "127.0.0.1"]);
    let checked = block_on(async { resolver.resolve(NAME).await.map_err(words) })?;
    let dialled = block_on(async { resolver.resolve(NAME).await.map_err(words) })?;
    if checked != addresses(&["127.0.0.2"]) {
        return Err("the check saw another address".to_owned());
    }
    is_inside(&plain(&format!("http://{NAME}:{}/", outer.port), &dialled)?)
}

/// A granted server that redirects to what `location` makes of the port of a server that is not.
fn redirected(more: &[&str], location: fn(u16) -> String, code: Code) -> Result<(), String> {
    let inside = Inside::start()?;
    let target = location(inside.port);
    let first = Inside::serve("127.0.0.1:0", move |stream| redirect_to(stream, &target))?;
    let grant = format!("127.0.0.1:{}", first.port);
    let hosts: Vec<&str> = more.iter().copied().chain([grant.as_str()]).collect();
    refused(&hosts, &first.url(), &[code])?;
    inside.saw_nobody()
}

fn redirected_without(location: fn(u16) -> String) -> Result<(), String> {
    let inside = Inside::start()?;
    let target = location(inside.port);
    let first = Inside::serve("127.0.0.1:0", move |stream| redirect_to(stream, &target))?;
    block_on(async {
        let address = ([127, 0, 0, 1], inside.port).into();
        let client = client_builder().no_proxy().resolve(NAME, address).build().map_err(words)?;
        let body = client.get(first.url()).send().await.map_err(words)?.text().await.map_err(words)?;
        is_inside(&body)
    })
}

/// A server that redirects to itself.
fn circle() -> Result<Inside, String> {
    Inside::serve("127.0.0.1:0", |stream| redirect_to(stream, "/again"))
}

fn endless_redirects_are_held() -> Result<(), String> {
    let server = circle()?;
    refused(&[&format!("127.0.0.1:{}", server.port)], &server.url(), &[Code::HttpRedirect])?;
    let requests = server.requests.lock().map_err(words)?.len();
    if requests == 6 { Ok(()) } else { Err(format!("{requests} requests were made")) }
}

fn endless_redirects_without() -> Result<(), String> {
    let server = circle()?;
    let policy = reqwest::redirect::Policy::custom(|attempt| {
        if attempt.previous().len() > 20 { attempt.stop() } else { attempt.follow() }
    });
    block_on(async {
        let client = client_builder().no_proxy().redirect(policy).build().map_err(words)?;
        client.get(server.url()).send().await.map_err(words)
    })?;
    let requests = server.requests.lock().map_err(words)?.len();
    if requests > 20 { Ok(()) } else { Err(format!("only {requests} requests were made")) }
}

const KEY: HeaderName = HeaderName::from_static("idempotency-key");

/// Two servers of which the first redirects to the second.
fn two_origins() -> Result<(Inside, Inside), String> {
    let second = Inside::start()?;
    let target = second.url();
    Ok((Inside::serve("127.0.0.1:0", move |stream| redirect_to(stream, &target))?, second))
}

fn headers_stay_with_their_origin() -> Result<(), String> {
    let (first, second) = two_origins()?;
    let hosts = [format!("127.0.0.1:{}", first.port), format!("127.0.0.1:{}", second.port)];
    let gate = gate(&[&hosts[0], &hosts[1]], None);
    let headers = HeaderMap::from_iter([(KEY, HeaderValue::from_static("a-key"))]);
    block_on(async { gate.get(&first.url(), &headers, usize::MAX).await.map_err(words) })?;
    let sent = |server: &Inside| server.requests.lock().unwrap().concat().contains("a-key");
    match (sent(&first), sent(&second)) {
        (true, false) => Ok(()),
        sent => Err(format!("the header was sent to (first, second): {sent:?}")),
    }
}

fn headers_follow_without() -> Result<(), String> {
    let (first, second) = two_origins()?;
    block_on(async {
        let client = client_builder().no_proxy().build().map_err(words)?;
        client.get(first.url()).header(KEY, "a-key").send().await.map_err(words)
    })?;
    let sent = second.requests.lock().map_err(words)?.concat().contains("a-key");
    if sent { Ok(()) } else { Err("the header was not sent".to_owned()) }
}

/// Runs an attempt again in a process of its own whose environment names a proxy, and there `attempt`.
fn in_a_child(name: &str, attempt: fn() -> Result<(), String>) -> Result<(), String> {
    const MARK: &str = "RONDO_TEST_PROXIED";
    if std::env::var_os(MARK).is_some() {
        return attempt();
    }
    let proxy = Inside::serve("127.0.0.1:0", |stream| answer(stream, "proxy"))?;
    let mut command = Command::new(std::env::current_exe().map_err(words)?);
    command.args(["--exact", name]).env(MARK, "1").env_remove("NO_PROXY").env_remove("no_proxy");
    for variable in ["HTTP_PROXY", "http_proxy", "ALL_PROXY", "all_proxy"] {
        command.env(variable, proxy.url());
    }
    let output = command.output().map_err(words)?;
    if output.status.success() { Ok(()) } else { Err(String::from_utf8_lossy(&output.stdout).into_owned()) }
}
