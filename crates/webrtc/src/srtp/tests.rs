use super::keys::{SessionKeys, Transform, generate};
use super::*;
use glassline_media::Ssrc;
use proptest::prelude::*;
use std::collections::HashMap;

const PROFILES: [Profile; 3] = [
    Profile::Aes128CmSha1_80,
    Profile::AeadAes128Gcm,
    Profile::AeadAes256Gcm,
];

fn hex(text: &str) -> Vec<u8> {
    let digits: Vec<u8> = text.bytes().filter(u8::is_ascii_hexdigit).collect();
    digits
        .chunks(2)
        .map(|pair| {
            let pair = std::str::from_utf8(pair).expect("ASCII");
            u8::from_str_radix(pair, 16).expect("hexadecimal")
        })
        .collect()
}

/// The two ends of an association with invented keys: the second opens what the first seals.
fn ends(profile: Profile) -> (Outbound, Inbound) {
    let material: Vec<u8> = (0..profile.material_bytes())
        .map(|byte| byte as u8)
        .collect();
    let (outbound, _) = derive(profile, &material, Role::Server).expect("enough material");
    let (_, inbound) = derive(profile, &material, Role::Client).expect("enough material");
    (outbound, inbound)
}

fn header(ssrc: u32) -> Vec<u8> {
    let mut header = vec![0x80, 96, 0, 0, 0, 0, 0, 1];
    header.extend_from_slice(&ssrc.to_be_bytes());
    header
}

fn seal(outbound: &mut Outbound, stream: StreamIndex, payload: &[u8]) -> (Vec<u8>, SealedRtp) {
    let mut out = header(0);
    out.resize(12 + payload.len() + 16, 0);
    let sealed = outbound
        .seal(stream, 12, payload, 0, &mut out)
        .expect("room enough");
    out.truncate(sealed.bytes);
    (out, sealed)
}

#[test]
fn keys_are_derived_as_in_rfc_3711_b_3() {
    let key = hex("E1F97A0D3E018BE0D64FA32C06DE4139");
    let salt = hex("0EC675AD498AFEEBB6960B3AABE6");
    let (mut cipher, mut session_salt, mut auth) = ([0; 16], [0; 14], [0; 20]);
    generate(&key, &salt, 0, &mut cipher);
    generate(&key, &salt, 2, &mut session_salt);
    generate(&key, &salt, 1, &mut auth);
    assert_eq!(cipher.to_vec(), hex("C61E7A93744F39EE10734AFE3FF7A087"));
    assert_eq!(session_salt.to_vec(), hex("30CBBC08863D8C85D49DB34A9AE1"));
    assert_eq!(
        auth.to_vec(),
        hex("CEBE321F6FF7716B6FD4AB49AF256A156D38BAA4")
    );
}

#[test]
fn the_key_stream_is_that_of_rfc_3711_b_2() {
    let salt: [u8; 14] = hex("F0F1F2F3F4F5F6F7F8F9FAFBFCFD")
        .try_into()
        .expect("14 bytes");
    let transform = Transform::cm_sha1(&hex("2B7E151628AED2A6ABF7158809CF4F3C"), &[0; 20], salt);
    // SSRC and index are zero there, so encrypting zeros shows the key stream itself.
    let mut out = vec![0; 48 + 10];
    transform
        .seal_rtp([0; 4], 0, 0, &[0; 48], 0, &mut out)
        .expect("room enough");
    assert_eq!(
        out[..48],
        hex("E03EAD0935C95E80E166B16DD92B4EB4
             D23513162B02D0F72A43A2FE4A5F97AB
             41E95B3BB0A2E8DD477901E4FCA894C0")
    );
}

/// Packets that libsrtp's test driver sealed with the keys of RFC 3711 B.3.
#[test]
fn counter_mode_packets_agree_with_libsrtp() {
    let key = hex("E1F97A0D3E018BE0D64FA32C06DE4139");
    let salt = hex("0EC675AD498AFEEBB6960B3AABE6");
    let profile = Profile::Aes128CmSha1_80;
    let mut outbound = Outbound::with_master(profile, &key, &salt).expect("its lengths");
    let stream = outbound
        .add_stream(Ssrc(0xcafe_babe), 0x1234)
        .expect("the first");
    assert_eq!(outbound.next_index(stream), Some(0x1234));
    let mut out = hex("800f1234decafbadcafebabe");
    out.resize(12 + 16 + 10, 0);
    outbound
        .seal(stream, 12, &[0xab; 16], 0, &mut out)
        .expect("room enough");
    assert_eq!(
        out,
        hex("800f1234decafbadcafebabe4e55dc4ce79978d88ca4d215949d2402b78d6acc99ea179b8dbb")
    );
    let mut rtcp = hex("81c8000bcafebabe");
    rtcp.extend_from_slice(&[0xab; 16]);
    assert!(outbound.seal_rtcp(&mut rtcp));
    assert_eq!(
        rtcp,
        hex("81c8000bcafebabe7128035be487b9bdbef89041f977a5a880000001993e08cd54d6c1230798")
    );
    assert_eq!(outbound.next_index(stream), Some(0x1235));
    let mut inbound = Inbound::with_master(profile, &key, &salt).expect("its lengths");
    assert_eq!(
        inbound.open(12, &mut out).expect("authentic").payload,
        12..28
    );
    assert_eq!(out[12..28], [0xab; 16]);
    assert_eq!(inbound.open_rtcp(&mut rtcp), Ok(24));
    let short = Inbound::with_master(profile, &key, &salt[1..]).expect_err("too short");
    assert_eq!((short.needed, short.got), (30, 29));
}

const GCM_SALT: &str = "517569642070726f2071756f";
const GCM_KEY_128: &str = "000102030405060708090a0b0c0d0e0f";
const GCM_KEY_256: &str = "000102030405060708090a0b0c0d0e0f101112131415161718191a1b1c1d1e1f";

fn gcm(key: &str) -> Transform {
    Transform::gcm(&hex(key), hex(GCM_SALT).try_into().expect("12 bytes"))
}

#[test]
fn gcm_packets_are_those_of_rfc_7714_16() {
    let cases = [
        (
            GCM_KEY_128,
            "8040f17b8041f8d35501a0b2f24de3a3fb34de6cacba861c9d7e4bcabe633bd50d294e6f42a5f47a
             51c7d19b36de3adf8833899d7f27beb16a9152cf765ee4390cce",
        ),
        (
            GCM_KEY_256,
            "8040f17b8041f8d35501a0b232b1de78a822fe12ef9f78fa332e33aab18012389a58e2f3b50b2a02
             76ffae0f1ba63799b87b7aa3db36dfffd6b0f9bb7878d7a76c13",
        ),
    ];
    for (key, expected) in cases {
        let session = || SessionKeys {
            rtp: gcm(key),
            rtcp: gcm(key),
        };
        let mut outbound = Outbound::new(session());
        let stream = outbound
            .add_stream(Ssrc(0x5501_a0b2), 0xf17b)
            .expect("the first");
        let mut out = hex("8040f17b8041f8d35501a0b2");
        out.resize(12 + 38 + 16, 0);
        outbound
            .seal(
                stream,
                12,
                b"Gallia est omnis divisa in partes tres",
                0,
                &mut out,
            )
            .expect("room enough");
        assert_eq!(out, hex(expected));
        let opened = Inbound::new(session()).open(12, &mut out).expect("ours");
        assert_eq!(
            out[opened.payload],
            *b"Gallia est omnis divisa in partes tres"
        );
    }
}

#[test]
fn gcm_compounds_are_those_of_rfc_7714_17() {
    let clear = "81c8000d4d6172734e5450314e545032525450200000042a0000e9304c756e61
                 deadbeefdeadbeefdeadbeefdeadbeefdeadbeef";
    let cases = [
        (
            GCM_KEY_128,
            "81c8000d4d61727363e94885dcdab67ca727d7662f6b7e997ff5c0f76c06f32dc676a5f1730d6fda
             4ce09b4686303ded0bb9275bc84aa45896cf4d2fc5abf87245d9eade800005d4",
        ),
        (
            GCM_KEY_256,
            "81c8000d4d617273d50ae4d1f5ce5d304ba297e47d470c282c3ece5dbffe0a50a2eaa5c1110555be
             8415f658c61de0476f1b6fad1d1eb30c4446839f57ff6f6cb26ac3be800005d4",
        ),
    ];
    for (key, expected) in cases {
        let mut packet = hex(clear);
        gcm(key).seal_rtcp(0x5d4, &mut packet).expect("long enough");
        assert_eq!(packet, hex(expected));
        let mut inbound = Inbound::new(SessionKeys {
            rtp: gcm(key),
            rtcp: gcm(key),
        });
        let bytes = inbound.open_rtcp(&mut packet).expect("authentic");
        assert_eq!(packet[..bytes], hex(clear));
    }
}

#[test]
fn rollover_is_followed_across_loss_and_reordering() {
    for profile in PROFILES {
        let (mut outbound, mut inbound) = ends(profile);
        let stream = outbound.add_stream(Ssrc(7), 65_500).expect("the first");
        let mut packets: Vec<_> = (0..200u8)
            .map(|n| seal(&mut outbound, stream, &[n; 20]))
            .collect();
        packets.swap(34, 37);
        packets.swap(60, 80);
        for (position, (mut packet, sealed)) in packets.into_iter().enumerate() {
            if position % 11 == 3 {
                continue;
            }
            let opened = inbound.open(12, &mut packet).expect("authentic");
            assert_eq!(opened.index, sealed.index, "{profile}");
            assert_eq!(opened.payload.len(), 20);
        }
    }
}

#[test]
fn replays_and_forgeries_are_told_apart() {
    for profile in PROFILES {
        let (mut outbound, mut inbound) = ends(profile);
        let stream = outbound.add_stream(Ssrc(7), 1).expect("the first");
        let (first, _) = seal(&mut outbound, stream, b"one");
        let (second, _) = seal(&mut outbound, stream, b"two");
        let mut damaged = second.clone();
        *damaged.last_mut().expect("a tag") ^= 1;
        assert!(inbound.open(12, &mut first.clone()).is_ok());
        assert_eq!(
            inbound.open(12, &mut first.clone()),
            Err(OpenError::Replayed)
        );
        assert_eq!(inbound.open(12, &mut damaged), Err(OpenError::Forged));
        // A forgery does not use up the sequence number.
        assert!(inbound.open(12, &mut second.clone()).is_ok());
        for _ in 0..200 {
            let (mut packet, _) = seal(&mut outbound, stream, b"more");
            inbound.open(12, &mut packet).expect("authentic");
        }
        assert_eq!(inbound.open(12, &mut first.clone()), Err(OpenError::Stale));

        let mut compound = hex("81c9000100000007deadbeef");
        assert!(outbound.seal_rtcp(&mut compound));
        assert_eq!(inbound.open_rtcp(&mut compound.clone()), Ok(12));
        assert_eq!(
            inbound.open_rtcp(&mut compound.clone()),
            Err(OpenError::Replayed)
        );
    }
}

#[test]
fn sources_are_bounded() {
    let (mut outbound, mut inbound) = ends(Profile::AeadAes128Gcm);
    let mut last = Ok(());
    for ssrc in 0..=RTP_SOURCES_MAX {
        let stream = outbound.add_stream(Ssrc(ssrc as u32), 0).expect("new");
        let (mut packet, _) = seal(&mut outbound, stream, b"x");
        last = inbound.open(12, &mut packet).map(drop);
    }
    assert_eq!(last, Err(OpenError::TooManySources));
    assert_eq!(inbound.sources().count(), RTP_SOURCES_MAX);
}

#[test]
fn an_ssrc_is_registered_once() {
    let (mut outbound, _) = ends(Profile::AeadAes128Gcm);
    outbound.add_stream(Ssrc(7), 0).expect("the first");
    assert_eq!(
        outbound.add_stream(Ssrc(7), 99),
        Err(DuplicateSsrc(Ssrc(7)))
    );
}

#[test]
fn short_material_is_refused() {
    let error = derive(Profile::AeadAes256Gcm, &[0; 87], Role::Client).expect_err("one short");
    assert_eq!(
        error.to_string(),
        "SRTP_AEAD_AES_256_GCM needs 88 bytes of keying material, got 87"
    );
}

/// Operations on an outbound context.
#[derive(Clone, Debug)]
enum Operation {
    Seal { stream: usize, payload: u8 },
    SealInPlace { stream: usize, payload: u8 },
    TooSmall { stream: usize },
    Reseal { back: usize, payload: u8 },
}

fn operation() -> impl Strategy<Value = Operation> {
    prop_oneof![
        (0..3usize, any::<u8>()).prop_map(|(stream, payload)| Operation::Seal { stream, payload }),
        (0..3usize, any::<u8>())
            .prop_map(|(stream, payload)| Operation::SealInPlace { stream, payload }),
        (0..3usize).prop_map(|stream| Operation::TooSmall { stream }),
        (0..20usize, 0..3u8).prop_map(|(back, payload)| Operation::Reseal { back, payload }),
    ]
}

proptest! {
    /// Whatever is called in whatever order, no two different packets are sealed with the same
    /// SSRC and index.
    #[test]
    fn no_nonce_seals_two_packets(
        operations in prop::collection::vec(operation(), 1..120),
        profile in prop::sample::select(PROFILES.to_vec()),
    ) {
        let (mut outbound, _) = ends(profile);
        let streams: Vec<_> = (0..3u32)
            .map(|ssrc| outbound.add_stream(Ssrc(ssrc), 65_530).expect("new"))
            .collect();
        let mut released: HashMap<(usize, u64), Vec<u8>> = HashMap::new();
        let mut log: Vec<(usize, SealedRtp, u8)> = Vec::new();
        for operation in operations {
            let mut out = header(0);
            out.resize(12 + 8 + 16, 0);
            match operation {
                Operation::Seal { stream, payload } => {
                    let sealed = outbound
                        .seal(streams[stream], 12, &[payload; 8], 0, &mut out)
                        .expect("room enough");
                    out.truncate(sealed.bytes);
                    prop_assert!(released.insert((stream, sealed.index), out).is_none());
                    log.push((stream, sealed, payload));
                }
                Operation::SealInPlace { stream, payload } => {
                    out[12..20].fill(payload);
                    let sealed = outbound
                        .seal_in_place(streams[stream], 12, 8, &mut out)
                        .expect("room enough");
                    out.truncate(sealed.bytes);
                    prop_assert!(released.insert((stream, sealed.index), out).is_none());
                    log.push((stream, sealed, payload));
                }
                Operation::TooSmall { stream } => {
                    prop_assert!(
                        outbound
                            .seal(streams[stream], 12, &[0; 8], 0, &mut out[..20])
                            .is_none()
                    );
                }
                Operation::Reseal { back, payload } => {
                    let Some(&(stream, sealed, original)) = log.iter().rev().nth(back) else {
                        continue;
                    };
                    let again = outbound.reseal(
                        streams[stream],
                        sealed.index,
                        sealed.tag,
                        12,
                        &[payload; 8],
                        &mut out,
                    );
                    prop_assert_eq!(again.is_some(), payload == original);
                    if let Some(bytes) = again {
                        out.truncate(bytes);
                        prop_assert_eq!(&released[&(stream, sealed.index)], &out);
                    }
                }
            }
        }
    }

    #[test]
    fn damage_never_panics(
        mut noise in prop::collection::vec(any::<u8>(), 0..120),
        header_bytes in 12usize..40,
        profile in prop::sample::select(PROFILES.to_vec()),
    ) {
        let (_, mut inbound) = ends(profile);
        prop_assert!(inbound.open(header_bytes, &mut noise.clone()).is_err());
        prop_assert!(inbound.open_rtcp(&mut noise).is_err());
    }
}
