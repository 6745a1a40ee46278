//! The question from which address a STUN server sees this machine (RFC 8489 §2).

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};

use super::check::{BINDING_REQUEST, HEADER_BYTES, MAGIC_COOKIE, response_transaction};

/// Attribute types of the answer (RFC 8489 §18.3). Servers of RFC 3489 know the plain one only.
const MAPPED_ADDRESS: u16 = 0x0001;
const XOR_MAPPED_ADDRESS: u16 = 0x0020;

/// Address families in these attributes (RFC 8489 §14.1).
const IPV4: u8 = 1;
const IPV6: u8 = 2;

/// Returns a STUN binding request without attributes (RFC 8489 §5), which a STUN server answers
/// with the address that it sees. `transaction`: random bytes, which the answer repeats.
pub fn binding_request(transaction: [u8; 12]) -> [u8; 20] {
    let mut request = [0; HEADER_BYTES];
    request[..2].copy_from_slice(&BINDING_REQUEST.to_be_bytes());
    request[4..8].copy_from_slice(&MAGIC_COOKIE.to_be_bytes());
    request[8..].copy_from_slice(&transaction);
    request
}

/// Returns the address that a STUN server has seen, from its answer to
/// [`binding_request`]`(transaction)`; `None` if the datagram is no such answer or has no address.
pub fn mapped_address(datagram: &[u8], transaction: [u8; 12]) -> Option<SocketAddr> {
    if response_transaction(datagram)? != transaction {
        return None;
    }
    let bytes = usize::from(u16::from_be_bytes([datagram[2], datagram[3]]));
    let mut attributes = datagram.get(HEADER_BYTES..HEADER_BYTES + bytes)?;
    let mut plain = None;
    while let Some((head, rest)) = attributes.split_first_chunk::<4>() {
        let kind = u16::from_be_bytes([head[0], head[1]]);
        let bytes = usize::from(u16::from_be_bytes([head[2], head[3]]));
        let value = rest.get(..bytes)?;
        match kind {
            XOR_MAPPED_ADDRESS => return address(value).map(|seen| unmask(seen, transaction)),
            MAPPED_ADDRESS => plain = address(value),
            _ => {}
        }
        // Values are padded to four bytes.
        attributes = rest.get(bytes.next_multiple_of(4)..).unwrap_or_default();
    }
    plain
}

/// Reads the value of an address attribute (RFC 8489 §14.1).
fn address(value: &[u8]) -> Option<SocketAddr> {
    let ([_, family, high, low], ip) = value.split_first_chunk::<4>()?;
    let ip: IpAddr = match *family {
        IPV4 => Ipv4Addr::from(<[u8; 4]>::try_from(ip).ok()?).into(),
        IPV6 => Ipv6Addr::from(<[u8; 16]>::try_from(ip).ok()?).into(),
        _ => return None,
    };
    Some(SocketAddr::new(ip, u16::from_be_bytes([*high, *low])))
}

/// Removes the mask of XOR-MAPPED-ADDRESS: cookie and transaction (RFC 8489 §14.2).
fn unmask(masked: SocketAddr, transaction: [u8; 12]) -> SocketAddr {
    let cookie = MAGIC_COOKIE.to_be_bytes();
    let ip: IpAddr = match masked.ip() {
        IpAddr::V4(ip) => Ipv4Addr::from_bits(ip.to_bits() ^ MAGIC_COOKIE).into(),
        IpAddr::V6(ip) => {
            let mask = cookie.into_iter().chain(transaction);
            let mut octets = ip.octets();
            octets
                .iter_mut()
                .zip(mask)
                .for_each(|(octet, mask)| *octet ^= mask);
            Ipv6Addr::from(octets).into()
        }
    };
    let high = u16::from_be_bytes([cookie[0], cookie[1]]);
    SocketAddr::new(ip, masked.port() ^ high)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Transaction of the samples in RFC 5769 §2.2 and §2.3.
    const SAMPLE: [u8; 12] = [
        0xb7, 0xe7, 0xa7, 0x01, 0xbc, 0x34, 0xd6, 0x86, 0xfa, 0x87, 0xdf, 0xae,
    ];

    fn answer(attributes: &[u8]) -> Vec<u8> {
        let mut datagram = vec![0x01, 0x01];
        let bytes = u16::try_from(attributes.len()).expect("short");
        datagram.extend(bytes.to_be_bytes());
        datagram.extend(MAGIC_COOKIE.to_be_bytes());
        datagram.extend(SAMPLE);
        datagram.extend(attributes);
        datagram
    }

    /// SOFTWARE "test vector" of the samples, with its padding of one byte.
    const SOFTWARE: [u8; 16] = *b"\x80\x22\x00\x0btest vector ";

    const XOR_IPV4: [u8; 12] = [0, 0x20, 0, 8, 0, 1, 0xa1, 0x47, 0xe1, 0x12, 0xa6, 0x43];

    #[test]
    fn the_addresses_of_rfc_5769_are_read() {
        let read = mapped_address(&answer(&[&SOFTWARE[..], &XOR_IPV4].concat()), SAMPLE);
        assert_eq!(read, "192.0.2.1:32853".parse().ok());
        let ipv6 = [
            0, 0x20, 0, 20, 0, 2, 0xa1, 0x47, 0x01, 0x13, 0xa9, 0xfa, 0xa5, 0xd3, 0xf1, 0x79, 0xbc,
            0x25, 0xf4, 0xb5, 0xbe, 0xd2, 0xb9, 0xd9,
        ];
        let read = mapped_address(&answer(&[&SOFTWARE[..], &ipv6].concat()), SAMPLE);
        assert_eq!(
            read,
            "[2001:db8:1234:5678:11:2233:4455:6677]:32853".parse().ok()
        );
    }

    #[test]
    fn a_plain_address_counts_where_no_other_is() {
        let plain = [0, 1, 0, 8, 0, 1, 0x1f, 0x90, 198, 51, 100, 7];
        let read = mapped_address(&answer(&plain), SAMPLE);
        assert_eq!(read, "198.51.100.7:8080".parse().ok());
        let both = answer(&[plain, XOR_IPV4].concat());
        assert_eq!(
            mapped_address(&both, SAMPLE),
            "192.0.2.1:32853".parse().ok()
        );
    }

    #[test]
    fn foreign_and_broken_answers_have_no_address() {
        let whole = answer(&XOR_IPV4);
        assert!(mapped_address(&whole, SAMPLE).is_some());
        for cut in 0..whole.len() {
            assert_eq!(mapped_address(&whole[..cut], SAMPLE), None, "{cut} bytes");
        }
        assert_eq!(mapped_address(&whole, [0; 12]), None);
        for (place, byte) in [
            (1, 0x11),
            (4, 0),
            (25, 3),
            (23, 7),
            (23, 9),
            (3, 13),
            (21, 0x21),
        ] {
            let mut broken = whole.clone();
            broken[place] = byte;
            assert_eq!(mapped_address(&broken, SAMPLE), None, "byte {place}");
        }
        assert_eq!(mapped_address(&answer(&[]), SAMPLE), None);
    }

    #[test]
    fn a_request_is_a_header_alone() {
        let request = binding_request(SAMPLE);
        assert_eq!(request[..8], [0, 1, 0, 0, 0x21, 0x12, 0xa4, 0x42]);
        assert_eq!(request[8..], SAMPLE);
        assert_eq!(mapped_address(&request, SAMPLE), None);
    }
}
