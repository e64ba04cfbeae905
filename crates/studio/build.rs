//! Embeds the page again after `make page` has built it.

fn main() {
    // Cargo reads this line.
    #[allow(clippy::print_stdout)]
    {
        println!("cargo:rerun-if-changed=page");
    }
}
