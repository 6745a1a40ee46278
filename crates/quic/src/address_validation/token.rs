//! Tokens of Retry packets (RFC 9000 §8.1.2), in the form that noq writes and reads itself.

use std::net::{IpAddr, SocketAddr};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use aws_lc_rs::aead::{AES_128_GCM_SIV, Aad, LessSafeKey, Nonce, UnboundKey};
use noq_proto::crypto::{CryptoError, HandshakeTokenKey};

/// Time for which noq takes a token of a Retry packet.
pub(crate) const LIFETIME: Duration = Duration::from_secs(15);

/// First byte of a token of a Retry packet, before it is sealed.
const OF_RETRY: u8 = 0;
/// Beginning of an address of IPv4, and of one of IPv6.
const IPV4: u8 = 0;
const IPV6: u8 = 1;

/// Number of bytes of a nonce, which stands open at the end of a token.
const NONCE_BYTES: usize = 16;

/// Longest token of noq, in bytes: type, address, port, connection ID, time, tag and nonce.
const TOKEN_BYTES_MAX: usize = 1 + 17 + 2 + 21 + 8 + 16 + NONCE_BYTES;

/// The key by which a server seals and opens tokens, its own and those of noq.
///
/// One key serves for all tokens of an endpoint, so that a token costs less than a microsecond.
/// AES-GCM-SIV (RFC 8452) bears as many random nonces as a flood asks for.
#[derive(derive_more::Debug)]
#[debug("TokenKey {{ .. }}")]
pub(crate) struct TokenKey(LessSafeKey);

impl TokenKey {
    /// Makes a key of secret bytes.
    ///
    /// # Errors
    /// The cryptographic library has no AES-GCM-SIV.
    pub(crate) fn new(secret: &[u8; 16]) -> Result<Self, CryptoError> {
        let key = UnboundKey::new(&AES_128_GCM_SIV, secret).map_err(|_| CryptoError)?;
        Ok(Self(LessSafeKey::new(key)))
    }

    /// Returns a token for `client`, whose first packet went to connection ID `original`. Each
    /// `nonce` serves once.
    ///
    /// # Errors
    /// The cryptographic library fails.
    pub(super) fn seal_retry(
        &self,
        client: SocketAddr,
        original: &[u8],
        now: SystemTime,
        nonce: u128,
    ) -> Result<Vec<u8>, CryptoError> {
        let mut token = Vec::with_capacity(TOKEN_BYTES_MAX);
        token.push(OF_RETRY);
        match client.ip() {
            IpAddr::V4(address) => {
                token.push(IPV4);
                token.extend(address.octets());
            }
            IpAddr::V6(address) => {
                token.push(IPV6);
                token.extend(address.octets());
            }
        }
        token.extend(client.port().to_be_bytes());
        token.push(original.len() as u8);
        token.extend(original);
        token.extend(unix_seconds(now).to_be_bytes());
        self.seal(nonce, &mut token)?;
        token.extend(nonce.to_le_bytes());
        Ok(token)
    }

    /// Returns whether `token` was sealed by this key for `client`, not longer ago than
    /// [`LIFETIME`].
    pub(super) fn proves(&self, token: &[u8], client: SocketAddr, now: SystemTime) -> bool {
        self.address_of(token, now)
            .is_some_and(|(address, port)| address == client.ip() && port == client.port())
    }

    /// Returns the address in a token that is good at `now`.
    fn address_of(&self, token: &[u8], now: SystemTime) -> Option<(IpAddr, u16)> {
        // Longer ones are copied for nobody.
        if token.len() > TOKEN_BYTES_MAX {
            return None;
        }
        let (sealed, nonce) = token.split_last_chunk::<NONCE_BYTES>()?;
        let mut sealed = sealed.to_vec();
        let opened = self.open(u128::from_le_bytes(*nonce), &mut sealed).ok()?;
        let (address, rest): (IpAddr, _) = match opened {
            [OF_RETRY, IPV4, rest @ ..] => {
                let (octets, rest) = rest.split_first_chunk::<4>()?;
                ((*octets).into(), rest)
            }
            [OF_RETRY, IPV6, rest @ ..] => {
                let (octets, rest) = rest.split_first_chunk::<16>()?;
                ((*octets).into(), rest)
            }
            _ => return None,
        };
        let (port, _) = rest.split_first_chunk()?;
        let (_, issued) = opened.split_last_chunk()?;
        let age = unix_seconds(now).saturating_sub(u64::from_be_bytes(*issued));
        (age <= LIFETIME.as_secs()).then_some((address, u16::from_be_bytes(*port)))
    }
}

impl HandshakeTokenKey for TokenKey {
    fn seal(&self, token_nonce: u128, data: &mut Vec<u8>) -> Result<(), CryptoError> {
        let (nonce, bound) = split(token_nonce);
        self.0
            .seal_in_place_append_tag(nonce, bound, data)
            .map_err(|_| CryptoError)
    }

    fn open<'a>(&self, token_nonce: u128, data: &'a mut [u8]) -> Result<&'a [u8], CryptoError> {
        let (nonce, bound) = split(token_nonce);
        let opened = self.0.open_in_place(nonce, bound, data);
        opened.map(|it| &*it).map_err(|_| CryptoError)
    }
}

/// Returns the nonce of the cipher, which has twelve bytes, and the four bytes that remain of a
/// token's nonce. They are authenticated, or else one token would have many forms.
fn split(token_nonce: u128) -> (Nonce, Aad<[u8; 4]>) {
    let [a, b, c, d, nonce @ ..] = token_nonce.to_be_bytes();
    let nonce = Nonce::assume_unique_for_key(nonce);
    (nonce, Aad::from([a, b, c, d]))
}

fn unix_seconds(time: SystemTime) -> u64 {
    time.duration_since(UNIX_EPOCH)
        .map_or(0, |since| since.as_secs())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn key() -> TokenKey {
        TokenKey::new(&[9; 16]).expect("a key")
    }

    const NOW: Duration = Duration::from_secs(1_800_000_000);

    #[test]
    fn a_token_proves_its_address_for_a_quarter_of_a_minute() {
        let now = UNIX_EPOCH + NOW;
        for client in ["192.0.2.1:4000", "[2001:db8::1]:4000"] {
            let client: SocketAddr = client.parse().expect("an address");
            let token = key().seal_retry(client, &[1; 20], now, 5).expect("sealed");
            assert!(token.len() <= TOKEN_BYTES_MAX);
            assert!(key().proves(&token, client, now));
            assert!(key().proves(&token, client, now + LIFETIME));
            let late = now + LIFETIME + Duration::from_secs(1);
            assert!(!key().proves(&token, client, late));
            for other in ["192.0.2.2:4000", "192.0.2.1:4001", "[2001:db8::2]:4000"] {
                let other = other.parse().expect("an address");
                assert!(!key().proves(&token, other, now), "{other}");
            }
            let other_key = TokenKey::new(&[8; 16]).expect("a key");
            assert!(!other_key.proves(&token, client, now));
        }
    }

    #[test]
    fn no_bit_of_a_token_may_change() {
        let client = SocketAddr::from(([192, 0, 2, 1], 4000));
        let now = UNIX_EPOCH + NOW;
        let token = key().seal_retry(client, &[1; 8], now, 5).expect("sealed");
        for bit in 0..8 * token.len() {
            let mut changed = token.clone();
            changed[bit / 8] ^= 1 << (bit % 8);
            assert!(!key().proves(&changed, client, now), "bit {bit}");
        }
        for len in 0..token.len() {
            assert!(!key().proves(&token[..len], client, now), "{len} bytes");
        }
    }
}
