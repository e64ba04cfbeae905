//! Block search by words and by vectors: the same tests on SQLite and on Postgres.

#[macro_use]
mod support;

use flowloom_store::{
    BROUGHT, BlockQuery, Change, DefinitionKey, FoundBlock, Kind, NewDefinition, Origin, SHARED, Store,
};

use support::Place;

on_both!(
    words_find_blocks_in_every_form_and_nothing_else_does,
    what_is_near_is_found_without_a_common_word,
    both_orders_count_and_both_scores_are_told,
    a_holder_finds_their_own_and_what_everyone_has,
    what_the_program_brings_is_found_by_everyone_who_has_no_other,
    the_index_changes_with_the_block_and_in_every_process,
    equal_texts_share_a_vector_until_the_last_is_gone,
);

fn key(holder: &str, id: &str) -> DefinitionKey {
    DefinitionKey { holder: holder.into(), kind: Kind::Block, id: id.into() }
}

fn put(holder: &str, id: &str, description: &str) -> Change {
    let content = format!(r#"{{"id": "{id}", "name": "{id}", "description": "{description}", "tags": ["tagged"]}}"#);
    put_content(holder, id, &content)
}

fn put_content(holder: &str, id: &str, content: &str) -> Change {
    let content = content.to_owned();
    Change::Put(NewDefinition { key: key(holder, id), format: None, content, origin: Origin::Api, uses: Vec::new() })
}

async fn change(store: &Store, changes: Vec<Change>) {
    store.change_definitions(changes, 1).await.expect("made");
}

/// Gives every block without an embedding the vector that is listed for a word of its text.
async fn embed(store: &Store, vectors: &[(&str, [f32; 2])]) {
    let missing = store.unembedded("m", 100).expect("readable");
    let of = |text: &str| vectors.iter().find(|(word, _)| text.contains(word)).map(|(_, vector)| vector.to_vec());
    let made = missing.into_iter().filter_map(|one| Some((one.hash, of(&one.text)?))).collect();
    store.keep_embeddings("m", made).await.expect("kept");
}

fn find(store: &Store, words: &str, vector: Option<&[f32]>) -> Vec<FoundBlock> {
    let vector = vector.map(|vector| ("m", vector));
    store.find_blocks(BlockQuery { holder: "ann", words, vector, limit: 10 }).expect("readable")
}

fn ids(found: &[FoundBlock]) -> Vec<&str> {
    found.iter().map(|found| found.id.as_str()).collect()
}

async fn words_find_blocks_in_every_form_and_nothing_else_does(place: &Place) {
    let store = place.open();
    let blocks = vec![
        put("ann", "fetch", "Downloads a page."),
        put("ann", "mail", "Sends letters to people."),
        put_content("ann", "odd", "this is no JSON"),
    ];
    change(&store, blocks).await;
    let found = |words: &str| ids(&find(&store, words, None)).join(" ");
    assert_eq!(found("downloading PAGES"), "fetch");
    assert_eq!(found("page letter"), "fetch mail");
    assert_eq!(found("odd"), "odd");
    assert_eq!(found("tagged"), "fetch mail");
    assert_eq!(found("the of a"), "");
    assert_eq!(found(""), "");
    assert_eq!(found("zebra"), "");
    // Operators of the databases' query languages are plain words, or ignored.
    assert_eq!(found(r#"page" OR * -( NEAR/2 'x' :* & | ! <-> \ {name} ^"#), "fetch");
    let text = find(&store, "page", None);
    assert!(text[0].words.is_some_and(|score| score > 0.0) && text[0].similarity.is_none(), "{text:?}");
}

async fn what_is_near_is_found_without_a_common_word(place: &Place) {
    let store = place.open();
    change(&store, vec![put("ann", "near", "One."), put("ann", "far", "Two."), put("ann", "bare", "Three.")]).await;
    // Only the direction of a vector counts, not its length.
    embed(&store, &[("One", [0.0, 9.0]), ("Two", [2.0, 0.0])]).await;
    let found = find(&store, "nothing common", Some(&[0.3, 0.4]));
    assert_eq!(ids(&found), ["near", "far"]);
    let near = found[0].similarity.expect("a similarity");
    assert!((near - 0.8).abs() < 1e-6 && found[0].words.is_none(), "{found:?}");
    // Vectors of another width, of length zero, or of another model do not count.
    assert_eq!(find(&store, "nothing", Some(&[1.0, 0.0, 0.0])), []);
    let other = BlockQuery { holder: "ann", words: "", vector: Some(("other", &[1.0, 0.0])), limit: 10 };
    assert_eq!(store.find_blocks(other).expect("readable"), []);
    let left = store.unembedded("m", 100).expect("readable");
    assert_eq!(left.len(), 1);
    assert_eq!(left[0].text, "bare.\nThree.");
    assert_eq!(store.unembedded("other", 2).expect("readable").len(), 2);
}

async fn both_orders_count_and_both_scores_are_told(place: &Place) {
    let store = place.open();
    let blocks = vec![
        put("ann", "words", "Alpha alpha alpha."),
        put("ann", "both", "Alpha and beta."),
        put("ann", "near", "Gamma."),
    ];
    change(&store, blocks).await;
    embed(&store, &[("Gamma", [1.0, 0.0]), ("beta", [0.6, 0.8])]).await;
    let found = find(&store, "alpha", Some(&[1.0, 0.0]));
    // Second place in both rankings beats first place in one.
    assert_eq!(found[0].id, "both", "{found:?}");
    assert!(found[0].words.is_some_and(|score| score > 0.0));
    assert!(found[0].similarity.is_some_and(|near| (near - 0.6).abs() < 1e-6), "{found:?}");
    assert!(found.windows(2).all(|two| two[0].score >= two[1].score));
    let one_sided: Vec<_> =
        found[1..].iter().map(|found| (found.words.is_some(), found.similarity.is_some())).collect();
    assert!(one_sided == [(true, false), (false, true)] || one_sided == [(false, true), (true, false)], "{found:?}");
    let one =
        store.find_blocks(BlockQuery { holder: "ann", words: "alpha", vector: None, limit: 1 }).expect("readable");
    assert_eq!(one.len(), 1);
}

async fn a_holder_finds_their_own_and_what_everyone_has(place: &Place) {
    let store = place.open();
    let blocks = vec![
        put(SHARED, "common", "Alpha for all."),
        put(SHARED, "hidden", "Alpha, the old one."),
        put("ann", "hidden", "Something else."),
        put("bob", "secret", "Alpha of bob."),
    ];
    change(&store, blocks).await;
    embed(&store, &[("Alpha", [1.0, 0.0]), ("else", [0.0, 1.0])]).await;
    assert_eq!(ids(&find(&store, "alpha", None)), ["common"]);
    let found = find(&store, "alpha", Some(&[1.0, 0.0]));
    let names: Vec<_> = found.iter().map(|found| (found.holder.as_str(), found.id.as_str())).collect();
    assert_eq!(names, [(SHARED, "common"), ("ann", "hidden")]);
    let all = BlockQuery { holder: SHARED, words: "alpha", vector: Some(("m", &[1.0, 0.0])), limit: 10 };
    let mut all: Vec<_> = store.find_blocks(all).expect("readable").into_iter().map(|found| found.id).collect();
    all.sort();
    assert_eq!(all, ["common", "hidden"]);
}

async fn what_the_program_brings_is_found_by_everyone_who_has_no_other(place: &Place) {
    let store = place.open();
    let brought = |ids: &[&str]| -> Vec<(String, String)> {
        let content = |id: &str| format!(r#"{{"id": "{id}", "name": "{id}", "description": "Alpha {id}."}}"#);
        ids.iter().map(|id| ((*id).to_owned(), content(id))).collect()
    };
    store.bring_blocks(brought(&["one", "two", "three", "old"])).await.expect("kept");
    let commits = store.commits();
    store.bring_blocks(brought(&["one", "two", "three", "old"])).await.expect("kept");
    assert_eq!(store.commits(), commits, "the same is not written again");
    store.bring_blocks(brought(&["one", "two", "three"])).await.expect("kept");
    change(&store, vec![put("ann", "one", "Beta."), put(SHARED, "one", "Beta."), put(SHARED, "two", "Beta.")]).await;
    embed(&store, &[("Alpha", [1.0, 0.0]), ("Beta", [0.0, 1.0])]).await;
    let found = |holder: &str, vector| {
        let found = store.find_blocks(BlockQuery { holder, words: "alpha", vector, limit: 10 }).expect("readable");
        found.into_iter().map(|found| (found.holder, found.id)).collect::<Vec<_>>()
    };
    let name = |holder: &str, id: &str| (holder.to_owned(), id.to_owned());
    for holder in ["ann", "bob", SHARED] {
        assert_eq!(found(holder, None), [name(BROUGHT, "three")], "{holder}");
    }
    let near = Some(("m", [1.0, 0.0].as_slice()));
    assert_eq!(found("ann", near)[0], name(BROUGHT, "three"));
    let mut all = found("ann", near);
    all.sort();
    assert_eq!(all, [name(BROUGHT, "three"), name("ann", "one"), name(SHARED, "two")]);
}

async fn the_index_changes_with_the_block_and_in_every_process(place: &Place) {
    let (one, two) = (place.open(), place.open());
    change(&one, vec![put("ann", "x", "Alpha.")]).await;
    embed(&one, &[("Alpha", [1.0, 0.0])]).await;
    let near = |store: &Store| find(store, "", Some(&[1.0, 0.0])).first().and_then(|found| found.similarity);
    assert_eq!((near(&one), near(&two)), (Some(1.0), Some(1.0)));
    // A refused change leaves the index unchanged.
    let workflow = NewDefinition {
        key: DefinitionKey { holder: "ann".into(), kind: Kind::Workflow, id: "w".into() },
        format: Some("pipeline".into()),
        content: "{}".into(),
        origin: Origin::Api,
        uses: vec![(Kind::Block, "x".into())],
    };
    change(&one, vec![Change::Put(workflow)]).await;
    one.change_definitions(vec![Change::Delete(key("ann", "x"))], 2).await.expect_err("it is used");
    assert_eq!((ids(&find(&one, "alpha", None)), near(&two)), (vec!["x"], Some(1.0)));
    change(&one, vec![put("ann", "x", "Beta.")]).await;
    assert_eq!((find(&two, "alpha", None), near(&two)), (vec![], None));
    assert_eq!(ids(&find(&two, "beta", None)), ["x"]);
    embed(&two, &[("Beta", [0.0, 1.0])]).await;
    assert_eq!((near(&one), near(&two)), (Some(0.0), Some(0.0)));
}

async fn equal_texts_share_a_vector_until_the_last_is_gone(place: &Place) {
    let store = place.open();
    change(&store, vec![put("ann", "x", "Alpha."), put("bob", "x", "Alpha.")]).await;
    assert_eq!(store.unembedded("m", 100).expect("readable").len(), 1);
    let hash = store.unembedded("m", 1).expect("readable").remove(0).hash;
    embed(&store, &[("Alpha", [1.0, 0.0])]).await;
    assert_eq!(store.unembedded("m", 100).expect("readable"), []);
    change(&store, vec![Change::Delete(key("ann", "x"))]).await;
    change(&store, vec![put("ann", "x", "Alpha.")]).await;
    assert_eq!(store.unembedded("m", 100).expect("readable"), [], "bob's still has it");
    change(&store, vec![Change::Delete(key("ann", "x")), Change::Delete(key("bob", "x"))]).await;
    // An embedding that arrives too late is not stored.
    store.keep_embeddings("m", vec![(hash, vec![1.0, 0.0])]).await.expect("done");
    change(&store, vec![put("ann", "x", "Alpha.")]).await;
    assert_eq!(store.unembedded("m", 100).expect("readable").len(), 1);
}
