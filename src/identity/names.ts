import { AmbitError } from '../errors.ts';
import { teamName, userName } from '../lib/text/name-patterns.ts';
import { anonymousUser } from './principal.ts';

export function checkUserName(name: string): void {
  if (!userName.test(name)) {
    refuse('That is no name of a user: it has up to 128 letters, digits and "._@|:-", a letter or digit first.');
  }
  if (name === anonymousUser) refuse(`"${anonymousUser}" is the name of those who prove none.`);
}

/** Each once, in order. */
export function checkTeamNames(names: readonly string[]): string[] {
  if (names.length > 100) refuse('A user is in at most 100 teams.');
  for (const name of names) {
    if (!teamName.test(name)) {
      refuse('That is no name of a team: it has up to 64 letters, digits, ".", "_" and "-", a letter or digit first.');
    }
  }
  return [...new Set(names)];
}

function refuse(what: string): never {
  throw new AmbitError('REQUEST_INVALID', { what });
}
