//! Libraries of functions: what they have, by name, and the Lua state that they share. Their texts are strings in the database of
//! the server's own entries.

use std::collections::BTreeMap;
use std::sync::Arc;

use hashbrown::{HashMap, HashSet};

use super::Interpreter;
use super::libraries::register::{Registered, verified};
use crate::commands::Refusal;

/// The libraries, and the Lua state in which their functions run.
#[derive(Debug)]
pub(crate) struct Libraries {
    pub(super) interpreter: Interpreter,
    by_name: BTreeMap<Arc<str>, Vec<Arc<Registered>>>,
    /// All functions by their names in lower case, with the names of their libraries.
    functions: HashMap<String, (Arc<str>, Arc<Registered>)>,
}

/// A library that was loaded and is not among the others yet.
#[derive(Debug)]
pub(super) struct Loaded {
    pub(super) name: Arc<str>,
    pub(super) text: Vec<u8>,
    functions: Vec<Arc<Registered>>,
}

impl Libraries {
    pub(super) fn new(interpreter: Interpreter) -> Self {
        Self {
            interpreter,
            by_name: BTreeMap::new(),
            functions: HashMap::new(),
        }
    }

    /// The libraries by name, with their functions.
    pub(super) fn iter(&self) -> impl Iterator<Item = (&str, &[Arc<Registered>])> {
        let libraries = self.by_name.iter();
        libraries.map(|(name, functions)| (&**name, functions.as_slice()))
    }

    /// The number of libraries, and that of functions.
    pub(super) fn counts(&self) -> (usize, usize) {
        (self.by_name.len(), self.functions.len())
    }

    pub(super) fn function(&self, name: &[u8]) -> Option<Arc<Registered>> {
        let name = std::str::from_utf8(name).ok()?.to_ascii_lowercase();
        let (_, function) = self.functions.get(&name)?;
        Some(Arc::clone(function))
    }

    /// Loads a library that can become one of them.
    ///
    /// # Errors
    /// The reply of FUNCTION LOAD.
    pub(super) fn load(&self, text: &[u8], replaces: bool) -> Result<Loaded, Refusal> {
        let is_taken = |name: &str| !replaces && self.by_name.contains_key(name);
        let loaded = self.load_apart(text, is_taken)?;
        self.check_functions(&loaded, |library| *library == *loaded.name)?;
        Ok(loaded)
    }

    /// Loads libraries that can become some of them: instead of those with the same names if `replaces`, and instead of all of
    /// them if `replaces_all`.
    ///
    /// # Errors
    /// The reply of FUNCTION RESTORE.
    pub(super) fn load_all(
        &self,
        texts: &[Vec<u8>],
        replaces: bool,
        replaces_all: bool,
    ) -> Result<Vec<Loaded>, Refusal> {
        let mut names: HashSet<Arc<str>> = HashSet::new();
        let mut functions = HashSet::new();
        let mut all = Vec::new();
        for text in texts {
            let loaded = self.load_apart(text, |name| names.contains(name))?;
            for function in &loaded.functions {
                if !functions.insert(function.name.to_ascii_lowercase()) {
                    return Err(format!("ERR Function {} already exists", function.name).into());
                }
            }
            names.insert(Arc::clone(&loaded.name));
            all.push(loaded);
        }
        if replaces_all {
            return Ok(all);
        }
        if let Some(name) = names.iter().find(|name| self.by_name.contains_key(*name))
            && !replaces
        {
            return Err(format!("ERR Library {name} already exists").into());
        }
        for loaded in &all {
            self.check_functions(loaded, |library| names.contains(library))?;
        }
        Ok(all)
    }

    fn load_apart(
        &self,
        text: &[u8],
        is_taken: impl FnOnce(&str) -> bool,
    ) -> Result<Loaded, Refusal> {
        let header = Header::of(text)?;
        let name = verified(&header.name)?;
        if !header.engine.eq_ignore_ascii_case(b"LUA") {
            return Err([b"ERR Engine '", &header.engine[..], b"' not found"].into());
        }
        if is_taken(name) {
            return Err(format!("ERR Library '{name}' already exists").into());
        }
        let registered = self.interpreter.load(header.body)?;
        if registered.is_empty() {
            return Err("ERR No functions registered".into());
        }
        Ok(Loaded {
            name: name.into(),
            text: text.to_vec(),
            functions: registered.into_iter().map(Arc::new).collect(),
        })
    }

    /// Checks that no library has a function of this one, except for those that leave.
    fn check_functions(
        &self,
        loaded: &Loaded,
        leaves: impl Fn(&str) -> bool,
    ) -> Result<(), Refusal> {
        for function in &loaded.functions {
            let known = self.functions.get(&function.name.to_ascii_lowercase());
            if known.is_some_and(|(library, _)| !leaves(library)) {
                return Err(format!("ERR Function {} already exists", function.name).into());
            }
        }
        Ok(())
    }

    /// Makes a library one of them, instead of one with the same name.
    pub(super) fn add(&mut self, loaded: Loaded) {
        self.remove(&loaded.name);
        for function in &loaded.functions {
            let found = (Arc::clone(&loaded.name), Arc::clone(function));
            let key = function.name.to_ascii_lowercase();
            self.functions.entry(key).or_insert(found);
        }
        self.by_name.insert(loaded.name, loaded.functions);
    }

    pub(super) fn clear(&mut self) {
        self.functions.clear();
        self.by_name.clear();
    }

    /// Removes a library and returns whether it was there.
    pub(super) fn remove(&mut self, name: &str) -> bool {
        self.functions.retain(|_, (library, _)| **library != *name);
        self.by_name.remove(name).is_some()
    }
}

/// The first line of a library, and the text behind it.
struct Header<'t> {
    engine: Vec<u8>,
    name: Vec<u8>,
    /// From the end of the line on, so that errors name the right lines.
    body: &'t [u8],
}

impl<'t> Header<'t> {
    fn of(text: &'t [u8]) -> Result<Self, Refusal> {
        const INVALID: &str = "ERR Invalid library metadata";
        if !text.starts_with(b"#!") {
            return Err("ERR Missing library metadata".into());
        }
        let end = text.iter().position(|byte| *byte == b'\n').ok_or(INVALID)?;
        let (line, body) = text.split_at(end);
        let words = split_words(line).ok_or(INVALID)?;
        let [engine, options @ ..] = &words[..] else {
            return Err(INVALID.into());
        };
        let mut name = None;
        for option in options {
            let value = match option.split_at_checked(b"name=".len()) {
                Some((key, value)) if key.eq_ignore_ascii_case(b"name=") => value,
                _ => return Err([b"ERR Invalid metadata value given: ", &option[..]].into()),
            };
            if name.replace(value.to_vec()).is_some() {
                return Err(
                    "ERR Invalid metadata value, name argument was given multiple times".into(),
                );
            }
        }
        Ok(Self {
            engine: engine[2..].to_vec(),
            name: name.ok_or("ERR Library name was not given")?,
            body,
        })
    }
}

/// The name of the library of functions with this text; `None` if the text has none.
#[must_use]
pub fn library_name(text: &[u8]) -> Option<String> {
    String::from_utf8(Header::of(text).ok()?.name).ok()
}

/// The words of a line; those in quotes can have spaces. `None` if a quote does not end, or a word follows it at once.
fn split_words(line: &[u8]) -> Option<Vec<Vec<u8>>> {
    let mut words = Vec::new();
    let mut rest = line;
    loop {
        rest = rest.trim_ascii_start();
        let mut word = Vec::new();
        while let Some((&byte, more)) = rest.split_first() {
            if byte.is_ascii_whitespace() || byte == 0 {
                break;
            }
            rest = more;
            match byte {
                b'"' | b'\'' => {
                    let end = rest.iter().position(|other| *other == byte)?;
                    word.extend_from_slice(&rest[..end]);
                    rest = &rest[end + 1..];
                    if rest.first().is_some_and(|next| !next.is_ascii_whitespace()) {
                        return None;
                    }
                }
                byte => word.push(byte),
            }
        }
        if word.is_empty() && rest.is_empty() {
            return Some(words);
        }
        words.push(word);
        if rest.first() == Some(&0) {
            return Some(words);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn header_needs_an_engine_and_one_name() {
        for (text, expected) in [
            ("#!lua name=a\nx", Some(("lua", "a"))),
            ("#!LUA  NAME=\"a b\" \n", Some(("LUA", "a b"))),
            ("#! name=q\n", Some(("", "q"))),
            ("#!lua name=a b\n", None),
            ("#!lua name='a\n", None),
            ("#!lua name='a'b\n", None),
            ("#!lua name=a name=b\n", None),
            ("#!lua name=a", None),
            ("#!\n", None),
            ("#", None),
            ("", None),
        ] {
            let header = Header::of(text.as_bytes()).ok();
            let found = header.map(|header| (header.engine, header.name));
            let expected = expected.map(|(engine, name)| (engine.into(), name.into()));
            assert_eq!(found, expected, "{text:?}");
        }
    }
}
