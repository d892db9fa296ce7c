//! Programs that were given hosts: what they reach, and that it is nothing else.

use std::fs;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{IpAddr, Ipv4Addr, TcpListener, TcpStream};
use std::sync::Arc;
use std::time::Duration;

use futures_util::future::BoxFuture;
use libtest_mimic::{Failed, Trial};
use rondo_agent_kit::sandbox::http::{Gate, GateSettings, Resolver};
use rondo_agent_kit::sandbox::process::{Command, Exit, Finished, Isolation, Processes};
use rondo_protocol::diagnostic::Code;

use super::ground::{Ground, Sandboxed, sandboxes, shell};

pub fn trials() -> Vec<Trial> {
    let trial = |name: &str, run: fn() -> Result<(), String>| {
        Trial::test(format!("process::hosts::{name}"), move || run().map_err(Failed::from))
    };
    vec![
        trial("a_granted_host_is_reached_and_no_other", reached),
        trial("a_name_that_leads_inside_is_not_reached", names),
        trial("nothing_but_the_proxy_is_reached", nothing_else),
        trial("what_is_no_request_to_a_proxy_is_refused", no_requests),
        trial("ordinary_programs_find_the_proxy", ordinary),
        trial("output_and_ends_are_as_without_a_proxy", as_without),
        trial("without_namespaces_there_are_none", without_namespaces),
    ]
}

/// The verb by which this binary speaks to its proxy: what to say follows; what is answered is printed.
pub const VERB: &str = "__say_to_proxy";

pub fn say(words: &[String]) {
    let proxy = std::env::var("HTTPS_PROXY").unwrap();
    let mut stream = TcpStream::connect(proxy.strip_prefix("http://").unwrap()).unwrap();
    stream.set_read_timeout(Some(Duration::from_secs(20))).unwrap();
    for word in words {
        stream.write_all(word.replace("\\r\\n", "\r\n").as_bytes()).unwrap();
    }
    let mut answer = Vec::new();
    let _ = stream.read_to_end(&mut answer);
    println!("{}", String::from_utf8_lossy(&answer));
}

/// Answers every request with its own head.
fn server() -> u16 {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    std::thread::spawn(move || {
        for mut stream in listener.incoming().flatten() {
            std::thread::spawn(move || {
                let mut head = String::new();
                let mut reader = BufReader::new(stream.try_clone().unwrap());
                while !head.ends_with("\r\n\r\n") && reader.read_line(&mut head).unwrap_or(0) > 0 {}
                let length = head.len();
                let _ =
                    write!(stream, "HTTP/1.1 200 OK\r\nContent-Length: {length}\r\nConnection: close\r\n\r\n{head}");
            });
        }
    });
    port
}

/// Every name leads inside.
struct Inside;

impl Resolver for Inside {
    fn resolve<'a>(&'a self, _: &'a str) -> BoxFuture<'a, std::io::Result<Vec<IpAddr>>> {
        Box::pin(std::future::ready(Ok(vec![IpAddr::V4(Ipv4Addr::LOCALHOST)])))
    }
}

fn given(ground: &Ground, hosts: &[String]) -> Processes {
    let settings = GateSettings { hosts: hosts.to_vec(), resolver: Arc::new(Inside), ..GateSettings::default() };
    ground.processes().with_hosts(Gate::new(settings).unwrap())
}

fn ran(ground: &Ground, hosts: &[String], command: Command) -> Result<Finished, String> {
    ground.runtime.block_on(given(ground, hosts).run(command)).map_err(|error| error.to_string())
}

fn says(ground: &Ground, hosts: &[String], words: &[&str]) -> Result<String, String> {
    let launcher = std::env::current_exe().unwrap().to_str().unwrap().to_owned();
    let argv = [launcher, VERB.to_owned()].into_iter().chain(words.iter().map(|&word| word.to_owned()));
    let finished = ran(ground, hosts, Command { timeout: Duration::from_secs(40), ..Command::new(argv.collect()) })?;
    if finished.exit == Exit::Code(0) { Ok(finished.output) } else { Err(format!("{finished:?}")) }
}

fn each(run: impl Fn(&Ground) -> Result<(), String>) -> Result<(), String> {
    for isolation in sandboxes().iter().filter(|isolation| isolation.has_namespaces()) {
        run(&Ground::new(Sandboxed::By(*isolation))).map_err(|why| format!("{isolation:?}: {why}"))?;
    }
    Ok(())
}

fn holds(what: &str, parts: &[&str]) -> Result<(), String> {
    match parts.iter().find(|part| !what.contains(**part)) {
        Some(part) => Err(format!("no {part:?} in {what:?}")),
        None => Ok(()),
    }
}

fn reached() -> Result<(), String> {
    let (port, other) = (server(), server());
    let hosts = [format!("127.0.0.1:{port}")];
    each(|ground| {
        let connect = format!("CONNECT 127.0.0.1:{port} HTTP/1.1\\r\\nHost: x\\r\\n\\r\\n");
        let tunnelled = says(ground, &hosts, &[&connect, "GET /deep?a=1 HTTP/1.1\\r\\nHost: y\\r\\n\\r\\n"])?;
        holds(&tunnelled, &["200 Connection established\r\n\r\nHTTP/1.1 200 OK", "GET /deep?a=1 HTTP/1.1", "Host: y"])?;
        let plain = format!(
            "GET http://127.0.0.1:{port}/deep?a=1 HTTP/1.1\\r\\nHost: y\\r\\nProxy-Authorization: z\\r\\n\\r\\n"
        );
        let plain = says(ground, &hosts, &[&plain])?;
        holds(&plain, &["HTTP/1.1 200 OK", "GET /deep?a=1 HTTP/1.1\r\nHost: y\r\nConnection: close\r\n\r\n"])?;
        for target in [format!("127.0.0.1:{other}"), format!("localhost:{port}"), "example.com:443".to_owned()] {
            let refused = says(ground, &hosts, &[&format!("CONNECT {target} HTTP/1.1\\r\\n\\r\\n")])?;
            holds(&refused, &["HTTP/1.1 403 Forbidden", "RN1630", "is not granted"])?;
        }
        let refused = says(ground, &hosts, &[&format!("GET http://127.0.0.1:{other}/ HTTP/1.1\\r\\n\\r\\n")])?;
        holds(&refused, &["HTTP/1.1 403 Forbidden", "is not granted"])
    })
}

fn names() -> Result<(), String> {
    let hosts = ["inside.example".to_owned(), format!("inside.example:{}", server())];
    each(|ground| {
        let refused = says(ground, &hosts, &["CONNECT inside.example:443 HTTP/1.1\\r\\n\\r\\n"])?;
        holds(&refused, &["HTTP/1.1 403 Forbidden", "is at 127.0.0.1, and that is a loopback address"])
    })
}

fn nothing_else() -> Result<(), String> {
    let (port, other) = (server(), server());
    let hosts = [format!("127.0.0.1:{port}")];
    each(|ground| {
        let socket = ground.outside().join("socket");
        let _listening = std::os::unix::net::UnixListener::bind(&socket).unwrap();
        let socket = socket.to_str().unwrap();
        let launcher = std::env::current_exe().unwrap().to_str().unwrap().to_owned();
        let (granted, other) = (format!("127.0.0.1:{port}"), format!("127.0.0.1:{other}"));
        for attack in [
            &["tcp", granted.as_str()][..],
            &["tcp", &other],
            &["tcp", "1.1.1.1:443"],
            &["tcp", "[::1]:80"],
            &["listen"],
            &["udp", &granted],
            &["udp", "[::1]:53"],
            &["unix", socket],
            &["datagram", socket],
            &["pair", socket],
            &["netlink"],
            &["packet"],
        ] {
            let argv = [launcher.clone(), super::attack::VERB.to_owned()];
            let argv = argv.into_iter().chain(attack.iter().map(|&word| word.to_owned())).collect();
            let finished = ran(ground, &hosts, Command { timeout: Duration::from_secs(20), ..Command::new(argv) })?;
            if finished.exit != Exit::Code(1) {
                return Err(format!("{attack:?}: {finished:?}"));
            }
        }
        Ok(())
    })
}

fn no_requests() -> Result<(), String> {
    let port = server();
    let hosts = [format!("127.0.0.1:{port}")];
    each(|ground| {
        for request in [
            "hello\\r\\n\\r\\n".to_owned(),
            "GET / HTTP/1.1\\r\\n\\r\\n".to_owned(),
            "GET ftp://127.0.0.1/ HTTP/1.1\\r\\n\\r\\n".to_owned(),
            format!("CONNECT user@127.0.0.1:{port} HTTP/1.1\\r\\n\\r\\n"),
            format!("CONNECT x/127.0.0.1:{port} HTTP/1.1\\r\\n\\r\\n"),
            format!("GET http://user:word@127.0.0.1:{port}/ HTTP/1.1\\r\\n\\r\\n"),
        ] {
            let refused = says(ground, &hosts, &[&request])?;
            if !refused.starts_with("HTTP/1.1 403 Forbidden\r\n") {
                return Err(format!("{request}: {refused}"));
            }
        }
        // A head without an end is not waited for beyond its bound.
        let endless = format!("GET / HTTP/1.1\\r\\nX: {}", "x".repeat(64 << 10));
        let refused = says(ground, &hosts, &[&endless])?;
        if refused.trim().is_empty() { Ok(()) } else { Err(refused) }
    })
}

fn ordinary() -> Result<(), String> {
    let port = server();
    let hosts = [format!("127.0.0.1:{port}")];
    each(|ground| {
        if ran(ground, &hosts, shell("curl --version"))?.exit != Exit::Code(0) {
            eprintln!("not tried here: curl is missing");
            return Ok(());
        }
        let curl = |address: &str| shell(&format!("curl -sS -m 20 http://{address}/page"));
        holds(&ran(ground, &hosts, curl(&hosts[0]))?.output, &["GET /page HTTP/1.1"])?;
        holds(&ran(ground, &hosts, curl("example.com"))?.output, &["RN1630", "is not granted"])?;
        // Without hosts there is neither a proxy nor a network.
        let without = ground.run(curl(&hosts[0])).map_err(|error| error.to_string())?;
        if without.exit == Exit::Code(0) { Err(without.output) } else { Ok(()) }
    })
}

fn as_without() -> Result<(), String> {
    let hosts = ["example.com".to_owned()];
    each(|ground| {
        let script = "for i in 1 2 3 4 5; do echo out$i; echo err$i >&2; done; cat; echo x > src/new; exit 7";
        let command = Command { stdin: b"said".to_vec(), ..shell(script) };
        let finished = ran(ground, &hosts, command.clone())?;
        let expected = "out1\nerr1\nout2\nerr2\nout3\nerr3\nout4\nerr4\nout5\nerr5\nsaid";
        if finished.output != expected || finished.exit != Exit::Code(7) {
            return Err(format!("{finished:?}"));
        }
        let answered =
            ground.runtime.block_on(given(ground, &hosts).ask(command)).map_err(|error| error.to_string())?;
        if answered.stdout != b"out1\nout2\nout3\nout4\nout5\nsaid"
            || answered.stderr != "err1\nerr2\nerr3\nerr4\nerr5\n"
        {
            return Err(format!("{answered:?}"));
        }
        fs::read(ground.workspace().join("src/new")).map(drop).map_err(|error| error.to_string())?;
        let flood = Command {
            limits: rondo_agent_kit::sandbox::process::Limits { output_bytes: 1 << 20, ..Default::default() },
            ..shell("yes")
        };
        match ground.runtime.block_on(given(ground, &hosts).run(flood)) {
            Err(error) if error.code == Code::ProgramFlooded => Ok(()),
            other => Err(format!("{other:?}")),
        }
    })
}

fn without_namespaces() -> Result<(), String> {
    let ground = Ground::new(Sandboxed::By(Isolation::Landlock));
    match ground.runtime.block_on(given(&ground, &["example.com".to_owned()]).run(shell("true"))) {
        Err(error) if error.code == Code::SandboxMissing => holds(&error.message, &["take `hosts` out of its sandbox"]),
        other => Err(format!("{other:?}")),
    }
}
