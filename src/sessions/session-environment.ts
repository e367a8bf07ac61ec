import { resolve } from 'node:path';
import { userNamePattern } from '../lib/text/name-patterns.ts';
import { isSuppliedId, type SessionDraft } from './session.ts';

/** The session that the environment variables of this process name. */
export interface SessionEnvironment {
  readonly id: string | undefined;
  readonly token: string | undefined;
  readonly storeDir: string | undefined;
  readonly includeMeta: boolean | undefined;
  readonly workspacePath: string | undefined;
  readonly draft: SessionDraft;
}

type CreateError = (what: string) => Error;

/**
 * Reads `AMBIT_SESSION_ID` and its companions, or the same names with another prefix. An empty value counts as none; an
 * invalid one is thrown as `createError` makes it.
 */
export function readSessionVariables(
  env: Readonly<Record<string, string | undefined>>,
  createError: CreateError,
  prefix = 'AMBIT',
): SessionEnvironment {
  const readVariable = (name: string) => env[`${prefix}_${name}`] || undefined;
  const id = readVariable('SESSION_ID');
  if (id !== undefined && !isSuppliedId(id))
    throw createError(`${prefix}_SESSION_ID must have 8 to 64 characters of a-z, 0-9 and "-"`);
  const [userId, agentId] = ['USER_ID', 'AGENT_ID'].map((name) => {
    const value = readVariable(name);
    if (value === undefined || userNamePattern.test(value)) return value;
    throw createError(`${prefix}_${name} must be short, start with a letter or digit, and contain no spaces`);
  });
  const ttlSeconds = readSeconds(readVariable('SESSION_TTL_SECONDS'), prefix, createError);
  const storeDir = readVariable('SESSION_STORE_DIR');
  return {
    id,
    token: readVariable('SESSION_TOKEN'),
    storeDir: storeDir === undefined ? undefined : resolve(storeDir),
    includeMeta: readBoolean(readVariable('SESSION_INCLUDE_META'), prefix, createError),
    workspacePath: readVariable('WORKSPACE_PATH'),
    draft: {
      ...(id === undefined ? {} : { id }),
      ...(userId === undefined ? {} : { userId }),
      ...(agentId === undefined ? {} : { agentId }),
      ...(ttlSeconds === undefined ? {} : { ttlSeconds }),
    },
  };
}

function readSeconds(text: string | undefined, prefix: string, createError: CreateError): number | undefined {
  if (text === undefined) return undefined;
  if (/^[1-9][0-9]{0,8}$/.test(text)) return Number(text);
  throw createError(`${prefix}_SESSION_TTL_SECONDS must be a whole number of seconds, at least 1`);
}

function readBoolean(text: string | undefined, prefix: string, createError: CreateError): boolean | undefined {
  if (text === undefined) return undefined;
  if (/^(?:1|true|yes|on)$/i.test(text)) return true;
  if (/^(?:0|false|no|off)$/i.test(text)) return false;
  throw createError(`${prefix}_SESSION_INCLUDE_META must be true or false`);
}
