//! Moves the equals signs of attributes to their values: MDX allows white space between them, and the parser does not.

use super::lex;

/// The text in which each equals sign in a tag is directly before its value. All offsets stay, except those of these
/// signs and of the white space behind them.
pub(super) fn close_gaps(text: &str) -> String {
    let mut reader = Reader { text, at: 0, gaps: Vec::new(), has_open_brace: false };
    reader.read_text();
    let mut closed = String::with_capacity(text.len());
    for (sign, value) in reader.gaps {
        closed.push_str(&text[closed.len()..sign]);
        closed.extend(std::iter::repeat_n(' ', value - sign - 1));
        closed.push('=');
    }
    closed.push_str(&text[closed.len()..]);
    closed
}

struct Reader<'a> {
    text: &'a str,
    at: usize,
    /// The equals signs that are not directly before their values, with the places of the values.
    gaps: Vec<(usize, usize)>,
    /// Whether a brace is never closed. Others are then not looked for, so that the time stays linear.
    has_open_brace: bool,
}

impl<'a> Reader<'a> {
    fn remaining_text(&self) -> &'a str {
        &self.text[self.at..]
    }

    fn read_text(&mut self) {
        while let Some(found) = self.remaining_text().find(['\\', '`', '{', '<']) {
            self.at += found;
            let is_read = match self.text.as_bytes()[self.at] {
                b'`' => self.read_code(),
                b'{' => self.read_expression(),
                b'<' => self.read_tag().is_some(),
                _ => false,
            };
            if !is_read {
                // A backslash takes the next character with it.
                let skipped = 1 + usize::from(self.remaining_text().starts_with('\\'));
                self.at += self.remaining_text().chars().take(skipped).map(char::len_utf8).sum::<usize>();
            }
        }
    }

    /// Reads code up to as many backticks as it starts with.
    fn read_code(&mut self) -> bool {
        let mark = &self.remaining_text()[..prefix_length(self.remaining_text(), |c| c == '`')];
        let end = self.remaining_text()[mark.len()..].find(mark);
        self.at += mark.len() + end.map_or(0, |end| end + mark.len());
        true
    }

    fn read_expression(&mut self) -> bool {
        let end = if self.has_open_brace { None } else { lex::find_first_end(&self.remaining_text()[1..]) };
        self.has_open_brace |= end.is_none();
        self.at += end.map_or(0, |end| end + 2);
        end.is_some()
    }

    /// Reads a tag and notes the gaps in it. Returns `None` and reads nothing if it is not a tag.
    fn read_tag(&mut self) -> Option<()> {
        let (start, noted) = (self.at, self.gaps.len());
        let read = self.read_attributes();
        if read.is_none() {
            self.at = start;
            self.gaps.truncate(noted);
        }
        read
    }

    fn read_attributes(&mut self) -> Option<()> {
        self.at += 1;
        self.read_name()?;
        loop {
            self.skip_blanks();
            match self.remaining_text().chars().next()? {
                '>' => break,
                '/' => self.at += 1,
                '{' => self.read_expression().then_some(())?,
                _ => self.read_attribute()?,
            }
        }
        Some(())
    }

    fn read_attribute(&mut self) -> Option<()> {
        self.read_name()?;
        self.skip_blanks();
        let sign = self.at;
        if !self.remaining_text().starts_with('=') {
            return Some(());
        }
        self.at += 1;
        self.skip_blanks();
        if self.at > sign + 1 {
            self.gaps.push((sign, self.at));
        }
        match self.remaining_text().chars().next()? {
            quote @ ('"' | '\'') => self.at += self.remaining_text()[1..].find(quote)? + 2,
            '{' => self.read_expression().then_some(())?,
            _ => return None,
        }
        Some(())
    }

    fn read_name(&mut self) -> Option<()> {
        let is_part = |c: char| c.is_alphanumeric() || matches!(c, '_' | '-' | ':' | '.' | '$');
        let length = prefix_length(self.remaining_text(), is_part);
        self.at += length;
        (length > 0).then_some(())
    }

    fn skip_blanks(&mut self) {
        self.at += prefix_length(self.remaining_text(), char::is_whitespace);
    }
}

/// The length of the characters at the start of a text for which `is_part` is true.
fn prefix_length(text: &str, is_part: impl Fn(char) -> bool) -> usize {
    text.find(|c| !is_part(c)).unwrap_or(text.len())
}

#[cfg(test)]
mod tests {
    use super::close_gaps;

    #[test]
    fn equals_signs_in_tags_stand_before_their_values() {
        let cases = [
            ("<A b = \"c\" d= {e} f =\"g\" />", "<A b  =\"c\" d ={e} f =\"g\" />"),
            ("x <b a\n=\n'c'>y</b>", "x <b a\n ='c'>y</b>"),
            ("<A b={ {c: '}'} } {...d} e= \"f\">", "<A b={ {c: '}'} } {...d} e =\"f\">"),
        ];
        for (text, closed) in cases {
            assert_eq!(close_gaps(text), closed);
        }
    }

    #[test]
    fn everything_else_stays() {
        let texts = [
            "a = \"b\" <",
            "`<A b= \"c\">`",
            "```\n<A b= \"c\">\n```",
            "{'<A b= \"c\">'}",
            "\\<A b= \"c\">",
            "<A b= c>",
            "<A b= \"c",
            "{ <A b=\"c\">",
            "\\",
            "\\é<é é=\"é\">",
        ];
        for text in texts {
            assert_eq!(close_gaps(text), text);
        }
    }
}
