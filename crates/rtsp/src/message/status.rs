/// A status code, 100–999 (RFC 2326 §7.1.1).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, derive_more::Display)]
#[display("{_0:03}")]
pub struct Status(pub u16);

/// Defines each status constant together with its reason phrase.
macro_rules! statuses {
    ($($name:ident $code:literal $reason:literal)*) => {
        #[expect(missing_docs, reason = "they say what RFC 2326 §11 and RFC 4567 say of them")]
        impl Status {
            $(pub const $name: Self = Self($code);)*

            /// All codes that have a name.
            pub const KNOWN: &[Self] = &[$(Self::$name),*];

            /// Returns the reason phrase of the RFC; empty for codes that are not in it.
            pub const fn reason(self) -> &'static str {
                match self.0 {
                    $($code => $reason,)*
                    _ => "",
                }
            }
        }
    };
}

statuses! {
    CONTINUE 100 "Continue"
    OK 200 "OK"
    MOVED_PERMANENTLY 301 "Moved Permanently"
    FOUND 302 "Found"
    SEE_OTHER 303 "See Other"
    NOT_MODIFIED 304 "Not Modified"
    USE_PROXY 305 "Use Proxy"
    BAD_REQUEST 400 "Bad Request"
    UNAUTHORIZED 401 "Unauthorized"
    FORBIDDEN 403 "Forbidden"
    NOT_FOUND 404 "Not Found"
    METHOD_NOT_ALLOWED 405 "Method Not Allowed"
    NOT_ACCEPTABLE 406 "Not Acceptable"
    REQUEST_TIME_OUT 408 "Request Time-out"
    CONFLICT 409 "Conflict"
    GONE 410 "Gone"
    REQUEST_ENTITY_TOO_LARGE 413 "Request Entity Too Large"
    REQUEST_URI_TOO_LONG 414 "Request-URI Too Large"
    UNSUPPORTED_MEDIA_TYPE 415 "Unsupported Media Type"
    PARAMETER_NOT_UNDERSTOOD 451 "Parameter Not Understood"
    NOT_ENOUGH_BANDWIDTH 453 "Not Enough Bandwidth"
    SESSION_NOT_FOUND 454 "Session Not Found"
    METHOD_NOT_VALID_IN_THIS_STATE 455 "Method Not Valid in This State"
    HEADER_FIELD_NOT_VALID 456 "Header Field Not Valid for Resource"
    INVALID_RANGE 457 "Invalid Range"
    AGGREGATE_NOT_ALLOWED 459 "Aggregate operation not allowed"
    ONLY_AGGREGATE_ALLOWED 460 "Only aggregate operation allowed"
    UNSUPPORTED_TRANSPORT 461 "Unsupported transport"
    KEY_MANAGEMENT_FAILURE 463 "Key Management Failure"
    INTERNAL_SERVER_ERROR 500 "Internal Server Error"
    NOT_IMPLEMENTED 501 "Not Implemented"
    SERVICE_UNAVAILABLE 503 "Service Unavailable"
    VERSION_NOT_SUPPORTED 505 "RTSP Version not supported"
    OPTION_NOT_SUPPORTED 551 "Option not supported"
}

impl Status {
    /// Returns whether the status is 2xx.
    pub const fn is_success(self) -> bool {
        self.0 / 100 == 2
    }

    /// Returns whether the response names another URL to ask: 301, 302, 303 and 305 (RFC 2326
    /// §11.3), and those of HTTP that servers send as well (RFC 9110 §15.4).
    pub(crate) const fn is_redirect(self) -> bool {
        matches!(self.0, 301..=303 | 305 | 307 | 308)
    }
}
