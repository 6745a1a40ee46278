//! SOAP envelopes: what is sent, and what is read from a camera's.

use aws_lc_rs::digest;
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use roxmltree::{Document, Node, ParsingOptions};

use super::Credentials;

/// Most nodes of a document that is read. A list of profiles has some hundred.
const NODES_MAX: u32 = 20_000;

/// Namespace of SOAP 1.2 envelopes.
const SOAP: &str = "http://www.w3.org/2003/05/soap-envelope";
const ADDRESSING: &str = "http://schemas.xmlsoap.org/ws/2004/08/addressing";
const DISCOVERY: &str = "http://schemas.xmlsoap.org/ws/2005/04/discovery";
const SECURITY: &str =
    "http://docs.oasis-open.org/wss/2004/01/oasis-200401-wss-wssecurity-secext-1.0.xsd";
const UTILITY: &str =
    "http://docs.oasis-open.org/wss/2004/01/oasis-200401-wss-wssecurity-utility-1.0.xsd";
const DIGEST: &str = "http://docs.oasis-open.org/wss/2004/01/oasis-200401-wss-username-token-profile-1.0#PasswordDigest";

/// Returns a probe for video transmitters (WS-Discovery §5.2). `message`: a UUID.
pub(super) fn probe(message: &str) -> String {
    format!(
        "<?xml version=\"1.0\" encoding=\"utf-8\"?>\
         <s:Envelope xmlns:s=\"{SOAP}\" xmlns:a=\"{ADDRESSING}\" xmlns:d=\"{DISCOVERY}\">\
         <s:Header><a:Action>{DISCOVERY}/Probe</a:Action>\
         <a:MessageID>urn:uuid:{message}</a:MessageID>\
         <a:To>urn:schemas-xmlsoap-org:ws:2005:04:discovery</a:To></s:Header>\
         <s:Body><d:Probe>\
         <d:Types xmlns:dn=\"http://www.onvif.org/ver10/network/wsdl\">dn:NetworkVideoTransmitter</d:Types>\
         </d:Probe></s:Body></s:Envelope>"
    )
}

/// Returns a request with this body. `credentials`: user and password, with a nonce and the camera's
/// present time.
pub(super) fn request(body: &str, credentials: Option<(&Credentials, [u8; 16], &str)>) -> String {
    let header = credentials.map_or_else(String::new, |(credentials, nonce, created)| {
        security(credentials, &nonce, created)
    });
    format!(
        "<?xml version=\"1.0\" encoding=\"utf-8\"?><s:Envelope xmlns:s=\"{SOAP}\">{header}<s:Body>{body}</s:Body>\
         </s:Envelope>"
    )
}

/// Returns the header that shows knowledge of a password (WSS UsernameToken Profile 1.0 §3.1).
fn security(credentials: &Credentials, nonce: &[u8; 16], created: &str) -> String {
    let mut text = nonce.to_vec();
    text.extend_from_slice(created.as_bytes());
    text.extend_from_slice(credentials.password.as_bytes());
    let digest = digest::digest(&digest::SHA1_FOR_LEGACY_USE_ONLY, &text);
    let (digest, nonce) = (STANDARD.encode(digest), STANDARD.encode(nonce));
    let user = escaped(&credentials.user);
    format!(
        "<s:Header><w:Security s:mustUnderstand=\"1\" xmlns:w=\"{SECURITY}\" xmlns:u=\"{UTILITY}\">\
         <w:UsernameToken><w:Username>{user}</w:Username>\
         <w:Password Type=\"{DIGEST}\">{digest}</w:Password>\
         <w:Nonce>{nonce}</w:Nonce><u:Created>{created}</u:Created>\
         </w:UsernameToken></w:Security></s:Header>"
    )
}

/// Returns `text` as the content of an element.
pub(super) fn escaped(text: &str) -> String {
    text.replace('&', "&amp;")
        .replace('<', "&lt;")
        .replace('>', "&gt;")
}

/// Parses what a camera sent.
///
/// # Errors
/// Returns the reason if it is no XML, or too much of it.
pub(super) fn parse(text: &str) -> Result<Document<'_>, String> {
    let options = ParsingOptions {
        nodes_limit: NODES_MAX,
        ..ParsingOptions::default()
    };
    Document::parse_with_options(text, options).map_err(|error| error.to_string())
}

/// Returns the first element below `node` with this name, in any namespace: cameras do not agree on
/// prefixes, and some not on namespaces.
pub(super) fn element<'a, 'input>(node: Node<'a, 'input>, name: &str) -> Option<Node<'a, 'input>> {
    node.descendants().find(|it| it.has_tag_name_of(name))
}

/// Returns the trimmed text of the first element below `node` with this name; `None` if it has none.
pub(super) fn text<'a>(node: Node<'a, '_>, name: &str) -> Option<&'a str> {
    let text = element(node, name)?.text()?.trim();
    (!text.is_empty()).then_some(text)
}

/// Comparison of names without namespaces.
pub(super) trait LocalName {
    /// Returns whether this is an element with this local name.
    fn has_tag_name_of(&self, name: &str) -> bool;
}

impl LocalName for Node<'_, '_> {
    fn has_tag_name_of(&self, name: &str) -> bool {
        self.is_element() && self.tag_name().name() == name
    }
}

/// Returns what a fault says (SOAP 1.2 §5.4), and whether it is about rights; `None` for no fault.
pub(super) fn fault(document: &Document<'_>) -> Option<(String, bool)> {
    let fault = element(document.root(), "Fault")?;
    let codes = fault.descendants().filter(|it| it.has_tag_name_of("Value"));
    let is_about_rights = codes.filter_map(|it| it.text()).any(|code| {
        let code = code.rsplit(':').next().unwrap_or_default().trim();
        matches!(
            code,
            "NotAuthorized" | "FailedAuthentication" | "InvalidSecurity"
        )
    });
    let reason = text(fault, "Text").or_else(|| text(fault, "faultstring"));
    let reason = reason.unwrap_or("no reason given").chars().take(200);
    Some((reason.collect(), is_about_rights))
}
