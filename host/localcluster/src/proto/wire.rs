//! The wire format of protobuf: numbered fields of four shapes.

use super::ProtoError;

/// A field as it lies in the bytes.
pub(super) enum Field<'a> {
    Varint(u64),
    Fixed64(u64),
    Bytes(&'a [u8]),
    Fixed32(u32),
}

impl<'a> Field<'a> {
    fn wire(&self) -> u8 {
        match self {
            Self::Varint(_) => 0,
            Self::Fixed64(_) => 1,
            Self::Bytes(_) => 2,
            Self::Fixed32(_) => 5,
        }
    }

    fn wrong(&self, field: u32) -> ProtoError {
        ProtoError::WireType { field, wire: self.wire() }
    }

    pub(super) fn varint(&self, field: u32) -> Result<u64, ProtoError> {
        match self {
            Self::Varint(value) => Ok(*value),
            other => Err(other.wrong(field)),
        }
    }

    pub(super) fn bytes(&self, field: u32) -> Result<&'a [u8], ProtoError> {
        match self {
            Self::Bytes(bytes) => Ok(bytes),
            other => Err(other.wrong(field)),
        }
    }

    pub(super) fn text(&self, field: u32) -> Result<&'a str, ProtoError> {
        std::str::from_utf8(self.bytes(field)?).map_err(|_| ProtoError::Text)
    }

    pub(super) fn double(&self, field: u32) -> Result<f64, ProtoError> {
        match self {
            Self::Fixed64(bits) => Ok(f64::from_bits(*bits)),
            Self::Fixed32(bits) => Ok(f32::from_bits(*bits).into()),
            other => Err(other.wrong(field)),
        }
    }
}

/// Reads one field after the other.
pub(super) struct Reader<'a>(&'a [u8]);

impl<'a> Reader<'a> {
    pub(super) fn new(bytes: &'a [u8]) -> Self {
        Self(bytes)
    }

    pub(super) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    fn take(&mut self, length: usize) -> Result<&'a [u8], ProtoError> {
        let (head, tail) = self.0.split_at_checked(length).ok_or(ProtoError::Truncated)?;
        self.0 = tail;
        Ok(head)
    }

    pub(super) fn varint(&mut self) -> Result<u64, ProtoError> {
        let mut value = 0;
        for shift in (0..64).step_by(7) {
            let byte = self.take(1)?[0];
            value |= u64::from(byte & 0x7f) << shift;
            if byte & 0x80 == 0 {
                return Ok(value);
            }
        }
        Err(ProtoError::Truncated)
    }

    /// The next field and its number; none at the end.
    pub(super) fn next(&mut self) -> Result<Option<(u32, Field<'a>)>, ProtoError> {
        if self.is_empty() {
            return Ok(None);
        }
        let key = self.varint()?;
        let number = u32::try_from(key >> 3).map_err(|_| ProtoError::Truncated)?;
        let field = match (key & 7) as u8 {
            0 => Field::Varint(self.varint()?),
            1 => {
                let bytes = self.take(8)?.try_into().map_err(|_| ProtoError::Truncated)?;
                Field::Fixed64(u64::from_le_bytes(bytes))
            }
            2 => {
                let length = usize::try_from(self.varint()?).map_err(|_| ProtoError::Truncated)?;
                Field::Bytes(self.take(length)?)
            }
            5 => {
                let bytes = self.take(4)?.try_into().map_err(|_| ProtoError::Truncated)?;
                Field::Fixed32(u32::from_le_bytes(bytes))
            }
            wire => return Err(ProtoError::WireType { field: number, wire }),
        };
        Ok(Some((number, field)))
    }
}
