import { createHash } from 'node:crypto';
import { statSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { AmbitError } from '../../errors.ts';

// Unix sockets hold at most 108 bytes of path on Linux, 104 on macOS, the closing zero included.
const longest = 100;

/** Where the control socket of a data directory lies; elsewhere, under a hash, when its path would be too long. */
export function controlSocketPath(dataDir: string, env: NodeJS.ProcessEnv): string {
  const usual = join(dataDir, 'control.sock');
  if (Buffer.byteLength(usual) <= longest) return usual;
  const hash = createHash('sha256').update(dataDir).digest('hex').slice(0, 16);
  const uid = process.getuid?.() ?? 0;
  // One folder only: in a shared temporary directory nobody can exchange it, since that is sticky.
  return join(env.XDG_RUNTIME_DIR || tmpdir(), `ambit-${uid}-${hash}`, 'control.sock');
}

/** Where somebody else could write, the socket might be theirs. */
export function assertPrivate(folder: string): void {
  const { uid, mode } = statSync(folder);
  if (uid === (process.getuid?.() ?? uid) && (mode & 0o022) === 0) return;
  throw new AmbitError('CONFIG_INVALID', {
    what: `The folder of the control socket belongs to, or can be written by, somebody else.`,
    hint: 'Choose another data directory with --data-dir, or correct its owner and mode.',
  });
}
