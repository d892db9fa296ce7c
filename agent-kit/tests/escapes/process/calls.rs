//! System calls: no socket of any kind, and nothing that leads round the other layers.

use std::net::{TcpListener, UdpSocket};
use std::os::linux::net::SocketAddrExt;
use std::os::unix::net::{SocketAddr, UnixDatagram, UnixListener};

use super::ground::{Ground, held, text};
use super::tried;
use crate::{Attempt, Without};

pub fn attempts() -> Vec<Attempt> {
    let mut attempts = tried![
        connect_tcp,
        listen_tcp,
        send_udp_v4,
        send_udp_v6,
        connect_a_named_socket,
        connect_a_socket_in_the_workspace,
        connect_an_abstract_socket,
        send_to_a_named_socket,
        point_a_socket_pair_elsewhere,
        pair_sockets_of_another_family,
        open_netlink,
        open_a_sequential_socket,
        set_up_io_uring,
        make_a_user_namespace,
        clone_into_a_user_namespace,
        read_a_key,
        change_the_limits_of_its_host,
        leave_shared_memory_behind,
        set_the_bit_of_the_owner,
        create_with_the_bit_of_the_owner,
    ];
    attempts.push(Attempt {
        name: "process::type_into_a_terminal",
        with_sandbox: || held(type_into_a_terminal),
        without: Without::Cannot("a program here has no terminal, and kernels refuse the call of themselves by now"),
    });
    attempts.push(Attempt {
        name: "process::open_a_socket_by_x32",
        with_sandbox: || held(open_a_socket_by_x32),
        without: Without::Cannot("few kernels have the x32 interface"),
    });
    attempts
}

fn connect_tcp(ground: &Ground) -> Result<bool, String> {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    ground.attack(&["tcp", &listener.local_addr().unwrap().to_string()])
}

fn listen_tcp(ground: &Ground) -> Result<bool, String> {
    ground.attack(&["listen"])
}

fn send_udp_v4(ground: &Ground) -> Result<bool, String> {
    let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
    ground.attack(&["udp", &socket.local_addr().unwrap().to_string()])
}

fn send_udp_v6(ground: &Ground) -> Result<bool, String> {
    let Ok(socket) = UdpSocket::bind("[::1]:0") else {
        return Err("this machine has no IPv6".to_owned());
    };
    ground.attack(&["udp", &socket.local_addr().unwrap().to_string()])
}

fn connect_a_named_socket(ground: &Ground) -> Result<bool, String> {
    let path = ground.outside().join("socket");
    let _listener = UnixListener::bind(&path).unwrap();
    ground.attack(&["unix", text(&path)])
}

fn connect_a_socket_in_the_workspace(ground: &Ground) -> Result<bool, String> {
    let path = ground.workspace().join("socket");
    let _listener = UnixListener::bind(&path).unwrap();
    ground.attack(&["unix", text(&path)])
}

fn connect_an_abstract_socket(ground: &Ground) -> Result<bool, String> {
    let name = ground.root().to_str().unwrap().to_owned();
    let _listener = UnixListener::bind_addr(&SocketAddr::from_abstract_name(&name).unwrap()).unwrap();
    ground.attack(&["abstract", &name])
}

fn send_to_a_named_socket(ground: &Ground) -> Result<bool, String> {
    let path = ground.outside().join("socket");
    let _socket = UnixDatagram::bind(&path).unwrap();
    ground.attack(&["datagram", text(&path)])
}

fn point_a_socket_pair_elsewhere(ground: &Ground) -> Result<bool, String> {
    let path = ground.outside().join("socket");
    let _socket = UnixDatagram::bind(&path).unwrap();
    ground.attack(&["pair", text(&path)])
}

fn open_netlink(ground: &Ground) -> Result<bool, String> {
    ground.attack(&["netlink"])
}

fn open_a_sequential_socket(ground: &Ground) -> Result<bool, String> {
    ground.attack(&["packet"])
}

/// Makes a raw system call with Perl, which most systems have; says whether it did not fail.
fn call(ground: &Ground, number: i64, arguments: &str) -> Result<bool, String> {
    let script = format!("perl -e '$b = \"\\0\" x 4096; exit(syscall({number}{arguments}) < 0 ? 1 : 0)' && echo out");
    let output = ground.script(&script)?;
    if output.contains("not found") { Err(format!("perl is missing: {output}")) } else { Ok(output.contains("out\n")) }
}

fn set_up_io_uring(ground: &Ground) -> Result<bool, String> {
    call(ground, libc::SYS_io_uring_setup, ", 1, $b")
}

fn make_a_user_namespace(ground: &Ground) -> Result<bool, String> {
    call(ground, libc::SYS_unshare, &format!(", {}", libc::CLONE_NEWUSER))
}

fn clone_into_a_user_namespace(ground: &Ground) -> Result<bool, String> {
    call(ground, libc::SYS_clone, &format!(", {}, 0, 0, 0, 0", libc::CLONE_NEWUSER | libc::SIGCHLD))
}

fn read_a_key(ground: &Ground) -> Result<bool, String> {
    // KEYCTL_GET_KEYRING_ID of the session keyring, which it makes where there is none.
    call(ground, libc::SYS_keyctl, ", 0, -3, 1, 0, 0")
}

fn change_the_limits_of_its_host(ground: &Ground) -> Result<bool, String> {
    // RLIMIT_CORE of the host, which is only read here: the same rights are asked for as for a change.
    call(ground, libc::SYS_prlimit64, &format!(", {}, 4, 0, $b", std::process::id()))
}

fn pair_sockets_of_another_family(ground: &Ground) -> Result<bool, String> {
    // AF_TIPC, where the kernel has it; a kernel that has not tells so by another error than the sandbox.
    let script = format!(
        "perl -e '$b = \"\\0\" x 64; print syscall({}, 30, 5, 0, $b) < 0 && $! == {} ? \"held\" : \"out\"'",
        libc::SYS_socketpair,
        libc::EPERM
    );
    Ok(ground.script(&script)? == "out")
}

fn leave_shared_memory_behind(ground: &Ground) -> Result<bool, String> {
    // A key that nobody else has: the number of this process and of this ground.
    let key = 0x5200_0000
        | (std::process::id() & 0xF_FFFF) << 4
        | u32::from(ground.root().as_os_str().as_encoded_bytes().last().copied().unwrap_or(0) & 0xF);
    ground.script(&format!("perl -e 'shmget({key}, 4096, 01600)'"))?;
    let is_there = std::fs::read_to_string("/proc/sysvipc/shm").map_err(|error| error.to_string())?;
    let left = is_there.lines().find_map(|line| {
        let mut fields = line.split_whitespace();
        (fields.next() == Some(&key.to_string())).then(|| fields.next().unwrap_or_default().to_owned())
    });
    let Some(id) = left else { return Ok(false) };
    let remove = format!("shmctl({id}, 0, 0)");
    let removed =
        std::process::Command::new("perl").args(["-e", &remove]).status().is_ok_and(|status| status.success());
    if removed { Ok(true) } else { Err("what was left behind could not be removed".to_owned()) }
}

/// Whether any file in the workspace's `src` runs as its owner or group.
fn runs_as_owner(ground: &Ground, script: &str) -> Result<bool, String> {
    use std::os::unix::fs::PermissionsExt;

    ground.script(script)?;
    let files = std::fs::read_dir(ground.workspace().join("src")).unwrap();
    Ok(files.into_iter().any(|file| file.unwrap().metadata().unwrap().permissions().mode() & 0o6000 != 0))
}

fn set_the_bit_of_the_owner(ground: &Ground) -> Result<bool, String> {
    let by_file = "perl -e 'open(my $f, \"<\", \"src/open\"); chmod(02755, $f)'";
    runs_as_owner(ground, &format!("chmod 4755 src/open; chmod u+s,g+s src/open; {by_file}"))
}

fn create_with_the_bit_of_the_owner(ground: &Ground) -> Result<bool, String> {
    let script = format!(
        "perl -e 'use Fcntl; sysopen(my $a, \"src/a\", O_CREAT | O_WRONLY, 04755); \
         $how = pack(\"Q3\", O_CREAT | O_WRONLY, 02755, 0); $path = \"src/b\"; syscall({}, -100, $path, $how, 24)'",
        libc::SYS_openat2
    );
    runs_as_owner(ground, &script)
}

fn type_into_a_terminal(ground: &Ground) -> Result<bool, String> {
    let errno = "perl -e 'open(my $t, \"<\", \"/dev/null\"); ioctl($t, 0x5412, $b = \"x\"); print $!+0, \"\\n\"'";
    let output = ground.script(errno)?;
    Ok(output != format!("{}\n", libc::EPERM))
}

fn open_a_socket_by_x32(ground: &Ground) -> Result<bool, String> {
    if std::env::consts::ARCH != "x86_64" {
        return Ok(false);
    }
    let script = format!("perl -e 'syscall({}, 1, 1, 0); print $!+0, \"\\n\"'", 0x4000_0000 | libc::SYS_socket);
    let output = ground.script(&script)?;
    Ok(output != format!("{}\n", libc::EPERM))
}
