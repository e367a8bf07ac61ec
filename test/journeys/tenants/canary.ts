import { randomBytes } from 'node:crypto';

/** One who can write. Two tenants differ in at least one of these. */
export interface Identity {
  readonly number: number;
  readonly userId: string;
  /** Empty for none. */
  readonly workspace: 'garden' | 'kitchen' | 'apart' | '';
  readonly trust: 'direct' | 'sandboxed';
  readonly era: 'modern' | 'handshake';
  readonly entrance: 'http' | 'stdio';
  /** All servers at one address, or each at its own. */
  readonly address: 'all' | 'one';
}

/**
 * The readers of a canary: this session, all sessions of the user, those of them in the same workspace at the same trust
 * level, or all who work in the same folder; and for names of files both of the last, since the search tells them.
 */
export type Audience = 'session' | 'user' | 'team' | 'folder' | 'names';

export interface Canary {
  readonly text: string;
  readonly place: string;
  readonly by: Identity;
  readonly audience: Audience;
}

/** Short enough for a name. Each half is known by itself, so that a text that was cut is found too. */
const pattern = /zq[xy]([0-9a-z]{10})/gi;

export interface Canaries {
  plant(by: Identity, place: string, audience?: Audience): string;
  /** All whose text is in there, as it is or encoded. */
  in(text: string): Canary[];
  all(): Canary[];
}

export function createCanaries(): Canaries {
  const known = new Map<string, Canary>();
  return {
    plant(by, place, audience = 'session') {
      const id = BigInt(`0x${randomBytes(8).toString('hex')}`)
        .toString(36)
        .padStart(10, '0')
        .slice(-10);
      const text = `zqx${id}zqy${id}`;
      known.set(id, { text, place, by, audience });
      return text;
    },
    in(text) {
      const found = new Set<Canary>();
      for (const version of decodeAll(text)) {
        for (const [, id = ''] of version.matchAll(pattern)) {
          const canary = known.get(id.toLowerCase());
          if (canary !== undefined) found.add(canary);
        }
      }
      return [...found];
    },
    all: () => [...known.values()],
  };
}

/** The text as it is, and as whoever decodes it would read it. */
function* decodeAll(text: string): Generator<string> {
  yield text;
  yield text.replace(/%([0-9a-f]{2})/gi, (_, hex: string) => String.fromCharCode(Number.parseInt(hex, 16)));
  yield text.replace(/\\+u([0-9a-f]{4})/gi, (_, hex: string) => String.fromCharCode(Number.parseInt(hex, 16)));
  for (const [run] of text.matchAll(/[A-Za-z0-9+/_-]{16,}/g)) {
    // Where in the run the encoded text begins is not known.
    for (let from = 0; from < 4; from++) yield Buffer.from(run.slice(from), 'base64').toString('latin1');
  }
  for (const [run] of text.matchAll(/[0-9a-f]{24,}/gi)) {
    for (const from of [0, 1]) yield Buffer.from(run.slice(from), 'hex').toString('latin1');
  }
}

/** Sessions in a folder of their own, and those in none, share files with nobody. */
function isSameFolder(one: Identity, other: Identity): boolean {
  return one.workspace === other.workspace && one.workspace !== 'apart' && one.workspace !== '';
}

export function isReadableBy({ by, audience }: Canary, reader: Identity): boolean {
  if (by.number === reader.number) return true;
  if (audience === 'user') return by.userId === reader.userId;
  const isTeam = by.userId === reader.userId && by.workspace === reader.workspace && by.trust === reader.trust;
  if (audience === 'team' || (audience === 'names' && isTeam)) return isTeam;
  return (audience === 'folder' || audience === 'names') && isSameFolder(by, reader);
}
