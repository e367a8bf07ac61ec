import { createHash } from 'node:crypto';
import { tmpdir } from 'node:os';
import { join } from 'node:path';

// Unix sockets hold at most 108 bytes of path on Linux, 104 on macOS, the closing zero included.
const longest = 100;

/** Where the control socket of a data directory lies; elsewhere, under a hash, when its path would be too long. */
export function controlSocketPath(dataDir: string, env: NodeJS.ProcessEnv): string {
  const usual = join(dataDir, 'control.sock');
  if (Buffer.byteLength(usual) <= longest) return usual;
  const hash = createHash('sha256').update(dataDir).digest('hex').slice(0, 16);
  const uid = process.getuid?.() ?? 0;
  return join(env.XDG_RUNTIME_DIR ?? join(tmpdir(), `ambit-${uid}`), `ambit-${hash}`, 'control.sock');
}
