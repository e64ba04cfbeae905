//! Arguments of `flowloom keys`.

use clap::Subcommand;
use flowloom_app::user_names::check_user_name;

#[derive(Debug, Subcommand)]
pub(crate) enum KeysCommand {
    /// Create an API key and print it once
    Create {
        /// Name that says what the key is for
        #[arg(long)]
        name: String,
        /// Scopes of the key: read, run, write, admin
        #[arg(long, value_name = "SCOPES", default_value = "read,run")]
        scopes: String,
        /// User the key belongs to [default: any user]
        #[arg(long, value_name = "ID", value_parser = check_user_name)]
        user: Option<String>,
        /// When the key expires: a duration such as 90d, or a time such as 2027-01-31 [default: never]
        #[arg(long, value_name = "TIME")]
        expires: Option<String>,
    },
    /// List API keys
    List,
    /// Give an API key a new secret and print it once
    Rotate {
        /// Id or name of the key
        key: String,
        /// How long the old secret keeps working
        #[arg(long, value_name = "DURATION", default_value = "0s")]
        overlap: String,
        /// When the key expires: a duration such as 90d, or a time such as 2027-01-31 [default: as before]
        #[arg(long, value_name = "TIME")]
        expires: Option<String>,
    },
    /// Revoke an API key
    Revoke {
        /// Id or name of the key
        key: String,
    },
}
