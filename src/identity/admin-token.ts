import { join } from 'node:path';
import { loadOrCreateSecret } from '../lib/fs/private-files.ts';
import { digestsEqual, mintToken, tokenDigest } from './token.ts';

export interface AdminToken {
  /** The file with the token, which is shown nowhere else. */
  readonly file: string;
  /** Tells whether an Authorization header contains the token, in constant time. */
  matches(authorization: string | undefined): boolean;
}

/** Opens the credential of the control API over HTTP, in a file that only the user of the gateway can read. */
export async function openAdminToken(dataDir: string): Promise<AdminToken> {
  const file = join(dataDir, 'admin-token');
  const digest = tokenDigest(await loadOrCreateSecret(file, () => mintToken('amba', 'admin').token));
  return {
    file,
    matches(authorization) {
      const presented = /^Bearer +([\x21-\x7e]{1,4096})$/i.exec(authorization ?? '')?.[1];
      return presented !== undefined && digestsEqual(tokenDigest(presented), digest);
    },
  };
}
