import type { KeyWish } from '../../src/gateway/operator/people.ts';
import {
  callModern,
  modernHeaders,
  modernRequest,
  outcome,
  type PostAnswer,
  post,
} from '../journeys/json-mcp-client.ts';
import type { ServedGateway } from './shared-data.ts';

/** A user with a key, added where there is none yet. */
export async function keyFor(
  { gateway }: ServedGateway,
  userId: string,
  wish: Partial<KeyWish> = {},
): Promise<{ readonly id: string; readonly key: string }> {
  await gateway.people.users.add(userId);
  const { view, key } = await gateway.people.keys.create({ userId, ...wish });
  return { id: view.id, key };
}

export interface Stood {
  readonly id: string;
  readonly userId: string;
  readonly name: string | null;
  readonly workspaceId: string | null;
  readonly trustLevel: string;
}

/** The session that a modern call with this key finds, or the code of the refusal. */
export async function standing(
  served: ServedGateway,
  key: string,
  meta: Record<string, unknown> = {},
  session = 'current',
): Promise<Stood | string> {
  return sessionIn(await callModern(served.mcp('ambit'), key, 'session_info', { session }, { meta }));
}

export function sessionIn(said: PostAnswer): Stood | string {
  const { structuredContent } = said.messages.at(-1)?.result ?? {};
  return (structuredContent as { session: Stood } | undefined)?.session ?? outcome(said);
}

export async function stands(...given: Parameters<typeof standing>): Promise<Stood> {
  const found = await standing(...given);
  if (typeof found === 'string') throw new Error(found);
  return found;
}

export async function toolsFor(url: string, key: string, meta: Record<string, unknown> = {}): Promise<string[]> {
  const body = modernRequest(1, 'tools/list', { _meta: meta });
  const said = await post(url, key, JSON.stringify(body), modernHeaders('tools/list'));
  const { tools = [] } = (said.messages.at(-1)?.result ?? {}) as { tools?: { name: string }[] };
  return tools.map(({ name }) => name).sort();
}
