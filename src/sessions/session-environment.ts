import { resolve } from 'node:path';
import { isGivenId, type SessionDraft } from './session.ts';

/** What the environment says about the session of whoever started us. */
export interface Named {
  readonly id: string | undefined;
  readonly token: string | undefined;
  readonly storeDir: string | undefined;
  readonly includeMeta: boolean | undefined;
  readonly draft: SessionDraft;
}

type Fault = (what: string) => Error;

/**
 * `AMBIT_SESSION_ID` and its companions, for those who start us without a configuration. An empty value is none; what
 * cannot be meant is thrown as whoever asks wants it.
 */
export function readNamed(env: Readonly<Record<string, string | undefined>>, fault: Fault): Named {
  const given = (name: string) => env[name] || undefined;
  const id = given('AMBIT_SESSION_ID');
  if (id !== undefined && !isGivenId(id)) throw fault('AMBIT_SESSION_ID must be 8 to 64 of a-z, 0-9 and "-"');
  const [userId, agentId] = [given('AMBIT_USER_ID'), given('AMBIT_AGENT_ID')];
  const ttlSeconds = wholeSeconds(given('AMBIT_SESSION_TTL_SECONDS'), fault);
  const storeDir = given('AMBIT_SESSION_STORE_DIR');
  return {
    id,
    token: given('AMBIT_SESSION_TOKEN'),
    storeDir: storeDir === undefined ? undefined : resolve(storeDir),
    includeMeta: truth(given('AMBIT_SESSION_INCLUDE_META'), fault),
    draft: {
      ...(id === undefined ? {} : { id }),
      ...(userId === undefined ? {} : { userId }),
      ...(agentId === undefined ? {} : { agentId }),
      ...(ttlSeconds === undefined ? {} : { ttlSeconds }),
    },
  };
}

function wholeSeconds(text: string | undefined, fault: Fault): number | undefined {
  if (text === undefined) return undefined;
  if (/^[1-9][0-9]{0,8}$/.test(text)) return Number(text);
  throw fault('AMBIT_SESSION_TTL_SECONDS must be a whole number of seconds');
}

function truth(text: string | undefined, fault: Fault): boolean | undefined {
  if (text === undefined) return undefined;
  if (/^(?:1|true|yes|on)$/i.test(text)) return true;
  if (/^(?:0|false|no|off)$/i.test(text)) return false;
  throw fault('AMBIT_SESSION_INCLUDE_META is true or false');
}
