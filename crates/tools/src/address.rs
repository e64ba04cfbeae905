//! Which IP addresses are on the public internet, as data.
//!
//! Only arithmetic on addresses. Names, ports and configured exceptions are handled in [`crate::egress`].

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

/// IPv4 blocks that are not on the public internet: (network, prefix length, description).
const SPECIAL_V4_BLOCKS: [(Ipv4Addr, u32, &str); 18] = [
    (Ipv4Addr::new(0, 0, 0, 0), 8, "this host"),
    (Ipv4Addr::new(10, 0, 0, 0), 8, "a private network"),
    (Ipv4Addr::new(100, 64, 0, 0), 10, "a carrier's shared network"),
    (Ipv4Addr::new(127, 0, 0, 0), 8, "loopback"),
    (Ipv4Addr::new(168, 63, 129, 16), 32, "a cloud's host service"),
    (Ipv4Addr::new(169, 254, 0, 0), 16, "link-local, where clouds keep instance credentials"),
    (Ipv4Addr::new(172, 16, 0, 0), 12, "a private network"),
    (Ipv4Addr::new(192, 0, 0, 0), 24, "reserved for protocols"),
    (Ipv4Addr::new(192, 0, 2, 0), 24, "reserved for documentation"),
    (Ipv4Addr::new(192, 88, 99, 0), 24, "a 6to4 relay"),
    (Ipv4Addr::new(192, 168, 0, 0), 16, "a private network"),
    (Ipv4Addr::new(198, 18, 0, 0), 15, "reserved for benchmarks"),
    (Ipv4Addr::new(198, 51, 100, 0), 24, "reserved for documentation"),
    (Ipv4Addr::new(203, 0, 113, 0), 24, "reserved for documentation"),
    (Ipv4Addr::new(224, 0, 0, 0), 4, "multicast"),
    (Ipv4Addr::new(255, 255, 255, 255), 32, "broadcast"),
    (Ipv4Addr::new(240, 0, 0, 0), 4, "reserved"),
    // AS112 servers answer reverse lookups of private addresses; workflows read nothing from them.
    (Ipv4Addr::new(192, 175, 48, 0), 24, "reserved for name servers"),
];

/// IPv6 blocks that are refused although they are in public space or translate to it.
const SPECIAL_V6_BLOCKS: [(Ipv6Addr, u32, &str); 11] = [
    (Ipv6Addr::UNSPECIFIED, 128, "this host"),
    (Ipv6Addr::LOCALHOST, 128, "loopback"),
    (Ipv6Addr::new(0xfe80, 0, 0, 0, 0, 0, 0, 0), 10, "link-local"),
    (Ipv6Addr::new(0xfec0, 0, 0, 0, 0, 0, 0, 0), 10, "a private network"),
    (Ipv6Addr::new(0xfc00, 0, 0, 0, 0, 0, 0, 0), 7, "a private network"),
    (Ipv6Addr::new(0xff00, 0, 0, 0, 0, 0, 0, 0), 8, "multicast"),
    // Teredo and 6to4 are obsolete on the public internet but still tunnel to an IPv4 address of the author's choice.
    (Ipv6Addr::new(0x2001, 0, 0, 0, 0, 0, 0, 0), 32, "a Teredo tunnel"),
    (Ipv6Addr::new(0x2001, 0, 0, 0, 0, 0, 0, 0), 23, "reserved for protocols"),
    (Ipv6Addr::new(0x2001, 0xdb8, 0, 0, 0, 0, 0, 0), 32, "reserved for documentation"),
    (Ipv6Addr::new(0x2002, 0, 0, 0, 0, 0, 0, 0), 16, "a 6to4 tunnel"),
    (Ipv6Addr::new(0x3fff, 0, 0, 0, 0, 0, 0, 0), 20, "reserved for documentation"),
];

/// Describes why `address` is not on the public internet; `None` if it is.
pub fn describe_special(address: IpAddr) -> Option<String> {
    match address {
        IpAddr::V4(v4) => describe_special_v4(v4).map(str::to_owned),
        IpAddr::V6(v6) => describe_special_v6(v6),
    }
}

fn describe_special_v4(address: Ipv4Addr) -> Option<&'static str> {
    let bits = address.to_bits();
    SPECIAL_V4_BLOCKS
        .iter()
        .find(|(net, length, _)| (bits ^ net.to_bits()) >> (32 - length) == 0)
        .map(|(_, _, what)| *what)
}

fn describe_special_v6(address: Ipv6Addr) -> Option<String> {
    let bits = address.to_bits();
    let listed = SPECIAL_V6_BLOCKS.iter().find(|(net, length, _)| (bits ^ net.to_bits()) >> (128 - length) == 0);
    if let Some((_, _, what)) = listed {
        return Some((*what).to_owned());
    }
    if let Some(inner) = embedded_v4(address) {
        return describe_special_v4(inner).map(|what| format!("{inner} in IPv6 form, {what}"));
    }
    // All routed addresses are in 2000::/3; the rest is unassigned, deprecated or local by definition.
    (bits >> 125 != 1).then(|| "outside the routed IPv6 space".to_owned())
}

/// The IPv4 address that packets to `address` are sent to, for forms that may also contain public addresses:
/// IPv4-mapped addresses and NAT64's well-known prefix. (NAT64's local prefix, 6to4 and Teredo are always refused.)
fn embedded_v4(address: Ipv6Addr) -> Option<Ipv4Addr> {
    let low = Ipv4Addr::from_bits(address.to_bits() as u32);
    match address.segments() {
        [0, 0, 0, 0, 0, 0xffff, _, _] | [0x64, 0xff9b, 0, 0, 0, 0, _, _] => Some(low),
        _ => None,
    }
}
