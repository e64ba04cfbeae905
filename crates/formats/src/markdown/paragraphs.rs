//! Paragraphs with values in them as values of expressions: evaluated natively, or as JavaScript.

use std::sync::Arc;

use flowloom_core::chat::{Content, content};
use flowloom_core::error::StepFailure;
use flowloom_core::expr::js::{Compute, Computed, Js};
use flowloom_core::expr::{Expr, Lookup, Template, TemplatePart, VisitName};
use flowloom_core::value::Value;

use super::expression::{Paragraph, ParagraphPart};

/// JavaScript around an expression that contains Markdown. It defines how a text is made from paragraphs (`$$m`) and how
/// a value becomes text (`$$t`): a list of nothing but texts that were made here is one text, and nothing if it is empty. They are ordinary strings
/// for the expression, so they are recognized by their content.
pub(super) const MARKDOWN_WRAPPER: (&str, &str) = (
    "(($$m,$$t)=>$$t((\n",
    "\n)))(...(()=>{const made={__proto__:null};\
     const t=v=>{if(Array.isArray(v)){const f=v.flat(Infinity);\
     if(f.every(x=>typeof x==='string'&&made[x]))return f.length?f.join('\\n'):f}return v};\
     const p=([s,v])=>{let w=s[0];const a=[];v.forEach((x,i)=>{x=t(x);if(Array.isArray(x)&&!x.length)x='';\
     if(x===null||typeof x==='object')\
     a.push('```json\\n'+JSON.stringify(x,null,2)+'\\n```');else w+=String(x);w+=s[i+1]});\
     return[w,...a].filter(x=>x).join('\\n\\n')};\
     return[b=>{const text=b.map(p).filter(x=>x).join('\\n\\n');made[text]=true;return text},t]})())",
);

/// Markdown with values in it, rendered as one text.
#[derive(Debug)]
struct Paragraphs(Vec<Template>);

impl Compute for Paragraphs {
    fn compute(&self, scope: &dyn Lookup) -> Result<Value, StepFailure> {
        Content::render_blocks(&self.0, scope).map(|parts| content::join_texts(&parts).into())
    }

    fn visit_names(&self, visit: &mut VisitName<'_>) {
        self.0.iter().for_each(|block| block.visit_names(visit));
    }
}

/// Markdown in which all expressions are evaluated natively; `None` if one is not.
pub(super) fn native_markdown(blocks: &[Paragraph]) -> Option<Js> {
    let part = |chunk: &ParagraphPart| match chunk {
        ParagraphPart::Text(text) => Some(TemplatePart::Text(text.as_str().into())),
        ParagraphPart::Value(source) => {
            let placed = Js::Placed(Box::new(source.native.clone()?), source.place.clone());
            Some(TemplatePart::Expr(Arc::new(Expr::Js(Arc::new(placed)))))
        }
    };
    let block = |block: &Paragraph| Some(Template { parts: block.iter().map(part).collect::<Option<_>>()? });
    let blocks = blocks.iter().map(block).collect::<Option<_>>()?;
    Some(Js::Computed(Computed(Arc::new(Paragraphs(blocks)))))
}

/// Markdown as JavaScript; the variables in it are added to `names`.
pub(super) fn script_markdown(blocks: &[Paragraph], names: &mut Vec<Arc<str>>) -> String {
    let mut written = Vec::new();
    for block in blocks {
        let (mut texts, mut values) = (vec![String::new()], Vec::new());
        for chunk in block {
            match chunk {
                ParagraphPart::Text(text) => {
                    if let Some(last) = texts.last_mut() {
                        last.push_str(text);
                    }
                }
                ParagraphPart::Value(source) => {
                    values.push(format!("(\n{}\n)", source.js));
                    texts.push(String::new());
                    let new = source.names.iter().filter(|name| !names.contains(name)).cloned().collect::<Vec<_>>();
                    names.extend(new);
                }
            }
        }
        let texts: Vec<_> = texts.into_iter().map(|text| flowloom_core::json::write_json(&text.into())).collect();
        written.push(format!("[[{}],[{}]]", texts.join(","), values.join(",")));
    }
    format!("$$m([{}])", written.join(","))
}
