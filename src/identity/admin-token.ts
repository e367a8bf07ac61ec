import { join } from 'node:path';
import { privateSecret } from '../lib/fs/private-files.ts';
import { digestsEqual, mintToken, tokenDigest } from './token.ts';

export interface AdminToken {
  /** Where whoever runs Ambit finds it. The token itself is shown nowhere else. */
  readonly file: string;
  /** Whether an Authorization header carries it; compared in constant time. */
  isCarriedBy(authorization: string | undefined): boolean;
}

/** The credential of the control API over HTTP, in a file that only the user who runs Ambit can read. */
export async function openAdminToken(dataDir: string): Promise<AdminToken> {
  const file = join(dataDir, 'admin-token');
  const digest = tokenDigest(await privateSecret(file, () => mintToken('amba', 'admin').token));
  return {
    file,
    isCarriedBy(authorization) {
      const given = /^Bearer +([\x21-\x7e]{1,4096})$/i.exec(authorization ?? '')?.[1];
      return given !== undefined && digestsEqual(tokenDigest(given), digest);
    },
  };
}
