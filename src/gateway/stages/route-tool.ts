import { AmbitError } from '../../errors.ts';
import { applyEdits, replaceValue } from '../../protocol/json/edit.ts';
import { memberOf, stringAt } from '../../protocol/json/scan.ts';
import { readMessage } from '../../protocol/message.ts';
import type { Resolution } from '../../upstreams/access/resolution.ts';
import type { Listed } from '../../upstreams/catalog/catalog.ts';
import { named } from '../../upstreams/catalog/merge.ts';
import { splitName } from '../../upstreams/catalog/tool-names.ts';
import type { InProcessServer, ServerDefinition } from '../../upstreams/definition.ts';
import type { Prepared } from '../exchange.ts';
import type { OwnTools } from '../routing/own-tools.ts';
import type { BeforeStage } from '../stage.ts';

export interface Found {
  readonly server: ServerDefinition;
  /** The name or URI on the server's side. */
  readonly name: string;
}

const shortened = 64;

interface RouteParts {
  readonly server: InProcessServer;
  readonly own: OwnTools;
  readonly resolution: Resolution;
  /** The lists of each server that this session may use. */
  look(exchange: Prepared): Promise<readonly Listed[]>;
}

type Routed = Pick<Prepared, 'upstream' | 'outgoing' | 'edits'>;

/** Finds the server of a tool or prompt at the address of all servers, and replaces the public name by the server's own. */
export function routeTool({ server, own, resolution, look }: RouteParts): BeforeStage<Prepared, Routed | undefined> {
  /** A name that begins with `session_` and has no `__` is Ambit's own, even if there is no such tool. */
  const isOwn = (name: string) => own.has(name) || (name.startsWith('session_') && splitName(name) === undefined);

  function toServer(exchange: Prepared, name: string, found: Found | undefined): Routed {
    const { message, edits, entry, session } = exchange;
    const member = memberOf(message.params?.shape, 'name');
    if (found === undefined || member === undefined) {
      // The journal says why; the caller is not told.
      const meant = resolution.find(session, splitName(name)?.server ?? '');
      if (meant.server === undefined) entry.rule = meant.removal?.rule;
      throw unknownName(message.method, name);
    }
    entry.upstream = found.server.name;
    const renamed = [...edits, replaceValue(member, JSON.stringify(found.name))];
    return { upstream: found.server, outgoing: readMessage(applyEdits(message.bytes, renamed)), edits: [] };
  }

  return {
    name: 'routeTool',
    refuses: ['SERVER_NOT_AVAILABLE'],
    finds: 'server',
    before(exchange) {
      const { message, upstream, outgoing, edits, entry } = exchange;
      const { kind, method } = message;
      const isNamed = kind === 'request' && (method === 'tools/call' || method === 'prompts/get');
      if (upstream !== undefined || !isNamed) return undefined;
      const name = stringAt(message.bytes, memberOf(message.params?.shape, 'name')) ?? '';
      if (method === 'tools/call' && isOwn(name)) {
        entry.upstream = server.name;
        return { upstream: server, outgoing, edits };
      }
      const what = method === 'tools/call' ? 'tools' : 'prompts';
      const found = findNamed(exchange, name, what, () => look(exchange));
      return found instanceof Promise
        ? found.then((late) => toServer(exchange, name, late))
        : toServer(exchange, name, found);
    },
  };
}

function unknownName(method: string, name: string): AmbitError {
  return new AmbitError('SERVER_NOT_AVAILABLE', {
    what: `No server available to this session has "${name.slice(0, 100)}".`,
    hint: `Use a name from ${method === 'tools/call' ? 'tools' : 'prompts'}/list: they are called server__name.`,
  });
}

/** Finds the server that a public tool or prompt name belongs to. Only a name that was shortened needs the lists. */
export function findNamed(
  exchange: Prepared,
  name: string,
  what: 'tools' | 'prompts',
  look: () => Promise<readonly Listed[]>,
): Found | undefined | Promise<Found | undefined> {
  if (name.length !== shortened) return findPrefixed(exchange, name);
  return look().then((lists) => {
    for (const { server, offer } of lists) {
      const entry = named(server.name, offer?.[what] ?? []).find((each) => each.publicName === name);
      if (entry !== undefined) return { server, name: entry.name };
    }
    return findPrefixed(exchange, name);
  });
}

function findPrefixed(exchange: Prepared, name: string): Found | undefined {
  const parts = splitName(name);
  const server = exchange.available.find((each) => each.name === parts?.server);
  return server === undefined || parts === undefined ? undefined : { server, name: parts.name };
}
