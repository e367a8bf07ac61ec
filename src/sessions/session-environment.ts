import { resolve } from 'node:path';
import { isSuppliedId, type SessionDraft } from './session.ts';

/** The session that the environment variables of this process name. */
export interface SessionEnvironment {
  readonly id: string | undefined;
  readonly token: string | undefined;
  readonly storeDir: string | undefined;
  readonly includeMeta: boolean | undefined;
  readonly draft: SessionDraft;
}

type CreateError = (what: string) => Error;

/**
 * Reads `AMBIT_SESSION_ID` and its companions. An empty value counts as none; an invalid one is thrown as `createError`
 * makes it.
 */
export function readSessionVariables(
  env: Readonly<Record<string, string | undefined>>,
  createError: CreateError,
): SessionEnvironment {
  const readVariable = (name: string) => env[name] || undefined;
  const id = readVariable('AMBIT_SESSION_ID');
  if (id !== undefined && !isSuppliedId(id))
    throw createError('AMBIT_SESSION_ID must have 8 to 64 characters of a-z, 0-9 and "-"');
  const [userId, agentId] = [readVariable('AMBIT_USER_ID'), readVariable('AMBIT_AGENT_ID')];
  const ttlSeconds = readSeconds(readVariable('AMBIT_SESSION_TTL_SECONDS'), createError);
  const storeDir = readVariable('AMBIT_SESSION_STORE_DIR');
  return {
    id,
    token: readVariable('AMBIT_SESSION_TOKEN'),
    storeDir: storeDir === undefined ? undefined : resolve(storeDir),
    includeMeta: readBoolean(readVariable('AMBIT_SESSION_INCLUDE_META'), createError),
    draft: {
      ...(id === undefined ? {} : { id }),
      ...(userId === undefined ? {} : { userId }),
      ...(agentId === undefined ? {} : { agentId }),
      ...(ttlSeconds === undefined ? {} : { ttlSeconds }),
    },
  };
}

function readSeconds(text: string | undefined, createError: CreateError): number | undefined {
  if (text === undefined) return undefined;
  if (/^[1-9][0-9]{0,8}$/.test(text)) return Number(text);
  throw createError('AMBIT_SESSION_TTL_SECONDS must be a whole number of seconds');
}

function readBoolean(text: string | undefined, createError: CreateError): boolean | undefined {
  if (text === undefined) return undefined;
  if (/^(?:1|true|yes|on)$/i.test(text)) return true;
  if (/^(?:0|false|no|off)$/i.test(text)) return false;
  throw createError('AMBIT_SESSION_INCLUDE_META must be true or false');
}
