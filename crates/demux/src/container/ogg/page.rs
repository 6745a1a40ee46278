//! Parses Ogg pages (RFC 3533 §6).
//!
//! This project has its own parser because errors must name the byte at which a page begins,
//! because a packet over ever more pages must not grow without bound, and because a damaged page
//! must not end the file: behind it, reading goes on at the next page whose checksum is right. The
//! tests write pages with the `ogg` crate.

use std::collections::VecDeque;
use std::io::{self, Read, Seek, SeekFrom};

use crc::{CRC_32_MPEG_2, Crc};

use crate::error::{Fault, Reason, WarningReason, Warnings};

/// One page with all fields but its checksum.
#[derive(Clone, Debug, Default)]
pub(crate) struct Page {
    /// Offset of the first byte in the file.
    pub(crate) offset: u64,
    /// Whether the page begins in the middle of a packet.
    pub(crate) continued: bool,
    /// Whether this is the first page of its logical stream.
    pub(crate) first: bool,
    /// Whether this is the last page of its logical stream.
    pub(crate) last: bool,
    /// Granule position at the end of the last packet that is complete on this page; −1 if none
    /// is.
    pub(crate) granule: i64,
    /// Serial number of the logical stream.
    pub(crate) serial: u32,
    /// Sequence number of the page in its logical stream.
    pub(crate) sequence: u32,
    lacing: Vec<u8>,
    body: Vec<u8>,
}

impl Page {
    /// Returns the number of bytes of all parts of packets.
    pub(crate) fn body_bytes(&self) -> usize {
        self.body.len()
    }

    /// Returns the parts of packets on this page in order; `true` if the packet ends with the
    /// part.
    pub(crate) fn pieces(&self) -> impl Iterator<Item = (&[u8], bool)> {
        let mut from = 0;
        let groups = self.lacing.split_inclusive(|&length| length < 255);
        groups.map(move |group| {
            let length: usize = group.iter().map(|&length| usize::from(length)).sum();
            let piece = self.body.get(from..from + length).unwrap_or_default();
            from += length;
            (piece, group.last().is_some_and(|&length| length < 255))
        })
    }
}

const HEADER_BYTES: usize = 27;
const CAPTURE: &[u8] = b"OggS";

/// Most bytes to search for the next page where none begins at the expected place.
const SEARCH_BYTES_MAX: u64 = 1 << 20;

/// Most damaged pages beside as many good ones. Each is searched for the beginning of the next.
const DAMAGED_MAX: u64 = 1000;

/// Reads pages in order.
pub(crate) struct Pages<R> {
    input: R,
    /// Bytes of a damaged page that are searched for the next page, before those of `input`.
    again: VecDeque<u8>,
    damage: Damage,
    /// Offset of the next byte to read.
    offset: u64,
    page: Page,
    /// Whether `page` holds the page that was read last.
    whole: bool,
}

/// The damage that was found so far.
#[derive(Default)]
struct Damage {
    /// Number of good pages.
    good: u64,
    /// Number of damaged pages, and where the first of them is.
    pages: u64,
    first: u64,
    /// The reason why the first of them cannot be read, until it was told.
    fault: Option<Fault>,
    /// Offset of a page that the file ends in, if no good page follows.
    cut: Option<u64>,
}

impl<R: Read + Seek> Pages<R> {
    /// Continues with the page that begins at `offset`.
    pub(crate) fn seek(&mut self, offset: u64) -> Result<(), Fault> {
        self.whole = false;
        self.again.clear();
        self.offset = offset;
        let sought = self.input.seek(SeekFrom::Start(offset));
        sought.map_err(|error| Fault::at(offset, Reason::Read(error)))?;
        Ok(())
    }
}

impl<R: Read> Pages<R> {
    /// Reads from `input`, which must be at the start of the file.
    pub(crate) fn new(input: R) -> Self {
        Self {
            input,
            again: VecDeque::new(),
            damage: Damage::default(),
            offset: 0,
            page: Page::default(),
            whole: false,
        }
    }

    /// Returns the page that was read last, unless reading failed.
    pub(crate) fn page(&self) -> Option<&Page> {
        self.whole.then_some(&self.page)
    }

    /// Returns a reference to the input.
    pub(crate) fn get_ref(&self) -> &R {
        &self.input
    }

    /// Returns the input at its present position.
    pub(crate) fn into_inner(self) -> R {
        self.input
    }

    /// Returns the offset at which the next page should begin.
    pub(crate) fn offset(&self) -> u64 {
        self.offset
    }

    /// Reads the next page whose checksum is right; `None` at the end of the file.
    ///
    /// # Errors
    /// The file cannot be read, its first page is damaged, or too many are.
    pub(crate) fn next_page(&mut self, warnings: &mut Warnings) -> Result<Option<&Page>, Fault> {
        self.whole = false;
        loop {
            let mut header = [0; HEADER_BYTES];
            let Some(offset) = self.find_header(&mut header, warnings)? else {
                return Ok(None);
            };
            match self.read_page(offset, header) {
                Ok(()) => {
                    self.whole = true;
                    self.damage.good += 1;
                    if self.damage.cut.take().is_some() {
                        self.damage.pages += 1;
                    }
                    return Ok(Some(&self.page));
                }
                Err(fault) => self.pass_damage(offset, &header, fault)?,
            }
        }
    }

    /// Tells what was damaged, at the end of the file.
    pub(crate) fn warn(&self, warnings: &mut Warnings) {
        if self.damage.pages > 0 {
            let reason = WarningReason::DamagedPages(self.damage.pages);
            warnings.add(Some(self.damage.first), reason);
        }
        if let Some(cut) = self.damage.cut {
            warnings.add(Some(cut), WarningReason::Truncated);
        }
    }

    /// Returns the first damage, which may be why the rest of the file makes no sense.
    pub(crate) fn take_first_damage(&mut self) -> Option<Fault> {
        self.damage.fault.take()
    }

    /// Reads what follows a page's header.
    fn read_page(&mut self, offset: u64, mut header: [u8; HEADER_BYTES]) -> Result<(), Fault> {
        let [
            _,
            _,
            _,
            _,
            version,
            flags,
            g0,
            g1,
            g2,
            g3,
            g4,
            g5,
            g6,
            g7,
            rest @ ..,
        ] = header;
        let [s0, s1, s2, s3, n0, n1, n2, n3, c0, c1, c2, c3, segments] = rest;
        let mut page = std::mem::take(&mut self.page);
        page.offset = offset;
        page.continued = flags & 1 != 0;
        page.first = flags & 2 != 0;
        page.last = flags & 4 != 0;
        page.granule = i64::from_le_bytes([g0, g1, g2, g3, g4, g5, g6, g7]);
        page.serial = u32::from_le_bytes([s0, s1, s2, s3]);
        page.sequence = u32::from_le_bytes([n0, n1, n2, n3]);
        page.body.clear();
        page.lacing.resize(usize::from(segments), 0);
        let mut read = self.read_whole(&mut page.lacing, offset);
        if read.is_ok() {
            let body = page.lacing.iter().map(|&length| usize::from(length)).sum();
            page.body.resize(body, 0);
            read = self.read_whole(&mut page.body, offset);
        }
        self.page = page;
        read?;
        let page = &self.page;
        let bytes = HEADER_BYTES + page.lacing.len() + page.body.len();

        let found = u32::from_le_bytes([c0, c1, c2, c3]);
        header[22..26].fill(0);
        let computed = [&header, page.lacing.as_slice(), &page.body]
            .into_iter()
            .fold(0, crc);
        if found != computed {
            return Err(Fault::at(offset, Reason::PageChecksum { found, computed }));
        }
        if version != 0 {
            return Err(Fault::at(offset, Reason::PageVersion(version)));
        }
        self.offset = offset + bytes as u64;
        Ok(())
    }

    /// Counts a damaged page, and lets its bytes be searched for the next one.
    fn pass_damage(
        &mut self,
        offset: u64,
        header: &[u8; HEADER_BYTES],
        fault: Fault,
    ) -> Result<(), Fault> {
        let damage = &mut self.damage;
        let is_cut = matches!(fault.reason, Reason::TruncatedPage);
        let is_damage = is_cut || matches!(fault.reason, Reason::PageChecksum { .. });
        let is_too_much = damage.pages > damage.good + DAMAGED_MAX;
        if !is_damage || damage.good == 0 || is_too_much {
            return Err(fault);
        }
        if damage.fault.is_none() && damage.pages == 0 {
            damage.fault = Some(fault);
            damage.first = offset;
        }
        if is_cut {
            damage.cut.get_or_insert(offset);
        } else {
            damage.pages += 1;
        }
        let rest = self.again.split_off(0);
        self.again.extend(&header[1..]);
        self.again.extend(&self.page.lacing);
        self.again.extend(&self.page.body);
        self.again.extend(rest);
        self.offset = offset + 1;
        Ok(())
    }

    /// Fills `out`, or leaves in it what there is of a page that the file ends in.
    fn read_whole(&mut self, out: &mut Vec<u8>, page: u64) -> Result<(), Fault> {
        let wanted = out.len();
        let read = self.read_up_to(out);
        let read = read.map_err(|error| Fault::at(page, Reason::Read(error)))?;
        out.truncate(read);
        match read == wanted {
            true => Ok(()),
            false => Err(Fault::at(page, Reason::TruncatedPage)),
        }
    }

    /// Reads until `out` is full or the input ends. Returns the number of bytes.
    fn read_up_to(&mut self, out: &mut [u8]) -> io::Result<usize> {
        let mut have = 0;
        while have < out.len() && !self.again.is_empty() {
            have += self.again.read(&mut out[have..])?;
        }
        while have < out.len() {
            match self.input.read(&mut out[have..]) {
                Ok(0) => break,
                Ok(read) => have += read,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
        Ok(have)
    }

    /// Reads the next page header, and returns its offset. Other bytes before it, such as tags
    /// that other programs append, are skipped with a warning.
    fn find_header(
        &mut self,
        header: &mut [u8; HEADER_BYTES],
        warnings: &mut Warnings,
    ) -> Result<Option<u64>, Fault> {
        let mut offset = self.offset;
        let mut have = 0;
        // What lies between a damaged page and the next good one belongs to the damage.
        let is_damaged = !self.again.is_empty();
        let is_begun = self.damage.good > 0;
        loop {
            let read = self
                .read_up_to(&mut header[have..])
                .map_err(|error| Fault::at(offset, Reason::Read(error)))?;
            have += read;
            let skipped = offset - self.offset;
            let bytes = &header[..have];
            if have == HEADER_BYTES && bytes.starts_with(CAPTURE) {
                if skipped > 0 && !is_damaged {
                    warnings.add(Some(self.offset), WarningReason::Skipped(skipped));
                }
                return Ok(Some(offset));
            }
            if have < HEADER_BYTES {
                return match have {
                    0 if skipped == 0 => Ok(None),
                    _ if is_damaged => Ok(None),
                    _ if have >= CAPTURE.len() && bytes.starts_with(CAPTURE) && is_begun => {
                        self.damage.cut = Some(offset);
                        let fault = Fault::at(offset, Reason::TruncatedPage);
                        self.damage.fault.get_or_insert(fault);
                        Ok(None)
                    }
                    _ if have >= CAPTURE.len() && bytes.starts_with(CAPTURE) => {
                        Err(Fault::at(offset, Reason::TruncatedPage))
                    }
                    _ if self.offset == 0 => {
                        Err(Fault::at(0, Reason::NoPage(skipped + have as u64)))
                    }
                    _ => {
                        let trailing = skipped + have as u64;
                        warnings.add(Some(self.offset), WarningReason::Skipped(trailing));
                        self.offset += trailing;
                        Ok(None)
                    }
                };
            }
            if skipped > SEARCH_BYTES_MAX {
                return Err(Fault::at(self.offset, Reason::NoPage(skipped)));
            }
            // The search continues at the next byte that could begin a page.
            let next = bytes[1..].iter().position(|&byte| byte == CAPTURE[0]);
            let step = next.map_or(have, |at| at + 1);
            header.copy_within(step..have, 0);
            have -= step;
            offset += step as u64;
        }
    }
}

/// Continues a CRC-32 with polynomial 0x04c11db7, not reflected, initially zero (RFC 3533 §6).
pub(crate) fn crc(sum: u32, bytes: &[u8]) -> u32 {
    let mut digest = CRC.digest_with_initial(sum);
    digest.update(bytes);
    digest.finalize()
}

/// The polynomial of Ogg is that of MPEG-2.
static CRC: Crc<u32> = Crc::<u32>::new(&CRC_32_MPEG_2);
