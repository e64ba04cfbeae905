//! The parts of the program that a catalog uses.

use std::sync::Arc;

use flowloom_store::Store;

use crate::blocks::BlockRegistry;
use crate::config::Config;
use crate::engine_factory::EngineFactory;
use crate::tools::mcp::McpServers;

/// The parts of the program with which a catalog finds, compiles and prepares definitions. Clones are handles of the same.
#[derive(Clone)]
pub struct CatalogParts {
    /// The configuration of its definitions.
    pub(crate) config: Arc<Config>,
    /// The stored definitions.
    pub(crate) store: Arc<Store>,
    /// The MCP servers whose tools definitions use.
    pub(crate) servers: Arc<McpServers>,
    /// Parses the Python sources of definitions.
    pub(crate) blocks: Arc<BlockRegistry>,
    /// Builds the bundles and engines of prepared definitions.
    pub(crate) engines: Arc<EngineFactory>,
}
