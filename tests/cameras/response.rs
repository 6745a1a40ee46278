//! How the fake camera writes its responses.

use glassline_rtsp::message::Request;

use super::camera::{Connection, Output};
use super::quirk::Quirk;

impl Connection {
    pub(super) fn reply(
        &mut self,
        to: &Request,
        status: u16,
        headers: &[(&str, String)],
        body: &[u8],
    ) {
        let behind = match self.device.row.has(Quirk::NumbersBehind) {
            true => -1,
            false => 0,
        };
        self.reply_numbered(to, behind, status, headers, body);
    }

    /// Responds with the request's number plus `moved`.
    pub(super) fn reply_numbered(
        &mut self,
        to: &Request,
        moved: i64,
        status: u16,
        headers: &[(&str, String)],
        body: &[u8],
    ) {
        let number = i64::from(to.headers.cseq().unwrap_or_default()) + moved;
        let mut head = format!("RTSP/1.0 {status} Answer\r\n");
        let is_redirect = (300..400).contains(&status);
        if !(is_redirect && self.device.row.has(Quirk::RedirectUnnumbered)) {
            head += &format!("CSeq: {number}\r\n");
        }
        for (name, value) in headers {
            head += &format!("{name}: {value}\r\n");
        }
        for quirk in self.device.row.quirks {
            if let (Quirk::AlsoAnswered(fields), true) = (quirk, body.is_empty()) {
                head += fields;
            }
        }
        if !body.is_empty() {
            head += &format!("Content-Length: {}\r\n", body.len());
        }
        head += "\r\n";
        for quirk in self.device.row.quirks {
            if let Quirk::Answered(part, other) = quirk {
                head = head.replacen(part, other, 1);
            }
        }
        if self.device.row.has(Quirk::LineFeeds) {
            head = head.replace('\r', "");
        }
        let mut bytes = head.into_bytes();
        bytes.extend_from_slice(body);
        self.output.push_back(Output::Bytes(bytes));
    }
}
