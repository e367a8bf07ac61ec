import { type Member, stringAt } from './json/scan.ts';
import type { Message } from './message.ts';

/** What a modern request says about the session it means; what it is worth depends on who says it. */
export interface ChosenSession {
  /** `ambit/use-session`: an id. */
  readonly id?: string;
  /** A host's own name for the conversation. */
  readonly hint?: string;
}

/** Hosts that name their conversations, the more telling first. */
const hints = ['openai/session', 'sessionID'] as const;
const longest = 512;

/** Undefined when it contradicts itself: a key twice, or a value that is no text. */
export function chosenSession({ bytes, meta }: Message): ChosenSession | undefined {
  const found = new Map<string, string>();
  for (const member of meta?.members ?? []) {
    if (member.key !== 'ambit/use-session' && !(hints as readonly string[]).includes(member.key)) continue;
    const value = textOf(bytes, member);
    if (value === undefined && member.key !== 'ambit/use-session') continue;
    if (value === undefined || found.has(member.key)) return undefined;
    found.set(member.key, value);
  }
  const id = found.get('ambit/use-session');
  if (id !== undefined) return { id };
  const named = hints.find((key) => (found.get(key) ?? '') !== '');
  return named === undefined ? {} : { hint: `${named} ${found.get(named)}` };
}

function textOf(bytes: Buffer, member: Member): string | undefined {
  const value = stringAt(bytes, member);
  return value === undefined || value.length > longest ? undefined : value;
}
