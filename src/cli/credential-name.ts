import type { CredentialName, GivenCredentials } from '../gateway/given-credentials.ts';
import { type Flag, type Invocation, text, UsageFault } from './command.ts';

export const credentialFlags = {
  user: { type: 'string', value: 'U', help: 'whose' },
  server: { type: 'string', value: 'S', help: 'for which server' },
  env: { type: 'string', value: 'NAME', help: 'the variable its process finds it in' },
  header: { type: 'string', value: 'NAME', help: 'the header it is sent in' },
} as const satisfies Readonly<Record<string, Flag>>;

export function credentialName(invocation: Invocation): CredentialName {
  const [userId, server] = [text(invocation, 'user'), text(invocation, 'server')];
  const [env, header] = [text(invocation, 'env'), text(invocation, 'header')];
  if (userId === undefined) throw new UsageFault('--user U is missing');
  if (server === undefined) throw new UsageFault('--server S is missing');
  if ((env === undefined) === (header === undefined)) throw new UsageFault('say either --env NAME or --header NAME');
  return { userId, server, ...(env === undefined ? { header } : { env }) };
}

/** The credentials of this configuration without a gateway: on the store itself, for as long as the work takes. */
export async function onTheStore<T>(
  invocation: Invocation,
  work: (credentials: GivenCredentials) => T | Promise<T>,
): Promise<T> {
  // Most commands need none of this.
  const { openStoredCredentials } = await import('../gateway/stored-credentials.ts');
  const { declaredServers } = await import('./declared-servers.ts');
  const { places, config, servers, approvals } = await declaredServers(invocation);
  approvals.close();
  const { credentials, close } = await openStoredCredentials(config, servers, places.dataDir);
  try {
    return await work(credentials);
  } finally {
    await close();
  }
}
