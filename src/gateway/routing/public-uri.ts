import type { ServerDefinition } from '../../upstreams/definition.ts';
import { type AllClaims, isClaimedBeside, type Place } from './claims.ts';

/** An address or a template as it names the server it is meant for. */
export function namingServer(server: string, uri: string): string {
  return `ambit+${server}:${uri}`;
}

/**
 * Reads an address with `ambit+NAME:` in front: the server, where it is available, and the server's own address.
 * Undefined for any other address. No server can have such an address itself.
 */
export function readNamedUri(
  available: readonly ServerDefinition[],
  uri: string,
): { readonly server: ServerDefinition | undefined; readonly uri: string } | undefined {
  const named = /^\s*ambit\+([^:]*):(.*)$/is.exec(uri);
  if (named === null) return undefined;
  const name = named[1]?.toLowerCase();
  return { server: available.find((each) => each.name === name), uri: named[2] ?? '' };
}

/**
 * The address or template of a server as clients are shown it: with the server's name in front where another server uses
 * the same place. A template that does not say its place could mean anything of the others.
 */
export function publicUri(server: string, uri: string, place: Place | undefined, all: AllClaims): string {
  const isShared =
    place === undefined ? [...all.keys()].some((name) => name !== server) : isClaimedBeside(all, place, server);
  return isShared || readNamedUri([], uri) !== undefined ? namingServer(server, uri) : uri;
}
