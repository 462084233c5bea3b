//! A structure or map as the fields and values of a hash.

use serde_core::ser::{
    Error as _, Impossible, Serialize, SerializeMap, SerializeStruct, Serializer,
};

use super::Fault;

type Pairs = Vec<(String, Vec<u8>)>;

/// Takes a structure or map, field by field.
#[derive(Debug, Default)]
pub(super) struct Fields {
    pairs: Pairs,
    /// The field whose value comes next.
    field: Option<String>,
}

/// Takes one value of a field, or its name; nothing for a value that is to be left out.
struct Scalar;

impl Fields {
    fn put<T: Serialize + ?Sized>(&mut self, field: String, value: &T) -> Result<(), Fault> {
        if let Some(text) = value.serialize(Scalar)? {
            self.pairs.push((field, text));
        }
        Ok(())
    }
}

impl SerializeStruct for Fields {
    type Ok = Pairs;
    type Error = Fault;

    fn serialize_field<T: Serialize + ?Sized>(
        &mut self,
        field: &'static str,
        value: &T,
    ) -> Result<(), Fault> {
        self.put(field.to_owned(), value)
    }

    fn end(self) -> Result<Pairs, Fault> {
        Ok(self.pairs)
    }
}

impl SerializeMap for Fields {
    type Ok = Pairs;
    type Error = Fault;

    fn serialize_key<T: Serialize + ?Sized>(&mut self, key: &T) -> Result<(), Fault> {
        let text = key
            .serialize(Scalar)?
            .and_then(|text| String::from_utf8(text).ok());
        self.field = Some(text.ok_or_else(|| Fault::custom("the name of a field must be a text"))?);
        Ok(())
    }

    fn serialize_value<T: Serialize + ?Sized>(&mut self, value: &T) -> Result<(), Fault> {
        let field = self.field.take();
        let field =
            field.ok_or_else(|| Fault::custom("a value came before the name of its field"))?;
        self.put(field, value)
    }

    fn end(self) -> Result<Pairs, Fault> {
        Ok(self.pairs)
    }
}

/// Refuses values of these kinds.
macro_rules! refused {
    ($reason:ident: $($name:ident($($type:ty),*) $(-> $output:ty)?;)*) => {$(
        fn $name(self, $(_: $type),*) -> Result<refused!(output $($output)?), Fault> {
            Err(Fault::custom($reason))
        }
    )*};
    (output) => { Self::Ok };
    (output $output:ty) => { $output };
}

const NO_FIELDS: &str = "only a structure or a map has fields";
const NOT_ONE: &str = "a field holds one text or number, and a list, structure or map is none; `to_json` writes it as text";

impl Serializer for Fields {
    type Ok = Pairs;
    type Error = Fault;
    type SerializeSeq = Impossible<Pairs, Fault>;
    type SerializeTuple = Impossible<Pairs, Fault>;
    type SerializeTupleStruct = Impossible<Pairs, Fault>;
    type SerializeTupleVariant = Impossible<Pairs, Fault>;
    type SerializeMap = Self;
    type SerializeStruct = Self;
    type SerializeStructVariant = Impossible<Pairs, Fault>;

    fn serialize_map(self, _: Option<usize>) -> Result<Self, Fault> {
        Ok(self)
    }

    fn serialize_struct(self, _: &'static str, _: usize) -> Result<Self, Fault> {
        Ok(self)
    }

    fn serialize_some<T: Serialize + ?Sized>(self, value: &T) -> Result<Pairs, Fault> {
        value.serialize(self)
    }

    fn serialize_newtype_struct<T: Serialize + ?Sized>(
        self,
        _: &'static str,
        value: &T,
    ) -> Result<Pairs, Fault> {
        value.serialize(self)
    }

    fn serialize_newtype_variant<T: Serialize + ?Sized>(
        self,
        _: &'static str,
        _: u32,
        _: &'static str,
        _: &T,
    ) -> Result<Pairs, Fault> {
        Err(Fault::custom(NO_FIELDS))
    }

    refused! { NO_FIELDS:
        serialize_bool(bool);
        serialize_i8(i8);
        serialize_i16(i16);
        serialize_i32(i32);
        serialize_i64(i64);
        serialize_i128(i128);
        serialize_u8(u8);
        serialize_u16(u16);
        serialize_u32(u32);
        serialize_u64(u64);
        serialize_u128(u128);
        serialize_f32(f32);
        serialize_f64(f64);
        serialize_char(char);
        serialize_str(&str);
        serialize_bytes(&[u8]);
        serialize_none();
        serialize_unit();
        serialize_unit_struct(&'static str);
        serialize_unit_variant(&'static str, u32, &'static str);
        serialize_seq(Option<usize>) -> Self::SerializeSeq;
        serialize_tuple(usize) -> Self::SerializeTuple;
        serialize_tuple_struct(&'static str, usize) -> Self::SerializeTupleStruct;
        serialize_tuple_variant(&'static str, u32, &'static str, usize) -> Self::SerializeTupleVariant;
        serialize_struct_variant(&'static str, u32, &'static str, usize) -> Self::SerializeStructVariant;
    }
}

/// Writes values of these types as text.
macro_rules! texts {
    ($($name:ident($type:ty);)*) => {$(
        fn $name(self, value: $type) -> Result<Option<Vec<u8>>, Fault> {
            Ok(Some(value.to_string().into_bytes()))
        }
    )*};
}

impl Serializer for Scalar {
    type Ok = Option<Vec<u8>>;
    type Error = Fault;
    type SerializeSeq = Impossible<Self::Ok, Fault>;
    type SerializeTuple = Impossible<Self::Ok, Fault>;
    type SerializeTupleStruct = Impossible<Self::Ok, Fault>;
    type SerializeTupleVariant = Impossible<Self::Ok, Fault>;
    type SerializeMap = Impossible<Self::Ok, Fault>;
    type SerializeStruct = Impossible<Self::Ok, Fault>;
    type SerializeStructVariant = Impossible<Self::Ok, Fault>;

    texts! {
        serialize_i8(i8);
        serialize_i16(i16);
        serialize_i32(i32);
        serialize_i64(i64);
        serialize_i128(i128);
        serialize_u8(u8);
        serialize_u16(u16);
        serialize_u32(u32);
        serialize_u64(u64);
        serialize_u128(u128);
        serialize_f32(f32);
        serialize_f64(f64);
        serialize_char(char);
        serialize_str(&str);
    }

    fn serialize_bool(self, value: bool) -> Result<Self::Ok, Fault> {
        Ok(Some(if value { b"1" } else { b"0" }.to_vec()))
    }

    fn serialize_bytes(self, bytes: &[u8]) -> Result<Self::Ok, Fault> {
        Ok(Some(bytes.to_vec()))
    }

    fn serialize_none(self) -> Result<Self::Ok, Fault> {
        Ok(None)
    }

    fn serialize_unit(self) -> Result<Self::Ok, Fault> {
        Ok(None)
    }

    fn serialize_unit_struct(self, _: &'static str) -> Result<Self::Ok, Fault> {
        Ok(None)
    }

    fn serialize_some<T: Serialize + ?Sized>(self, value: &T) -> Result<Self::Ok, Fault> {
        value.serialize(self)
    }

    fn serialize_unit_variant(
        self,
        _: &'static str,
        _: u32,
        variant: &'static str,
    ) -> Result<Self::Ok, Fault> {
        self.serialize_str(variant)
    }

    fn serialize_newtype_struct<T: Serialize + ?Sized>(
        self,
        _: &'static str,
        value: &T,
    ) -> Result<Self::Ok, Fault> {
        value.serialize(self)
    }

    fn serialize_newtype_variant<T: Serialize + ?Sized>(
        self,
        _: &'static str,
        _: u32,
        _: &'static str,
        _: &T,
    ) -> Result<Self::Ok, Fault> {
        Err(Fault::custom(NOT_ONE))
    }

    refused! { NOT_ONE:
        serialize_seq(Option<usize>) -> Self::SerializeSeq;
        serialize_tuple(usize) -> Self::SerializeTuple;
        serialize_tuple_struct(&'static str, usize) -> Self::SerializeTupleStruct;
        serialize_tuple_variant(&'static str, u32, &'static str, usize) -> Self::SerializeTupleVariant;
        serialize_map(Option<usize>) -> Self::SerializeMap;
        serialize_struct(&'static str, usize) -> Self::SerializeStruct;
        serialize_struct_variant(&'static str, u32, &'static str, usize) -> Self::SerializeStructVariant;
    }
}
