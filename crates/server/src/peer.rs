//! The owner of the process at the other end of a loopback connection.
//!
//! A server without keys takes requests from its own user and from root only. The kernel knows the owner of every socket
//! of this machine; it is asked for each connection, through a socket that is opened once, so that no descriptor is needed
//! when connections have used up all of them.

use std::future::ready;
use std::io;
use std::net::{IpAddr, SocketAddr};
use std::os::fd::OwnedFd;
use std::sync::Arc;

use flowloom_runtime::descriptors::retry_without_descriptors;
use parking_lot::Mutex;
use rustix::net::netlink::{SOCK_DIAG, SocketAddrNetlink};
use rustix::net::{AddressFamily, RecvFlags, SendFlags, SocketFlags, SocketType, recv, sendto, socket_with};
use rustix::process::geteuid;

/// Length of a netlink message's header, in bytes.
const HEADER_BYTES: usize = 16;

/// Length of `inet_diag_req_v2`, in bytes.
const REQUEST_BYTES: usize = 56;

/// Length of `inet_diag_msg`, in bytes.
const REPLY_BYTES: usize = 72;

/// Offsets of the owner and of the inode in `inet_diag_msg`.
const UID_OFFSET: usize = 64;
const INODE_OFFSET: usize = 68;

/// `SOCK_DIAG_BY_FAMILY` of `linux/sock_diag.h`.
const SOCK_DIAG_BY_FAMILY: u16 = 20;

/// `NLM_F_REQUEST` of `linux/netlink.h`.
const REQUEST_FLAG: u16 = 1;

/// `IPPROTO_TCP`.
const TCP_PROTOCOL: u8 = 6;

/// The user as whom the kernel shows users that this user namespace does not know.
const OVERFLOW_UID: u32 = 65534;

/// The owner of the other end of a connection; `None` if it cannot be determined.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct PeerOwner(Option<u32>);

impl PeerOwner {
    /// Whether it is the user of this process, or root.
    pub(crate) fn is_trusted(self) -> bool {
        self.0.is_some_and(|owner| owner == 0 || owner == geteuid().as_raw())
    }
}

/// Finds the owners of connections.
#[derive(Clone)]
pub(crate) struct OwnerFinder {
    /// The socket for queries of the kernel, which answers one after the other; `None` if the kernel offers none.
    socket: Option<Arc<Mutex<OwnedFd>>>,
}

impl OwnerFinder {
    pub(crate) fn open() -> OwnerFinder {
        let socket = socket_with(AddressFamily::NETLINK, SocketType::DGRAM, SocketFlags::CLOEXEC, Some(SOCK_DIAG));
        OwnerFinder { socket: socket.ok().map(|socket| Arc::new(Mutex::new(socket))) }
    }

    /// Asks the kernel for the owner of the socket at `peer` that is connected to `local`. Waits for a descriptor if it
    /// needs one.
    pub(crate) async fn find_owner(&self, local: SocketAddr, peer: SocketAddr) -> PeerOwner {
        let found = match self.query_kernel(local, peer) {
            Ok(found) => found,
            // Without this kind of query, for example in some containers, the same facts are in a table.
            Err(_) => retry_without_descriptors(|| ready(read_tables(local, peer))).await.unwrap_or_default(),
        };
        PeerOwner(found.filter(|owner| *owner != OVERFLOW_UID))
    }

    /// The owner of a socket by a query of its exact addresses; `None` if there is no such socket, or no process has it.
    fn query_kernel(&self, local: SocketAddr, peer: SocketAddr) -> io::Result<Option<u32>> {
        let socket = self.socket.as_ref().ok_or(io::ErrorKind::Unsupported)?;
        let socket = socket.lock();
        sendto(&*socket, &build_request(local, peer), SendFlags::empty(), &SocketAddrNetlink::new(0, 0))?;
        let mut buffer = [0; 1024];
        // The kernel has answered when the request is sent, with one message.
        let (_, length) = recv(&*socket, &mut buffer, RecvFlags::DONTWAIT)?;
        parse_reply(buffer.get(..length).unwrap_or(&buffer))
    }
}

/// The query for the socket whose own address is `peer`.
fn build_request(local: SocketAddr, peer: SocketAddr) -> Vec<u8> {
    let mut request = Vec::with_capacity(HEADER_BYTES + REQUEST_BYTES);
    request.extend(((HEADER_BYTES + REQUEST_BYTES) as u32).to_ne_bytes());
    request.extend(SOCK_DIAG_BY_FAMILY.to_ne_bytes());
    request.extend(REQUEST_FLAG.to_ne_bytes());
    // Sequence number and port.
    request.extend([0; 8]);
    let family = if peer.is_ipv4() { AddressFamily::INET } else { AddressFamily::INET6 };
    request.extend([family.as_raw() as u8, TCP_PROTOCOL, 0, 0]);
    // Sockets in any state.
    request.extend(u32::MAX.to_ne_bytes());
    request.extend(peer.port().to_be_bytes());
    request.extend(local.port().to_be_bytes());
    request.extend(address_bytes(peer.ip()));
    request.extend(address_bytes(local.ip()));
    // Any interface, and a socket whose cookie is not known.
    request.extend([0; 4]);
    request.extend([0xff; 8]);
    request
}

fn address_bytes(address: IpAddr) -> [u8; 16] {
    match address {
        IpAddr::V4(address) => {
            let mut bytes = [0; 16];
            bytes[..4].copy_from_slice(&address.octets());
            bytes
        }
        IpAddr::V6(address) => address.octets(),
    }
}

/// The owner in a reply.
fn parse_reply(reply: &[u8]) -> io::Result<Option<u32>> {
    let kind = reply.get(4..6).map(|bytes| [bytes[0], bytes[1]]).map(u16::from_ne_bytes);
    if kind != Some(SOCK_DIAG_BY_FAMILY) || reply.len() < HEADER_BYTES + REPLY_BYTES {
        // An error of the kernel: there is no such socket, or it does not take the query.
        let error = read_number(reply, HEADER_BYTES).map_or(0, |code| (code as i32).saturating_neg());
        let missing = rustix::io::Errno::NOENT.raw_os_error();
        // A kernel without the query answers like that, too, so the table decides.
        return Err(io::Error::from_raw_os_error(if error > 0 { error } else { missing }));
    }
    let (owner, inode) =
        (read_number(reply, HEADER_BYTES + UID_OFFSET), read_number(reply, HEADER_BYTES + INODE_OFFSET));
    // A socket that its process has closed has no inode, and some kernels report root as its owner.
    Ok(owner.filter(|_| inode.is_some_and(|inode| inode != 0)))
}

fn read_number(bytes: &[u8], at: usize) -> Option<u32> {
    let bytes = bytes.get(at..at + 4)?;
    Some(u32::from_ne_bytes([bytes[0], bytes[1], bytes[2], bytes[3]]))
}

/// The owner of a socket according to the tables of all sockets.
fn read_tables(local: SocketAddr, peer: SocketAddr) -> io::Result<Option<u32>> {
    let search = |table: &str, map: fn(IpAddr) -> IpAddr| {
        let text = std::fs::read_to_string(table)?;
        let of = |address: SocketAddr| format_table_address(SocketAddr::new(map(address.ip()), address.port()));
        Ok(find_row_owner(&text, &of(peer), &of(local)))
    };
    let found = if peer.is_ipv4() { search("/proc/net/tcp", |address| address)? } else { None };
    match found {
        Some(owner) => Ok(Some(owner)),
        // A socket for both versions has an IPv4 address in the form of IPv6.
        None => search("/proc/net/tcp6", to_ipv6),
    }
}

fn to_ipv6(address: IpAddr) -> IpAddr {
    match address {
        IpAddr::V4(address) => address.to_ipv6_mapped().into(),
        IpAddr::V6(_) => address,
    }
}

/// An address in the form of the tables: words in the byte order of the machine, in hex.
fn format_table_address(address: SocketAddr) -> String {
    let bytes = address_bytes(address.ip());
    let words = if address.is_ipv4() { &bytes[..4] } else { &bytes[..] };
    let words = words.chunks_exact(4).filter_map(|word| read_number(word, 0)).map(|word| format!("{word:08X}"));
    format!("{}:{:04X}", words.collect::<String>(), address.port())
}

/// The owner in the row of a table with these addresses.
fn find_row_owner(table: &str, own: &str, remote: &str) -> Option<u32> {
    let rows = table.lines().skip(1).map(|row| row.split_whitespace().collect::<Vec<_>>());
    let mut rows = rows.filter(|row| row.get(1) == Some(&own) && row.get(2) == Some(&remote));
    let row = rows.next()?;
    let inode: u64 = row.get(9)?.parse().ok()?;
    row.get(7)?.parse().ok().filter(|_| inode != 0)
}

#[cfg(test)]
mod tests {
    use std::net::{TcpListener, TcpStream};

    use super::*;

    fn connect(address: &str) -> (TcpStream, TcpStream) {
        let listener = TcpListener::bind(address).expect("a port");
        let client = TcpStream::connect(listener.local_addr().expect("an address")).expect("connected");
        (client, listener.accept().expect("accepted").0)
    }

    fn ends(server: &TcpStream) -> (SocketAddr, SocketAddr) {
        (server.local_addr().expect("an address"), server.peer_addr().expect("an address"))
    }

    #[tokio::test]
    async fn the_owner_of_a_connection_is_found_in_both_ways() {
        let finder = OwnerFinder::open();
        for address in ["127.0.0.1:0", "[::1]:0"] {
            let (_client, server) = connect(address);
            let (local, peer) = ends(&server);
            assert_eq!(finder.query_kernel(local, peer).ok().flatten(), Some(geteuid().as_raw()), "{address}");
            assert_eq!(read_tables(local, peer).ok().flatten(), Some(geteuid().as_raw()), "{address}");
            assert!(finder.find_owner(local, peer).await.is_trusted());
            let without_queries = OwnerFinder { socket: None };
            assert!(without_queries.find_owner(local, peer).await.is_trusted());
        }
    }

    #[tokio::test]
    async fn a_closed_socket_has_no_owner() {
        let finder = OwnerFinder::open();
        let (client, server) = connect("127.0.0.1:0");
        let (local, peer) = ends(&server);
        drop(client);
        assert_eq!(finder.query_kernel(local, peer).ok().flatten(), None);
        assert_eq!(read_tables(local, peer).ok().flatten(), None);
        assert!(!finder.find_owner(local, peer).await.is_trusted());
    }

    #[tokio::test]
    async fn an_unknown_socket_has_no_owner() {
        let nobody = |port| SocketAddr::from(([127, 0, 0, 1], port));
        assert!(!OwnerFinder::open().find_owner(nobody(1), nobody(2)).await.is_trusted());
        assert!(!PeerOwner(Some(OVERFLOW_UID)).is_trusted() || geteuid().as_raw() == OVERFLOW_UID);
    }

    #[test]
    fn the_table_is_read() {
        let table = "  sl  local_address rem_address   st tx_queue rx_queue tr tm->when retrnsmt   uid  timeout inode\n   \
            0: 0100007F:A000 0100007F:21FC 01 00000000:00000000 00:00000000 00000000  1000        0 4711 1 0 20\n   \
            1: 0100007F:A001 0100007F:21FC 05 00000000:00000000 00:00000000 00000000     0        0 0 1 0 20\n";
        assert_eq!(find_row_owner(table, "0100007F:A000", "0100007F:21FC"), Some(1000));
        assert_eq!(find_row_owner(table, "0100007F:A001", "0100007F:21FC"), None);
        assert_eq!(find_row_owner(table, "0100007F:21FC", "0100007F:A000"), None);
        if cfg!(target_endian = "little") {
            assert_eq!(format_table_address(SocketAddr::from(([127, 0, 0, 1], 8700))), "0100007F:21FC");
        }
    }
}
