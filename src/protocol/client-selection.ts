import { findMember, type JsonMember, type ObjectShape, readShape, readStringValue } from './json/scan.ts';
import type { Message } from './message.ts';

/** A request as far as it selects a session or a workspace. */
export type SelectingRequest = Pick<Message, 'bytes' | 'meta'>;

/** The workspace that a client names: none, one, or more than one, which counts as a contradiction. */
export type AnnouncedWorkspace = string | undefined | typeof contradictory;

export const contradictory = Symbol('contradictory');

/** Reads `_meta.<key>.workspace` and `_meta["<key>.workspace"]`. Empty strings and other types say nothing. */
export function createWorkspaceReader(keys: readonly string[]): (request: SelectingRequest) => AnnouncedWorkspace {
  const holders = new Set(keys);
  const dotted = new Set(keys.map((key) => `${key}.workspace`));
  return function readAnnouncedWorkspace({ bytes, meta }) {
    let found: AnnouncedWorkspace;
    for (const member of meta?.members ?? []) {
      if (holders.has(member.key))
        found = combineAnnounced(found, readNestedWorkspace(bytes, readShape(bytes, member)));
      else if (dotted.has(member.key)) found = combineAnnounced(found, readStringValue(bytes, member));
    }
    return found;
  };
}

function readNestedWorkspace(bytes: Buffer, holder: ObjectShape | undefined): AnnouncedWorkspace {
  const written = holder?.members.filter(({ key }) => key === 'workspace') ?? [];
  if (written.length > 1) return contradictory;
  return readStringValue(bytes, findMember(holder, 'workspace'));
}

function combineAnnounced(one: AnnouncedWorkspace, other: AnnouncedWorkspace): AnnouncedWorkspace {
  if (other === undefined || other === '') return one;
  return one === undefined || one === other ? other : contradictory;
}

/** The session that a modern request names. Its weight depends on who sends it. */
export interface ChosenSession {
  /** The id in `ambit/use-session`. It takes precedence. */
  readonly id?: string;
  /** A host's own name for the conversation. */
  readonly hint?: string;
}

/** Keys under which hosts name their conversations, the more specific first. */
const hintKeys = ['openai/session', 'sessionID'] as const;
/** The keys that `readChosenSession` reads. */
export const sessionKeys: readonly string[] = ['ambit/use-session', ...hintKeys];
const maxTextLength = 512;

/** Undefined if it contradicts itself: a key twice, or a value that is no text. */
export function readChosenSession({ bytes, meta }: SelectingRequest): ChosenSession | undefined {
  const found = new Map<string, string>();
  for (const member of meta?.members ?? []) {
    if (member.key !== 'ambit/use-session' && !(hintKeys as readonly string[]).includes(member.key)) continue;
    const value = readShortText(bytes, member);
    if (value === undefined && member.key !== 'ambit/use-session') continue;
    if (value === undefined || found.has(member.key)) return undefined;
    found.set(member.key, value);
  }
  const id = found.get('ambit/use-session');
  const named = hintKeys.find((key) => (found.get(key) ?? '') !== '');
  return {
    ...(id === undefined ? {} : { id }),
    ...(named === undefined ? {} : { hint: `${named} ${found.get(named)}` }),
  };
}

function readShortText(bytes: Buffer, member: JsonMember): string | undefined {
  const value = readStringValue(bytes, member);
  return value === undefined || value.length > maxTextLength ? undefined : value;
}
