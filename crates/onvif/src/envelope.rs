//! SOAP envelopes: what is sent, and what is read from a camera's.

use aws_lc_rs::digest;
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use roxmltree::{Document, Node, ParsingOptions};

use crate::credentials::Credentials;

/// Most nodes of a document that is read. A list of profiles has some hundred.
const NODES_MAX: u32 = 20_000;

/// Most attributes of an element, with the equals signs of the text behind it. The parser compares each
/// attribute with all before it.
const EQUALS_SIGNS_MAX: usize = 256;

/// Most declarations of namespaces. The parser compares those of an element with all that hold there.
const NAMESPACES_MAX: usize = 1_000;

/// Longest token of a profile or preset, in bytes: twice what ONVIF allows.
pub(crate) const TOKEN_BYTES_MAX: usize = 128;

/// Most characters of a text that people see.
const SHOWN_CHARS_MAX: usize = 80;

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
pub(crate) fn probe(message: &str) -> String {
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

/// The knowledge of a password, shown once.
pub(crate) struct Token<'a> {
    pub(crate) credentials: &'a Credentials,
    pub(crate) nonce: [u8; 16],
    /// Present time of the camera.
    pub(crate) created: String,
}

/// Returns a request with this body.
pub(crate) fn request(body: &str, token: Option<&Token<'_>>) -> String {
    let header = token.map_or_else(String::new, security);
    format!(
        "<?xml version=\"1.0\" encoding=\"utf-8\"?><s:Envelope xmlns:s=\"{SOAP}\">{header}<s:Body>{body}</s:Body>\
         </s:Envelope>"
    )
}

/// Returns the header that shows knowledge of a password (WSS UsernameToken Profile 1.0 §3.1).
fn security(token: &Token<'_>) -> String {
    let created = &token.created;
    let mut text = token.nonce.to_vec();
    text.extend_from_slice(created.as_bytes());
    text.extend_from_slice(token.credentials.password.as_bytes());
    let digest = digest::digest(&digest::SHA1_FOR_LEGACY_USE_ONLY, &text);
    let (digest, nonce) = (STANDARD.encode(digest), STANDARD.encode(token.nonce));
    let user = escaped(&token.credentials.user);
    format!(
        "<s:Header><w:Security s:mustUnderstand=\"1\" xmlns:w=\"{SECURITY}\" xmlns:u=\"{UTILITY}\">\
         <w:UsernameToken><w:Username>{user}</w:Username>\
         <w:Password Type=\"{DIGEST}\">{digest}</w:Password>\
         <w:Nonce>{nonce}</w:Nonce><u:Created>{created}</u:Created>\
         </w:UsernameToken></w:Security></s:Header>"
    )
}

/// Returns `text` as the content of an element.
pub(crate) fn escaped(text: &str) -> String {
    text.replace('&', "&amp;")
        .replace('<', "&lt;")
        .replace('>', "&gt;")
}

/// Parses what a camera sent. Documents with a DTD are refused, so that there are no entities.
///
/// # Errors
/// Returns the reason if it is no XML, or too much of it.
pub(crate) fn parse(text: &str) -> Result<Document<'_>, String> {
    let mut elements = text.split('<');
    if elements.any(|it| it.bytes().filter(|byte| *byte == b'=').count() > EQUALS_SIGNS_MAX) {
        return Err(format!(
            "an element has more than {EQUALS_SIGNS_MAX} attributes"
        ));
    }
    if text.matches("xmlns").count() > NAMESPACES_MAX {
        return Err(format!("more than {NAMESPACES_MAX} namespaces"));
    }
    let options = ParsingOptions {
        nodes_limit: NODES_MAX,
        ..ParsingOptions::default()
    };
    Document::parse_with_options(text, options).map_err(|error| error.to_string())
}

/// Returns `text` as people see it: short and without control characters; `None` if nothing is left.
pub(crate) fn shown(text: &str) -> Option<String> {
    shortened(text, SHOWN_CHARS_MAX)
}

fn shortened(text: &str, chars_max: usize) -> Option<String> {
    let visible = text.chars().filter(|c| !c.is_control());
    let shown: String = visible.take(chars_max).collect();
    (!shown.is_empty()).then_some(shown)
}

/// Returns the first element below `node` with this name, in any namespace: cameras do not agree on
/// prefixes, and some not on namespaces.
pub(crate) fn element<'a, 'input>(node: Node<'a, 'input>, name: &str) -> Option<Node<'a, 'input>> {
    node.descendants().find(|it| it.has_tag_name_of(name))
}

/// Returns the trimmed text of the first element below `node` with this name; `None` if it has none.
pub(crate) fn text<'a>(node: Node<'a, '_>, name: &str) -> Option<&'a str> {
    let text = element(node, name)?.text()?.trim();
    (!text.is_empty()).then_some(text)
}

/// Comparison of names without namespaces.
pub(crate) trait LocalName {
    /// Returns whether this is an element with this local name.
    fn has_tag_name_of(&self, name: &str) -> bool;
}

impl LocalName for Node<'_, '_> {
    fn has_tag_name_of(&self, name: &str) -> bool {
        self.is_element() && self.tag_name().name() == name
    }
}

/// A fault: the camera refuses.
pub(crate) struct Fault {
    /// Reason in the camera's own words.
    pub(crate) reason: String,
    /// Whether other credentials may help.
    pub(crate) is_about_rights: bool,
}

/// Returns the fault of a response (SOAP 1.2 §5.4); `None` if there is none.
pub(crate) fn fault(document: &Document<'_>) -> Option<Fault> {
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
    let reason = reason.and_then(|it| shortened(it, 200));
    Some(Fault {
        reason: reason.unwrap_or_else(|| "no reason given".to_owned()),
        is_about_rights,
    })
}
