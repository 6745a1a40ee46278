//! Logins and certificates, right and wrong: what is wrong is named with what to do.

use std::fs;
use std::path::{Path, PathBuf};

use glassline_cluster::engine::{Answered, Call, Incoming, KeyKind, Scope};
use glassline_cluster_nats::{FailureKind, Login, TlsFiles, try_servers};
use libtest_mimic::Failed;
use rcgen::{BasicConstraints, CertificateParams, IsCa, Issuer, KeyPair};

use crate::Test;
use crate::node::{Node, options, run};
use crate::records::text;
use crate::server::Server;

pub(crate) const TESTS: &[Test] = &[
    (
        "logins::each_way_to_log_in_works_and_a_wrong_one_is_named",
        logins,
    ),
    ("logins::certificates_are_checked_both_ways", certificates),
    (
        "logins::the_rights_that_the_guide_names_suffice_and_missing_ones_are_named",
        rights,
    ),
    (
        "logins::what_is_no_nats_or_has_no_jetstream_is_named",
        strangers,
    ),
];

async fn fails(options: &glassline_cluster_nats::Options) -> Result<(FailureKind, String), String> {
    let tried = try_servers(options).await;
    match tried.into_iter().next().map(|it| it.outcome) {
        Some(Err(failure)) => Ok((failure.kind, failure.to_string())),
        other => Err(format!("it should fail: {other:?}")),
    }
}

fn logins() -> Result<(), Failed> {
    run(async {
        let user = |name: &str, password: &str| Login::User {
            name: name.to_owned(),
            password: password.to_owned(),
        };
        let token = |it: &str| Login::Token(it.to_owned());
        let pair = nkeys::KeyPair::new_user();
        let nkey = Login::Nkey(pair.seed().map_err(text)?);
        let servers = [
            (
                "authorization { user: ann, password: right }".to_owned(),
                user("ann", "right"),
                user("ann", "wrong"),
            ),
            (
                "authorization { token: right }".to_owned(),
                token("right"),
                token("wrong"),
            ),
            (
                format!(
                    "authorization {{ users: [{{ nkey: {} }}] }}",
                    pair.public_key()
                ),
                nkey,
                Login::Anonymous,
            ),
        ];
        for (config, right, wrong) in servers {
            let server = Server::alone(&config)?;
            let mut options = options(&[server.url()], "a");
            options.login = right;
            let mut node = Node::connect(options.clone()).await?;
            node.put("x", "1", None).await.map_err(text)?;
            options.login = wrong;
            let (kind, said) = fails(&options).await?;
            assert_eq!(kind, FailureKind::Login, "{said}");
            assert!(said.contains("credentials"), "{said}");
            assert!(!said.contains("wrong"), "no secret in it: {said}");
        }
        let server = Server::alone("")?;
        let mut options = options(&[server.url()], "a");
        options.login = Login::Credentials(PathBuf::from("/no/such.creds"));
        let (kind, said) = fails(&options).await?;
        assert_eq!(kind, FailureKind::File);
        assert!(said.contains("/no/such.creds"), "{said}");
        Ok(())
    })
}

/// Files of an authority, and of a certificate by it for 127.0.0.1.
struct Files {
    ca: PathBuf,
    certificate: PathBuf,
    key: PathBuf,
}

fn issue(folder: &Path, name: &str) -> Result<Files, String> {
    let write = |what: &str, pem: String| {
        let path = folder.join(format!("{name}-{what}.pem"));
        fs::write(&path, pem).map(|()| path).map_err(text)
    };
    let mut authority = CertificateParams::new(Vec::new()).map_err(text)?;
    authority.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    let key = KeyPair::generate().map_err(text)?;
    let root = authority.self_signed(&key).map_err(text)?;
    let issuer = Issuer::new(authority, key);
    let leaf_key = KeyPair::generate().map_err(text)?;
    let leaf = CertificateParams::new(vec!["127.0.0.1".to_owned()]).map_err(text)?;
    let leaf = leaf.signed_by(&leaf_key, &issuer).map_err(text)?;
    Ok(Files {
        ca: write("ca", root.pem())?,
        certificate: write("certificate", leaf.pem())?,
        key: write("key", leaf_key.serialize_pem())?,
    })
}

fn certificates() -> Result<(), Failed> {
    run(async {
        let plain = Server::alone("")?;
        let folder = plain.folder();
        let ours = issue(folder, "ours")?;
        let theirs = issue(folder, "theirs")?;
        let Files {
            ca,
            certificate,
            key,
        } = &ours;
        let tls = format!("cert_file: {certificate:?}, key_file: {key:?}");
        let one_way = Server::alone(&format!("tls {{ {tls} }}"))?;
        let both = format!("tls {{ {tls}, ca_file: {ca:?}, verify: true }}");
        let both_ways = Server::alone(&both)?;
        let with = |server: &Server, ca: &Files, identity: Option<&Files>| {
            let mut options = options(&[server.url()], "a");
            options.tls = Some(TlsFiles {
                ca: Some(ca.ca.clone()),
                identity: identity.map(|it| (it.certificate.clone(), it.key.clone())),
            });
            options
        };
        for options in [
            with(&one_way, &ours, None),
            with(&both_ways, &ours, Some(&ours)),
        ] {
            let mut node = Node::connect(options).await?;
            node.put("x", "1", None).await.map_err(text)?;
        }
        for (options, wanted) in [
            (with(&one_way, &theirs, None), FailureKind::Tls),
            (with(&plain, &ours, None), FailureKind::Tls),
            (options(&[one_way.url()], "a"), FailureKind::Tls),
            (
                with(&both_ways, &ours, None),
                FailureKind::ClientCertificate,
            ),
            (
                with(&both_ways, &ours, Some(&theirs)),
                FailureKind::ClientCertificate,
            ),
        ] {
            let (kind, said) = fails(&options).await?;
            assert_eq!(kind, wanted, "{said}");
        }
        let mut missing = with(&one_way, &ours, None);
        missing.tls = Some(TlsFiles {
            ca: Some(folder.join("none.pem")),
            identity: None,
        });
        let (kind, said) = fails(&missing).await?;
        assert_eq!(kind, FailureKind::File, "{said}");
        assert!(said.contains("none.pem"), "{said}");
        Ok(())
    })
}

fn rights() -> Result<(), Failed> {
    /// As the table in `docs/guides/nats.md` has them.
    const PUBLISH: &str = "\"$KV.glassline_streams.>\", \"$KV.glassline_nodes.>\", \
        \"$JS.API.STREAM.*.KV_glassline_streams\", \"$JS.API.STREAM.*.KV_glassline_nodes\", \
        \"$JS.API.STREAM.MSG.GET.>\", \"$JS.API.CONSUMER.>\", \"$JS.FC.>\", \"glassline.>\", \
        \"_INBOX.>\"";
    const SUBSCRIBE: &str = "\"glassline.>\", \"_INBOX.>\"";
    run(async {
        let config = |publish: &str| {
            format!(
                "authorization {{ users: [ {{ user: n, password: n, permissions: {{ \
                 publish: [{publish}], subscribe: [{SUBSCRIBE}] }} }} ] }}"
            )
        };
        let login = Login::User {
            name: "n".to_owned(),
            password: "n".to_owned(),
        };
        let server = Server::alone(&config(PUBLISH))?;
        let mut options_of = options(&[server.url()], "a");
        options_of.login = login.clone();
        let mut node = Node::connect(options_of.clone()).await?;
        let scope = Scope::Everything;
        node.call(Call::Changes { scope }).await.map_err(text)?;
        let version = node.put("x", "1", None).await.map_err(text)?;
        node.until_changed("x", Some("1")).await?;
        node.delete("x", version).await.map_err(text)?;
        let kind = KeyKind::Streams;
        let listed = node.call(Call::List { kind }).await;
        assert_eq!(listed, Ok(Answered::Listed(Vec::new())));
        let payload = bytes::Bytes::from_static(b"{}");
        let is_far = true;
        let beat = Call::Beat { payload, is_far };
        node.call(beat).await.map_err(text)?;
        node.until(|it| matches!(it, Incoming::Beat { .. })).await?;
        assert_eq!(node.engine.status().warnings, Vec::<String>::new());

        let server = Server::alone(&config("\"glassline.>\", \"_INBOX.>\""))?;
        options_of.servers = vec![server.url().parse().map_err(text)?];
        let (kind, said) = fails(&options_of).await?;
        assert_eq!(kind, FailureKind::Buckets, "{said}");
        assert!(said.contains("no right to $JS.API.>"), "{said}");
        // A node that runs says which right it lacks, once.
        let node = Node::start(options_of);
        let began = std::time::Instant::now();
        let named = "Publish to \"$JS.API.>\"";
        while !node
            .engine
            .status()
            .warnings
            .iter()
            .any(|it| it.contains(named))
        {
            if began.elapsed() > crate::node::PATIENCE {
                return Err(format!("{:?}", node.engine.status()));
            }
            tokio::time::sleep(std::time::Duration::from_millis(20)).await;
        }
        Ok(())
    })
}

fn strangers() -> Result<(), Failed> {
    run(async {
        let nobody = crate::ports::free_port()?;
        let options_of = |port: u16| options(&[format!("nats://127.0.0.1:{port}")], "a");
        assert_eq!(
            fails(&options_of(nobody)).await?.0,
            FailureKind::Unreachable
        );
        // An account of its own without JetStream.
        let accounts = "accounts { N: { users: [ { user: n, password: n } ] } }";
        let server = Server::alone(accounts)?;
        let mut options = options_of(server.port);
        options.login = Login::User {
            name: "n".to_owned(),
            password: "n".to_owned(),
        };
        let (kind, said) = fails(&options).await?;
        assert_eq!(kind, FailureKind::Buckets, "{said}");
        assert!(said.contains("JetStream is off"), "{said}");
        // A server alone cannot keep three copies.
        let server = Server::alone("")?;
        let mut options = options_of(server.port);
        options.replicas = Some(3);
        let (kind, said) = fails(&options).await?;
        assert_eq!(kind, FailureKind::Buckets, "{said}");
        assert!(said.contains("replicas: 1"), "{said}");
        // A program that says nothing.
        let silent = std::net::TcpListener::bind("127.0.0.1:0").map_err(text)?;
        let port = silent.local_addr().map_err(text)?.port();
        assert_eq!(fails(&options_of(port)).await?.0, FailureKind::Silent);
        Ok(())
    })
}
