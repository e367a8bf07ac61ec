/** The revisions of MCP that Ambit speaks. The modern one has no handshake; the others begin with `initialize`. */
export const modernVersion = '2026-07-28';
export const handshakeVersions: readonly string[] = ['2025-11-25', '2025-06-18', '2025-03-26'];
/** The only revision with JSON-RPC batches. */
export const batchVersion = '2025-03-26';
