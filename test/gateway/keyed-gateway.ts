import type { KeyRequest } from '../../src/gateway/directory-admin.ts';
import {
  callModern,
  modernHeaders,
  modernRequest,
  type PostAnswer,
  post,
  readOutcome,
} from '../journeys/json-mcp-client.ts';
import type { ServedGateway } from './shared-data.ts';

/** A user with a key, added where there is none yet. */
export async function createKeyFor(
  { gateway }: ServedGateway,
  userId: string,
  wish: Partial<KeyRequest> = {},
): Promise<{ readonly id: string; readonly key: string }> {
  await gateway.people.users.add(userId);
  const { view, key } = await gateway.people.keys.create({ userId, ...wish });
  return { id: view.id, key };
}

export interface FoundSession {
  readonly id: string;
  readonly userId: string;
  readonly name: string | null;
  readonly workspaceId: string | null;
  readonly trustLevel: string;
}

/** The session that a modern call with this key finds, or the code of the refusal. */
export async function trySession(
  served: ServedGateway,
  key: string,
  meta: Record<string, unknown> = {},
  session = 'current',
): Promise<FoundSession | string> {
  return readSession(await callModern(served.mcp('ambit'), key, 'session_info', { session }, { meta }));
}

export function readSession(said: PostAnswer): FoundSession | string {
  const { structuredContent } = said.messages.at(-1)?.result ?? {};
  return (structuredContent as { session: FoundSession } | undefined)?.session ?? readOutcome(said);
}

export async function findSession(...given: Parameters<typeof trySession>): Promise<FoundSession> {
  const found = await trySession(...given);
  if (typeof found === 'string') throw new Error(found);
  return found;
}

export async function listToolsFor(url: string, key: string, meta: Record<string, unknown> = {}): Promise<string[]> {
  const body = modernRequest(1, 'tools/list', { _meta: meta });
  const said = await post(url, key, JSON.stringify(body), modernHeaders('tools/list'));
  const { tools = [] } = (said.messages.at(-1)?.result ?? {}) as { tools?: { name: string }[] };
  return tools.map(({ name }) => name).sort();
}
