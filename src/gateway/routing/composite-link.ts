import { randomUUID } from 'node:crypto';
import { AmbitError } from '../../errors.ts';
import { findMember, readRawValue } from '../../protocol/json/scan.ts';
import { type Message, readMessage } from '../../protocol/message.ts';
import { sessionScopeKey } from '../../sessions/narrowed-sessions.ts';
import type { Session } from '../../sessions/session.ts';
import type { ServerDefinition } from '../../upstreams/definition.ts';
import type { Caller, Callers } from '../../upstreams/links/caller.ts';
import { createOwnCall, type Link } from '../../upstreams/links/link.ts';
import type { Links } from '../../upstreams/links/links.ts';
import { allServers } from '../exchange.ts';

/** The link of a handshake-era client of all servers. It has a child client for each server that was used. */
export interface CompositeLink extends Link {
  readonly initialize: Message;
  /** Returns the child client of a server. `session` may have been restricted since the handshake. */
  child(parent: Caller, server: ServerDefinition, session: Session): Promise<Caller>;
  readonly children: ReadonlyMap<string, Promise<Caller>>;
  /** The answers of the servers to the handshake, by the name of the server. */
  readonly answers: ReadonlyMap<string, Message>;
  /** The capabilities that each server declared to its child client. */
  readonly declared: ReadonlyMap<string, Record<string, unknown>>;
  /** The log level that the client asked for. Servers get it when they are first used. */
  logLevel: string | undefined;
}

export function createCompositeLink(
  opener: Session,
  initialize: Message,
  links: Links,
  callers: Callers,
): CompositeLink {
  const children = new Map<string, Promise<Caller>>();
  const answers = new Map<string, Message>();
  const declared = new Map<string, Record<string, unknown>>();
  const { id: sessionId, workspaceId } = opener;
  const quiet = nullLink({ sessionId, scopeKey: sessionScopeKey(opener), server: allServers, era: 'handshake' });

  async function openChild(parent: Caller, server: ServerDefinition, session: Session): Promise<Caller> {
    const acting = { session, correlationId: randomUUID() };
    const call = { ...createOwnCall('initialize', '{}'), acting, message: initialize, cancelOnGone: false };
    const { link, version, reply } = await links.handshake(session, server, call);
    if (version === undefined) {
      const words = reply.kind === 'message' ? reply.bytes.toString().slice(0, 200) : '';
      throw new AmbitError('UPSTREAM_FAILED', { what: `The server "${server.name}" refused the handshake: ${words}` });
    }
    if (reply.kind === 'message') answers.set(server.name, readMessage(reply.bytes));
    declared.set(server.name, reply.kind === 'message' ? readCapabilities(readMessage(reply.bytes)) : {});
    const child = callers.open({ sessionId, workspaceId, server: server.name, version, link, initialize, parent });
    const initialized = readMessage(Buffer.from('{"jsonrpc":"2.0","method":"notifications/initialized"}'));
    link.notify({ ...call, message: initialized, caller: child });
    if (child.stream !== undefined) link.listen(child);
    if (composite.logLevel !== undefined) {
      const level = createOwnCall('logging/setLevel', JSON.stringify({ level: composite.logLevel }));
      await link.request({ ...level, caller: child, cancelOnGone: false }).catch(() => {});
    }
    return child;
  }

  const composite: CompositeLink = {
    ...quiet,
    initialize,
    children,
    answers,
    declared,
    logLevel: undefined,
    child(parent, server, session) {
      const known = children.get(server.name);
      if (known !== undefined) {
        return known.then((child) => {
          if (!links.isRetired(child.link, sessionId)) return child;
          // The definition of the server has changed: the child is opened again, once.
          if (children.get(server.name) === known) {
            children.delete(server.name);
            callers.forget(child);
          }
          return composite.child(parent, server, session);
        });
      }
      const opening = openChild(parent, server, session);
      children.set(server.name, opening);
      opening.catch(() => {
        // A server that failed once may work the next time.
        if (children.get(server.name) === opening) children.delete(server.name);
      });
      return opening;
    },
    detach(caller) {
      quiet.detach(caller);
      for (const child of children.values()) child.then(callers.end, () => {});
      children.clear();
    },
    listen() {
      for (const child of children.values())
        child.then(
          (each) => each.link.listen(each),
          () => {},
        );
    },
  };
  return composite;
}

/** Reads the capabilities that a server declares in its answer to `initialize` or `server/discover`. */
export function readCapabilities({ bytes, result }: Message): Record<string, unknown> {
  const member = findMember(result?.shape, 'capabilities');
  const declared: unknown = member === undefined ? undefined : JSON.parse(readRawValue(bytes, member));
  return typeof declared === 'object' && declared !== null ? { ...declared } : {};
}

/** A link without a server that does nothing. Other links are built on it. */
export function nullLink(of: Pick<Link, 'sessionId' | 'scopeKey' | 'server' | 'era'>): Link {
  let closed = false;
  return {
    ...of,
    callerCount: () => 0,
    isBusy: () => false,
    isClosed: () => closed,
    async request() {
      throw new AmbitError('INTERNAL');
    },
    notify() {},
    answer() {},
    cancel() {},
    attach() {},
    detach() {
      closed = true;
    },
    listen() {},
    dropSession() {},
    sweep() {},
    async close() {
      closed = true;
    },
  };
}
