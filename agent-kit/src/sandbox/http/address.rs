//! Decides which addresses are public.
//!
//! IANA's registries list the special-purpose addresses (<https://www.iana.org/assignments/iana-ipv4-special-registry>,
//! the same for IPv6). For IPv6 only addresses listed as public are allowed, so that no unknown form is a way in.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

/// Why an address is not public, in words that complete "it is ..."; `None` = it is public.
pub fn objection(address: IpAddr) -> Option<&'static str> {
    match address {
        IpAddr::V4(address) => objection_v4(address),
        IpAddr::V6(address) => objection_v6(address),
    }
}

fn objection_v4(address: Ipv4Addr) -> Option<&'static str> {
    Some(match address.octets() {
        [0, ..] => "an address of this network",
        [127, ..] => "a loopback address",
        [10, ..] | [192, 168, ..] | [172, 16..=31, ..] => "a private address",
        [100, 64..=127, ..] => "a shared address of a provider's network",
        [169, 254, ..] => "a link-local address, as cloud metadata has",
        [192, 0, 0, _] | [192, 88, 99, _] => "an address of a protocol",
        [192, 0, 2, _] | [198, 51, 100, _] | [203, 0, 113, _] => "an address for documentation",
        [198, 18..=19, ..] => "an address for benchmarks",
        [224..=239, ..] => "a multicast address",
        [240..=255, ..] => "a reserved address",
        _ => return None,
    })
}

fn objection_v6(address: Ipv6Addr) -> Option<&'static str> {
    let [a, b, ..] = address.segments();
    Some(match address.segments() {
        // `::ffff:0:0/96` is how sockets spell IPv4, `64:ff9b::/96` how a network without IPv4 does.
        [0, 0, 0, 0, 0, 0xffff, ..] | [0x64, 0xff9b, 0, 0, 0, 0, ..] => return objection_v4(embedded(address)),
        [0, 0, 0, 0, 0, 0, 0, 0] => "the unspecified address",
        [0, 0, 0, 0, 0, 0, 0, 1] => "a loopback address",
        _ if a & 0xffc0 == 0xfe80 => "a link-local address",
        _ if a & 0xffc0 == 0xfec0 => "a site-local address",
        _ if a & 0xfe00 == 0xfc00 => "a private address",
        _ if a & 0xff00 == 0xff00 => "a multicast address",
        _ if a & 0xe000 != 0x2000 => "no global address",
        _ if a == 0x2002 => "an address of 6to4, which can lead anywhere",
        _ if a == 0x2001 && b == 0 => "an address of Teredo, which can lead anywhere",
        _ if a == 0x2001 && b < 0x200 => "an address of a protocol",
        _ if a == 0x2001 && b == 0xdb8 => "an address for documentation",
        _ if a == 0x3fff && b < 0x1000 => "an address for documentation",
        _ => return None,
    })
}

fn embedded(address: Ipv6Addr) -> Ipv4Addr {
    let [.., a, b, c, d] = address.octets();
    Ipv4Addr::new(a, b, c, d)
}

#[cfg(test)]
mod tests;
