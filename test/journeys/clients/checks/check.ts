import type { McpClient } from '../connect/mcp-client.ts';
import type { Evidence } from '../evidence/evidence.ts';
import type { Script } from './upstream-scripts.ts';

/** One client at one upstream, whatever lies between them. */
export interface CheckParts {
  readonly client: McpClient;
  readonly script: Script;
  readonly evidence: Evidence;
  /** A folder of this visit's own. */
  readonly folder: string;
  /** Whether MCP's own session can be said goodbye to, and how it shows that it is gone. */
  readonly address: { readonly url: string; readonly headers: Readonly<Record<string, string>> } | undefined;
}

/** Throws `Absent` for what this client or this upstream cannot do, and anything else for what goes wrong. */
export type Check = (visit: CheckParts) => Promise<void>;

export class MissingFeatureError extends Error {}

export function requireOffer(there: unknown, otherwise: string): void {
  if (there === undefined || there === false) throw new MissingFeatureError(otherwise);
}
