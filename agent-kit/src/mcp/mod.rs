//! MCP: tools that a server offers.
