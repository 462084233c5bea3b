//! A record in, a String out: text, Markdown, HTML, CSV and JUnit.
