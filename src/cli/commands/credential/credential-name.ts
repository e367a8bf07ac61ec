import type { CredentialName } from '../../../upstreams/auth/credential-admin.ts';
import { type Flag, type Invocation, text, UsageFault } from '../../command.ts';

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
