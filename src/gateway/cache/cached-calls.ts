import type { Config } from '../../config/schema/schema.ts';
import { anonymousUser } from '../../identity/principal.ts';
import { canonicalJson, sha256 } from '../../lib/json/canonical-json.ts';
import { accepted, type Channel, type Reply } from '../../protocol/channel.ts';
import { applyEdits, replaceValue } from '../../protocol/json/edit.ts';
import type { Message } from '../../protocol/message.ts';
import type { Session } from '../../sessions/session.ts';
import { placeOf } from '../../sessions/session-views.ts';
import type { Resolution } from '../../upstreams/access/resolution.ts';
import { toolOf } from '../../upstreams/access/tool-bounds.ts';
import type { Catalog } from '../../upstreams/catalog/catalog.ts';
import type { AskServer, Offer } from '../../upstreams/catalog/offer.ts';
import type { ServerDefinition } from '../../upstreams/definition.ts';
import type { Caller } from '../../upstreams/links/caller.ts';
import type { EntryDraft } from '../exchange.ts';
import { callDigest } from './call-digest.ts';
import { mayKeep } from './may-keep.ts';
import { type Partition, partitionOf } from './partition.ts';
import type { Kept, ResultCache } from './result-cache.ts';

/** A call of a tool on its way to its server, permitted and as the server will get it. */
export interface CachedCall {
  readonly session: Session;
  readonly upstream: ServerDefinition;
  /** With the server's own name of the tool, and without what is not for the server. */
  readonly message: Message;
  readonly channel: Channel;
  readonly caller: Caller | undefined;
  readonly headers: () => Readonly<Record<string, string>>;
  readonly correlationId: string;
  readonly entry: EntryDraft;
  /** How the client described itself. */
  readonly capabilities: string;
  /** All else that decides how the same result is told: the address, the era, the revision. */
  readonly manner: string;
  readonly ask: AskServer;
}

export interface CachedCalls {
  /** Whether results of any tool of this server may be given again. */
  keepsAny(server: string): boolean;
  /** Whether results of this tool may be given again. */
  concerns(server: ServerDefinition, message: Message): boolean;
  /** The answer, from the cache or by `forward`, which is given the channel to use. */
  answer(call: CachedCall, forward: (channel: Channel) => Promise<Reply>): Promise<Reply>;
}

export interface CachedCallsParts {
  readonly cache: ResultCache;
  readonly config: () => Config;
  readonly catalog: Catalog;
  readonly resolution: Resolution;
  /** Told of each look into the cache. */
  readonly looked: (server: string, found: boolean) => void;
  /** Whether the session works in a folder of its own. */
  readonly isApart: (session: Session) => boolean;
}

export function createCachedCalls(parts: CachedCallsParts): CachedCalls {
  const { cache, config, catalog, resolution, looked, isApart } = parts;
  const rules = new WeakMap<Config, Map<string, string>>();
  const definitions = new WeakMap<Offer, Map<string, string>>();

  function settingsFor(server: string) {
    const all = config().servers;
    const cached = Object.hasOwn(all, server) ? all[server]?.cache : undefined;
    return cached === undefined || Object.keys(cached).length === 0 ? undefined : cached;
  }

  function settingFor(server: ServerDefinition, message: Message) {
    const cached = settingsFor(server.name);
    const tool = cached === undefined ? undefined : toolOf(message);
    return tool !== undefined && cached !== undefined && Object.hasOwn(cached, tool) ? cached[tool] : undefined;
  }

  /** Of all that the configuration says about what a call to this server may do. */
  function rulesRevision(server: string): string {
    const now = config();
    const known = rules.get(now) ?? new Map<string, string>();
    rules.set(now, known);
    let revision = known.get(server);
    if (revision === undefined) {
      revision = sha256(canonicalJson([now.rules, now.workspaces, now.servers[server], now.context]));
      known.set(server, revision);
    }
    return revision;
  }

  /** The tool as its server describes it; undefined when that is not known, and then nothing is kept. */
  async function definitionOf({
    session,
    upstream,
    message,
    capabilities,
    ask,
  }: CachedCall): Promise<string | undefined> {
    const owner = resolution.listOwner(session, upstream);
    const { offer } = await catalog.look(upstream, { capabilities, owner, place: placeOf(session), ask });
    if (offer === undefined) return undefined;
    let known = definitions.get(offer);
    if (known === undefined) {
      known = new Map(offer.tools.map((text) => [(JSON.parse(text) as { name?: string })?.name ?? '', sha256(text)]));
      definitions.set(offer, known);
    }
    return known.get(toolOf(message) ?? '');
  }

  function partitionFor({ session, upstream, message }: CachedCall): Partition | undefined {
    const setting = settingFor(upstream, message);
    if (setting === undefined) return undefined;
    const now = resolution.admit(session, upstream);
    // Those who are anonymous are not one person, and folders of their own hold different files.
    const alone = (setting.per === 'user' && now.userId === anonymousUser) || isApart(now);
    const per = alone ? 'session' : setting.per;
    return partitionOf(per, now, resolution.personal(now, upstream));
  }

  function keyOf(call: CachedCall, digest: string, definition: string, partition: Partition | undefined): string {
    const { upstream, message, headers, capabilities, manner } = call;
    const facts = [
      upstream.name,
      upstream.definitionHash,
      toolOf(message),
      definition,
      digest,
      partition?.name ?? null,
    ];
    const told = [rulesRevision(upstream.name), manner, capabilities, canonicalJson(headers())];
    return sha256(JSON.stringify([...facts, ...told]));
  }

  /** A user may have been given something since, and the server have answered to that: it is not for those who share. */
  function isStill(key: string, call: CachedCall, digest: string, definition: string): boolean {
    try {
      return keyOf(call, digest, definition, partitionFor(call)) === key;
    } catch {
      return false;
    }
  }

  return {
    keepsAny: (server) => settingsFor(server) !== undefined,
    concerns: (server, message) => settingFor(server, message) !== undefined,

    async answer(call, forward) {
      const digest = callDigest(call.message);
      const definition = digest === undefined ? undefined : await definitionOf(call);
      const partition = partitionFor(call);
      const setting = settingFor(call.upstream, call.message);
      if (digest === undefined || definition === undefined || partition === undefined || setting === undefined) {
        return forward(call.channel);
      }
      const key = keyOf(call, digest, definition, partition);
      const found = cache.find(key);
      if (found !== undefined) {
        const kept = await found;
        if (call.channel.isGone()) return accepted;
        // While it waited, the session may have been narrowed or the rules changed.
        if (kept !== undefined && keyOf(call, digest, definition, partitionFor(call)) === key) {
          looked(call.upstream.name, true);
          return again(kept, call);
        }
      }
      looked(call.upstream.name, false);
      let reply: Reply | undefined;
      await cache.lead(key, partition.owner, async () => {
        const listening = listenedTo(call);
        reply = await forward(listening.channel);
        if (!listening.silent() || !isStill(key, call, digest, definition)) return undefined;
        const { severalUsers } = partition;
        return mayKeep(reply, { ttlMs: setting.ttlSeconds * 1000, severalUsers, from: call.correlationId });
      });
      return reply as Reply;
    },
  };
}

function again(kept: Kept, { message, entry }: CachedCall): Reply {
  entry.cached = kept.from;
  const bytes = applyEdits(kept.bytes, [replaceValue(kept.id, message.id as string)]);
  return { kind: 'message', bytes, ...(kept.status === undefined ? {} : { status: kept.status }) };
}

/** The same channel, which remembers whether anything was said or asked before the answer: that cannot be said again. */
function listenedTo({ channel, caller }: CachedCall): { readonly channel: Channel; silent(): boolean } {
  const asked = caller?.pushed();
  let said = false;
  return {
    silent: () => !said && caller?.pushed() === asked,
    channel: {
      owner: channel.owner,
      emit(message) {
        said = true;
        return channel.emit(message);
      },
      onDrain: (listener) => channel.onDrain(listener),
      isGone: () => channel.isGone(),
      onGone: (listener) => channel.onGone(listener),
      close: () => channel.close(),
    },
  };
}
