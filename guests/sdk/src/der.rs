//! Reading DER, the encoding of certificates: as much as controllers need.
//!
//! Invariant: a reader never looks outside what it was given, whatever lengths
//! the bytes claim.

/// What is no DER.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Malformed;

impl std::fmt::Display for Malformed {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("malformed DER")
    }
}

/// BOOLEAN.
pub const BOOLEAN: u8 = 0x01;
/// INTEGER.
pub const INTEGER: u8 = 0x02;
/// BIT STRING.
pub const BIT_STRING: u8 = 0x03;
/// OCTET STRING.
pub const OCTET_STRING: u8 = 0x04;
/// OBJECT IDENTIFIER.
pub const OBJECT_IDENTIFIER: u8 = 0x06;
/// SEQUENCE.
pub const SEQUENCE: u8 = 0x30;
/// SET.
pub const SET: u8 = 0x31;

/// Reads values one after the other.
#[derive(Clone, Copy, Debug)]
pub struct Reader<'a>(&'a [u8]);

impl<'a> Reader<'a> {
    /// Reads these bytes.
    pub fn new(bytes: &'a [u8]) -> Self {
        Self(bytes)
    }

    /// Whether there is nothing left.
    pub fn is_empty(self) -> bool {
        self.0.is_empty()
    }

    /// The tag of the next value.
    pub fn peek(self) -> Option<u8> {
        self.0.first().copied()
    }

    /// The next value: its tag and its content.
    pub fn any(&mut self) -> Result<(u8, &'a [u8]), Malformed> {
        let (&tag, rest) = self.0.split_first().ok_or(Malformed)?;
        // Tags of several bytes occur nowhere in certificates.
        if tag & 0x1f == 0x1f {
            return Err(Malformed);
        }
        let (&first, rest) = rest.split_first().ok_or(Malformed)?;
        let (length, rest) = if first < 0x80 {
            (usize::from(first), rest)
        } else {
            let count = usize::from(first & 0x7f);
            // 0 is the indefinite form, which DER forbids.
            if !(1..=4).contains(&count) || rest.len() < count {
                return Err(Malformed);
            }
            let (bytes, rest) = rest.split_at(count);
            let length = bytes.iter().fold(0_u64, |sum, byte| sum << 8 | u64::from(*byte));
            if bytes[0] == 0 || length < 0x80 {
                return Err(Malformed);
            }
            (usize::try_from(length).map_err(|_| Malformed)?, rest)
        };
        if rest.len() < length {
            return Err(Malformed);
        }
        let (content, rest) = rest.split_at(length);
        self.0 = rest;
        Ok((tag, content))
    }

    /// Content of the next value, which must have this tag.
    pub fn take(&mut self, tag: u8) -> Result<&'a [u8], Malformed> {
        match self.any()? {
            (found, content) if found == tag => Ok(content),
            _ => Err(Malformed),
        }
    }

    /// Reader of the next value's content, which must have this tag.
    pub fn enter(&mut self, tag: u8) -> Result<Reader<'a>, Malformed> {
        self.take(tag).map(Reader)
    }

    /// Content of the next value if it has this tag; else it stays.
    pub fn optional(&mut self, tag: u8) -> Result<Option<&'a [u8]>, Malformed> {
        if self.peek() == Some(tag) { self.take(tag).map(Some) } else { Ok(None) }
    }

    /// That there is nothing left.
    pub fn end(self) -> Result<(), Malformed> {
        if self.is_empty() { Ok(()) } else { Err(Malformed) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lengths_are_taken_in_their_one_form() {
        let long = [&[4, 0x81, 0x80][..], &[7; 128]].concat();
        assert_eq!(Reader::new(&long).take(OCTET_STRING), Ok(&[7; 128][..]));
        let longer = [&[4, 0x82, 1, 0][..], &[7; 256]].concat();
        assert_eq!(Reader::new(&longer).take(OCTET_STRING).unwrap().len(), 256);
        for bytes in [
            &[][..],
            &[4],
            &[4, 1],
            &[4, 0x80, 0, 0],
            &[4, 0x81, 1, 7],
            &[4, 0x82, 0, 0x80],
            &[4, 0x84, 0xff, 0xff, 0xff, 0xff],
            &[4, 0x85, 0, 0, 0, 0, 1, 7],
            &[0x1f, 1, 7],
        ] {
            assert_eq!(Reader::new(bytes).any(), Err(Malformed), "{bytes:?}");
        }
    }

    #[test]
    fn values_follow_one_another() {
        let mut reader = Reader::new(&[2, 1, 5, 0x30, 3, 4, 1, 6]);
        assert_eq!(reader.optional(SET), Ok(None));
        assert_eq!(reader.optional(INTEGER), Ok(Some(&[5][..])));
        let mut inner = reader.enter(SEQUENCE).unwrap();
        assert_eq!(inner.take(INTEGER), Err(Malformed));
        assert_eq!(reader.end(), Ok(()));
    }
}
