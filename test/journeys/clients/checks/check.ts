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
  /** Another server or a bridge between the eras takes part: more may arrive than this upstream was asked for. */
  readonly isMixed: boolean;
  /** Whether MCP's own session can be said goodbye to, and how it shows that it is gone. */
  readonly address?: { readonly url: string; readonly headers: Readonly<Record<string, string>> } | undefined;
}

/** Throws `MissingFeatureError` for what this client or this upstream cannot do, and anything else for what goes wrong. */
export type Check = (visit: CheckParts) => Promise<void>;

export class MissingFeatureError extends Error {}

export function requireOffer(there: unknown, otherwise: string): void {
  if (there === undefined || there === false) throw new MissingFeatureError(otherwise);
}

/** The part of a script that a feature is shown by. */
export function readPart<K extends keyof Script>({ script }: CheckParts, name: K): Exclude<Script[K], string> {
  const found = script[name];
  if (typeof found === 'string') throw new MissingFeatureError(found);
  return found as Exclude<Script[K], string>;
}
